// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: schedule
/* Blocks: every node in exactly one, copies confirmed as isomorphisms here by other means, what is known of the built-in models, and what
 * must tell blocks apart. */
#include "convolutional.h"
#include "kit/random_graph.h"

static bool node_same(const qs_graph *graph, int a, int b) {
    const qs_node *one = &graph->node[a], *other = &graph->node[b];
    const qs_attributes *x = &one->attributes, *y = &other->attributes;
    bool same = one->op == other->op && one->inputs == other->inputs && one->parameters == other->parameters &&
                qs_shape_equal(&one->shape, &other->shape) && x->groups == y->groups && x->epsilon == y->epsilon &&
                x->ceiling == y->ceiling;
    for (int i = 0; i < 2; i++)
        same = same && x->kernel[i] == y->kernel[i] && x->stride[i] == y->stride[i] && x->padding[i] == y->padding[i] &&
               x->dilation[i] == y->dilation[i] && x->padding_more[i] == y->padding_more[i];
    for (int i = 0; same && i < one->inputs; i++)
        same = qs_shape_equal(&graph->node[one->input[i]].shape, &graph->node[other->input[i]].shape);
    for (int i = 0; same && i < one->parameters; i++)
        same = qs_shape_equal(&graph->parameter[one->first_parameter + i].shape, &graph->parameter[other->first_parameter + i].shape);
    return same;
}

/* Where a node stands in a block's list; -1: elsewhere. */
static int place_in(const qs_block *block, int node) {
    for (int i = 0; i < block->end - block->first; i++)
        if (block->node[i] == node) return i;
    return -1;
}

static void isomorphism_check(const qs_graph *graph, const qs_block *one, const qs_block *other) {
    assert_int_equal(one->end - one->first, other->end - other->first);
    assert_int_equal(one->adjustable, other->adjustable);
    for (int i = 0; i < one->end - one->first; i++) {
        assert_true(node_same(graph, one->node[i], other->node[i]));
        for (int k = 0; k < graph->node[one->node[i]].inputs; k++)
            assert_int_equal(place_in(one, graph->node[one->node[i]].input[k]), place_in(other, graph->node[other->node[i]].input[k]));
    }
}

static void partition_check(const qs_graph *graph, const qs_blocks *all) {
    int next = 1, adjustable = 0, wanted = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        wanted += graph->node[n].op->kind == QS_ADJUSTABLE;
    for (int b = 0; b < all->blocks; b++) {
        const qs_block *block = &all->block[b];
        assert_int_equal(block->first, next);
        assert_true(block->end > block->first && block->kind >= 0 && block->kind < all->kinds);
        for (int n = block->first; n < block->end; n++)
            assert_true(place_in(block, n) >= 0);
        adjustable += block->adjustable;
        next = block->end;
    }
    assert_int_equal(next, graph->nodes);
    assert_int_equal(adjustable, wanted);
}

static void all_check(const qs_graph *graph, qs_blocks *out) {
    assert_ok(qs_graph_blocks(graph, out));
    partition_check(graph, out);
    for (int k = 0; k < out->kinds; k++) {
        assert_int_equal(out->block[out->representative[k]].kind, k);
        assert_true(k == 0 || out->representative[k] > out->representative[k - 1]);
    }
    for (int b = 0; b < out->blocks; b++)
        isomorphism_check(graph, &out->block[out->representative[out->block[b].kind]], &out->block[b]);
}

/* ---- Models ---- */

typedef struct known {
    const char *name;
    int blocks, kinds, largest; /* most adjustable operators of a block */
} known;

/* resnets: the stem, residual blocks, the head; the first block of a stage has a stride or a projection, or (resnet18) pooling in front.
 * Chains: one operator a block; vgg16 repeats a convolution in each of its last three stages. mobilenet_v2: of its residual blocks 1, 2, 3,
 * 2 and 2 are equal. squeezenet: stem, squeezing and expanding halves of the fires, head; of the latter halves two pairs are equal.
 * shufflenet_v2: stem, a unit with and three or seven without a stride in each stage, the last convolution, head. */
static const known figures[] = {
    {"mlp", 3, 3, 1},
    {"lenet5", 5, 5, 1},
    {"resnet8", 5, 5, 3},
    {"resnet20", 11, 7, 3},
    {"resnet32", 17, 7, 3},
    {"resnet18", 10, 10, 3},
    {"resnet50", 18, 10, 4},
    {"vgg11", 9, 9, 1},
    {"resnet18_cifar", 10, 9, 3},
    {"vgg11_bn", 9, 9, 1},
    {"vgg16", 14, 11, 1},
    {"alexnet", 8, 8, 1},
    {"vgg16_bn", 14, 11, 1},
    {"mobilenet_v2", 33, 28, 3},
    {"squeezenet", 18, 16, 2},
    {"shufflenet_v2", 19, 9, 5},
};

static const known *known_of(const char *name) {
    for (size_t i = 0; i < COUNT_OF(figures); i++)
        if (strcmp(figures[i].name, name) == 0) return &figures[i];
    fail_msg("model %s has no line here", name);
    return NULL;
}

TEST(models) {
    const char *name;
    for (size_t i = 0; (name = qs_model_name_at(i)); i++) {
        if (!is_convolutional(name)) continue;
        const known *one = known_of(name);
        qs_graph *graph = NULL;
        qs_blocks all;
        int largest = 0;
        assert_ok(qs_model_build(name, NULL, &graph));
        all_check(graph, &all);
        for (int b = 0; b < all.blocks; b++)
            if (all.block[b].adjustable > largest) largest = all.block[b].adjustable;
        assert_int_equal(all.blocks, one->blocks);
        assert_int_equal(all.kinds, one->kinds);
        assert_int_equal(largest, one->largest);
        qs_blocks_release(&all);
        qs_graph_release(graph);
    }
}

/* ---- Blocks made by hand ---- */

/* Three linear operators side by side on one value, joined, twice, and a pair behind them: what attention looks like. */
static int attention_add(qs_graph *graph, int input, int order) {
    int branch[3], pair[2];
    for (int i = 0; i < 3; i++) {
        const int b = (i + order) % 3;
        branch[b] = random_add(graph, "linear", NULL, 1, &input, 32, b == 0);
        if (b == 1) branch[b] = random_add(graph, "relu", NULL, 1, &branch[b], 0, false);
    }
    pair[0] = branch[0], pair[1] = branch[1];
    pair[0] = random_add(graph, "add", NULL, 2, pair, 0, false);
    pair[1] = branch[2];
    pair[0] = random_add(graph, "add", NULL, 2, pair, 0, false);
    pair[0] = random_add(graph, "linear", NULL, 1, pair, 32, false);
    pair[1] = input;
    return random_add(graph, "add", NULL, 2, pair, 0, false);
}

/* Copies are found whatever the order in which their branches were added. */
TEST(attention) {
    qs_graph *graph = NULL;
    qs_blocks all;
    int at = 0;
    assert_ok(qs_graph_of_images("attention", 32, 0, 0, &graph));
    at = random_add(graph, "linear", NULL, 1, &at, 32, false);
    for (int order = 0; order < 3; order++)
        at = attention_add(graph, at, order);
    at = random_add(graph, "linear", NULL, 1, &at, 10, true);
    assert_ok(qs_graph_finish(graph, at, NULL));
    all_check(graph, &all);
    assert_int_equal(all.blocks, 5);
    assert_int_equal(all.kinds, 3);
    for (int b = 1; b <= 3; b++) {
        assert_int_equal(all.block[b].kind, 1);
        assert_int_equal(all.block[b].adjustable, 4);
    }
    qs_blocks_release(&all);
    qs_graph_release(graph);
}

/* Convolutions in a chain that differ in one thing each are of different kinds. */
TEST(differences) {
    static const qs_attributes attributes[] = {{.kernel = {3, 3}, .padding = {1, 1}},
                                               {.kernel = {1, 1}},
                                               {.kernel = {3, 3}, .padding = {1, 1}, .groups = 2},
                                               {.kernel = {5, 5}, .padding = {2, 2}}};
    qs_graph *graph = NULL;
    qs_blocks all;
    int at = 0;
    assert_ok(qs_graph_of_images("chain", 8, 8, 8, &graph));
    for (int i = 0; i < 8; i++)
        at = random_add(graph, "conv2d", &attributes[i % 4], 1, &at, 8, false);
    at = random_add(graph, "conv2d", &attributes[0], 1, &at, 8, true);
    assert_ok(qs_graph_finish(graph, random_add(graph, "flatten", NULL, 1, &at, 0, false), NULL));
    all_check(graph, &all);
    assert_int_equal(all.blocks, 9);
    assert_int_equal(all.kinds, 5);
    for (int b = 0; b < 8; b++)
        assert_int_equal(all.block[b].kind, b % 4);
    qs_blocks_release(&all);
    qs_graph_release(graph);
}

TEST(random_graphs) {
    int copies = 0;
    for (uint64_t number = 0; number < 1000; number++) {
        qs_graph *graph = random_graph(number);
        qs_blocks all, again;
        all_check(graph, &all);
        assert_ok(qs_graph_blocks(graph, &again));
        assert_int_equal(all.blocks, again.blocks);
        assert_memory_equal(all.node, again.node, (size_t)graph->nodes * sizeof *all.node);
        copies += all.blocks - all.kinds;
        qs_blocks_release(&all);
        qs_blocks_release(&again);
        qs_graph_release(graph);
    }
    assert_true(copies > 0);
}

TEST_MAIN(models, attention, differences, random_graphs)
