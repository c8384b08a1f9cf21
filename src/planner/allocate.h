// SPDX-License-Identifier: Apache-2.0
/* The allocator (docs/method.md §5): what planners that lower and recover precision are put together from. Searching goes by quick answers;
 * a plan counts only once the full prediction has accepted it. */
#ifndef QSYNC_PLANNER_ALLOCATE_H
#define QSYNC_PLANNER_ALLOCATE_H

#include "search.h"

typedef struct qs__allocation {
    qs_draft_plan *draft;
    qs__search *search;
    double limit_us; /* longest iteration allowed: 1/T_min with the tolerance */
    int *best;       /* (classes × nodes) the plan with the least ΣΩ that was accepted */
    double best_omega;
    int *refused;         /* (classes × nodes) scratch: what the full prediction has refused */
    int64_t most_changes; /* the search stops where it has asked so often: a bound by counting, so that plans are reproducible */
} qs__allocation;

/* From the draft's present choices, which must be a plan that the full prediction accepts. Release with qs__allocation_end: the draft then
 * holds the best plan. */
qs_status qs__allocation_start(qs_draft_plan *draft, double limit_us, qs__allocation *out);
qs_status qs__allocation_end(qs__allocation *one);

/* Whether a class's operator may be changed at all. */
bool qs__is_free(const qs_draft_plan *draft, int class_index, int node);
/* By quick answers: memory of all classes, and an iteration time or T_min. */
bool qs__is_within(qs__allocation *one, double limit_us);
bool qs__is_feasible(qs__allocation *one);
bool qs__is_spent(const qs__allocation *one);

/* initial.c: the paper's initial plan, the fastest mix block by block that fits the memory, from the present plan; that one where nothing
 * fits. It may miss T_min: qs__settle knows. */
qs_status qs__initial_choose(qs__allocation *one);
/* recover.c: raises operators, those first whose next recipe saves most Ω, as long as the plan stays feasible. By the paper's rule an
 * operator whose step was refused is dropped; otherwise the step after that is tried, and all again when a neighbour's rise has changed
 * what a step costs. */
qs_status qs__recover(qs__allocation *one, bool paper);
/* repair.c: lowers operators until the plan is feasible by quick answers, least Ω for the relief first; *done: it is. */
qs_status qs__repair(qs__allocation *one, bool *done);
/* descend.c: changes operators of a class to what makes it faster, as far as memory allows. */
qs_status qs__descend(qs__allocation *one, int class_index);
/* improve.c: exchanges: operators raised for others lowered, together for less ΣΩ. */
qs_status qs__improve(qs__allocation *one);
/* branch.c: classes with few operators by branch and bound. */
qs_status qs__branch(qs__allocation *one);
/* settle.c: the full prediction of the present choices, repaired and asked again where it refuses. In the end the present plan is an
 * accepted one: these choices, as near to them as it gets, or the best. */
qs_status qs__settle(qs__allocation *one);
/* The full prediction of the present choices, which calibrates; *yes: they are within all limits, and best if they are. */
qs_status qs__accepted(qs__allocation *one, bool *yes);
/* approach.c: from the present plan, which was accepted, as far towards `wanted` (classes × nodes) as the full prediction lets it. */
qs_status qs__approach(qs__allocation *one, const int *wanted);
/* Recovers and settles until that gains nothing. */
qs_status qs__polish(qs__allocation *one, bool paper);
/* reasons.c: what keeps every operator of the finished plan from its next recipe, by the Ω that the draft has now. */
qs_status qs__reasons_find(qs__allocation *one);
/* The same of a finished draft that no search is about. */
qs_status qs__draft_explain(qs_draft_plan *draft, double limit_us);
/* qsync.c: all of it, under whatever costs the draft has; judged by the options' indicator (NULL), or by another. Reasons go by the
 * options'. */
qs_status qs__allocate_precision(qs_draft_plan *draft, const char *indicator);

#endif
