// SPDX-License-Identifier: Apache-2.0
/* Linear operators by oneDNN's matmul: src [N, I], weights [O, I], dst [N, O], all row-major and taken as they lie; N counts
 * positions. Its kernels copy the pieces of the weights that they need; packing the whole matrix in every run instead takes 2 to 30 times
 * as long (int8 worst). */
#include "cpu/cpu.h"
#include "cpu/library/gemm.h"
#include "cpu/integer/shift_groups.h"

#include <string.h>

/* rows × columns, where element (r, c) lies at r·row_stride + c·column_stride. */
static qs__layout matrix(int64_t rows, int64_t columns, qs__type type, int64_t row_stride, int64_t column_stride) {
    return qs__layout_of(2, (const int64_t[]){rows, columns}, type, (const int64_t[]){row_stride, column_stride});
}

static qs__layout row_major(int64_t rows, int64_t columns, qs__type type) {
    return matrix(rows, columns, type, columns, 1);
}

/* Places the planned product of slots. */
static void place_product(qs__chain *chain, int a, int b, int result) {
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, a);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, b);
    qs__chain_bind(chain, QS__ARGUMENT_DST, result);
}

static qs_status matmul_forward(qs__chain *chain) {
    const qs__geometry e = qs__case_geometry(&chain->one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_forward_types(chain, &types));
    qs__layout src = row_major(e.batch, e.channels, types.operands), dst = row_major(e.batch, e.outputs, types.dst);
    qs__layout weights = matrix(e.channels, e.outputs, types.operands, 1, e.channels);
    qs__layout bias = row_major(1, e.outputs, QS__FP32);
    const qs__work_request request = {
        .kind = QS__MATMUL, .src = &src, .weights = &weights, .bias = types.bias_inside ? &bias : NULL, .dst = &dst};
    qs__gemm_epilogue epilogue;
    QS_TRY(qs__gemm_epilogue_start(chain, &types, 2, &epilogue));
    QS_TRY(qs__gemm_epilogue_plan(chain, &epilogue, request));
    int result = qs__gemm_result(chain, QS_DST, &types, &dst, &dst);
    int left = qs__shift_groups_left(chain, &src), right = qs__shift_groups_right(chain, &weights);
    place_product(chain, left, right, result);
    if (types.bias_inside) qs__chain_bind(chain, QS__ARGUMENT_BIAS, qs__chain_operand(chain, QS_BIAS, &bias));
    return qs__gemm_epilogue_finish(chain, &types, &epilogue);
}

static qs_status matmul_input_gradient(qs__chain *chain) {
    const qs__geometry e = qs__case_geometry(&chain->one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_WEIGHTS, QS_DIFF_DST, QS_DIFF_SRC, &types));
    qs__layout diff_dst = row_major(e.batch, e.outputs, types.operands), diff_src = row_major(e.batch, e.channels, types.dst);
    qs__layout weights = row_major(e.outputs, e.channels, types.operands);
    qs__gemm_epilogue epilogue;
    QS_TRY(qs__gemm_epilogue_start(chain, &types, 2, &epilogue));
    QS_TRY(qs__gemm_epilogue_plan(chain, &epilogue,
                                  (qs__work_request){.kind = QS__MATMUL, .src = &diff_dst, .weights = &weights, .dst = &diff_src}));
    int result = qs__gemm_result(chain, QS_DIFF_SRC, &types, &diff_src, &diff_src);
    int left = qs__shift_groups_left(chain, &diff_dst), right = qs__shift_groups_right(chain, &weights);
    place_product(chain, left, right, result);
    return qs__gemm_epilogue_finish(chain, &types, &epilogue);
}

/* diff_bias[o] = Σ_n diff_dst[n, o], every column from the first row to the last in double: threads take columns, so the order of a sum
 * depends on neither threads nor instruction sets. Formats that our vectors do not read go WIDTH columns at a time. */
enum { WIDTH = 16, COLUMNS = 64 };

typedef struct columns_job {
    const qs__cpu_kernels *kernels;
    const qs_format *format;
    int64_t rows, columns;
    const char *src;
    float *sum;
} columns_job;

static void sum_range(void *context, int64_t begin, int64_t end) {
    const columns_job *job = context;
    const qs__type type = qs__cpu_type(job->format);
    if (type == QS__FP32 || type == QS__BF16) {
        const qs__in src = {type, job->src + (size_t)begin * qs__type_bytes(type)};
        job->kernels->bias_sums(job->rows, job->columns, end - begin, src, job->sum + begin);
        return;
    }
    for (int64_t first = begin; first < end; first += WIDTH) {
        const int64_t width = end - first < WIDTH ? end - first : WIDTH;
        double total[WIDTH] = {0};
        float values[WIDTH];
        for (int64_t r = 0; r < job->rows; r++) {
            qs_convert_to_fp32(job->format, width, job->src + qs_format_bytes(job->format, r * job->columns + first), values);
            for (int64_t c = 0; c < width; c++)
                total[c] += values[c];
        }
        for (int64_t c = 0; c < width; c++)
            job->sum[first + c] = (float)total[c];
    }
}

static qs_status sum_diff_bias(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_operand *diff = qs__case_operand(&chain->one, QS_DIFF_DST);
    columns_job job = {.kernels = chain->cpu->kernels,
                       .format = diff->format,
                       .rows = qs_shape_count(&diff->shape) / diff->shape.dim[1],
                       .columns = diff->shape.dim[1],
                       .src = qs__cpu_data(chain, QS_DIFF_DST),
                       .sum = qs__cpu_data(chain, QS_DIFF_BIAS)};
    qs_parallel(job.columns, COLUMNS, sum_range, &job);
    return QS_OK;
}

static qs_status matmul_weight_gradient(qs__chain *chain) {
    const qs__geometry e = qs__case_geometry(&chain->one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS, &types));
    qs__layout turned = matrix(e.outputs, e.batch, types.operands, 1, e.outputs);
    qs__layout src = row_major(e.batch, e.channels, types.operands);
    qs__layout diff_weights = row_major(e.outputs, e.channels, QS__FP32);
    QS_TRY(qs__chain_plan(chain, &(qs__work_request){.kind = QS__MATMUL, .src = &turned, .weights = &src, .dst = &diff_weights}));
    int result = qs__gemm_result(chain, QS_DIFF_WEIGHTS, &types, &diff_weights, &diff_weights);
    place_product(chain, qs__chain_operand(chain, QS_DIFF_DST, &turned), qs__chain_operand(chain, QS_SRC, &src), result);
    if (qs__case_has(&chain->one, QS_DIFF_BIAS)) qs__chain_call(chain, sum_diff_bias);
    return qs__gemm_finish(chain, &types);
}

qs_status qs__build_linear_matmul(qs__chain *chain) {
    switch (qs__case_pass(&chain->one)) {
    case QS__FORWARD:
        return matmul_forward(chain);
    case QS__INPUT_GRADIENT:
        return matmul_input_gradient(chain);
    default:
        return matmul_weight_gradient(chain);
    }
}
