// SPDX-License-Identifier: Apache-2.0
/* What planners share: the candidate of a plan (one recipe index per class and operator) and how to ask the predictor about it. */
#ifndef QSYNC_PLANNER_INTERNAL_H
#define QSYNC_PLANNER_INTERNAL_H

#include "qsync/planner.h"

#define QS_MAX_RECIPES 8

typedef struct qs_candidate_class {
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
    qs_class_plan assigned;  /* its tensors, their assignment and recomputed blocks only; none: fp32, and all is kept */
    qs_tensor_table tensors; /* the same by graph */
    uint64_t recomputed;     /* hash of these blocks; 0: none */
    double least;            /* no plan of the class has less ΣΩ, as a search found; 0: not asked */
} qs_candidate_class;

typedef struct qs_candidate {
    const qs_graph *graph;
    qs_graph_lengths lengths; /* the same at every length of the job, the longest last: of that one drafts and indicators are */
    const qs_cluster *cluster;
    const qs_profile *profile;
    const qs_job *job;
    const qs_plan_options *options;
    qs_cost_options costs;          /* by which plans are decided */
    qs_candidate_class *class_;     /* (cluster->classes) */
    int64_t *batch;                 /* (classes) of a rank; the job's unless qs__candidate_batch_set changes it; 0: it is idle */
    const qs_recipe *const **bound; /* (classes) */
    qs_predictor *predictor;
    int doubts;
    qs_slowdown *doubt; /* (classes) of lowered classes: what qs__candidate_guard decides by */
    double limit_us;    /* longest iteration allowed, 1/T_min with the tolerance, once qs__uniform_choose has found it; 0: not known */
    bool retabled;      /* the predictor does not know the classes' tensors yet */
    double least;       /* no plan of the only lowered class has less ΣΩ; INFINITY: than this one; 0: not asked */
    qs_plan_session *session; /* keeps what other plans can use again; NULL: nothing is kept */
} qs_candidate;

/* Planners fill choice (and what stopped operators); the prediction of the final choice is made by the caller. */
typedef qs_status (*qs_planner)(qs_candidate *candidate);
#define QS_PLANNER_NAMED(file, name) qs_status qs__planner_##file(qs_candidate *candidate);
#define QS_PLANNER(name) QS_PLANNER_NAMED(name, #name)
#define QS_ASSIGNING_PLANNER(file, name) QS_PLANNER_NAMED(file, name)
#include "planners.def"
#undef QS_PLANNER
#undef QS_PLANNER_NAMED
#undef QS_ASSIGNING_PLANNER

/* candidate.c */
qs_status qs__candidate_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                               const qs_plan_options *options, qs_candidate *out);
void qs__candidate_release(qs_candidate *candidate);
/* Writes the recipes of choices (nodes) of a class into its `bound`. */
void qs__candidate_bind(qs_candidate *candidate, int class_index, const int *choice);
qs_status qs__candidate_predict(qs_candidate *candidate, qs_prediction *out);
/* Judges choices by another indicator than the options', NULL: by theirs again. What their indicator rules out stays so. */
qs_status qs__candidate_judge(qs_candidate *candidate, const char *indicator);
/* Decides by other costs. */
qs_status qs__candidate_price(qs_candidate *candidate, const qs_cost_options *costs);
/* Decides by upper bounds: steps of lowered classes take longer by what the profile's errors leave in doubt. */
qs_status qs__candidate_guard(qs_candidate *candidate);
/* How many times as long a class's steps take by the costs that are decided by. */
double qs__candidate_slow(const qs_candidate *candidate, int class_index);
/* Gives a class another local batch, and its operators the Ω of that: none where it is idle. */
qs_status qs__candidate_batch_set(qs_candidate *candidate, int class_index, int64_t batch);
/* The batch that its schedule is lowered at: the job's where it is idle. */
int64_t qs__candidate_lowered_batch(const qs_candidate *candidate, int class_index);
/* The longest time that the tolerance, a share of throughput, allows beside the best one. */
double qs__candidate_time_allowed(const qs_candidate *candidate, double best_us);
/* The class's table of tensors anew, from what it has assigned. */
qs_status qs__candidate_retable(qs_candidate *candidate, int class_index);
/* What a class's schedule is lowered from: its bound recipes, kernels by its profile. */
qs_lowering qs__candidate_lowering(const qs_candidate *candidate, int class_index);
bool qs__is_adjustable(const qs_candidate *candidate, int node);
/* Whether a model is so large that searches look at less of it, so that planning stays quick. */
bool qs__is_large(const qs_graph *graph);
/* What an operator runs under a recipe of its class. */
const qs_recipe *qs__candidate_recipe(const qs_candidate_class *one, int node, int recipe);
/* Sets every free operator of a class to a recipe, or to the nearest higher one whose range holds its tensors. */
void qs__candidate_set_uniform(qs_candidate *candidate, int class_index, int recipe);
/* True for classes whose precision may be lowered. */
bool qs__class_is_lowered(const qs_candidate *candidate, int class_index);
double qs__candidate_sum_omega(const qs_candidate *candidate, int class_index);
/* The lowest of the higher recipes than `from` that brings a smaller Ω than the operator's present one; -1 when there is none. */
int qs__candidate_next(const qs_candidate_class *one, int node, int from);

/* search/uniform.c: sets every lowered class to its fastest uniform recipe that fits (or, until_fits, the highest that fits). *limit_us is
 * the longest iteration allowed beside it: 1/T_min with the tolerance. */
qs_status qs__uniform_choose(qs_candidate *candidate, bool until_fits, double *limit_us);

/* bound/bound.c: whether anything is known of the least ΣΩ: not where no limit is, nor of another problem (unequal batches, several
 * lengths, decisions without casts). */
bool qs__bound_is_known(const qs_candidate *candidate);
/* The lower bound on a class's ΣΩ that its plan is recorded with; 0 where nothing is known, or values may have more formats than its tables
 * hold. */
qs_status qs__bound_of_plan(const qs_candidate *candidate, int class_index, double *value);

/* recompute.c: a planner's plan with the blocks recomputed that the options name, or choose (docs/planning.md). */
qs_status qs__plan_recomputing(qs_plan_session *session, const qs_cluster *cluster, const char *name, qs_planner planner,
                               const qs_plan_options *options, qs_plan *out);

/* wires.c: the same on the wire that is worth it. */
qs_status qs__plan_choosing_wire(qs_plan_session *session, const qs_cluster *cluster, const char *name, qs_planner planner,
                                 const qs_plan_options *options, qs_plan *out);

/* assemble.c: the record of a finished candidate. */
qs_status qs__candidate_assemble(qs_candidate *candidate, const char *planner, qs_plan *out);

#endif
