// SPDX-License-Identifier: Apache-2.0
/* Names of parameters in weights files: PyTorch's. A node's weights, or a normalisation's scale, are NODE.weight; bias or shift NODE.bias;
 * the variance of a batch norm NODE.running_var; all others are called as here. Some models are stored otherwise: rules say how; and
 * parameters of imported models are called as in the user's own file. */
#include <fnmatch.h>
#include <string.h>

#include "checkpoint_internal.h"

/* A rule for nodes whose names end in `node`: the tensors of the name where `file` stands instead. */
typedef struct rule {
    const char *node, *file;
    int part, parts;
} rule;

struct qs__layout {
    const char *node;   /* graphs of the family have one whose name ends so */
    const char *model;  /* and names that begin so; NULL: any */
    const char *prefix; /* of all tensors but those of the heads, as the classes of Hugging Face's transformers with heads have it */
    const char *heads[3];
    const char *bare[2]; /* nodes whose one parameter has their name alone, and an axis of one sample before its own */
    const rule *rule;
    int rules;
    bool transposed; /* all matrices of the rules are [in, out] */
};

/* GPT-2: one matrix for queries, keys and values. Its original stores matrices as what multiplies from the right; minGPT and nanoGPT store
 * them as PyTorch's linear layers do. */
static const rule packed[] = {{".attn.q", ".attn.c_attn", 0, 3}, {".attn.k", ".attn.c_attn", 1, 3},
                              {".attn.v", ".attn.c_attn", 2, 3}, {".attn.c_proj", ".attn.c_proj", 0, 1},
                              {".mlp.c_fc", ".mlp.c_fc", 0, 1},  {".mlp.c_proj", ".mlp.c_proj", 0, 1}};
enum { PACKED = sizeof packed / sizeof *packed };
static const char packed_name[] = ".attn.c_attn.weight";

enum { GPT2, MINGPT, GPT2_APART, ROBERTA, BERT, VIT, LAYOUTS };
static const qs__layout layouts[LAYOUTS] = {
    [GPT2] = {".attn.q", NULL, "transformer.", {"lm_head.", "score."}, {NULL}, packed, PACKED, true},
    [MINGPT] = {".attn.q", NULL, "transformer.", {"lm_head.", "score."}, {NULL}, packed, PACKED, false},
    [GPT2_APART] = {".attn.q", NULL, "transformer.", {"lm_head.", "score."}, {NULL}, NULL, 0, false},
    [ROBERTA] = {".attention.self.query", "roberta", "roberta.", {"classifier.", "qa_outputs."}, {NULL}, NULL, 0, false},
    [BERT] = {".attention.self.query", NULL, "bert.", {"classifier.", "qa_outputs."}, {NULL}, NULL, 0, false},
    [VIT] = {".attention.attention.query",
             NULL,
             "vit.",
             {"classifier."},
             {"embeddings.cls_token", "embeddings.position_embeddings"},
             NULL,
             0,
             false},
};

static bool begins_with(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

static bool ends_in(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

const qs__layout *qs__layout_of_graph(const qs_graph *graph) {
    for (int i = 0; i < LAYOUTS; i++)
        for (int n = 0; n < graph->nodes; n++)
            if (ends_in(graph->node[n].name, layouts[i].node) && (!layouts[i].model || begins_with(graph->name, layouts[i].model)))
                return &layouts[i];
    return NULL;
}

/* A matrix of queries, keys and values has three times as many outputs as inputs. */
const qs__layout *qs__layout_of_file(const qs_tensor_set *set, const qs_graph *graph) {
    const qs__layout *layout = qs__layout_of_graph(graph);
    for (size_t i = 0; i < set->count; i++) {
        const qs_shape *shape = &set->tensors[i].tensor.shape;
        if (!ends_in(set->tensors[i].name, packed_name) || shape->axes != 2) continue;
        return &layouts[shape->dim[0] > shape->dim[1] ? MINGPT : GPT2];
    }
    return layout == &layouts[GPT2] ? &layouts[GPT2_APART] : layout;
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
    const char *node = graph->node[parameter->node].name, *prefix = layout ? layout->prefix : "";
    const char *kind = kind_of(parameter, parameter->name + strlen(node) + 1);
    qs__place place = {.parts = 1};
    if (parameter->origin.file[0]) {
        place.transposed = parameter->origin.transposed;
        place.shape = parameter->origin.shape;
        memcpy(place.name, parameter->origin.file, sizeof place.name);
        return place;
    }
    for (int i = 0; layout && i < 3; i++)
        if (layout->heads[i] && begins_with(parameter->name, layout->heads[i])) prefix = "";
    for (int i = 0; layout && i < 2; i++)
        place.bare = place.bare || (layout->bare[i] && strcmp(node, layout->bare[i]) == 0);
    snprintf(place.name, sizeof place.name, "%s%s%s%s", prefix, node, place.bare ? "" : ".", place.bare ? "" : kind);
    for (int i = 0; layout && i < layout->rules; i++) {
        const rule *one = &layout->rule[i];
        if (!ends_in(node, one->node)) continue;
        place.part = one->part;
        place.parts = one->parts;
        place.transposed = layout->transposed && parameter->shape.axes == 2;
        snprintf(place.name, sizeof place.name, "%s%.*s%s.%s", prefix, (int)(strlen(node) - strlen(one->node)), node, one->file, kind);
    }
    return place;
}

qs_shape qs__place_shape(const qs__place *place, const qs_parameter *parameter) {
    qs_shape shape = parameter->shape;
    if (place->shape.axes > 0) return place->shape;
    shape.dim[0] *= place->parts;
    if (place->bare) return qs_shape_of(3, 1, shape.dim[0], shape.dim[1]);
    return place->transposed ? qs_shape_of(2, shape.dim[1], shape.dim[0]) : shape;
}

bool qs__is_computed(const char *name) {
    static const char *const patterns[] = {"*.num_batches_tracked", "*.position_ids",     "*.token_type_ids",
                                           "*.attn.bias",           "*.attn.masked_bias", "*.rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}
