// SPDX-License-Identifier: Apache-2.0
/* The block of transformers: attention and a feed-forward part, each with a residual sum. Values are sequences [N,C,L]; the residual stream
 * is the first input of every sum. */
#include "transformer.h"

#include <string.h>

int qs__input_find(const qs__builder *builder, const char *name) {
    if (builder->status != QS_OK) return -1;
    for (int i = 0; i < builder->graph->samples.inputs; i++)
        if (strcmp(builder->graph->samples.input[i].name, name) == 0) return i;
    return -1;
}

int qs__tokens(qs__builder *builder, const char *name) {
    const int ids = qs__input_find(builder, "ids");
    if (builder->status != QS_OK) return -1;
    if (ids < 0) {
        builder->status = qs_fail(QS_MISMATCH, "the model reads an input called \"ids\", samples have none");
        return -1;
    }
    qs__append(builder, name, "embedding", &(qs_attributes){.vocabulary = builder->size.vocabulary}, 1, &ids, builder->size.hidden, false);
    return builder->at;
}

void qs__positions(qs__builder *builder, const char *name) {
    const qs_attributes with = {.vocabulary = builder->size.positions, .sequences = builder->sequences};
    qs__append(builder, name, "positions", &with, 1, &builder->at, 0, false);
}

void qs__position(qs__builder *builder, const char *name, int position) {
    qs__append(builder, name, "position", &(qs_attributes){.position = position, .sequences = builder->sequences}, 1, &builder->at, 0,
               false);
}

void qs__language_head(qs__builder *builder, const char *name, int table) {
    if (builder->target.kind == QS_TARGET_CLASS) {
        qs__position(builder, "last", -1);
        qs__linear_of(builder, "score", (int)builder->target.classes, false);
    } else if (!builder->size.tied) {
        qs__linear_of(builder, name, builder->size.vocabulary, false);
    } else if (builder->status == QS_OK) {
        builder->status =
            qs_graph_add_tied(builder->graph, name, "linear", NULL, 1, &builder->at, builder->size.vocabulary, false, table, &builder->at);
    }
}

void qs__position_norm(qs__builder *builder, const char *name) {
    qs__append(builder, name, builder->norm, &(qs_attributes){.epsilon = builder->size.epsilon}, 1, &builder->at, 0, false);
}

void qs__sequence_dropout(qs__builder *builder, const char *name) {
    if (builder->size.dropout == 0) return;
    qs__append(builder, name, "dropout", &(qs_attributes){.probability = builder->size.dropout, .batched = true}, 1, &builder->at, 0,
               false);
}

/* A linear layer of the node `input`; returns its node. */
static int project(qs__builder *builder, const char *name, int input, int outputs, bool bias) {
    qs__append(builder, name, "linear", &(qs_attributes){0}, 1, &input, outputs, bias);
    return builder->at;
}

static int rotate(qs__builder *builder, const char *of, int input, int heads) {
    char name[64];
    snprintf(name, sizeof name, "%s.rotary", of);
    qs__append(builder, name, "rotary", &(qs_attributes){.heads = heads, .base = builder->size.rotary_base}, 1, &input, 0, false);
    return builder->at;
}

static void attention(qs__builder *builder, const qs__block_style *style, int keep) {
    const qs__transformer_size *size = &builder->size;
    const int input = builder->at, width = size->hidden / size->heads, keys = size->key_heads * width;
    int read[4] = {project(builder, style->query, input, size->hidden, style->bias), project(builder, style->key, input, keys, style->bias),
                   project(builder, style->value, input, keys, style->bias), keep};
    if (style->rotary) {
        read[0] = rotate(builder, style->query, read[0], size->heads);
        read[1] = rotate(builder, style->key, read[1], size->key_heads);
    }
    const qs_attributes with = {.heads = size->heads,
                                .key_heads = size->key_heads == size->heads ? 0 : size->key_heads,
                                .causal = style->causal,
                                .probability = size->dropout,
                                .sequences = builder->sequences};
    qs__append(builder, style->attention, "attention", &with, keep < 0 ? 3 : 4, read, 0, false);
    qs__linear_of(builder, style->projection, size->hidden, style->bias);
}

static void feed_forward(qs__builder *builder, const qs__block_style *style) {
    const qs__transformer_size *size = &builder->size;
    const int input = builder->at;
    const qs_attributes with = {.approximate = style->approximate};
    char name[64];
    int up = project(builder, style->gate ? style->gate : style->up, input, size->inner, style->bias);
    snprintf(name, sizeof name, "%s.%s", style->gate ? style->gate : style->up, style->activation);
    qs__append(builder, name, style->activation, &with, 1, &up, 0, false);
    if (style->gate) {
        const int gate = builder->at;
        up = project(builder, style->up, input, size->inner, style->bias);
        snprintf(name, sizeof name, "%s.gated", style->up);
        qs__append(builder, name, "multiply", &(qs_attributes){0}, 2, (int[]){gate, up}, 0, false);
    }
    qs__linear_of(builder, style->down, size->hidden, style->bias);
}

/* Dropout, and the sum with the residual stream. */
static void join(qs__builder *builder, const char *part, int stream) {
    char name[64];
    snprintf(name, sizeof name, "%s.dropout", part);
    qs__sequence_dropout(builder, name);
    snprintf(name, sizeof name, "%s.sum", part);
    qs__append(builder, name, "add", &(qs_attributes){0}, 2, (int[]){stream, builder->at}, 0, false);
}

void qs__transformer_block(qs__builder *builder, const qs__block_style *style, int keep) {
    int stream = builder->at;
    if (style->norms_first) qs__position_norm(builder, style->first_norm);
    attention(builder, style, keep);
    join(builder, style->projection, stream);
    if (!style->norms_first) qs__position_norm(builder, style->first_norm);
    stream = builder->at;
    if (style->norms_first) qs__position_norm(builder, style->second_norm);
    feed_forward(builder, style);
    join(builder, style->down, stream);
    if (!style->norms_first) qs__position_norm(builder, style->second_norm);
}

void qs__transformer_blocks(qs__builder *builder, const qs__block_style *style, int keep, const char *format) {
    for (int i = 0; i < builder->size.layers; i++) {
        snprintf(builder->prefix, sizeof builder->prefix, format, i);
        qs__transformer_block(builder, style, keep);
    }
    qs__prefix_none(builder);
}
