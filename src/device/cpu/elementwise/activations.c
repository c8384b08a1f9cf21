// SPDX-License-Identifier: Apache-2.0
/* Our own kernels of functions of one number (gelu, sigmoid, clip ...) and of two. */
#include "cpu/staging.h"

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__curve_of curve;
    qs__pair_of pair;
    qs__in src, src2, diff;
    qs__out dst, dst2;
    float *absmax; /* of dst; NULL: not wanted */
} job;

static void activation_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->activation(j->curve, end - begin, qs__in_at(j->src, begin), qs__out_at(j->dst, begin), j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void activation_gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->activation_gradient(j->curve, end - begin, qs__in_at(j->src, begin), qs__in_at(j->diff, begin), qs__out_at(j->dst, begin),
                                    j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static qs_status activation_run(const qs__chain *chain, qs__activation which) {
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    const qs_role written = backward ? QS_DIFF_SRC : QS_DST;
    const double *constant = chain->one.attributes.constant;
    job j = {.kernels = chain->cpu->kernels,
             .curve = {which, {(float)constant[0], (float)constant[1]}},
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, written),
             .absmax = qs__staged_absmax(chain, written)};
    if (backward) j.diff = qs__staged_in(chain, QS_DIFF_DST);
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, backward ? activation_gradient_range : activation_range, &j);
    return QS_OK;
}

#define CURVE(name, which)                                                   \
    static qs_status run_##name(const qs__chain *chain, const qs_run *run) { \
        (void)run;                                                           \
        return activation_run(chain, which);                                 \
    }                                                                        \
    qs_status qs__build_##name(qs__chain *chain) {                           \
        return qs__staged_build(chain, #name, run_##name);                   \
    }
CURVE(gelu, chain->one.attributes.approximate > 0 ? QS__GELU_BY_TANH : QS__GELU)
CURVE(silu, QS__SILU)
CURVE(tanh, QS__TANH)
CURVE(sigmoid, QS__SIGMOID)
CURVE(hard_sigmoid, QS__HARD_SIGMOID)
CURVE(hard_swish, QS__HARD_SWISH)
CURVE(leaky_relu, QS__LEAKY_RELU)
CURVE(elu, QS__ELU)
CURVE(celu, QS__CELU)
CURVE(selu, QS__SELU)
CURVE(softplus, QS__SOFTPLUS)
CURVE(softsign, QS__SOFTSIGN)
CURVE(mish, QS__MISH)
CURVE(exp, QS__EXP)
CURVE(log, QS__LOG)
CURVE(sqrt, QS__SQRT)
CURVE(abs, QS__ABS)
CURVE(erf, QS__ERF)
CURVE(reciprocal, QS__RECIPROCAL)
CURVE(power, QS__POWER)
CURVE(clip, QS__CLIP)
#undef CURVE

/* Backward is forward of the gradient, without the term. */
static qs_status run_affine(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    const qs_role read = backward ? QS_DIFF_DST : QS_SRC, written = backward ? QS_DIFF_SRC : QS_DST;
    const double *constant = chain->one.attributes.constant;
    job j = {.kernels = chain->cpu->kernels,
             .curve = {QS__AFFINE, {(float)constant[0], backward ? 0 : (float)constant[1]}},
             .src = qs__staged_in(chain, read),
             .dst = qs__staged_out(chain, written),
             .absmax = qs__staged_absmax(chain, written)};
    qs_parallel(qs__case_count(&chain->one, read), QS__GRAIN, activation_range, &j);
    return QS_OK;
}

qs_status qs__build_affine(qs__chain *chain) {
    return qs__staged_build(chain, "affine", run_affine);
}

/* ---- Products ---- */

static void multiply_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->multiply(end - begin, qs__in_at(j->src, begin), qs__in_at(j->src2, begin), qs__out_at(j->dst, begin),
                         j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

/* Both gradients piece by piece: diff_dst comes from the cache the second time. */
static void multiply_gradient_range(void *context, int64_t begin, int64_t end) {
    enum { PIECE = 2048 };
    const job *j = context;
    for (int64_t first = begin; first < end; first += PIECE) {
        const int64_t count = end - first < PIECE ? end - first : PIECE;
        const qs__in diff = qs__in_at(j->diff, first);
        j->kernels->multiply(count, diff, qs__in_at(j->src2, first), qs__out_at(j->dst, first), NULL);
        j->kernels->multiply(count, diff, qs__in_at(j->src, first), qs__out_at(j->dst2, first), NULL);
    }
}

/* Forward and backward of an operator of two values; `which`: of pair_range. */
static qs_status both_run(const qs__chain *chain, qs__pair_of which, void (*forward)(void *, int64_t, int64_t),
                          void (*backward)(void *, int64_t, int64_t)) {
    const bool gradient = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    job j = {.kernels = chain->cpu->kernels,
             .pair = which,
             .src = qs__staged_in(chain, QS_SRC),
             .src2 = qs__staged_in(chain, QS_SRC2),
             .dst = qs__staged_out(chain, gradient ? QS_DIFF_SRC : QS_DST)};
    if (gradient) {
        j.diff = qs__staged_in(chain, QS_DIFF_DST);
        j.dst2 = qs__staged_out(chain, QS_DIFF_SRC2);
    } else {
        j.absmax = qs__staged_absmax(chain, QS_DST);
    }
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, gradient ? backward : forward, &j);
    return QS_OK;
}

static qs_status run_multiply(const qs__chain *chain, const qs_run *run) {
    (void)run;
    return both_run(chain, 0, multiply_range, multiply_gradient_range);
}

qs_status qs__build_multiply(qs__chain *chain) {
    return qs__staged_build(chain, "multiply", run_multiply);
}

/* ---- Functions of two numbers ---- */

static void pair_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->pair(j->pair, end - begin, qs__in_at(j->src, begin), qs__in_at(j->src2, begin), qs__out_at(j->dst, begin),
                     j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void pair_gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    j->kernels->pair_gradient(j->pair, end - begin, qs__in_at(j->src, begin), qs__in_at(j->src2, begin), qs__in_at(j->diff, begin),
                              qs__out_at(j->dst, begin), qs__out_at(j->dst2, begin));
}

#define PAIR(name, which)                                                    \
    static qs_status run_##name(const qs__chain *chain, const qs_run *run) { \
        (void)run;                                                           \
        return both_run(chain, which, pair_range, pair_gradient_range);      \
    }                                                                        \
    qs_status qs__build_##name(qs__chain *chain) {                           \
        return qs__staged_build(chain, #name, run_##name);                   \
    }
PAIR(subtract, QS__SUBTRACT)
PAIR(divide, QS__DIVIDE)
PAIR(minimum, QS__MINIMUM)
PAIR(maximum, QS__MAXIMUM)
#undef PAIR
