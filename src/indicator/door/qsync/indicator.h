// SPDX-License-Identifier: Apache-2.0
/* indicator: Ω, the gradient noise that a recipe adds at an operator (docs/method.md §3), from raw statistics. One file per indicator
 * (indicators.def).
 *
 *   σ_fp = ‖x‖² Var v + ‖v‖² Var x,   σ_bp = ‖∇v‖² Var v + ‖v‖² Var ∇v,   Ω = γ² a σ_fp + b σ_bp
 *
 * v is the input activation, x the weights, ∇v the gradient of the output; Var t is what quantizing t adds (qs_rounding_variance), with the
 * forward's quantizers of v and x and the weight gradient's of ∇v: fully integer recipes need nothing special. A convention says what a and
 * b are, and how sums over the inner dimensions enter. Nothing is capped.
 *
 * Where a recipe's GEMMs add in narrow accumulators, what these lose comes on top: with l = |1 - VRR| of each GEMM (qs_gemm_loss: at its
 * length, of its adder) l_forward ‖x‖² ‖v‖² joins σ_fp, and (l_weight_gradient + l_input_gradient) ‖v‖² ‖∇v‖² joins σ_bp. The products of
 * squares are the variance of exact sums, so l times them is the part that is lost. A loss of the input gradient is one of the ∇v of all
 * operators before this one, whose number b counts. */
#ifndef QSYNC_INDICATOR_H
#define QSYNC_INDICATOR_H

#include "qsync/accumulator.h"

/* ---- Conventions ----------------------------------------------------------------------------------------------------- */

/* Factors a and b, with d_o the operator's depth and d_L the loss': paper d_o and d_L - d_o, influence d_L - d_o and d_o, flat d_L and d_o.
 * gain asks for no depth: a is ‖∇v‖² over that of the last adjustable operator, which is how much of an error at this output arrives at the
 * loss if errors go forward as gradients come back, and b is 1: the noise of the operator's own weight gradient. */
typedef enum qs_weighting { QS_WEIGHTING_PAPER, QS_WEIGHTING_INFLUENCE, QS_WEIGHTING_FLAT, QS_WEIGHTING_GAIN } qs_weighting;

/* How the inner dimensions of the products enter. As a variance, eq. (3.6) sums over too many products:
 *   plain       as they stand, Var = q² D / 6
 *   contracted  σ_fp / (C_in / groups · kh · kw) and σ_bp / (batch · H_out · W_out); Var is the exact sum Σ q² f (1 - f)
 *   counted     exact as well; σ_fp · M / (D_x D_v) and σ_bp · M / (D_v D_∇v), M the multiplications of the operator: the variance of the
 *               result, summed over its elements, where variances and squares are spread evenly. For a matrix product it is the same as
 *               contracted; a convolution reads an input element kh · kw / (stride² · groups) times an output channel, which contracted
 *               leaves out. */
typedef enum qs_contraction { QS_PLAIN, QS_CONTRACTED, QS_COUNTED } qs_contraction;

/* Names: the weighting's, with "-contracted" or "-counted" behind. */
typedef struct qs_convention {
    qs_weighting weighting;
    qs_contraction contraction;
} qs_convention;
/* The one that is used where nobody says otherwise: of all, its ranks follow the measured gradient noise best over convolutional models and
 * transformers together (docs/indicator.md). */
#define QS_CONVENTION_DEFAULT ((qs_convention){QS_WEIGHTING_GAIN, QS_COUNTED})

/* Convention by name; QS_USAGE with the list otherwise. */
QS_API qs_status qs_convention_parse(const char *name, qs_convention *out);
QS_API const char *qs_convention_name(qs_convention convention);
/* Names of all conventions; NULL past the end. */
QS_API const char *qs_convention_name_at(size_t index);

/* ---- One tensor ------------------------------------------------------------------------------------------------------ */

/* What is known of a tensor's values: qs_tensor_statistics of one iteration, at the job's batch. NaN: not measured. */
typedef struct qs_spread {
    double count, norm2, absmax, minimum, maximum;
    double channel_absmax2, channel_range2; /* Σ over channels of absmax_c² D_c, of (max_c - min_c)² D_c */
    double variance_int8, variance_int8_channel, variance_bf16, variance_fp16;
    const double *range_histogram; /* [QS_EXPONENTS] as in the record; NULL: not measured */
    double histogram_factor;       /* its counts are to be multiplied by this */
    int histogram_shift;           /* and this is to be added to its exponents */
} qs_spread;

/* Variance that a quantizer adds to a tensor, summed over its elements; q² D / 6 and 2^(2e) ε² D / 6 with e the exponent of absmax, the sum
 * over channels of q_c² D_c / 6 for a step per channel. q is absmax / (2^(b-1) - 1), or (max - min) / (2^b - 1) when `asymmetric`. fp32 is
 * the float formula with ε = 2^-23. That is for stochastic rounding; nearest gives half of it; floor and toward-zero twice, the square of
 * their bias included.
 *
 * `exact` takes Σ q² f (1 - f), which zeros and values below the step make smaller, floats with a step per element, max(2^e_i, min_normal)
 * · ε: measured ones for int8 (symmetric, per tensor and per channel), bf16 and fp16; any other format's is estimated from the histogram,
 * values taken as uniform within a binary exponent (1/6 of q² each well above the step, a step per channel as their root mean square).
 * Histograms are means over iterations, so such an estimate follows an iteration in its extremes only. Without a histogram: as plain. The
 * measured ones of fp16 gradients hold at the loss scale that was profiled with.
 *
 * Shift groups: q of a channel is its own, times 1 to 2, and at least 2^-(G-1) of the tensor's, so Σ q² is taken as 3/(2 ln 2) times that
 * of a step per channel plus 4^-(G-1) times the tensor's, at most the latter: never more than twice too much. Weights with one step per
 * input channel are bounded by the tensor-wise step. QS_INFEASIBLE with the share of elements beyond when a float format's max is below
 * absmax; `what` names the tensor. QS_MISMATCH when the step needs what was not measured. QS_UNSUPPORTED for Hadamard transforms: what is
 * rounded there has another absmax, which is no function of what was measured. */
QS_API qs_status qs_rounding_variance(const qs_spread *tensor, const qs_quantizer *quantizer, bool asymmetric, bool exact, const char *what,
                                      double *out);
/* Share of the elements beyond a format's max, by the histogram; 0 without one. */
QS_API double qs_overflow_share(const qs_spread *tensor, const qs_format *format);

/* ---- One operator ---------------------------------------------------------------------------------------------------- */

typedef struct qs_sensitivity {
    double depth, model_depth; /* d_o, d_L */
    double gamma;
    double gain;                          /* ‖∇v‖² over that of the last adjustable operator */
    qs_spread v, x, gv;                   /* an operator without weights has x.count 0: σ_fp = Var v, σ_bp = 0 */
    double inner_forward, inner_backward; /* what `contracted` divides by */
    double products;                      /* M: multiplications of a pass, those with padding left out */
    bool inner, codes;                    /* the product lies inside a pass: v are states, whose step is that of values up to 1; codes: a
                                           * recipe's integers are multiplied, else, and where it has floats, products are in fp32 */
    bool activations;                     /* x is an activation, too: its gradient and v's are products, and each factor has one step */
} qs_sensitivity;

/* Ω of a recipe. QS_INFEASIBLE when a format's max is below the tensor's absmax. */
QS_API qs_status qs_omega(const qs_sensitivity *one, const qs_recipe *recipe, qs_convention convention, double *out);
/* What accumulators that lose the share loss[gemm] add to it. */
QS_API double qs_omega_accumulators(const qs_sensitivity *one, const double loss[QS_GEMMS], qs_convention convention);

/* ---- A model --------------------------------------------------------------------------------------------------------- */

/* Ω of every adjustable operator and recipe under an indicator by name: running mean over the profile's iterations, batch rescaled from
 * profiling to `batch` with the job's γ = 1/(global samples); operators are bound to statistics by name. recipe[] goes from the highest
 * precision to the lowest. omega[node × recipes + r]; 0 for other nodes; INFINITY where a recipe is infeasible for a tensor.
 *
 *   qsync   as above, accumulators included; random and hess know nothing of them
 *   measured  qsync, corrected by the profile's measured noise (below). QS_MISMATCH when it has none
 *   random  a value from `seed` for the lowest recipe, halved at each higher one
 *   hess    |top eigenvalue| / parameters × E‖Q(x) - x‖² (qs_rounding_variance, exact) for integer recipes, half of the next lower recipe's
 *           for float ones; where the lowest one is a float already, its own rounding counts. A product of two activations, which has no
 *           weights, counts as the operator with the largest value. The convention is not used. QS_MISMATCH when the profile has no
 *           eigenvalues: qsync profile --hessian measures them */
QS_API qs_status qs_indicator_evaluate(const char *name, qs_convention convention, const qs_graph *graph, const qs_profile *profile,
                                       int64_t batch, int64_t global_batch, int recipes, const qs_recipe *recipe, uint64_t seed,
                                       double *omega);
/* The same where every operator has recipes of its own (other accumulators): recipe[node × recipes + r]. */
QS_API qs_status qs_indicator_evaluate_each(const char *name, qs_convention convention, const qs_graph *graph, const qs_profile *profile,
                                            int64_t batch, int64_t global_batch, int recipes, const qs_recipe *recipe, uint64_t seed,
                                            double *omega);
/* Ω of quantization by eq. (3.7) in every profiled iteration, for one recipe: trace[iteration × nodes + node], 0 for nodes that are not
 * adjustable. Its ranks show whether the order of operators is stable. Two differences from qs_indicator_evaluate: what accumulators lose
 * is left out (it follows from lengths and is the same in every iteration), and a recipe that cannot hold a tensor is QS_INFEASIBLE here,
 * INFINITY there. */
QS_API qs_status qs_indicator_trace(qs_convention convention, const qs_graph *graph, const qs_profile *profile, int64_t batch,
                                    int64_t global_batch, const qs_recipe *recipe, double *trace);
/* ---- Measured noise (docs/method.md §3.10) ------------------------------------------------------------------------------ */

/* One operator in one recipe: what the formula says, what paired runs said so far, and what to believe. */
typedef struct qs_noise_candidate {
    int recipe;     /* candidates of one recipe share what the formula is wrong by in the mean */
    double formula; /* Ω where it was measured; 0 and INFINITY say nothing */
    int runs;       /* 0: not measured */
    double error2, standard_error;
    double correction, variance; /* filled in: ln of noise over formula, and its variance */
} qs_noise_candidate;

/* Shrinks every candidate's ln(error2 / formula) towards the mean of its recipe's, by how far its standard error reaches against how much
 * the recipe's candidates differ in truth (empirical Bayes). One without runs gets that mean; one of a recipe without any, the mean of
 * all. */
QS_API void qs_noise_shrink(int count, qs_noise_candidate *candidate);
/* Chance that two candidates stand in the wrong order, mean over all pairs; worth[i] is the part of it, summed over pairs, that comes from
 * what is not known of candidate i: where another run is best spent. */
QS_API double qs_noise_confusion(int count, const qs_noise_candidate *candidate, double *worth);

/* ---- Comparing ------------------------------------------------------------------------------------------------------------ */

/* Spearman's rank correlation with average ranks for ties; 0 for fewer than 2 values. */
QS_API double qs_spearman(int count, const double *a, const double *b);
QS_API const char *qs_indicator_name_at(size_t index);
/* The one that is used where nobody says otherwise: measured, where the profile has measured noise, else qsync. */
QS_API const char *qs_indicator_default(const qs_profile *profile);

#endif
