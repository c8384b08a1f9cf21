// SPDX-License-Identifier: Apache-2.0
/* The layers that model families are written in; each is one node behind the builder's current one. */
#include "layers.h"

#include <math.h>
#include <string.h>

static const double dropout_probability = 0.5; /* of the published vgg and alexnet */

int qs__channels(const qs__builder *builder, int channels) {
    if (builder->width == 1) return channels;
    int eighths = (int)lround(channels * builder->width / 8);
    return eighths < 1 ? 8 : 8 * eighths;
}

void qs__prefix(qs__builder *builder, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(builder->prefix, sizeof builder->prefix, format, arguments);
    va_end(arguments);
}

void qs__prefix_none(qs__builder *builder) {
    builder->prefix[0] = '\0';
}

void qs__need_images(qs__builder *builder, int minimum) {
    const qs_model_input *input = &builder->input;
    if (builder->status != QS_OK || (input->height >= minimum && input->width >= minimum)) return;
    if (input->height == 0) {
        builder->status = qs_fail(QS_USAGE, "the model takes images, not vectors of %d features; mlp takes those", input->channels);
    } else {
        builder->status = qs_fail(QS_USAGE, "images of %dx%d are too small: the model takes %dx%d and larger", input->height, input->width,
                                  minimum, minimum);
    }
}

void qs__append(qs__builder *builder, const char *name, const char *op, const qs_attributes *attributes, int inputs, const int *input,
                int64_t outputs, bool bias) {
    if (builder->status != QS_OK) return;
    char full[sizeof builder->graph->node->name];
    snprintf(full, sizeof full, "%s%s", builder->prefix, name);
    builder->status = qs_graph_add(builder->graph, full, op, attributes, inputs, input, outputs, bias, &builder->at);
}

/* A layer that reads the node at hand and nothing else. */
static void append_simple(qs__builder *builder, const char *name, const char *op, qs_attributes attributes) {
    qs__append(builder, name, op, &attributes, 1, &builder->at, 0, false);
}

static qs_attributes window(int kernel, int stride, int padding) {
    return (qs_attributes){.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}, .groups = 1};
}

void qs__conv(qs__builder *builder, const char *name, int channels, int kernel, int stride, int padding, bool bias) {
    qs_attributes attributes = window(kernel, stride, padding);
    qs__append(builder, name, "conv2d", &attributes, 1, &builder->at, channels, bias);
}

void qs__depthwise(qs__builder *builder, const char *name, int kernel, int stride, int padding) {
    if (builder->status != QS_OK) return;
    int channels = (int)builder->graph->node[builder->at].shape.dim[1];
    qs_attributes attributes = window(kernel, stride, padding);
    attributes.groups = channels;
    qs__append(builder, name, "conv2d", &attributes, 1, &builder->at, channels, false);
}

void qs__linear_of(qs__builder *builder, const char *name, int outputs, bool bias) {
    qs__append(builder, name, "linear", &(qs_attributes){0}, 1, &builder->at, outputs, bias);
}

void qs__linear(qs__builder *builder, const char *name, int outputs) {
    qs__linear_of(builder, name, outputs, true);
}

void qs__norm(qs__builder *builder, const char *name) {
    append_simple(builder, name, builder->norm, (qs_attributes){0});
}

void qs__relu(qs__builder *builder, const char *name) {
    append_simple(builder, name, "relu", (qs_attributes){0});
}

void qs__relu6(qs__builder *builder, const char *name) {
    append_simple(builder, name, "relu", (qs_attributes){.ceiling = 6});
}

void qs__dropout(qs__builder *builder, const char *name) {
    append_simple(builder, name, "dropout", (qs_attributes){.probability = dropout_probability, .batched = true});
}

void qs__max_pool(qs__builder *builder, const char *name, int kernel, int stride, int padding) {
    append_simple(builder, name, "max_pool", window(kernel, stride, padding));
}

void qs__average_pool(qs__builder *builder, const char *name, int kernel, int stride) {
    append_simple(builder, name, "average_pool", window(kernel, stride, 0));
}

void qs__global_average_pool(qs__builder *builder) {
    append_simple(builder, "pool", "global_average_pool", (qs_attributes){0});
    qs__flatten(builder);
}

void qs__add(qs__builder *builder, const char *name, int other) {
    qs__append(builder, name, "add", &(qs_attributes){0}, 2, (int[]){builder->at, other}, 0, false);
}

void qs__slice(qs__builder *builder, const char *name, int offset, int channels) {
    qs__append(builder, name, "slice", &(qs_attributes){.offset = offset}, 1, &builder->at, channels, false);
}

void qs__channel_shuffle(qs__builder *builder, const char *name, int groups) {
    append_simple(builder, name, "channel_shuffle", (qs_attributes){.groups = groups});
}

void qs__concat(qs__builder *builder, const char *name, int other) {
    qs__append(builder, name, "concat", &(qs_attributes){0}, 2, (int[]){other, builder->at}, 0, false);
}

void qs__flatten(qs__builder *builder) {
    if (builder->status != QS_OK || builder->graph->node[builder->at].shape.axes == 2) return;
    append_simple(builder, "flatten", "flatten", (qs_attributes){0});
}

void qs__classifier(qs__builder *builder) {
    qs__linear(builder, "fc", builder->input.classes);
}
