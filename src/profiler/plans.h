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
    double *busy;         /* (capacity) of checks: what kernels took of it */
    int *round;           /* (capacity) in which it was timed; QS__ALONE_ROUND: while the other ranks waited */
    double median_us;     /* of whole steps */
    double confidence;    /* of that median, relative */
    double busy_us;       /* of checks: of the step at hand so far */
} qs__plan_run;

typedef struct qs__campaign {
    qs__profiler *profiler;
    qs__plan_run *plan, *check;
    int plans, visits;       /* of this rank; of a round: the most plans of any rank */
    int checks, check_every; /* a check is visited in every so-manieth round, each in its own */
    qs_comm *together;       /* of all ranks, for checks; NULL with one */
    bool again;              /* visits go on for the others' sake */
    int round, most_rounds, good_rounds, dropped_rounds;
    int64_t steps;            /* run so far */
    double quantum;           /* seconds of a visit; 0: a count of steps */
    double confidence, drift; /* worst plan's, worst round's */
    double disturbed;         /* part of the steps that were left out one by one */
    double pooled;            /* confidence of kernels, which several plans hold */
    qs__samples *scratch;
} qs__campaign;

/* A training step; timed ones are recorded while there is room. */
qs_status qs__step_run(qs__campaign *all, qs__plan_run *run, bool timed);
/* Half the distance of the order statistics that hold the median with 95 %, over the median; sorts. */
double qs__confidence_of(int count, double *value);
void qs__plan_run_release(qs__plan_run *run);

/* checks.c: plans that no figure is taken from. Ranks are connected; the plans lowered before memory is reserved, *arena_bytes raised to
 * what they need; bound to the arena; run once, which makes code; visited in turn, twice or more in the
 * fewest rounds that a profile has, by all ranks together; in the end kept as
 * medians. */
qs_status qs__checks_connect(qs__campaign *all); /* collective, as those from warm_up on */
qs_status qs__checks_lower(qs__campaign *all, size_t *arena_bytes);
qs_status qs__checks_bind(qs__campaign *all);
qs_status qs__checks_warm_up(qs__campaign *all);
qs_status qs__checks_visit(qs__campaign *all);
qs_status qs__checks_keep(qs__campaign *all);
void qs__checks_release(qs__campaign *all);
/* Rows of the record, on rank 0. */
qs_status qs__checks_fill(const qs__profiler *profiler, qs_profile *out);
/* What takes so many times its median was disturbed: neighbours of a shared machine slow a core down for tenths of a second. */
static const double qs__disturbed = 1.05;
/* Timed steps of a visit, one after the other. */
enum { QS__CHECK_STEPS = 50 };

/* rows.c: medians over time of every kernel at every place, into the cases and the profiler's lists. */
qs_status qs__samples_keep(qs__campaign *all);

#endif
