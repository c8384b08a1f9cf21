// SPDX-License-Identifier: Apache-2.0
/* Planner `op` (docs/method.md §7.3): low precision for what multiplications read, v_i and θ_i in the forward pass and dv_{i+1} in the
 * backward one. Their results are in high precision. */
#include "../assign.h"

static void mark(qs__assignment *one) {
    for (int n = one->candidate->graph->samples.inputs; n < one->candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(one->candidate, n)) continue;
        qs__lower_output(one, one->candidate->graph->node[n].input[0], QS__VALUE);
        qs__lower_parameters(one, n);
        qs__lower_output(one, n, QS__GRADIENT);
    }
}

qs_status qs__planner_op(qs_candidate *candidate) {
    return qs__assign(candidate, mark);
}
