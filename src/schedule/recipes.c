// SPDX-License-Identifier: Apache-2.0
/* A draft's own recipes: kept once each, told apart by what lowering reads of them. */
#include <stdlib.h>

#include "schedule_internal.h"

bool qs__quantizer_same(const qs_quantizer *a, const qs_quantizer *b) {
    return a->format == b->format && a->granularity == b->granularity && a->shift_groups == b->shift_groups && a->hadamard == b->hadamard &&
           a->over_samples == b->over_samples && a->channel_is_input == b->channel_is_input && a->rounding == b->rounding &&
           a->overflow == b->overflow;
}

static bool accumulators_same(const qs_recipe *a, const qs_recipe *b) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (!qs_narrow_equal(&a->accumulator[gemm], &b->accumulator[gemm])) return false;
    return true;
}

static bool recipe_same(const qs_recipe *a, const qs_recipe *b) {
    return accumulators_same(a, b) && qs__quantizer_same(&a->forward.src, &b->forward.src) &&
           qs__quantizer_same(&a->forward.weights, &b->forward.weights) && a->forward.dst == b->forward.dst &&
           qs__quantizer_same(&a->input_gradient.diff_dst, &b->input_gradient.diff_dst) &&
           qs__quantizer_same(&a->input_gradient.weights, &b->input_gradient.weights) &&
           qs__quantizer_same(&a->weight_gradient.src, &b->weight_gradient.src) &&
           qs__quantizer_same(&a->weight_gradient.diff_dst, &b->weight_gradient.diff_dst);
}

qs_status qs__recipe_keep(qs_schedule_draft *draft, const qs_recipe *recipe, const qs_recipe **out) {
    if (!recipe) recipe = &draft->plain;
    for (int i = 0; i < draft->recipes; i++)
        if (recipe_same(draft->recipe_known[i], recipe)) {
            *out = draft->recipe_known[i];
            return QS_OK;
        }
    QS_TRY(qs_grow(&draft->recipe_known, &draft->recipe_capacity, (size_t)draft->recipes + 1, sizeof(qs_recipe *)));
    qs_recipe *own = NULL;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    *own = *recipe;
    draft->recipe_known[draft->recipes++] = own;
    *out = own;
    return QS_OK;
}

void qs__recipes_start(qs_schedule_draft *draft) {
    const qs_quantizer plain = {.format = draft->fp32, .rounding = QS_NEAREST_EVEN};
    draft->plain = (qs_recipe){.name = "fp32"};
    draft->plain.forward.src = draft->plain.forward.weights = plain;
    draft->plain.input_gradient.diff_dst = draft->plain.input_gradient.weights = plain;
    draft->plain.weight_gradient.src = draft->plain.weight_gradient.diff_dst = plain;
}
