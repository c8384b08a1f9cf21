// SPDX-License-Identifier: Apache-2.0
/* vit: Dosovitskiy et al. 2021, in the tiny and small sizes of Touvron et al. 2021: images are cut into patches, which are the positions of
 * a sequence behind a learned class token. Patches are 16 pixels wide, of images below 128 pixels 1/8 of their width. Layers have the names
 * of its published weights. */
#include "transformer.h"

enum { SMALL = 128, PATCH = 16, PARTS = 8 };

static const qs__block_style style = {.query = "attention.attention.query",
                                      .key = "attention.attention.key",
                                      .value = "attention.attention.value",
                                      .attention = "attention.attention",
                                      .projection = "attention.output.dense",
                                      .first_norm = "layernorm_before",
                                      .second_norm = "layernorm_after",
                                      .up = "intermediate.dense",
                                      .down = "output.dense",
                                      .activation = "gelu",
                                      .norms_first = true,
                                      .bias = true};

void qs__build_vit(qs__builder *builder) {
    const int width = builder->input.width, part = width < SMALL ? width / PARTS : PATCH;
    const int patch = builder->size.patch ? builder->size.patch : part < 1 ? 1 : part;
    qs__need_images(builder, patch);
    qs__conv(builder, "embeddings.patch_embeddings.projection", builder->size.hidden, patch, patch, 0, true);
    qs__append(builder, "embeddings.sequence", "sequence", &(qs_attributes){0}, 1, &builder->at, 0, false);
    qs__append(builder, "embeddings.cls_token", "class_token", &(qs_attributes){0}, 1, &builder->at, 0, false);
    qs__positions(builder, "embeddings.position_embeddings");
    qs__sequence_dropout(builder, "embeddings.dropout");
    qs__transformer_blocks(builder, &style, -1, "encoder.layer.%d.");
    qs__position_norm(builder, "layernorm");
    qs__position(builder, "first", 0);
    qs__linear(builder, "classifier", builder->input.classes);
}
