// SPDX-License-Identifier: Apache-2.0
/* How transformers are written: sizes, the names that the parts of a family have, and the one block that all of them are made of. Names
 * are those of the families' published weights, so that parameters map to files (docs/weights.md). */
#ifndef QSYNC_GRAPH_TRANSFORMER_H
#define QSYNC_GRAPH_TRANSFORMER_H

#include "layers.h"

/* What the layers of a block are called behind its prefix, and how it computes. */
typedef struct qs__block_style {
    const char *query, *key, *value;      /* projections */
    const char *attention, *projection;   /* the attention itself, and the linear layer behind it */
    const char *first_norm, *second_norm; /* of attention and of the feed-forward part */
    const char *up, *gate, *down;         /* of the feed-forward part; gate NULL: it has none */
    const char *activation;               /* the operator */
    bool approximate;                     /* gelu by tanh */
    bool norms_first;                     /* normalisations before the parts (GPT-2) and not behind the sums (BERT) */
    bool causal, rotary, bias;
} qs__block_style;

/* One block on the sequence at hand; `keep`: the node that says which positions count, -1: all do. */
void qs__transformer_block(qs__builder *builder, const qs__block_style *style, int keep);
/* All blocks, each with the prefix that `format` gives for its number. */
void qs__transformer_blocks(qs__builder *builder, const qs__block_style *style, int keep, const char *format);
/* The table of tokens, on the input "ids"; returns its node. */
int qs__tokens(qs__builder *builder, const char *name);
/* Adds learned positions. */
void qs__positions(qs__builder *builder, const char *name);
/* The vector of one position, from the end where it is negative. */
void qs__position(qs__builder *builder, const char *name, int position);
/* Logits of the next token at each position, by the table of tokens where the size says so; or a class, "score", of the last position. */
void qs__language_head(qs__builder *builder, const char *name, int table);
/* A normalisation of each position. */
void qs__position_norm(qs__builder *builder, const char *name);
/* Dropout with the probability of the size; nothing where that is 0. */
void qs__sequence_dropout(qs__builder *builder, const char *name);
/* The node of an input by its name; -1: there is none. */
int qs__input_find(const qs__builder *builder, const char *name);

#endif
