// SPDX-License-Identifier: Apache-2.0
/* Files whose values pass QuantizeLinear and DequantizeLinear, as our own export and ONNX Runtime's quantizer write them. In which format a
 * value is rounded is a plan's, not a model's: weights and biases are the numbers that their codes stand for, values that flow are left
 * unrounded. What else a pair does, cutting off at 0 what is negative where codes begin there, stays: quantizers leave out the relu or the
 * clip before such a pair. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "fuse.h"

enum { MOST_STEPS = 1 << 16 }; /* of a value: of all its channels */

typedef struct pairs {
    int *same;      /* [values] the value in whose place it stands, itself where it is nobody else */
    int *made_by;   /* [values] codes: the QuantizeLinear that made them; -1: no codes */
    bool *positive; /* [values] never negative */
    int dropped, bounded;
} pairs;

/* One of the two that make codes and read them, which mean the same as ONNX Runtime's own. */
static bool is_quantizing(const qs__node *node, const char *op) {
    return strcmp(node->op, op) == 0 && (qs__is_standard(node) || strcmp(node->from->domain, "com.microsoft") == 0);
}

static int value_of(const pairs *all, int value) {
    while (value >= 0 && all->same[value] != value)
        value = all->same[value];
    return value;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------------------ */

static bool are_numbers(const qs__value *value) {
    return !value || (value->kind == QS__NUMBERS && value->tensor->count >= 1 && value->tensor->count <= MOST_STEPS);
}

/* Whether all elements are that number. */
static bool are_all(qs__import *one, const qs_onnx_tensor *tensor, float number) {
    qs_onnx_tensor same = {.name = "", .type = QS_ONNX_FLOAT, .rank = 1, .dim = {tensor->count}, .count = tensor->count, .uniform = true};
    same.data = &number;
    return qs__is_alike(one, tensor, &same);
}

/* Of two lists, where one that is left out is zeros. */
static bool are_equal(qs__import *one, const qs__value *a, const qs__value *b) {
    if (!are_numbers(a) || !are_numbers(b)) return false;
    if (a && b) return qs__is_alike(one, a->tensor, b->tensor);
    return (!a && !b) || are_all(one, a ? a->tensor : b->tensor, 0);
}

static bool steps_are_equal(qs__import *one, const qs__node *down, const qs__node *up) {
    const qs__value *scale = qs__read_by(one, down, 1);
    return scale && qs__read_by(one, up, 1) && are_equal(one, scale, qs__read_by(one, up, 1)) &&
           are_equal(one, qs__read_by(one, down, 2), qs__read_by(one, up, 2)) &&
           (scale->tensor->count == 1 || (qs__int(one, down, "axis", 1) == qs__int(one, up, "axis", 1) &&
                                          qs__int(one, down, "block_size", 0) == qs__int(one, up, "block_size", 0)));
}

/* Whether the least code stands for 0; then *most is the number of the largest one, 0 where they have several steps. */
static bool begins_at_zero(qs__import *one, const qs__node *down, double *most) {
    const qs__value *scale = qs__read_by(one, down, 1), *zero = qs__read_by(one, down, 2);
    const qs_onnx_type type = zero ? zero->tensor->type : (qs_onnx_type)qs__int(one, down, "output_dtype", QS_ONNX_UINT8);
    const bool without_sign = type == QS_ONNX_UINT8 || type == QS_ONNX_UINT16 || type == QS_ONNX_UINT4;
    if (!without_sign && type != QS_ONNX_INT8 && type != QS_ONNX_INT16 && type != QS_ONNX_INT4) return false;
    const int bits = qs_onnx_type_bits(type);
    const double least = without_sign ? 0 : -ldexp(1, bits - 1);
    const bool begins = zero ? are_all(one, zero->tensor, (float)least) : least == 0;
    double step = 0;
    *most = qs__one_number(one, scale, &step) ? (ldexp(1, bits) - 1) * step : 0;
    return begins;
}

/* ---- Signs ------------------------------------------------------------------------------------------------------------------ */

static bool never_negative(qs__import *one, const pairs *all, const qs__node *node) {
    static const char *const never[] = {"Relu", "Sigmoid", "Softmax", "HardSigmoid", "Softplus", "Exp", "Abs", "Sqrt", NULL};
    static const char *const by_first[] = {"MaxPool",  "AveragePool",      "GlobalAveragePool", "GlobalMaxPool", "Reshape",
                                           "Flatten",  "Squeeze",          "Unsqueeze",         "Transpose",     "Slice",
                                           "Split",    "Gather",           "Identity",          "Cast",          "Dropout",
                                           "Expand",   "Resize",           "ReduceMean",        "ReduceMax",     "ReduceSum",
                                           "LRN",      "DequantizeLinear", "HardSwish",         "Pow",           "DepthToSpace",
                                           "Upsample", "QuantizeLinear",   "SpaceToDepth",      "LpPool",        NULL};
    static const char *const by_all[] = {"Add", "Mul", "Div", "Sum", "Concat", "Max", "Min", NULL};
    double least = -1;
    if (!qs__is_standard(node) && !is_quantizing(node, "QuantizeLinear") && !is_quantizing(node, "DequantizeLinear")) return false;
    if (qs__word_find(node->op, never) >= 0) return true;
    if (strcmp(node->op, "Clip") == 0) {
        least = qs__float(one, node, "min", -1);
        if (qs__read_by(one, node, 1) && !qs__one_number(one, qs__read_by(one, node, 1), &least)) least = -1;
        if (least >= 0) return true;
    }
    if (strcmp(node->op, "Resize") == 0 && strcmp(qs__word(one, node, "mode", "nearest"), "cubic") == 0) return false; /* it overshoots */
    const bool every = qs__word_find(node->op, by_all) >= 0;
    if (!every && qs__word_find(node->op, by_first) < 0 && strcmp(node->op, "Clip") != 0) return false;
    for (int i = 0; i < (every ? node->inputs : 1); i++) {
        const qs__value *value = qs__read_by(one, node, i);
        double number = -1;
        if (!value || (!all->positive[node->input[i]] && !(qs__one_number(one, value, &number) && number >= 0))) return false;
    }
    return node->inputs > 0;
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------------------ */

/* The output of the model that a DequantizeLinear writes, which is x, is written by who writes x. False where x must keep its name. */
static bool output_move(qs__import *one, pairs *all, qs__node *up, int x) {
    const int producer = one->value[x].producer, y = up->output[0];
    if (producer < 0 || one->model->graph.value[x].is_output) return false;
    for (int k = 0; k < one->node[producer].outputs; k++)
        if (one->node[producer].output[k] == x) one->node[producer].output[k] = y;
    up->outputs = 0; /* nobody reads it any more */
    one->value[y].producer = producer;
    one->value[x].producer = -1;
    all->same[x] = y;
    all->positive[y] = all->positive[x];
    return true;
}

/* A DequantizeLinear of codes that a QuantizeLinear made of the value x. */
static void pair_drop(qs__import *one, pairs *all, qs__node *up, const qs__node *down, int x) {
    const int y = up->output[0];
    double most = 0;
    if (begins_at_zero(one, down, &most) && !all->positive[x] && one->value[x].producer >= 0) {
        qs__node_replace(up, "Relu", 1, &x, fabs(most - 6) < 1e-5 ? 6 : 0);
        all->positive[y] = true;
        all->bounded++;
        return;
    }
    all->dropped++;
    if (!one->model->graph.value[y].is_output)
        all->same[y] = x;
    else if (!output_move(one, all, up, x))
        qs__node_replace(up, "Identity", 1, &x, 0);
}

static void node_take(qs__import *one, pairs *all, int n) {
    static const char *const movers[] = {"MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Identity", NULL};
    qs__node *node = &one->node[n];
    const bool down = is_quantizing(node, "QuantizeLinear"), up = is_quantizing(node, "DequantizeLinear");
    const int made_by = node->inputs > 0 && node->input[0] >= 0 ? all->made_by[node->input[0]] : -1;
    bool codes = false;
    one->at = node;
    for (int i = 0; i < node->inputs; i++) {
        codes = codes || (node->input[i] >= 0 && all->made_by[node->input[i]] >= 0);
        node->input[i] = value_of(all, node->input[i]);
    }
    const qs__value *x = qs__read_by(one, node, 0);
    const int out = node->outputs > 0 ? node->output[0] : -1;
    if (codes && up && out >= 0 && made_by >= 0) {
        if (steps_are_equal(one, &one->node[made_by], node))
            pair_drop(one, all, node, &one->node[made_by], node->input[0]);
        else
            qs__refuse_node(one, "it reads codes with other steps than those by which QuantizeLinear makes them");
    } else if (codes && made_by >= 0 && out >= 0 && qs__is_standard(node) && qs__word_find(node->op, movers) >= 0 &&
               qs__read_by(one, &one->node[made_by], 1)->tensor->count == 1) {
        all->made_by[out] = made_by;
    } else if (codes) {
        qs__refuse_node(one, "it computes on codes of QuantizeLinear: %s", qs__codes_advice);
    } else if (down && out >= 0 && x && x->kind != QS__NUMBERS) {
        const qs__value *scale = qs__read_by(one, node, 1);
        if (!scale || !are_numbers(scale) || !are_numbers(qs__read_by(one, node, 2)))
            qs__refuse_node(one, "its steps are no numbers of the file, or more than %d: %s", MOST_STEPS, qs__codes_advice);
        else
            all->made_by[out] = n, all->same[out] = node->input[0];
    }
    for (int k = 0; k < node->outputs; k++)
        if (node->output[k] >= 0 && all->same[node->output[k]] == node->output[k])
            all->positive[node->output[k]] = all->positive[node->output[k]] || never_negative(one, all, node);
}

void qs__codes_drop(qs__import *one) {
    const qs_onnx_graph *graph = &one->model->graph;
    pairs all = {.same = NULL};
    int stored = 0;
    qs__stick(one, qs_allocate((size_t)one->values, sizeof *all.same, &all.same));
    qs__stick(one, qs_allocate((size_t)one->values, sizeof *all.made_by, &all.made_by));
    qs__stick(one, qs_allocate((size_t)one->values, sizeof *all.positive, &all.positive));
    for (int v = 0; v < one->values && one->status == QS_OK; v++) {
        all.same[v] = v;
        all.made_by[v] = -1;
        stored += graph->value[v].codes && graph->value[v].is_parameter;
    }
    for (int n = 0; n < one->nodes && one->status == QS_OK; n++)
        node_take(one, &all, n);
    for (int n = 0; n < one->nodes && one->status == QS_OK; n++) /* also readers of what an output took the place of */
        for (int i = 0; i < one->node[n].inputs; i++)
            one->node[n].input[i] = value_of(&all, one->node[n].input[i]);
    one->at = NULL;
    for (int i = 0; i < graph->outputs && one->status == QS_OK; i++)
        if (all.made_by[graph->output[i]] >= 0) qs__refuse_node(one, "its output %s are codes", one->value[graph->output[i]].name);
    if (stored > 0) qs__note(one, "%d tensors are stored in codes: they train on from the numbers that these stand for", stored);
    if (all.dropped > 0)
        qs__note(one, "%d pairs of QuantizeLinear and DequantizeLinear are left out: in which formats values are rounded is a plan's",
                 all.dropped);
    if (all.bounded > 0) qs__note(one, "%d such pairs, whose codes begin at 0, stood for a relu", all.bounded);
    free(all.same);
    free(all.made_by);
    free(all.positive);
}

/* ---- What is not imported --------------------------------------------------------------------------------------------------- */

const char *const qs__codes_advice = "quantize with steps found before (quantize_static, quant_format=QDQ), or import the float model";

bool qs__is_of_codes(const qs__node *node) {
    static const char *const names[] = {
        "DynamicQuantizeLinear", "MatMulInteger",       "ConvInteger", "DynamicQuantizeMatMul", "QuantizeLinear",
        "MatMulIntegerToFloat",  "DynamicQuantizeLSTM", "MatMulNBits", "DequantizeLinear",      NULL};
    const char *op = node->op;
    const bool known = qs__is_standard(node) || strcmp(node->from->domain, "com.microsoft") == 0;
    return known && (qs__word_find(op, names) >= 0 || (op[0] == 'Q' && op[1] >= 'A' && op[1] <= 'Z'));
}
