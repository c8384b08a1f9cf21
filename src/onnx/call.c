// SPDX-License-Identifier: Apache-2.0
/* Functions of a file and calls of them: what a name or an attribute of a function's text stands for where it is called. */
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

qs_status qs__opset_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_opset *out) {
    *out = (qs_onnx_opset){.domain = ""};
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_OPSET_DOMAIN) QS_TRY(qs__field_name(&field, "an opset's domain", memory, &out->domain));
        if (field.number == QS_FIELD_OPSET_VERSION) QS_TRY(qs__field_int(&field, "an opset's version", &out->version));
    }
    if (strcmp(out->domain, "ai.onnx") == 0) out->domain = "";
    if (out->version < 1 || out->version > INT32_MAX)
        return qs_fail(QS_BAD_FILE, "opset %lld of domain \"%.64s\": versions begin at 1", (long long)out->version, out->domain);
    return QS_OK;
}

qs_status qs__function_read(const qs__place *place, qs_wire from, qs__function *out) {
    qs_onnx_memory *memory = place->memory;
    *out = (qs__function){.domain = "", .name = "", .overload = "", .wire = from};
    size_t counts[QS_FIELD_FUNCTION_END];
    const char **input, **output;
    qs_onnx_attribute *standard;
    qs_onnx_opset *opset;
    QS_TRY(qs__wire_count(from, counts, QS_FIELD_FUNCTION_END));
    if (counts[QS_FIELD_FUNCTION_INPUT] > QS__MOST_FORMAL || counts[QS_FIELD_FUNCTION_OUTPUT] > QS__MOST_FORMAL ||
        counts[QS_FIELD_FUNCTION_OPSET] > QS__MOST_OPSETS)
        return qs_fail(QS_UNSUPPORTED, "a function of %zu inputs, %zu outputs and %zu opsets: at most %d of each",
                       counts[QS_FIELD_FUNCTION_INPUT], counts[QS_FIELD_FUNCTION_OUTPUT], counts[QS_FIELD_FUNCTION_OPSET], QS__MOST_FORMAL);
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_FUNCTION_INPUT], sizeof *input, &input));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_FUNCTION_OUTPUT], sizeof *output, &output));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_FUNCTION_DEFAULT], sizeof *standard, &standard));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_FUNCTION_OPSET], sizeof *opset, &opset));
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_FUNCTION_NAME) QS_TRY(qs__field_name(&field, "a function's name", memory, &out->name));
        if (field.number == QS_FIELD_FUNCTION_DOMAIN) QS_TRY(qs__field_name(&field, "a function's domain", memory, &out->domain));
        if (field.number == QS_FIELD_FUNCTION_OVERLOAD) QS_TRY(qs__field_name(&field, "a function's overload", memory, &out->overload));
        if (field.number == QS_FIELD_FUNCTION_INPUT) QS_TRY(qs__field_name(&field, "a function's input", memory, &input[out->inputs++]));
        if (field.number == QS_FIELD_FUNCTION_OUTPUT)
            QS_TRY(qs__field_name(&field, "a function's output", memory, &output[out->outputs++]));
        if (field.number != QS_FIELD_FUNCTION_DEFAULT && field.number != QS_FIELD_FUNCTION_OPSET) continue;
        QS_TRY(qs__field_message(&field, "a part of a function", &message));
        if (field.number == QS_FIELD_FUNCTION_DEFAULT)
            QS_TRY(qs__attribute_read(place, message, &standard[out->defaults++]));
        else
            QS_TRY(qs__opset_read(memory, message, &opset[out->opsets++]));
    }
    if (strcmp(out->domain, "ai.onnx") == 0) out->domain = "";
    out->input = input;
    out->output = output;
    out->standard = standard;
    out->opset = opset;
    return QS_OK;
}

qs_status qs__call_rename(qs__call *call, const char *name, const char *actual) {
    QS_TRY(qs_grow(&call->actual, &call->capacity, call->count + 1, sizeof *call->actual));
    call->actual[call->count] = actual;
    return qs__names_set(&call->renamed, name, (int64_t)call->count++);
}

qs_status qs__call_name(qs_onnx_memory *memory, qs__call *call, const char *name, const char **out) {
    int64_t known;
    if (!call || *name == '\0') {
        *out = name;
        return QS_OK;
    }
    if (qs__names_get(&call->renamed, name, &known)) {
        *out = call->actual[known];
        return QS_OK;
    }
    QS_TRY(qs__onnx_print(memory, out, "%s%s", call->prefix, name));
    return qs__call_rename(call, name, *out);
}

static const qs_onnx_attribute *find(int count, const qs_onnx_attribute *list, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

qs_status qs__call_attribute(const qs__call *call, qs_onnx_attribute *out, bool *absent) {
    *absent = false;
    if (*out->reference == '\0') return QS_OK;
    if (!call) return qs_fail(QS_BAD_FILE, "attribute \"%.64s\" refers to \"%.64s\", but stands in no function", out->name, out->reference);
    const qs_onnx_attribute *given = find(call->attributes, call->attribute, out->reference);
    if (!given) given = find(call->function->defaults, call->function->standard, out->reference);
    *absent = !given;
    if (!given) return QS_OK;
    if (given->type == QS_ONNX_ATTRIBUTE_GRAPH || given->type == QS_ONNX_ATTRIBUTE_GRAPHS)
        return qs_fail(QS_UNSUPPORTED, "attribute \"%.64s\" refers to a graph of the caller: only values are handed over", out->name);
    if (out->type != 0 && out->type != given->type)
        return qs_fail(QS_BAD_FILE, "attribute \"%.64s\" of type %d refers to \"%.64s\" of type %d", out->name, (int)out->type,
                       out->reference, (int)given->type);
    const char *name = out->name;
    *out = *given;
    out->name = name;
    return QS_OK;
}

void qs__call_release(qs__call *list) {
    for (qs__call *call = list, *next; call; call = next) {
        next = call->list;
        qs__names_release(&call->renamed);
        free(call->actual);
        free(call);
    }
}
