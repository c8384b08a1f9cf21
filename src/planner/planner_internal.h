// SPDX-License-Identifier: Apache-2.0
/* What planners share: the draft of a plan (one recipe index per class and operator) and how to ask the predictor about it. */
#ifndef QSYNC_PLANNER_INTERNAL_H
#define QSYNC_PLANNER_INTERNAL_H

#include "qsync/planner.h"

#define QS_MAX_RECIPES 8

typedef struct qs_draft_class {
    int recipes; /* from the highest precision (0) to the lowest */
    qs_recipe recipe[QS_MAX_RECIPES];
    qs_recipe *own;      /* (nodes × recipes) the same with each operator's accumulators: what it runs */
    uint64_t adds;       /* hash of these accumulators; 0: they are the recipes' */
    int *choice;         /* (nodes) recipe index of adjustable operators */
    bool *pinned;        /* (nodes) */
    double *omega;       /* (nodes × recipes); INFINITY where a recipe cannot hold a tensor */
    char (*stopped)[24]; /* (nodes) what stopped an operator from its next recipe; "": nobody asked */
    double *raise_us;    /* (nodes) iteration time that recipe would have cost */
    int64_t *raise_bytes;
    const qs_recipe **bound; /* (nodes) scratch for predictions */
    qs_class_plan assigned;  /* its tensors and their assignment only; none: fp32 */
    qs_tensor_table tensors; /* the same by graph */
} qs_draft_class;

typedef struct qs_draft_plan {
    const qs_graph *graph;
    const qs_cluster *cluster;
    const qs_profile *profile;
    const qs_job *job;
    const qs_plan_options *options;
    qs_cost_options costs;          /* by which plans are decided */
    qs_draft_class *class_;         /* (cluster->classes) */
    int64_t *batch;                 /* (classes) of a rank; the job's unless qs__draft_batch_set changes it */
    const qs_recipe *const **bound; /* (classes) */
    qs_predictor *predictor;
    double limit_us; /* longest iteration allowed, 1/T_min with the tolerance, once qs__uniform_choose has found it; 0: not known */
    bool proven;     /* no plan of the only lowered class has less ΣΩ */
    qs_plan_session *session; /* keeps what other plans can use again; NULL: nothing is kept */
} qs_draft_plan;

/* Planners fill choice (and what stopped operators); the prediction of the final choice is made by the caller. */
typedef qs_status (*qs_planner)(qs_draft_plan *draft);
#define QS_PLANNER_NAMED(file, name) qs_status qs__planner_##file(qs_draft_plan *draft);
#define QS_PLANNER(name) QS_PLANNER_NAMED(name, #name)
#define QS_ASSIGNING_PLANNER(file, name) QS_PLANNER_NAMED(file, name)
#include "planners.def"
#undef QS_PLANNER
#undef QS_PLANNER_NAMED
#undef QS_ASSIGNING_PLANNER

/* draft.c */
qs_status qs__draft_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                           const qs_plan_options *options, qs_draft_plan *out);
void qs__draft_release(qs_draft_plan *draft);
/* Writes the recipes of choices (nodes) of a class into its `bound`. */
void qs__draft_bind(qs_draft_plan *draft, int class_index, const int *choice);
qs_status qs__draft_predict(qs_draft_plan *draft, qs_prediction *out);
/* Judges choices by another indicator than the options', NULL: by theirs again. What their indicator rules out stays so. */
qs_status qs__draft_judge(qs_draft_plan *draft, const char *indicator);
/* Decides by other costs. */
qs_status qs__draft_price(qs_draft_plan *draft, const qs_cost_options *costs);
/* Gives a class another local batch, and its operators the Ω of that. */
qs_status qs__draft_batch_set(qs_draft_plan *draft, int class_index, int64_t batch);
/* The longest time that the tolerance, a share of throughput, allows beside the best one. */
double qs__draft_time_allowed(const qs_draft_plan *draft, double best_us);
/* What a class's schedule is lowered from: its bound recipes, kernels by its profile. */
qs_lowering qs__draft_lowering(const qs_draft_plan *draft, int class_index);
bool qs__is_adjustable(const qs_draft_plan *draft, int node);
/* What an operator runs under a recipe of its class. */
const qs_recipe *qs__draft_recipe(const qs_draft_class *one, int node, int recipe);
/* Sets every free operator of a class to a recipe, or to the nearest higher one whose range holds its tensors. */
void qs__draft_set_uniform(qs_draft_plan *draft, int class_index, int recipe);
/* True for classes whose precision may be lowered. */
bool qs__class_is_lowered(const qs_draft_plan *draft, int class_index);
double qs__draft_sum_omega(const qs_draft_plan *draft, int class_index);
/* The lowest of the higher recipes than `from` that brings a smaller Ω than the operator's present one; -1 when there is none. */
int qs__draft_next(const qs_draft_class *one, int node, int from);

/* uniform.c: sets every lowered class to its fastest uniform recipe that fits (or, until_fits, the highest that fits). *limit_us is the
 * longest iteration allowed beside it: 1/T_min with the tolerance. */
qs_status qs__uniform_choose(qs_draft_plan *draft, bool until_fits, double *limit_us);

/* bound.c: the lower bound on a class's ΣΩ that its plan is recorded with; 0 where there is nothing to say: no limit is known, another
 * problem was solved (unequal batches, decisions without casts), or values may have more formats than its tables hold. */
qs_status qs__bound_of_plan(const qs_draft_plan *draft, int class_index, double *value);

/* assemble.c: the record of a finished draft. */
qs_status qs__draft_assemble(qs_draft_plan *draft, const char *planner, qs_plan *out);

#endif
