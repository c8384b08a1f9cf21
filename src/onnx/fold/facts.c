// SPDX-License-Identifier: Apache-2.0
/* Tools of shape rules: axes, lists of integers that are inputs or attributes, shapes that are broadcast. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

qs__fact qs__fact_none(void) {
    return (qs__fact){.type = QS_ONNX_UNDEFINED, .rank = -1};
}

qs__fact qs__fact_of(const qs_onnx_tensor *tensor) {
    qs__fact fact = {.type = tensor->type == QS_ONNX_EXTENTS ? QS_ONNX_INT64 : tensor->type, .rank = tensor->rank, .constant = tensor};
    for (int i = 0; i < tensor->rank; i++)
        fact.extent[i] = qs_onnx_extent_of(tensor->dim[i]);
    return fact;
}

bool qs__given(const qs__shaping *at, int index) {
    return index < at->inputs && at->present[index];
}

qs_status qs__need(const qs__shaping *at, int input) {
    return qs__given(at, input) ? QS_OK : qs_fail(QS_BAD_FILE, "input %d is missing", input);
}

qs_status qs__axis(int64_t axis, int rank, int *out) {
    if (axis < -rank || axis >= rank) return qs_fail(QS_BAD_FILE, "axis %" PRId64 " of %d: must be %d to %d", axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return QS_OK;
}

qs_status qs__extents(const qs__shaping *at, int input, const char *attribute, qs_onnx_extent out[QS__MOST_INTS], int *count, bool *known) {
    *known = true;
    *count = -1;
    if (input >= 0 && qs__given(at, input)) {
        const qs_onnx_tensor *tensor = at->in[input].constant;
        *known = tensor != NULL;
        if (!tensor) return QS_OK;
        if (tensor->rank > 1 || tensor->count > QS__MOST_INTS)
            return qs_fail(QS_BAD_FILE, "input %d must be a list of at most %d integers", input, QS__MOST_INTS);
        for (int64_t i = 0; i < tensor->count; i++) {
            int64_t value;
            if (tensor->type == QS_ONNX_EXTENTS) {
                out[i] = *qs_onnx_tensor_extent(tensor, i);
                continue;
            }
            if (!qs_onnx_type_is_integer(tensor->type))
                return qs_fail(QS_BAD_FILE, "input %d must be integers, it is %s", input, qs_onnx_type_name(tensor->type));
            QS_TRY(qs_onnx_tensor_integers(tensor, i, 1, &value));
            out[i] = qs_onnx_extent_of(value);
        }
        *count = (int)tensor->count;
        return QS_OK;
    }
    const int64_t *ints;
    size_t ints_count;
    if (!attribute || !qs_onnx_attribute_find(at->node, attribute)) return QS_OK;
    QS_TRY(qs_onnx_attribute_ints(at->node, attribute, &ints, &ints_count));
    if (ints_count > QS__MOST_INTS) return qs_fail(QS_BAD_FILE, "attribute \"%s\": more than %d integers", attribute, QS__MOST_INTS);
    for (size_t i = 0; i < ints_count; i++)
        out[i] = qs_onnx_extent_of(ints[i]);
    *count = (int)ints_count;
    return QS_OK;
}

qs_status qs__ints(const qs__shaping *at, int input, const char *attribute, int64_t out[QS__MOST_INTS], int *count, bool *known) {
    qs_onnx_extent extents[QS__MOST_INTS];
    QS_TRY(qs__extents(at, input, attribute, extents, count, known));
    for (int i = 0; *known && i < *count; i++)
        *known = qs_onnx_extent_is_fixed(&extents[i], &out[i]);
    return QS_OK;
}

qs_status qs__axes(const int64_t *axes, int count, int rank, unsigned *out) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        int axis = 0;
        QS_TRY(qs__axis(axes[i], rank, &axis));
        if (*out >> axis & 1) return qs_fail(QS_BAD_FILE, "axis %d is named twice", axis);
        *out |= 1u << axis;
    }
    return QS_OK;
}

/* Of two extents that are broadcast. One of 1 gives the other; what is above 1 must be equal, so the known one decides. */
static qs_status broadcast_extent(qs_onnx_extent *out, const qs_onnx_extent *with) {
    char text[2][QS_ONNX_EXTENT_TEXT];
    int64_t a = -1, b = -1;
    const bool a_fixed = qs_onnx_extent_is_fixed(out, &a), b_fixed = qs_onnx_extent_is_fixed(with, &b);
    if (qs_onnx_extent_equal(out, with) || (b_fixed && b == 1)) return QS_OK;
    if (a_fixed && a == 1) {
        *out = *with;
        return QS_OK;
    }
    if (!qs_onnx_extent_is_known(out) && !b_fixed) return QS_OK; /* may be 1 */
    if (!qs_onnx_extent_is_known(with) && !a_fixed) {
        *out = qs__extent_unknown;
        return QS_OK;
    }
    if (!qs_onnx_extent_is_known(out)) {
        *out = *with;
        return QS_OK;
    }
    if (!qs_onnx_extent_is_known(with)) return QS_OK;
    return qs_fail(QS_BAD_FILE, "extents %s and %s cannot be broadcast to each other", qs_onnx_extent_text(out, text[0]),
                   qs_onnx_extent_text(with, text[1]));
}

qs_status qs__broadcast(qs__fact *out, const qs__fact *with) {
    if (out->rank < 0 || with->rank < 0) {
        out->rank = -1;
        return QS_OK;
    }
    const int rank = out->rank > with->rank ? out->rank : with->rank;
    const int lead = rank - out->rank, lead_with = rank - with->rank;
    memmove(out->extent + lead, out->extent, (size_t)out->rank * sizeof *out->extent);
    for (int i = 0; i < lead; i++)
        out->extent[i] = qs_onnx_extent_of(1);
    out->rank = rank;
    for (int i = lead_with; i < rank; i++)
        QS_TRY(broadcast_extent(&out->extent[i], &with->extent[i - lead_with]));
    return QS_OK;
}

qs_status qs__shape_like(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    at->out[0] = at->in[0];
    at->out[0].constant = NULL;
    return QS_OK;
}

qs_onnx_extent qs__extent_product(const qs_onnx_extent *extent, int first, int end) {
    qs_onnx_extent product = qs_onnx_extent_of(1);
    for (int i = first; i < end; i++)
        product = qs__extent_multiply(&product, &extent[i]);
    return product;
}
