// SPDX-License-Identifier: Apache-2.0
/* gpt2: the decoder of Radford et al. 2019: learned positions, normalisations before the parts, gelu by tanh, and an output layer that
 * reads the table of tokens. Layers have the names of its published weights, whose packed c_attn holds q, k and v. Of one class it looks at
 * the last position. */
#include "transformer.h"

static const qs__block_style style = {.query = "attn.q",
                                      .key = "attn.k",
                                      .value = "attn.v",
                                      .attention = "attn",
                                      .projection = "attn.c_proj",
                                      .first_norm = "ln_1",
                                      .second_norm = "ln_2",
                                      .up = "mlp.c_fc",
                                      .down = "mlp.c_proj",
                                      .activation = "gelu",
                                      .approximate = true,
                                      .norms_first = true,
                                      .causal = true,
                                      .bias = true};

void qs__build_gpt2(qs__builder *builder) {
    const int table = qs__tokens(builder, "wte");
    qs__positions(builder, "wpe");
    qs__sequence_dropout(builder, "drop");
    qs__transformer_blocks(builder, &style, qs__input_find(builder, "keep"), "h.%d.");
    qs__position_norm(builder, "ln_f");
    qs__language_head(builder, "lm_head", table);
}
