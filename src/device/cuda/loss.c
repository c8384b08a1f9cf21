// SPDX-License-Identifier: Apache-2.0
/* Our own losses (loss.cu). Labels lie in the GPU's memory: one that is no class is found there, and told of at the next wait. */
#include "cuda/loss_jobs.h"
#include "cuda/rows.h"

#include <string.h>

enum { TOTAL_THREADS = 256 };

/* Functions of a kernel: what belongs to rows, or parts; then their total, or every value. */
enum { FIRST, SECOND };

static bool is_forward(const qs_case *one) {
    return strcmp(one->pass->name, "forward") == 0;
}

static qs_status complain(const qs__cuda_kernel *kernel, const qs__cuda_complaint *complaint) {
    const qs_logits logits = qs_case_logits(&kernel->one);
    return qs_fail(QS_USAGE, "label %d of sample %lld: there are %lld %s", complaint->value, (long long)(complaint->index / logits.rows),
                   (long long)logits.classes, logits.all ? "positions" : "classes");
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    const qs_logits logits = qs_case_logits(&kernel->one);
    const uint64_t scratch = kernel->scratch + (uint64_t)kernel->plan[0];
    const int64_t samples = step->samples < logits.samples ? step->samples : logits.samples;
    qs__loss_job job = {.rows = logits.samples * logits.rows,
                        .rows_of_sample = logits.rows,
                        .classes = logits.classes,
                        .next_row = logits.next_row,
                        .next_class = logits.next_class,
                        .counted = samples * logits.rows,
                        .all = logits.all,
                        .ignores = logits.ignores,
                        .weight = logits.weight,
                        .smoothing = step->label_smoothing,
                        .factor = (float)(logits.weight * step->loss_scale / (double)step->global_samples),
                        .src = qs__cuda_values_of(kernel, QS_SRC),
                        .labels = qs__cuda_at(kernel, QS_LABELS),
                        .complaint = kernel->cuda->complaint_address,
                        .number = kernel->number};
    if (is_forward(&kernel->one)) {
        job.losses = scratch;
        job.right = scratch + (uint64_t)job.rows * sizeof(double);
        job.loss = qs__cuda_at(kernel, QS_LOSS);
        QS_TRY(qs__rows_launch(kernel, FIRST, job.rows, job.classes, &job));
        return qs__cuda_launch(kernel, SECOND, 1, TOTAL_THREADS, 0, &job);
    }
    job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    job.maxima = scratch;
    job.inverses = scratch + (uint64_t)job.rows * sizeof(float);
    QS_TRY(qs__rows_launch(kernel, FIRST, job.rows, job.classes, &job));
    return qs__order_launch(kernel, SECOND, job.dst.count, &job);
}

qs_status qs__cuda_build_loss(qs__cuda_kernel *kernel) {
    const qs_logits logits = qs_case_logits(&kernel->one);
    const bool forward = is_forward(&kernel->one);
    int index;
    QS_TRY(qs__cuda_function(kernel, forward ? "cross_entropy_rows" : "cross_entropy_powers", &index));
    QS_TRY(qs__cuda_function(kernel, forward ? "cross_entropy_total" : "cross_entropy_gradient", &index));
    kernel->plan[0] =
        (int64_t)qs__cuda_scratch(kernel, 2 * (size_t)(logits.samples * logits.rows) * (forward ? sizeof(double) : sizeof(float)));
    kernel->run = run;
    kernel->complain = complain;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", kernel->one.op->name);
    return QS_OK;
}

/* ---- Squared loss ---- */

static int64_t part_blocks(const qs__cuda_kernel *kernel) {
    return qs__cuda_blocks(kernel->cuda, qs__case_count(&kernel->one, QS_SRC), TOTAL_THREADS, 8);
}

static qs_status run_squared(qs__cuda_kernel *kernel, const qs_run *step) {
    const qs_shape *shape = &qs__case_operand(&kernel->one, QS_SRC)->shape;
    const int64_t samples = step->samples < shape->dim[0] ? step->samples : shape->dim[0];
    const double numbers = (double)shape->dim[1];
    qs__squared_loss_job job = {.counted = samples * shape->dim[1],
                                .src = qs__cuda_values_of(kernel, QS_SRC),
                                .target = qs__cuda_at(kernel, QS_TARGET),
                                .parts = kernel->scratch + (uint64_t)kernel->plan[0]};
    if (is_forward(&kernel->one)) {
        job.factor = 1 / numbers;
        job.blocks = (int)part_blocks(kernel);
        job.loss = qs__cuda_at(kernel, QS_LOSS);
        QS_TRY(qs__cuda_launch(kernel, FIRST, job.blocks, TOTAL_THREADS, 0, &job));
        return qs__cuda_launch(kernel, SECOND, 1, TOTAL_THREADS, 0, &job);
    }
    job.factor = 2 * step->loss_scale / ((double)step->global_samples * numbers);
    job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    return qs__order_launch(kernel, FIRST, job.dst.count, &job);
}

qs_status qs__cuda_build_squared_loss(qs__cuda_kernel *kernel) {
    const bool forward = is_forward(&kernel->one);
    int index;
    QS_TRY(qs__cuda_function(kernel, forward ? "squared_loss_parts" : "squared_loss_gradient", &index));
    if (forward) {
        QS_TRY(qs__cuda_function(kernel, "squared_loss_total", &index));
        kernel->plan[0] = (int64_t)qs__cuda_scratch(kernel, (size_t)part_blocks(kernel) * sizeof(double));
    }
    kernel->run = run_squared;
    snprintf(kernel->name, sizeof kernel->name, "own:squared_loss");
    return QS_OK;
}
