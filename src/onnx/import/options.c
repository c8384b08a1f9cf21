// SPDX-License-Identifier: Apache-2.0
/* Texts of models that are ONNX files: which they are, and the options behind the path. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

static const char ending[] = ".onnx";

bool qs_onnx_is_path(const char *text, size_t *length) {
    const size_t all = strlen(text), end = sizeof ending - 1;
    const char *at = strstr(text, ".onnx:");
    *length = at ? (size_t)(at - text) + end : all;
    return at || (all >= end && strcmp(text + all - end, ending) == 0);
}

qs_status qs__options_read(const char *text, qs__options *out) {
    size_t path;
    *out = (qs__options){.length = 0};
    if (!qs_onnx_is_path(text, &path)) return qs_fail(QS_USAGE, "%s: the path of an ONNX file ends in .onnx", text);
    QS_TRY(qs_format_text(&out->text, "%s", text));
    out->path = out->text;
    char *at = out->text + path;
    while (*at) {
        *at++ = '\0';
        char *end = at + strcspn(at, ","), *stop;
        const bool more = *end == ',';
        *end = '\0';
        char *value = strrchr(at, '=');
        if (!value || value == at || !value[1]) return qs_fail(QS_USAGE, "%s: \"%s\" is no option NAME=VALUE", out->path, at);
        *value++ = '\0';
        if (strcmp(at, "output") == 0)
            out->output = value;
        else {
            const long long number = strtoll(value, &stop, 10);
            if (*stop || number < 1 || number > INT32_MAX)
                return qs_fail(QS_USAGE, "%s: %s=%s: a whole number from 1 on", out->path, at, value);
            if (strcmp(at, "length") == 0)
                out->length = number;
            else if (out->bindings == QS__MOST_BINDINGS)
                return qs_fail(QS_USAGE, "%s: more than %d extents", out->path, QS__MOST_BINDINGS);
            else
                out->binding[out->bindings++] = (qs_onnx_binding){at, number};
        }
        at = more ? end : end + strlen(end);
        if (more) *end = ':';
    }
    return QS_OK;
}

static bool is_bound(const qs__options *with, const char *name) {
    for (size_t i = 0; i < with->bindings; i++)
        if (strcmp(with->binding[i].name, name) == 0) return true;
    return false;
}

/* The first axis of integers, and of sequences of features, that the file leaves open is the length: one number is taken for it. */
qs_status qs__length_bind(const qs_onnx_model *model, qs__options *with) {
    const qs_onnx_graph *graph = &model->graph;
    if (with->length == 0) {
        with->length = 128;
        for (int n = 0; n < graph->nodes; n++) { /* tables that ids of inputs do not read hold positions */
            const qs_onnx_node *node = &graph->node[n];
            if (strcmp(node->op, "Gather") != 0 || node->inputs < 2 || node->input[0] < 0 || node->input[1] < 0) continue;
            const qs_onnx_value *table = &graph->value[node->input[0]], *ids = &graph->value[node->input[1]];
            if (table->constant && table->constant->rank == 2 && table->is_parameter && !ids->is_input && table->constant->dim[0] > 3 &&
                table->constant->dim[0] < with->length)
                with->length = table->constant->dim[0];
        }
    }
    for (int i = 0; i < graph->inputs; i++) {
        const qs_onnx_value *input = &graph->value[graph->input[i]];
        for (int a = 1; a < input->declared_rank && a < 2 && input->declared_rank <= 3; a++) {
            const qs_onnx_dimension *dimension = &input->declared[a];
            char name[64];
            if (dimension->value >= 0 || with->bindings == QS__MOST_BINDINGS) continue;
            if (*dimension->symbol)
                snprintf(name, sizeof name, "%.63s", dimension->symbol);
            else
                snprintf(name, sizeof name, "%.50s:%d", input->name, a);
            if (is_bound(with, name)) continue;
            memcpy(with->name[with->bindings], name, sizeof name);
            with->binding[with->bindings] = (qs_onnx_binding){with->name[with->bindings], with->length};
            with->bindings++;
            with->open = true;
        }
    }
    return QS_OK;
}

void qs__model_name(const char *path, char name[QS_MODEL_NAME]) {
    const char *last = strrchr(path, '/');
    snprintf(name, QS_MODEL_NAME, "%.100s", last ? last + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot > name) *dot = '\0';
}
