// SPDX-License-Identifier: Apache-2.0
/* Our own batch norms, of every kind that qs_norm tells apart (batch_norm.cu): sums of slabs, their totals and what follows for each
 * channel, then every value. Absolute norms need their means before they can sum distances; quantized ones see all channels before they
 * round; so they launch more kernels, and read src once more where they are absolute. */
#include "cuda/norm.h"

#include <stdlib.h>
#include <string.h>

enum { SUMS = 3, VECTORS = 4, ROUND_THREADS = 1024, APPLY_THREADS = 256 };

/* Functions of a kernel, in the order in which build finds them. */
enum { SUM, SUM_DISTANCES, FINISH, ROUND, APPLY };

typedef struct plan {
    qs__columns cut; /* of sums */
    qs__batch_sums_job sums;
    qs__batch_finish_job finish;
    qs__batch_gradient_finish_job gradient;
    qs__batch_apply_job apply;
    int64_t apply_blocks;
} plan;

CUdeviceptr qs__cuda_at_optional(const qs__cuda_kernel *kernel, qs_role role) {
    return qs_case_position(&kernel->one, role) >= 0 ? qs__cuda_at(kernel, role) : 0;
}

qs__norm_rule qs__norm_rule_of(const qs__cuda_kernel *kernel) {
    const qs_norm *norm = kernel->one.op->norm;
    qs__norm_rule out = {.variance = 1, .epsilon = kernel->one.attributes.epsilon};
    if (!norm) return out;
    out.absolute = norm->absolute;
    out.variance = norm->spread == QS_VARIANCE;
    out.quantized = norm->quantized;
    out.centred = 1;
    if (norm->quantized) out.step = qs__cuda_at(kernel, QS_SRC_STEP);
    return out;
}

qs__norm_behind qs__norm_behind_of(const qs__cuda_kernel *kernel) {
    return (qs__norm_behind){.relu = kernel->one.attributes.relu,
                             .ceiling = (float)kernel->one.attributes.ceiling,
                             .mask = qs__cuda_at_optional(kernel, QS_MASK),
                             .absmax = qs__cuda_at_optional(kernel, QS_ABSMAX)};
}

static bool is_backward(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_DST) >= 0;
}

static bool is_inference(const qs_case *one) {
    return !is_backward(one) && qs_case_position(one, QS_MEAN) < 0;
}

static qs__columns cut_of(const qs__cuda_kernel *kernel, int blocks) {
    return qs__columns_cut_parts(kernel->cuda, 1, qs__cuda_rows(&kernel->one, QS_SRC), qs__cuda_channels(&kernel->one, QS_SRC), blocks);
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const bool backward = is_backward(one);
    const uint64_t sums = kernel->scratch + (uint64_t)kernel->plan[0], exact = kernel->scratch + (uint64_t)kernel->plan[1];
    const uint64_t vectors = kernel->scratch + (uint64_t)kernel->plan[2], each = (uint64_t)qs__cuda_channels(one, QS_SRC) * sizeof(float);
    plan *p;
    QS_TRY(qs_allocate(1, sizeof *p, &p));
    kernel->own = p;
    const qs__norm_rule rule = qs__norm_rule_of(kernel);
    const uint64_t centre = vectors, factor = vectors + each, offset = vectors + 2 * each, slope = vectors + 3 * each;
    p->cut = cut_of(kernel, QS__SUM_BLOCKS);
    p->sums = (qs__batch_sums_job){.cut = p->cut, .rule = rule, .src = qs__cuda_values_of(kernel, QS_SRC), .sums = sums};
    p->apply = (qs__batch_apply_job){.cut = cut_of(kernel, QS__VALUE_BLOCKS),
                                     .src = p->sums.src,
                                     .src2 = qs__cuda_values_of(kernel, QS_SRC2),
                                     .dst = qs__cuda_values_of(kernel, backward ? QS_DIFF_SRC : QS_DST),
                                     .behind = qs__norm_behind_of(kernel),
                                     .centre = centre,
                                     .factor = factor,
                                     .offset = offset,
                                     .slope = slope,
                                     .absolute = rule.absolute};
    p->apply_blocks =
        p->apply.cut.width == 8 ? qs__columns_blocks(&p->apply.cut) : qs__cuda_blocks(kernel->cuda, p->apply.dst.count, APPLY_THREADS, 8);
    if (backward) {
        p->sums.diff_dst = p->apply.diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST);
        p->sums.mask = p->apply.behind.mask;
        p->sums.centre = qs__cuda_at(kernel, QS_MEAN);
        p->gradient = (qs__batch_gradient_finish_job){.cut = p->cut,
                                                      .rule = rule,
                                                      .sums = sums,
                                                      .scale = qs__cuda_at(kernel, QS_SCALE),
                                                      .mean = qs__cuda_at(kernel, QS_MEAN),
                                                      .spread = qs__cuda_at(kernel, one->op->norm->spread),
                                                      .diff_scale = qs__cuda_at(kernel, QS_DIFF_SCALE),
                                                      .diff_shift = qs__cuda_at(kernel, QS_DIFF_SHIFT),
                                                      .centre = centre,
                                                      .factor = factor,
                                                      .offset = offset,
                                                      .slope = slope,
                                                      .absmax = p->apply.behind.absmax};
        return QS_OK;
    }
    p->sums.centre = centre;
    p->finish = (qs__batch_finish_job){.cut = p->cut,
                                       .rule = rule,
                                       .sums = sums,
                                       .exact = exact,
                                       .scale = qs__cuda_at(kernel, QS_SCALE),
                                       .shift = qs__cuda_at(kernel, QS_SHIFT),
                                       .running_mean = qs__cuda_at(kernel, QS_RUNNING_MEAN),
                                       .running_spread = qs__cuda_at(kernel, one->op->norm->running),
                                       .mean = qs__cuda_at_optional(kernel, QS_MEAN),
                                       .spread = qs__cuda_at_optional(kernel, one->op->norm->spread),
                                       .centre = centre,
                                       .factor = factor,
                                       .offset = offset,
                                       .absmax = p->apply.behind.absmax,
                                       .momentum = one->attributes.momentum};
    return QS_OK;
}

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
    kernel->own = NULL;
}

static qs_status apply(const qs__cuda_kernel *kernel, const plan *p) {
    return qs__cuda_launch(kernel, APPLY, p->apply_blocks, APPLY_THREADS, 0, &p->apply);
}

/* Sums of a stage, their totals, and, of quantized norms, what all channels decide. */
static qs_status stage(const qs__cuda_kernel *kernel, plan *p, int stage) {
    p->sums.stage = p->finish.stage = stage;
    QS_TRY(qs__cuda_launch(kernel, stage == QS__BATCH_DISTANCES ? SUM_DISTANCES : SUM, qs__columns_blocks(&p->cut), QS__COLUMN_THREADS, 0,
                           &p->sums));
    QS_TRY(qs__cuda_launch(kernel, FINISH, qs__columns_total_blocks(&p->cut), QS__TOTAL_THREADS, 0, &p->finish));
    return p->finish.rule.quantized ? qs__cuda_launch(kernel, ROUND, 1, ROUND_THREADS, 0, &p->finish) : QS_OK;
}

static qs_status run_forward(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    plan *p = kernel->own;
    if (p->finish.rule.absolute) {
        QS_TRY(stage(kernel, p, QS__BATCH_VALUES));
        QS_TRY(stage(kernel, p, QS__BATCH_DISTANCES));
    } else {
        QS_TRY(stage(kernel, p, QS__BATCH_MOMENTS));
    }
    return apply(kernel, p);
}

static qs_status run_inference(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    plan *p = kernel->own;
    p->finish.stage = QS__BATCH_RUNNING;
    QS_TRY(qs__cuda_launch(kernel, ROUND, 1, ROUND_THREADS, 0, &p->finish));
    return apply(kernel, p);
}

static qs_status run_backward(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    plan *p = kernel->own;
    QS_TRY(qs__cuda_launch(kernel, SUM, qs__columns_blocks(&p->cut), QS__COLUMN_THREADS, 0, &p->sums));
    QS_TRY(qs__cuda_launch(kernel, FINISH, qs__columns_total_blocks(&p->cut), QS__TOTAL_THREADS, 0, &p->gradient));
    return apply(kernel, p);
}

qs_status qs__cuda_build_batch_norm(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const qs_norm *norm = one->op->norm;
    const bool backward = is_backward(one);
    const qs__columns cut = cut_of(kernel, QS__SUM_BLOCKS);
    const bool eights = cut.width == 8;
    const size_t channels = (size_t)cut.channels, slabs = is_inference(one) ? 0 : (size_t)cut.slabs;
    const char *const normalize[2][2] = {{"batch_norm_normalize", "batch_norm_normalize_relu"},
                                         {"batch_norm_normalize_sum", "batch_norm_normalize_sum_relu"}};
    const char *const functions[] = {[SUM] = backward ? norm->absolute ? "batch_norm_gradient_sums_absolute" : "batch_norm_gradient_sums"
                                             : norm->absolute ? "batch_norm_values"
                                                              : "batch_norm_moments",
                                     [SUM_DISTANCES] = "batch_norm_distances",
                                     [FINISH] = backward ? "batch_norm_gradient_finish" : "batch_norm_finish",
                                     [ROUND] = "batch_norm_round",
                                     [APPLY] = !eights    ? backward ? "batch_norm_gradient_in_order" : "batch_norm_normalize_in_order"
                                               : backward ? norm->absolute ? "batch_norm_gradient_absolute" : "batch_norm_gradient"
                                                          : normalize[qs__case_has(one, QS_SRC2)][one->attributes.relu]};
    for (int i = SUM; i <= APPLY; i++) {
        int index;
        QS_TRY(qs__cuda_function(kernel, functions[i], &index));
    }
    kernel->plan[0] = (int64_t)qs__cuda_scratch(kernel, SUMS * slabs * channels * sizeof(double));
    kernel->plan[1] = (int64_t)qs__cuda_scratch(kernel, 2 * channels * sizeof(double));
    kernel->plan[2] = (int64_t)qs__cuda_scratch(kernel, VECTORS * channels * sizeof(float));
    kernel->prepare = prepare;
    kernel->run = is_inference(one) ? run_inference : backward ? run_backward : run_forward;
    kernel->release = release;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", one->op->name);
    return QS_OK;
}
