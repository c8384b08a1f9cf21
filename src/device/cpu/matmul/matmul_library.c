// SPDX-License-Identifier: Apache-2.0
/* Products of two activations by oneDNN's batched matmul, over matrices as they lie: a sample's heads are strides, also where they stand
 * side by side in the channels. Heads that share keys and values are our own kernels' (matmul.c). */
#include "cpu/library/gemm.h"
#include "qsync/matmul.h"

static qs__layout layout_of(const qs_matmul *all, const qs_matrices *of, int64_t rows, int64_t columns, qs__type type) {
    return qs__cpu_matrices((const int64_t[]){all->samples, all->heads, rows, columns}, type,
                            (const int64_t[]){of->sample, of->head, of->row, of->column});
}

qs_status qs__build_matmul_library(qs__chain *chain) {
    const qs_matmul of = qs_case_matmul(&chain->one);
    const qs_format *format = qs__case_format(&chain->one, of.left.role);
    qs__gemm_types types;
    if (format->kind == QS_KIND_INTEGER) return qs_fail(QS_UNSUPPORTED, "codes of two activations are our own kernels'");
    if (of.summed > 1 || of.right.shared > 1) return qs_fail(QS_UNSUPPORTED, "heads that share keys are our own kernels'");
    QS_TRY(qs__gemm_gradient_types(chain, of.left.role, of.right.role, of.result.role, &types));
    const qs__layout left = layout_of(&of, &of.left, of.rows, of.inner, types.operands),
                     right = layout_of(&of, &of.right, of.inner, of.columns, types.operands),
                     result = layout_of(&of, &of.result, of.rows, of.columns, types.dst);
    QS_TRY(qs__chain_plan(chain, &(qs__work_request){.kind = QS__MATMUL, .src = &left, .weights = &right, .dst = &result}));
    const int to = qs__gemm_result(chain, of.result.role, &types, &result, &result);
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, qs__chain_operand(chain, of.left.role, &left));
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, qs__chain_operand(chain, of.right.role, &right));
    qs__chain_bind(chain, QS__ARGUMENT_DST, to);
    return qs__gemm_finish(chain, &types);
}
