// SPDX-License-Identifier: Apache-2.0
/* Parameters of operators from numbers of the file: under which name, in which order, and whether they are trained. */
#include "family.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Names of weights files have 95 characters. */
static void name_cut(const char *from, char out[96]) {
    if (strlen(from) < 96)
        snprintf(out, 96, "%s", from);
    else
        snprintf(out, 96, "%.78s~%016" PRIx64, from, qs_hash(from, strlen(from), 0));
}

/* Appends a tensor to the weights; its name is changed where another has it. */
static qs_named_tensor *tensor_add(qs__import *one, const char *name, qs_shape shape) {
    qs_tensor_set *set = &one->out->weights;
    qs__stick(one, qs_grow(&set->tensors, &one->tensor_capacity, set->count + 1, sizeof *set->tensors));
    if (one->status != QS_OK) return NULL;
    qs_named_tensor *out = &set->tensors[set->count];
    *out = (qs_named_tensor){.tensor = {.shape = shape, .format = qs_format_of("fp32")}};
    name_cut(name, out->name);
    int64_t again, others;
    for (bool free = qs__name_take(one, &one->tensors, out->name, &again); !free;
         free = qs__name_take(one, &one->tensors, out->name, &others)) {
        char next[96];
        snprintf(next, sizeof next, "%.83s#%" PRId64, name, again++);
        memcpy(out->name, next, sizeof next);
    }
    set->count++;
    return out;
}

static void reader_count(qs__import *one, const char *name) {
    char cut[96];
    name_cut(name, cut);
    int64_t place = one->shares;
    const char *kept;
    if (!qs__names_get(&one->readers, cut, &place)) {
        qs__stick(one, qs_grow(&one->shared, &one->shared_capacity, (size_t)one->shares + 1, sizeof *one->shared));
        qs__stick(one, qs__onnx_copy_text(one->memory, cut, strlen(cut), &kept));
        if (one->status == QS_OK) qs__stick(one, qs__names_set(&one->readers, kept, place));
        if (one->status != QS_OK) return;
        memcpy(one->shared[one->shares].name, cut, sizeof cut);
        one->shared[one->shares++].readers = 0;
    }
    one->shared[place].readers++;
}

void qs__copies_say(qs__import *one) {
    for (int i = 0; i < one->shares; i++)
        if (one->shared[i].readers > 1)
            qs__note(one, "%s is read by %d operators: each trains a copy of its own, and from the first step on they differ",
                     one->shared[i].name, one->shared[i].readers);
}

static qs_shape shape_of(const qs_onnx_tensor *tensor) {
    qs_shape shape = {.axes = tensor->rank > 0 && tensor->rank <= QS_MAX_AXES ? tensor->rank : 1, .dim = {tensor->count}};
    for (int a = 0; a < tensor->rank && tensor->rank <= QS_MAX_AXES; a++)
        shape.dim[a] = tensor->dim[a];
    return shape;
}

/* The tensor's data as they lie, where they can be read so; else widened. */
static void data_take(qs__import *one, const qs_onnx_tensor *from, qs_tensor *out) {
    const char *format = from->type == QS_ONNX_FLOAT      ? "fp32"
                         : from->type == QS_ONNX_FLOAT16  ? "fp16"
                         : from->type == QS_ONNX_BFLOAT16 ? "bf16"
                                                          : NULL;
    if (format && !from->uniform && (uintptr_t)from->data % 4 == 0) {
        union {
            const void *given;
            void *kept;
        } data = {from->data}; /* nobody writes there: the set is only read */
        out->format = qs_format_of(format);
        out->data = data.kept;
        return;
    }
    float *values = qs__keep_memory(one, (size_t)from->count, sizeof(float));
    if (one->status == QS_OK) qs__stick(one, qs_onnx_tensor_floats(from, 0, from->count, values));
    out->data = values;
}

static qs_graph_origin *origin_add(qs__import *one, int source, const char *parameter, const qs_named_tensor *tensor) {
    qs_graph_operator *row = qs__row(one, source);
    size_t capacity = (size_t)row->origins;
    if (one->status != QS_OK) return NULL;
    qs__stick(one, qs_grow(&row->origin, &capacity, capacity + 1, sizeof *row->origin));
    if (one->status != QS_OK) return NULL;
    qs_graph_origin *out = &row->origin[row->origins++];
    *out = (qs_graph_origin){.axes = tensor->tensor.shape.axes};
    snprintf(out->parameter, sizeof out->parameter, "%s", parameter);
    memcpy(out->file, tensor->name, sizeof out->file);
    memcpy(out->extent, tensor->tensor.shape.dim, sizeof out->extent);
    return out;
}

void qs__give(qs__import *one, int source, const char *parameter, const qs__value *numbers) {
    const qs_onnx_tensor *from = numbers->tensor;
    const char *name = numbers->from ? numbers->from : numbers->name;
    const bool linear = numbers->layout.axes == 2 && qs__is_of(one, source, "linear");
    const bool back = linear && qs__layout_in_order(&numbers->layout, true);
    const bool column = back && numbers->turned && from->rank == 2 && from->dim[0] != qs__extent(numbers, 0); /* of one row: in any order */
    const bool plain = qs__layout_in_order(&numbers->layout, false) && !column, transposed = !plain && back;
    const bool turned = numbers->turned && linear && (plain || transposed);
    qs__value seen = *numbers; /* as the weights file is to have it */
    if (turned && plain) qs__layout_transpose(&seen.layout, 2, (const int[]){1, 0});
    if (one->status != QS_OK) return;
    const qs_shape shape = turned ? qs_shape_of(2, qs__extent(&seen, 0), qs__extent(&seen, 1)) : shape_of(from);
    qs_named_tensor *tensor = tensor_add(one, name, shape);
    if (!tensor) return;
    if (numbers->parameter) reader_count(one, name);
    if (!one->with_values)
        ;
    else if (turned) {
        from = qs__tensor_of(one, &seen);
        if (from) data_take(one, from, &tensor->tensor);
    } else if (plain || transposed)
        data_take(one, from, &tensor->tensor);
    else {
        float *moved = qs__keep_memory(one, (size_t)from->count, sizeof(float));
        for (int64_t i = 0; i < from->count && one->status == QS_OK; i++)
            qs__stick(one, qs_onnx_tensor_floats(from, qs__layout_place(&numbers->layout, i), 1, &moved[i]));
        tensor->tensor.data = moved;
    }
    if (!plain && !transposed) {
        tensor->tensor.shape = qs_shape_of(1, from->count);
        qs__note(one, "%s is kept in the order of %s, which is not the file's", tensor->name, qs__row(one, source)->name);
    }
    qs_graph_origin *origin = origin_add(one, source, parameter, tensor);
    if (!origin) return;
    origin->transposed = transposed != turned;
    origin->constant = !numbers->parameter;
}

void qs__give_constant(qs__import *one, int source, const char *parameter, const char *name, int64_t count, const double *values,
                       double fill) {
    char whole[160];
    if (one->status != QS_OK) return;
    snprintf(whole, sizeof whole, "%s.%s", qs__row(one, source)->name, name);
    qs_named_tensor *tensor = tensor_add(one, whole, qs_shape_of(1, count));
    float *own = tensor && one->with_values ? qs__keep_memory(one, (size_t)count, sizeof(float)) : NULL;
    for (int64_t i = 0; own && i < count; i++)
        own[i] = (float)(values ? values[i] : fill);
    if (tensor) tensor->tensor.data = own;
    qs_graph_origin *origin = tensor ? origin_add(one, source, parameter, tensor) : NULL;
    if (origin) origin->constant = true;
}
