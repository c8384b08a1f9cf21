// SPDX-License-Identifier: Apache-2.0
/* bert: the encoder of Devlin et al. 2019, with its heads for one class, a class for each token, a span, and a choice among the sequences
 * of a sample; minilm is a smaller one (Wang et al. 2020). roberta: the same with the vocabulary of GPT-2 and a head of its own (Liu et al.
 * 2019). Layers have the names of their published weights; normalisations stand behind the sums. Reads the inputs "ids", and "types" and
 * "keep" where a data set has them. */
#include "transformer.h"

static const qs__block_style style = {.query = "attention.self.query",
                                      .key = "attention.self.key",
                                      .value = "attention.self.value",
                                      .attention = "attention.self",
                                      .projection = "attention.output.dense",
                                      .first_norm = "attention.output.LayerNorm",
                                      .second_norm = "output.LayerNorm",
                                      .up = "intermediate.dense",
                                      .down = "output.dense",
                                      .activation = "gelu",
                                      .bias = true};

static void encode(qs__builder *builder) {
    const int types = qs__input_find(builder, "types"), keep = qs__input_find(builder, "keep");
    const qs__transformer_size *size = &builder->size;
    qs__tokens(builder, "embeddings.word_embeddings");
    if (types >= 0) {
        const int words = builder->at;
        qs__append(builder, "embeddings.token_type_embeddings", "embedding", &(qs_attributes){.vocabulary = 2}, 1, &types, size->hidden,
                   false);
        qs__append(builder, "embeddings.sum", "add", &(qs_attributes){0}, 2, (int[]){words, builder->at}, 0, false);
    }
    qs__positions(builder, "embeddings.position_embeddings");
    qs__position_norm(builder, "embeddings.LayerNorm");
    qs__sequence_dropout(builder, "embeddings.dropout");
    qs__transformer_blocks(builder, &style, keep, "encoder.layer.%d.");
}

/* One number of each sequence, from its first position, by a hidden layer: the class is the one of the largest. */
static void choose(qs__builder *builder) {
    qs__position(builder, "first", 0);
    qs__linear(builder, "pooler.dense", builder->size.hidden);
    qs__append(builder, "pooler.tanh", "tanh", &(qs_attributes){0}, 1, &builder->at, 0, false);
    qs__sequence_dropout(builder, "dropout");
    qs__linear(builder, "classifier", 1);
    qs__append(builder, "scores", "flatten", &(qs_attributes){0}, 1, &builder->at, 0, false);
}

/* A class of the first position, by a hidden layer; or what each position says. */
static void decide(qs__builder *builder, const char *hidden, const char *tanh, const char *last) {
    if (builder->sequences > 0) {
        choose(builder);
        return;
    }
    switch (builder->target.kind) {
    case QS_TARGET_CLASS_PER_POSITION:
        qs__sequence_dropout(builder, "dropout");
        qs__linear(builder, "classifier", (int)builder->target.classes);
        break;
    case QS_TARGET_SPAN:
        qs__linear(builder, "qa_outputs", 2);
        break;
    default:
        qs__position(builder, "first", 0);
        qs__linear(builder, hidden, builder->size.hidden);
        qs__append(builder, tanh, "tanh", &(qs_attributes){0}, 1, &builder->at, 0, false);
        qs__sequence_dropout(builder, "dropout");
        qs__linear(builder, last, (int)(builder->target.kind == QS_TARGET_CLASS ? builder->target.classes : builder->target.extent));
    }
}

void qs__build_bert(qs__builder *builder) {
    encode(builder);
    decide(builder, "pooler.dense", "pooler.tanh", "classifier");
}

void qs__build_roberta(qs__builder *builder) {
    encode(builder);
    decide(builder, "classifier.dense", "classifier.tanh", "classifier.out_proj");
}
