// SPDX-License-Identifier: Apache-2.0
/* The plans of a class under measurement: what steps.c runs and places.c makes figures of. */
#ifndef QSYNC_PROFILER_CAMPAIGN_H
#define QSYNC_PROFILER_CAMPAIGN_H

#include "timing.h"
#include "worth.h"

enum { QS__ALONE_ROUND = -1, QS__STEPS_PER_VISIT = 2 };

/* One plan under measurement. */
typedef struct qs__plan_run {
    qs_schedule *schedule;
    qs_executor *executor;
    qs_timeline timeline; /* of the step at hand */
    bool unclocked;       /* a check whose steps are started as recordings: no clock stands beside its kernels */
    int timed, capacity;  /* steps */
    double *step;         /* (capacity × schedule steps) microseconds */
    double *whole, *data; /* (capacity) microseconds */
    double *waited;       /* (capacity) part of it in which a thread waited for its core */
    double *busy;         /* (capacity) of checks: what kernels took of it */
    int *round;           /* (capacity) in which it was timed; QS__ALONE_ROUND: while the other ranks waited */
    double median_us;     /* of whole steps */
    double confidence;    /* of that median, relative */
    int *share;           /* (schedule steps) of the plan's known cases; -1: no kernel, or a conversion */
} qs__plan_run;

typedef struct qs__campaign {
    const qs__setting *setting;
    const qs__mixes *mixes;
    qs__cases *cases;
    qs__step_figures *out;
    qs_memory *memory; /* of all plans and checks, one at a time */
    qs__plan_run *plan, *check;
    int plans, visits;       /* of this rank; of a round: the most plans of any rank */
    int checks, check_every; /* checks take turns: each is visited once in so many rounds */
    qs_comm *together;       /* of all ranks, for checks; NULL with one */
    bool again;              /* visits go on for the others' sake */
    int round, most_rounds, good_rounds, dropped_rounds;
    int even_rounds;            /* in which every plan is visited, at least; others go where they are worth most */
    int *order;                 /* (plans) of this round */
    qs__known *known;           /* (plans) cases of each, and how well they are known */
    double *worth;              /* (plans) of one more visit */
    qs__case_known *case_known; /* (cases) by all plans */
    qs__rivals rivals;
    bool budgeted;              /* rounds end when their time is over */
    double until, seconds_left; /* clock, by which that is; how long it was from the first round */
    double budget_s;            /* of the whole measurement; 0: none */
    int64_t steps;              /* run so far */
    double quantum;             /* seconds of a visit; 0: a count of steps */
    double confidence, drift;   /* worst plan's, worst round's */
    int left_out;               /* steps, one by one */
    double disturbed;           /* the part of all that they are */
    double pooled;              /* confidence of kernels, which several plans hold */
    qs__samples *scratch;
    qs_waits waits; /* until the last step */
} qs__campaign;

/* ---- steps.c ---- */

/* Collective. All ranks leave out the same rounds, at most every second one: of a machine that is never quiet, its usual pace is what
 * counts. A round that is all that some plan has stays. Counts the rounds that are left, and finds how far their pace is from the usual
 * one. */
qs_status qs__disturbed_rounds_drop(qs__campaign *all);

/* ---- places.c: from steps to samples of cases ---- */

/* Which cases every plan has, once all schedules are there. Release with qs__places_end, also after a failure. */
qs_status qs__places_start(qs__campaign *all);
void qs__places_end(qs__campaign *all);
/* all->order: by the steps that are there, those first whose visits are worth most. */
void qs__plans_order(qs__campaign *all);
/* Every plan's places become samples of its cases, its steps figures of the class. */
qs_status qs__places_keep(qs__campaign *all);

#endif
