// SPDX-License-Identifier: Apache-2.0
/* What measuring plans (plans.c) and reading figures off their samples (rows.c) share. */
#ifndef QSYNC_PROFILER_PLANS_H
#define QSYNC_PROFILER_PLANS_H

#include "profiler_internal.h"

enum { QS__ALONE_ROUND = -1, ALONE_VISITS = 2 };

/* One plan under measurement. */
typedef struct qs__plan_run {
    qs_schedule *schedule;
    qs_executor *executor;
    bool recording;
    int timed, capacity;  /* steps */
    double *step;         /* (capacity × schedule steps) microseconds */
    double *whole, *data; /* (capacity) microseconds */
    int *round;           /* (capacity) in which it was timed; QS__ALONE_ROUND: while the other ranks waited */
    double median_us;     /* of whole steps */
    double confidence;    /* of that median, relative */
} qs__plan_run;

typedef struct qs__campaign {
    qs__profiler *profiler;
    qs__plan_run *plan;
    int plans, visits; /* of this rank; of a round: the most plans of any rank */
    bool again;        /* visits go on for the others' sake */
    int round, most_rounds, good_rounds, dropped_rounds;
    int64_t steps;            /* run so far */
    double quantum;           /* seconds of a visit; 0: a count of steps */
    double confidence, drift; /* worst plan's, worst round's */
    double pooled;            /* confidence of kernels, which several plans hold */
    qs__samples *scratch;
} qs__campaign;

/* rows.c: medians over time of every kernel at every place, into the cases and the profiler's lists. */
qs_status qs__samples_keep(qs__campaign *all);

#endif
