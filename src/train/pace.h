// SPDX-License-Identifier: Apache-2.0
/* Which change of pace lasts, and is another plan worth it? Rules on numbers, the same on all ranks. */
#ifndef QSYNC_TRAIN_PACE_H
#define QSYNC_TRAIN_PACE_H

#include "qsync/pace.h"

typedef enum qs__pace_kind { QS__COMPUTE, QS__MEMORY, QS__ALL_REDUCE } qs__pace_kind;

/* What changed most. */
typedef struct qs__paced {
    int class_index;
    qs__pace_kind kind;
    double from, to;
} qs__paced;

typedef struct qs__pace_changes {
    int classes;
    int64_t every;    /* steps between looks */
    qs_pace *planned; /* (classes) that the present plan was made for, or held against */
    qs_pace *changed; /* (classes) mean of the looks that agree on others; it lies behind `planned` */
    qs__paced what;
    int looks, wanted; /* that agree, and that have to */
    int64_t since;     /* step from which on the change was seen */
    int calm;          /* looks in a row at the known pace */
} qs__pace_changes;
qs_status qs__pace_create(int classes, int64_t every, qs__pace_changes *out);
void qs__pace_release(qs__pace_changes *changes);

typedef enum qs__change {
    QS__STEADY, /* as known */
    QS__NEW,    /* another pace */
    QS__AGAIN,  /* the same other pace, not often enough yet */
    QS__PASSED, /* as known again */
    QS__LASTS
} qs__change;
/* A look before step `step`. */
qs__change qs__pace_look(qs__pace_changes *changes, const qs_pace *seen, int64_t step);
/* For how many steps a change that lasts is expected to, of a run of so many. */
int64_t qs__pace_expected(const qs__pace_changes *changes, int64_t step, int64_t steps);
/* The changed pace is the known one from now on. */
void qs__pace_settle(qs__pace_changes *changes, bool switched);

/* A plan for another pace beside the present one. */
typedef struct qs__bargain {
    double present_us, next_us; /* of an iteration, at that pace */
    double present_omega, next_omega;
    double cost_us; /* of the switch */
    int64_t steps;  /* that it is for */
    bool same;      /* they run the same schedules */
} qs__bargain;
typedef struct qs__verdict {
    bool take;
    const char *reason;
} qs__verdict;
qs__verdict qs__plan_weigh(const qs__bargain *one);
/* ΣΩ over all devices; 0: nothing is lowered, or not known. */
double qs__plan_omega(const qs_plan *plan, const qs_cluster *cluster);

/* A line of metrics.jsonl. */
typedef struct qs__decision {
    const char *what; /* "wait", "stay", "switch", "refused"; NULL: there is nothing to tell */
    char reason[256];
    qs__paced paced;
    bool foreign;         /* others than the rank itself are to blame */
    const qs_pace *seen;  /* (classes) */
    const double *waited; /* (classes) share of the time that threads waited for a core; NULL: the pace came from a trace */
    qs__bargain bargain;  /* steps 0: nothing was planned */
} qs__decision;

#endif
