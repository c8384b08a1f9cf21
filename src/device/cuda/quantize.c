// SPDX-License-Identifier: Apache-2.0
/* Families quantize and dequantize: own kernels for every float format, rounding and way to have steps. */
#include "cuda/quantize_jobs.h"
#include "cuda/absmax.h"

#include <string.h>

/* What a quantize kernel has found when it was built: its functions, and where in its scratch maxima or factors lie. */
enum { FIRST, SECOND, THIRD }; /* functions, in the order of their runs */
/* Of the plan: maxima of rows, or factors of columns; sums and ratios of clipping, and its first function. */
enum { SCRATCH, ERRORS, RATIOS, CLIPS };

static bool has_row_steps(const qs_case *one) {
    return one->attributes.per_channel && one->attributes.axis == 0;
}

static qs__cuda_quantize_job job_of(const qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_case *one = &kernel->one;
    const CUdeviceptr found = kernel->scratch + (CUdeviceptr)kernel->plan[SCRATCH];
    const int64_t count = qs__case_count(one, QS_SRC);
    qs__cuda_quantize_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                                 .dst = qs__cuda_values_of(kernel, QS_DST),
                                 .draws = qs__cuda_draws_of(one, run),
                                 .rounding = (int)one->attributes.rounding,
                                 .absmax = qs__cuda_at(kernel, QS_ABSMAX),
                                 .step = qs__cuda_at(kernel, QS_DST_STEP),
                                 .extent = count,
                                 .transform = qs__cuda_hadamard_of(one)};
    if (has_row_steps(one)) {
        job.steps = QS__CUDA_ROW_STEPS;
        job.absmax = found;
        job.extent = count / qs__case_count(one, QS_DST_STEP);
    } else if (one->attributes.per_channel) {
        job.steps = QS__CUDA_COLUMN_STEPS;
        job.factor = found;
        job.extent = qs__case_count(one, QS_ABSMAX);
    }
    return job;
}

/* Ratios by which steps shrink, where the case says so: their address, else 0. `absmax`: of all units, which are rows, columns or one. */
static qs_status ratios_find(qs__cuda_kernel *kernel, CUdeviceptr absmax, uint64_t *ratio) {
    enum { EACH = 32 };
    const qs_case *one = &kernel->one;
    const bool rows = has_row_steps(one), columns = one->attributes.per_channel && !rows && one->attributes.shifts == 0;
    const int64_t count = qs__case_count(one, QS_SRC), units = rows || columns ? qs__case_count(one, QS_DST_STEP) : 1;
    qs__cuda_clip_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                             .format = qs__cuda_format_of(qs__case_format(one, QS_DST)),
                             .absmax = absmax,
                             .error = kernel->scratch + (CUdeviceptr)kernel->plan[ERRORS],
                             .ratio = kernel->scratch + (CUdeviceptr)kernel->plan[RATIOS],
                             .units = units,
                             .extent = count / units,
                             .next = columns ? 1 : count / units,
                             .stride = columns ? units : 1,
                             .channels = one->attributes.shifts > 0 ? qs__case_count(one, QS_ABSMAX) : 1,
                             .shifts = one->attributes.shifts};
    *ratio = 0;
    if (!one->attributes.least_squares) return QS_OK;
    for (int k = 0; k < QS_CLIPS; k++) {
        job.ratios[k] = qs_clip_ratio(k);
        job.up[k] = job.format.max / job.ratios[k];
        job.down[k] = job.ratios[k] / job.format.max;
    }
    const int64_t wanted = qs__cuda_blocks(kernel->cuda, job.extent, QS__CUDA_THREADS, EACH), parts = wanted > 0 ? wanted : 1;
    QS_TRY(qs__cuda_clear(kernel, job.error, (size_t)units * QS_CLIPS * sizeof(uint64_t)));
    QS_TRY(qs__cuda_launch(kernel, (int)kernel->plan[CLIPS], units * parts, QS__CUDA_THREADS, 0, &job));
    QS_TRY(qs__cuda_launch(kernel, (int)kernel->plan[CLIPS] + 1, qs__cuda_blocks(kernel->cuda, units, QS__CUDA_THREADS, 1),
                           QS__CUDA_THREADS, 0, &job));
    *ratio = job.ratio;
    return QS_OK;
}

static qs_status codes_run(qs__cuda_kernel *kernel, int index, const qs__cuda_quantize_job *job) {
    const int each = job->transform.block ? 2 : 32; /* what threads find first is for several eights */
    return qs__cuda_launch(kernel, index, qs__cuda_blocks(kernel->cuda, job->src.count, QS__CUDA_THREADS, each), QS__CUDA_THREADS, 0, job);
}

static qs_status tensor_run(qs__cuda_kernel *kernel, const qs_run *run) {
    qs__cuda_quantize_job job = job_of(kernel, run);
    QS_TRY(ratios_find(kernel, job.absmax, &job.ratio));
    return codes_run(kernel, FIRST, &job);
}

static qs_status columns_run(qs__cuda_kernel *kernel, const qs_run *run) {
    enum { BLOCK = 512 };
    const qs__cuda_quantize_job job = job_of(kernel, run);
    uint64_t ratio = 0;
    QS_TRY(ratios_find(kernel, job.absmax, &ratio));
    const qs__cuda_column_steps_job steps = {.absmax = job.absmax,
                                             .columns = job.extent,
                                             .format = job.dst.format,
                                             .shifts = kernel->one.attributes.shifts,
                                             .ratio = ratio,
                                             .unit = job.rounding == QS_STOCHASTIC ? 0x1p16f : 1.0f,
                                             .step = job.step,
                                             .group = qs__cuda_at(kernel, QS_DST_GROUP),
                                             .factor = job.factor};
    QS_TRY(qs__cuda_launch(kernel, FIRST, 1, BLOCK, 0, &steps));
    return codes_run(kernel, SECOND, &job);
}

/* Rows find their maxima first; those of columns, a by-product, are sought by themselves. */
static qs_status rows_run(qs__cuda_kernel *kernel, const qs_run *run) {
    enum { EACH = 8 };
    qs__cuda_quantize_job job = job_of(kernel, run);
    const int64_t rows = job.src.count / job.extent;
    const int64_t wanted = qs__cuda_blocks(kernel->cuda, job.extent, QS__CUDA_THREADS, EACH);
    const int64_t most = qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, EACH) / rows;
    const qs__cuda_absmax_job find = {.src = job.src, .absmax = job.absmax, .per_row = job.extent};
    QS_TRY(qs__cuda_clear(kernel, job.absmax, (size_t)rows * sizeof(float)));
    QS_TRY(qs__cuda_launch(kernel, FIRST, rows * (most < 1 ? 1 : wanted < most ? wanted : most), QS__CUDA_THREADS, 0, &find));
    QS_TRY(ratios_find(kernel, job.absmax, &job.ratio));
    QS_TRY(codes_run(kernel, SECOND, &job));
    if (!qs__cuda_at(kernel, QS_COLUMN_ABSMAX)) return QS_OK;
    return qs__cuda_columns_absmax(kernel, THIRD, job.src, qs__cuda_at(kernel, QS_COLUMN_ABSMAX),
                                   qs__case_count(&kernel->one, QS_COLUMN_ABSMAX));
}

static qs_status clips_build(qs__cuda_kernel *kernel) {
    const size_t steps = (size_t)qs__case_count(&kernel->one, QS_DST_STEP);
    int index;
    if (!kernel->one.attributes.least_squares) return QS_OK;
    kernel->plan[ERRORS] = (int64_t)qs__cuda_scratch(kernel, steps * QS_CLIPS * sizeof(uint64_t));
    kernel->plan[RATIOS] = (int64_t)qs__cuda_scratch(kernel, steps * sizeof(float));
    QS_TRY(qs__cuda_function(kernel, "clip_errors", &index));
    kernel->plan[CLIPS] = index;
    return qs__cuda_function(kernel, "clip_choose", &index);
}

qs_status qs__cuda_build_quantize(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    int index;
    strcpy(kernel->name, "own:quantize");
    if (!one->attributes.per_channel) {
        kernel->run = tensor_run;
        QS_TRY(qs__cuda_function(kernel, one->attributes.hadamard ? "quantize_transformed" : "quantize", &index));
        return clips_build(kernel);
    }
    kernel->run = has_row_steps(one) ? rows_run : columns_run;
    kernel->plan[SCRATCH] =
        (int64_t)qs__cuda_scratch(kernel, (size_t)qs__case_count(one, has_row_steps(one) ? QS_DST_STEP : QS_ABSMAX) * sizeof(float));
    QS_TRY(qs__cuda_function(kernel, has_row_steps(one) ? "absmax_rows" : "column_steps", &index));
    QS_TRY(qs__cuda_function(kernel, "quantize", &index));
    if (qs__case_has(one, QS_COLUMN_ABSMAX)) QS_TRY(qs__cuda_function(kernel, "absmax_columns", &index));
    return clips_build(kernel);
}

static qs_status dequantize_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_case *one = &kernel->one;
    const int64_t steps = qs__case_count(one, QS_SRC_STEP);
    qs__cuda_dequantize_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                                   .dst = qs__cuda_values_of(kernel, QS_DST),
                                   .step = qs__cuda_at(kernel, QS_SRC_STEP),
                                   .group = qs__cuda_at(kernel, QS_SRC_GROUP),
                                   .extent = qs__case_count(one, QS_SRC)};
    (void)run;
    if (job.group) {
        job.steps = QS__CUDA_COLUMN_STEPS;
        job.extent = qs__case_count(one, QS_SRC_GROUP);
    } else if (steps > 1) {
        job.steps = QS__CUDA_ROW_STEPS;
        job.extent /= steps;
    }
    const int each = job.steps == QS__CUDA_ONE_STEP ? 32 : 8; /* of a stream, a thread has several eights on their way */
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, each), QS__CUDA_THREADS, 0, &job);
}

qs_status qs__cuda_build_dequantize(qs__cuda_kernel *kernel) {
    int index;
    strcpy(kernel->name, "own:dequantize");
    kernel->run = dequantize_run;
    return qs__cuda_function(kernel, "dequantize", &index);
}
