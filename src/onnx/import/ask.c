// SPDX-License-Identifier: Apache-2.0
/* What functions of the import ask of a node and its values, and how they say that something cannot be. */
#include "family.h"

#include <stdlib.h>
#include <string.h>

qs__value *qs__read_by(qs__import *one, const qs__node *node, int index) {
    return index < node->inputs && node->input[index] >= 0 ? &one->value[node->input[index]] : NULL;
}

qs__value *qs__made_by(qs__import *one, const qs__node *node, int index) {
    return index < node->outputs && node->output[index] >= 0 ? &one->value[node->output[index]] : NULL;
}

bool qs__is_standard(const qs__node *node) {
    return node->fused || *node->from->domain == '\0';
}

void qs__stick(qs__import *one, qs_status status) {
    if (one->status == QS_OK) one->status = status;
}

int64_t qs__int(qs__import *one, const qs__node *node, const char *name, int64_t otherwise) {
    int64_t out = otherwise;
    qs__stick(one, qs_onnx_attribute_int(node->from, name, otherwise, &out));
    return out;
}

double qs__float(qs__import *one, const qs__node *node, const char *name, double otherwise) {
    float out = (float)otherwise;
    if (!qs_onnx_attribute_find(node->from, name)) return otherwise;
    qs__stick(one, qs_onnx_attribute_float(node->from, name, out, &out));
    return (double)out;
}

const char *qs__word(qs__import *one, const qs__node *node, const char *name, const char *otherwise) {
    const char *out = otherwise;
    qs__stick(one, qs_onnx_attribute_string(node->from, name, otherwise, &out));
    return out;
}

int qs__int_list(qs__import *one, const qs__node *node, const char *name, int input, int64_t out[QS__MOST_RANK]) {
    const int64_t *list = NULL;
    size_t count = 0;
    const qs__value *value = input >= 0 ? qs__read_by(one, node, input) : NULL;
    if (value) {
        if (value->kind != QS__NUMBERS || value->tensor->count > QS__MOST_RANK) {
            qs__refuse_node(one, "%s is not known from the file", name);
            return 0;
        }
        qs__stick(one, qs_onnx_tensor_integers(value->tensor, 0, value->tensor->count, out));
        return (int)value->tensor->count;
    }
    if (!qs_onnx_attribute_find(node->from, name)) return 0;
    qs__stick(one, qs_onnx_attribute_ints(node->from, name, &list, &count));
    if (count > QS__MOST_RANK) {
        qs__refuse_node(one, "%s has %zu numbers", name, count);
        return 0;
    }
    if (count > 0) memcpy(out, list, count * sizeof *out);
    return (int)count;
}

int qs__axis_at(qs__import *one, int64_t axis, int rank) {
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) return (int)at;
    qs__refuse_node(one, "axis %lld of %d axes", (long long)axis, rank);
    return 0;
}

bool qs__one_number(qs__import *one, const qs__value *value, double *out) {
    if (!value || value->kind != QS__NUMBERS || value->tensor->count != 1) return false;
    qs__stick(one, qs_onnx_tensor_doubles(value->tensor, 0, 1, out));
    return one->status == QS_OK;
}

double *qs__all_numbers(qs__import *one, const qs__value *value) {
    double *out = NULL;
    if (one->status == QS_OK) qs__stick(one, qs_allocate((size_t)value->tensor->count, sizeof *out, &out));
    if (one->status == QS_OK) qs__stick(one, qs_onnx_tensor_doubles(value->tensor, 0, value->tensor->count, out));
    return out;
}

int qs__word_find(const char *word, const char *const *list) {
    for (int i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0) return i;
    return -1;
}

int64_t qs__extent(const qs__value *value, int axis) {
    return qs__axis_extent(&value->layout, axis);
}

int qs__rank(const qs__value *value) {
    return value->layout.axes;
}

int qs__extents_of(qs__import *one, int value, int64_t extent[QS__MOST_RANK]) {
    const qs_onnx_value *is = value >= 0 ? &one->model->graph.value[value] : NULL;
    if (!is || is->rank < 0) return -1;
    for (int a = 0; a < is->rank; a++)
        extent[a] = qs_onnx_extent_at(&is->extent[a], 1, one->length);
    return is->rank;
}

int qs__batch_axis(qs__import *one, int value) {
    const qs_onnx_value *is = value >= 0 ? &one->model->graph.value[value] : NULL;
    for (int a = 0; is && a < is->rank; a++)
        if (qs_onnx_extent_at(&is->extent[a], 2, one->length) != qs_onnx_extent_at(&is->extent[a], 1, one->length)) return a;
    return -1;
}

bool qs__is_learned(const qs__import *one, const qs__value *value) {
    return value == &one->value[one->learned];
}

bool qs__flow_in(qs__import *one, const qs__node *node, int index, qs__value *out) {
    const qs__value *value = qs__read_by(one, node, index);
    if (value && value->kind == QS__FLOW) {
        *out = *value;
        return one->status == QS_OK;
    }
    if (!value || value->kind != QS__UNKNOWN)
        qs__refuse_node(one, "its input %d is %s, no value of the samples", index,
                        !value                        ? "missing"
                        : value->kind == QS__NUMBERS  ? "numbers of the file"
                        : value->kind == QS__INTEGERS ? "integers"
                                                      : "a mask");
    return false;
}

void qs__pass_on(qs__import *one, const qs__node *node, const qs__value *value) {
    qs__value *out = qs__made_by(one, node, 0);
    if (!out) return;
    const qs__value names = *out;
    *out = *value;
    out->name = names.name;
    out->producer = names.producer;
    out->readers = names.readers;
    out->reader = names.reader;
    out->is_output = names.is_output;
}

/* ---- Saying --------------------------------------------------------------------------------------------------------------- */

void qs__refuse_node(qs__import *one, const char *format, ...) {
    qs__problem problem = {.nodes = 1};
    va_list arguments;
    if (one->status != QS_OK) return;
    snprintf(problem.op, sizeof problem.op, "%s", one->at ? one->at->op : "the model");
    va_start(arguments, format);
    vsnprintf(problem.why, sizeof problem.why, format, arguments);
    va_end(arguments);
    for (int i = 0; i < one->problems; i++) {
        qs__problem *had = &one->problem[i];
        if (strcmp(had->op, problem.op) != 0 || strcmp(had->why, problem.why) != 0) continue;
        had->nodes++;
        return;
    }
    if (one->problems == 64) return; /* as many as anybody reads */
    qs__stick(one, qs_grow(&one->problem, &one->problem_capacity, (size_t)one->problems + 1, sizeof problem));
    if (one->status == QS_OK) one->problem[one->problems++] = problem;
}

void qs__note(qs__import *one, const char *format, ...) {
    char text[512];
    va_list arguments;
    if (one->status != QS_OK) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int64_t said;
    if (qs__names_get(&one->notes, text, &said)) return;
    qs__stick(one, qs_grow(&one->out->note, &one->note_capacity, (size_t)one->out->notes + 1, sizeof *one->out->note));
    if (one->status == QS_OK) qs__stick(one, qs_format_text(&one->out->note[one->out->notes], "%s", text));
    if (one->status == QS_OK) qs__stick(one, qs__names_set(&one->notes, one->out->note[one->out->notes], one->out->notes));
    if (one->status == QS_OK) one->out->notes++;
}

bool qs__name_take(qs__import *one, qs__names *taken, const char *name, int64_t *again) {
    const char *kept = name;
    const bool free = !qs__names_get(taken, name, again);
    if (free) {
        *again = 1;
        qs__stick(one, qs__onnx_copy_text(one->memory, name, strlen(name), &kept));
    }
    if (one->status == QS_OK) qs__stick(one, qs__names_set(taken, kept, *again + 1));
    return free || one->status != QS_OK;
}
