// SPDX-License-Identifier: Apache-2.0
/* planner: which operator gets which recipe on which device class (docs/method.md §1, §5 and §6). One file per planner (members,
 * planners.def).
 *
 * A planner sees files only: graph, cluster, profile, job. It never opens a device. Every plan comes with the prediction it was chosen by,
 * the kernel rows and the schedule hash that the trainer will check, and for every operator what stopped it from a higher precision:
 * "memory", "throughput", "neighbours" (the class itself would be in time, but others of its host compute more slowly beside it and are
 * late), "profile" (no cost is known for the mix it would need), "highest", "pinned", "planner" (nobody tried). */
#ifndef QSYNC_PLANNER_H
#define QSYNC_PLANNER_H

#include "qsync/accumulator.h"
#include "qsync/indicator.h"
#include "qsync/replayer.h"

/* What the planners that assign formats to tensors go by (docs/method.md §7.3 and §7.4). */
typedef struct qs_assignment_options {
    double ratio;      /* demote: least share of elements in low precision; 1: all groups */
    const char *order; /* demote: "decreasing" size, "increasing" or "random", drawn anew for every seed of the job */
    const qs_format *high, *low, *low_gradient; /* fp(6,9,0), fp(4,3,4) and, of gradients, fp(5,2,0) */
    qs_rounding rounding;                       /* of all of them: nearest-even */
    double promote_at;                          /* NAN: 0.01 by demote, 0 (never) by the others */
    double longest_us;                          /* demote: iteration time not to be exceeded; 0: none */
} qs_assignment_options;

typedef struct qs_plan_options {
    const char *indicator;    /* NULL: qs_indicator_default of the profile */
    qs_convention convention; /* how qsync and measured form Ω: QS_CONVENTION_DEFAULT */
    double tolerance;         /* throughput may fall below T_min by this share of it: 0.005 */
    double confidence;        /* with which T_min is kept (below): 0.95; 0.5: predictions are believed */
    bool until_fits;          /* `uniform`: lower only until memory fits, as the paper's text says */
    bool idle;                /* `joint`: inference classes may take no samples at all, and the others their share of the global batch */
    bool lower_training;      /* training classes with low formats may be lowered like inference classes, where they set the pace */
    const qs_plan *pins;      /* operators pinned in this plan keep their recipe; NULL: none */
    const qs_accumulation_rule *accumulate; /* accumulators of every operator and recipe, zeros as profiled; NULL: their class's */
    qs_assignment_options assignment;
    bool choose_wire;      /* in which gradients travel, below; false: in the job's */
    const char *recompute; /* blocks that every class computes again for backward: "no", "all", names with commas between them; "auto" */
} qs_plan_options;

QS_API void qs_plan_options_default(qs_plan_options *out);

/* Makes a plan by a planner's name. QS_USAGE lists the planners; QS_INFEASIBLE with the figures when no plan fits the memory. Release with
 * qs_plan_release.
 *
 *   fp32        the highest precision everywhere
 *   uniform     one recipe for a class: the fastest that fits its memory
 *   qsync       the least ΣΩ over all devices that was found with memory kept and throughput within the tolerance of T_min, the best
 *               throughput among uniform plans that fit: precision recovered from several starts, exchanged between operators; never more
 *               ΣΩ than uniform's
 *   qsync-heap  the paper's rule alone: from the fastest mix, block by block, that fits the memory, one step at a time by
 *               largest gain in Ω; a refused operator is dropped
 *   random,     as qsync, deciding by that indicator; the plan's Ω are those of options->indicator, so that plans can be compared
 *   hess
 *   dpro        as qsync, deciding as if conversions cost nothing; its stored prediction knows them, and may miss T_min
 *   exact       the least ΣΩ there is, for small models
 *   dbs         the highest precision everywhere, unequal local batches; the global batch stays, so no rate is adapted
 *   joint       shares of the batch and precision together
 *   uniform-fp  operators in fp32, their tensors rounded behind them: low precision for every one
 *   op          low for what multiplications read: inputs, weights, and gradients of outputs
 *   op-io       low for what they read and write
 *   demote      low for whole groups (qs_graph_groups) in an order, until the wanted share of elements is low; then, class by class and
 *               group by group, until memory and the longest iteration are kept
 *
 * Every device of a class has the same plan. Lowered are inference classes; training classes stay in fp32 unless options->lower_training
 * (where inference devices are the faster ones once lowered): T_min then comes from uniform plans of these classes too, chosen after the
 * others, and precision is recovered on both sides by the same rules. Every plan that these planners return has been accepted by the full
 * prediction; quick answers only guide the search. Plans are reproducible: searches end by counting, never by the clock.
 *
 * With options->accumulate every GEMM of floats adds in the accumulator that the rule gives it at its class's batch. The profile must know
 * the times of these kernels (qs_profile_options); Ω counts what they lose.
 *
 * A planner that fills every wait picks what its own errors favour. So T_min and all that is held against it are upper bounds of iteration
 * times: steps of lowered classes take longer by the doubt that the profile's known errors leave at options->confidence (qs_cost_doubt).
 * What all plans share, the steps of classes that stay as they are, is no reason for doubt. The plan says what it was asked
 * (its `guard`); its prediction is the expected one. Planners that know no T_min, and those of unequal batches, go by expected times.
 *
 * Two planners deal the global batch out anew (QS_MISMATCH unless the profile knows several batches): `dbs` keeps the highest precision
 * and makes the iteration shortest; `joint` finds the shortest iteration over shares and one recipe a class together, and spends what the
 * tolerance leaves, and every wait, on precision: least ΣΩ (of each class at its own batch) over the shares that keep to it. */
QS_API qs_status qs_plan_make(const char *planner, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile,
                              const qs_job *job, const qs_plan_options *options, qs_plan *out);
QS_API const char *qs_planner_name_at(size_t index);
/* True for planners that assign formats to tensors: the last four. Outputs are saved for backward in their format; gradients overflow to
 * infinity, which loss scaling has to see; gradients of parameters stay in high precision. */
QS_API bool qs_planner_assigns(const char *planner);

/* Recomputation (docs/planning.md). "auto": a class whose highest precision does not fit its memory may compute blocks again, which
 * competes with low precision. Plans with growing numbers of blocks are compared, and of those that keep the best pace the least ΣΩ
 * wins. A class whose highest precision fits keeps everything. Every class plan says why (qs_class_plan.recompute_why). QS_USAGE names a
 * block that the model lacks. */

/* Wires. With options->choose_wire the planner plans once for each wire that the profile has measured for the job's algorithm
 * (qs_cost_wire_at), from the most exact one on, and takes a less exact one where its plan's expected iteration is shorter by more than the
 * tolerance. Residuals are a part of the arena: a wire with which no plan fits is refused for that. `wire` of the plan tells what each
 * came to, and its job the wire that was taken. A profile of one wire leaves nothing to choose: it is that one, and of a profile that has
 * none, the job's. */

/* The same for several clusters, budgets, planners or options, one after the other: what follows from graph, profile and job alone (lowered
 * drafts, priced cases) is kept from one plan to the next, so that planning again costs little. The plans are those of qs_plan_make. All
 * arguments of create outlive the session and stay as they are. Release with qs_plan_session_release. */
typedef struct qs_plan_session qs_plan_session;
QS_API qs_status qs_plan_session_create(const qs_graph *graph, const qs_profile *profile, const qs_job *job, qs_plan_session **out);
QS_API qs_status qs_plan_session_make(qs_plan_session *session, const qs_cluster *cluster, const char *planner,
                                      const qs_plan_options *options, qs_plan *out);
QS_API void qs_plan_session_release(qs_plan_session *session);

/* Predicts an existing plan (simulate): recipes bound per class. trace, unless NULL, receives the timeline as a Chrome trace (caller
 * frees). */
QS_API qs_status qs_plan_predict(const qs_plan *plan, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile,
                                 const qs_cost_options *options, char **trace, qs_prediction *out);

/* ---- Which classes help (docs/method.md §1) ------------------------------------------------------------------------------------------ */

/* Every rank keeps its local batch: a class more means a larger global batch, and throughput is samples per second of all ranks together. A
 * class does not help when the others reach as much without it. */
typedef struct qs_plan_question {
    const char *planner;
    const qs_graph *graph;
    const qs_cluster *cluster;
    const qs_profile *profile;
    const qs_job *job;
    const qs_plan_options *options;
} qs_plan_question;
/* A cluster without one of its classes and the links to it. QS_USAGE for the only class. Release with qs_cluster_release. */
QS_API qs_status qs_cluster_without(const qs_cluster *cluster, int class_index, qs_cluster *out);
/* Fills the `without` rows of the question's plan, in the order of the cluster's classes: throughput of the others alone, by a plan of
 * their own; 0 where they have none. One class: no rows. */
QS_API qs_status qs_plan_weigh_classes(const qs_plan_question *ask, qs_plan *plan);
/* Index among the `without` rows, and the classes, of the class without which the others reach the most, when that is not less than the
 * plan's own throughput; -1: every class helps. */
QS_API int qs_plan_unhelpful(const qs_plan *plan);
/* Takes classes that do not help out of the cluster, one after the other, and plans again: `plan`, weighed, becomes the plan of *rest (the
 * caller releases it) and names them in `left_out`. On failure the plan is one of the plans on the way. */
QS_API qs_status qs_plan_drop_unhelpful(const qs_plan_question *ask, qs_cluster *rest, qs_plan *plan);

#endif
