// SPDX-License-Identifier: Apache-2.0
/* llama: the decoder of Touvron et al. 2023: root mean square normalisation, rotary positions, gated feed-forward parts, fewer heads of
 * keys and values than of queries where it is told so. The standard size is that of stories260K. Layers have the names of its published
 * weights. */
#include "transformer.h"

static const qs__block_style style = {.query = "self_attn.q_proj",
                                      .key = "self_attn.k_proj",
                                      .value = "self_attn.v_proj",
                                      .attention = "self_attn",
                                      .projection = "self_attn.o_proj",
                                      .first_norm = "input_layernorm",
                                      .second_norm = "post_attention_layernorm",
                                      .up = "mlp.up_proj",
                                      .gate = "mlp.gate_proj",
                                      .down = "mlp.down_proj",
                                      .activation = "silu",
                                      .norms_first = true,
                                      .causal = true,
                                      .rotary = true};

void qs__build_llama(qs__builder *builder) {
    const int table = qs__tokens(builder, "model.embed_tokens");
    qs__transformer_blocks(builder, &style, qs__input_find(builder, "keep"), "model.layers.%d.");
    qs__position_norm(builder, "model.norm");
    qs__language_head(builder, "lm_head", table);
}
