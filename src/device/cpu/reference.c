// SPDX-License-Identifier: Apache-2.0
/* The last resort, costed as such: the operator's reference kernel. It allocates while it runs, so any other kernel is preferred. */
#include "cpu/cpu.h"

static qs_status run_reference(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    qs_tensor operands[QS_MAX_OPERANDS] = {0};
    for (int i = 0; i < one->operands; i++) {
        operands[i] = (qs_tensor){.shape = one->operand[i].shape, .format = one->operand[i].format, .data = chain->data[i]};
    }
    return qs_case_reference(one, operands, run);
}

qs_status qs__build_reference(qs__chain *chain) {
    /* A product in a format that the device does not multiply stays unsupported: plans must not think it had the format. */
    QS_TRY(qs__cpu_multiplies_factors(chain->cpu, &chain->one));
    qs__chain_call(chain, run_reference);
    snprintf(chain->name, sizeof chain->name, "reference");
    chain->allocates = true;
    return QS_OK;
}
