// SPDX-License-Identifier: Apache-2.0
/* Our own norms of groups of channels, group_norm and instance_norm: sums of slabs that are each of one sample, what follows from them
 * (group_norm.cu), every value once more. Backward forms statistics anew, since nothing is kept of forward. */
#include "cuda/norm.h"
#include "cuda/own.h"

#include <stdlib.h>

enum { SUMS = 2, VECTORS = 5, APPLY_THREADS = 256, FINISH_THREADS = 128 };

/* Functions of a kernel, in the order in which build finds them. */
enum { MOMENTS, TOTALS, FINISH, APPLY, GRADIENT_SUMS, GRADIENT_FINISH, PARAMETERS, FUNCTIONS };

typedef struct plan {
    qs__batch_sums_job moments, gradient_sums;
    qs__group_totals_job totals;
    qs__group_finish_job finish, gradient_finish;
    qs__layer_gradient_job parameters;
    qs__batch_apply_job apply;
    int64_t apply_blocks, finish_blocks;
} plan;

static bool is_backward(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_DST) >= 0;
}

static int64_t samples_of(const qs_case *one) {
    return qs__case_operand(one, QS_SRC)->shape.dim[0];
}

/* Channels of a group. */
static int64_t members_of(const qs_case *one) {
    return one->op->takes & QS_TAKES_GROUPS ? qs__cuda_channels(one, QS_SRC) / one->attributes.groups : 1;
}

static qs__columns cut_of(const qs__cuda_kernel *kernel, int blocks) {
    const qs_case *one = &kernel->one;
    return qs__columns_cut_parts(kernel->cuda, samples_of(one), qs__cuda_rows(one, QS_SRC) / samples_of(one),
                                 qs__cuda_channels(one, QS_SRC), blocks);
}

static void plan_backward(const qs__cuda_kernel *kernel, plan *p) {
    const qs__columns *cut = &p->moments.cut;
    p->gradient_sums = p->moments;
    p->gradient_sums.diff_dst = p->apply.diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST);
    p->gradient_sums.centre = p->finish.centre;
    p->gradient_finish = p->finish;
    /* Totals of samples are slabs to it; of its two sums, dy times the normalised value comes second here. */
    p->parameters = (qs__layer_gradient_job){.cut = {.rows = cut->rows, .channels = cut->channels, .slabs = samples_of(&kernel->one)},
                                             .sums = p->finish.totals,
                                             .diff_scale = qs__cuda_at(kernel, QS_DIFF_SHIFT),
                                             .diff_shift = qs__cuda_at(kernel, QS_DIFF_SCALE)};
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const bool backward = is_backward(one);
    const qs__columns cut = cut_of(kernel, QS__SUM_BLOCKS);
    const int64_t members = members_of(one), groups = samples_of(one) * cut.channels / members;
    const uint64_t sums = kernel->scratch + (uint64_t)kernel->plan[0], vectors = kernel->scratch + (uint64_t)kernel->plan[2];
    const uint64_t totals = cut.part_slabs == 1 ? sums : kernel->scratch + (uint64_t)kernel->plan[1];
    const uint64_t each = (uint64_t)(groups * members) * sizeof(float);
    plan *p;
    QS_TRY(qs_allocate(1, sizeof *p, &p));
    kernel->own = p;
    p->moments = (qs__batch_sums_job){
        .cut = cut, .rule = qs__norm_rule_of(kernel), .src = qs__cuda_values_of(kernel, QS_SRC), .sums = sums, .stage = QS__BATCH_MOMENTS};
    p->totals = (qs__group_totals_job){.cut = cut, .sums = sums, .totals = totals};
    p->finish = (qs__group_finish_job){.cut = cut,
                                       .epsilon = one->attributes.epsilon,
                                       .groups = groups,
                                       .members = members,
                                       .lanes = 1,
                                       .totals = totals,
                                       .scale = qs__cuda_at(kernel, QS_SCALE),
                                       .shift = qs__cuda_at_optional(kernel, QS_SHIFT),
                                       .centre = vectors,
                                       .inverse = vectors + each,
                                       .factor = vectors + 2 * each,
                                       .offset = vectors + 3 * each,
                                       .slope = vectors + 4 * each};
    while (p->finish.lanes < QS__CUDA_WARP && p->finish.lanes < members)
        p->finish.lanes *= 2;
    p->finish_blocks = qs__cuda_blocks(kernel->cuda, groups * p->finish.lanes, FINISH_THREADS, 1);
    p->apply = (qs__batch_apply_job){.cut = cut_of(kernel, QS__VALUE_BLOCKS),
                                     .src = p->moments.src,
                                     .dst = qs__cuda_values_of(kernel, backward ? QS_DIFF_SRC : QS_DST),
                                     .centre = p->finish.centre,
                                     .factor = p->finish.factor,
                                     .offset = p->finish.offset,
                                     .slope = p->finish.slope};
    p->apply_blocks =
        p->apply.cut.width == 8 ? qs__columns_blocks(&p->apply.cut) : qs__cuda_blocks(kernel->cuda, p->apply.dst.count, APPLY_THREADS, 8);
    if (backward) plan_backward(kernel, p);
    return QS_OK;
}

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
    kernel->own = NULL;
}

/* Sums of slabs, the totals of samples, and what follows from them. */
static qs_status stage(const qs__cuda_kernel *kernel, const plan *p, int sums, const void *sums_job, int finish, const void *finish_job) {
    const qs__columns *cut = &p->moments.cut;
    const bool several = cut->part_slabs > 1;
    QS_TRY(qs__cuda_launch(kernel, sums, qs__columns_blocks(cut), QS__COLUMN_THREADS, 0, sums_job));
    QS_TRY(qs__cuda_launch(kernel, TOTALS, several ? samples_of(&kernel->one) * qs__columns_total_blocks(cut) : 0, QS__TOTAL_THREADS, 0,
                           &p->totals));
    return qs__cuda_launch(kernel, finish, p->finish_blocks, FINISH_THREADS, 0, finish_job);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    (void)step;
    const plan *p = kernel->own;
    const bool backward = is_backward(&kernel->one);
    QS_TRY(stage(kernel, p, MOMENTS, &p->moments, FINISH, &p->finish));
    if (backward) QS_TRY(stage(kernel, p, GRADIENT_SUMS, &p->gradient_sums, GRADIENT_FINISH, &p->gradient_finish));
    QS_TRY(qs__cuda_launch(kernel, APPLY, p->apply_blocks, APPLY_THREADS, 0, &p->apply));
    if (!backward) return QS_OK;
    return qs__cuda_launch(kernel, PARAMETERS, qs__columns_total_blocks(&p->moments.cut), QS__TOTAL_THREADS, 0, &p->parameters);
}

qs_status qs__cuda_build_group_norm(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const bool backward = is_backward(one);
    const qs__columns cut = cut_of(kernel, QS__SUM_BLOCKS);
    const bool eights = cut.width == 8;
    const size_t channels = (size_t)cut.channels, samples = (size_t)samples_of(one);
    const char *const functions[] = {[MOMENTS] = "batch_norm_moments",
                                     [TOTALS] = "group_norm_totals",
                                     [FINISH] = "group_norm_finish",
                                     [APPLY] = backward ? eights ? "batch_norm_gradient" : "batch_norm_gradient_in_order"
                                               : eights ? "batch_norm_normalize"
                                                        : "batch_norm_normalize_in_order",
                                     [GRADIENT_SUMS] = "batch_norm_gradient_sums",
                                     [GRADIENT_FINISH] = "group_norm_gradient_finish",
                                     [PARAMETERS] = "layer_norm_parameters"};
    for (int i = 0; i < FUNCTIONS; i++) {
        int index;
        QS_TRY(qs__cuda_function(kernel, functions[i], &index));
    }
    kernel->plan[0] = (int64_t)qs__cuda_scratch(kernel, SUMS * (size_t)cut.slabs * channels * sizeof(double));
    kernel->plan[1] = cut.part_slabs > 1 ? (int64_t)qs__cuda_scratch(kernel, SUMS * samples * channels * sizeof(double)) : 0;
    kernel->plan[2] = (int64_t)qs__cuda_scratch(kernel, VECTORS * samples * channels * sizeof(float));
    kernel->prepare = prepare;
    kernel->run = run;
    kernel->release = release;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", one->op->name);
    return QS_OK;
}
