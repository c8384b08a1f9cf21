// SPDX-License-Identifier: Apache-2.0
/* Folding: a pass over the nodes from first to last that leaves those that must be computed for every sample, then one from last to first
 * that leaves those that somebody reads. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* Nodes that stay. */
typedef struct kept {
    qs_onnx_node *node;
    size_t count, room;
} kept;

static int value_of(const qs__folding *folding, int index) {
    while (index >= 0 && folding->alias[index] >= 0)
        index = folding->alias[index];
    return index;
}

static qs_status value_append(qs__folding *folding, const qs_onnx_value *value, int *index) {
    size_t room = folding->marks;
    if (folding->values >= INT32_MAX) return qs_fail(QS_UNSUPPORTED, "more than %d values", INT32_MAX);
    QS_TRY(qs_grow(&folding->value, &folding->room, folding->values + 1, sizeof *folding->value));
    QS_TRY(qs_grow(&folding->alias, &room, folding->values + 1, sizeof *folding->alias));
    QS_TRY(qs_grow(&folding->computed, &folding->marks, folding->values + 1, sizeof *folding->computed));
    *index = (int)folding->values++;
    folding->value[*index] = *value;
    folding->alias[*index] = -1;
    return QS_OK;
}

/* ---- What a node is without being computed ----------------------------------------------------------------------------------------- */

/* Whether all elements of the result are those of input 0, in place. */
static bool is_same(const qs__folding *folding, const qs_onnx_node *node) {
    static const char *const movers[] = {"Reshape", "Flatten", "Expand", "Tile", "Squeeze", "Unsqueeze", "Cast", "CastLike"};
    const qs_onnx_value *in = &folding->value[node->input[0]], *out = &folding->value[node->output[0]];
    bool moves = false;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        moves = moves || strcmp(node->op, movers[i]) == 0;
    if (strcmp(node->op, "Concat") == 0 || strcmp(node->op, "Sum") == 0 || strcmp(node->op, "Max") == 0 || strcmp(node->op, "Min") == 0)
        moves = node->inputs == 1;
    if (strcmp(node->op, "Slice") == 0) { /* as long as before and forward: all of it */
        const qs_onnx_tensor *steps = node->inputs > 4 && node->input[4] >= 0 ? folding->value[node->input[4]].constant : NULL;
        moves = node->inputs <= 4 || node->input[4] < 0 || steps;
        for (int64_t i = 0; moves && steps && i < steps->count; i++) {
            int64_t step;
            moves = qs_onnx_tensor_integers(steps, i, 1, &step) == QS_OK && step > 0;
        }
    }
    if (!moves || in->rank < 0 || in->rank != out->rank || in->type != out->type || in->type == QS_ONNX_UNDEFINED) return false;
    for (int i = 0; i < in->rank; i++)
        if (!qs_onnx_extent_is_known(&in->extent[i]) || !qs_onnx_extent_equal(&in->extent[i], &out->extent[i])) return false;
    return true;
}

/* Of inference, or dropping nothing; the mask that nobody reads does not matter. */
static bool is_idle_dropout(const qs__folding *folding, const qs_onnx_node *node) {
    double ratio = 0.5;
    int64_t training = 0;
    if (node->outputs > 1 && node->output[1] >= 0 && folding->value[node->output[1]].uses > 0) return false;
    const qs_onnx_attribute *attribute = qs_onnx_attribute_find(node, "ratio");
    if (attribute) ratio = attribute->f;
    for (int i = 1; i < node->inputs && i < 3; i++) {
        if (node->input[i] < 0) continue;
        const qs_onnx_tensor *given = folding->value[node->input[i]].constant;
        if (!given || given->count != 1) return false;
        if (i == 1 && qs_onnx_tensor_doubles(given, 0, 1, &ratio) != QS_OK) return false;
        if (i == 2 && qs_onnx_tensor_integers(given, 0, 1, &training) != QS_OK) return false;
    }
    return ratio == 0 || (!training && !folding->options->keep_dropout);
}

/* Takes a node away that gives out its input. An Identity of a parameter that others read as well is a parameter of its own. */
static bool bypass(qs__folding *folding, const qs_onnx_node *node) {
    const bool identity = strcmp(node->op, "Identity") == 0;
    if (*node->domain || node->inputs < 1 || node->outputs < 1 || node->input[0] < 0 || node->output[0] < 0) return false;
    if (!identity && !is_same(folding, node) && !(strcmp(node->op, "Dropout") == 0 && is_idle_dropout(folding, node))) return false;
    const qs_onnx_value *in = &folding->value[node->input[0]];
    qs_onnx_value *out = &folding->value[node->output[0]];
    if (identity && in->is_parameter && in->uses > 1) {
        out->constant = in->constant;
        out->is_parameter = true;
        out->producer = -1;
        return true;
    }
    folding->alias[node->output[0]] = node->input[0];
    return true;
}

/* Whether all that a node writes and somebody may read is known. */
static bool is_known(const qs__folding *folding, const qs_onnx_node *node) {
    bool known = node->outputs > 0;
    for (int k = 0; k < node->outputs && known; k++) {
        if (node->output[k] < 0) continue;
        const qs_onnx_value *value = &folding->value[node->output[k]];
        known = value->constant != NULL || value->extents != NULL;
        for (int64_t i = 0; known && value->extents && i < value->extents->count; i++)
            known = qs_onnx_extent_is_known(qs_onnx_tensor_extent(value->extents, i));
    }
    return known;
}

/* ---- From first to last ------------------------------------------------------------------------------------------------------------ */

static qs_status nodes_fold(qs__folding *folding, const qs_onnx_graph *from, const int *map, int depth, kept *out);

/* The branch that a constant condition chooses; NULL where there is none. */
static qs_status branch_of(const qs__folding *folding, const qs_onnx_node *node, const qs_onnx_graph **out) {
    int64_t condition;
    *out = NULL;
    if (strcmp(node->op, "If") != 0 || *node->domain || node->inputs < 1 || node->input[0] < 0) return QS_OK;
    const qs_onnx_value *value = &folding->value[node->input[0]];
    if (!value->constant || value->repeats || value->constant->count != 1) return QS_OK;
    QS_TRY(qs_onnx_tensor_integers(value->constant, 0, 1, &condition));
    const qs_onnx_attribute *branch = qs_onnx_attribute_find(node, condition ? "then_branch" : "else_branch");
    if (!branch || branch->type != QS_ONNX_ATTRIBUTE_GRAPH || branch->graphs[0]->inputs > 0 || branch->graphs[0]->outputs != node->outputs)
        return qs_fail(QS_BAD_FILE, "its branch must be a graph without inputs and with %d outputs", node->outputs);
    *out = branch->graphs[0];
    return QS_OK;
}

/* Nodes of a branch in place of the If. */
static qs_status branch_fold(qs__folding *folding, const qs_onnx_node *node, const qs_onnx_graph *branch, int depth, kept *out) {
    int *map = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)branch->values, sizeof *map, &map));
    for (int i = 0; i < branch->values; i++) {
        qs_onnx_value value = branch->value[i];
        if (value.captured >= 0) {
            map[i] = value_of(folding, value.captured);
            continue;
        }
        value.is_output = false;
        QS_GOTO(value_append(folding, &value, &map[i]));
    }
    QS_GOTO(nodes_fold(folding, branch, map, depth + 1, out));
    for (int k = 0; k < node->outputs; k++)
        if (node->output[k] >= 0) folding->alias[node->output[k]] = value_of(folding, map[branch->output[k]]);
done:
    free(map);
    return status;
}

/* A node with its values by their indices in the model's graph, those of its sub-graphs too. */
static void node_map(const qs__folding *folding, qs_onnx_node *node, const int *map) {
    for (int i = 0; i < node->inputs; i++)
        if (node->input[i] >= 0) node->input[i] = value_of(folding, map ? map[node->input[i]] : node->input[i]);
    for (int k = 0; map && k < node->outputs; k++)
        if (node->output[k] >= 0) node->output[k] = map[node->output[k]];
    for (int a = 0; a < node->attributes; a++)
        for (size_t g = 0; node->attribute[a].graphs && g < node->attribute[a].count; g++) {
            qs_onnx_graph *graph = node->attribute[a].graphs[g];
            for (int i = 0; i < graph->values; i++) {
                const int outside = graph->value[i].captured;
                if (outside >= 0) graph->value[i].captured = value_of(folding, map ? map[outside] : outside);
            }
        }
}

static qs_status node_fold(qs__folding *folding, qs_onnx_node *node, const int *map, int depth, kept *out) {
    const qs_onnx_graph *branch;
    node_map(folding, node, map);
    QS_TRY(branch_of(folding, node, &branch));
    if (branch) return branch_fold(folding, node, branch, depth, out);
    QS_TRY(qs__infer(folding, node));
    if (bypass(folding, node)) return QS_OK;
    if (is_known(folding, node)) {
        for (int k = 0; k < node->outputs; k++)
            if (node->output[k] >= 0) folding->value[node->output[k]].producer = -1;
        return QS_OK;
    }
    QS_TRY(qs_grow(&out->node, &out->room, out->count + 1, sizeof *out->node));
    out->node[out->count++] = *node;
    return QS_OK;
}

static qs_status nodes_fold(qs__folding *folding, const qs_onnx_graph *from, const int *map, int depth, kept *out) {
    if (depth > QS_ONNX_MAX_DEPTH) return qs_fail(QS_UNSUPPORTED, "branches more than %d deep", QS_ONNX_MAX_DEPTH);
    for (int i = 0; i < from->nodes; i++) {
        char text[QS_ONNX_NODE_TEXT];
        const qs_status status = node_fold(folding, &from->node[i], map, depth, out);
        const qs_onnx_graph all = {.value = folding->value}; /* which the node's indices are of by now */
        /* Elements of a type that a rule cannot use are the file's mistake, whoever finds it. */
        if (status != QS_OK && depth == 0)
            return qs_fail_within(status == QS_USAGE ? QS_BAD_FILE : status, "%s", qs_onnx_node_text(&all, &from->node[i], text));
        QS_TRY(status);
    }
    return QS_OK;
}

/* ---- From last to first ------------------------------------------------------------------------------------------------------------ */

static void need(const qs_onnx_node *node, bool *needed) {
    for (int i = 0; i < node->inputs; i++)
        if (node->input[i] >= 0) needed[node->input[i]] = true;
    for (int a = 0; a < node->attributes; a++)
        for (size_t g = 0; node->attribute[a].graphs && g < node->attribute[a].count; g++)
            for (int i = 0; i < node->attribute[a].graphs[g]->values; i++)
                if (node->attribute[a].graphs[g]->value[i].captured >= 0) needed[node->attribute[a].graphs[g]->value[i].captured] = true;
}

/* The nodes that the outputs need, in the model's memory, and the values that they read and write. */
static qs_status graph_finish(qs__folding *folding, const kept *nodes, qs_onnx_graph *graph) {
    bool *needed = NULL;
    int count = 0;
    qs_onnx_value *values;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(folding->values, sizeof *needed, &needed));
    for (int i = 0; i < graph->outputs; i++)
        needed[graph->output[i]] = true;
    for (size_t i = nodes->count; i-- > 0;) {
        qs_onnx_node *node = &nodes->node[i];
        bool read = false;
        for (int k = 0; k < node->outputs; k++)
            read = read || (node->output[k] >= 0 && needed[node->output[k]]);
        if (read)
            need(node, needed);
        else
            node->outputs = -1; /* gone */
    }
    QS_GOTO(qs__onnx_take(folding->memory, folding->values, sizeof *values, &values));
    if (folding->values > 0) memcpy(values, folding->value, folding->values * sizeof *values);
    for (size_t i = 0; i < folding->values; i++)
        values[i].producer = -1;
    for (size_t i = 0; i < nodes->count; i++) {
        const qs_onnx_node *node = &nodes->node[i];
        if (node->outputs < 0) continue;
        for (int k = 0; k < node->outputs; k++)
            if (node->output[k] >= 0) values[node->output[k]].producer = count;
        graph->node[count++] = *node;
    }
    graph->nodes = count;
    graph->value = values;
    graph->values = (int)folding->values;
    qs__graph_count_uses(graph);
done:
    free(needed);
    return status;
}

static qs_status graph_fold(qs__folding *folding, qs_onnx_graph *graph, kept *nodes) {
    for (int i = 0; i < graph->values; i++) {
        int index;
        QS_TRY(value_append(folding, &graph->value[i], &index));
    }
    QS_TRY(qs__bind_inputs(folding, graph));
    QS_TRY(nodes_fold(folding, graph, NULL, 0, nodes));
    for (int i = 0; i < graph->outputs; i++) {
        graph->output[i] = value_of(folding, graph->output[i]);
        folding->value[graph->output[i]].is_output = true;
    }
    if (nodes->count > (size_t)graph->nodes) /* branches had more nodes than there are */
        QS_TRY(qs__onnx_take(folding->memory, nodes->count, sizeof *graph->node, &graph->node));
    return graph_finish(folding, nodes, graph);
}

qs_status qs_onnx_fold(qs_onnx_model *model, const qs_onnx_fold_options *options) {
    static const qs_onnx_fold_options standard = {0};
    qs__folding folding = {.memory = model->memory, .options = options ? options : &standard};
    kept nodes = {0};
    const qs_status status = graph_fold(&folding, &model->graph, &nodes);
    free(folding.value);
    free(folding.alias);
    free(folding.computed);
    free(nodes.node);
    return status == QS_OK ? status : qs_fail_within(status, "%s", model->path);
}
