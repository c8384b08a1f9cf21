// SPDX-License-Identifier: Apache-2.0
/* Layers of networks: windows, normalisations, resizing, recurrence. They have shapes here; the only one that is computed is layer
 * normalisation, as are the functions that it stands for. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "fold/fold.h"

/* ---- Windows ----------------------------------------------------------------------------------------------------------------------- */

enum { MOST_SPATIAL = QS_ONNX_MAX_RANK - 2 };

/* Settings of a window by axis, as attributes say them. */
typedef struct window {
    int64_t kernel[MOST_SPATIAL], stride[MOST_SPATIAL], dilation[MOST_SPATIAL], before[MOST_SPATIAL], behind[MOST_SPATIAL];
    char same; /* 0: paddings are said; 'U', 'L': so that the result has ceil(extent / stride), the odd one behind or before */
    bool ceil;
} window;

/* A list with a number for each axis, or a standard value for all. */
static qs_status list_of(const qs_onnx_node *node, const char *name, int axes, int64_t standard, int64_t least, int64_t *out) {
    const int64_t *ints;
    size_t count;
    QS_TRY(qs_onnx_attribute_ints(node, name, &ints, &count));
    if (ints && count != (size_t)axes) return qs_fail(QS_BAD_FILE, "attribute \"%s\" has %zu numbers for %d axes", name, count, axes);
    for (int i = 0; i < axes; i++) {
        out[i] = ints ? ints[i] : standard;
        if (out[i] < least || out[i] > INT32_MAX)
            return qs_fail(QS_BAD_FILE, "attribute \"%s\": %" PRId64 " is not %" PRId64 " or more", name, out[i], least);
    }
    return QS_OK;
}

static qs_status window_of(const qs_onnx_node *node, int axes, window *out) {
    int64_t pads[2 * MOST_SPATIAL], ceil_mode;
    const char *automatic;
    *out = (window){0};
    QS_TRY(list_of(node, "kernel_shape", axes, 0, 0, out->kernel));
    QS_TRY(list_of(node, "strides", axes, 1, 1, out->stride));
    QS_TRY(list_of(node, "dilations", axes, 1, 1, out->dilation));
    QS_TRY(list_of(node, "pads", 2 * axes, 0, 0, pads));
    QS_TRY(qs_onnx_attribute_int(node, "ceil_mode", 0, &ceil_mode));
    QS_TRY(qs_onnx_attribute_string(node, "auto_pad", "NOTSET", &automatic));
    out->ceil = ceil_mode != 0;
    if (strcmp(automatic, "SAME_UPPER") == 0) out->same = 'U';
    if (strcmp(automatic, "SAME_LOWER") == 0) out->same = 'L';
    if (!out->same && strcmp(automatic, "VALID") != 0 && strcmp(automatic, "NOTSET") != 0)
        return qs_fail(QS_BAD_FILE, "attribute \"auto_pad\" is \"%.20s\": NOTSET, VALID, SAME_UPPER and SAME_LOWER are known", automatic);
    for (int i = 0; i < axes && strcmp(automatic, "NOTSET") == 0; i++) {
        out->before[i] = pads[i];
        out->behind[i] = pads[axes + i];
    }
    return QS_OK;
}

/* How many places a window has along an axis. Where the extent has a symbol, a step of 1 keeps it. */
static qs_status places(const window *by, int axis, const qs_onnx_extent *extent, qs_onnx_extent *out) {
    const int64_t reach = by->dilation[axis] * (by->kernel[axis] - 1) + 1, stride = by->stride[axis];
    int64_t value;
    *out = qs__extent_unknown;
    if (by->same && stride == 1) {
        *out = *extent;
        return QS_OK;
    }
    const qs_onnx_extent added = qs_onnx_extent_of(by->before[axis] + by->behind[axis] - reach);
    const qs_onnx_extent room = qs__extent_add(extent, &added), one = qs_onnx_extent_of(1);
    if (stride == 1) *out = qs__extent_add(&room, &one);
    if (qs_onnx_extent_is_fixed(extent, &value) && by->same) {
        *out = qs_onnx_extent_of((value + stride - 1) / stride);
        return QS_OK;
    }
    if (!qs_onnx_extent_is_fixed(&room, &value)) return QS_OK;
    if (value < 0) return qs_fail(QS_BAD_FILE, "a window of %" PRId64 " is larger than axis %d with its padding", reach, axis + 2);
    int64_t count = (by->ceil ? value + stride - 1 : value) / stride + 1, whole;
    /* A window that would begin behind the input and its first padding is left out. */
    if (by->ceil && qs_onnx_extent_is_fixed(extent, &whole) && (count - 1) * stride >= whole + by->before[axis]) count--;
    *out = qs_onnx_extent_of(count);
    return QS_OK;
}

/* Batch, channels, then the places of a window. */
static qs_status windows(const qs__shaping *at, const window *by, const qs_onnx_extent *channels) {
    const qs__fact *in = &at->in[0];
    at->out->rank = in->rank;
    at->out->extent[0] = in->extent[0];
    at->out->extent[1] = *channels;
    for (int i = 0; i + 2 < in->rank; i++)
        QS_TRY(places(by, i, &in->extent[i + 2], &at->out->extent[i + 2]));
    return QS_OK;
}

/* At least batch, channels and one axis. */
static qs_status image_check(const qs__fact *in) {
    return in->rank >= 2 ? QS_OK : qs_fail(QS_BAD_FILE, "an input of %d extents: batch and channels are needed", in->rank);
}

/* The kernel's extents are those of the weights where the attribute is missing. */
static qs_status kernel_of(const qs__fact *weights, window *by, bool *known) {
    for (int i = 0; i + 2 < weights->rank; i++) {
        int64_t extent;
        const bool fixed = qs_onnx_extent_is_fixed(&weights->extent[i + 2], &extent);
        if (!by->kernel[i] && !fixed) *known = false;
        if (by->kernel[i] && fixed && by->kernel[i] != extent)
            return qs_fail(QS_BAD_FILE, "attribute \"kernel_shape\" says %" PRId64 ", the weights have %" PRId64, by->kernel[i], extent);
        if (fixed && extent > INT32_MAX) return qs_fail(QS_UNSUPPORTED, "a window of %" PRId64, extent);
        if (!by->kernel[i] && fixed) by->kernel[i] = extent;
    }
    return QS_OK;
}

static qs_status shape_conv(const qs__shaping *at) {
    window by;
    int64_t group, channels, per_group;
    bool known = true;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    const qs__fact *in = &at->in[0], *weights = &at->in[1];
    at->out->type = in->type;
    if (in->rank < 0 || weights->rank < 0) return QS_OK;
    QS_TRY(image_check(in));
    if (weights->rank != in->rank) return qs_fail(QS_BAD_FILE, "weights of %d extents for an input of %d", weights->rank, in->rank);
    QS_TRY(qs_onnx_attribute_int(at->node, "group", 1, &group));
    if (qs_onnx_extent_is_fixed(&in->extent[1], &channels) && qs_onnx_extent_is_fixed(&weights->extent[1], &per_group) &&
        (group < 1 || channels / group != per_group || channels % group != 0))
        return qs_fail(QS_BAD_FILE, "%" PRId64 " channels in %" PRId64 " groups, the weights have %" PRId64, channels, group, per_group);
    QS_TRY(window_of(at->node, in->rank - 2, &by));
    QS_TRY(kernel_of(weights, &by, &known));
    return known ? windows(at, &by, &weights->extent[0]) : QS_OK;
}

/* Places of the result of a transposed convolution along an axis. */
static qs_status shape_conv_transpose(const qs__shaping *at) {
    window by;
    int64_t group, added[MOST_SPATIAL], said[MOST_SPATIAL];
    bool known = true;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    const qs__fact *in = &at->in[0], *weights = &at->in[1];
    at->out->type = in->type;
    if (in->rank < 0 || weights->rank < 0) return QS_OK;
    QS_TRY(image_check(in));
    if (weights->rank != in->rank) return qs_fail(QS_BAD_FILE, "weights of %d extents for an input of %d", weights->rank, in->rank);
    QS_TRY(qs_onnx_attribute_int(at->node, "group", 1, &group));
    QS_TRY(window_of(at->node, in->rank - 2, &by));
    QS_TRY(kernel_of(weights, &by, &known));
    QS_TRY(list_of(at->node, "output_padding", in->rank - 2, 0, 0, added));
    QS_TRY(list_of(at->node, "output_shape", in->rank - 2, 0, 0, said));
    if (!known) return QS_OK;
    const qs_onnx_extent groups = qs_onnx_extent_of(group), minus_one = qs_onnx_extent_of(-1);
    at->out->rank = in->rank;
    at->out->extent[0] = in->extent[0];
    at->out->extent[1] = qs__extent_multiply(&weights->extent[1], &groups);
    for (int i = 0; i + 2 < in->rank; i++) {
        const qs_onnx_extent stride = qs_onnx_extent_of(by.stride[i]), *extent = &in->extent[i + 2];
        const qs_onnx_extent rest = qs_onnx_extent_of(by.dilation[i] * (by.kernel[i] - 1) + 1 + added[i] - by.before[i] - by.behind[i]);
        qs_onnx_extent out = qs__extent_add(extent, &minus_one);
        out = qs__extent_multiply(&out, &stride);
        out = qs__extent_add(&out, &rest);
        if (by.same) out = qs__extent_multiply(extent, &stride);
        int64_t value;
        if (qs_onnx_extent_is_fixed(&out, &value) && value < 0) return qs_fail(QS_BAD_FILE, "paddings leave nothing of axis %d", i + 2);
        at->out->extent[i + 2] = said[i] ? qs_onnx_extent_of(said[i]) : out;
    }
    return QS_OK;
}

static qs_status shape_pool(const qs__shaping *at) {
    window by;
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    at->out->type = in->type;
    if (in->rank < 0) return QS_OK;
    QS_TRY(image_check(in));
    QS_TRY(window_of(at->node, in->rank - 2, &by));
    for (int i = 0; i + 2 < in->rank; i++)
        if (!by.kernel[i]) return qs_fail(QS_BAD_FILE, "attribute \"kernel_shape\" is missing");
    QS_TRY(windows(at, &by, &in->extent[1]));
    if (at->outputs > 1) {
        at->out[1] = at->out[0];
        at->out[1].type = QS_ONNX_INT64;
    }
    return QS_OK;
}

static qs_status shape_global_pool(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    for (int i = 2; i < at->out->rank; i++)
        at->out->extent[i] = qs_onnx_extent_of(1);
    return QS_OK;
}

/* ---- Normalisations ---------------------------------------------------------------------------------------------------------------- */

/* The first result is like the input; what else is given out are statistics, in training. */
static qs_status shape_normalised(const qs__shaping *at) {
    int64_t axis;
    int from;
    QS_TRY(qs__shape_like(at));
    const bool layer = strcmp(at->node->op, "LayerNormalization") == 0;
    if (!layer || at->out->rank < 0) return QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    QS_TRY(qs__axis(axis, at->out->rank, &from));
    for (int k = 1; k < at->outputs && k < 3; k++) {
        at->out[k] = at->out[0];
        for (int i = from; i < at->out->rank; i++)
            at->out[k].extent[i] = qs_onnx_extent_of(1);
    }
    return QS_OK;
}

/* Attention: queries [N,L,H E] or [N,H,L,E], values of K heads as wide as they are; Y has the extents of the queries but for that width.
 * Keys and values of before, and scores, are given out in extents that nobody asks for here. */
static qs_status shape_attention(const qs__shaping *at) {
    int64_t heads, key_heads, channels;
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs__need(at, 2));
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs_onnx_attribute_int(at->node, "q_num_heads", 0, &heads));
    QS_TRY(qs_onnx_attribute_int(at->node, "kv_num_heads", 0, &key_heads));
    const int rank = at->out->rank;
    if (rank < 0) return QS_OK;
    if (rank != 3 && rank != 4) return qs_fail(QS_BAD_FILE, "queries of %d axes, must be 3 or 4", rank);
    if (at->in[2].rank != rank || !qs_onnx_extent_is_fixed(&at->in[2].extent[rank - 1], &channels)) {
        at->out->extent[rank - 1] = qs__extent_unknown;
        return QS_OK;
    }
    if (rank == 3 && (heads < 1 || key_heads < 1 || heads > 1 << 16 || channels % key_heads != 0))
        return qs_fail(QS_BAD_FILE, "%" PRId64 " heads, and %" PRId64 " of %" PRId64 " channels of the values", heads, key_heads, channels);
    at->out->extent[rank - 1] = qs_onnx_extent_of(rank == 3 ? channels / key_heads * heads : channels);
    return QS_OK;
}

/* (x - mean) / sqrt(variance + epsilon) · scale + bias over all that lies from the axis on; beside it the means, and what is multiplied
 * by. Models have it on values that flow; here it is for the few that normalise what is constant. */
static qs_status evaluate_layer_normalization(const qs__evaluation *at) {
    enum { RESULT, MEAN, INVERSE, SCALE, BIAS, ARRAYS };
    qs__array array[ARRAYS] = {{0}};
    const qs_onnx_tensor *in = at->in[0], *scale = at->inputs > 1 ? at->in[1] : NULL, *bias = at->inputs > 2 ? at->in[2] : NULL;
    int64_t axis;
    int from;
    float epsilon;
    qs_status status;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    QS_TRY(qs_onnx_attribute_float(at->node, "epsilon", 1e-5f, &epsilon));
    QS_TRY(qs__axis(axis, in->rank, &from));
    const int64_t rows = qs__dims_product(in->dim, 0, from), columns = qs__dims_product(in->dim, from, in->rank);
    if (!scale || scale->count != columns || (bias && bias->count != columns))
        return qs_fail(QS_UNSUPPORTED, "scale and bias of other than the %" PRId64 " values that are normalised", columns);
    QS_GOTO(qs__array_load(in, &array[RESULT]));
    QS_GOTO(qs__array_load(scale, &array[SCALE]));
    if (bias) QS_GOTO(qs__array_load(bias, &array[BIAS]));
    QS_GOTO(qs__array_make(in->type, rows, &array[MEAN]));
    QS_GOTO(qs__array_make(in->type, rows, &array[INVERSE]));
    if (!array[RESULT].real || !array[SCALE].real || (bias && !array[BIAS].real))
        QS_GOTO(qs_fail(QS_UNSUPPORTED, "it is computed for reals alone"));
    for (int64_t r = 0; r < rows; r++) {
        double *x = array[RESULT].real + r * columns, sum = 0, squares = 0;
        for (int64_t i = 0; i < columns; i++)
            sum += x[i];
        const double mean = sum / (double)columns;
        for (int64_t i = 0; i < columns; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        const double inverse = 1 / sqrt(squares / (double)columns + (double)epsilon);
        for (int64_t i = 0; i < columns; i++)
            x[i] = (x[i] - mean) * inverse * array[SCALE].real[i] + (bias ? array[BIAS].real[i] : 0);
        array[MEAN].real[r] = mean;
        array[INVERSE].real[r] = inverse;
    }
    for (int k = RESULT; k <= INVERSE && k < at->outputs; k++)
        QS_GOTO(qs__array_store(&array[k], false, &at->out[k]));
done:
    for (int k = 0; k < ARRAYS; k++)
        qs__array_release(&array[k]);
    return status;
}

/* ---- Other places ------------------------------------------------------------------------------------------------------------------ */

/* By scales or sizes: inputs since version 10 (Resize 10: scales; later: region, scales, sizes), an attribute of Upsample before. Only some
 * axes where version 18 names them. */
static qs_status shape_resize(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    at->out->type = in->type;
    at->out->rank = in->rank;
    for (int i = 0; i < in->rank; i++)
        at->out->extent[i] = qs__extent_unknown;
    if (in->rank < 0) return QS_OK;
    const bool first = at->node->opset < 11;
    const int scales_input = first ? 1 : 2;
    const int64_t *named;
    const float *scales = NULL;
    float given[QS_ONNX_MAX_RANK];
    size_t axes;
    int64_t size[QS__MOST_INTS];
    qs_onnx_extent sizes[QS__MOST_INTS];
    int count;
    bool known;
    QS_TRY(qs_onnx_attribute_ints(at->node, "axes", &named, &axes));
    if (!named) axes = (size_t)in->rank;
    if (axes > (size_t)in->rank) return qs_fail(QS_BAD_FILE, "%zu axes of %d", axes, in->rank);
    QS_TRY(qs__extents(at, first ? -1 : 3, NULL, sizes, &count, &known));
    const bool by_sizes = known && count > 0;
    if (by_sizes && (size_t)count != axes) return qs_fail(QS_BAD_FILE, "%d sizes for %zu axes", count, axes);
    const qs_onnx_tensor *constant = qs__given(at, scales_input) ? at->in[scales_input].constant : NULL;
    if (!by_sizes && constant && constant->count == (int64_t)axes && constant->type == QS_ONNX_FLOAT) {
        QS_TRY(qs_onnx_tensor_floats(constant, 0, constant->count, given));
        scales = given;
    } else if (!by_sizes && !qs__given(at, scales_input)) {
        size_t scale_count;
        QS_TRY(qs_onnx_attribute_floats(at->node, "scales", &scales, &scale_count));
        if (scales && scale_count != axes) return qs_fail(QS_BAD_FILE, "%zu scales for %zu axes", scale_count, axes);
    }
    if (named) memcpy(at->out->extent, in->extent, sizeof in->extent);
    for (size_t i = 0; i < axes; i++) {
        int axis = (int)i;
        if (named) QS_TRY(qs__axis(named[i], in->rank, &axis));
        const qs_onnx_extent *extent = &in->extent[axis];
        at->out->extent[axis] = qs__extent_unknown;
        if (by_sizes)
            at->out->extent[axis] = sizes[i];
        else if (scales && scales[i] == 1)
            at->out->extent[axis] = *extent;
        else if (scales && qs_onnx_extent_is_fixed(extent, &size[0])) {
            const double scaled = floor((double)size[0] * qs_onnx_decimal(scales[i]));
            if (!(scaled >= 0 && scaled < 1e12)) return qs_fail(QS_BAD_FILE, "a scale of %g", (double)scales[i]);
            at->out->extent[axis] = qs_onnx_extent_of((int64_t)scaled);
        } else if (scales && scales[i] == floorf(scales[i]) && scales[i] > 0 && scales[i] < 1e6f) {
            const qs_onnx_extent factor = qs_onnx_extent_of((int64_t)scales[i]);
            at->out->extent[axis] = qs__extent_multiply(extent, &factor);
        }
    }
    return QS_OK;
}

/* Blocks of channels to places, and back. */
static qs_status shape_blocks(const qs__shaping *at) {
    int64_t block;
    const bool to_places = strcmp(at->node->op, "DepthToSpace") == 0;
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs_onnx_attribute_int(at->node, "blocksize", 0, &block));
    if (at->out->rank < 0) return QS_OK;
    if (at->out->rank != 4 || block < 1 || block > INT16_MAX)
        return qs_fail(QS_BAD_FILE, "blocks of %" PRId64 " of %d extents", block, at->out->rank);
    const qs_onnx_extent side = qs_onnx_extent_of(block), area = qs_onnx_extent_of(block * block);
    for (int i = 1; i < 4; i++) {
        qs_onnx_extent *extent = &at->out->extent[i];
        const qs_onnx_extent *by = i == 1 ? &area : &side;
        *extent = (i == 1) == to_places ? qs__extent_divide(extent, by) : qs__extent_multiply(extent, by);
    }
    return QS_OK;
}

/* ---- Recurrence -------------------------------------------------------------------------------------------------------------------- */

/* X [length, batch, input], W [directions, gates × hidden, input]: Y [length, directions, batch, hidden], last states. */
static qs_status shape_recurrent(const qs__shaping *at) {
    int64_t hidden, layout;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs_onnx_attribute_int(at->node, "layout", 0, &layout));
    const qs__fact *in = &at->in[0], *recurrent = &at->in[2 < at->inputs ? 2 : 1];
    for (int k = 0; k < at->outputs; k++)
        at->out[k].type = in->type;
    if (in->rank < 0 || recurrent->rank < 0) return QS_OK;
    if (in->rank != 3 || recurrent->rank != 3 || at->inputs < 3)
        return qs_fail(QS_BAD_FILE, "an input of %d and recurrent weights of %d extents, must be 3", in->rank, recurrent->rank);
    const qs_onnx_extent directions = recurrent->extent[0], batch = in->extent[layout ? 0 : 1], length = in->extent[layout ? 1 : 0];
    QS_TRY(qs_onnx_attribute_int(at->node, "hidden_size", 0, &hidden));
    const qs_onnx_extent states = hidden > 0 ? qs_onnx_extent_of(hidden) : recurrent->extent[2];
    if (at->outputs > 0) {
        const qs_onnx_extent steps[2][4] = {{length, directions, batch, states}, {batch, length, directions, states}};
        at->out[0].rank = 4;
        memcpy(at->out[0].extent, steps[layout != 0], sizeof steps[0]);
    }
    for (int k = 1; k < at->outputs && k < 3; k++) {
        const qs_onnx_extent last[2][3] = {{directions, batch, states}, {batch, directions, states}};
        at->out[k].rank = 3;
        memcpy(at->out[k].extent, last[layout != 0], sizeof last[0]);
    }
    return QS_OK;
}

const qs__operator qs__rows_layers[] = {
    {"Conv", 1, 0, shape_conv, NULL, 0, 0},
    {"ConvTranspose", 1, 0, shape_conv_transpose, NULL, 0, 0},
    {"MaxPool", 1, 0, shape_pool, NULL, 0, 0},
    {"AveragePool", 7, 0, shape_pool, NULL, 0, 0},
    {"LpPool", 2, 0, shape_pool, NULL, 0, 0},
    {"GlobalAveragePool", 1, 0, shape_global_pool, NULL, 0, 0},
    {"GlobalMaxPool", 1, 0, shape_global_pool, NULL, 0, 0},
    {"GlobalLpPool", 2, 0, shape_global_pool, NULL, 0, 0},
    {"BatchNormalization", 7, 0, shape_normalised, NULL, 0, 0},
    {"InstanceNormalization", 6, 0, shape_normalised, NULL, 0, 0},
    {"LayerNormalization", 17, 0, shape_normalised, evaluate_layer_normalization, 0, 0},
    {"GroupNormalization", 18, 0, shape_normalised, NULL, 0, 0},
    {"RMSNormalization", 23, 0, shape_normalised, NULL, 0, 0},
    {"Attention", 23, 0, shape_attention, NULL, 0, 0},
    {"LpNormalization", 1, 0, shape_normalised, NULL, 0, 0},
    {"MeanVarianceNormalization", 9, 0, shape_normalised, NULL, 0, 0},
    {"LRN", 1, 0, shape_normalised, NULL, 0, 0},
    {"Hardmax", 1, 0, shape_normalised, NULL, 0, 0},
    {"RotaryEmbedding", 23, 0, shape_normalised, NULL, 0, 0},
    {"Resize", 10, 0, shape_resize, NULL, 0, 0},
    {"Upsample", 7, 9, shape_resize, NULL, 0, 0},
    {"DepthToSpace", 1, 0, shape_blocks, NULL, 0, 0},
    {"SpaceToDepth", 1, 0, shape_blocks, NULL, 0, 0},
    {"LSTM", 7, 0, shape_recurrent, NULL, 0, 0},
    {"GRU", 7, 0, shape_recurrent, NULL, 0, 0},
    {"RNN", 7, 0, shape_recurrent, NULL, 0, 0},
    {0},
};
