// SPDX-License-Identifier: Apache-2.0
/* Extents of a model's inputs. Axis 0 is the batch N, whatever the file calls it; one other extent may stay open, the length L of
 * sequences; those that the caller binds are what the caller says. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fold/fold.h"

/* "input:2". */
enum { AXIS_NAME = QS_ONNX_MAX_NAME + 16 };

static const char *axis_name(const qs_onnx_value *input, int axis, char text[AXIS_NAME]) {
    snprintf(text, AXIS_NAME, "%s:%d", input->name, axis);
    return text;
}

static const qs_onnx_binding *binding_of(const qs_onnx_fold_options *options, const qs_onnx_value *input, int axis) {
    char name[AXIS_NAME];
    axis_name(input, axis, name);
    for (size_t i = 0; i < options->bindings; i++) {
        const qs_onnx_binding *binding = &options->binding[i];
        const char *symbol = input->declared[axis].symbol;
        if (strcmp(binding->name, name) == 0 || (*symbol && strcmp(binding->name, symbol) == 0)) return binding;
    }
    return NULL;
}

/* What the file has in place of N: the extent of axis 0 where all inputs with axes fix the same one. */
static int64_t fixed_batch(const qs__folding *folding, const qs_onnx_graph *graph) {
    int64_t batch = 0;
    if (folding->options->fixed_batch) return 0;
    for (int i = 0; i < graph->inputs; i++) {
        const qs_onnx_value *input = &folding->value[graph->input[i]];
        if (input->declared_rank < 1) continue;
        const int64_t extent = input->declared[0].value;
        if (extent < 1 || (batch != 0 && extent != batch)) return 0;
        batch = extent;
    }
    return batch;
}

/* The symbol of the batch: that of axis 0 of the first input that has axes; "" where it has none. */
static const char *batch_symbol(const qs__folding *folding, const qs_onnx_graph *graph) {
    for (int i = 0; i < graph->inputs; i++) {
        const qs_onnx_value *input = &folding->value[graph->input[i]];
        if (input->declared_rank > 0) return input->declared[0].value < 0 ? input->declared[0].symbol : "";
    }
    return "";
}

/* Extents that are neither bound nor fixed nor the batch: their names, for the one that may be and for the message. */
typedef struct open_extents {
    char first[AXIS_NAME], all[512];
    int count;
} open_extents;

static void open_add(open_extents *open, const char *name) {
    if (open->count > 0 && strcmp(open->first, name) == 0) return;
    if (open->count == 0) snprintf(open->first, sizeof open->first, "%s", name);
    const size_t used = strlen(open->all);
    snprintf(open->all + used, sizeof open->all - used, "%s\"%.40s\"", open->count > 0 ? ", " : "", name);
    open->count++;
}

static qs_status extent_bind(const qs__folding *folding, const qs_onnx_value *input, int axis, const char *batch, open_extents *open,
                             qs_onnx_extent *out) {
    const qs_onnx_dimension *declared = &input->declared[axis];
    const qs_onnx_binding *binding = binding_of(folding->options, input, axis);
    char name[AXIS_NAME];
    if (binding) {
        if (binding->value < -1 || binding->value > INT64_C(1) << 40)
            return qs_fail(QS_USAGE, "extent \"%.64s\" is bound to %" PRId64 ": 1 or more, 0 for a length, -1 for the batch", binding->name,
                           binding->value);
        *out = binding->value > 0 ? qs_onnx_extent_of(binding->value) : binding->value == 0 ? qs__extent_length : qs__extent_batch;
    } else if (declared->value >= 0)
        *out = axis == 0 && folding->batch > 0 ? qs__extent_batch : qs_onnx_extent_of(declared->value);
    else if (axis == 0 || (*batch && strcmp(declared->symbol, batch) == 0))
        *out = qs__extent_batch;
    else {
        /* The second axis of what has two or three is its length, in all inputs the same one. */
        const bool length = axis == 1 && input->declared_rank <= 3;
        open_add(open, length ? "length" : *declared->symbol ? declared->symbol : axis_name(input, axis, name));
        *out = qs__extent_length;
    }
    return QS_OK;
}

qs_status qs__bind_inputs(qs__folding *folding, const qs_onnx_graph *graph) {
    open_extents open = {.count = 0};
    folding->batch = fixed_batch(folding, graph);
    const char *batch = batch_symbol(folding, graph);
    for (int i = 0; i < graph->inputs; i++) {
        qs_onnx_value *input = &folding->value[graph->input[i]];
        input->type = input->declared_type;
        input->rank = input->declared_rank;
        if (input->rank < 0) continue;
        qs_onnx_extent *extents;
        QS_TRY(qs__onnx_take(folding->memory, (size_t)input->rank, sizeof *extents, &extents));
        for (int axis = 0; axis < input->rank; axis++)
            QS_TRY(extent_bind(folding, input, axis, batch, &open, &extents[axis]));
        input->extent = extents;
    }
    if (open.count > 1) return qs_fail(QS_USAGE, "%d extents of its inputs are open: %s: all but one must be given", open.count, open.all);
    return QS_OK;
}
