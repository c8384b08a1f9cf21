// SPDX-License-Identifier: Apache-2.0
/* Lengths of the sums in a model's three GEMMs. */
#include "accumulator_internal.h"

int64_t qs_gemm_length(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch) {
    const qs_node *one = &graph->node[node];
    if (!one->op || one->op->kind != QS_ADJUSTABLE) return 0;
    const qs_shape *weights = &qs_graph_parameter(graph, node, QS_WEIGHTS)->shape; /* [O, I / groups, kernel ...] */
    const qs_shape dst = qs_graph_shape(graph, node, batch);
    switch (gemm) {
    case QS_GEMM_FORWARD:
        return qs_shape_count(weights) / weights->dim[0];
    case QS_GEMM_INPUT_GRADIENT:
        return one->input[0] == 0 ? 0 : qs_shape_count(weights) / weights->dim[1] / one->attributes.groups;
    case QS_GEMM_WEIGHT_GRADIENT:
        return qs_shape_count(&dst) / weights->dim[0];
    case QS_GEMMS:
        break;
    }
    return 0;
}
