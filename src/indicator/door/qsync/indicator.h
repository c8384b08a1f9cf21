// SPDX-License-Identifier: Apache-2.0
/* indicator: Ω, the gradient noise that a recipe adds at an operator (qsync.md §3), from raw statistics. One file per indicator
 * (indicators.def). */
#ifndef QSYNC_INDICATOR_H
#define QSYNC_INDICATOR_H

#include "qsync/graph.h"
#include "qsync/record.h"

/* Statistics of one operator at the job's batch: v input activation, x weights, gv gradient of the output. */
typedef struct qs_sensitivity {
    double depth, model_depth; /* d_o, d_L */
    double gamma;
    double count_v, count_x, count_gv; /* D */
    double norm2_v, norm2_x, norm2_gv; /* squared norms */
    double absmax_v, absmax_x, absmax_gv;
    double step2_v, step2_x; /* Σ over groups q_g² D_g of the forward quantizers; tensor-wise: q² D. 0: computed from absmax */
} qs_sensitivity;

/* Where the depth factors go: paper γ² d_o σ_fp + (d_L - d_o) σ_bp; influence γ² (d_L - d_o) σ_fp + d_o σ_bp; flat γ² d_L σ_fp + d_o σ_bp. */
typedef enum qs_depth { QS_DEPTH_PAPER, QS_DEPTH_INFLUENCE, QS_DEPTH_FLAT } qs_depth;

/* How Ω is formed. `contracted` divides σ_fp by the inner dimension of the forward product and σ_bp by that of the weight gradient, and takes
 * exact sums Σ q² f (1 - f) where `plain` takes q² D / 6. Names: the depth's, with "-contracted" behind. */
typedef struct qs_convention {
    qs_depth depth;
    bool contracted;
} qs_convention;
/* The one that is used where nobody says otherwise. */
#define QS_CONVENTION_DEFAULT ((qs_convention){QS_DEPTH_INFLUENCE, false})

/* Convention by name; QS_USAGE with the list otherwise. */
QS_API qs_status qs_convention_parse(const char *name, qs_convention *out);
QS_API const char *qs_convention_name(qs_convention convention);
/* Names of all conventions; NULL past the end. */
QS_API const char *qs_convention_name_at(size_t index);

/* Ω of a recipe; fp32 gives the float formula with k = 23. QS_INFEASIBLE when a format's max is below the tensor's absmax. */
QS_API qs_status qs_omega(const qs_sensitivity *one, const qs_recipe *recipe, qs_convention convention, double *out);

/* Ω of every adjustable operator and recipe under an indicator by name ("qsync", "random"): running mean over the profile's iterations,
 * batch rescaled from profiling to `batch` with the job's γ = 1/(global samples). omega[node × recipes + r]; 0 for other nodes; INFINITY
 * where a recipe is infeasible for a tensor. */
QS_API qs_status qs_indicator_evaluate(const char *name, qs_convention convention, const qs_graph *graph, const qs_profile *profile,
                                       int64_t batch, int64_t global_batch, int recipes, const qs_recipe *recipe, uint64_t seed,
                                       double *omega);
/* Ω per iteration for the rank-stability trace: trace[iteration × nodes + node] for one recipe. */
QS_API qs_status qs_indicator_trace(qs_convention convention, const qs_graph *graph, const qs_profile *profile, int64_t batch,
                                    int64_t global_batch, const qs_recipe *recipe, double *trace);
/* Spearman's rank correlation with average ranks for ties; 0 for fewer than 2 values. */
QS_API double qs_spearman(int count, const double *a, const double *b);
QS_API const char *qs_indicator_name_at(size_t index);

#endif
