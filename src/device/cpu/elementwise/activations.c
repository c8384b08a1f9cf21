// SPDX-License-Identifier: Apache-2.0
/* Our own kernels of smooth activation functions (gelu, silu, tanh) and of products of two values. */
#include "cpu/staging.h"

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__activation which;
    qs__in src, src2, diff;
    qs__out dst, dst2;
    float *absmax; /* of dst; NULL: not wanted */
} job;

static void activation_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->activation(j->which, end - begin, qs__in_at(j->src, begin), qs__out_at(j->dst, begin), j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void activation_gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->activation_gradient(j->which, end - begin, qs__in_at(j->src, begin), qs__in_at(j->diff, begin), qs__out_at(j->dst, begin),
                                    j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static qs_status activation_run(const qs__chain *chain, qs__activation which) {
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    const qs_role written = backward ? QS_DIFF_SRC : QS_DST;
    job j = {.kernels = chain->cpu->kernels,
             .which = which,
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, written),
             .absmax = qs__staged_absmax(chain, written)};
    if (backward) j.diff = qs__staged_in(chain, QS_DIFF_DST);
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, backward ? activation_gradient_range : activation_range, &j);
    return QS_OK;
}

static qs_status run_gelu(const qs__chain *chain, const qs_run *run) {
    (void)run;
    return activation_run(chain, chain->one.attributes.approximate > 0 ? QS__GELU_BY_TANH : QS__GELU);
}

static qs_status run_silu(const qs__chain *chain, const qs_run *run) {
    (void)run;
    return activation_run(chain, QS__SILU);
}

static qs_status run_tanh(const qs__chain *chain, const qs_run *run) {
    (void)run;
    return activation_run(chain, QS__TANH);
}

qs_status qs__build_gelu(qs__chain *chain) {
    return qs__staged_build(chain, "gelu", run_gelu);
}

qs_status qs__build_silu(qs__chain *chain) {
    return qs__staged_build(chain, "silu", run_silu);
}

qs_status qs__build_tanh(qs__chain *chain) {
    return qs__staged_build(chain, "tanh", run_tanh);
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

static qs_status run_multiply(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    job j = {.kernels = chain->cpu->kernels,
             .src = qs__staged_in(chain, QS_SRC),
             .src2 = qs__staged_in(chain, QS_SRC2),
             .dst = qs__staged_out(chain, backward ? QS_DIFF_SRC : QS_DST)};
    if (backward) {
        j.diff = qs__staged_in(chain, QS_DIFF_DST);
        j.dst2 = qs__staged_out(chain, QS_DIFF_SRC2);
    } else {
        j.absmax = qs__staged_absmax(chain, QS_DST);
    }
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, backward ? multiply_gradient_range : multiply_range, &j);
    return QS_OK;
}

qs_status qs__build_multiply(qs__chain *chain) {
    return qs__staged_build(chain, "multiply", run_multiply);
}
