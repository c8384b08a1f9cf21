// SPDX-License-Identifier: Apache-2.0
/* Small random models for property tests: convolutions, batch norms, ReLU, dropout, sums and joined channels of any two values of a stage,
 * pooling between stages, and a random recipe for each operator. The same number gives the same model. */
#ifndef QSYNC_TESTS_KIT_RANDOM_GRAPH
#define QSYNC_TESTS_KIT_RANDOM_GRAPH

#include "kit.h"
#include "schedule.h"

typedef struct dice {
    uint64_t key, counter;
} dice;

static inline int dice_roll(dice *one, int sides) {
    return (int)(qs_random_bits(one->key, one->counter++) % (uint32_t)sides);
}

static inline int random_add(qs_graph *graph, const char *op, const qs_attributes *attributes, int inputs, const int *input, int outputs,
                             bool bias) {
    char name[32];
    int node = -1;
    snprintf(name, sizeof name, "n%d_%s", graph->nodes, op);
    assert_ok(qs_graph_add(graph, name, op, attributes ? attributes : &(qs_attributes){0}, inputs, input, outputs, bias, &node));
    return node;
}

static inline int random_conv(qs_graph *graph, dice *one, int input, int stride) {
    const int kernel = dice_roll(one, 2) ? 3 : 1;
    const qs_attributes attributes = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}};
    return random_add(graph, "conv2d", &attributes, 1, &input, 8, dice_roll(one, 2));
}

/* Two values joined, perhaps interleaved, and half of the channels taken or filtered. */
static inline int random_channels(qs_graph *graph, dice *one, const int *pair) {
    int at = random_add(graph, "concat", NULL, 2, pair, 0, false);
    if (dice_roll(one, 2)) at = random_add(graph, "channel_shuffle", &(qs_attributes){.groups = 2}, 1, &at, 0, false);
    const int offset = dice_roll(one, 9);
    return dice_roll(one, 2) ? random_conv(graph, one, at, 1)
                             : random_add(graph, "slice", &(qs_attributes){.offset = offset}, 1, &at, 8, false);
}

/* One operator on values[0..count): its node. */
static inline int random_operator(qs_graph *graph, dice *one, const int *values, int count) {
    const int input = values[dice_roll(one, count)], pair[2] = {input, values[dice_roll(one, count)]};
    switch (dice_roll(one, 8)) {
    case 0:
        return random_add(graph, "batch_norm", NULL, 1, &input, 0, false);
    case 1:
        return random_add(graph, "relu", NULL, 1, &input, 0, false);
    case 2:
        return random_add(graph, "dropout", &(qs_attributes){.probability = 0.25}, 1, &input, 0, false);
    case 3:
    case 4:
        return random_add(graph, "add", NULL, 2, pair, 0, false);
    case 5:
        return random_channels(graph, one, pair);
    default:
        return random_conv(graph, one, input, 1);
    }
}

/* A stage's values that nobody reads are summed, so that every node reaches the loss. */
static inline int random_stage(qs_graph *graph, dice *one, int input) {
    int values[16] = {input}, count = 1, readers[16] = {0};
    for (const int wanted = 3 + dice_roll(one, 8); count < wanted; count++) {
        const int node = values[count] = random_operator(graph, one, values, count);
        for (int i = 0; i < graph->node[node].inputs; i++)
            for (int j = 0; j < count; j++)
                readers[j] += values[j] == graph->node[node].input[i];
    }
    int sum = values[count - 1];
    for (int i = 0; i + 1 < count; i++) {
        if (readers[i]) continue;
        const int pair[2] = {sum, values[i]};
        sum = random_add(graph, "add", NULL, 2, pair, 0, false);
    }
    return sum;
}

static inline qs_graph *random_graph(uint64_t number) {
    dice one = {qs_random_key(number, 0, 0, 0), 0};
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("random", 3, 8, 8, &graph));
    int at = random_conv(graph, &one, 0, 1);
    for (int stages = 1 + dice_roll(&one, 2); stages > 0; stages--) {
        at = random_stage(graph, &one, at);
        const qs_attributes pool = {.kernel = {2, 2}, .stride = {2, 2}};
        at = dice_roll(&one, 2) ? random_add(graph, dice_roll(&one, 2) ? "max_pool" : "average_pool", &pool, 1, &at, 0, false)
                                : random_conv(graph, &one, at, 2);
    }
    at = random_add(graph, "global_average_pool", NULL, 1, &at, 0, false);
    at = random_add(graph, "flatten", NULL, 1, &at, 0, false);
    at = random_add(graph, "linear", NULL, 1, &at, 10, true);
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* Values for attention: a linear layer's, or where as many channels are wanted the input itself. */
static inline int random_projection(qs_graph *graph, dice *one, int input, int wanted, int has) {
    return wanted == has && dice_roll(one, 3) == 0 ? input : random_add(graph, "linear", NULL, 1, &input, wanted, dice_roll(one, 2));
}

/* Layers of attention over ids, of which keep leaves some out, with heads of their own or shared ones; each beside what it reads, and
 * normalised. */
static inline qs_graph *random_attentive(uint64_t number) {
    enum { WIDTH = 8, LENGTH_OF_SEQUENCES = 6 };
    const qs_input input[2] = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH_OF_SEQUENCES}, .bound = 11},
                               {.name = "keep", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH_OF_SEQUENCES}, .bound = 2}};
    dice one = {qs_random_key(number, 0, 0, 0), 0};
    qs_graph *graph = NULL;
    assert_ok(qs_graph_create("attentive", "tokens", 2, input, &graph));
    int at = random_add(graph, "embedding", &(qs_attributes){.vocabulary = 11}, 1, (int[]){0}, WIDTH, false);
    for (int layers = 1 + dice_roll(&one, 3), layer = 0; layer < layers; layer++) {
        const int key_heads = 1 + dice_roll(&one, 2), keep = layer == 0 || dice_roll(&one, 2);
        const qs_attributes with = {
            .heads = 2, .key_heads = key_heads, .causal = dice_roll(&one, 2), .probability = dice_roll(&one, 2) ? 0.25 : 0};
        const int from[4] = {random_projection(graph, &one, at, WIDTH, WIDTH),
                             random_projection(graph, &one, at, WIDTH / 2 * key_heads, WIDTH),
                             random_projection(graph, &one, at, WIDTH / 2 * key_heads, WIDTH), 1};
        int pair[2] = {at, random_add(graph, "attention", &with, 3 + keep, from, 0, false)};
        if (dice_roll(&one, 2)) pair[1] = random_add(graph, "linear", NULL, 1, &pair[1], WIDTH, true);
        at = random_add(graph, "add", NULL, 2, pair, 0, false);
        if (dice_roll(&one, 2)) at = random_add(graph, "layer_norm", NULL, 1, &at, 0, false);
        if (dice_roll(&one, 2)) at = random_add(graph, "gelu", NULL, 1, &at, 0, false);
    }
    at = random_add(graph, "global_average_pool", NULL, 1, &at, 0, false);
    at = random_add(graph, "flatten", NULL, 1, &at, 0, false);
    at = random_add(graph, "linear", NULL, 1, &at, 10, true);
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* Built-in recipes, and what a hand-written plan may add: stochastic floats, nearest integers, an output format of its own. */
static inline void random_recipe(dice *one, qs_recipe *out) {
    static const char *const names[] = {"fp32",
                                        "bf16",
                                        "fp16",
                                        "int8/bf16",
                                        "int8/fp32",
                                        "int8/fp16",
                                        "int8:tensor",
                                        "int4:shift4",
                                        "int6:shift3/bf16",
                                        "int4:hadamard",
                                        "mxfp6:stochastic",
                                        "int6:hadamard4/bf16"};
    static const char *const formats[] = {"fp32", "bf16", "fp16"};
    *out = recipe_of(names[dice_roll(one, (int)(sizeof names / sizeof *names))]);
    if (dice_roll(one, 4) == 0) out->forward.src.rounding = dice_roll(one, 2) ? QS_STOCHASTIC : QS_NEAREST_EVEN;
    if (out->weight_gradient.src.format->kind == QS_KIND_INTEGER && out->forward.src.granularity != QS_HADAMARD)
        out->weight_gradient.src = out->forward.src;
    if (dice_roll(one, 4) == 0) out->input_gradient.weights.rounding = QS_STOCHASTIC;
    if (dice_roll(one, 6) == 0 && out->forward.src.format->kind == QS_KIND_INTEGER)
        out->forward.dst = qs_format_of(formats[dice_roll(one, 3)]);
}

/* Recipes of all nodes into own[nodes]; the list points into it. Caller frees both. */
static inline const qs_recipe **random_recipes(const qs_graph *graph, uint64_t number, qs_recipe **own) {
    dice one = {qs_random_key(number, 1, 0, 0), 0};
    const qs_recipe **list = calloc((size_t)graph->nodes, sizeof *list);
    *own = calloc((size_t)graph->nodes, sizeof **own);
    assert_true(list && *own);
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        random_recipe(&one, &(*own)[n]);
        list[n] = &(*own)[n];
    }
    return list;
}

/* Pieces of the graph, of any length and not only whole blocks, that are computed again for backward: about half of the nodes. */
static inline qs_tensor_table *random_recompute(const qs_graph *graph, uint64_t number) {
    dice one = {qs_random_key(number, 7, 0, 0), 0};
    qs_tensor_table *table = calloc(1, sizeof *table);
    int *last = malloc((size_t)graph->nodes * sizeof *last);
    assert_true(table && last);
    for (int n = 0; n < graph->nodes; n++)
        last[n] = -1;
    for (int n = graph->samples.inputs; n < graph->nodes;) {
        int end = n + 1 + dice_roll(&one, 8);
        if (end > graph->nodes) end = graph->nodes;
        const bool again = dice_roll(&one, 2);
        for (; n < end; n++)
            last[n] = again ? end - 1 : -1;
    }
    table->recomputed = last;
    return table;
}

static inline void random_recompute_release(qs_tensor_table *table) {
    if (table) qs_tensor_table_release(table);
    free(table);
}

#endif
