// SPDX-License-Identifier: Apache-2.0
/* Operators that make tensors from shapes and scalars, and those that find or mark places: Constant, Range, OneHot, NonZero, Pad, Trilu. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* Memory of a result that only its evaluator may write. */
static void *room(const qs_onnx_tensor *out) {
    return (void *)(uintptr_t)out->data;
}

static void put_int64(const qs_onnx_tensor *out, int64_t index, int64_t value) {
    memcpy((char *)room(out) + index * 8, &value, 8);
}

/* ---- Of shapes -------------------------------------------------------------------------------------------------------------------- */

/* Axes start .. end - 1 of the input. */
static qs_status shape_range(const qs_onnx_node *node, int rank, int *start, int *end) {
    int64_t from, to;
    QS_TRY(qs_onnx_attribute_int(node, "start", 0, &from));
    QS_TRY(qs_onnx_attribute_int(node, "end", rank, &to));
    from = from < 0 ? from + rank : from;
    to = to < 0 ? to + rank : to;
    *start = (int)(from < 0 ? 0 : from > rank ? rank : from);
    *end = (int)(to < *start ? *start : to > rank ? rank : to);
    return QS_OK;
}

static qs_status shape_shape(const qs__shaping *at) {
    int start, end;
    QS_TRY(qs__need(at, 0));
    *at->out = (qs__fact){.type = QS_ONNX_INT64, .rank = 1, .extent = {qs__extent_unknown}};
    if (at->in[0].rank < 0) return QS_OK;
    QS_TRY(shape_range(at->node, at->in[0].rank, &start, &end));
    at->out->extent[0] = qs_onnx_extent_of(end - start);
    return QS_OK;
}

static qs_status evaluate_shape(const qs__evaluation *at) {
    int start, end;
    QS_TRY(shape_range(at->node, at->in[0]->rank, &start, &end));
    for (int i = start; i < end; i++)
        put_int64(at->out, i - start, at->in[0]->dim[i]);
    return QS_OK;
}

static qs_status shape_size(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    *at->out = (qs__fact){.type = QS_ONNX_INT64, .rank = 0};
    return QS_OK;
}

static qs_status evaluate_size(const qs__evaluation *at) {
    put_int64(at->out, 0, at->in[0]->count);
    return QS_OK;
}

/* ---- Constants --------------------------------------------------------------------------------------------------------------------- */

/* The tensor that a Constant's attribute describes. */
static qs_status constant_of(const qs_onnx_node *node, qs_onnx_tensor *out, bool *is_tensor) {
    *out = (qs_onnx_tensor){.name = ""};
    *is_tensor = true;
    for (int i = 0; i < node->attributes; i++) {
        const qs_onnx_attribute *attribute = &node->attribute[i];
        const char *name = attribute->name;
        if ((strcmp(name, "value") == 0 && attribute->type == QS_ONNX_ATTRIBUTE_TENSOR) ||
            (strcmp(name, "sparse_value") == 0 && attribute->type == QS_ONNX_ATTRIBUTE_SPARSE_TENSOR)) {
            *out = attribute->tensors[0];
            return QS_OK;
        }
        const bool list = attribute->type == QS_ONNX_ATTRIBUTE_FLOATS || attribute->type == QS_ONNX_ATTRIBUTE_INTS;
        out->count = list ? (int64_t)attribute->count : 1;
        out->rank = list;
        out->dim[0] = out->count;
        const bool real = attribute->type == QS_ONNX_ATTRIBUTE_FLOAT || attribute->type == QS_ONNX_ATTRIBUTE_FLOATS;
        out->type = real ? QS_ONNX_FLOAT : QS_ONNX_INT64;
        out->data = list ? (real ? (const void *)attribute->floats : attribute->ints) : real ? (const void *)&attribute->f : &attribute->i;
        if (strcmp(name, list   ? (real ? "value_floats" : "value_ints")
                         : real ? "value_float"
                                : "value_int") == 0 &&
            (list || real || attribute->type == QS_ONNX_ATTRIBUTE_INT))
            return QS_OK;
        if (strncmp(name, "value_string", 12) == 0) {
            *is_tensor = false;
            return QS_OK;
        }
    }
    return qs_fail(QS_BAD_FILE, "it has no value");
}

static qs_status shape_constant(const qs__shaping *at) {
    qs_onnx_tensor tensor;
    bool is_tensor;
    QS_TRY(constant_of(at->node, &tensor, &is_tensor));
    if (is_tensor) *at->out = qs__fact_of(&tensor);
    at->out->constant = NULL;
    return QS_OK;
}

static qs_status evaluate_constant(const qs__evaluation *at) {
    qs_onnx_tensor tensor;
    bool is_tensor;
    QS_TRY(constant_of(at->node, &tensor, &is_tensor));
    at->out->data = tensor.data; /* where the file has it */
    at->out->uniform = tensor.uniform;
    return QS_OK;
}

static qs_status shape_constant_of_shape(const qs__shaping *at) {
    qs_onnx_extent extents[QS__MOST_INTS];
    int count;
    bool known;
    QS_TRY(qs__need(at, 0));
    const qs_onnx_attribute *value = qs_onnx_attribute_find(at->node, "value");
    if (value && (value->type != QS_ONNX_ATTRIBUTE_TENSOR || value->tensors[0].count != 1))
        return qs_fail(QS_BAD_FILE, "attribute \"value\" must be a tensor of one element");
    at->out->type = value ? value->tensors[0].type : QS_ONNX_FLOAT;
    QS_TRY(qs__extents(at, 0, NULL, extents, &count, &known));
    if (!known) return QS_OK;
    if (count > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", count, QS_ONNX_MAX_RANK);
    at->out->rank = count;
    memcpy(at->out->extent, extents, (size_t)count * sizeof *extents);
    return QS_OK;
}

static qs_status evaluate_constant_of_shape(const qs__evaluation *at) {
    static const float zero = 0;
    const qs_onnx_attribute *value = qs_onnx_attribute_find(at->node, "value");
    at->out->data = value ? value->tensors[0].data : &zero;
    at->out->uniform = true;
    return QS_OK;
}

/* ---- Range ------------------------------------------------------------------------------------------------------------------------- */

/* Three scalars: reals as double, integers exact. */
static qs_status range_scalars(const qs_onnx_tensor *const in[3], double real[3], int64_t integer[3], bool *is_real) {
    *is_real = qs_onnx_type_is_float(in[0]->type);
    for (int i = 0; i < 3; i++) {
        if (in[i]->count != 1) return qs_fail(QS_BAD_FILE, "input %d must be one number", i);
        if (in[i]->type != in[0]->type)
            return qs_fail(QS_BAD_FILE, "bounds of types %s and %s", qs_onnx_type_name(in[0]->type), qs_onnx_type_name(in[i]->type));
        QS_TRY(*is_real ? qs_onnx_tensor_doubles(in[i], 0, 1, &real[i]) : qs_onnx_tensor_integers(in[i], 0, 1, &integer[i]));
    }
    if (*is_real ? real[2] == 0 || !isfinite(real[0]) || !isfinite(real[1]) || isnan(real[2]) : integer[2] == 0)
        return qs_fail(QS_BAD_FILE, "a range in steps of 0, or without an end");
    return QS_OK;
}

static qs_status shape_range_of(const qs__shaping *at) {
    qs_onnx_extent bounds[3] = {qs__extent_unknown, qs__extent_unknown, qs__extent_unknown}, length;
    for (int i = 0; i < 3; i++)
        QS_TRY(qs__need(at, i));
    *at->out = (qs__fact){.type = at->in[0].type, .rank = 1, .extent = {qs__extent_unknown}};
    for (int i = 0; i < 3; i++) {
        const qs_onnx_tensor *tensor = at->in[i].constant;
        if (!tensor || tensor->count != 1) return QS_OK;
        if (tensor->type == QS_ONNX_EXTENTS)
            memcpy(&bounds[i], tensor->data, sizeof bounds[i]);
        else if (qs_onnx_type_is_integer(tensor->type)) {
            int64_t value;
            QS_TRY(qs_onnx_tensor_integers(tensor, 0, 1, &value));
            bounds[i] = qs_onnx_extent_of(value);
        }
    }
    const qs_onnx_tensor *const in[3] = {at->in[0].constant, at->in[1].constant, at->in[2].constant};
    int64_t integer[3], one;
    double real[3], count;
    bool is_real;
    if (in[0]->type == QS_ONNX_EXTENTS || in[1]->type == QS_ONNX_EXTENTS || in[2]->type == QS_ONNX_EXTENTS) {
        length = qs__extent_subtract(&bounds[1], &bounds[0]);
        if (qs_onnx_extent_is_fixed(&bounds[2], &one) && one == 1) at->out->extent[0] = length;
        return QS_OK;
    }
    QS_TRY(range_scalars(in, real, integer, &is_real));
    if (is_real)
        count = ceil((real[1] - real[0]) / real[2]);
    else { /* the distance in steps, rounded up, without overflow */
        const bool falls = integer[2] < 0;
        const uint64_t distance = falls ? (uint64_t)integer[0] - (uint64_t)integer[1] : (uint64_t)integer[1] - (uint64_t)integer[0];
        const uint64_t step = falls ? 0 - (uint64_t)integer[2] : (uint64_t)integer[2];
        const bool none = falls ? integer[0] <= integer[1] : integer[1] <= integer[0];
        count = none ? 0 : (double)((distance - 1) / step + 1);
    }
    if (!(count < (double)(INT64_C(1) << 40))) return qs_fail(QS_BAD_FILE, "a range of %g elements", count);
    at->out->extent[0] = qs_onnx_extent_of(count > 0 ? (int64_t)count : 0);
    return QS_OK;
}

static qs_status evaluate_range(const qs__evaluation *at) {
    double real[3];
    int64_t integer[3];
    bool is_real;
    qs__array array = {0};
    qs_status status = QS_OK;
    QS_TRY(range_scalars(at->in, real, integer, &is_real));
    QS_GOTO(qs__array_make(at->out->type, at->out->count, &array));
    for (int64_t i = 0; i < array.count; i++)
        if (is_real)
            array.real[i] = real[0] + (double)i * real[2];
        else
            array.integer[i] = (int64_t)((uint64_t)integer[0] + (uint64_t)i * (uint64_t)integer[2]);
    QS_GOTO(qs__array_store(&array, false, at->out));
done:
    qs__array_release(&array);
    return status;
}

static qs_status shape_eye_like(const qs__shaping *at) {
    int64_t type;
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs_onnx_attribute_int(at->node, "dtype", at->out->type, &type));
    if (type < 1 || type >= QS_ONNX_TYPE_COUNT) return qs_fail(QS_UNSUPPORTED, "attribute \"dtype\" is %" PRId64, type);
    if (at->out->rank >= 0 && at->out->rank != 2) return qs_fail(QS_BAD_FILE, "%d extents, must be 2", at->out->rank);
    at->out->type = (qs_onnx_type)type;
    return QS_OK;
}

static qs_status evaluate_eye_like(const qs__evaluation *at) {
    qs__array array;
    int64_t k;
    QS_TRY(qs_onnx_attribute_int(at->node, "k", 0, &k));
    QS_TRY(qs__array_make(at->out->type, at->out->count, &array));
    const int64_t columns = at->out->dim[1];
    for (int64_t row = 0; row < at->out->dim[0]; row++) {
        if (k < -row || k >= columns - row) continue;
        if (array.real)
            array.real[row * columns + row + k] = 1;
        else
            array.integer[row * columns + row + k] = 1;
    }
    const qs_status status = qs__array_store(&array, false, at->out);
    qs__array_release(&array);
    return status;
}

/* ---- Marks ------------------------------------------------------------------------------------------------------------------------- */

static bool is_zero(const qs__array *array, int64_t i) {
    return array->real ? array->real[i] == 0 : array->integer[i] == 0;
}

static qs_status shape_non_zero(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    *at->out = (qs__fact){.type = QS_ONNX_INT64, .rank = 2, .extent = {qs__extent_unknown, qs__extent_unknown}};
    if (in->rank >= 0) at->out->extent[0] = qs_onnx_extent_of(in->rank);
    const bool is_number = qs_onnx_type_is_integer(in->type) || qs_onnx_type_is_float(in->type);
    if (!in->constant || in->constant->type == QS_ONNX_EXTENTS || !is_number || in->constant->count > QS__MOST_ELEMENTS) return QS_OK;
    qs__array array;
    int64_t found = 0, each;
    const qs_onnx_tensor read = qs_onnx_tensor_distinct(in->constant, &each);
    QS_TRY(qs__array_load(&read, &array));
    for (int64_t i = 0; i < array.count; i++)
        found += is_zero(&array, i) ? 0 : each;
    qs__array_release(&array);
    at->out->extent[1] = qs_onnx_extent_of(found);
    return QS_OK;
}

static qs_status evaluate_non_zero(const qs__evaluation *at) {
    qs__array array;
    int64_t found = 0;
    QS_TRY(qs__array_load(at->in[0], &array));
    qs__walk walk = qs__walk_over(at->in[0]->rank, at->in[0]->dim);
    for (int64_t i = 0; i < array.count; i++, qs__walk_next(&walk)) {
        if (is_zero(&array, i)) continue;
        for (int axis = 0; axis < walk.rank; axis++)
            put_int64(at->out, axis * at->out->dim[1] + found, walk.at[axis]);
        found++;
    }
    qs__array_release(&array);
    return QS_OK;
}

static qs_status shape_one_hot(const qs__shaping *at) {
    int64_t axis, depth;
    int along = 0;
    for (int i = 0; i < 3; i++)
        QS_TRY(qs__need(at, i));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    const qs__fact *in = &at->in[0];
    at->out->type = at->in[2].type;
    if (in->rank < 0) return QS_OK;
    if (in->rank == QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "more than %d extents", QS_ONNX_MAX_RANK);
    QS_TRY(qs__axis(axis, in->rank + 1, &along));
    at->out->rank = in->rank + 1;
    for (int i = 0, from = 0; i < at->out->rank; i++)
        at->out->extent[i] = i == along ? qs__extent_unknown : in->extent[from++];
    const qs_onnx_tensor *given = at->in[1].constant;
    double real;
    if (!given || given->count != 1 || given->type == QS_ONNX_EXTENTS) return QS_OK;
    QS_TRY(qs_onnx_tensor_doubles(given, 0, 1, &real));
    if (!(real >= 0 && real < (double)(INT64_C(1) << 40))) return qs_fail(QS_BAD_FILE, "a depth of %g", real);
    depth = (int64_t)real;
    at->out->extent[along] = qs_onnx_extent_of(depth);
    return QS_OK;
}

static qs_status evaluate_one_hot(const qs__evaluation *at) {
    const size_t size = qs__element_size(at->out->type);
    int64_t axis;
    int along = 0;
    char *values = NULL, *to = NULL;
    qs__array indices = {0};
    qs_status status = QS_OK;
    if (at->in[2]->count != 2) return qs_fail(QS_BAD_FILE, "input 2 must be two values");
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    QS_TRY(qs__axis(axis, at->out->rank, &along));
    const int64_t depth = at->out->dim[along], inner = qs__dims_product(at->out->dim, along + 1, at->out->rank);
    QS_GOTO(qs__bytes_load(at->in[2], &values));
    QS_GOTO(qs__array_load(at->in[0], &indices));
    QS_GOTO(qs_allocate((size_t)at->out->count, size, &to));
    for (int64_t i = 0; i < at->out->count; i++) {
        const int64_t which = i / inner % depth, from = i / inner / depth * inner + i % inner;
        const double index = indices.real ? indices.real[from] : (double)indices.integer[from];
        const bool on = index == (double)which || index + (double)depth == (double)which;
        memcpy(to + (size_t)i * size, values + (on ? size : 0), size);
    }
    qs__bytes_store(to, at->out);
done:
    free(values);
    free(to);
    qs__array_release(&indices);
    return status;
}

static qs_status shape_trilu(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    if (at->out->rank >= 0 && at->out->rank < 2) return qs_fail(QS_BAD_FILE, "%d extents, must be 2 or more", at->out->rank);
    return QS_OK;
}

static qs_status evaluate_trilu(const qs__evaluation *at) {
    const size_t size = qs__element_size(at->out->type);
    int64_t upper, k = 0;
    char *bytes;
    QS_TRY(qs_onnx_attribute_int(at->node, "upper", 1, &upper));
    if (at->inputs > 1 && at->in[1]) {
        if (at->in[1]->count != 1) return qs_fail(QS_BAD_FILE, "input 1 must be one integer");
        QS_TRY(qs_onnx_tensor_integers(at->in[1], 0, 1, &k));
    }
    const int64_t rows = at->out->dim[at->out->rank - 2], columns = at->out->dim[at->out->rank - 1];
    k = k > columns ? columns : k < -rows ? -rows : k;
    QS_TRY(qs__bytes_load(at->in[0], &bytes));
    for (int64_t i = 0; i < at->out->count; i++) {
        const int64_t row = i / columns % rows, column = i % columns;
        if (upper ? column - row < k : column - row > k) memset(bytes + (size_t)i * size, 0, size);
    }
    qs__bytes_store(bytes, at->out);
    free(bytes);
    return QS_OK;
}

/* ---- Pad --------------------------------------------------------------------------------------------------------------------------- */

/* What is added before and behind each axis: an input since version 11, an attribute before; axes since version 18. */
static qs_status pads_of(const qs__shaping *at, int rank, int64_t before[QS_ONNX_MAX_RANK], int64_t behind[QS_ONNX_MAX_RANK], bool *known) {
    int64_t pads[QS__MOST_INTS], axes[QS__MOST_INTS];
    int count, axis_count;
    bool axes_known;
    const bool by_attributes = at->node->opset < 11;
    QS_TRY(qs__ints(at, by_attributes ? -1 : 1, at->node->opset < 2 ? "paddings" : "pads", pads, &count, known));
    QS_TRY(qs__ints(at, by_attributes ? -1 : 3, NULL, axes, &axis_count, &axes_known));
    *known = *known && axes_known;
    memset(before, 0, QS_ONNX_MAX_RANK * sizeof *before);
    memset(behind, 0, QS_ONNX_MAX_RANK * sizeof *behind);
    if (!*known) return QS_OK;
    const int padded = axis_count >= 0 ? axis_count : rank;
    if (count != 2 * padded) return qs_fail(QS_BAD_FILE, "%d paddings for %d axes", count, padded);
    for (int i = 0; i < padded; i++) {
        int axis = 0;
        QS_TRY(qs__axis(axis_count >= 0 ? axes[i] : i, rank, &axis));
        if (pads[i] < -INT32_MAX || pads[i] > INT32_MAX || pads[i + padded] < -INT32_MAX || pads[i + padded] > INT32_MAX)
            return qs_fail(QS_BAD_FILE, "a padding of %" PRId64, pads[i]);
        before[axis] = pads[i];
        behind[axis] = pads[i + padded];
    }
    return QS_OK;
}

static qs_status shape_pad(const qs__shaping *at) {
    int64_t before[QS_ONNX_MAX_RANK], behind[QS_ONNX_MAX_RANK], value;
    bool known;
    QS_TRY(qs__shape_like(at));
    if (at->out->rank < 0) return QS_OK;
    QS_TRY(pads_of(at, at->out->rank, before, behind, &known));
    for (int i = 0; i < at->out->rank; i++) {
        const qs_onnx_extent added = qs_onnx_extent_of(before[i] + behind[i]);
        at->out->extent[i] = known ? qs__extent_add(&at->out->extent[i], &added) : qs__extent_unknown;
        if (qs_onnx_extent_is_fixed(&at->out->extent[i], &value) && value < 0)
            return qs_fail(QS_BAD_FILE, "axis %d would have the extent %" PRId64, i, value);
    }
    return QS_OK;
}

/* Where a place of the padded axis lies in the axis; -1: outside of it, with a constant there. */
static int64_t pad_place(const char *mode, int64_t place, int64_t extent) {
    if (place >= 0 && place < extent) return place;
    if (*mode == 'c' || extent == 0) return -1;
    if (*mode == 'e') return place < 0 ? 0 : extent - 1;
    if (*mode == 'w') return (place % extent + extent) % extent;
    if (extent == 1) return 0;
    const int64_t period = 2 * (extent - 1), folded = (place % period + period) % period;
    return folded < extent ? folded : period - folded;
}

static qs_status evaluate_pad(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0];
    const size_t size = qs__element_size(at->out->type);
    int64_t before[QS_ONNX_MAX_RANK], behind[QS_ONNX_MAX_RANK];
    const char *mode;
    bool known, present[4];
    qs__fact facts[4];
    char *from = NULL, *to = NULL, *filler = NULL;
    qs_status status = QS_OK;
    for (int i = 0; i < 4; i++) {
        present[i] = i < at->inputs && at->in[i];
        facts[i] = present[i] ? qs__fact_of(at->in[i]) : qs__fact_none();
    }
    const qs__shaping shaping = {.node = at->node, .inputs = at->inputs < 4 ? at->inputs : 4, .in = facts, .present = present};
    QS_TRY(pads_of(&shaping, in->rank, before, behind, &known));
    QS_TRY(qs_onnx_attribute_string(at->node, "mode", "constant", &mode));
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0)
        return qs_fail(QS_UNSUPPORTED, "attribute \"mode\" is \"%.20s\": constant, reflect, edge and wrap are known", mode);
    if (at->node->opset < 11 && qs_onnx_attribute_find(at->node, "value") && qs_onnx_attribute_find(at->node, "value")->f != 0)
        return qs_fail(QS_UNSUPPORTED, "attribute \"value\" is not 0");
    if (present[2] && at->node->opset >= 11 && (at->in[2]->count != 1 || at->in[2]->type != in->type))
        return qs_fail(QS_BAD_FILE, "input 2 must be one %s", qs_onnx_type_name(in->type));
    QS_GOTO(qs__bytes_load(in, &from));
    QS_GOTO(qs_allocate((size_t)at->out->count, size, &to));
    if (present[2] && at->node->opset >= 11)
        QS_GOTO(qs__bytes_load(at->in[2], &filler));
    else
        QS_GOTO(qs_allocate(1, size, &filler));
    qs__walk walk = qs__walk_over(at->out->rank, at->out->dim);
    for (int64_t i = 0; i < at->out->count; i++, qs__walk_next(&walk)) {
        int64_t place = 0;
        for (int axis = 0; axis < in->rank && place >= 0; axis++) {
            const int64_t inside = pad_place(mode, walk.at[axis] - before[axis], in->dim[axis]);
            place = inside < 0 ? -1 : place * in->dim[axis] + inside;
        }
        memcpy(to + (size_t)i * size, place < 0 ? filler : from + (size_t)place * size, size);
    }
    qs__bytes_store(to, at->out);
done:
    free(from);
    free(to);
    free(filler);
    return status;
}

const qs__operator qs__rows_selection[] = {
    {"Shape", 1, 0, shape_shape, evaluate_shape, 1, QS__DEPENDS},
    {"Size", 1, 0, shape_size, evaluate_size, 1, QS__DEPENDS},
    {"Constant", 1, 0, shape_constant, evaluate_constant, 0, QS__SHARES},
    {"ConstantOfShape", 9, 0, shape_constant_of_shape, evaluate_constant_of_shape, 1, QS__SAMPLEWISE | QS__SHARES | QS__SAYS_SHAPE},
    {"Range", 11, 0, shape_range_of, evaluate_range, 0, 0},
    {"EyeLike", 9, 0, shape_eye_like, evaluate_eye_like, 0, 0},
    {"NonZero", 9, 0, shape_non_zero, evaluate_non_zero, 0, 0},
    {"OneHot", 9, 0, shape_one_hot, evaluate_one_hot, 0, QS__DEPENDS},
    {"Trilu", 14, 0, shape_trilu, evaluate_trilu, 0, 0},
    {"Pad", 2, 0, shape_pad, evaluate_pad, 0, 0},
    {0},
};
