// SPDX-License-Identifier: Apache-2.0
/* Operators that take elements by indices, or put them there. Indices count from the end where they are negative. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

static qs_status index_check(int64_t *index, int64_t extent) {
    if (*index < -extent || *index >= extent)
        return qs_fail(QS_BAD_FILE, "index %" PRId64 " of %" PRId64 ": must be %" PRId64 " to %" PRId64, *index, extent, -extent,
                       extent - 1);
    if (*index < 0) *index += extent;
    return QS_OK;
}

/* Data in bytes and indices, with room for a result; released by done. */
typedef struct taking {
    char *from, *to;
    qs__array index;
    size_t size;
} taking;

static qs_status taking_begin(const qs__evaluation *at, const qs_onnx_tensor *index, taking *out) {
    *out = (taking){.size = qs__element_size(at->out->type)};
    if (!qs_onnx_type_is_integer(index->type)) return qs_fail(QS_BAD_FILE, "indices of type %s", qs_onnx_type_name(index->type));
    QS_TRY(qs__bytes_load(at->in[0], &out->from));
    QS_TRY(qs__array_load(index, &out->index));
    return qs_allocate((size_t)at->out->count, out->size, &out->to);
}

static void taking_end(taking *of) {
    free(of->from);
    free(of->to);
    qs__array_release(&of->index);
}

/* ---- Taking ------------------------------------------------------------------------------------------------------------------------ */

static qs_status shape_gather(const qs__shaping *at) {
    int64_t axis;
    int along = 0;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    const qs__fact *in = &at->in[0], *index = &at->in[1];
    at->out->type = in->type;
    if (in->rank < 0) return QS_OK;
    QS_TRY(qs__axis(axis, in->rank, &along));
    if (index->rank < 0) return QS_OK;
    const int rank = in->rank - 1 + index->rank;
    if (rank > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", rank, QS_ONNX_MAX_RANK);
    int to = 0;
    for (int i = 0; i < along; i++)
        at->out->extent[to++] = in->extent[i];
    for (int i = 0; i < index->rank; i++)
        at->out->extent[to++] = index->extent[i];
    for (int i = along + 1; i < in->rank; i++)
        at->out->extent[to++] = in->extent[i];
    at->out->rank = rank;
    return QS_OK;
}

static qs_status evaluate_gather(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0];
    int64_t axis;
    int along = 0;
    taking of;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs__axis(axis, in->rank, &along));
    QS_GOTO(taking_begin(at, at->in[1], &of));
    const int64_t outer = qs__dims_product(in->dim, 0, along), inner = qs__dims_product(in->dim, along + 1, in->rank);
    for (int64_t i = 0; i < of.index.count; i++)
        QS_GOTO(index_check(&of.index.integer[i], in->dim[along]));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < of.index.count; i++)
            memcpy(of.to + (size_t)((o * of.index.count + i) * inner) * of.size,
                   of.from + (size_t)((o * in->dim[along] + of.index.integer[i]) * inner) * of.size, (size_t)inner * of.size);
    qs__bytes_store(of.to, at->out);
done:
    taking_end(&of);
    return status;
}

static qs_status shape_gather_elements(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    *at->out = at->in[1];
    at->out->constant = NULL;
    at->out->type = at->in[0].type;
    if (at->in[0].rank >= 0 && at->in[1].rank >= 0 && at->in[0].rank != at->in[1].rank)
        return qs_fail(QS_BAD_FILE, "indices of %d extents for data of %d", at->in[1].rank, at->in[0].rank);
    return QS_OK;
}

/* Places of the data for an index along an axis: those of the index's own place on the other axes, which must lie in the data. */
static qs_status element_place(const qs_onnx_tensor *data, const qs__walk *walk, int along, int64_t index, int64_t *out) {
    int64_t place = 0;
    for (int axis = 0; axis < data->rank; axis++) {
        int64_t here = axis == along ? index : walk->at[axis];
        QS_TRY(index_check(&here, data->dim[axis]));
        place = place * data->dim[axis] + here;
    }
    *out = place;
    return QS_OK;
}

static qs_status evaluate_gather_elements(const qs__evaluation *at) {
    int64_t axis, place;
    int along = 0;
    taking of;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &along));
    QS_GOTO(taking_begin(at, at->in[1], &of));
    qs__walk walk = qs__walk_over(at->out->rank, at->out->dim);
    for (int64_t i = 0; i < at->out->count; i++, qs__walk_next(&walk)) {
        QS_GOTO(element_place(at->in[0], &walk, along, of.index.integer[i], &place));
        memcpy(of.to + (size_t)i * of.size, of.from + (size_t)place * of.size, of.size);
    }
    qs__bytes_store(of.to, at->out);
done:
    taking_end(&of);
    return status;
}

static qs_status shape_gather_nd(const qs__shaping *at) {
    int64_t batch, last;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs_onnx_attribute_int(at->node, "batch_dims", 0, &batch));
    const qs__fact *in = &at->in[0], *index = &at->in[1];
    at->out->type = in->type;
    if (in->rank < 0 || index->rank < 0) return QS_OK;
    if (index->rank < 1 || batch < 0 || batch >= index->rank || batch >= in->rank)
        return qs_fail(QS_BAD_FILE, "%" PRId64 " axes of batches for data of %d extents and indices of %d", batch, in->rank, index->rank);
    if (!qs_onnx_extent_is_fixed(&index->extent[index->rank - 1], &last)) return QS_OK;
    if (last < 0 || last > in->rank - batch)
        return qs_fail(QS_BAD_FILE, "indices of %" PRId64 " numbers for data of %d extents", last, in->rank);
    const int rank = index->rank - 1 + in->rank - (int)batch - (int)last;
    if (rank > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", rank, QS_ONNX_MAX_RANK);
    for (int i = 0; i < index->rank - 1; i++)
        at->out->extent[i] = index->extent[i];
    for (int i = index->rank - 1, from = (int)(batch + last); i < rank; i++)
        at->out->extent[i] = in->extent[from++];
    at->out->rank = rank;
    return QS_OK;
}

static qs_status evaluate_gather_nd(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0], *index = at->in[1];
    int64_t batch;
    taking of;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "batch_dims", 0, &batch));
    QS_GOTO(taking_begin(at, index, &of));
    const int64_t numbers = index->dim[index->rank - 1], batches = qs__dims_product(in->dim, 0, (int)batch);
    const int64_t inner = qs__dims_product(in->dim, (int)(batch + numbers), in->rank);
    const int64_t tuples = qs__dims_product(index->dim, 0, index->rank - 1), each = batches > 0 ? tuples / batches : 0;
    const int64_t block = qs__dims_product(in->dim, (int)batch, in->rank);
    if (qs__dims_product(index->dim, 0, (int)batch) != batches) QS_GOTO(qs_fail(QS_BAD_FILE, "axes of batches differ"));
    for (int64_t tuple = 0; tuple < tuples; tuple++) {
        int64_t place = 0;
        for (int64_t i = 0; i < numbers; i++) {
            int64_t here = of.index.integer[tuple * numbers + i];
            QS_GOTO(index_check(&here, in->dim[batch + i]));
            place = place * in->dim[batch + i] + here;
        }
        memcpy(of.to + (size_t)(tuple * inner) * of.size, of.from + (size_t)(tuple / each * block + place * inner) * of.size,
               (size_t)inner * of.size);
    }
    qs__bytes_store(of.to, at->out);
done:
    taking_end(&of);
    return status;
}

static qs_status shape_compress(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    const qs__fact *in = &at->in[0];
    const qs_onnx_tensor *condition = at->in[1].constant;
    const qs_onnx_attribute *axis = qs_onnx_attribute_find(at->node, "axis");
    at->out->type = in->type;
    int along = 0;
    qs_onnx_extent taken = qs__extent_unknown;
    if (in->rank >= 0 && axis) QS_TRY(qs__axis(axis->i, in->rank, &along));
    if (condition && condition->type == QS_ONNX_BOOL && condition->count <= QS__MOST_ELEMENTS) {
        int64_t count = 0, value, each;
        const qs_onnx_tensor read = qs_onnx_tensor_distinct(condition, &each);
        for (int64_t i = 0; i < read.count; i++) {
            QS_TRY(qs_onnx_tensor_integers(&read, i, 1, &value));
            count += value * each;
        }
        taken = qs_onnx_extent_of(count);
    }
    if (axis && in->rank < 0) return QS_OK;
    at->out->rank = axis ? in->rank : 1;
    if (axis) memcpy(at->out->extent, in->extent, sizeof in->extent);
    at->out->extent[along] = taken;
    return QS_OK;
}

static qs_status evaluate_compress(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0];
    const qs_onnx_attribute *axis = qs_onnx_attribute_find(at->node, "axis");
    int along = 0;
    taking of;
    qs_status status = QS_OK;
    if (axis) QS_TRY(qs__axis(axis->i, in->rank, &along));
    QS_GOTO(taking_begin(at, at->in[1], &of));
    const int64_t extent = axis ? in->dim[along] : in->count, outer = axis ? qs__dims_product(in->dim, 0, along) : 1;
    const int64_t inner = axis ? qs__dims_product(in->dim, along + 1, in->rank) : 1;
    if (of.index.count > extent) QS_GOTO(qs_fail(QS_BAD_FILE, "a condition of %" PRId64 " for %" PRId64, of.index.count, extent));
    int64_t to = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < of.index.count; i++) {
            if (!of.index.integer[i]) continue;
            memcpy(of.to + (size_t)to * of.size, of.from + (size_t)((o * extent + i) * inner) * of.size, (size_t)inner * of.size);
            to += inner;
        }
    qs__bytes_store(of.to, at->out);
done:
    taking_end(&of);
    return status;
}

/* ---- Putting ----------------------------------------------------------------------------------------------------------------------- */

static qs_status shape_scatter(const qs__shaping *at) {
    for (int i = 0; i < 3; i++)
        QS_TRY(qs__need(at, i));
    if (at->in[2].type != at->in[0].type && at->in[2].type != QS_ONNX_UNDEFINED && at->in[0].type != QS_ONNX_UNDEFINED)
        return qs_fail(QS_BAD_FILE, "%s is put among %s", qs_onnx_type_name(at->in[2].type), qs_onnx_type_name(at->in[0].type));
    return qs__shape_like(at);
}

/* What becomes of an element that is written to: none replaces it. */
static qs_status reduction_of(const qs_onnx_node *node, char *out) {
    const char *reduction;
    QS_TRY(qs_onnx_attribute_string(node, "reduction", "none", &reduction));
    const char *const known[] = {"none", "add", "mul", "min", "max"};
    for (int i = 0; i < 5; i++)
        if (strcmp(reduction, known[i]) == 0) {
            *out = "namLM"[i];
            return QS_OK;
        }
    return qs_fail(QS_UNSUPPORTED, "attribute \"reduction\" is \"%.20s\": none, add, mul, min and max are known", reduction);
}

static void put(char reduction, qs__array *to, int64_t at, const qs__array *from, int64_t index) {
    if (to->symbol)
        to->symbol[at] = from->symbol[index];
    else if (to->real) {
        double *x = &to->real[at], y = from->real[index];
        *x = reduction == 'a'   ? *x + y
             : reduction == 'm' ? *x * y
             : reduction == 'L' ? (y < *x ? y : *x)
             : reduction == 'M' ? (y > *x ? y : *x)
                                : y;
    } else {
        int64_t *x = &to->integer[at], y = from->integer[index];
        *x = reduction == 'a'   ? (int64_t)((uint64_t)*x + (uint64_t)y)
             : reduction == 'm' ? (int64_t)((uint64_t)*x * (uint64_t)y)
             : reduction == 'L' ? (y < *x ? y : *x)
             : reduction == 'M' ? (y > *x ? y : *x)
                                : y;
    }
}

/* Data, indices and updates. */
static qs_status putting_begin(const qs__evaluation *at, qs__array *data, qs__array *index, qs__array *updates, char *reduction) {
    QS_TRY(reduction_of(at->node, reduction));
    if (!qs_onnx_type_is_integer(at->in[1]->type)) return qs_fail(QS_BAD_FILE, "indices of type %s", qs_onnx_type_name(at->in[1]->type));
    QS_TRY(qs__array_load(at->in[0], data));
    QS_TRY(qs__array_load(at->in[1], index));
    QS_TRY(qs__array_load(at->in[2], updates));
    if (data->symbol && *reduction != 'n') return qs_fail(QS_UNSUPPORTED, "extents are only replaced");
    return QS_OK;
}

static qs_status evaluate_scatter_elements(const qs__evaluation *at) {
    const qs_onnx_tensor *shape = at->in[1];
    qs__array data = {0}, index = {0}, updates = {0};
    int64_t axis, place;
    int along = 0;
    char reduction;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &along));
    if (shape->rank != at->in[0]->rank || at->in[2]->count != shape->count)
        return qs_fail(QS_BAD_FILE, "indices and updates must have one shape");
    QS_GOTO(putting_begin(at, &data, &index, &updates, &reduction));
    qs__walk walk = qs__walk_over(shape->rank, shape->dim);
    for (int64_t i = 0; i < shape->count; i++, qs__walk_next(&walk)) {
        QS_GOTO(element_place(at->in[0], &walk, along, index.integer[i], &place));
        put(reduction, &data, place, &updates, i);
    }
    QS_GOTO(qs__array_store(&data, false, at->out));
done:
    qs__array_release(&data);
    qs__array_release(&index);
    qs__array_release(&updates);
    return status;
}

static qs_status evaluate_scatter_nd(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0], *shape = at->in[1];
    qs__array data = {0}, index = {0}, updates = {0};
    char reduction;
    qs_status status = QS_OK;
    const int64_t numbers = shape->rank > 0 ? shape->dim[shape->rank - 1] : -1;
    if (numbers < 1 || numbers > in->rank)
        return qs_fail(QS_BAD_FILE, "indices of %" PRId64 " numbers for data of %d extents", numbers, in->rank);
    const int64_t tuples = qs__dims_product(shape->dim, 0, shape->rank - 1), inner = qs__dims_product(in->dim, (int)numbers, in->rank);
    if (at->in[2]->count != tuples * inner)
        return qs_fail(QS_BAD_FILE, "%" PRId64 " updates for %" PRId64 " places of %" PRId64, at->in[2]->count, tuples, inner);
    QS_GOTO(putting_begin(at, &data, &index, &updates, &reduction));
    for (int64_t tuple = 0; tuple < tuples; tuple++) {
        int64_t place = 0;
        for (int64_t i = 0; i < numbers; i++) {
            int64_t here = index.integer[tuple * numbers + i];
            QS_GOTO(index_check(&here, in->dim[i]));
            place = place * in->dim[i] + here;
        }
        for (int64_t i = 0; i < inner; i++)
            put(reduction, &data, place * inner + i, &updates, tuple * inner + i);
    }
    QS_GOTO(qs__array_store(&data, false, at->out));
done:
    qs__array_release(&data);
    qs__array_release(&index);
    qs__array_release(&updates);
    return status;
}

const qs__operator qs__rows_indexing[] = {
    {"Gather", 1, 0, shape_gather, evaluate_gather, 1, QS__SAMPLEWISE},
    {"GatherElements", 11, 0, shape_gather_elements, evaluate_gather_elements, 1, 0},
    {"GatherND", 11, 0, shape_gather_nd, evaluate_gather_nd, 1, 0},
    {"Compress", 9, 0, shape_compress, evaluate_compress, 1, 0},
    {"Scatter", 9, 10, shape_scatter, evaluate_scatter_elements, 5, 0},
    {"ScatterElements", 11, 0, shape_scatter, evaluate_scatter_elements, 5, 0},
    {"ScatterND", 11, 0, shape_scatter, evaluate_scatter_nd, 5, 0},
    {0},
};
