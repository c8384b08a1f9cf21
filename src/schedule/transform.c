// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms of the factors of products (Xi et al.): along which dimension, in which blocks, and which recipes make sense. */
#include "schedule_internal.h"

/* Where a recipe says that the factors of a product are transformed. */
typedef struct inner {
    const char *name;
    bool input, samples;
} inner;
static const inner inners[QS_GEMMS] = {[QS_GEMM_FORWARD] = {"in", true, false},
                                       [QS_GEMM_INPUT_GRADIENT] = {"out", false, false},
                                       [QS_GEMM_WEIGHT_GRADIENT] = {"samples", false, true}};

const qs_quantizer *qs__factor_quantizer(const qs_recipe *recipe, qs_gemm gemm, int factor) {
    const qs_quantizer *const all[QS_GEMMS][2] = {
        [QS_GEMM_FORWARD] = {&recipe->forward.src, &recipe->forward.weights},
        [QS_GEMM_INPUT_GRADIENT] = {&recipe->input_gradient.diff_dst, &recipe->input_gradient.weights},
        [QS_GEMM_WEIGHT_GRADIENT] = {&recipe->weight_gradient.src, &recipe->weight_gradient.diff_dst}};
    return all[gemm][factor];
}

const qs_quantizer *qs__input_quantizer(const qs_schedule_draft *draft, int node, int input) {
    const qs_pass *pass = qs__forward_pass(&draft->in, node);
    for (int f = 0; pass->product && f < 2; f++) {
        const qs_pass_operand *operand = &pass->operand[qs_pass_position(pass, pass->product->factor[f])];
        if (operand->source == QS_FROM_INPUT && operand->of == input) return qs__factor_quantizer(draft->recipe[node], QS_GEMM_FORWARD, f);
    }
    return NULL;
}

static bool runs_along(const qs_quantizer *factor, const inner *along) {
    return factor->channel_is_input == along->input && factor->over_samples == along->samples;
}

/* Blocks are the transform: those of one factor must be those of the other, 0 where there is none. */
qs_status qs__transforms_check(const qs_schedule_draft *draft, int node) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        const qs_quantizer *const factor[2] = {qs__factor_quantizer(draft->recipe[node], gemm, 0),
                                               qs__factor_quantizer(draft->recipe[node], gemm, 1)};
        char first[64], second[64];
        if (factor[0]->hadamard == 0 && factor[1]->hadamard == 0) continue;
        if (!qs_graph_parameter(draft->graph, node, QS_WEIGHTS))
            return qs_fail(QS_UNSUPPORTED, "operator %s: its recipe has transforms, which products of two activations do not take",
                           draft->graph->node[node].name);
        const bool both = factor[0]->hadamard == factor[1]->hadamard;
        if (both && runs_along(factor[0], &inners[gemm]) && runs_along(factor[1], &inners[gemm])) continue;
        return qs_fail(QS_UNSUPPORTED, "operator %s: the factors of the %s are %s and %s: both take the same hadamardB(%s), or neither",
                       draft->graph->node[node].name, qs_gemm_name(gemm), qs_quantizer_text(factor[0], first),
                       qs_quantizer_text(factor[1], second), inners[gemm].name);
    }
    return QS_OK;
}

/* Of the dimension, within a group of the convolution: a group's sums know no other channels. */
static int64_t extent_of(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    const qs_node *one = &draft->graph->node[node];
    if (quantizer->over_samples) return draft->in.batch;
    return (quantizer->channel_is_input ? draft->graph->node[one->input[0]].shape : one->shape).dim[1] / one->attributes.groups;
}

qs_quantizer qs__operand_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    qs_quantizer form = *quantizer;
    if (quantizer->granularity != QS_HADAMARD) return form;
    form.hadamard = qs_hadamard_block(quantizer->hadamard, extent_of(draft, node, quantizer));
    if (form.hadamard > 1) return form;
    form.granularity = QS_PER_TENSOR;
    form.hadamard = 0;
    form.channel_is_input = form.over_samples = false;
    return form;
}
