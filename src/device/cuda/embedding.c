// SPDX-License-Identifier: Apache-2.0
/* The family of embeddings: forward moves rows (layout.c), backward sums them (table.cu). */
#include "cuda/table_jobs.h"

#include "cuda/layout.h"
#include "cuda/operands.h"
#include "cuda/own.h"

enum { COUNT, LIST, LONGS, EACH }; /* of kernel->plan: offsets in scratch; columns that a thread takes */
enum { FILL_LISTS, SUM };          /* functions */
enum { LONG_BLOCKS = 4 };          /* on a multiprocessor at most: others write the many rows that nobody reads meanwhile */

/* More rows than these cannot have more readers than a list holds. */
static int64_t most_long_rows(const qs__cuda_kernel *kernel) {
    const int64_t most = qs__case_count(&kernel->one, QS_IDS) / (QS__READERS + 1);
    const int64_t rows = qs__case_operand(&kernel->one, QS_DIFF_WEIGHTS)->shape.dim[0];
    return most < rows ? most : rows;
}

static qs_status run_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs__cuda *cuda = kernel->cuda;
    const qs_shape *table = &qs__case_operand(&kernel->one, QS_DIFF_WEIGHTS)->shape;
    const int64_t pieces = (table->dim[1] - 1) / QS__SUM_COLUMNS + 1;
    qs__table_job job = {.diff = qs__cuda_values_of(kernel, QS_DIFF_DST),
                         .ids = qs__cuda_at(kernel, QS_IDS),
                         .sums = qs__cuda_at(kernel, QS_DIFF_WEIGHTS),
                         .count = kernel->scratch + (uint64_t)kernel->plan[COUNT],
                         .list = kernel->scratch + (uint64_t)kernel->plan[LIST],
                         .longs = kernel->scratch + (uint64_t)kernel->plan[LONGS],
                         .positions = qs__case_count(&kernel->one, QS_IDS),
                         .rows = table->dim[0],
                         .columns = table->dim[1],
                         .accumulate = kernel->one.attributes.accumulate,
                         .each = (int)kernel->plan[EACH],
                         .complaint = cuda->complaint_address,
                         .number = kernel->number};
    const size_t counts = (size_t)(job.rows + 1) * sizeof(int32_t);
    QS_TRY(qs__cuda_clear(kernel, job.count, counts));
    QS_TRY(qs__cuda_launch(kernel, FILL_LISTS, qs__cuda_blocks(cuda, job.positions, QS__SUM_THREADS, 1), QS__SUM_THREADS, 0, &job));
    const int64_t tasks = most_long_rows(kernel) * pieces, most = (int64_t)cuda->multiprocessors * LONG_BLOCKS;
    job.long_blocks = tasks < most ? tasks : most;
    const int64_t short_blocks = qs__cuda_blocks(cuda, job.rows * 32, QS__SUM_THREADS, 1);
    return qs__cuda_launch(kernel, SUM, job.long_blocks + short_blocks, QS__SUM_THREADS, 0, &job);
}

qs_status qs__cuda_build_embedding(qs__cuda_kernel *kernel) {
    int each;
    kernel->complain = qs__cuda_ids_complain;
    if (qs__cuda_is_forward(kernel)) {
        kernel->run = qs__cuda_moves_run;
        return qs__cuda_moves_build(kernel);
    }
    const qs_shape *table = &qs__case_operand(&kernel->one, QS_DIFF_WEIGHTS)->shape;
    QS_TRY(qs__cuda_each(kernel, table->dim[1], &each));
    kernel->plan[COUNT] = (int64_t)qs__cuda_scratch(kernel, (size_t)(table->dim[0] + 1) * sizeof(int32_t));
    kernel->plan[LIST] = (int64_t)qs__cuda_scratch(kernel, (size_t)table->dim[0] * QS__READERS * sizeof(int32_t));
    kernel->plan[LONGS] = (int64_t)qs__cuda_scratch(kernel, (size_t)most_long_rows(kernel) * sizeof(int32_t));
    kernel->plan[EACH] = each;
    kernel->run = run_gradient;
    QS_TRY(qs__cuda_own(kernel, "qs__table_list"));
    return qs__cuda_function(kernel, "qs__table_sum", &(int){0});
}
