// SPDX-License-Identifier: Apache-2.0
/* What convolution and linear share: types of their operands, the fused dequantization of integer sums, results in formats that oneDNN does
 * not write. */
#ifndef QSYNC_DEVICE_CPU_GEMM_H
#define QSYNC_DEVICE_CPU_GEMM_H

#include "cpu/cpu.h"

typedef struct qs__gemm_types {
    qs__type operands;
    qs__type dst;     /* what oneDNN writes: fp32 or bf16 */
    bool convert;     /* dst goes through fp32 scratch into the operand's own format */
    bool bias_inside; /* float kernels add the bias themselves */
} qs__gemm_types;

/* Formats of a forward pass; QS_UNSUPPORTED when the device cannot multiply them. */
qs_status qs__gemm_forward_types(const qs__chain *chain, qs__gemm_types *out);
/* Formats of a gradient pass with operands a and b. */
qs_status qs__gemm_gradient_types(const qs__chain *chain, qs_role a, qs_role b, qs_role result, qs__gemm_types *out);

/* Slot of the result: the operand, or scratch when layout or format differ; qs__gemm_finish adds what brings it home. */
int qs__gemm_result(qs__chain *chain, qs_role role, const qs__gemm_types *types, const qs__layout *own, const qs__layout *given);
qs_status qs__gemm_finish(qs__chain *chain, const qs__gemm_types *types);

/* After integer sums: × src_step × weights_step[o] (+ bias[o]), as oneDNN post-operations whose factors a call of our own puts into scratch
 * first, because steps change every run. Float sums have none. */
typedef struct qs__gemm_epilogue {
    bool scales, bias;
    qs__layout factors_layout, bias_layout; /* [1, O, 1, 1] or [1, 1, 1, 1] */
    int factors;                            /* slot */
} qs__gemm_epilogue;
/* For results of `axes` axes. Adds the call that computes the factors. */
qs_status qs__gemm_epilogue_start(qs__chain *chain, const qs__gemm_types *types, int axes, qs__gemm_epilogue *out);
/* qs__chain_plan with the post-operations. */
qs_status qs__gemm_epilogue_plan(qs__chain *chain, const qs__gemm_epilogue *epilogue, qs__work_request request);
/* Binds the factors to the placed work, and qs__gemm_finish. */
qs_status qs__gemm_epilogue_finish(qs__chain *chain, const qs__gemm_types *types, const qs__gemm_epilogue *epilogue);

#endif
