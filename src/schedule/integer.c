// SPDX-License-Identifier: Apache-2.0
/* Integer products (docs/method.md §9.1): which codes an input takes. */
#include "schedule_internal.h"

qs_quantizer qs__input_form(const qs_schedule_draft *draft, int node, int input, const qs_quantizer *quantizer) {
    const qs_format *format = quantizer->format;
    qs_quantizer form = qs__operand_form(draft, node, quantizer);
    if (format->kind != QS_KIND_INTEGER || format->is_unsigned || form.granularity == QS_HADAMARD) return form;
    if (draft->recipe[node]->weight_gradient.diff_dst.format->kind != QS_KIND_INTEGER) return form;
    const qs_format *other = draft->unsigned_of[format->bits];
    if (other && draft->topology.non_negative[draft->graph->node[node].input[input]]) form.format = other;
    return form;
}
