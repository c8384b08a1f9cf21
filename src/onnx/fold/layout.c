// SPDX-License-Identifier: Apache-2.0
/* Operators that give elements another shape or another place: none is computed, so elements of every type are moved as bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* ---- Moving ------------------------------------------------------------------------------------------------------------------------ */

/* Element i of the result is that of input 0 at the place that a walk over the result's shape gives: a start, and a stride an axis. */
static qs_status gather_strided(const qs__evaluation *at, qs_onnx_tensor *out, int64_t start, const int64_t *stride) {
    const size_t size = qs__element_size(out->type);
    char *from = NULL, *to = NULL;
    qs_status status = QS_OK;
    qs__walk walk = qs__walk_over(out->rank, out->dim);
    for (int i = 0; i < out->rank; i++)
        walk.stride[0][i] = stride[i];
    walk.position[0] = start;
    QS_GOTO(qs__bytes_load(at->in[0], &from));
    QS_GOTO(qs_allocate((size_t)out->count, size, &to));
    for (int64_t i = 0; i < out->count; i++, qs__walk_next(&walk))
        memcpy(to + (size_t)i * size, from + (size_t)walk.position[0] * size, size);
    qs__bytes_store(to, out);
done:
    free(from);
    free(to);
    return status;
}

/* Row-major strides of a shape. */
static void strides_of(int rank, const int64_t *dim, int64_t *stride) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= dim[i];
    }
}

static qs_status evaluate_same(const qs__evaluation *at) {
    char *bytes;
    QS_TRY(qs__bytes_load(at->in[0], &bytes));
    qs__bytes_store(bytes, at->out);
    free(bytes);
    return QS_OK;
}

/* ---- Another shape ----------------------------------------------------------------------------------------------------------------- */

/* A file whose batch was fixed says shapes for that batch. Elements keep their order, so the samples are in the extent that begins where
 * they begin in the input: behind `before` elements, the extents in front of theirs, or, where theirs is a multiple of the batch that may
 * hold them last, behind all of that. An extent that says the batch alone is taken before one that would become a multiple of it, and
 * where what follows is the input's next extents the one before it holds them. -1: the input does not say where the samples are. */
static int samples_at(const qs__fact *in, const qs_onnx_extent *want, int rank, int64_t batch) {
    int64_t before = 1, here = 1, value, multiple, behind;
    int axis = 0, found = -1;
    for (; axis < in->rank && qs_onnx_extent_is_fixed(&in->extent[axis], &value); axis++)
        if (__builtin_mul_overflow(before, value, &before)) return -1;
    if (axis >= in->rank || !qs_onnx_extent_is_known(&in->extent[axis])) return -1;
    const qs_onnx_extent rest = qs__extent_divide(&in->extent[axis], &qs__extent_batch);
    if (!qs_onnx_extent_is_fixed(&rest, &multiple) || __builtin_mul_overflow(before, multiple, &behind)) return -1;
    for (int i = 0; i < rank && here <= behind; i++) {
        const bool fixed = qs_onnx_extent_is_fixed(&want[i], &value);
        if ((here == before || here == behind) && fixed && value == batch) return i;
        if (here == before && found < 0) found = i;
        if (!fixed || value <= 0 || __builtin_mul_overflow(here, value, &here)) break;
    }
    /* The input's next extents, one or several, are what would begin there: they stay whole. */
    int64_t whole = 1, next;
    for (int i = axis + 1; found > 0 && multiple == 1 && i < in->rank && qs_onnx_extent_is_fixed(&in->extent[i], &next); i++)
        if (!__builtin_mul_overflow(whole, next, &whole) && qs_onnx_extent_is_fixed(&want[found], &value) && value == whole)
            return found - 1;
    return found;
}

/* Puts the samples into the extents that a file says for its own batch, or for one, where all elements then fit in; `open`: the one that
 * is left open, -1: none. */
static void samples_put(const qs__shaping *at, const qs_onnx_extent *total, qs_onnx_extent *want, int rank, int open) {
    const int64_t batch = at->batch > 0 ? at->batch : 1;
    const int axis = at->in[0].rank < 0 ? -1 : samples_at(&at->in[0], want, rank, batch);
    int64_t said;
    if (axis < 0 || axis == open || !qs_onnx_extent_is_fixed(&want[axis], &said) || said <= 0 || said % batch != 0) return;
    const qs_onnx_extent as_said = want[axis];
    want[axis] = qs_onnx_extent_of(said / batch);
    want[axis] = qs__extent_multiply(&want[axis], &qs__extent_batch);
    qs_onnx_extent all = qs_onnx_extent_of(1);
    for (int i = 0; i < rank; i++)
        if (i != open) all = qs__extent_multiply(&all, &want[i]);
    const qs_onnx_extent quotient = qs__extent_divide(total, &all);
    if (!qs_onnx_extent_is_known(&quotient) || (open < 0 && !qs_onnx_extent_equal(&all, total))) want[axis] = as_said;
}

static qs_status shape_reshape(const qs__shaping *at) {
    qs_onnx_extent want[QS__MOST_INTS];
    int count, open = -1;
    bool known;
    int64_t allow_zero, value;
    QS_TRY(qs__need(at, 0));
    at->out->type = at->in[0].type;
    QS_TRY(qs__extents(at, 1, "shape", want, &count, &known));
    if (!known && at->in[1].rank == 1 && qs_onnx_extent_is_fixed(&at->in[1].extent[0], &value) && value >= 0 && value <= QS_ONNX_MAX_RANK) {
        at->out->rank = (int)value;
        for (int i = 0; i < at->out->rank; i++)
            at->out->extent[i] = qs__extent_unknown;
    }
    if (!known) return QS_OK;
    if (count < 0) return qs_fail(QS_BAD_FILE, "no shape is given");
    if (count > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", count, QS_ONNX_MAX_RANK);
    QS_TRY(qs_onnx_attribute_int(at->node, "allowzero", 0, &allow_zero));
    const qs__fact *in = &at->in[0];
    for (int i = 0; i < count; i++) {
        if (!qs_onnx_extent_is_fixed(&want[i], &value) || value > 0 || (value == 0 && allow_zero)) continue;
        if (value == 0) {
            if (in->rank >= 0 && i >= in->rank) return qs_fail(QS_BAD_FILE, "extent %d is to be that of the input, which has none", i);
            want[i] = in->rank < 0 ? qs__extent_unknown : in->extent[i];
            continue;
        }
        if (value < -1 || open >= 0) return qs_fail(QS_BAD_FILE, "extent %d is %" PRId64 ": one may be -1, others 0 or more", i, value);
        open = i;
    }
    const qs_onnx_extent total = in->rank < 0 ? qs__extent_unknown : qs__extent_product(in->extent, 0, in->rank);
    at->out->rank = count;
    if (open >= 0) {
        if (at->batch > 0) samples_put(at, &total, want, count, open); /* in what is left open they are found by dividing */
        want[open] = qs_onnx_extent_of(1);
        const qs_onnx_extent others = qs__extent_product(want, 0, count);
        int64_t none;
        if (qs_onnx_extent_is_fixed(&others, &none) && none == 0) return qs_fail(QS_BAD_FILE, "-1 beside an extent of 0");
        want[open] = qs__extent_divide(&total, &others);
        int64_t elements;
        if (!qs_onnx_extent_is_known(&want[open]) && qs_onnx_extent_is_fixed(&total, &elements) && qs_onnx_extent_is_fixed(&others, &none))
            return qs_fail(QS_BAD_FILE, "%" PRId64 " elements are no multiple of %" PRId64, elements, none);
    } else {
        qs_onnx_extent product = qs__extent_product(want, 0, count);
        if (!qs_onnx_extent_equal(&product, &total)) samples_put(at, &total, want, count, -1);
        product = qs__extent_product(want, 0, count);
        char text[2][QS_ONNX_EXTENT_TEXT];
        if (qs_onnx_extent_is_known(&product) && qs_onnx_extent_is_known(&total) && !qs_onnx_extent_equal(&product, &total))
            return qs_fail(QS_BAD_FILE, "%s elements cannot have a shape of %s", qs_onnx_extent_text(&total, text[0]),
                           qs_onnx_extent_text(&product, text[1]));
    }
    memcpy(at->out->extent, want, (size_t)count * sizeof *want);
    return QS_OK;
}

static qs_status shape_flatten(const qs__shaping *at) {
    int64_t axis;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 1, &axis));
    const qs__fact *in = &at->in[0];
    *at->out = qs__fact_none();
    at->out->type = in->type;
    if (in->rank < 0) return QS_OK;
    if (axis < -in->rank || axis > in->rank) return qs_fail(QS_BAD_FILE, "axis %" PRId64 ": must be %d to %d", axis, -in->rank, in->rank);
    const int split = (int)(axis < 0 ? axis + in->rank : axis);
    at->out->rank = 2;
    at->out->extent[0] = qs__extent_product(in->extent, 0, split);
    at->out->extent[1] = qs__extent_product(in->extent, split, in->rank);
    return QS_OK;
}

static qs_status shape_squeeze(const qs__shaping *at) {
    int64_t axes[QS__MOST_INTS], one;
    unsigned set = 0;
    int count;
    bool known;
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    at->out->type = in->type;
    QS_TRY(qs__ints(at, 1, "axes", axes, &count, &known));
    if (!known || in->rank < 0) return QS_OK;
    if (count >= 0) QS_TRY(qs__axes(axes, count, in->rank, &set));
    int rank = 0;
    for (int i = 0; i < in->rank; i++) {
        const bool fixed = qs_onnx_extent_is_fixed(&in->extent[i], &one);
        const bool gone = count >= 0 ? set >> i & 1 : fixed && one == 1;
        if (gone && fixed && one != 1) return qs_fail(QS_BAD_FILE, "axis %d has the extent %" PRId64 ", must be 1", i, one);
        if (!gone) at->out->extent[rank++] = in->extent[i];
    }
    at->out->rank = rank;
    return QS_OK;
}

static qs_status shape_unsqueeze(const qs__shaping *at) {
    int64_t axes[QS__MOST_INTS];
    unsigned set;
    int count;
    bool known;
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    at->out->type = in->type;
    QS_TRY(qs__ints(at, 1, "axes", axes, &count, &known));
    if (!known || in->rank < 0) return QS_OK;
    if (count < 0) return qs_fail(QS_BAD_FILE, "no axes are given");
    const int rank = in->rank + count;
    if (rank > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", rank, QS_ONNX_MAX_RANK);
    QS_TRY(qs__axes(axes, count, rank, &set));
    for (int i = 0, from = 0; i < rank; i++)
        at->out->extent[i] = set >> i & 1 ? qs_onnx_extent_of(1) : in->extent[from++];
    at->out->rank = rank;
    return QS_OK;
}

/* ---- Other places ------------------------------------------------------------------------------------------------------------------ */

/* order[i]: the axis of the input that is axis i of the result; backwards where nothing is said. */
static qs_status permutation_of(const qs_onnx_node *node, int rank, int order[QS_ONNX_MAX_RANK]) {
    const int64_t *perm;
    size_t count;
    unsigned seen = 0;
    QS_TRY(qs_onnx_attribute_ints(node, "perm", &perm, &count));
    if (perm && count != (size_t)rank) return qs_fail(QS_BAD_FILE, "attribute \"perm\" has %zu axes, the input %d", count, rank);
    for (int i = 0; i < rank; i++) {
        QS_TRY(qs__axis(perm ? perm[i] : rank - 1 - i, rank, &order[i]));
        if (seen >> order[i] & 1) return qs_fail(QS_BAD_FILE, "attribute \"perm\" names axis %d twice", order[i]);
        seen |= 1u << order[i];
    }
    return QS_OK;
}

static qs_status shape_transpose(const qs__shaping *at) {
    int order[QS_ONNX_MAX_RANK];
    QS_TRY(qs__need(at, 0));
    at->out->type = at->in[0].type;
    if (at->in[0].rank < 0) return QS_OK;
    QS_TRY(permutation_of(at->node, at->in[0].rank, order));
    at->out->rank = at->in[0].rank;
    for (int i = 0; i < at->out->rank; i++)
        at->out->extent[i] = at->in[0].extent[order[i]];
    return QS_OK;
}

static qs_status evaluate_transpose(const qs__evaluation *at) {
    int order[QS_ONNX_MAX_RANK];
    int64_t from[QS_ONNX_MAX_RANK], stride[QS_ONNX_MAX_RANK];
    QS_TRY(permutation_of(at->node, at->in[0]->rank, order));
    strides_of(at->in[0]->rank, at->in[0]->dim, from);
    for (int i = 0; i < at->out->rank; i++)
        stride[i] = from[order[i]];
    return gather_strided(at, at->out, 0, stride);
}

static qs_status shape_expand(const qs__shaping *at) {
    qs_onnx_extent want[QS__MOST_INTS];
    int count;
    bool known;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    at->out->type = at->in[0].type;
    QS_TRY(qs__extents(at, 1, NULL, want, &count, &known));
    if (!known || at->in[0].rank < 0) return QS_OK;
    if (count > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%d extents: at most %d", count, QS_ONNX_MAX_RANK);
    qs__fact shape = {.rank = count};
    int64_t value;
    memcpy(shape.extent, want, (size_t)count * sizeof *want);
    for (int i = 0; i < count; i++)
        if (qs_onnx_extent_is_fixed(&want[i], &value) && value < 0) return qs_fail(QS_BAD_FILE, "extent %d is %" PRId64, i, value);
    *at->out = at->in[0];
    at->out->constant = NULL;
    return qs__broadcast(at->out, &shape);
}

static qs_status evaluate_expand(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0];
    qs__walk walk = qs__walk_over(at->out->rank, at->out->dim);
    qs__walk_broadcast(&walk, 0, in->rank, in->dim);
    return gather_strided(at, at->out, 0, walk.stride[0]);
}

static qs_status shape_tile(const qs__shaping *at) {
    qs_onnx_extent repeats[QS__MOST_INTS];
    int count;
    bool known;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    at->out->type = at->in[0].type;
    QS_TRY(qs__extents(at, 1, NULL, repeats, &count, &known));
    if (!known || at->in[0].rank < 0) return QS_OK;
    if (count != at->in[0].rank) return qs_fail(QS_BAD_FILE, "%d repetitions for %d axes", count, at->in[0].rank);
    at->out->rank = count;
    for (int i = 0; i < count; i++)
        at->out->extent[i] = qs__extent_multiply(&at->in[0].extent[i], &repeats[i]);
    return QS_OK;
}

static qs_status evaluate_tile(const qs__evaluation *at) {
    const qs_onnx_tensor *in = at->in[0], *out = at->out;
    const size_t size = qs__element_size(out->type);
    int64_t stride[QS_ONNX_MAX_RANK];
    char *from = NULL, *to = NULL;
    qs_status status = QS_OK;
    strides_of(in->rank, in->dim, stride);
    qs__walk walk = qs__walk_over(out->rank, out->dim);
    QS_GOTO(qs__bytes_load(in, &from));
    QS_GOTO(qs_allocate((size_t)out->count, size, &to));
    for (int64_t i = 0; i < out->count; i++, qs__walk_next(&walk)) {
        int64_t place = 0;
        for (int axis = 0; axis < out->rank; axis++)
            place += walk.at[axis] % in->dim[axis] * stride[axis];
        memcpy(to + (size_t)i * size, from + (size_t)place * size, size);
    }
    qs__bytes_store(to, at->out);
done:
    free(from);
    free(to);
    return status;
}

/* ---- Joining and cutting ----------------------------------------------------------------------------------------------------------- */

/* Whether an extent is the number that the file has in place of N. */
static bool is_of_batch(const qs__shaping *at, const qs_onnx_extent *extent) {
    int64_t value;
    return at->batch > 0 && qs_onnx_extent_is_fixed(extent, &value) && value == at->batch;
}

static qs_status shape_concat(const qs__shaping *at) {
    int64_t axis;
    int along = 0;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", at->node->opset < 4 ? 1 : 0, &axis));
    *at->out = at->in[0];
    at->out->constant = NULL;
    for (int i = 0; i < at->inputs; i++) {
        QS_TRY(qs__need(at, i));
        const qs__fact *in = &at->in[i];
        if (in->rank < 0) at->out->rank = -1;
        if (at->out->type == QS_ONNX_UNDEFINED) at->out->type = in->type;
        if (in->type != QS_ONNX_UNDEFINED && in->type != at->out->type)
            return qs_fail(QS_BAD_FILE, "inputs of types %s and %s", qs_onnx_type_name(at->out->type), qs_onnx_type_name(in->type));
    }
    if (at->out->rank < 0) return QS_OK;
    QS_TRY(qs__axis(axis, at->out->rank, &along));
    for (int i = 1; i < at->inputs; i++) {
        const qs__fact *in = &at->in[i];
        if (in->rank != at->out->rank) return qs_fail(QS_BAD_FILE, "inputs of %d and %d extents", at->out->rank, in->rank);
        for (int k = 0; k < in->rank; k++) {
            qs_onnx_extent *extent = &at->out->extent[k];
            char text[2][QS_ONNX_EXTENT_TEXT];
            /* What a file of a fixed batch has for that batch stands beside what was found for N samples. */
            if (k == along)
                *extent = qs__extent_add(extent, &in->extent[k]);
            else if (!qs_onnx_extent_is_known(extent) || (k == 0 && is_of_batch(at, extent) && qs_onnx_extent_is_batch(&in->extent[k])))
                *extent = in->extent[k];
            else if (qs_onnx_extent_is_known(&in->extent[k]) && !qs_onnx_extent_equal(extent, &in->extent[k]) &&
                     !(k == 0 && is_of_batch(at, &in->extent[k]) && qs_onnx_extent_is_batch(extent)))
                return qs_fail(QS_BAD_FILE, "extents %s and %s of axis %d differ", qs_onnx_extent_text(extent, text[0]),
                               qs_onnx_extent_text(&in->extent[k], text[1]), k);
        }
    }
    return QS_OK;
}

static qs_status evaluate_concat(const qs__evaluation *at) {
    const qs_onnx_tensor *out = at->out;
    const size_t size = qs__element_size(out->type);
    int64_t axis, placed = 0;
    int along = 0;
    char *to = NULL, *from = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", at->node->opset < 4 ? 1 : 0, &axis));
    QS_TRY(qs__axis(axis, out->rank, &along));
    const int64_t outer = qs__dims_product(out->dim, 0, along), inner = qs__dims_product(out->dim, along + 1, out->rank);
    QS_GOTO(qs_allocate((size_t)out->count, size, &to));
    for (int i = 0; i < at->inputs; i++) {
        const int64_t extent = at->in[i]->dim[along];
        QS_GOTO(qs__bytes_load(at->in[i], &from));
        for (int64_t o = 0; o < outer; o++)
            memcpy(to + (size_t)((o * out->dim[along] + placed) * inner) * size, from + (size_t)(o * extent * inner) * size,
                   (size_t)(extent * inner) * size);
        placed += extent;
        free(from);
        from = NULL;
    }
    qs__bytes_store(to, at->out);
done:
    free(from);
    free(to);
    return status;
}

static qs_status shape_split(const qs__shaping *at) {
    qs_onnx_extent parts[QS__MOST_INTS];
    int64_t axis, outputs, total;
    int along, count;
    bool known;
    QS_TRY(qs__need(at, 0));
    for (int i = 0; i < at->outputs; i++)
        at->out[i].type = at->in[0].type;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs_onnx_attribute_int(at->node, "num_outputs", at->outputs, &outputs));
    QS_TRY(qs__extents(at, 1, "split", parts, &count, &known));
    const qs__fact *in = &at->in[0];
    if (in->rank < 0) return QS_OK;
    QS_TRY(qs__axis(axis, in->rank, &along));
    if (!known || count >= 0) outputs = at->outputs; /* parts are said one by one */
    if (known && count >= 0 && count != at->outputs) return qs_fail(QS_BAD_FILE, "%d parts for %d outputs", count, at->outputs);
    if (count < 0 && outputs != at->outputs) return qs_fail(QS_BAD_FILE, "%" PRId64 " parts for %d outputs", outputs, at->outputs);
    const bool fixed = qs_onnx_extent_is_fixed(&in->extent[along], &total);
    qs_onnx_extent sum = qs_onnx_extent_of(0);
    for (int i = 0; i < at->outputs; i++) {
        const int64_t part = fixed ? (total + outputs - 1) / outputs : 0, before = part * i;
        qs_onnx_extent extent = !known                   ? qs__extent_unknown
                                : count >= 0             ? parts[i]
                                : !fixed                 ? qs__extent_unknown
                                : before + part <= total ? qs_onnx_extent_of(part)
                                                         : qs_onnx_extent_of(before < total ? total - before : 0);
        if (count < 0 && !fixed) {
            const qs_onnx_extent by = qs_onnx_extent_of(outputs);
            extent = qs__extent_divide(&in->extent[along], &by);
        }
        at->out[i] = *in;
        at->out[i].constant = NULL;
        at->out[i].extent[along] = extent;
        int64_t value;
        if (qs_onnx_extent_is_fixed(&extent, &value) && value < 0) return qs_fail(QS_BAD_FILE, "part %d has the extent %" PRId64, i, value);
        sum = qs__extent_add(&sum, &extent);
    }
    int64_t sum_value;
    if (fixed && qs_onnx_extent_is_fixed(&sum, &sum_value) && sum_value != total)
        return qs_fail(QS_BAD_FILE, "parts of %" PRId64 " in all, the axis has %" PRId64, sum_value, total);
    return QS_OK;
}

static qs_status evaluate_split(const qs__evaluation *at) {
    int64_t axis, start = 0, stride[QS_ONNX_MAX_RANK];
    int along = 0;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &along));
    strides_of(at->in[0]->rank, at->in[0]->dim, stride);
    for (int i = 0; i < at->outputs; i++) {
        QS_TRY(gather_strided(at, &at->out[i], start, stride));
        start += at->out[i].dim[along] * stride[along];
    }
    return QS_OK;
}

/* ---- Slice ------------------------------------------------------------------------------------------------------------------------- */

/* What a slice takes of an axis. */
typedef struct cut {
    qs_onnx_extent start, end;
    int64_t step;
} cut;

/* An end of a slice, counted from the end of the axis where it is negative, and held to least .. most. */
static qs_onnx_extent bound(qs_onnx_extent value, const qs_onnx_extent *extent, const qs_onnx_extent *least, const qs_onnx_extent *most) {
    const qs_onnx_extent zero = qs_onnx_extent_of(0);
    int order;
    if (!qs__extent_compare(&value, &zero, &order)) return qs__extent_unknown;
    if (order < 0) value = qs__extent_add(&value, extent);
    int64_t far;
    if (qs_onnx_extent_is_fixed(&value, &far) && far > INT32_MAX) return *most; /* how exporters write "to the end" */
    if (!qs__extent_compare(&value, least, &order)) return qs__extent_unknown;
    if (order < 0) return *least;
    if (!qs__extent_compare(&value, most, &order)) return qs__extent_unknown;
    return order > 0 ? *most : value;
}

/* Starts, ends, axes and steps: inputs since version 10, attributes before. Axes that are not named are whole. */
static qs_status cuts_of(const qs__shaping *at, cut cuts[QS_ONNX_MAX_RANK], bool *known) {
    const qs__fact *in = &at->in[0];
    qs_onnx_extent starts[QS__MOST_INTS], ends[QS__MOST_INTS];
    int64_t axes[QS__MOST_INTS], steps[QS__MOST_INTS];
    int start_count, end_count, axis_count, step_count;
    bool start_known, end_known, axes_known, steps_known;
    const bool by_attributes = at->node->opset < 10;
    QS_TRY(qs__extents(at, by_attributes ? -1 : 1, "starts", starts, &start_count, &start_known));
    QS_TRY(qs__extents(at, by_attributes ? -1 : 2, "ends", ends, &end_count, &end_known));
    QS_TRY(qs__ints(at, by_attributes ? -1 : 3, "axes", axes, &axis_count, &axes_known));
    QS_TRY(qs__ints(at, by_attributes ? -1 : 4, NULL, steps, &step_count, &steps_known));
    *known = axes_known && steps_known && (start_known || end_known);
    for (int i = 0; i < in->rank; i++)
        cuts[i] = (cut){qs_onnx_extent_of(0), in->extent[i], 1};
    if (!*known) return QS_OK;
    const int count = start_known ? start_count : end_count;
    if (count < 0 || (end_known && end_count != count) || (axis_count >= 0 && axis_count != count) ||
        (step_count >= 0 && step_count != count) || count > in->rank)
        return qs_fail(QS_BAD_FILE, "%d starts, %d ends, %d axes and %d steps for %d extents", start_count, end_count, axis_count,
                       step_count, in->rank);
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        int axis = 0;
        QS_TRY(qs__axis(axis_count >= 0 ? axes[i] : i, in->rank, &axis));
        if (seen >> axis & 1) return qs_fail(QS_BAD_FILE, "axis %d is named twice", axis);
        seen |= 1u << axis;
        const qs_onnx_extent zero = qs_onnx_extent_of(0), below = qs_onnx_extent_of(-1), *extent = &in->extent[axis];
        const qs_onnx_extent last = qs__extent_add(extent, &below);
        const int64_t step = step_count >= 0 ? steps[i] : 1;
        if (step == 0) return qs_fail(QS_BAD_FILE, "a step of 0");
        cuts[axis].step = step;
        cuts[axis].start = !start_known ? qs__extent_unknown : bound(starts[i], extent, &zero, step > 0 ? extent : &last);
        cuts[axis].end = !end_known ? qs__extent_unknown
                         : step > 0 ? bound(ends[i], extent, &zero, extent)
                                    : bound(ends[i], extent, &below, &last);
    }
    return QS_OK;
}

static qs_status shape_slice(const qs__shaping *at) {
    cut cuts[QS_ONNX_MAX_RANK];
    bool known;
    QS_TRY(qs__need(at, 0));
    at->out->type = at->in[0].type;
    if (at->in[0].rank < 0) return QS_OK;
    QS_TRY(cuts_of(at, cuts, &known));
    at->out->rank = at->in[0].rank;
    for (int i = 0; i < at->out->rank; i++) {
        qs_onnx_extent length = qs__extent_subtract(&cuts[i].end, &cuts[i].start);
        int64_t value;
        if (!known)
            length = qs__extent_unknown;
        else if (qs_onnx_extent_is_fixed(&length, &value)) {
            const int64_t step = cuts[i].step, taken = step < 0 ? -value : value;
            length = qs_onnx_extent_of(taken <= 0 ? 0 : step == INT64_MIN ? 1 : (taken - 1) / (step < 0 ? -step : step) + 1);
        } else if (cuts[i].step != 1)
            length = qs__extent_unknown;
        at->out->extent[i] = length;
    }
    return QS_OK;
}

static qs_status evaluate_slice(const qs__evaluation *at) {
    qs__fact facts[5];
    bool present[5];
    cut cuts[QS_ONNX_MAX_RANK];
    int64_t from[QS_ONNX_MAX_RANK], stride[QS_ONNX_MAX_RANK], start = 0;
    bool known;
    for (int i = 0; i < 5; i++) {
        present[i] = i < at->inputs && at->in[i];
        facts[i] = present[i] ? qs__fact_of(at->in[i]) : qs__fact_none();
    }
    const qs__shaping shaping = {.node = at->node, .inputs = at->inputs, .in = facts, .present = present};
    QS_TRY(cuts_of(&shaping, cuts, &known));
    strides_of(at->in[0]->rank, at->in[0]->dim, from);
    for (int i = 0; i < at->out->rank; i++) {
        int64_t first;
        if (!qs_onnx_extent_is_fixed(&cuts[i].start, &first)) return qs_fail(QS_UNSUPPORTED, "a start that is not known");
        start += first * from[i];
        stride[i] = at->out->dim[i] > 1 ? from[i] * cuts[i].step : 0;
    }
    return at->out->count == 0 ? QS_OK : gather_strided(at, at->out, start, stride);
}

const qs__operator qs__rows_layout[] = {
    {"Reshape", 1, 0, shape_reshape, evaluate_same, 1, QS__SAMPLEWISE | QS__REARRANGES | QS__SAYS_SHAPE},
    {"Flatten", 1, 0, shape_flatten, evaluate_same, 1, QS__SAMPLEWISE | QS__REARRANGES},
    {"Squeeze", 1, 0, shape_squeeze, evaluate_same, 1, QS__SAMPLEWISE | QS__REARRANGES},
    {"Unsqueeze", 1, 0, shape_unsqueeze, evaluate_same, 1, QS__SAMPLEWISE | QS__REARRANGES},
    {"Transpose", 1, 0, shape_transpose, evaluate_transpose, 1, QS__SAMPLEWISE | QS__REARRANGES},
    {"Expand", 8, 0, shape_expand, evaluate_expand, 1, QS__SAMPLEWISE | QS__REARRANGES | QS__SAYS_SHAPE},
    {"Tile", 6, 0, shape_tile, evaluate_tile, 1, QS__SAMPLEWISE | QS__REARRANGES | QS__SAYS_SHAPE},
    {"Concat", 1, 0, shape_concat, evaluate_concat, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Split", 2, 0, shape_split, evaluate_split, 1, QS__SAMPLEWISE | QS__REARRANGES | QS__SAYS_SHAPE},
    {"Slice", 1, 0, shape_slice, evaluate_slice, 1, QS__SAMPLEWISE | QS__REARRANGES | QS__SAYS_SHAPE},
    {0},
};
