// SPDX-License-Identifier: Apache-2.0
/* Names of parameters in weights files: PyTorch's. A node's weights, or a normalisation's scale, are NODE.weight; bias or shift NODE.bias;
 * the variance of a batch norm NODE.running_var; all others are called as here. Some models are stored otherwise: rules say how. */
#include <fnmatch.h>
#include <string.h>

#include "checkpoint_internal.h"

/* A rule for nodes whose names end in `node`: the tensors of the name where `file` stands instead. */
typedef struct rule {
    const char *node, *file;
    int part, parts;
} rule;

struct qs__layout {
    const char *packed; /* the node, and in a file the tensor, by which the layout is known */
    const char *node;
    bool transposed; /* all matrices of the rules are [in, out] */
    const rule *rule;
    int rules;
};

/* GPT-2: one matrix for queries, keys and values. Its original stores matrices as what multiplies from the right; minGPT and nanoGPT store
 * them as PyTorch's linear layers do. */
static const rule gpt2_rules[] = {{".attn.q", ".attn.c_attn", 0, 3}, {".attn.k", ".attn.c_attn", 1, 3},
                                  {".attn.v", ".attn.c_attn", 2, 3}, {".attn.c_proj", ".attn.c_proj", 0, 1},
                                  {".mlp.c_fc", ".mlp.c_fc", 0, 1},  {".mlp.c_proj", ".mlp.c_proj", 0, 1}};
enum { GPT2_RULES = sizeof gpt2_rules / sizeof *gpt2_rules };
static const qs__layout gpt2 = {".attn.c_attn.weight", ".attn.q", true, gpt2_rules, GPT2_RULES};
static const qs__layout mingpt = {".attn.c_attn.weight", ".attn.q", false, gpt2_rules, GPT2_RULES};

static bool ends_in(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

const qs__layout *qs__layout_of_graph(const qs_graph *graph) {
    for (int n = 0; n < graph->nodes; n++)
        if (ends_in(graph->node[n].name, gpt2.node)) return &gpt2;
    return NULL;
}

/* A matrix of queries, keys and values has three times as many outputs as inputs. */
const qs__layout *qs__layout_of_file(const qs_tensor_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        const qs_shape *shape = &set->tensors[i].tensor.shape;
        if (!ends_in(set->tensors[i].name, gpt2.packed) || shape->axes != 2) continue;
        return shape->dim[0] > shape->dim[1] ? &mingpt : &gpt2;
    }
    return NULL;
}

static const char *kind_of(const qs_parameter *parameter, const char *own) {
    switch (parameter->role) {
    case QS_WEIGHTS:
    case QS_SCALE:
        return "weight";
    case QS_SHIFT:
        return "bias";
    case QS_RUNNING_VARIANCE:
        return "running_var";
    default:
        return own;
    }
}

qs__place qs__place_of(const qs__layout *layout, const qs_graph *graph, const qs_parameter *parameter) {
    const char *node = graph->node[parameter->node].name;
    const char *kind = kind_of(parameter, parameter->name + strlen(node) + 1);
    qs__place place = {.parts = 1};
    for (int i = 0; layout && i < layout->rules; i++) {
        const rule *one = &layout->rule[i];
        if (!ends_in(node, one->node)) continue;
        place.part = one->part;
        place.parts = one->parts;
        place.transposed = layout->transposed && parameter->shape.axes == 2;
        snprintf(place.name, sizeof place.name, "%.*s%s.%s", (int)(strlen(node) - strlen(one->node)), node, one->file, kind);
        return place;
    }
    snprintf(place.name, sizeof place.name, "%s.%s", node, kind);
    return place;
}

qs_shape qs__place_shape(const qs__place *place, const qs_parameter *parameter) {
    qs_shape shape = parameter->shape;
    shape.dim[0] *= place->parts;
    return place->transposed ? qs_shape_of(2, shape.dim[1], shape.dim[0]) : shape;
}

bool qs__is_computed(const char *name) {
    static const char *const patterns[] = {"*.num_batches_tracked", "*.position_ids",     "*.token_type_ids",
                                           "*.attn.bias",           "*.attn.masked_bias", "*.rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}
