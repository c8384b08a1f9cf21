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

/* A product in a format that the device does not multiply stays unsupported: plans must not think it had the format. */
static qs_status check_products(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    if (!one->pass->product || one->attributes.accumulator.adder) return QS_OK;
    QS_TRY(qs__cpu_multiplies(chain->cpu, qs__case_format(one, one->pass->product->factor[0])));
    return qs__cpu_multiplies(chain->cpu, qs__case_format(one, one->pass->product->factor[1]));
}

qs_status qs__build_reference(qs__chain *chain) {
    QS_TRY(check_products(chain));
    qs__chain_call(chain, run_reference);
    snprintf(chain->name, sizeof chain->name, "reference");
    chain->allocates = true;
    return QS_OK;
}
