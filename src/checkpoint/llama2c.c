// SPDX-License-Identifier: Apache-2.0
/* Weights files of llama2.c (karpathy/llama2.c, its first format): seven int32 (width, hidden width of the gated layers, layers, heads, key
 * heads, vocabulary, positions), then fp32 tensors, each over all layers, then cosines and sines of rotary positions, which are computed
 * here. A negative vocabulary says that an output matrix of its own follows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_internal.h"

enum { HEADER = 7 * sizeof(int32_t), MOST_LAYERS = 4096 };

/* What the seven numbers say. */
typedef struct extents {
    int64_t width, hidden, layers, heads, key_heads, vocabulary, positions;
    bool output; /* its own matrix */
} extents;

/* The tensors in the order of the file; `format` takes the layer's number. */
typedef enum owner { MODEL, LAYER } owner;
typedef struct part {
    const char *format;
    owner of;
    int64_t rows, columns; /* columns 0: a vector */
    int64_t heads;         /* that its rows are rotated in pairs of; 0: they are not */
} part;
enum { PARTS = 12 };

/* False where they are no extents of a model, with products that stay far from overflow. */
static bool extents_read(const char *file, size_t bytes, extents *out) {
    int32_t said[7];
    const int32_t most = 1 << 24;
    if (bytes < HEADER) return false;
    memcpy(said, file, HEADER);
    for (int i = 0; i < 7; i++)
        if (said[i] == 0 || said[i] > most || said[i] < (i == 5 ? -most : 1)) return false;
    *out = (extents){said[0], said[1], said[2], said[3], said[4], llabs(said[5]), said[6], said[5] < 0};
    return out->layers <= MOST_LAYERS && out->key_heads <= out->heads && out->heads % out->key_heads == 0 &&
           out->width % (2 * out->heads) == 0;
}

/* Returns the bytes that the whole file has. */
static double parts_fill(const extents *of, part list[PARTS]) {
    const int64_t keys = of->width / of->heads * of->key_heads, width = of->width, hidden = of->hidden;
    const part all[PARTS] = {{"model.embed_tokens.weight", MODEL, of->vocabulary, width, 0},
                             {"model.layers.%d.input_layernorm.weight", LAYER, width, 0, 0},
                             {"model.layers.%d.self_attn.q_proj.weight", LAYER, width, width, of->heads},
                             {"model.layers.%d.self_attn.k_proj.weight", LAYER, keys, width, of->key_heads},
                             {"model.layers.%d.self_attn.v_proj.weight", LAYER, keys, width, 0},
                             {"model.layers.%d.self_attn.o_proj.weight", LAYER, width, width, 0},
                             {"model.layers.%d.post_attention_layernorm.weight", LAYER, width, 0, 0},
                             {"model.layers.%d.mlp.gate_proj.weight", LAYER, hidden, width, 0},
                             {"model.layers.%d.mlp.down_proj.weight", LAYER, width, hidden, 0},
                             {"model.layers.%d.mlp.up_proj.weight", LAYER, hidden, width, 0},
                             {"model.norm.weight", MODEL, width, 0, 0},
                             {"lm_head.weight", MODEL, of->vocabulary, width, 0}};
    double values = (double)of->positions * (double)(width / of->heads); /* cosines and sines */
    memcpy(list, all, sizeof all);
    for (int i = 0; i < PARTS - !of->output; i++)
        values += (double)all[i].rows * (double)(all[i].columns > 0 ? all[i].columns : 1) * (double)(all[i].of == LAYER ? of->layers : 1);
    return HEADER + 4 * values;
}

bool qs__llama2c_is(const char *file, size_t bytes, size_t all_bytes) {
    extents of;
    part list[PARTS];
    return extents_read(file, bytes, &of) && parts_fill(&of, list) == (double)all_bytes;
}

qs_status qs__llama2c_read(const char *path, char *file, size_t bytes, qs_tensor_set *out) {
    extents of;
    part list[PARTS];
    qs_tensor_set set = {.memory = file, .hash = qs_hash(file, bytes, 0)};
    if (!extents_read(file, bytes, &of) || parts_fill(&of, list) != (double)bytes)
        return qs_fail(QS_BAD_FILE, "%s: its %zu bytes are not those of the model that its seven first numbers describe", path, bytes);
    QS_TRY(qs_allocate((size_t)(PARTS * of.layers), sizeof *set.tensors, &set.tensors));
    snprintf(set.model, sizeof set.model,
             "llama:layers=%" PRId64 ",hidden=%" PRId64 ",heads=%" PRId64 ",kv=%" PRId64 ",inner=%" PRId64 ",vocab=%" PRId64
             ",positions=%" PRId64 ",tied=%d",
             of.layers, of.width, of.heads, of.key_heads, of.hidden, of.vocabulary, of.positions, !of.output);
    char *at = file + HEADER;
    for (int i = 0; i < PARTS - !of.output; i++) {
        const part *one = &list[i];
        const qs_shape shape = one->columns > 0 ? qs_shape_of(2, one->rows, one->columns) : qs_shape_of(1, one->rows);
        if (i == PARTS - 1) at += of.positions * (of.width / of.heads) * (int64_t)sizeof(float); /* cosines and sines */
        for (int layer = 0; layer < (one->of == LAYER ? of.layers : 1); layer++) {
            qs_named_tensor *named = &set.tensors[set.count++];
            const char *tail = one->of == LAYER ? strstr(one->format, "%d") + 2 : "";
            if (one->of == LAYER)
                snprintf(named->name, sizeof named->name, "model.layers.%d%s", layer, tail);
            else
                snprintf(named->name, sizeof named->name, "%s", one->format);
            strcpy(named->dtype, "F32");
            named->tensor = (qs_tensor){shape, qs_format_of("fp32"), at};
            if (one->heads > 0) {
                const qs_status status = qs__rotary_halves((float *)(void *)at, one->heads, one->rows, one->columns);
                if (status != QS_OK) free(set.tensors);
                QS_TRY(status);
            }
            at += qs_tensor_bytes(&shape, named->tensor.format);
        }
    }
    *out = set;
    return QS_OK;
}
