// SPDX-License-Identifier: Apache-2.0
/* Family statistics: several passes of own kernels over the tensor. */
#include "cuda/statistics_jobs.h"
#include "cuda/own.h"

#include <string.h>

/* Functions, and parts of the scratch: zeros first. */
enum { ALL, CHANNELS, STEPS, SQUARES, FLOAT, FIXED, SLOTS, FINISH };
enum { EXTREMES, CHANNEL, EXPONENTS, STEP, PIECES, SUMS };
enum { FIELDS = 256, SUMS_OF_ALL = 4 };

static int64_t channels_of(const qs_case *one) {
    return qs__case_operand(one, QS_SRC)->shape.dim[one->attributes.per_channel ? 0 : 1];
}

static qs__cuda_statistics_job job_of(const qs__cuda_kernel *kernel) {
    const CUdeviceptr scratch = kernel->scratch;
    return (qs__cuda_statistics_job){.src = qs__cuda_values_of(kernel, QS_SRC),
                                     .channels = channels_of(&kernel->one),
                                     .rows = kernel->one.attributes.per_channel,
                                     .integer = qs__cuda_format_of(qs_format_of("int8")),
                                     .extremes = scratch + (CUdeviceptr)kernel->plan[EXTREMES],
                                     .channel = scratch + (CUdeviceptr)kernel->plan[CHANNEL],
                                     .exponents = scratch + (CUdeviceptr)kernel->plan[EXPONENTS],
                                     .step = scratch + (CUdeviceptr)kernel->plan[STEP],
                                     .sums = scratch + (CUdeviceptr)kernel->plan[SUMS],
                                     .out = qs__cuda_at(kernel, QS_STATISTICS)};
}

/* A sum over each of `rows` rows, by a kernel of sums.cu. */
static qs_status sum_run(qs__cuda_kernel *kernel, int index, const qs__cuda_statistics_job *job, int64_t rows, const char *format,
                         CUdeviceptr step, CUdeviceptr out) {
    const int64_t per_row = job->src.count / rows, pieces = qs__cuda_pieces(per_row);
    const CUdeviceptr sums = kernel->scratch + (CUdeviceptr)kernel->plan[PIECES];
    const qs__cuda_pieces_job each = {.src = job->src,
                                      .rows = rows,
                                      .per_row = per_row,
                                      .pieces = pieces,
                                      .sums = sums,
                                      .step = step,
                                      .format = qs__cuda_format_of(qs_format_of(format))};
    const qs__cuda_slots_job slots = {.pieces = pieces, .sums = sums, .out = out};
    QS_TRY(qs__cuda_pieces_run(kernel, index, &each));
    return qs__cuda_launch(kernel, SLOTS, rows, QS__CUDA_SLOTS, 0, &slots);
}

static qs_status extremes_run(qs__cuda_kernel *kernel, const qs__cuda_statistics_job *job) {
    const int threads = QS__CUDA_THREADS;
    const int64_t count = job->src.count, channels = job->channels, blocks = qs__cuda_blocks(kernel->cuda, count, threads, 8);
    const int64_t least = job->rows ? channels : (channels + threads - 1) / threads;
    const int64_t wanted = job->rows ? blocks / channels * channels : blocks;
    QS_TRY(qs__cuda_clear(kernel, kernel->scratch, (size_t)kernel->plan[STEP]));
    QS_TRY(qs__cuda_launch(kernel, ALL, blocks, threads, 0, job));
    return qs__cuda_launch(kernel, CHANNELS, count == 0 ? 0 : wanted > least ? wanted : least, threads, 0, job);
}

static qs_status statistics_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs__cuda_statistics_job job = job_of(kernel);
    const int64_t one = sizeof(double);
    (void)run;
    QS_TRY(extremes_run(kernel, &job));
    QS_TRY(qs__cuda_launch(kernel, STEPS, qs__cuda_blocks(kernel->cuda, job.channels, QS__CUDA_THREADS, 1), QS__CUDA_THREADS, 0, &job));
    QS_TRY(sum_run(kernel, SQUARES, &job, 1, "fp32", 0, job.sums));
    QS_TRY(sum_run(kernel, FLOAT, &job, 1, "bf16", 0, job.sums + one));
    QS_TRY(sum_run(kernel, FLOAT, &job, 1, "fp16", 0, job.sums + 2 * one));
    QS_TRY(sum_run(kernel, FIXED, &job, 1, "int8", job.step, job.sums + 3 * one));
    if (job.rows) QS_TRY(sum_run(kernel, FIXED, &job, job.channels, "int8", job.step + sizeof(float), job.sums + SUMS_OF_ALL * one));
    return qs__cuda_launch(kernel, FINISH, 1, QS__CUDA_THREADS, 0, &job);
}

qs_status qs__cuda_build_statistics(qs__cuda_kernel *kernel) {
    const bool rows = kernel->one.attributes.per_channel;
    const char *const names[] = {[ALL] = "statistics_all",        [CHANNELS] = rows ? "statistics_rows" : "statistics_columns",
                                 [STEPS] = "statistics_steps",    [SQUARES] = "sums_squares",
                                 [FLOAT] = "sums_variance_float", [FIXED] = "sums_variance_fixed",
                                 [SLOTS] = "sums_slots",          [FINISH] = "statistics_finish"};
    const int64_t count = qs__case_count(&kernel->one, QS_SRC), channels = channels_of(&kernel->one);
    const int64_t of_rows = rows ? channels : 0, pieces = qs__cuda_pieces(count);
    const int64_t row_pieces = rows ? channels * qs__cuda_pieces(count / channels) : 0;
    const size_t bytes[] = {[EXTREMES] = 2 * sizeof(uint32_t),
                            [CHANNEL] = 2 * sizeof(uint32_t) * (size_t)channels,
                            [EXPONENTS] = FIELDS * sizeof(uint64_t),
                            [STEP] = sizeof(float) * (size_t)(1 + of_rows),
                            [PIECES] = sizeof(double) * (size_t)(pieces > row_pieces ? pieces : row_pieces),
                            [SUMS] = sizeof(double) * (size_t)(SUMS_OF_ALL + of_rows)};
    strcpy(kernel->name, "own:statistics");
    kernel->run = statistics_run;
    for (int i = 0; i <= SUMS; i++)
        kernel->plan[i] = (int64_t)qs__cuda_scratch(kernel, bytes[i]);
    for (int i = 0, index; i <= FINISH; i++)
        QS_TRY(qs__cuda_function(kernel, names[i], &index));
    return QS_OK;
}
