// SPDX-License-Identifier: Apache-2.0
/* graph.json: from a graph to its record, and back through the same calls that build every other graph. What a file says beyond what is
 * built (shapes, parameters, the signature) is compared with what follows. */
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "qsync/onnx_import.h"
#include "qsync/record.h"

/* ---- Shapes with symbols ---------------------------------------------------------------------------------------------------- */

/* The bound of samples that vary; 0: none does. */
static int64_t length_of(const qs_graph *graph) {
    for (int i = 0; i < graph->samples.inputs; i++)
        if (graph->samples.input[i].varies) return graph->samples.input[i].extent[0];
    return 0;
}

/* Which axis of each node runs along the length: an input's, and where operators keep it, its readers'. -1: none. */
static void length_axes(const qs_graph *graph, int *axis) {
    const int64_t length = length_of(graph);
    for (int n = 0; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        const int place = node->shape.axes > 2 ? 2 : 1;
        bool along = n < graph->samples.inputs && graph->samples.input[n].varies;
        for (int i = 0; i < node->inputs; i++)
            along = along || axis[node->input[i]] > 0;
        axis[n] = along && node->shape.axes > place && node->shape.dim[place] == length ? place : -1;
    }
}

static qs_shape shape_with_symbols(const qs_graph *graph, int node, const int *axis) {
    qs_shape shape = graph->node[node].shape;
    shape.dim[0] = QS_GRAPH_BATCH;
    if (axis[node] > 0) shape.dim[axis[node]] = QS_GRAPH_LENGTH;
    return shape;
}

static const char *shape_text(const qs_shape *shape, char *text) {
    char *at = text;
    for (int i = 0; i < shape->axes; i++)
        at += shape->dim[i] == QS_GRAPH_BATCH    ? sprintf(at, "%sbatch", i ? "," : "[")
              : shape->dim[i] == QS_GRAPH_LENGTH ? sprintf(at, "%slength", i ? "," : "[")
                                                 : sprintf(at, "%s%lld", i ? "," : "[", (long long)shape->dim[i]);
    strcpy(at, "]");
    return text;
}

/* ---- To a record ------------------------------------------------------------------------------------------------------------- */

/* Takes away what the record can say of attributes: what is left is the standard, or cannot be written. */
static qs_attributes remainder_of(const qs_node *node) {
    qs_attributes rest = node->attributes;
    memset(rest.kernel, 0, sizeof rest.kernel);
    memset(rest.stride, 0, sizeof rest.stride);
    memset(rest.dilation, 0, sizeof rest.dilation);
    memset(rest.padding, 0, sizeof rest.padding);
    memset(rest.padding_more, 0, sizeof rest.padding_more);
    rest.groups = rest.offset = 0;
    rest.batched = rest.count_padding = false;
    return rest;
}

static qs_status origins_fill(const qs_graph *graph, const qs_node *node, qs_graph_operator *out) {
    QS_TRY(qs_allocate((size_t)node->parameters, sizeof *out->origin, &out->origin));
    for (int i = 0; i < node->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[node->first_parameter + i];
        const qs_parameter_origin *from = &parameter->origin;
        if (from->file[0] == '\0' && !from->constant) continue;
        qs_graph_origin *row = &out->origin[out->origins++];
        snprintf(row->parameter, sizeof row->parameter, "%s", parameter->name + strlen(node->name) + 1);
        memcpy(row->file, from->file, sizeof row->file);
        row->transposed = from->transposed;
        row->constant = from->constant;
        row->axes = from->shape.axes;
        memcpy(row->extent, from->shape.dim, sizeof row->extent);
    }
    return QS_OK;
}

static qs_status operator_fill(const qs_graph *graph, int n, const int *axis, qs_graph_operator *out) {
    const qs_node *node = &graph->node[n];
    const qs_attributes *with = &node->attributes, rest = remainder_of(node);
    if (rest.relu || rest.per_channel || rest.to || rest.accumulator.adder || rest.hadamard || rest.shifts)
        return qs_fail(QS_UNSUPPORTED, "operator \"%s\" has attributes that only lowering sets: graph.json cannot say them", node->name);
    memcpy(out->name, node->name, sizeof out->name);
    snprintf(out->op, sizeof out->op, "%s", node->op->name);
    for (int i = 0; i < node->inputs; i++)
        memcpy(out->input[out->inputs++], graph->node[node->input[i]].name, sizeof *out->input);
    if (node->table > 0) memcpy(out->weights_of, graph->node[node->table].name, sizeof out->weights_of);
    out->shape = shape_with_symbols(graph, n, axis);
    out->outputs = node->op->takes & QS_TAKES_OUTPUTS ? node->outputs : 0;
    out->bias = node->op->takes & QS_TAKES_BIAS ? node->bias : false;
    out->batched = with->batched;
    out->count_padding = with->count_padding;
    memcpy(out->kernel, with->kernel, sizeof out->kernel);
    memcpy(out->stride, with->stride, sizeof out->stride);
    memcpy(out->dilation, with->dilation, sizeof out->dilation);
    memcpy(out->padding, with->padding, sizeof out->padding);
    memcpy(out->padding_more, with->padding_more, sizeof out->padding_more);
    out->groups = with->groups;
    out->offset = with->offset;
    QS_TRY(origins_fill(graph, node, out));
    const int settings = qs_op_settings(node->op);
    QS_TRY(qs_allocate((size_t)settings, sizeof *out->setting, &out->setting));
    for (int i = 0; i < settings; i++) { /* standards go without saying */
        const double value = qs_op_value(node->op, with, i);
        if (value == node->op->setting[i].standard) continue;
        qs_graph_setting *setting = &out->setting[out->settings++];
        snprintf(setting->name, sizeof setting->name, "%s", node->op->setting[i].name);
        setting->value = value;
    }
    return QS_OK;
}

static void input_fill(const qs_input *input, qs_graph_input *out) {
    *out = (qs_graph_input){
        .type = input->type, .padding = input->padding, .bound = input->bound, .length = input->varies ? input->extent[0] : 0};
    memcpy(out->name, input->name, sizeof out->name);
    out->shape.axes = input->rank;
    memcpy(out->shape.dim, input->extent, (size_t)input->rank * sizeof *input->extent);
    if (input->varies) out->shape.dim[0] = QS_GRAPH_LENGTH;
}

static void parameter_fill(const qs_parameter *parameter, qs_graph_parameter_row *out) {
    *out = (qs_graph_parameter_row){.shape = parameter->shape,
                                    .trained = parameter->gradient != QS_ROLE_COUNT,
                                    .initial = (double)parameter->initial,
                                    .gain = (double)parameter->gain,
                                    .fan_in = parameter->fan_in};
    memcpy(out->name, parameter->name, sizeof out->name);
    snprintf(out->role, sizeof out->role, "%s", qs_role_name(parameter->role));
}

qs_status qs__record_of_graph(const qs_graph *graph, qs_graph_record *out) {
    const int first = graph->samples.inputs, loss = graph->nodes - 1;
    int *axis = NULL;
    qs_status status;
    memcpy(out->name, graph->name, sizeof out->name);
    memcpy(out->unit, graph->samples.unit, sizeof out->unit);
    out->target = graph->samples.target;
    QS_GOTO(qs_allocate((size_t)first, sizeof *out->input, &out->input));
    for (; out->inputs < first; out->inputs++)
        input_fill(&graph->samples.input[out->inputs], &out->input[out->inputs]);
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *axis, &axis));
    length_axes(graph, axis);
    QS_GOTO(qs_allocate((size_t)(loss - first), sizeof *out->operator_, &out->operator_));
    for (int n = first; n < loss; n++) {
        out->operators++;
        QS_GOTO(operator_fill(graph, n, axis, &out->operator_[n - first]));
    }
    memcpy(out->output, graph->node[graph->node[loss].input[0]].name, sizeof out->output);
    QS_GOTO(qs_allocate((size_t)graph->parameters, sizeof *out->tensor, &out->tensor));
    for (; out->tensors < graph->parameters; out->tensors++)
        parameter_fill(&graph->parameter[out->tensors], &out->tensor[out->tensors]);
    qs_graph_signature(graph, out->signature);
done:
    free(axis);
    return status;
}

qs_status qs_graph_text(const qs_graph *graph, char **json) {
    qs_graph_record record = {0};
    qs_status status = qs__record_of_graph(graph, &record);
    if (status == QS_OK) status = qs_graph_record_text(&record, json);
    qs_graph_record_release(&record);
    return status;
}

qs_status qs_graph_write(const qs_graph *graph, const char *path) {
    char *json = NULL;
    QS_TRY(qs_graph_text(graph, &json));
    const qs_status status = qs_file_write(path, json, strlen(json));
    free(json);
    return status;
}

/* ---- From a record ----------------------------------------------------------------------------------------------------------- */

/* What an operator does not take must not be there: it would say something that has no effect. */
static qs_status attributes_take(const qs_op *op, const qs_graph_operator *row, qs_attributes *out) {
    const bool pads = row->padding[0] || row->padding[1] || row->padding_more[0] || row->padding_more[1];
    const bool window =
        row->kernel[0] || row->kernel[1] || row->stride[0] > 1 || row->stride[1] > 1 || row->dilation[0] > 1 || row->dilation[1] > 1;
    const struct {
        unsigned bit;
        bool said;
        const char *name;
    } rules[] = {{QS_TAKES_WINDOW, window, "kernel, stride or dilation"},
                 {QS_TAKES_WINDOW | QS_TAKES_PADDING, pads, "padding"},
                 {QS_TAKES_COUNT, row->count_padding, "count_padding"},
                 {QS_TAKES_GROUPS, row->groups > 1, "groups"},
                 {QS_TAKES_OFFSET, row->offset > 0, "offset"},
                 {QS_TAKES_BATCHED, row->batched, "attribute batched"},
                 {QS_TAKES_OUTPUTS, row->outputs > 0, "outputs"},
                 {QS_TAKES_BIAS, row->bias, "bias"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].said && !(op->takes & rules[i].bit)) return qs_fail(QS_BAD_FILE, "%s takes no %s", op->name, rules[i].name);
    *out = (qs_attributes){.groups = row->groups, .offset = row->offset, .batched = row->batched, .count_padding = row->count_padding};
    memcpy(out->kernel, row->kernel, sizeof out->kernel);
    memcpy(out->stride, row->stride, sizeof out->stride);
    memcpy(out->dilation, row->dilation, sizeof out->dilation);
    memcpy(out->padding, row->padding, sizeof out->padding);
    memcpy(out->padding_more, row->padding_more, sizeof out->padding_more);
    for (int i = 0; i < row->settings; i++) {
        const int place = qs_op_setting(op, row->setting[i].name);
        if (place < 0) return qs_fail(QS_BAD_FILE, "%s has no setting \"%s\"", op->name, row->setting[i].name);
        const qs_setting *setting = &op->setting[place];
        const double value = row->setting[i].value;
        if (!(value >= setting->least && value <= setting->most))
            return qs_fail(QS_BAD_FILE, "%s is %.9g, must lie in %.9g .. %.9g", setting->name, value, setting->least, setting->most);
        if (value == 0 && setting->standard != 0)
            return qs_fail(QS_BAD_FILE, "%s is 0, which stands for %.9g: %s cannot have it 0", setting->name, setting->standard, op->name);
        *(double *)(void *)((char *)out + setting->field) = value;
    }
    return QS_OK;
}

static qs_status operator_add(const qs_graph_record *record, int index, qs_graph *graph) {
    const qs_graph_operator *row = &record->operator_[index];
    const qs_op *op = NULL;
    qs_attributes attributes;
    int input[QS_GRAPH_MOST_INPUTS], node;
    QS_TRY(qs_op_find(row->op, &op));
    if (op->kind == QS_FIXED || op->kind == QS_AUXILIARY)
        return qs_fail(QS_BAD_FILE, "%s is no operator of a model: losses follow from the target, others are placed by lowering", op->name);
    QS_TRY(attributes_take(op, row, &attributes));
    for (int i = 0; i < row->inputs; i++) {
        input[i] = qs_graph_find(graph, row->input[i]);
        for (int behind = index; input[i] < 0 && behind < record->operators; behind++)
            if (strcmp(record->operator_[behind].name, row->input[i]) == 0)
                return qs_fail(QS_BAD_FILE,
                               "it reads \"%s\", which does not stand before it: operators stand in the order in which they run, "
                               "and a cycle has none",
                               row->input[i]);
        if (input[i] < 0) return qs_fail(QS_BAD_FILE, "it reads \"%s\", which is no input and no operator", row->input[i]);
    }
    if (row->weights_of[0] == '\0')
        QS_TRY(qs_graph_add(graph, row->name, row->op, &attributes, row->inputs, input, row->outputs, row->bias, &node));
    else
        QS_TRY(qs_graph_add_tied(graph, row->name, row->op, &attributes, row->inputs, input, row->outputs, row->bias,
                                 qs_graph_find(graph, row->weights_of), &node));
    if (op->alias || (op->norm && op->norm->quantized)) return QS_OK; /* no pass, or one of codes, which lowering makes */
    const qs_pass *forward = qs_op_pass(op, "forward");
    const qs_case one = qs_graph_case(graph, node, forward, 2); /* of one sample some have no variance */
    return qs_case_check(&one);
}

static qs_status shapes_compare(const qs_graph_record *record, const qs_graph *graph) {
    char says[96], follows[96];
    int *axis = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *axis, &axis));
    length_axes(graph, axis);
    for (int i = 0; i < record->operators && status == QS_OK; i++) {
        const qs_graph_operator *row = &record->operator_[i];
        const int node = graph->samples.inputs + i;
        const qs_shape shape = shape_with_symbols(graph, node, axis);
        if (row->shape.axes > 0 && !qs_shape_equal(&row->shape, &shape))
            status = qs_fail(QS_BAD_FILE, "operator \"%s\": shape says %s, from its inputs follows %s", row->name,
                             shape_text(&row->shape, says), shape_text(&shape, follows));
    }
    free(axis);
    return status;
}

/* The file's start values are taken, all else must be what the operators have. */
static qs_status parameters_take(const qs_graph_record *record, qs_graph *graph) {
    char says[96], follows[96];
    if (record->tensors == 0) return QS_OK;
    for (int i = 0; i < record->tensors && i < graph->parameters; i++) {
        const qs_graph_parameter_row *row = &record->tensor[i];
        qs_parameter *has = &graph->parameter[i];
        if (strcmp(row->name, has->name) != 0)
            return qs_fail(QS_BAD_FILE, "tensor %d is \"%s\", the operators have \"%s\" there", i, row->name, has->name);
        if (strcmp(row->role, qs_role_name(has->role)) != 0)
            return qs_fail(QS_BAD_FILE, "tensor \"%s\": role is \"%s\", must be \"%s\"", row->name, row->role, qs_role_name(has->role));
        if (row->trained != (has->gradient != QS_ROLE_COUNT))
            return qs_fail(QS_BAD_FILE, "tensor \"%s\": it is %strained", row->name, row->trained ? "not " : "");
        if (!qs_shape_equal(&row->shape, &has->shape))
            return qs_fail(QS_BAD_FILE, "tensor \"%s\": shape says %s, its operator has %s", row->name, shape_text(&row->shape, says),
                           shape_text(&has->shape, follows));
        has->initial = (float)row->initial;
        has->fan_in = row->fan_in;
        has->gain = (float)row->gain;
    }
    if (record->tensors == graph->parameters) return QS_OK;
    return qs_fail(QS_BAD_FILE, "tensors has %d rows, the operators have %d parameters: all of them or none", record->tensors,
                   graph->parameters);
}

static qs_status origins_take(const qs_graph_operator *row, qs_graph *graph, int node) {
    const qs_node *owner = &graph->node[node];
    for (int i = 0; i < row->origins; i++) {
        const qs_graph_origin *from = &row->origin[i];
        int at = owner->first_parameter;
        const int end = at + owner->parameters;
        while (at < end && strcmp(graph->parameter[at].name + strlen(owner->name) + 1, from->parameter) != 0)
            at++;
        if (at == end) return qs_fail(QS_BAD_FILE, "%s has no parameter \"%s\" of its own here", row->op, from->parameter);
        qs_parameter_origin origin = {.transposed = from->transposed, .constant = from->constant, .shape = {.axes = from->axes}};
        memcpy(origin.file, from->file, sizeof origin.file);
        memcpy(origin.shape.dim, from->extent, sizeof origin.shape.dim);
        QS_TRY(qs_graph_origin_set(graph, at, &origin));
    }
    return QS_OK;
}

/* What a kind of target makes of the output: (batch, classes or numbers, positions). */
static void target_follow(const qs_shape *output, qs_target *target) {
    const bool positions = target->kind == QS_TARGET_CLASS_PER_POSITION || target->kind == QS_TARGET_SPAN;
    target->classes = target->kind <= QS_TARGET_CLASS_PER_POSITION ? output->dim[1] : 0;
    target->extent = target->kind == QS_TARGET_REAL ? output->dim[1] : positions && output->axes > 2 ? output->dim[2] : 1;
}

static qs_status graph_build(const qs_graph_record *record, qs_graph *graph) {
    char signature[32];
    for (int i = 0; i < record->operators; i++)
        QS_TRY(qs_fail_within(operator_add(record, i, graph), "operator \"%s\"", record->operator_[i].name));
    const int output = qs_graph_find(graph, record->output);
    if (output < 0) return qs_fail(QS_BAD_FILE, "output \"%s\" is no operator", record->output);
    QS_TRY(shapes_compare(record, graph));
    qs_target follows = record->target;
    target_follow(&graph->node[output].shape, &follows);
    QS_TRY(qs_graph_finish(graph, output, record->target.extent > 0 ? &record->target : &follows));
    QS_TRY(parameters_take(record, graph));
    for (int i = 0; i < record->operators; i++)
        QS_TRY(qs_fail_within(origins_take(&record->operator_[i], graph, graph->samples.inputs + i), "operator \"%s\"",
                              record->operator_[i].name));
    qs_graph_signature(graph, signature);
    if (record->signature[0] == '\0' || strcmp(record->signature, signature) == 0) return QS_OK;
    return qs_fail(QS_BAD_FILE, "signature says %s, the graph has %s: it was changed; leave the signature out of a file written by hand",
                   record->signature, signature);
}

qs_status qs_graph_of_record(const qs_graph_record *record, qs_graph **out) {
    qs_input input[QS_SAMPLES_MOST_INPUTS] = {{.rank = 0}};
    for (int i = 0; i < record->inputs; i++) {
        const qs_graph_input *row = &record->input[i];
        input[i] = (qs_input){
            .type = row->type, .rank = row->shape.axes, .varies = row->length > 0, .padding = (int32_t)row->padding, .bound = row->bound};
        memcpy(input[i].name, row->name, sizeof input[i].name);
        memcpy(input[i].extent, row->shape.dim, (size_t)row->shape.axes * sizeof *input[i].extent);
        if (row->length > 0) input[i].extent[0] = row->length;
    }
    qs_graph *graph = NULL;
    QS_TRY(qs_graph_create(record->name, record->unit, record->inputs, input, &graph));
    const qs_status status = graph_build(record, graph);
    if (status == QS_OK)
        *out = graph;
    else
        qs_graph_release(graph);
    return status;
}

/* What a builder calls wrong usage is, in a file, a bad file. */
static qs_status record_take(qs_graph_record *record, const char *source, qs_graph **out) {
    const qs_status status = qs_graph_of_record(record, out);
    qs_graph_record_release(record);
    if (status == QS_OK || status == QS_OUT_OF_MEMORY) return status;
    return qs_fail(status == QS_USAGE ? QS_BAD_FILE : status, "%s: %s", source, qs_message());
}

qs_status qs_graph_read(const char *path, qs_graph **out) {
    qs_graph_record record = {0};
    QS_TRY(qs_graph_record_read(path, &record));
    return record_take(&record, path, out);
}

qs_status qs_graph_parse(const char *json, const char *source, qs_graph **out) {
    qs_graph_record record = {0};
    QS_TRY(qs_graph_record_parse(json, source, &record));
    return record_take(&record, source, out);
}

/* ---- From an ONNX file ------------------------------------------------------------------------------------------------------- */

bool qs__is_onnx(const char *text) {
    size_t length;
    return qs_onnx_is_path(text, &length);
}

static bool varies(const qs_graph_record *record) {
    for (int i = 0; i < record->inputs; i++)
        if (record->input[i].length > 0) return true;
    return false;
}

/* A length that the file leaves open, and that the model does not depend on, is that of the samples. */
qs_status qs__onnx_open(const char *text, const qs_samples *samples, qs_graph **out) {
    const int64_t length = samples ? qs_samples_length(samples) : 0;
    qs_onnx_imported imported;
    qs_graph *graph = NULL;
    qs_status status = qs_onnx_import(text, length, false, &imported);
    if (length > 0 && (status != QS_OK || (imported.length > 0 && !varies(&imported.graph)))) {
        qs_onnx_imported_release(&imported);
        status = qs_onnx_import(text, 0, false, &imported);
    }
    if (status == QS_OK) status = qs_fail_within(qs_graph_of_record(&imported.graph, &graph), "%s", text);
    qs_onnx_imported_release(&imported);
    if (status == QS_OK)
        *out = graph;
    else
        qs_graph_release(graph);
    return status;
}
