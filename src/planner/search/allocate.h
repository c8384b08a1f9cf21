// SPDX-License-Identifier: Apache-2.0
/* The allocator (docs/method.md §5): what planners that lower and recover precision are put together from. Searching goes by quick answers;
 * a plan counts only once the full prediction has accepted it. */
#ifndef QSYNC_PLANNER_ALLOCATE_H
#define QSYNC_PLANNER_ALLOCATE_H

#include "search.h"

typedef struct qs__allocation {
    qs_candidate *candidate;
    qs__search *search;
    double limit_us; /* longest iteration allowed: 1/T_min with the tolerance */
    int *best;       /* (classes × nodes) the plan with the least ΣΩ that was accepted */
    double best_omega;
    int *refused;         /* (classes × nodes) scratch: what the full prediction has refused */
    int64_t most_changes; /* the search stops where it has asked so often: a bound by counting, so that plans are reproducible */
} qs__allocation;

/* ---- accept.c: the state of an allocation, and plans held against the full prediction ---- */

/* From the candidate's present choices, which must be a plan that the full prediction accepts. Release with qs__allocation_end: the
 * candidate then holds the best plan. */
qs_status qs__allocation_start(qs_candidate *candidate, double limit_us, qs__allocation *out);
qs_status qs__allocation_end(qs__allocation *one);
/* Whether a class's operator may be changed at all. */
bool qs__is_free(const qs_candidate *candidate, int class_index, int node);
/* By quick answers: memory of all classes, and an iteration time or T_min. */
bool qs__is_within(qs__allocation *one, double limit_us);
bool qs__is_feasible(qs__allocation *one);
bool qs__is_spent(const qs__allocation *one);
/* The full prediction of the present choices, which calibrates; *yes: they are within all limits, and best if they are. */
qs_status qs__predict_in_full(qs__allocation *one, bool *yes);
/* The full prediction of the present choices, repaired and asked again where it refuses. In the end the present plan is an accepted one:
 * these choices, as near to them as it gets, or the best. */
qs_status qs__accept(qs__allocation *one);

/* ---- recover.c: operators one by one ---- */

/* Raises operators, those first whose next recipe saves most Ω, as long as the plan stays feasible. By the paper's rule an operator whose
 * step was refused is dropped; otherwise the step after that is tried, and all again when a neighbour's rise has changed what a step
 * costs. */
qs_status qs__recover(qs__allocation *one, bool paper);
/* Recovers and accepts until that gains nothing. */
qs_status qs__recover_and_accept(qs__allocation *one, bool paper);
/* What keeps every operator of the finished plan from its next recipe, by the Ω that the candidate has now. */
qs_status qs__reasons_find(qs__allocation *one);
/* The same of a finished candidate that no search is about. */
qs_status qs__candidate_explain(qs_candidate *candidate, double limit_us);

/* ---- Plans from several operators at once ---- */

/* initial.c: the paper's initial plan, the fastest mix block by block that fits the memory, from the present plan; that one where nothing
 * fits. It may miss T_min: qs__accept knows. */
qs_status qs__initial_choose(qs__allocation *one);
/* improve.c: exchanges: operators raised for others lowered, together for less ΣΩ. */
qs_status qs__improve(qs__allocation *one);
/* prove.c: what is certain of the least ΣΩ over all devices. */
typedef struct qs__proof {
    bool proven; /* least is the optimum */
    bool better; /* and lies below the ΣΩ of the candidate's choices, `reached` */
    double least, reached;
    int minima, judged; /* relaxations solved, full predictions asked for */
} qs__proof;
/* Of the candidate, whose choices are a plan that the full prediction accepts; they stay. The optimum's, where it is better, into
 * found[classes × nodes]. most_minima: relaxations that may be solved. With one lowered class the candidate keeps the bound. */
qs_status qs__prove(qs_candidate *candidate, double limit_us, int most_minima, int *found, qs__proof *out);
/* From the present plan, which is an accepted one: the relaxation's plan as far as it is accepted, then the proof, with little work. */
qs_status qs__prove_best(qs__allocation *one);

/* allocate.c: all of it, under whatever costs the candidate has; judged by the options' indicator (NULL), or by another. Reasons go by the
 * options'. */
qs_status qs__allocate_precision(qs_candidate *candidate, const char *indicator);

#endif
