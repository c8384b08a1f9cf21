// SPDX-License-Identifier: Apache-2.0
/* The iteration time of classes from their bucket-ready times alone: eqs. (4.6) and (4.7) of docs/method.md with all-reduces that take a
 * share of the compute thread. What the replayer knows beside that (noise) is left to calibration; host slowdown is in the work
 * (host_slowdown.h). */
#ifndef QSYNC_PLANNER_PACE_H
#define QSYNC_PLANNER_PACE_H

#include "qsync/costmodel.h"

typedef struct qs__update_item {
    int bucket; /* >= 0: wait for its sums */
    double us;  /* else work */
} qs__update_item;

/* One rank of a class. Work is microseconds of steps; it takes longer beside all-reduces. */
typedef struct qs__pace_class {
    bool present;    /* it has ranks */
    double start_us; /* batch loading and the training loop, before the first step */
    double *ready;   /* (buckets) work from the first step to the start of each all-reduce */
    double rest_us;  /* work from the first step to the update */
    int items;
    const qs__update_item *item; /* the update in order */
} qs__pace_class;

typedef struct qs__pace {
    int classes, buckets;
    qs__pace_class *class_;
    const qs_all_reduce_cost *reduce; /* (buckets) */
    double *start, *end;              /* (buckets) scratch: of the all-reduces */
    struct qs__pace_clock {
        double now, done; /* time; work behind it */
        int window;       /* first all-reduce that does not lie wholly before `now` */
    } * clock;            /* (classes) scratch */
} qs__pace;

/* Iteration time; only >= 0: as if that class were alone with the all-reduces. */
double qs__pace_iteration(qs__pace *one, int only);

#endif
