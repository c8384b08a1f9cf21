// SPDX-License-Identifier: Apache-2.0
/* Planner `op-io` (docs/method.md §7.3): low precision for what multiplications read and write, v_i, θ_i and v_{i+1} in the forward pass,
 * dv_{i+1} and dv_i in the backward one. */
#include "../assign.h"

static void mark(qs__assignment *one) {
    for (int n = one->candidate->graph->samples.inputs; n < one->candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(one->candidate, n)) continue;
        qs__lower_output(one, one->candidate->graph->node[n].input[0], QS__BOTH);
        qs__lower_parameters(one, n);
        qs__lower_output(one, n, QS__BOTH);
    }
}

qs_status qs__planner_op_io(qs_candidate *candidate) {
    return qs__assign(candidate, mark);
}
