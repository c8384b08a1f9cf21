// SPDX-License-Identifier: Apache-2.0
/* Operators that move values, or say only how they are seen. */
#include <string.h>

#include "family.h"

/* A copy of what a node reads that may be seen otherwise: a flow or numbers. */
static bool seen_in(qs__import *one, const qs__node *node, int index, qs__value *out) {
    const qs__value *value = qs__read_by(one, node, index);
    if (value && value->kind == QS__NUMBERS && value->rows == 0) {
        *out = *value;
        return true;
    }
    return qs__flow_in(one, node, index, out);
}

/* ---- Extents -------------------------------------------------------------------------------------------------------------- */

/* Other extents of the same elements in their order. */
static void reshape(qs__import *one, const qs__node *node, qs__value *x, int rank, const int64_t *extent, int batch) {
    int64_t all[2] = {1, 1};
    if (rank <= QS__MOST_RANK && qs__layout_reshape(&x->layout, rank, extent, batch)) {
        qs__pass_on(one, node, x);
        return;
    }
    if (x->kind != QS__FLOW || !qs__axis_is_batched(&x->layout, 0)) {
        qs__refuse_node(one, "its extents are cut across each other");
        return;
    }
    qs__bring_rows(one, x);
    for (int f = 0; f < x->layout.factors; f++)
        all[x->layout.factor[f].batch ? 0 : 1] *= x->layout.factor[f].extent;
    x->layout = qs__layout_rows(2, all, true);
    if (qs__layout_reshape(&x->layout, rank, extent, batch))
        qs__pass_on(one, node, x);
    else
        qs__refuse_node(one, "its extents are cut across the batch");
}

void qs__import_Reshape(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t extent[QS__MOST_RANK];
    const int rank = qs__extents_of(one, node->output[0], extent);
    if (!seen_in(one, node, 0, &x)) return;
    if (rank < 0)
        qs__refuse_node(one, "its extents are not known");
    else
        reshape(one, node, &x, rank, extent, qs__batch_axis(one, node->output[0]));
}

void qs__import_Flatten(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t extent[2] = {1, 1};
    if (!seen_in(one, node, 0, &x)) return;
    const int64_t given = qs__int(one, node, "axis", 1);
    const int axis = given == qs__rank(&x) ? qs__rank(&x) : qs__axis_at(one, given, qs__rank(&x));
    for (int a = 0; a < qs__rank(&x); a++)
        extent[a >= axis] *= qs__extent(&x, a);
    int batch = 0;
    for (int a = axis; a < qs__rank(&x); a++)
        if (qs__axis_is_batched(&x.layout, a)) batch = 1;
    reshape(one, node, &x, 2, extent, batch);
}

void qs__import_Transpose(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t given[QS__MOST_RANK];
    int order[QS__MOST_RANK];
    if (!seen_in(one, node, 0, &x)) return;
    const int rank = qs__rank(&x), count = qs__int_list(one, node, "perm", -1, given);
    for (int a = 0; a < rank; a++)
        order[a] = count == rank ? qs__axis_at(one, given[a], rank) : rank - 1 - a;
    qs__layout_transpose(&x.layout, rank, order);
    qs__pass_on(one, node, &x);
}

void qs__import_Squeeze(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t given[QS__MOST_RANK];
    bool gone[QS__MOST_RANK] = {false};
    if (!seen_in(one, node, 0, &x)) return;
    const int rank = qs__rank(&x), count = qs__int_list(one, node, "axes", 1, given);
    for (int i = 0; i < count; i++)
        gone[qs__axis_at(one, given[i], rank)] = true;
    for (int a = 0; a < rank && count == 0; a++)
        gone[a] = qs__extent(&x, a) == 1 && !qs__axis_is_batched(&x.layout, a);
    for (int a = rank - 1; a >= 0; a--) {
        if (!gone[a]) continue;
        if (x.layout.axis[a].count > 0) {
            qs__refuse_node(one, "it takes the batch, or an axis of %lld, away", (long long)qs__extent(&x, a));
            return;
        }
        qs__layout_remove(&x.layout, a);
    }
    qs__pass_on(one, node, &x);
}

void qs__import_Unsqueeze(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t given[QS__MOST_RANK];
    bool put[QS__MOST_RANK] = {false};
    if (!seen_in(one, node, 0, &x)) return;
    const int count = qs__int_list(one, node, "axes", 1, given), rank = qs__rank(&x) + count;
    if (rank > QS__MOST_RANK) {
        qs__refuse_node(one, "%d axes", rank);
        return;
    }
    for (int i = 0; i < count; i++)
        put[qs__axis_at(one, given[i], rank)] = true;
    for (int a = 0; a < rank; a++)
        if (put[a]) qs__layout_insert(&x.layout, a);
    qs__pass_on(one, node, &x);
}

void qs__import_Identity(qs__import *one, const qs__node *node) {
    const qs__value *x = qs__read_by(one, node, 0);
    if (x && x->kind != QS__UNKNOWN) qs__pass_on(one, node, x);
}

void qs__import_Cast(qs__import *one, const qs__node *node) {
    const qs__value *x = qs__read_by(one, node, 0);
    const qs_onnx_type to = (qs_onnx_type)qs__int(one, node, "to", QS_ONNX_FLOAT);
    if (!x || x->kind == QS__UNKNOWN) return;
    if (x->kind == QS__FLOW && !qs_onnx_type_is_float(to))
        qs__refuse_node(one, "of a value to %s", qs_onnx_type_name(to));
    else
        qs__pass_on(one, node, x);
}

void qs__import_Dropout(qs__import *one, const qs__node *node) {
    qs__value x;
    double probability = 0.5, training = 1;
    if (!qs__flow_in(one, node, 0, &x)) return;
    probability = qs__float(one, node, "ratio", probability);
    if (qs__read_by(one, node, 1)) qs__one_number(one, qs__read_by(one, node, 1), &probability);
    if (node->from->opset >= 12) training = 0;
    if (qs__read_by(one, node, 2)) qs__one_number(one, qs__read_by(one, node, 2), &training);
    if (!(probability > 0 && probability < 1) || training == 0) {
        qs__pass_on(one, node, &x);
        return;
    }
    const int made = qs__make(one, "dropout", NULL, 1, &x.source, x.shape);
    qs__set(one, made, "probability", probability);
    qs__row(one, made)->batched = true;
    qs__flow(qs__made_by(one, node, 0), made, x.shape, &x.layout);
}

/* Repeats a value along axes of one index. What is new lies behind the axes before it, as heads do that share their keys; heads of
 * one key head, which has no axis in memory, lie before the channels of a position; of four axes it lies as in an image, whose channels are
 * the last. */
static void repeat(qs__import *one, const qs__node *node, qs__value *x, int rank, const int64_t *extent) {
    static const int image[] = {0, 2, 3, 1};
    const bool is_image = rank == 4;
    qs_shape narrow;
    if (is_image) qs__bring_image(one, x, &narrow);
    qs__value wide = *x;
    int place = 1;
    for (int i = 1; i < rank && one->status == QS_OK; i++) { /* axis 0 is the batch */
        const int a = is_image ? image[i] : i;
        const qs__axis_parts *parts = &wide.layout.axis[a];
        for (int k = 0; k < parts->count; k++)
            if (parts->at[k] >= place) place = parts->at[k] + 1;
        if (qs__extent(x, a) == extent[a]) continue;
        int channels, end;
        if (place == 1 && !is_image && a < rank - 1 && qs__axis_run(&wide.layout, rank - 1, &channels, &end) && end == wide.layout.factors)
            place = channels;
        if (parts->count > 0 || wide.layout.factors == QS__MOST_FACTORS) {
            qs__refuse_node(one, "it repeats axis %d of %lld indices", a, (long long)qs__extent(x, a));
            return;
        }
        qs__layout_add(&wide.layout, a, place);
        wide.layout.factor[place++].extent = extent[a];
    }
    if (is_image) wide.shape = qs_shape_of(4, (int64_t)1, extent[1], extent[2], extent[3]);
    const qs__value out = qs__repeated_as(one, &wide, x);
    qs__flow(qs__made_by(one, node, 0), out.source, out.shape, &out.layout);
}

/* Numbers stand for their repetitions, along the batch too. */
void qs__import_Expand(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t extent[QS__MOST_RANK];
    const int rank = qs__extents_of(one, node->output[0], extent);
    if (!seen_in(one, node, 0, &x)) return;
    bool same = rank >= 0;
    while (same && qs__rank(&x) < rank)
        qs__layout_insert(&x.layout, 0);
    for (int a = 0; a < rank && same; a++)
        same = qs__extent(&x, a) == extent[a] || (extent[a] == 1 && a == 0);
    if (same) {
        qs__pass_on(one, node, &x);
        return;
    }
    if (rank < 0 || rank != qs__rank(&x) || x.parameter || (x.kind == QS__FLOW && !qs__axis_is_batched(&x.layout, 0))) {
        qs__refuse_node(one, rank < 0 ? "its extents are not known" : "it repeats a parameter, or a value along the batch");
        return;
    }
    if (x.kind == QS__NUMBERS) {
        if (!qs__evaluate(one, node)) qs__refuse_node(one, "it repeats numbers");
        return;
    }
    repeat(one, node, &x, rank, extent);
}

/* Blocks of channels become pixels, or pixels channels: axes cut and put in another order. */
static void blocks(qs__import *one, const qs__node *node, bool to_space) {
    static const int depth_first[] = {0, 3, 4, 1, 5, 2}, column_first[] = {0, 1, 4, 2, 5, 3}, to_depth[] = {0, 3, 5, 1, 2, 4};
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int64_t b = qs__int(one, node, "blocksize", 1);
    if (qs__rank(&x) != 4 || b < 1) {
        qs__refuse_node(one, "of %d axes in blocks of %lld", qs__rank(&x), (long long)b);
        return;
    }
    const int64_t n = qs__extent(&x, 0), c = qs__extent(&x, 1), h = qs__extent(&x, 2), w = qs__extent(&x, 3);
    const bool column = strcmp(qs__word(one, node, "mode", "DCR"), "CRD") == 0;
    const int64_t cut_dcr[] = {n, b, b, c / (b * b), h, w}, cut_crd[] = {n, c / (b * b), b, b, h, w},
                  cut_depth[] = {n, c, h / b, b, w / b, b};
    const int64_t space[] = {n, c / (b * b), h * b, w * b}, depth[] = {n, c * b * b, h / b, w / b};
    if (!qs__layout_reshape(&x.layout, 6, !to_space ? cut_depth : column ? cut_crd : cut_dcr, 0)) {
        qs__refuse_node(one, "blocks of %lld do not divide it", (long long)b);
        return;
    }
    qs__layout_transpose(&x.layout, 6, !to_space ? to_depth : column ? column_first : depth_first);
    reshape(one, node, &x, 4, to_space ? space : depth, 0);
}

void qs__import_DepthToSpace(qs__import *one, const qs__node *node) {
    blocks(one, node, true);
}

void qs__import_SpaceToDepth(qs__import *one, const qs__node *node) {
    blocks(one, node, false);
}

/* ---- Parts ---------------------------------------------------------------------------------------------------------------- */

bool qs__flattened(qs__import *one, qs__value *value, int axis, int *source, qs_shape *shape) {
    qs__layout_merge(&value->layout);
    const qs__axis_parts *is = &value->layout.axis[axis];
    const int factors = value->layout.factors;
    if (is->count < 2 || is->count + 1 != factors || is->at[0] != factors - 1) return false;
    for (int i = 1; i < is->count; i++)
        if (is->at[i] != i) return false;
    const int64_t channels = value->layout.factor[factors - 1].extent, first = value->layout.factor[1].extent;
    const qs_shape image = qs_shape_of(4, (int64_t)1, channels, first, qs__layout_span(&value->layout, 2, factors - 1));
    const qs_shape seen = value->shape.axes == 4 && value->shape.dim[1] == channels ? value->shape : image;
    const int from = qs__seen_as(one, value, &seen);
    *shape = qs_shape_of(2, (int64_t)1, qs__layout_count(&value->layout));
    *source = qs__make(one, "flatten", NULL, 1, &from, *shape);
    return true;
}

void qs__cut(qs__import *one, qs__value *value, int axis, int64_t first, int64_t count, int64_t step) {
    const int64_t all = qs__extent(value, axis);
    qs_shape shape;
    if (count == all && step == 1 && first == 0) return;
    if (qs__axis_is_batched(&value->layout, axis)) {
        qs__refuse_node(one, "a part of the batch");
        return;
    }
    if (step != 1) { /* every so many: one of so many in each */
        int64_t extent[QS__MOST_RANK];
        const int rank = qs__rank(value);
        int batch = -1;
        for (int a = 0; a < rank; a++)
            if (qs__axis_is_batched(&value->layout, a)) batch = a + (a > axis);
        for (int a = 0; a < rank; a++)
            extent[a + (a > axis)] = a == axis ? all / step : qs__extent(value, a);
        extent[axis + 1] = step;
        if (step < 1 || all % step != 0 || count != all / step || first >= step || rank == QS__MOST_RANK ||
            !qs__layout_reshape(&value->layout, rank + 1, extent, batch)) {
            qs__refuse_node(one, "every %lld of %lld", (long long)step, (long long)all);
            return;
        }
        qs__cut(one, value, axis + 1, first, 1, 1);
        if (value->layout.axis[axis + 1].count == 0) qs__layout_remove(&value->layout, axis + 1);
        return;
    }
    qs__layout_merge(&value->layout);
    if (value->layout.axis[axis].count > 1) {
        qs__bring_last(one, value, 1, &axis);
        qs__layout_merge(&value->layout);
    }
    const int f = qs__axis_factor(&value->layout, axis);
    if (f < 0 || one->status != QS_OK) return;
    const int64_t inner = qs__layout_span(&value->layout, f + 1, value->layout.factors), outer = qs__layout_span(&value->layout, 1, f);
    int made;
    if (outer == 1 && inner > 1) { /* positions of a sequence */
        const qs_shape sequence = qs_shape_of(3, (int64_t)1, inner, all);
        const int source = qs__seen_as(one, value, &sequence);
        shape = count == 1 ? qs_shape_of(2, (int64_t)1, inner) : qs_shape_of(3, (int64_t)1, inner, count);
        made = qs__make(one, count == 1 ? "position" : "slice", NULL, 1, &source, shape);
        if (count == 1)
            qs__set(one, made, "position", (double)first);
        else
            qs__set(one, made, "along", 1), qs__row(one, made)->offset = (int)first, qs__row(one, made)->outputs = count;
    } else {
        const int source = qs__seen(one, value, all * inner, &shape);
        shape.dim[1] = count * inner;
        made = qs__make(one, "slice", NULL, 1, &source, shape);
        qs__row(one, made)->offset = (int)(first * inner);
        qs__row(one, made)->outputs = count * inner;
    }
    value->source = made;
    value->shape = shape;
    qs__layout_resize(&value->layout, f, count);
}

void qs__import_Slice(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t starts[QS__MOST_RANK], ends[QS__MOST_RANK], axes[QS__MOST_RANK], steps[QS__MOST_RANK];
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int count = qs__int_list(one, node, "starts", 1, starts), rank = qs__rank(&x);
    if (qs__int_list(one, node, "ends", 2, ends) != count) return;
    const int named = qs__int_list(one, node, "axes", 3, axes), stepped = qs__int_list(one, node, "steps", 4, steps);
    for (int i = 0; i < count && one->status == QS_OK; i++) {
        const int axis = named > 0 ? qs__axis_at(one, axes[i], rank) : i;
        const int64_t all = qs__extent(&x, axis), step = stepped > 0 ? steps[i] : 1;
        int64_t first = starts[i] < 0 ? starts[i] + all : starts[i], end = ends[i] < 0 ? ends[i] + all : ends[i];
        first = first < 0 ? 0 : first > all ? all : first;
        end = end < 0 ? 0 : end > all ? all : end;
        if (step < 1 || end <= first) {
            qs__refuse_node(one, step < 1 ? "backwards" : "of nothing");
            return;
        }
        if (qs__axis_is_batched(&x.layout, axis) && first == 0 && ends[i] >= all) continue;
        qs__cut(one, &x, axis, first, (end - first - 1) / step + 1, step);
    }
    qs__pass_on(one, node, &x);
}

void qs__import_Split(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t sizes[QS__MOST_RANK], first = 0;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int axis = qs__axis_at(one, qs__int(one, node, "axis", 0), qs__rank(&x)), given = qs__int_list(one, node, "split", 1, sizes);
    const int64_t all = qs__extent(&x, axis), equal = (all + node->outputs - 1) / node->outputs;
    for (int i = 0; i < node->outputs; i++) {
        const int64_t count = given > i ? sizes[i] : equal < all - first ? equal : all - first;
        qs__value part = x;
        qs__node piece = *node;
        piece.outputs = 1;
        piece.output = &node->output[i];
        if (qs__made_by(one, node, i) && qs__made_by(one, node, i)->readers > 0) {
            qs__cut(one, &part, axis, first, count, 1);
            qs__pass_on(one, &piece, &part);
        }
        first += count;
    }
}

/* One vector of the file in front of a sequence. */
static bool class_token(qs__import *one, const qs__node *node, int axis) {
    const qs__value *token = qs__read_by(one, node, 0);
    qs__value x;
    if (node->inputs != 2 || token->kind != QS__NUMBERS || !qs__read_by(one, node, 1) || qs__read_by(one, node, 1)->kind != QS__FLOW)
        return false;
    x = *qs__read_by(one, node, 1);
    if (axis != 1 || qs__rank(&x) != 3 || qs__rank(token) != 3 || qs__extent(token, 1) != 1 || qs__extent(token, 2) != qs__extent(&x, 2))
        return false;
    qs__bring_rows(one, &x);
    const int64_t channels = qs__extent(&x, 2), length = qs__extent(&x, 1);
    const qs_shape sequence = qs_shape_of(3, (int64_t)1, channels, length), shape = qs_shape_of(3, (int64_t)1, channels, length + 1);
    const int source = qs__seen_as(one, &x, &sequence);
    const int made = qs__make(one, "class_token", token, 1, &source, shape);
    const qs__layout layout = qs__rows_like(&x, 3, (const int64_t[]){1, length + 1, channels});
    qs__give(one, made, "weights", token);
    qs__flow(qs__made_by(one, node, 0), made, shape, &layout);
    return true;
}

/* The factor of an axis, which is made of one: a new one of extent 1 where it has none, a merged one where it has several. */
static int factor_make(qs__import *one, qs__value *value, int axis) {
    qs__layout *layout = &value->layout;
    qs__layout_merge(layout);
    if (layout->axis[axis].count > 1) {
        qs__bring_last(one, value, 1, &axis);
        qs__layout_merge(layout);
    }
    if (layout->axis[axis].count > 0 || layout->factors == QS__MOST_FACTORS) return qs__axis_factor(layout, axis);
    /* Behind the axes before it. */
    int at = 1;
    for (int a = 0; a < axis; a++)
        for (int i = 0; i < layout->axis[a].count; i++)
            if (layout->axis[a].at[i] >= at) at = layout->axis[a].at[i] + 1;
    qs__layout_add(layout, axis, at);
    return at;
}

/* Brings `other` into the order of `like`, whatever extents the two have along the axis. */
static bool alike_beside(qs__import *one, qs__value *like, qs__value *other, int axis) {
    const int64_t stand_in = 1000003; /* a prime, which nothing else is cut by */
    qs__layout a = like->layout, b = other->layout;
    const int f = qs__axis_factor(&a, axis), g = qs__axis_factor(&b, axis);
    if (f < 0 || g < 0) return false;
    const int64_t m = a.factor[f].extent, n = b.factor[g].extent;
    int order[QS__MOST_FACTORS], count = 0;
    a.factor[f].extent = b.factor[g].extent = stand_in;
    if (!qs__layout_align(&a, &b) || a.factors != b.factors) return false;
    a.factor[qs__axis_factor(&a, axis)].extent = m;
    b.factor[qs__axis_factor(&b, axis)].extent = n;
    for (int k = 0; k < a.factors; k++)
        for (int x = 0; x < a.axes; x++)
            for (int i = 0; i < a.axis[x].count; i++)
                if (a.axis[x].at[i] == k) order[count++] = b.axis[x].at[i];
    like->layout = a;
    other->layout = b;
    qs__arrange(one, other, order);
    return true;
}

static void concat_two(qs__import *one, qs__value *left, qs__value *right, int axis) {
    qs_shape shape, second;
    const bool by_right = left->layout.axis[axis].count == 0 && right->layout.axis[axis].count > 0;
    factor_make(one, left, axis);
    factor_make(one, right, axis);
    qs__value *like = by_right ? right : left, *other = by_right ? left : right;
    if (!alike_beside(one, like, other, axis)) {
        qs__refuse_node(one, "extents beside axis %d differ", axis);
        return;
    }
    const int f = qs__axis_factor(&left->layout, axis), factors = left->layout.factors;
    const int64_t inner = qs__layout_span(&left->layout, f + 1, factors), outer = qs__layout_span(&left->layout, 1, f);
    const int64_t m = left->layout.factor[f].extent, n = right->layout.factor[f].extent;
    const bool along = outer == 1 && inner > 1;
    int source[2];
    if (along) {
        shape = qs_shape_of(3, (int64_t)1, inner, m);
        second = qs_shape_of(3, (int64_t)1, inner, n);
        source[0] = qs__seen_as(one, left, &shape);
        shape.dim[2] += n;
    } else {
        source[0] = qs__seen(one, left, m * inner, &shape);
        second = shape;
        second.dim[1] = n * inner;
        shape.dim[1] += n * inner;
    }
    source[1] = qs__seen_as(one, right, &second);
    const int made = qs__make(one, "concat", NULL, 2, source, shape);
    if (along) qs__set(one, made, "along", 1);
    left->layout.factor[f].extent = m + n;
    left->source = made;
    left->shape = shape;
}

void qs__import_Concat(qs__import *one, const qs__node *node) {
    qs__value all, next;
    const qs__value *any = NULL;
    for (int i = 0; i < node->inputs; i++) {
        const qs__value *value = qs__read_by(one, node, i);
        if (!value || value->kind == QS__UNKNOWN) return;
        if (value->kind == QS__FLOW) any = value;
    }
    if (!any) {
        qs__refuse_node(one, "of integers");
        return;
    }
    const int axis = qs__axis_at(one, qs__int(one, node, "axis", 1), qs__rank(any));
    if (class_token(one, node, axis) || !qs__flow_in(one, node, 0, &all)) return;
    if (qs__axis_is_batched(&all.layout, axis)) {
        qs__refuse_node(one, "along the batch");
        return;
    }
    for (int i = 1; i < node->inputs; i++) {
        if (!qs__flow_in(one, node, i, &next)) return;
        if (qs__rank(&next) != qs__rank(&all)) {
            qs__refuse_node(one, "values of %d and %d axes", qs__rank(&all), qs__rank(&next));
            return;
        }
        concat_two(one, &all, &next, axis);
    }
    qs__pass_on(one, node, &all);
}
