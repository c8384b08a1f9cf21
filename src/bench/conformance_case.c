// SPDX-License-Identifier: Apache-2.0
/* Reading a case of ONNX, what is outside of what is run, and comparing results. */
#include "conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void outside_set(onnx_case *one, const char *format, ...) QS_PRINTF(2, 3);
static void outside_set(onnx_case *one, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(one->outside, sizeof one->outside, format, list);
    va_end(list);
}

/* Values that are no tensors of numbers, by the types that the model declares: of the fields on the way from ModelProto over GraphProto and
 * ValueInfoProto to TypeProto and the element type of its tensor. */
enum { IN_MODEL, IN_GRAPH, IN_VALUE, IN_TYPE, IN_TENSOR };
static void types_check(onnx_case *one, qs_wire fields, int level) {
    enum { GRAPH = 7, INPUT = 11, OUTPUT = 12, TYPE = 2, TENSOR = 1, SEQUENCE = 4, OPTIONAL = 9, ELEMENT = 1 };
    qs_wire_field field;
    bool more = true;
    while (qs_wire_next(&fields, &field, &more) == QS_OK && more) {
        const uint32_t number = field.number;
        if ((level == IN_MODEL && number == GRAPH) || (level == IN_GRAPH && (number == INPUT || number == OUTPUT)) ||
            (level == IN_VALUE && number == TYPE) || (level == IN_TYPE && number == TENSOR))
            types_check(one, field.bytes, level + 1);
        else if (level == IN_TYPE && number == SEQUENCE)
            outside_set(one, "sequences of tensors");
        else if (level == IN_TYPE && number == OPTIONAL)
            outside_set(one, "optional values");
        else if (level == IN_TENSOR && number == ELEMENT && field.value == QS_ONNX_STRING)
            outside_set(one, "strings");
        else if (level == IN_TENSOR && number == ELEMENT && (field.value == QS_ONNX_COMPLEX64 || field.value == QS_ONNX_COMPLEX128))
            outside_set(one, "complex numbers");
    }
}

/* Results that another generator of random numbers decides. */
static bool draws(const onnx_case *one, const qs_onnx_node *node) {
    static const char *const random[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                         "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        if (strcmp(node->op, random[i]) == 0) return true;
    int64_t training = 0;
    float ratio = 0.5f;
    if (strcmp(node->op, "Dropout") != 0 || one->inputs < 3) return false;
    return qs_onnx_tensor_integers(&one->input[2], 0, 1, &training) == QS_OK && training &&
           (qs_onnx_tensor_floats(&one->input[1], 0, 1, &ratio) != QS_OK || ratio > 0);
}

static void nodes_check(onnx_case *one) {
    for (int n = 0; n < one->model.graph.nodes; n++) {
        const qs_onnx_node *node = &one->model.graph.node[n];
        if (strcmp(node->domain, "") != 0 && strcmp(node->domain, "ai.onnx.preview.training") != 0)
            outside_set(one, "operators of %s", node->domain);
        for (int a = 0; a < node->attributes; a++)
            if (node->attribute[a].type == QS_ONNX_ATTRIBUTE_GRAPH) outside_set(one, "control flow (%s)", node->op);
        if (strstr(node->op, "Sequence")) outside_set(one, "sequences of tensors");
        if (draws(one, node)) outside_set(one, "random numbers of another generator (%s)", node->op);
    }
}

/* What it is a case of: its only node; of a function's body, which has the function's name before those of its values, the function; else
 * the first operator that is not there to bring values into form. */
static void operator_find(onnx_case *one) {
    static const char *const forms[] = {"Constant", "Unsqueeze", "Squeeze", "Transpose", "Slice"};
    const qs_onnx_graph *graph = &one->model.graph;
    const char *op = graph->nodes > 0 ? graph->node[0].op : "";
    for (int n = graph->nodes - 1; n >= 0; n--) {
        bool form = false;
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
            form = form || strcmp(graph->node[n].op, forms[i]) == 0;
        if (!form) op = graph->node[n].op;
    }
    snprintf(one->op, sizeof one->op, "%s", graph->nodes == 1 ? graph->node[0].op : op);
    for (int v = 0; v < graph->values && graph->nodes > 1; v++) {
        const char *name = graph->value[v].name, *end = strstr(name, "_test_");
        if (end && strstr(name, "_function_")) snprintf(one->op, sizeof one->op, "%.*s", (int)(end - name), name);
    }
}

static qs_status tensors_read(onnx_case *one, const char *kind, int count, qs_onnx_tensor *out) {
    char path[640];
    if (count > CASE_MOST) return qs_fail(QS_UNSUPPORTED, "%d %ss: at most %d", count, kind, CASE_MOST);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", one->folder, kind, i);
        QS_TRY(qs_onnx_tensor_read(path, one->memory, &out[i]));
    }
    return QS_OK;
}

qs_wire case_wire(const onnx_case *one) {
    const uint8_t *start = (const uint8_t *)one->bytes;
    return (qs_wire){.file = one->name, .start = start, .at = start, .end = start + one->count};
}

qs_status case_open(const char *root, const char *suite, const char *name, onnx_case *out) {
    char path[640];
    *out = (onnx_case){.count = 0};
    snprintf(out->name, sizeof out->name, "%s", strncmp(name, "test_", 5) == 0 ? name + 5 : name);
    snprintf(out->suite, sizeof out->suite, "%s", suite);
    if ((size_t)snprintf(out->folder, sizeof out->folder, "%s/%s/%s", root, suite, name) >= sizeof out->folder)
        return qs_fail(QS_USAGE, "%s: a shorter path", root);
    snprintf(path, sizeof path, "%s/model.onnx", out->folder);
    QS_TRY(qs_file_read(path, (size_t)1 << 30, &out->bytes, &out->count));
    QS_TRY(qs_onnx_memory_make(&out->memory));
    types_check(out, case_wire(out), IN_MODEL);
    qs_status status = qs_onnx_open_bytes(out->name, out->bytes, out->count, &out->model);
    if (status == QS_OK) operator_find(out);
    if (status == QS_OK) nodes_check(out);
    if (status == QS_UNSUPPORTED && !out->outside[0]) outside_set(out, "%.190s", qs_message());
    if (out->outside[0]) return QS_OK;
    QS_TRY(status);
    out->inputs = out->model.graph.inputs;
    out->outputs = out->model.graph.outputs;
    status = tensors_read(out, "input", out->inputs, out->input);
    if (status == QS_OK) status = tensors_read(out, "output", out->outputs, out->output);
    if (status == QS_OK) nodes_check(out);
    return status;
}

void case_close(onnx_case *one) {
    qs_onnx_release(&one->model);
    qs_onnx_memory_release(one->memory);
    free(one->bytes);
    *one = (onnx_case){.count = 0};
}

/* ---- Comparing ---------------------------------------------------------------------------------------------------------------- */

static bool close_to(double result, double expected) {
    if (isnan(expected) || isnan(result)) return isnan(expected) && isnan(result);
    if (isinf(expected) || isinf(result)) return result == expected;
    return fabs(result - expected) <= 1e-7 + 1e-3 * fabs(expected);
}

qs_status case_compare(const onnx_case *one, int output, const qs_onnx_tensor *found) {
    enum { PIECE = 512 };
    char says[QS_ONNX_SHAPE_TEXT], expects[QS_ONNX_SHAPE_TEXT];
    const qs_onnx_tensor *expected = &one->output[output];
    qs_onnx_tensor view = *found, *const result = &view;
    if (expected->type == QS_ONNX_UINT16 && view.type == QS_ONNX_BFLOAT16) view.type = QS_ONNX_UINT16; /* the bits, in files of 1.17 */
    bool alike = result->type == expected->type && result->rank == expected->rank;
    for (int i = 0; i < expected->rank && alike; i++)
        alike = result->dim[i] == expected->dim[i];
    if (!alike)
        return qs_fail(QS_MISMATCH, "output %d is %s, not %s", output, qs_onnx_tensor_text(result, says),
                       qs_onnx_tensor_text(expected, expects));
    for (int64_t first = 0; first < expected->count; first += PIECE) {
        double left[PIECE], right[PIECE];
        const int64_t count = expected->count - first < PIECE ? expected->count - first : PIECE;
        QS_TRY(qs_onnx_tensor_doubles(result, first, count, left));
        QS_TRY(qs_onnx_tensor_doubles(expected, first, count, right));
        for (int64_t i = 0; i < count; i++)
            if (!close_to(left[i], right[i]))
                return qs_fail(QS_MISMATCH, "output %d, value %lld is %.9g, not %.9g", output, (long long)(first + i), left[i], right[i]);
    }
    return QS_OK;
}

/* ---- Folding ------------------------------------------------------------------------------------------------------------------ */

void way_end(way *out, way_result result, const onnx_case *one) {
    const char *text = qs_message();
    const size_t name = strlen(one->name);
    out->result = result;
    if (result == WAY_PASSED) return;
    const char *file = strstr(text, ".onnx: ");
    if (file) text = file + strlen(".onnx: ");
    if (strncmp(text, one->name, name) == 0 && strncmp(text + name, ": ", 2) == 0) text += name + 2;
    snprintf(out->why, sizeof out->why, "%.239s", text);
}

void case_fold(const onnx_case *one, way *out) {
    const qs_onnx_tensor *input[CASE_MOST];
    qs_onnx_tensor output[CASE_MOST];
    qs_onnx_memory *memory = NULL;
    bool ran = false;
    *out = (way){.result = WAY_REFUSED};
    for (int i = 0; i < one->inputs; i++)
        input[i] = &one->input[i];
    qs_status status = qs_onnx_memory_make(&memory);
    if (status == QS_OK) status = qs_onnx_run(&one->model, input, memory, output);
    ran = status == QS_OK;
    for (int i = 0; i < one->outputs && status == QS_OK; i++)
        status = case_compare(one, i, &output[i]);
    way_end(out, status == QS_OK ? WAY_PASSED : ran ? WAY_FAILED : WAY_REFUSED, one);
    qs_onnx_memory_release(memory);
}
