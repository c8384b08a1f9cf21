// SPDX-License-Identifier: Apache-2.0
/* An ONNX model under construction: see model.h. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void qs__model_release(qs__model *model) {
    for (size_t i = 0; i < model->nodes; i++) {
        free(model->node[i].input);
        qs_protobuf_release(&model->node[i].attributes);
    }
    for (size_t i = 0; i < model->constants; i++)
        free(model->constant[i].owned);
    for (size_t i = 0; i < model->names; i++)
        free(model->name[i]);
    qs_protobuf_release(&model->inputs);
    qs_protobuf_release(&model->outputs);
    free(model->node);
    free(model->constant);
    free(model->name);
    free(model->name_place);
    *model = (qs__model){0};
}

static bool failed(qs__model *model, qs_status status) {
    if (model->status == QS_OK) model->status = status;
    return model->status != QS_OK;
}

/* ---- Names ------------------------------------------------------------------------------------------------------------------------ */

/* Where a name stands in the table, or would. */
static size_t place_of(const qs__model *model, const char *name) {
    size_t at = (size_t)qs_hash(name, strlen(name), 0) & (model->name_places - 1);
    while (model->name_place[at] && strcmp(model->name[model->name_place[at] - 1], name) != 0)
        at = (at + 1) & (model->name_places - 1);
    return at;
}

/* Keeps the table at most half full. */
static qs_status places_grow(qs__model *model) {
    const size_t places = model->name_places ? 2 * model->name_places : 64;
    if (2 * (model->names + 1) <= model->name_places) return QS_OK;
    free(model->name_place);
    model->name_places = 0;
    QS_TRY(qs_allocate(places, sizeof *model->name_place, &model->name_place));
    model->name_places = places;
    for (size_t i = 0; i < model->names; i++)
        model->name_place[place_of(model, model->name[i])] = i + 1;
    return QS_OK;
}

static qs_status name_add(qs__model *model, const char *name) {
    QS_TRY(places_grow(model));
    QS_TRY(qs_grow(&model->name, &model->name_capacity, model->names + 1, sizeof *model->name));
    QS_TRY(qs_format_text(&model->name[model->names], "%s", name));
    model->name_place[place_of(model, name)] = ++model->names;
    return QS_OK;
}

static const char *name_find(const qs__model *model, const char *name) {
    const size_t at = model->name_places ? model->name_place[place_of(model, name)] : 0;
    return at ? model->name[at - 1] : NULL;
}

size_t qs__name_index(const qs__model *model, const char *name) {
    return model->name_place[place_of(model, name)] - 1;
}

const char *qs__name_of(qs__model *model, const char *name) {
    const char *found = name_find(model, name);
    if (found) return found;
    if (failed(model, name_add(model, name))) return "";
    return model->name[model->names - 1];
}

const char *qs__name_unused(qs__model *model, const char *start) {
    char *other = NULL;
    if (!name_find(model, start)) return qs__name_of(model, start);
    for (int i = 2;; i++) {
        if (failed(model, qs_format_text(&other, "%s_%d", start, i))) return "";
        if (!name_find(model, other)) break;
        free(other);
    }
    const char *name = qs__name_of(model, other);
    free(other);
    return name;
}

/* ---- Attributes ------------------------------------------------------------------------------------------------------------------- */

static qs_protobuf attribute_of(const char *name, int type) {
    qs_protobuf one = {0};
    qs_protobuf_text(&one, QS_FIELD_ATTRIBUTE_NAME, name);
    qs_protobuf_integer(&one, QS_FIELD_ATTRIBUTE_TYPE, type);
    return one;
}

void qs__attribute_integer(qs_protobuf *attributes, const char *name, int64_t value) {
    qs_protobuf one = attribute_of(name, QS_ONNX_ATTRIBUTE_INT);
    qs_protobuf_integer(&one, QS_FIELD_ATTRIBUTE_I, value);
    qs_protobuf_nest(attributes, QS_FIELD_NODE_ATTRIBUTE, &one);
}

void qs__attribute_integers(qs_protobuf *attributes, const char *name, int count, const int64_t *value) {
    qs_protobuf one = attribute_of(name, QS_ONNX_ATTRIBUTE_INTS);
    for (int i = 0; i < count; i++) /* onnx.proto is of the second version of the language: lists are not packed */
        qs_protobuf_integer(&one, QS_FIELD_ATTRIBUTE_INTS, value[i]);
    qs_protobuf_nest(attributes, QS_FIELD_NODE_ATTRIBUTE, &one);
}

void qs__attribute_float(qs_protobuf *attributes, const char *name, double value) {
    qs_protobuf one = attribute_of(name, QS_ONNX_ATTRIBUTE_FLOAT);
    qs_protobuf_float(&one, QS_FIELD_ATTRIBUTE_F, (float)value);
    qs_protobuf_nest(attributes, QS_FIELD_NODE_ATTRIBUTE, &one);
}

void qs__attribute_text(qs_protobuf *attributes, const char *name, const char *value) {
    qs_protobuf one = attribute_of(name, QS_ONNX_ATTRIBUTE_STRING);
    qs_protobuf_text(&one, QS_FIELD_ATTRIBUTE_S, value);
    qs_protobuf_nest(attributes, QS_FIELD_NODE_ATTRIBUTE, &one);
}

void qs__attribute_texts(qs_protobuf *attributes, const char *name, int count, const char *const *value) {
    qs_protobuf one = attribute_of(name, QS_ONNX_ATTRIBUTE_STRINGS);
    for (int i = 0; i < count; i++)
        qs_protobuf_text(&one, QS_FIELD_ATTRIBUTE_STRINGS, value[i]);
    qs_protobuf_nest(attributes, QS_FIELD_NODE_ATTRIBUTE, &one);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------------------------ */

static bool same_node(const qs__node *a, const qs__node *b) {
    if (a->hash != b->hash || strcmp(a->op, b->op) != 0 || a->inputs != b->inputs || a->outputs != b->outputs) return false;
    for (int i = 0; i < a->inputs; i++)
        if (a->input[i] != b->input[i]) return false;
    return a->attributes.count == b->attributes.count &&
           (a->attributes.count == 0 || memcmp(a->attributes.data, b->attributes.data, a->attributes.count) == 0);
}

static qs_status node_fill(qs__model *model, qs__node *one, int inputs, const char *const *input) {
    while (inputs > 0 && !input[inputs - 1])
        inputs--;
    QS_TRY(one->attributes.status);
    QS_TRY(qs_allocate((size_t)inputs, sizeof *one->input, &one->input));
    one->inputs = inputs;
    one->hash = qs_hash(one->op, strlen(one->op), 1);
    if (one->attributes.count > 0) one->hash = qs_hash(one->attributes.data, one->attributes.count, one->hash);
    for (int i = 0; i < inputs; i++) {
        one->input[i] = qs__name_of(model, input[i] ? input[i] : "");
        one->hash = qs_hash(&one->input[i], sizeof *one->input, one->hash);
    }
    return model->status;
}

const char *const *qs__model_node(qs__model *model, const char *where, const char *op, qs_protobuf *attributes, int inputs,
                                  const char *const *input, int outputs, bool unique) {
    static const char *const nothing[QS__MOST_OUTPUTS] = {"", "", "", ""};
    qs__node one = {.op = op, .outputs = outputs};
    char *start = NULL;
    if (attributes) one.attributes = *attributes;
    if (failed(model, node_fill(model, &one, inputs, input))) goto dropped;
    for (size_t i = 0; !unique && i < model->nodes; i++) {
        if (!same_node(&model->node[i], &one)) continue;
        free(one.input);
        qs_protobuf_release(&one.attributes);
        return model->node[i].output;
    }
    if (unique) one.hash = 0;
    if (failed(model, qs_format_text(&start, "%s/%s", where, op))) goto dropped;
    for (int i = 0; i < outputs; i++)
        one.output[i] = qs__name_unused(model, start);
    free(start);
    if (failed(model, qs_grow(&model->node, &model->node_capacity, model->nodes + 1, sizeof *model->node))) goto dropped;
    model->node[model->nodes] = one;
    return model->node[model->nodes++].output;
dropped:
    free(one.input);
    qs_protobuf_release(&one.attributes);
    return nothing;
}

/* ---- Initializers ------------------------------------------------------------------------------------------------------------------ */

static const char *constant_add(qs__model *model, qs__constant one) {
    if (failed(model, qs_grow(&model->constant, &model->constant_capacity, model->constants + 1, sizeof *model->constant))) {
        free(one.owned);
        return "";
    }
    model->constant[model->constants++] = one;
    return one.name;
}

static qs__constant constant_of(qs_onnx_type type, int axes, const int64_t *dim, size_t bytes, const void *data) {
    qs__constant one = {.type = type, .axes = axes, .bytes = bytes, .data = data};
    for (int i = 0; i < axes; i++)
        one.dim[i] = dim[i];
    return one;
}

const qs__constant *qs__model_constant_find(const qs__model *model, const char *name) {
    for (size_t i = 0; i < model->constants; i++)
        if (strcmp(model->constant[i].name, name) == 0) return &model->constant[i];
    return NULL;
}

const char *qs__model_weights(qs__model *model, const char *name, qs_onnx_type type, int axes, const int64_t *dim, size_t bytes,
                              const void *data, bool owned) {
    qs__constant one = constant_of(type, axes, dim, bytes, data);
    union {
        const void *data;
        void *owned;
    } pass = {.data = data};
    one.owned = owned ? pass.owned : NULL;
    one.name = qs__name_of(model, name);
    return constant_add(model, one);
}

const char *qs__model_constant(qs__model *model, const char *start, qs_onnx_type type, int axes, const int64_t *dim, size_t bytes,
                               const void *data) {
    qs__constant one = constant_of(type, axes, dim, bytes, data);
    one.hash = qs_hash(data, bytes, qs_hash(one.dim, sizeof one.dim, (uint64_t)(axes * 64 + (int)type))) | 1;
    for (size_t i = 0; i < model->constants; i++) {
        const qs__constant *other = &model->constant[i];
        if (other->hash == one.hash && other->type == type && other->axes == axes && other->bytes == bytes &&
            memcmp(other->dim, one.dim, sizeof one.dim) == 0 && (bytes == 0 || memcmp(other->data, data, bytes) == 0))
            return other->name;
    }
    if (failed(model, qs_allocate(bytes, 1, &one.owned))) return "";
    if (bytes > 0) memcpy(one.owned, data, bytes);
    one.data = one.owned;
    one.name = qs__name_unused(model, start);
    return constant_add(model, one);
}

/* ---- Inputs and outputs ------------------------------------------------------------------------------------------------------------ */

void qs__model_input(qs__model *model, const char *name, qs_onnx_type type, int axes, const int64_t *dim) {
    qs_onnx_value_write(&model->inputs, QS_FIELD_GRAPH_INPUT, qs__name_of(model, name), type, axes, dim);
}

/* The value's writer and its readers take the new name. */
void qs__model_output(qs__model *model, const char *name, const char *as, int axes, const int64_t *dim) {
    const char *old = qs__name_of(model, name), *called = qs__name_unused(model, as);
    bool written = false;
    for (size_t n = 0; n < model->nodes; n++) {
        for (int i = 0; i < model->node[n].inputs; i++)
            if (model->node[n].input[i] == old) model->node[n].input[i] = called;
        for (int i = 0; i < model->node[n].outputs; i++) {
            if (model->node[n].output[i] != old) continue;
            model->node[n].output[i] = called;
            written = true;
        }
    }
    if (!written) { /* an input is the output */
        qs__model_node(model, "output", "Identity", NULL, 1, &old, 1, true);
        if (model->status == QS_OK) model->node[model->nodes - 1].output[0] = called;
    }
    model->result = called;
    qs_onnx_value_write(&model->outputs, QS_FIELD_GRAPH_OUTPUT, called, QS_ONNX_FLOAT, axes, dim);
}
