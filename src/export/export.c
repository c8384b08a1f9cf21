// SPDX-License-Identifier: Apache-2.0
/* From a graph to an ONNX file: which function writes which operator, the walk over the nodes, inputs and the output. */
#include "operators.h"

#include <stdlib.h>
#include <string.h>

/* ---- Operators --------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    qs__write *write;
} writers[] = {
    {"conv2d", qs__write_conv2d},
    {"conv_transpose", qs__write_conv_transpose},
    {"linear", qs__write_linear},
    {"matmul", qs__write_matmul},
    {"batch_norm", qs__write_norm},
    {"l1_batch_norm", qs__write_norm},
    {"l1_batch_norm_int8", qs__write_norm},
    {"l2_batch_norm_int8", qs__write_norm},
    {"l2_batch_norm_int8_std", qs__write_norm},
    {"layer_norm", qs__write_norm},
    {"l1_layer_norm", qs__write_norm},
    {"l1_layer_norm_int8", qs__write_norm},
    {"rms_norm", qs__write_rms_norm},
    {"group_norm", qs__write_group_norm},
    {"instance_norm", qs__write_instance_norm},
    {"local_response_norm", qs__write_local_response_norm},
    {"relu", qs__write_relu},
    {"gelu", qs__write_gelu},
    {"softmax", qs__write_softmax},
    {"silu", qs__write_silu},
    {"tanh", qs__write_tanh},
    {"add", qs__write_add},
    {"multiply", qs__write_multiply},
    {"concat", qs__write_concat},
    {"slice", qs__write_slice},
    {"channel_shuffle", qs__write_channel_shuffle},
    {"max_pool", qs__write_max_pool},
    {"average_pool", qs__write_average_pool},
    {"global_average_pool", qs__write_global_average_pool},
    {"pad", qs__write_pad},
    {"resize", qs__write_resize},
    {"flatten", qs__write_flatten},
    {"sequence", qs__write_sequence},
    {"embedding", qs__write_embedding},
    {"attention", qs__write_attention},
    {"recurrence", qs__write_recurrence},
    {"positions", qs__write_positions},
    {"rotary", qs__write_rotary},
    {"position", qs__write_position},
    {"gather", qs__write_gather},
    {"class_token", qs__write_class_token},
    {"sigmoid", qs__write_sigmoid},
    {"hard_sigmoid", qs__write_hard_sigmoid},
    {"hard_swish", qs__write_hard_swish},
    {"leaky_relu", qs__write_leaky_relu},
    {"elu", qs__write_elu},
    {"celu", qs__write_celu},
    {"selu", qs__write_selu},
    {"softplus", qs__write_softplus},
    {"softsign", qs__write_softsign},
    {"mish", qs__write_mish},
    {"exp", qs__write_exp},
    {"log", qs__write_log},
    {"sqrt", qs__write_sqrt},
    {"abs", qs__write_abs},
    {"erf", qs__write_erf},
    {"reciprocal", qs__write_reciprocal},
    {"power", qs__write_power},
    {"clip", qs__write_clip},
    {"affine", qs__write_affine},
    {"subtract", qs__write_subtract},
    {"divide", qs__write_divide},
    {"minimum", qs__write_minimum},
    {"maximum", qs__write_maximum},
    {"gate", qs__write_gate},
    {"expand", qs__write_expand},
    {"gain", qs__write_gain},
    {"offset", qs__write_offset},
    {"prelu", qs__write_prelu},
    {"reduce_sum", qs__write_reduce_sum},
    {"reduce_mean", qs__write_reduce_mean},
    {"reduce_max", qs__write_reduce_max},
    {"reshape", qs__write_reshape},
    {"permute", qs__write_permute},
    {"dropout", qs__write_dropout},
};
enum { WRITERS = sizeof writers / sizeof *writers };

static qs__write *writer_of(const qs_op *op) {
    for (int i = 0; i < WRITERS; i++)
        if (qs_op_of(writers[i].op) == op) return writers[i].write;
    return NULL;
}

/* All but the inputs and the loss. Every operator that cannot be written is named, once. */
static qs_status operators_check(const qs_graph *graph) {
    char text[1024] = "";
    for (int n = graph->samples.inputs; n < graph->nodes - 1; n++) {
        const qs_node *node = &graph->node[n];
        bool told = writer_of(node->op) != NULL;
        for (int before = graph->samples.inputs; before < n && !told; before++)
            told = graph->node[before].op == node->op;
        const size_t used = strlen(text);
        if (!told) snprintf(text + used, sizeof text - used, "%s%s (%s)", used ? ", " : "", node->op->name, node->name);
    }
    if (!text[0]) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "no ONNX nodes are known for %s (in parentheses the first node of each)", text);
}

/* ---- Options ----------------------------------------------------------------------------------------------------------------------- */

static qs_status options_check(const qs_export_options *options, int needed) {
    if (options->fold && options->form == QS_EXPORT_TRAINING)
        return qs_fail(QS_USAGE, "batch norms fold in the inference form only: in training they go by the batch");
    if (options->opset == 0) return QS_OK;
    if (options->opset < QS_EXPORT_LEAST_OPSET || options->opset > QS_EXPORT_MOST_OPSET)
        return qs_fail(QS_USAGE, "opset %d: %d to %d are written", options->opset, QS_EXPORT_LEAST_OPSET, QS_EXPORT_MOST_OPSET);
    if (options->opset < needed)
        return qs_fail(QS_USAGE, "opset %d does not hold the types that the plan's formats need: opset %d does", options->opset, needed);
    return QS_OK;
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------------------------ */

/* 0 ... 255 as the data set normalises them: x / (255 deviation) - mean / deviation. */
static const char *normalised(qs__writer *w, const char *x, int64_t channels) {
    const int64_t dim[] = {channels, 1, 1};
    float *factor = NULL, *term = NULL;
    const char *name = "";
    qs_status status;
    QS_GOTO(qs_allocate((size_t)channels, sizeof *factor, &factor));
    QS_GOTO(qs_allocate((size_t)channels, sizeof *term, &term));
    for (int64_t c = 0; c < channels; c++) {
        factor[c] = (float)(1 / (255 * (double)w->options->deviation[c]));
        term[c] = (float)((double)w->options->mean[c] / (double)w->options->deviation[c]);
    }
    name = QS__NODE(w, "Mul", NULL, x, qs__onnx_numbers(w, 3, dim, factor));
    name = QS__NODE(w, "Sub", NULL, name, qs__onnx_numbers(w, 3, dim, term));
done:
    if (status != QS_OK) w->model.status = status;
    free(factor);
    free(term);
    return name;
}

/* Inputs that no operator reads are left out. */
static void input_write(qs__writer *w, int index) {
    const qs_node *node = &w->graph->node[index];
    const qs_shape *shape = &node->shape;
    const bool integers = w->graph->samples.input[index].type == QS_INPUT_I32, image = shape->axes == 4;
    const int64_t dim[] = {QS_ONNX_OPEN, image || shape->axes == 2 ? shape->dim[1] : shape->dim[2], image ? shape->dim[2] : shape->dim[1],
                           image ? shape->dim[3] : 0};
    const char *name = qs__name_unused(&w->model, node->name);
    w->at = index;
    if (node->consumers > 0) qs__model_input(&w->model, name, integers ? QS_ONNX_INT64 : QS_ONNX_FLOAT, shape->axes, dim);
    if (image && w->options->mean) name = normalised(w, name, shape->dim[1]);
    qs__result(w, image ? QS__CHANNELS_FIRST : QS__CHANNELS_LAST, name);
}

static void output_write(qs__writer *w) {
    w->at = w->graph->nodes - 1;
    const qs_shape *shape = qs__in_shape(w, 0);
    const qs__layout layout = shape->axes == 4 ? QS__CHANNELS_FIRST : QS__CHANNELS_LAST;
    const int64_t dim[] = {QS_ONNX_OPEN, shape->axes == 3 ? shape->dim[2] : shape->dim[1], shape->axes == 3 ? shape->dim[1] : shape->dim[2],
                           shape->axes == 4 ? shape->dim[3] : 0};
    qs__model_output(&w->model, qs__value_in(w, 0, layout), "logits", shape->axes, dim);
}

/* ---- The model --------------------------------------------------------------------------------------------------------------------- */

static qs_status model_fill(qs__writer *w, const float *trained, const float *statistics) {
    QS_TRY(qs_weights_tensors(w->graph, trained, statistics, &w->weights));
    qs__parameters_round(w);
    for (size_t i = 0; i < w->weights.count; i++)
        qs__name_of(&w->model, w->weights.tensors[i].name); /* they are nobody else's */
    for (int i = 0; i < w->graph->samples.inputs; i++)
        input_write(w, i);
    for (w->at = w->graph->samples.inputs; w->at < w->graph->nodes - 1 && w->model.status == QS_OK; w->at++) {
        qs__write *write = writer_of(qs__node_at(w)->op);
        w->summary->transformed += qs__is_transformed(w);
        write(w);
        qs__output_round(w);
    }
    if (w->model.status == QS_OK) output_write(w);
    return w->model.status;
}

qs_status qs_export_onnx(const qs_graph *graph, const float *trained, const float *statistics, const qs_export_options *options,
                         const char *path, qs_export_summary *out) {
    static const qs_export_summary nothing;
    const qs_recipe *const *recipe = options->recipe;
    qs__writer w = {.graph = graph, .options = options, .recipe = recipe, .summary = out};
    int needed = QS_EXPORT_LEAST_OPSET;
    qs_status status;
    *out = nothing;
    QS_GOTO(operators_check(graph));
    for (int n = 0; n < graph->nodes; n++) {
        QS_GOTO(qs__recipe_check(&w, n));
        const int of_recipe = recipe && recipe[n] ? qs__opset_of(recipe[n]) : 0;
        const int of_value = options->value ? qs__opset_of_tensor(options->value[n]) : 0;
        needed = of_recipe > needed ? of_recipe : needed;
        needed = of_value > needed ? of_value : needed;
    }
    for (int i = 0; options->parameter && i < graph->parameters; i++)
        if (qs__opset_of_tensor(options->parameter[i]) > needed) needed = qs__opset_of_tensor(options->parameter[i]);
    QS_GOTO(options_check(options, needed));
    w.model.opset = options->opset ? options->opset : needed;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *w.value, &w.value));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *w.folded, &w.folded));
    QS_GOTO(model_fill(&w, trained, statistics));
    QS_GOTO(qs__model_write(&w.model, path, graph->name, options->external, &out->bytes));
    out->opset = w.model.opset;
    out->ir_version = qs__ir_version(w.model.opset);
    out->nodes = (int)w.model.nodes;
done:
    free(w.value);
    free(w.folded);
    qs_tensor_set_release(&w.weights);
    qs__model_release(&w.model);
    return status;
}
