// SPDX-License-Identifier: Apache-2.0
/* Our own softmax (softmax.cu). */
#include "cuda/rows.h"
#include "cuda/softmax_jobs.h"

/* Functions of a kernel: rows in registers alone, or both of the others. */
enum { ROWS, STATISTICS = ROWS, VALUES };
enum { ROW_VECTORS = 3 };

static bool is_backward(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_DST) >= 0;
}

static int64_t channels_of(const qs_case *one) {
    return qs__case_operand(one, QS_SRC)->shape.dim[1];
}

static bool fits_registers(const qs_case *one) {
    const bool backward = is_backward(one);
    return qs__rows_fit(one, channels_of(one), QS_SRC, backward ? QS_DIFF_SRC : QS_DST, backward ? QS_DIFF_DST : QS_ROLE_COUNT);
}

static qs__softmax_job job_of(const qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const qs_shape *shape = &qs__case_operand(one, QS_SRC)->shape;
    const bool backward = is_backward(one);
    qs__softmax_job job = {.channels = shape->dim[1],
                           .rows = qs_shape_count(shape) / shape->dim[1],
                           .positions = shape->dim[shape->axes - 1],
                           .window = (int64_t)one->attributes.window,
                           .causal = one->attributes.causal != 0,
                           .lanes = qs__row_lanes(shape->dim[1]),
                           .scale = (float)one->attributes.scale,
                           .src = qs__cuda_values_of(kernel, QS_SRC),
                           .dst = qs__cuda_values_of(kernel, backward ? QS_DIFF_SRC : QS_DST),
                           .keep = qs__cuda_at(kernel, QS_KEEP)};
    job.of_sample = job.rows / shape->dim[0];
    if (backward) job.diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST);
    if (job.keep) job.masked = qs__case_operand(one, QS_KEEP)->shape.dim[1] != job.channels;
    job.maxima = kernel->scratch + (uint64_t)kernel->plan[0];
    job.inverses = job.maxima + (uint64_t)job.rows * sizeof(float);
    job.dots = job.inverses + (uint64_t)job.rows * sizeof(float);
    return job;
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    (void)step;
    const qs__softmax_job job = job_of(kernel);
    if (fits_registers(&kernel->one)) {
        enum { TIMES = 16 };
        const int64_t filling = (int64_t)kernel->cuda->multiprocessors * TIMES, most = qs__row_blocks_most(job.rows, job.channels);
        return qs__cuda_launch(kernel, ROWS, most < filling ? most : filling, QS__ROW_THREADS, 0, &job);
    }
    QS_TRY(qs__rows_launch(kernel, STATISTICS, job.rows, job.channels, &job));
    return qs__order_launch(kernel, VALUES, job.dst.count, &job);
}

qs_status qs__cuda_build_softmax(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const int64_t channels = channels_of(one);
    char in_rows[32];
    int index;
    snprintf(in_rows, sizeof in_rows, "softmax_rows_%d", qs__row_vectors(channels));
    QS_TRY(qs__cuda_function(kernel, fits_registers(one) ? in_rows : "softmax_statistics", &index));
    QS_TRY(qs__cuda_function(kernel, "softmax_values", &index));
    if (!fits_registers(one)) {
        const size_t rows = (size_t)(qs__case_count(one, QS_SRC) / channels);
        kernel->plan[0] = (int64_t)qs__cuda_scratch(kernel, ROW_VECTORS * rows * sizeof(float));
    }
    kernel->run = run;
    snprintf(kernel->name, sizeof kernel->name, "own:softmax");
    return QS_OK;
}
