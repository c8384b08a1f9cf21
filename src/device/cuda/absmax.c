// SPDX-License-Identifier: Apache-2.0
/* Families absmax and finite_check: own kernels for every float format. */
#include "cuda/absmax.h"

#include <math.h>
#include <string.h>

enum { ROWS_EACH = 16 }; /* a thread goes through so many rows of its column at least: what is found is written seldom */

qs__cuda_hadamard qs__cuda_hadamard_of(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const qs_shape *shape = &qs__case_operand(one, QS_SRC)->shape;
    if (with->hadamard == 0) return (qs__cuda_hadamard){0};
    return (qs__cuda_hadamard){.block = with->hadamard,
                               .scale = (float)(1 / sqrt(with->hadamard)),
                               .run = with->axis == 1 ? 1 : qs_shape_count(shape) / shape->dim[0]};
}

qs_status qs__cuda_columns_absmax(qs__cuda_kernel *kernel, int index, qs__cuda_values src, CUdeviceptr absmax, int64_t columns) {
    const qs__cuda_absmax_job job = {.src = src, .absmax = absmax, .columns = columns};
    const int threads = QS__CUDA_THREADS, wide = columns % 8 == 0 ? 8 : 1; /* columns that a thread takes */
    const int64_t groups = columns / wide, most = qs__cuda_blocks(kernel->cuda, src.count, threads, wide * ROWS_EACH);
    const int64_t least = (groups + threads - 1) / threads; /* blocks that one row takes */
    const int shared = groups < threads ? (int)columns * (int)sizeof(unsigned) : 0;
    QS_TRY(qs__cuda_clear(kernel, absmax, (size_t)columns * sizeof(float)));
    return qs__cuda_launch(kernel, index, src.count == 0 ? 0 : most > least ? most : least, threads, shared, &job);
}

static qs_status columns_run(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    return qs__cuda_columns_absmax(kernel, 0, qs__cuda_values_of(kernel, QS_SRC), qs__cuda_at(kernel, QS_ABSMAX),
                                   qs__case_count(&kernel->one, QS_ABSMAX));
}

static qs_status absmax_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs__cuda_absmax_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                                     .absmax = qs__cuda_at(kernel, QS_ABSMAX),
                                     .transform = qs__cuda_hadamard_of(&kernel->one)};
    const int each = job.transform.block ? 2 : 8 * QS__CUDA_EIGHTS;
    (void)run;
    const int64_t blocks = qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, each);
    return qs__cuda_launch(kernel, 0, blocks > 0 ? blocks : 1, QS__CUDA_THREADS, 0, &job); /* one writes the 0 of no elements */
}

qs_status qs__cuda_build_absmax(qs__cuda_kernel *kernel) {
    const qs_attributes *with = &kernel->one.attributes;
    int index;
    strcpy(kernel->name, "own:absmax");
    kernel->run = with->per_channel ? columns_run : absmax_run;
    return qs__cuda_function(kernel, with->per_channel ? "absmax_columns" : with->hadamard ? "absmax_transformed" : "absmax", &index);
}

static qs_status finite_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs__cuda_finite_job job = {.src = qs__cuda_values_of(kernel, QS_SRC), .flag = qs__cuda_at(kernel, QS_FLAG)};
    (void)run;
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, 8 * QS__CUDA_EIGHTS), QS__CUDA_THREADS,
                           0, &job);
}

qs_status qs__cuda_build_finite_check(qs__cuda_kernel *kernel) {
    int index;
    strcpy(kernel->name, "own:finite_check");
    kernel->run = finite_run;
    return qs__cuda_function(kernel, "finite_check", &index);
}
