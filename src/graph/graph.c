// SPDX-License-Identifier: Apache-2.0
/* Building graphs: nodes are appended in topological order by construction, and each carries its shape and its parameters from the
 * moment it stands. A node that cannot stand leaves the graph as it was. */
#include "graph_internal.h"

#include <stdlib.h>
#include <string.h>

static const int64_t most_elements = INT64_C(1) << 40;

static bool is_finished(const qs_graph *graph) {
    return graph->samples.target.extent > 0;
}

static qs_status check_name(const qs_graph *graph, const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length >= sizeof graph->node->name) {
        return qs_fail(QS_USAGE, "node name \"%s\" has %zu characters; 1 to %zu are allowed", name, length, sizeof graph->node->name - 1);
    }
    if (qs_graph_find(graph, name) >= 0) return qs_fail(QS_USAGE, "node \"%s\" is there already; names are unique", name);
    return QS_OK;
}

/* Extents are those of memory, channels last; axes are logical, channels behind the batch. Integers of rank 2 are sequences one behind the
 * other. */
static qs_status add_input(qs_graph *graph, const qs_input *input) {
    qs_node node = {0};
    QS_TRY(check_name(graph, input->name));
    if (input->rank < 1 || input->rank >= QS_MAX_AXES)
        return qs_fail(QS_USAGE, "the model's input %s has rank %d, must be 1 to %d", input->name, input->rank, QS_MAX_AXES - 1);
    node.shape = (qs_shape){.axes = 1 + input->rank, .dim = {1, input->extent[input->rank - 1]}};
    for (int i = 0; i + 1 < input->rank; i++)
        node.shape.dim[2 + i] = input->extent[i];
    if (input->type == QS_INPUT_I32 && input->rank == 2) node.shape = qs_shape_of(2, (int64_t)1, input->extent[0] * input->extent[1]);
    QS_TRY(qs_fail_within(qs_shape_check(&node.shape, input->name), "the model's input"));
    strcpy(node.name, input->name);
    graph->samples.input[graph->samples.inputs++] = *input;
    graph->node[graph->nodes++] = node;
    return QS_OK;
}

qs_status qs_graph_create(const char *name, const char *unit, int inputs, const qs_input *input, qs_graph **out) {
    qs_graph *graph = NULL;
    qs_status status = QS_OK;
    if (strlen(name) >= sizeof graph->name)
        return qs_fail(QS_USAGE, "graph name \"%s\" is longer than %zu characters", name, sizeof graph->name - 1);
    if (inputs < 1 || inputs > QS_SAMPLES_MOST_INPUTS)
        return qs_fail(QS_USAGE, "the model %s has %d inputs, must be 1 to %d", name, inputs, QS_SAMPLES_MOST_INPUTS);
    QS_TRY(qs_allocate(1, sizeof *graph, &graph));
    strcpy(graph->name, name);
    snprintf(graph->samples.unit, sizeof graph->samples.unit, "%s", unit);
    QS_GOTO(qs_grow(&graph->node, &graph->node_capacity, (size_t)inputs, sizeof *graph->node));
    for (int i = 0; i < inputs; i++)
        QS_GOTO(add_input(graph, &input[i]));
    *out = graph;
    return QS_OK;
done:
    qs_graph_release(graph);
    return status;
}

qs_status qs_graph_of_images(const char *name, int channels, int height, int width, qs_graph **out) {
    qs_input input = qs_input_image(height, width, channels);
    if (height == 0 && width == 0) input = (qs_input){.type = QS_INPUT_F32, .rank = 1, .extent = {channels}};
    strcpy(input.name, "input");
    return qs_graph_create(name, "images", 1, &input, out);
}

void qs_graph_release(qs_graph *graph) {
    if (!graph) return;
    free(graph->node);
    free(graph->parameter);
    free(graph);
}

/* ---- Appending ----------------------------------------------------------------------------------------------------------- */

static qs_status check_inputs(const qs_graph *graph, const qs_op *op, int inputs, const int *input) {
    if (op->kind == QS_AUXILIARY) return qs_fail(QS_USAGE, "%s is placed by lowering and cannot be a node", op->name);
    if (inputs > op->inputs || inputs < op->inputs - op->optional || inputs > QS_MAX_INPUTS) {
        if (op->optional)
            return qs_fail(QS_USAGE, "%s reads %d to %d inputs, %d were given", op->name, op->inputs - op->optional, op->inputs, inputs);
        return qs_fail(QS_USAGE, "%s reads %d inputs, %d were given", op->name, op->inputs, inputs);
    }
    for (int i = 0; i < inputs; i++) {
        if (input[i] < 0 || input[i] >= graph->nodes) {
            return qs_fail(QS_USAGE, "input %d is no node; the graph has nodes 0 to %d", input[i], graph->nodes - 1);
        }
    }
    return QS_OK;
}

/* The role of integers that an operator reads as this input; QS_ROLE_COUNT: it reads none there. */
static qs_role integers_read(const qs_op *op, int input) {
    const qs_pass *forward = qs_op_pass(op, "forward");
    for (int i = 0; forward && i < forward->operands; i++) {
        const qs_pass_operand *operand = &forward->operand[i];
        if (operand->source == QS_FROM_INPUT && operand->of == input && qs_role_is_integers(operand->role)) return operand->role;
    }
    return QS_ROLE_COUNT;
}

qs_role qs_graph_integers(const qs_graph *graph, int input) {
    for (int n = graph->samples.inputs; graph->samples.input[input].type == QS_INPUT_I32 && n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++)
            if (graph->node[n].input[i] == input) return integers_read(graph->node[n].op, i);
    return QS_ROLE_COUNT;
}

/* How many values such integers may have: rows of a table, places of caches, positions of a sequence, or 0 and 1; 0: any. */
static double integers_bound(const qs_graph *graph, const qs_node *node, qs_role role) {
    if (role == QS_KEEP) return 2;
    if (role == QS_PLACE && node->attributes.context > 0) return node->attributes.context;
    if (role == QS_PLACE || qs_op_setting(node->op, "vocabulary") >= 0) return node->attributes.vocabulary - node->attributes.offset;
    const qs_shape *sequence = &graph->node[node->input[0]].shape;
    return sequence->axes == 3 ? (double)sequence->dim[2] : 0;
}

qs_status qs__integers_check(const qs_graph *graph, const qs_node *node) {
    for (int i = 0; i < node->inputs; i++) {
        const qs_node *from = &graph->node[node->input[i]];
        const qs_input *input = from->op ? NULL : &graph->samples.input[node->input[i]];
        const bool integers = input && input->type == QS_INPUT_I32;
        const qs_role role = integers_read(node->op, i);
        const double bound = integers_bound(graph, node, role);
        if (integers != (role != QS_ROLE_COUNT))
            return qs_fail(QS_USAGE,
                           integers ? "%s does not read integers, and \"%s\" holds some" : "%s reads integers, and \"%s\" holds none",
                           node->op->name, from->name);
        if (integers && bound > 0 && (double)input->bound > bound)
            return qs_fail(QS_USAGE, "%s %s %.0f %s, and the integers of \"%s\" are 0 to %lld", node->op->name,
                           role == QS_KEEP ? "tells" : "has", bound, role == QS_KEEP ? "values apart" : "rows", from->name,
                           (long long)input->bound - 1);
    }
    return QS_OK;
}

/* Offset of the next array behind `used` elements, *used moved behind it. */
static qs_status place(int64_t *used, const qs_shape *shape, int64_t *offset) {
    int64_t count = qs__parameter_room(qs_shape_count(shape));
    if (count > most_elements - *used) return qs_fail(QS_USAGE, "the model has more than 2^40 parameters");
    *offset = *used;
    *used += count;
    return QS_OK;
}

static qs_status add_parameter(qs_graph *graph, const qs_node *node, const qs_parameter_rule *rule) {
    qs_parameter one = {.node = graph->nodes,
                        .role = rule->role,
                        .gradient = rule->gradient,
                        .shape = rule->shape,
                        .initial = rule->initial,
                        .fan_in = rule->fan_in,
                        .gain = 2}; /* He et al. 2015: a ReLU follows; the last layer's is set by qs_graph_finish */
    QS_TRY(qs_shape_check(&rule->shape, rule->name));
    snprintf(one.name, sizeof one.name, "%s.%s", node->name, rule->name);
    int64_t *used = rule->gradient == QS_ROLE_COUNT ? &graph->statistics_elements : &graph->trained_elements;
    QS_TRY(place(used, &one.shape, &one.offset));
    QS_TRY(qs_grow(&graph->parameter, &graph->parameter_capacity, (size_t)graph->parameters + 1, sizeof one));
    graph->parameter[graph->parameters++] = one;
    return QS_OK;
}

static qs_status add_parameters(qs_graph *graph, qs_node *node, const qs_parameter_rule *rules, int count) {
    node->first_parameter = graph->parameters;
    for (int i = 0; i < count; i++) {
        QS_TRY(add_parameter(graph, node, &rules[i]));
    }
    node->parameters = count;
    return QS_OK;
}

/* Shape and parameters of a node from its inputs. */
static qs_status infer(const qs_graph *graph, qs_node *node, int64_t outputs, bool bias, qs_parameter_rule *rules, int *count) {
    qs_shape src[QS_MAX_INPUTS] = {{0}};
    for (int i = 0; i < node->inputs; i++) {
        src[i] = graph->node[node->input[i]].shape;
    }
    node->shape = src[0];
    if (node->op->infer) QS_TRY(node->op->infer(&node->attributes, src, outputs, &node->shape));
    *count = node->op->parameters ? node->op->parameters(&node->attributes, src, outputs, bias, rules) : 0;
    return qs_shape_check(&node->shape, "the output");
}

/* Takes the weights, which are the table's, out of the node's own parameters. */
static qs_status tie(const qs_graph *graph, const qs_node *node, qs_parameter_rule *rules, int *count) {
    char wanted[96], has[96];
    const qs_node *table = node->table > 0 && node->table < graph->nodes ? &graph->node[node->table] : NULL;
    if (!table || !table->op || !table->op->shares)
        return qs_fail(QS_USAGE, "it cannot share the weights of %s: only those of an operator with a table can be shared",
                       table ? table->name : "a node that is not there");
    if (table->shared) return qs_fail(QS_USAGE, "the weights of \"%s\" are shared with another operator already", table->name);
    const qs_parameter *weights = qs_graph_parameter(graph, node->table, QS_WEIGHTS);
    for (int i = 0; i < *count; i++) {
        if (rules[i].role != QS_WEIGHTS) continue;
        if (!qs_shape_equal(&rules[i].shape, &weights->shape))
            return qs_fail(QS_USAGE, "its weights are %s, those of \"%s\" are %s", qs_shape_text(&rules[i].shape, wanted), table->name,
                           qs_shape_text(&weights->shape, has));
        memmove(&rules[i], &rules[i + 1], (size_t)(*count - i - 1) * sizeof *rules);
        *count -= 1;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "%s has no weights, and so none to share", node->op->name);
}

static qs_status append(qs_graph *graph, const char *op, qs_node *node, const int *input, int64_t outputs, bool bias) {
    qs_parameter_rule rules[QS_MAX_PARAMETERS];
    int count = 0;
    QS_TRY(qs_op_find(op, &node->op));
    QS_TRY(check_inputs(graph, node->op, node->inputs, input));
    memcpy(node->input, input, (size_t)node->inputs * sizeof *input);
    qs_attributes_complete(node->op, &node->attributes);
    QS_TRY(qs__integers_check(graph, node));
    QS_TRY(infer(graph, node, outputs, bias, rules, &count));
    if (node->table != 0) QS_TRY(tie(graph, node, rules, &count));
    QS_TRY(qs_grow(&graph->node, &graph->node_capacity, (size_t)graph->nodes + 1, sizeof *node));
    QS_TRY(add_parameters(graph, node, rules, count));
    graph->node[graph->nodes++] = *node;
    if (node->table > 0) graph->node[node->table].shared = true;
    for (int i = 0; i < node->inputs; i++) {
        const qs_role role = integers_read(node->op, i);
        if (role != QS_ROLE_COUNT && graph->samples.input[input[i]].bound == 0)
            graph->samples.input[input[i]].bound = (int64_t)integers_bound(graph, node, role);
    }
    return QS_OK;
}

static qs_status add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int inputs, const int *input,
                     int64_t outputs, bool bias, int table, int *node) {
    QS_TRY(check_name(graph, name));
    if (is_finished(graph)) return qs_fail(QS_USAGE, "node \"%s\": the graph is finished", name);
    static const qs_attributes none;
    qs_node one = {.attributes = attributes ? *attributes : none, .inputs = inputs, .outputs = outputs, .bias = bias, .table = table};
    strcpy(one.name, name);
    qs_graph before = *graph;
    qs_status status = append(graph, op, &one, input, outputs, bias);
    if (status != QS_OK) {
        graph->parameters = before.parameters;
        graph->trained_elements = before.trained_elements;
        graph->statistics_elements = before.statistics_elements;
        return qs_fail_within(status, "node \"%s\"", name);
    }
    *node = graph->nodes - 1;
    return QS_OK;
}

qs_status qs_graph_add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int inputs, const int *input,
                       int64_t outputs, bool bias, int *node) {
    return add(graph, name, op, attributes, inputs, input, outputs, bias, 0, node);
}

qs_status qs_graph_add_tied(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int inputs,
                            const int *input, int64_t outputs, bool bias, int table, int *node) {
    return add(graph, name, op, attributes, inputs, input, outputs, bias, table > 0 ? table : -1, node);
}

/* ---- Finishing ------------------------------------------------------------------------------------------------------------ */

static void count_consumers(qs_graph *graph) {
    for (int i = 0; i < graph->nodes; i++) {
        graph->node[i].consumers = 0;
    }
    for (int i = 0; i < graph->nodes; i++) {
        for (int k = 0; k < graph->node[i].inputs; k++) {
            graph->node[graph->node[i].input[k]].consumers++;
        }
    }
}

/* Edges point forward, so a node from which no path leads to the loss ends in one without consumers. Inputs but the first may go unread:
 * samples may have more than a model looks at (token types, which decoders know nothing of). */
static qs_status check_reach(const qs_graph *graph, int input) {
    for (int i = 0; i < graph->nodes; i++) {
        if (i > 0 && i < graph->samples.inputs) continue;
        if (graph->node[i].consumers == 0 && i != input) {
            return qs_fail(QS_USAGE, "node \"%s\" does not reach the loss: nobody reads it", graph->node[i].name);
        }
    }
    return QS_OK;
}

/* Nothing cuts off half of the last layer's output, so its variance is 1/fan_in. */
static void set_last_gain(qs_graph *graph, int input) {
    while (graph->node[input].op && graph->node[input].op->alias)
        input = graph->node[input].input[0];
    const qs_node *last = &graph->node[input];
    for (int i = 0; i < last->parameters; i++) {
        graph->parameter[last->first_parameter + i].gain = 1;
    }
}

/* The loss of a target, and the shape that it must read, N = 1. */
static qs_status loss_choose(const qs_target *target, const char **op, qs_shape *shape) {
    const bool classes = target->kind <= QS_TARGET_CLASS_PER_POSITION, positions = target->kind == QS_TARGET_CLASS_PER_POSITION;
    if (classes && (target->classes < 2 || target->classes > INT32_MAX))
        return qs_fail(QS_USAGE, "the target has %lld classes, must be 2 to %d", (long long)target->classes, INT32_MAX);
    if (positions && target->ignored >= 0)
        return qs_fail(QS_USAGE, "the target's ignored value is %d, must be negative: the others are classes", target->ignored);
    if (target->extent < 1 || (target->kind == QS_TARGET_CLASS && target->extent != 1))
        return qs_fail(QS_USAGE, "the target has %lld positions or numbers, must be at least 1 (one class: 1)", (long long)target->extent);
    *op = classes ? "softmax_cross_entropy" : target->kind == QS_TARGET_SPAN ? "span_cross_entropy" : "squared_loss";
    *shape = target->kind == QS_TARGET_CLASS  ? qs_shape_of(2, (int64_t)1, target->classes)
             : positions                      ? qs_shape_of(3, (int64_t)1, target->classes, target->extent)
             : target->kind == QS_TARGET_SPAN ? qs_shape_of(3, (int64_t)1, (int64_t)2, target->extent)
                                              : qs_shape_of(2, (int64_t)1, target->extent);
    return QS_OK;
}

qs_status qs_graph_finish(qs_graph *graph, int input, const qs_target *target) {
    if (is_finished(graph)) return qs_fail(QS_USAGE, "the graph is finished");
    if (input < 0 || input >= graph->nodes) return qs_fail(QS_USAGE, "the loss reads node %d of %d", input, graph->nodes);
    const qs_node *last = &graph->node[input];
    const qs_target classes = {.kind = QS_TARGET_CLASS, .classes = last->shape.axes == 2 ? last->shape.dim[1] : 2, .extent = 1};
    const char *op = NULL;
    char text[96], needs[96];
    qs_shape shape;
    if (!target && (last->shape.axes != 2 || last->shape.dim[1] < 2 || last->shape.dim[1] > INT32_MAX)) {
        return qs_fail(QS_USAGE, "the loss needs (batch, classes >= 2), node \"%s\" gives %s", last->name,
                       qs_shape_text(&last->shape, text));
    }
    if (!target) target = &classes;
    QS_TRY(loss_choose(target, &op, &shape));
    if (!qs_shape_equal(&shape, &last->shape))
        return qs_fail(QS_USAGE, "the loss of the target, %s, reads %s, node \"%s\" gives %s", op, qs_shape_text(&shape, needs), last->name,
                       qs_shape_text(&last->shape, text));
    count_consumers(graph);
    QS_TRY(check_reach(graph, input));
    int loss = 0;
    QS_TRY(qs_graph_add(graph, "loss", op, &(qs_attributes){0}, 1, &input, 0, false, &loss));
    count_consumers(graph);
    set_last_gain(graph, input);
    graph->samples.target = *target;
    return QS_OK;
}
