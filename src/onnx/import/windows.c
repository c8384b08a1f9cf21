// SPDX-License-Identifier: Apache-2.0
/* Operators that see images: convolutions, pools, normalisations over positions, padding and resizing. Sequences are images of one row. */
#include <string.h>

#include "family.h"

/* A window over the spatial axes, as height and width. */
typedef struct window {
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    int64_t result[2];
} window;

static void pair_of(int count, const int64_t *list, int64_t otherwise, int64_t out[2]) {
    out[0] = count > 1 ? list[0] : otherwise;
    out[1] = count > 0 ? list[count - 1] : otherwise;
}

/* auto_pad or pads; a sequence's height is 1. `ceil`: windows that begin inside may end outside. */
static bool window_read(qs__import *one, const qs__node *node, const int64_t *kernel, int spatial, const qs_shape *image, window *out) {
    int64_t list[QS__MOST_RANK];
    int count;
    if (spatial < 1 || spatial > 2) {
        qs__refuse_node(one, "over %d axes: 1 or 2 can be", spatial);
        return false;
    }
    pair_of(spatial, kernel, 1, out->kernel);
    count = qs__int_list(one, node, "strides", -1, list);
    pair_of(count, list, 1, out->stride);
    count = qs__int_list(one, node, "dilations", -1, list);
    pair_of(count, list, 1, out->dilation);
    const char *automatic = qs__word(one, node, "auto_pad", "NOTSET");
    count = qs__int_list(one, node, "pads", -1, list);
    const bool ceil = qs__int(one, node, "ceil_mode", 0) != 0;
    for (int i = 0; i < 2; i++) {
        const int64_t has = image->dim[2 + i], spans = out->dilation[i] * (out->kernel[i] - 1) + 1;
        const int at = spatial == 1 ? i - 1 : i;
        out->begin[i] = out->end[i] = 0;
        if (out->kernel[i] < 1 || out->stride[i] < 1 || out->dilation[i] < 1) {
            qs__refuse_node(one, "a kernel, stride or dilation below 1");
            return false;
        }
        if (strncmp(automatic, "SAME", 4) == 0) {
            const int64_t results = (has + out->stride[i] - 1) / out->stride[i], needs = (results - 1) * out->stride[i] + spans - has;
            const int64_t all = needs > 0 ? needs : 0;
            out->begin[i] = strcmp(automatic, "SAME_LOWER") == 0 ? all - all / 2 : all / 2;
            out->end[i] = all - out->begin[i];
        } else if (strcmp(automatic, "VALID") != 0 && count > 0 && at >= 0) {
            out->begin[i] = list[at];
            out->end[i] = list[count / 2 + at];
        }
        const int64_t room = has + out->begin[i] + out->end[i] - spans;
        if (room < 0) {
            qs__refuse_node(one, "a window of %lld over %lld", (long long)spans, (long long)(has + out->begin[i] + out->end[i]));
            return false;
        }
        out->result[i] = room / out->stride[i] + 1;
        /* A last window that begins within the image or the padding before it. */
        if (ceil && room % out->stride[i] != 0 && out->result[i] * out->stride[i] < has + out->begin[i]) {
            out->end[i] += out->stride[i] - room % out->stride[i];
            out->result[i]++;
        }
    }
    return true;
}

static void window_write(qs__import *one, int source, const window *is) {
    qs_graph_operator *row = qs__row(one, source);
    for (int i = 0; i < 2; i++) {
        row->kernel[i] = (int)is->kernel[i];
        row->stride[i] = (int)is->stride[i];
        row->padding[i] = (int)is->begin[i];
        row->dilation[i] = (int)is->dilation[i];
        row->padding_more[i] = (int)(is->end[i] - is->begin[i]);
    }
}

/* Output of an operator over an image of `channels`, with the axes that the input has. */
static void image_out(qs__import *one, const qs__node *node, int source, const qs__value *x, int64_t channels, const int64_t extent[2]) {
    const int spatial = qs__rank(x) - 2;
    const qs_shape shape = qs_shape_of(4, (int64_t)1, channels, extent[0], extent[1]);
    const qs__layout layout = qs__image_like(x, channels, spatial, spatial == 1 ? extent + 1 : extent);
    qs__flow(qs__made_by(one, node, 0), source, shape, &layout);
}

/* ---- Convolutions --------------------------------------------------------------------------------------------------------- */

static const qs__value *numbers_in(qs__import *one, const qs__node *node, int index, const char *what) {
    const qs__value *value = qs__read_by(one, node, index);
    if (value && value->kind == QS__NUMBERS) return value;
    if (!value || value->kind != QS__UNKNOWN) qs__refuse_node(one, "its %s are not numbers of the file", what);
    return NULL;
}

void qs__import_Conv(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_shape image;
    window with;
    int64_t kernel[QS__MOST_RANK];
    const qs__value *weights = numbers_in(one, node, 1, "weights"), *bias = qs__read_by(one, node, 2);
    if (!weights || !qs__flow_in(one, node, 0, &x)) return;
    const int spatial = qs__rank(weights) - 2;
    if (bias && !(bias = numbers_in(one, node, 2, "biases"))) return;
    for (int i = 0; i < spatial; i++)
        kernel[i] = qs__extent(weights, 2 + i);
    if (spatial != qs__rank(&x) - 2) {
        qs__refuse_node(one, "weights of %d axes over a value of %d", spatial + 2, qs__rank(&x));
        return;
    }
    const int source = qs__bring_image(one, &x, &image);
    const int64_t groups = qs__int(one, node, "group", 1), outputs = qs__extent(weights, 0);
    if (!window_read(one, node, kernel, spatial, &image, &with)) return;
    if (groups < 1 || image.dim[1] != qs__extent(weights, 1) * groups) {
        qs__refuse_node(one, "%lld channels, weights of %lld in %lld groups", (long long)image.dim[1], (long long)qs__extent(weights, 1),
                        (long long)groups);
        return;
    }
    const int made = qs__make(one, "conv2d", weights, 1, &source, qs_shape_of(4, (int64_t)1, outputs, with.result[0], with.result[1]));
    qs_graph_operator *row = qs__row(one, made);
    window_write(one, made, &with);
    row->groups = (int)groups;
    row->outputs = outputs;
    row->bias = bias != NULL;
    qs__give(one, made, "weights", weights);
    if (bias) qs__give(one, made, "bias", bias);
    image_out(one, node, made, &x, outputs, with.result);
}

void qs__import_ConvTranspose(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_shape image;
    window with = {.kernel = {0, 0}};
    int64_t kernel[QS__MOST_RANK], list[QS__MOST_RANK], extra[2], wanted[2], result[2];
    const qs__value *weights = numbers_in(one, node, 1, "weights"), *bias = qs__read_by(one, node, 2);
    if (!weights || !qs__flow_in(one, node, 0, &x)) return;
    if (bias && !(bias = numbers_in(one, node, 2, "biases"))) return;
    const int spatial = qs__rank(weights) - 2;
    const int source = qs__bring_image(one, &x, &image);
    if (spatial != qs__rank(&x) - 2 || spatial < 1 || spatial > 2) {
        qs__refuse_node(one, "weights of %d axes over a value of %d", spatial + 2, qs__rank(&x));
        return;
    }
    for (int i = 0; i < spatial; i++)
        kernel[i] = qs__extent(weights, 2 + i);
    pair_of(spatial, kernel, 1, with.kernel);
    pair_of(qs__int_list(one, node, "strides", -1, list), list, 1, with.stride);
    pair_of(qs__int_list(one, node, "dilations", -1, list), list, 1, with.dilation);
    pair_of(qs__int_list(one, node, "output_padding", -1, list), list, 0, extra);
    pair_of(qs__int_list(one, node, "output_shape", -1, list), list, 0, wanted);
    const int pads = qs__int_list(one, node, "pads", -1, list);
    const char *automatic = qs__word(one, node, "auto_pad", "NOTSET");
    const int64_t groups = qs__int(one, node, "group", 1);
    if (groups < 1 || groups > image.dim[1] || image.dim[1] != qs__extent(weights, 0)) {
        qs__refuse_node(one, "%lld channels, weights of %lld in %lld groups", (long long)image.dim[1], (long long)qs__extent(weights, 0),
                        (long long)groups);
        return;
    }
    const int64_t outputs = qs__extent(weights, 1) * groups;
    for (int i = 0; i < 2; i++) {
        const int at = spatial == 1 ? i - 1 : i;
        const int64_t full = with.stride[i] * (image.dim[2 + i] - 1) + extra[i] + (with.kernel[i] - 1) * with.dilation[i] + 1;
        if (wanted[i] > 0 || strncmp(automatic, "SAME", 4) == 0) {
            const int64_t all = full - (wanted[i] > 0 ? wanted[i] : image.dim[2 + i] * with.stride[i]);
            with.begin[i] = all < 0 ? 0 : strcmp(automatic, "SAME_UPPER") == 0 ? all / 2 : all - all / 2; /* what is missing: behind */
            with.end[i] = all - with.begin[i];
        } else if (pads > 0 && at >= 0 && strcmp(automatic, "VALID") != 0) {
            with.begin[i] = list[at];
            with.end[i] = list[pads / 2 + at];
        }
        result[i] = full - with.begin[i] - with.end[i];
        with.end[i] -= extra[i]; /* padding of the output is less taken away behind */
    }
    const int made = qs__make(one, "conv_transpose", weights, 1, &source, qs_shape_of(4, (int64_t)1, outputs, result[0], result[1]));
    qs_graph_operator *row = qs__row(one, made);
    window_write(one, made, &with);
    row->groups = (int)groups;
    row->outputs = outputs;
    qs__give(one, made, "weights", weights);
    int last = made;
    if (bias) {
        last = qs__make(one, "offset", bias, 1, &made, qs_shape_of(4, (int64_t)1, outputs, result[0], result[1]));
        qs__give(one, last, "shift", bias);
    }
    image_out(one, node, last, &x, outputs, result);
}

/* ---- Pools ---------------------------------------------------------------------------------------------------------------- */

static void pool(qs__import *one, const qs__node *node, const char *op, bool average) {
    qs__value x;
    qs_shape image;
    window with;
    int64_t kernel[QS__MOST_RANK];
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int spatial = qs__int_list(one, node, "kernel_shape", -1, kernel);
    const int source = qs__bring_image(one, &x, &image);
    if (!window_read(one, node, kernel, spatial, &image, &with)) return;
    const bool padded = with.begin[0] || with.begin[1] || with.end[0] || with.end[1];
    const bool counts = average && padded && qs__int(one, node, "count_include_pad", 0) != 0;
    if (counts && qs__int(one, node, "ceil_mode", 0) != 0)
        qs__note(one, "averages over windows that end outside the padding count what is outside as zeros");
    if (qs__made_by(one, node, 1) && qs__made_by(one, node, 1)->readers > 0) {
        qs__refuse_node(one, "the places of its maxima are read");
        return;
    }
    const int made = qs__make(one, op, NULL, 1, &source, qs_shape_of(4, (int64_t)1, image.dim[1], with.result[0], with.result[1]));
    window_write(one, made, &with);
    qs__row(one, made)->count_padding = counts;
    image_out(one, node, made, &x, image.dim[1], with.result);
}

void qs__import_MaxPool(qs__import *one, const qs__node *node) {
    pool(one, node, "max_pool", false);
}

void qs__import_AveragePool(qs__import *one, const qs__node *node) {
    pool(one, node, "average_pool", true);
}

void qs__import_GlobalAveragePool(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_shape image;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int source = qs__bring_image(one, &x, &image);
    const int made =
        qs__make(one, "global_average_pool", NULL, 1, &source, qs_shape_of(4, (int64_t)1, image.dim[1], (int64_t)1, (int64_t)1));
    image_out(one, node, made, &x, image.dim[1], (const int64_t[2]){1, 1});
}

void qs__import_GlobalMaxPool(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_shape image;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int source = qs__bring_image(one, &x, &image);
    const int made = qs__make(one, "reduce_max", NULL, 1, &source, qs_shape_of(4, (int64_t)1, image.dim[1], (int64_t)1, (int64_t)1));
    image_out(one, node, made, &x, image.dim[1], (const int64_t[2]){1, 1});
}

/* ---- Normalisations over channels ----------------------------------------------------------------------------------------- */

/* Axis 1 as channels: behind a flatten in the file's order of features, which weights files keep for what reads it. */
static int channels_of(qs__import *one, qs__value *x, qs_shape *shape) {
    int source;
    if (qs__flattened(one, x, 1, &source, shape)) return source;
    if (qs__rank(x) == 4 || (qs__rank(x) == 3 && x->shape.axes == 4)) return qs__bring_image(one, x, shape);
    const int64_t channels = qs__bring_last(one, x, 1, (const int[]){1});
    return qs__seen(one, x, channels, shape);
}

void qs__import_BatchNormalization(qs__import *one, const qs__node *node) {
    static const char *const names[] = {"scale", "shift", "running_mean", "running_variance"};
    qs__value x;
    qs_shape shape;
    const qs__value *parameter[4];
    if (!qs__flow_in(one, node, 0, &x)) return;
    for (int i = 0; i < 4; i++)
        if (!(parameter[i] = numbers_in(one, node, 1 + i, names[i]))) return;
    if (qs__rank(&x) < 2) {
        qs__refuse_node(one, "of one axis");
        return;
    }
    const int source = channels_of(one, &x, &shape);
    const int made = qs__make(one, "batch_norm", parameter[0], 1, &source, shape);
    qs__set(one, made, "epsilon", qs__float(one, node, "epsilon", 1e-5));
    qs__set(one, made, "momentum", 1 - qs__float(one, node, "momentum", 0.9));
    for (int i = 0; i < 4; i++) {
        qs__give(one, made, names[i], parameter[i]);
        if (i >= 2 && qs__row(one, made)->origins > 0) qs__row(one, made)->origin[qs__row(one, made)->origins - 1].constant = false;
    }
    qs__flow(qs__made_by(one, node, 0), made, shape, &x.layout);
}

/* Of an image, with scale and shift of channels. */
static void image_norm(qs__import *one, const qs__node *node, const char *op, int64_t groups) {
    qs__value x;
    qs_shape image;
    const qs__value *scale = numbers_in(one, node, 1, "scale"), *shift = numbers_in(one, node, 2, "shift");
    if (!scale || !shift || !qs__flow_in(one, node, 0, &x)) return;
    const int source = qs__bring_image(one, &x, &image);
    if (scale->tensor->count != image.dim[1] || shift->tensor->count != image.dim[1]) {
        qs__refuse_node(one, "%lld channels, %lld scales", (long long)image.dim[1], (long long)scale->tensor->count);
        return;
    }
    const int made = qs__make(one, op, scale, 1, &source, image);
    if (groups > 0) qs__row(one, made)->groups = (int)groups;
    qs__set(one, made, "epsilon", node->fused ? node->setting : qs__float(one, node, "epsilon", 1e-5));
    qs__give(one, made, "scale", scale);
    qs__give(one, made, "shift", shift);
    qs__flow(qs__made_by(one, node, 0), made, image, &x.layout);
}

void qs__import_InstanceNormalization(qs__import *one, const qs__node *node) {
    image_norm(one, node, "instance_norm", 0);
}

void qs__import_GroupNormalization(qs__import *one, const qs__node *node) {
    image_norm(one, node, "group_norm", node->fused ? node->groups : qs__int(one, node, "num_groups", 1));
}

void qs__import_LRN(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_shape image;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int source = qs__bring_image(one, &x, &image);
    const int made = qs__make(one, "local_response_norm", NULL, 1, &source, image);
    qs__set(one, made, "size", (double)qs__int(one, node, "size", 1));
    qs__set(one, made, "alpha", qs__float(one, node, "alpha", 1e-4));
    qs__set(one, made, "beta", qs__float(one, node, "beta", 0.75));
    qs__set(one, made, "bias", qs__float(one, node, "bias", 1));
    qs__flow(qs__made_by(one, node, 0), made, image, &x.layout);
}
