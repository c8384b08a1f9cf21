// SPDX-License-Identifier: Apache-2.0
/* Sums of columns, in two stages: of segments of the rows, and of those. */
#include "cuda/product.h"

#include <math.h>

enum { THREADS = QS__BIAS_BLOCK, LEAST_ROWS = 4 * QS__BIAS_LANES, FILL = 2 /* blocks of a multiprocessor */, END_COLUMNS = 32 };

qs__bias_sums qs__bias_sums_of(const qs_case *one) {
    const qs_shape *shape = &qs__case_operand(one, QS_DIFF_DST)->shape;
    const int64_t rows = qs_shape_count(shape) / shape->dim[1];
    const int block = one->attributes.hadamard;
    return (qs__bias_sums){.from = qs__operand_place(one, QS_DIFF_DST),
                           .step = qs__operand_place(one, QS_DIFF_DST_STEP),
                           .group = qs__operand_place(one, QS_DIFF_DST_GROUP),
                           .to = qs__operand_place(one, QS_DIFF_BIAS),
                           .format = qs__case_format(one, QS_DIFF_DST),
                           .rows = rows,
                           .columns = shape->dim[1],
                           .pixels = rows / shape->dim[0],
                           .block = block,
                           .factor = sqrt(block > 0 ? block : 1)};
}

qs_status qs__bias_sums_build(qs__cuda_kernel *kernel, qs__bias_sums *sums) {
    const int64_t strips = (sums->columns + THREADS - 1) / THREADS, wanted = FILL * kernel->cuda->multiprocessors / strips + 1;
    const int64_t rows = (sums->rows + wanted - 1) / wanted;
    sums->segment_rows = rows > LEAST_ROWS ? (rows + QS__BIAS_LANES - 1) / QS__BIAS_LANES * QS__BIAS_LANES : LEAST_ROWS;
    sums->segments = (sums->rows + sums->segment_rows - 1) / sums->segment_rows;
    sums->partial = qs__cuda_scratch(kernel, (size_t)(sums->segments * sums->columns) * sizeof(double));
    QS_TRY(qs__cuda_function(kernel, "bias_sums", &sums->first));
    return qs__cuda_function(kernel, "bias_sums_end", &sums->second);
}

qs_status qs__bias_sums_run(const qs__cuda_kernel *kernel, const qs__bias_sums *sums) {
    const qs__cuda_bias_sums_job job = {
        .from = {.at = qs__place_at(kernel, sums->from), .count = sums->rows * sums->columns, .format = qs__cuda_format_of(sums->format)},
        .rows = sums->rows,
        .columns = sums->columns,
        .pixels = sums->pixels,
        .block = sums->block,
        .segments = sums->segments,
        .segment_rows = sums->segment_rows,
        .partial = kernel->scratch + sums->partial};
    const qs__cuda_bias_sums_end_job end = {.partial = job.partial,
                                            .segments = sums->segments,
                                            .columns = sums->columns,
                                            .step = qs__place_at(kernel, sums->step),
                                            .group = qs__place_at(kernel, sums->group),
                                            .factor = sums->factor,
                                            .to = qs__place_at(kernel, sums->to)};
    const int64_t strips = (sums->columns + THREADS - 1) / THREADS;
    QS_TRY(qs__cuda_launch(kernel, sums->first, strips * sums->segments, THREADS, 0, &job));
    return qs__cuda_launch(kernel, sums->second, (sums->columns + END_COLUMNS - 1) / END_COLUMNS, THREADS, 0, &end);
}
