// SPDX-License-Identifier: Apache-2.0
/* Graphs of files. A graph is read in two rounds: first what it holds and writes (initializers, inputs, outputs of nodes, functions in
 * place of their calls), then what its nodes read, by then all known, and their sub-graphs, which may read it too. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

/* Inputs and outputs of functions that all calls of a file may have together: each call keeps a table of its own, and functions that call
 * functions grow like powers. */
enum { MOST_FORMALS = 4 * QS_ONNX_MAX_NODES };

/* A node between the rounds: names that it reads, its text, and the call that the text belongs to. */
typedef struct pending {
    const char **input;
    qs_wire wire;
    qs__call *call;
} pending;

/* A graph that is being read, inside of another one. */
typedef struct scope {
    struct scope *parent;
    int depth;
    qs__names names; /* of values: their indices */
    qs_onnx_node *node;
    pending *pending;
    qs_onnx_value *value;
    size_t nodes, node_room, pending_room, values, value_room;
} scope;

/* ---- Values ------------------------------------------------------------------------------------------------------------------ */

static qs_status value_add(scope *into, const char *name, int *index) {
    if (into->values >= INT32_MAX) return qs_fail(QS_UNSUPPORTED, "more than %d values", INT32_MAX);
    QS_TRY(qs_grow(&into->value, &into->value_room, into->values + 1, sizeof *into->value));
    *index = (int)into->values++;
    into->value[*index] = (qs_onnx_value){.name = name, .producer = -1, .captured = -1, .declared_rank = -1, .rank = -1};
    return qs__names_set(&into->names, name, *index);
}

/* The value of a name that the graph or one around it has; -1: none has. What comes from around is noted as captured. */
static qs_status value_find(scope *in, const char *name, int *index) {
    int64_t known;
    if (qs__names_get(&in->names, name, &known)) {
        *index = (int)known;
        return QS_OK;
    }
    *index = -1;
    if (!in->parent) return QS_OK;
    int outside;
    QS_TRY(value_find(in->parent, name, &outside));
    if (outside < 0) return QS_OK;
    QS_TRY(value_add(in, name, index));
    in->value[*index].captured = outside;
    return QS_OK;
}

/* A TypeProto's tensor type and shape; other types leave the value undeclared. */
static qs_status shape_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_value *out) {
    qs_onnx_dimension dims[QS_ONNX_MAX_RANK];
    int rank = 0;
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != QS_FIELD_SHAPE_DIMENSION) continue;
        QS_TRY(qs__field_message(&field, "an extent", &message));
        if (rank == QS_ONNX_MAX_RANK)
            return qs_fail(QS_UNSUPPORTED, "value \"%.64s\" is declared with more than %d extents", out->name, QS_ONNX_MAX_RANK);
        dims[rank] = (qs_onnx_dimension){.value = -1, .symbol = ""};
        for (;;) {
            qs_wire_field part;
            QS_TRY(qs_wire_next(&message, &part, &more));
            if (!more) break;
            if (part.number == QS_FIELD_SHAPE_NUMBER) QS_TRY(qs__field_int(&part, "an extent", &dims[rank].value));
            if (part.number == QS_FIELD_SHAPE_SYMBOL) QS_TRY(qs__field_name(&part, "an extent's symbol", memory, &dims[rank].symbol));
        }
        if (dims[rank].value < 0) dims[rank].value = -1; /* exporters write -1 for what is open */
        if (dims[rank].value > INT64_C(1) << 40)
            return qs_fail(QS_BAD_FILE, "value \"%.64s\" is declared with an extent of %" PRId64, out->name, dims[rank].value);
        rank++;
    }
    qs_onnx_dimension *copy;
    QS_TRY(qs__onnx_take(memory, (size_t)rank, sizeof *copy, &copy));
    if (rank > 0) memcpy(copy, dims, (size_t)rank * sizeof *copy);
    out->declared = copy;
    out->declared_rank = rank;
    return QS_OK;
}

qs_status qs__type_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_value *out) {
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (field.number != QS_FIELD_TYPE_TENSOR) continue;
        QS_TRY(qs__field_message(&field, "a tensor type", &message));
        for (;;) {
            qs_wire_field part;
            qs_wire shape;
            int64_t type;
            QS_TRY(qs_wire_next(&message, &part, &more));
            if (!more) break;
            if (part.number == QS_FIELD_TYPE_ELEMENT) {
                QS_TRY(qs__field_int(&part, "an element type", &type));
                if (type < 0 || type >= QS_ONNX_TYPE_COUNT)
                    return qs_fail(QS_UNSUPPORTED, "value \"%.64s\" is declared with element type %" PRId64 ": 1 to %d are known",
                                   out->name, type, QS_ONNX_TYPE_COUNT - 1);
                out->declared_type = (qs_onnx_type)type;
            }
            if (part.number != QS_FIELD_TYPE_SHAPE) continue;
            QS_TRY(qs__field_message(&part, "a shape", &shape));
            QS_TRY(shape_read(memory, shape, out));
        }
    }
}

/* A ValueInfoProto's name, and its type where one is said. */
static qs_status info_read(qs_onnx_memory *memory, qs_wire from, qs__call *call, qs_onnx_value *out) {
    *out = (qs_onnx_value){.name = "", .producer = -1, .captured = -1, .declared_rank = -1, .rank = -1};
    const char *name = "";
    qs_wire type = {0};
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_VALUE_NAME) QS_TRY(qs__field_name(&field, "a value's name", memory, &name));
        if (field.number == QS_FIELD_VALUE_TYPE) QS_TRY(qs__field_message(&field, "a value's type", &type));
    }
    QS_TRY(qs__call_name(memory, call, name, &out->name));
    return type.file ? qs__type_read(memory, type, out) : QS_OK;
}

/* What an info declares, for a value of the graph. */
static void declare(qs_onnx_value *value, const qs_onnx_value *info) {
    value->declared_type = info->declared_type;
    value->declared_rank = info->declared_rank;
    value->declared = info->declared;
}

static qs_status initializer_add(qs__reader *reader, scope *into, const qs_wire_field *field, qs__call *call) {
    qs_onnx_memory *memory = reader->place.memory;
    qs_onnx_tensor *tensor;
    qs_onnx_extent *extent;
    qs_wire message;
    int64_t known;
    int index;
    QS_TRY(qs__field_message(field, "an initializer", &message));
    QS_TRY(qs__onnx_take(memory, 1, sizeof *tensor, &tensor));
    QS_TRY((field->number == QS_FIELD_GRAPH_INITIALIZER ? qs__tensor_read : qs__sparse_read)(&reader->place, message, tensor));
    if (*tensor->name == '\0') return qs_fail(QS_BAD_FILE, "an initializer has no name");
    QS_TRY(qs__call_name(memory, call, tensor->name, &tensor->name));
    if (qs__names_get(&into->names, tensor->name, &known)) return qs_fail(QS_BAD_FILE, "two initializers \"%.64s\"", tensor->name);
    QS_TRY(value_add(into, tensor->name, &index));
    QS_TRY(qs__onnx_take(memory, (size_t)tensor->rank, sizeof *extent, &extent));
    for (int i = 0; i < tensor->rank; i++)
        extent[i] = qs_onnx_extent_of(tensor->dim[i]);
    qs_onnx_value *value = &into->value[index];
    value->constant = tensor;
    value->type = tensor->type;
    value->rank = tensor->rank;
    value->extent = extent;
    value->is_parameter = qs_onnx_type_is_float(tensor->type) && tensor->count > 1;
    value->is_number = qs_onnx_type_is_float(tensor->type) && tensor->count == 1;
    return QS_OK;
}

/* ---- Nodes, first round ---------------------------------------------------------------------------------------------------------- */

static const qs__function *function_find(const qs__reader *reader, const char *domain, const char *name, const char *overload) {
    char key[QS__FUNCTION_KEY];
    int64_t index;
    snprintf(key, sizeof key, "%s\n%s\n%s", domain, name, overload);
    return qs__names_get(&reader->function_names, key, &index) ? &reader->function[index] : NULL;
}

/* Version of a domain where the node's text stands; 0: not said. */
static int opset_of(const qs__reader *reader, const qs__call *call, const char *domain) {
    const int count = call ? call->function->opsets : reader->opsets;
    const qs_onnx_opset *list = call ? call->function->opset : reader->opset;
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].domain, domain) == 0) return (int)list[i].version;
    return call && call->caller ? opset_of(reader, call->caller, domain) : call ? opset_of(reader, NULL, domain) : 0;
}

static bool is_text(const qs_wire *text, const char *wanted) {
    const size_t bytes = (size_t)(text->end - text->at);
    return bytes == strlen(wanted) && memcmp(text->at, wanted, bytes) == 0;
}

/* A StringStringEntryProto of a node: what PyTorch's exporter notes of scopes and calls is kept, the rest (it is much) is not. */
static qs_status node_note_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_node *out) {
    qs_wire text[2] = {from, from};
    text[0].end = text[1].end = from.at;
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != QS_FIELD_ENTRY_KEY && field.number != QS_FIELD_ENTRY_VALUE) continue;
        QS_TRY(qs__field_message(&field, "a note of a node", &text[field.number == QS_FIELD_ENTRY_VALUE]));
    }
    const char **to = is_text(&text[0], "pkg.torch.onnx.name_scopes") ? &out->scopes
                      : is_text(&text[0], "pkg.torch.onnx.fx_node")   ? &out->call
                                                                      : NULL;
    return to ? qs__onnx_copy_text(memory, text[1].at, (size_t)(text[1].end - text[1].at), to) : QS_OK;
}

/* A NodeProto but for its sub-graphs: inputs and outputs by their names in the graph, and attributes with references resolved. */
static qs_status node_read(qs__reader *reader, qs_wire from, qs__call *call, qs_onnx_node *out, const char ***inputs, const char ***outputs,
                           const char **overload) {
    qs_onnx_memory *memory = reader->place.memory;
    size_t counts[QS_FIELD_NODE_END];
    *out = (qs_onnx_node){.name = "", .op = "", .domain = "", .scopes = "", .call = ""};
    *overload = "";
    QS_TRY(qs__wire_count(from, counts, QS_FIELD_NODE_END));
    if (counts[QS_FIELD_NODE_INPUT] > INT16_MAX || counts[QS_FIELD_NODE_OUTPUT] > INT16_MAX || counts[QS_FIELD_NODE_ATTRIBUTE] > INT16_MAX)
        return qs_fail(QS_UNSUPPORTED, "a node with %zu inputs, %zu outputs and %zu attributes: at most %d", counts[QS_FIELD_NODE_INPUT],
                       counts[QS_FIELD_NODE_OUTPUT], counts[QS_FIELD_NODE_ATTRIBUTE], INT16_MAX);
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_NODE_INPUT], sizeof **inputs, inputs));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_NODE_OUTPUT], sizeof **outputs, outputs));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_NODE_ATTRIBUTE], sizeof *out->attribute, &out->attribute));
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        const char *name;
        bool more, absent;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_NODE_NAME) QS_TRY(qs__field_name(&field, "a node's name", memory, &out->name));
        if (field.number == QS_FIELD_NODE_OP) QS_TRY(qs__field_name(&field, "a node's operator", memory, &out->op));
        if (field.number == QS_FIELD_NODE_DOMAIN) QS_TRY(qs__field_name(&field, "a node's domain", memory, &out->domain));
        if (field.number == QS_FIELD_NODE_OVERLOAD) QS_TRY(qs__field_name(&field, "a node's overload", memory, overload));
        if (field.number == QS_FIELD_NODE_INPUT || field.number == QS_FIELD_NODE_OUTPUT) {
            QS_TRY(qs__field_name(&field, "a value's name", memory, &name));
            const char **list = field.number == QS_FIELD_NODE_INPUT ? *inputs : *outputs;
            int *count = field.number == QS_FIELD_NODE_INPUT ? &out->inputs : &out->outputs;
            QS_TRY(qs__call_name(memory, call, name, &list[(*count)++]));
        }
        if (field.number == QS_FIELD_NODE_METADATA) {
            QS_TRY(qs__field_message(&field, "a note of a node", &message));
            QS_TRY(node_note_read(memory, message, out));
        }
        if (field.number != QS_FIELD_NODE_ATTRIBUTE) continue;
        qs_onnx_attribute *attribute = &out->attribute[out->attributes];
        QS_TRY(qs__field_message(&field, "an attribute", &message));
        QS_TRY(qs__attribute_read(&reader->place, message, attribute));
        QS_TRY(qs__call_attribute(call, attribute, &absent));
        out->attributes += !absent;
    }
    if (strcmp(out->domain, "ai.onnx") == 0) out->domain = "";
    if (*out->op == '\0') return qs_fail(QS_BAD_FILE, "node \"%.64s\" has no operator", out->name);
    if (call && *out->name) QS_TRY(qs__onnx_print(memory, &out->name, "%s%s", call->prefix, out->name));
    out->opset = opset_of(reader, call, out->domain);
    return QS_OK;
}

/* A prefix that no other call has: the caller's name, with a number where it is not the only one. */
static qs_status prefix_make(qs__reader *reader, const qs_onnx_node *node, const char **out) {
    const char *name = *node->name && strlen(node->name) <= QS_ONNX_MAX_NAME / 4 ? node->name : node->op;
    int64_t known = 0;
    QS_TRY(qs__onnx_print(reader->place.memory, out, "%s/", name));
    if (!qs__names_get(&reader->prefixes, *out, &known)) return qs__names_set(&reader->prefixes, *out, 1);
    QS_TRY(qs__names_set(&reader->prefixes, *out, known + 1));
    return qs__onnx_print(reader->place.memory, out, "%s#%" PRId64 "/", name, known + 1);
}

/* The call of a function: its formal names stand for those that the node says. */
static qs_status call_make(qs__reader *reader, qs__call *caller, const qs__function *function, const qs_onnx_node *node,
                           const char *const *inputs, const char *const *outputs, qs__call **out) {
    qs__call *call;
    for (const qs__call *other = caller; other; other = other->caller)
        if (other->function == function) return qs_fail(QS_BAD_FILE, "function \"%.64s\" calls itself", function->name);
    if (caller && caller->depth >= QS_ONNX_MAX_DEPTH)
        return qs_fail(QS_UNSUPPORTED, "function \"%.64s\" is called more than %d deep", function->name, QS_ONNX_MAX_DEPTH);
    if (node->inputs > function->inputs || node->outputs > function->outputs)
        return qs_fail(QS_BAD_FILE, "%d inputs and %d outputs, but function \"%.64s\" has %d and %d", node->inputs, node->outputs,
                       function->name, function->inputs, function->outputs);
    reader->formals += function->inputs + function->outputs;
    if (reader->formals > MOST_FORMALS)
        return qs_fail(QS_UNSUPPORTED, "calls of functions with more than %d inputs and outputs in all", MOST_FORMALS);
    QS_TRY(qs_allocate(1, sizeof *call, &call));
    call->list = reader->calls;
    reader->calls = call;
    call->caller = caller;
    call->function = function;
    call->depth = caller ? caller->depth + 1 : 1;
    call->attributes = node->attributes;
    call->attribute = node->attribute;
    QS_TRY(prefix_make(reader, node, &call->prefix));
    for (int i = 0; i < function->inputs; i++)
        QS_TRY(qs__call_rename(call, function->input[i], i < node->inputs ? inputs[i] : ""));
    for (int i = 0; i < node->outputs; i++) {
        for (int k = 0; k < function->inputs; k++)
            if (strcmp(function->output[i], function->input[k]) == 0)
                return qs_fail(QS_UNSUPPORTED, "function \"%.64s\" gives out its input \"%.64s\" as it is", function->name,
                               function->input[k]);
        if (*outputs[i]) QS_TRY(qs__call_rename(call, function->output[i], outputs[i]));
    }
    *out = call;
    return QS_OK;
}

static qs_status nodes_read(qs__reader *reader, scope *into, qs_wire from, uint32_t number, qs__call *call);

/* One node, or those of the function that it calls. */
static qs_status node_add(qs__reader *reader, scope *into, qs_wire wire, qs__call *call) {
    qs_onnx_node node;
    const char **inputs, **outputs, *overload;
    if (++reader->nodes > QS_ONNX_MAX_NODES) return qs_fail(QS_UNSUPPORTED, "more than %d nodes", QS_ONNX_MAX_NODES);
    QS_TRY(node_read(reader, wire, call, &node, &inputs, &outputs, &overload));
    const qs__function *function = function_find(reader, node.domain, node.op, overload);
    if (function) {
        qs__call *inner = NULL;
        qs_status status = call_make(reader, call, function, &node, inputs, outputs, &inner);
        if (status == QS_OK) status = nodes_read(reader, into, function->wire, 7, inner);
        return status == QS_OK ? status : qs_fail_within(status, "node \"%.64s\" (%.64s)", node.name, node.op);
    }
    QS_TRY(qs_grow(&into->node, &into->node_room, into->nodes + 1, sizeof *into->node));
    QS_TRY(qs_grow(&into->pending, &into->pending_room, into->nodes + 1, sizeof *into->pending));
    QS_TRY(qs__onnx_take(reader->place.memory, (size_t)node.outputs, sizeof *node.output, &node.output));
    for (int i = 0; i < node.outputs; i++) {
        int64_t known;
        node.output[i] = -1;
        if (*outputs[i] == '\0') continue;
        if (qs__names_get(&into->names, outputs[i], &known))
            return qs_fail(QS_BAD_FILE, "node \"%.64s\" (%.64s) writes \"%.64s\", which is there already", node.name, node.op, outputs[i]);
        QS_TRY(value_add(into, outputs[i], &node.output[i]));
        into->value[node.output[i]].producer = (int)into->nodes;
        into->value[node.output[i]].output = i;
    }
    into->pending[into->nodes] = (pending){inputs, wire, call};
    into->node[into->nodes++] = node;
    return QS_OK;
}

static qs_status nodes_read(qs__reader *reader, scope *into, qs_wire from, uint32_t number, qs__call *call) {
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (field.number != number) continue;
        QS_TRY(qs__field_message(&field, "a node", &message));
        QS_TRY(node_add(reader, into, message, call));
    }
}

/* ---- Nodes, second round --------------------------------------------------------------------------------------------------------- */

static qs_status graph_read(qs__reader *reader, qs_wire from, qs__call *call, scope *parent, qs_onnx_graph *out);

/* The sub-graphs of one attribute. */
static qs_status graphs_read(qs__reader *reader, scope *in, qs_wire from, qs__call *call, qs_onnx_attribute *attribute) {
    const uint32_t number = attribute->type == QS_ONNX_ATTRIBUTE_GRAPH ? 6 : 11;
    qs_onnx_graph **graphs;
    size_t count = 0;
    QS_TRY(qs__onnx_take(reader->place.memory, attribute->count, sizeof *graphs, &graphs));
    while (count < attribute->count) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != number) continue;
        QS_TRY(qs__field_message(&field, "a sub-graph", &message));
        QS_TRY(qs__onnx_take(reader->place.memory, 1, sizeof **graphs, &graphs[count]));
        QS_TRY(graph_read(reader, message, call, in, graphs[count++]));
    }
    attribute->graphs = graphs;
    return QS_OK;
}

/* Inputs by their values, and sub-graphs. */
static qs_status node_resolve(qs__reader *reader, scope *in, size_t index) {
    const pending *waiting = &in->pending[index];
    qs_onnx_node *node = &in->node[index];
    QS_TRY(qs__onnx_take(reader->place.memory, (size_t)node->inputs, sizeof *node->input, &node->input));
    for (int i = 0; i < node->inputs; i++) {
        node->input[i] = -1;
        if (*waiting->input[i] == '\0') continue;
        QS_TRY(value_find(in, waiting->input[i], &node->input[i]));
        if (node->input[i] < 0)
            return qs_fail(QS_BAD_FILE, "node \"%.64s\" (%.64s) reads \"%.64s\", which nothing gives", node->name, node->op,
                           waiting->input[i]);
    }
    bool nested = false;
    for (int i = 0; i < node->attributes; i++)
        nested = nested || node->attribute[i].type == QS_ONNX_ATTRIBUTE_GRAPH || node->attribute[i].type == QS_ONNX_ATTRIBUTE_GRAPHS;
    int attribute = 0;
    for (qs_wire from = waiting->wire; nested && attribute < node->attributes;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != QS_FIELD_NODE_ATTRIBUTE) continue;
        qs_onnx_attribute text;
        bool absent;
        QS_TRY(qs__attribute_read(&reader->place, field.bytes, &text)); /* its place among those that are there */
        QS_TRY(qs__call_attribute(waiting->call, &text, &absent));
        if (absent) continue;
        qs_onnx_attribute *at = &node->attribute[attribute++];
        if (at->type != QS_ONNX_ATTRIBUTE_GRAPH && at->type != QS_ONNX_ATTRIBUTE_GRAPHS) continue;
        const qs_status status = graphs_read(reader, in, field.bytes, waiting->call, at);
        /* The node of the model itself is named, and what is wrong: not all that lies between. */
        if (status != QS_OK) return in->depth > 0 ? status : qs_fail_within(status, "node \"%.64s\" (%.64s)", node->name, node->op);
    }
    return QS_OK;
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------------------------ */

static qs_status inputs_and_outputs(qs__reader *reader, scope *in, qs_wire from, qs__call *call, qs_onnx_graph *out) {
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        qs_onnx_value info;
        bool more;
        int index;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (field.number != QS_FIELD_GRAPH_OUTPUT && field.number != QS_FIELD_GRAPH_VALUE_INFO && field.number != QS_FIELD_GRAPH_INPUT)
            continue;
        QS_TRY(qs__field_message(&field, "a value", &message));
        QS_TRY(info_read(reader->place.memory, message, call, &info));
        if (field.number == QS_FIELD_GRAPH_VALUE_INFO) { /* says something of a value; others are left aside */
            int64_t known;
            if (qs__names_get(&in->names, info.name, &known)) declare(&in->value[known], &info);
            continue;
        }
        QS_TRY(value_find(in, info.name, &index));
        if (index < 0) return qs_fail(QS_BAD_FILE, "output \"%.64s\" of the graph is given by nothing", info.name);
        declare(&in->value[index], &info);
        if (field.number == QS_FIELD_GRAPH_INPUT) continue; /* it was defined before */
        in->value[index].is_output = true;
        out->output[out->outputs++] = index;
    }
}

/* Initializers and inputs. Older files list initializers as inputs, too. */
static qs_status definitions_read(qs__reader *reader, scope *in, qs_wire from, qs__call *call, qs_onnx_graph *out) {
    for (int round = 0; round < 2; round++)
        for (qs_wire rest = from;;) {
            qs_wire_field field;
            qs_wire message;
            qs_onnx_value info;
            int64_t known;
            bool more;
            int index;
            QS_TRY(qs_wire_next(&rest, &field, &more));
            if (!more) break;
            if (round == 0 && (field.number == QS_FIELD_GRAPH_INITIALIZER || field.number == QS_FIELD_GRAPH_SPARSE_INITIALIZER))
                QS_TRY(initializer_add(reader, in, &field, call));
            if (round == 0 || field.number != QS_FIELD_GRAPH_INPUT) continue;
            QS_TRY(qs__field_message(&field, "an input", &message));
            QS_TRY(info_read(reader->place.memory, message, call, &info));
            if (*info.name == '\0') return qs_fail(QS_BAD_FILE, "an input has no name");
            if (qs__names_get(&in->names, info.name, &known)) {
                if (in->value[known].is_input) return qs_fail(QS_BAD_FILE, "two inputs \"%.64s\"", info.name);
                continue;
            }
            QS_TRY(value_add(in, info.name, &index));
            in->value[index].is_input = true;
            out->input[out->inputs++] = index;
        }
    return QS_OK;
}

static qs_status graph_fill(qs__reader *reader, qs_wire from, qs__call *call, scope *in, qs_onnx_graph *out) {
    qs_onnx_memory *memory = reader->place.memory;
    size_t counts[QS_FIELD_GRAPH_END];
    QS_TRY(qs__wire_count(from, counts, QS_FIELD_GRAPH_END));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_GRAPH_INPUT], sizeof *out->input, &out->input));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_GRAPH_OUTPUT], sizeof *out->output, &out->output));
    const size_t listed = counts[QS_FIELD_GRAPH_NODE] < QS_ONNX_MAX_NODES ? counts[QS_FIELD_GRAPH_NODE] : QS_ONNX_MAX_NODES;
    QS_TRY(qs_grow(&in->node, &in->node_room, listed, sizeof *in->node));
    QS_TRY(qs_grow(&in->pending, &in->pending_room, listed, sizeof *in->pending));
    QS_TRY(definitions_read(reader, in, from, call, out));
    QS_TRY(nodes_read(reader, in, from, QS_FIELD_GRAPH_NODE, call));
    for (size_t i = 0; i < in->nodes; i++)
        QS_TRY(node_resolve(reader, in, i));
    QS_TRY(inputs_and_outputs(reader, in, from, call, out));
    out->nodes = (int)in->nodes;
    out->values = (int)in->values;
    QS_TRY(qs__onnx_take(memory, in->nodes, sizeof *out->node, &out->node));
    QS_TRY(qs__onnx_take(memory, in->values, sizeof *out->value, &out->value));
    if (in->nodes > 0) memcpy(out->node, in->node, in->nodes * sizeof *out->node);
    if (in->values > 0) memcpy(out->value, in->value, in->values * sizeof *out->value);
    QS_TRY(qs__graph_order(out));
    qs__graph_count_uses(out);
    return QS_OK;
}

static qs_status graph_read(qs__reader *reader, qs_wire from, qs__call *call, scope *parent, qs_onnx_graph *out) {
    scope in = {.parent = parent, .depth = parent ? parent->depth + 1 : 0};
    if (in.depth > QS_ONNX_MAX_DEPTH) return qs_fail(QS_UNSUPPORTED, "sub-graphs more than %d deep", QS_ONNX_MAX_DEPTH);
    *out = (qs_onnx_graph){.name = ""};
    qs_status status = QS_OK;
    for (qs_wire rest = from;;) {
        qs_wire_field field;
        bool more;
        QS_GOTO(qs_wire_next(&rest, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_GRAPH_NAME) QS_GOTO(qs__field_name(&field, "a graph's name", reader->place.memory, &out->name));
    }
    QS_GOTO(graph_fill(reader, from, call, &in, out));
done:
    qs__names_release(&in.names);
    free(in.node);
    free(in.pending);
    free(in.value);
    return status;
}

qs_status qs__graph_read(qs__reader *reader, qs_wire from, qs_onnx_graph *out) {
    return graph_read(reader, from, NULL, NULL, out);
}
