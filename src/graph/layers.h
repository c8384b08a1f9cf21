// SPDX-License-Identifier: Apache-2.0
/* How model families are written: a builder that stands at one node and appends layers behind it.
 *
 * The first failure sticks in `status` and later layers do nothing, so a family reads as a list of layers without checks. */
#ifndef QSYNC_GRAPH_LAYERS_H
#define QSYNC_GRAPH_LAYERS_H

#include "qsync/graph.h"

/* What the options of a transformer say; whole numbers, but for the last three. */
typedef struct qs__transformer_size {
    int layers, hidden, heads, key_heads, inner; /* inner: width of the feed-forward part; key_heads 0: as heads */
    int vocabulary, positions;                   /* rows of the tables of tokens and of learned positions */
    int length, choices;                         /* of samples, where nothing else says it; choices 0: a sample is one sequence */
    int patch;                                   /* of images, in pixels; 0: by their size */
    int tied;                                    /* the output layer of a language model reads the table of tokens */
    double dropout, epsilon, rotary_base;
} qs__transformer_size;

typedef struct qs__builder {
    qs_graph *graph;
    qs_model_input input; /* of models of images */
    qs_target target;     /* what is learnt */
    int sequences;        /* of a sample of tokens, one behind the other, among which one is chosen; 0: it is one */
    qs__transformer_size size;
    const char *model; /* canonical name, for messages */
    int depth;         /* of the model's line in models.def */
    double width;      /* multiplies channel counts */
    const char *norm;  /* the operator that normalises */
    int at;            /* node that the next layer reads */
    char prefix[48];   /* put before layer names: "stage1.block0." */
    qs_status status;
} qs__builder;

/* Channel count under the width option: a multiple of 8, at least 8; untouched at width 1. */
int qs__channels(const qs__builder *builder, int channels);
/* Sets the prefix of the layers to come, or takes it away. */
void qs__prefix(qs__builder *builder, const char *format, ...) QS_PRINTF(2, 3);
void qs__prefix_none(qs__builder *builder);
/* Refuses images smaller than minimum × minimum, and inputs that are no images at all. */
void qs__need_images(qs__builder *builder, int minimum);

/* A layer that reads any nodes; the builder then stands at it. The others are written with it. */
void qs__append(qs__builder *builder, const char *name, const char *op, const qs_attributes *attributes, int inputs, const int *input,
                int64_t outputs, bool bias);
/* Square kernels; a convolution without bias is one that a normalisation follows. */
void qs__conv(qs__builder *builder, const char *name, int channels, int kernel, int stride, int padding, bool bias);
/* Each channel with a filter of its own, without bias. */
void qs__depthwise(qs__builder *builder, const char *name, int kernel, int stride, int padding);
void qs__linear(qs__builder *builder, const char *name, int outputs);
void qs__linear_of(qs__builder *builder, const char *name, int outputs, bool bias);
/* The model's normalisation. */
void qs__norm(qs__builder *builder, const char *name);
void qs__relu(qs__builder *builder, const char *name);
void qs__relu6(qs__builder *builder, const char *name);
void qs__dropout(qs__builder *builder, const char *name);
void qs__max_pool(qs__builder *builder, const char *name, int kernel, int stride, int padding);
void qs__average_pool(qs__builder *builder, const char *name, int kernel, int stride);
/* Pools each channel to one value; the builder stands at a (N, C) matrix behind it. */
void qs__global_average_pool(qs__builder *builder);
/* Adds the node `other` to the one at hand. */
void qs__add(qs__builder *builder, const char *name, int other);
/* `channels` of the node at hand, from `offset` on. */
void qs__slice(qs__builder *builder, const char *name, int offset, int channels);
void qs__channel_shuffle(qs__builder *builder, const char *name, int groups);
/* The channels of the node `other`, then those of the one at hand. */
void qs__concat(qs__builder *builder, const char *name, int other);
/* Nothing when the node at hand is a matrix already. */
void qs__flatten(qs__builder *builder);
/* The last layer, "fc": one linear to the classes. */
void qs__classifier(qs__builder *builder);

#define QS_MODEL(name, family, depth, channels, size, classes) void qs__build_##family(qs__builder *builder);
#define QS_TRANSFORMER(name, family, takes, norm, ...) void qs__build_##family(qs__builder *builder);
#define QS_SIZE(model, name, layers, hidden, heads, inner)
#include "models.def"
#undef QS_MODEL
#undef QS_TRANSFORMER
#undef QS_SIZE

#endif
