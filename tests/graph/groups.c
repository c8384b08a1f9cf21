// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: schedule
/* Groups of tensors: a chain, a residual block, branches that join, and on random models every rule of the door, found by another way. */
#include "kit/kit.h"
#include "qsync/graph.h"
#include "kit/random_graph.h"

enum { BATCH = 4 };

static qs_groups groups_of(const qs_graph *graph) {
    qs_groups groups;
    assert_ok(qs_graph_groups(graph, BATCH, &groups));
    return groups;
}

static const qs_graph_tensor *tensor_of(const qs_graph *graph, const qs_groups *groups, const char *name) {
    for (int i = 0; i < groups->tensors; i++)
        if (strcmp(qs_graph_tensor_name(graph, &groups->tensor[i]), name) == 0) return &groups->tensor[i];
    return NULL;
}

static int group_of(const qs_graph *graph, const qs_groups *groups, const char *name) {
    const qs_graph_tensor *tensor = tensor_of(graph, groups, name);
    if (!tensor) fail_msg("there is no tensor %s", name);
    return tensor->group;
}

/* Names of one group each, NULL behind the last. */
static void group_check(const qs_graph *graph, const qs_groups *groups, int number, const char *const *name) {
    for (; *name; name++)
        if (group_of(graph, groups, *name) != number) fail_msg("%s is in group %d, not %d", *name, group_of(graph, groups, *name), number);
}

static int add(qs_graph *graph, const char *name, const char *op, int first, int second) {
    const qs_attributes one_by_one = {.kernel = {1, 1}, .stride = {1, 1}};
    const bool conv = strcmp(op, "conv2d") == 0, linear = strcmp(op, "linear") == 0;
    const int input[2] = {first, second};
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, conv ? &one_by_one : &(qs_attributes){0}, second < 0 ? 1 : 2, input,
                           conv     ? 8
                           : linear ? 10
                                    : 0,
                           linear, &node));
    return node;
}

static qs_graph *start(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("made", 8, 4, 4, &graph));
    return graph;
}

static void end(qs_graph *graph, int at) {
    at = add(graph, "flatten", "flatten", add(graph, "pool", "global_average_pool", at, -1), -1);
    assert_ok(qs_graph_finish(graph, add(graph, "fc", "linear", at, -1), NULL));
}

/* Conv, batch norm, relu, conv, fc: sizes by hand at batch 4. */
TEST(chain) {
    qs_graph *graph = start();
    int at = add(graph, "a", "conv2d", 0, -1);
    at = add(graph, "norm", "batch_norm", at, -1);
    at = add(graph, "relu", "relu", at, -1);
    end(graph, add(graph, "b", "conv2d", at, -1));
    qs_groups groups = groups_of(graph);
    assert_int_equal(groups.groups, 4);
    group_check(graph, &groups, 0, (const char *[]){"input", "a.weights", NULL});
    group_check(graph, &groups, 1, (const char *[]){"a", "norm", "norm.scale", "norm.shift", "relu", "b.weights", NULL});
    group_check(graph, &groups, 2, (const char *[]){"b", "pool", "fc.weights", "fc.bias", NULL});
    group_check(graph, &groups, 3, (const char *[]){"fc", NULL});
    const int64_t map = 4 * 8 * 16, weights = 8 * 8, pooled = 4 * 8, fc = 80 + 10, logits = 4 * 10;
    const int64_t demotable[] = {map + weights, 6 * map + 16 + weights, 2 * map + 2 * pooled + fc, 2 * logits};
    const int64_t gradients[] = {weights, 16 + weights, fc, 0}; /* of parameters */
    for (int g = 0; g < 4; g++) {
        assert_int_equal(groups.group[g].demotable, demotable[g]);
        assert_int_equal(groups.group[g].elements, demotable[g] + gradients[g]);
    }
    assert_null(tensor_of(graph, &groups, "loss"));
    assert_int_equal(groups.group[3].leader, -1);
    qs_groups_release(&groups);
    qs_graph_release(graph);
}

/* The value before the block is read by the block's first convolution and by the sum behind it: it goes with the convolution. */
TEST(residual) {
    qs_graph *graph = start();
    const int stem = add(graph, "stem", "conv2d", 0, -1);
    const int before = add(graph, "before", "relu", stem, -1);
    const int a = add(graph, "a", "conv2d", before, -1);
    const int b = add(graph, "b", "conv2d", a, -1);
    end(graph, add(graph, "sum", "add", b, before));
    qs_groups groups = groups_of(graph);
    assert_int_equal(groups.groups, 5);
    group_check(graph, &groups, 1, (const char *[]){"stem", "before", "a.weights", NULL});
    group_check(graph, &groups, 2, (const char *[]){"a", "b.weights", NULL});
    group_check(graph, &groups, 3, (const char *[]){"b", "sum", "pool", "fc.weights", "fc.bias", NULL});
    qs_groups_release(&groups);
    qs_graph_release(graph);
}

/* Two convolutions read one value and lead one group; their outputs meet in a concatenation. A projection beside a branch of two. */
TEST(branches) {
    qs_graph *graph = start();
    const int squeeze = add(graph, "squeeze", "conv2d", 0, -1);
    const int narrow = add(graph, "narrow", "conv2d", squeeze, -1);
    const int wide = add(graph, "wide", "conv2d", squeeze, -1);
    const int joined = add(graph, "joined", "concat", narrow, wide);
    const int deep = add(graph, "deep", "conv2d", add(graph, "relu", "relu", joined, -1), -1);
    const int deeper = add(graph, "deeper", "conv2d", deep, -1);
    end(graph, add(graph, "sum", "add", deeper, add(graph, "projection", "conv2d", joined, -1)));
    qs_groups groups = groups_of(graph);
    assert_int_equal(groups.groups, 6);
    group_check(graph, &groups, 1, (const char *[]){"squeeze", "narrow.weights", "wide.weights", NULL});
    group_check(graph, &groups, 2, (const char *[]){"narrow", "wide", "joined", "relu", "deep.weights", "projection.weights", NULL});
    group_check(graph, &groups, 3, (const char *[]){"deep", "deeper.weights", NULL});
    group_check(graph, &groups, 4, (const char *[]){"deeper", "projection", "sum", "pool", "fc.weights", "fc.bias", NULL});
    qs_groups_release(&groups);
    qs_graph_release(graph);
}

/* ---- Random and built-in models ---- */

/* The first multiplication behind a node's output, by following every path; nodes: none. */
static int first_behind(const qs_graph *graph, int node) {
    int best = graph->nodes;
    for (int n = node + 1; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++) {
            if (graph->node[n].input[i] != node) continue;
            const int found = graph->node[n].op->kind == QS_ADJUSTABLE ? n : first_behind(graph, n);
            best = found < best ? found : best;
        }
    return best;
}

static int leader_of(const qs_graph *graph, const qs_groups *groups, int group) {
    return groups->group[group].leader < 0 ? graph->nodes : groups->group[group].leader;
}

static void rules_check(const qs_graph *graph) {
    qs_groups groups = groups_of(graph);
    int64_t elements = 0, demotable = 0, of_tensors = 0;
    int tensors = 0, wanted = 0;
    for (int i = 0; i < groups.tensors; i++) {
        const qs_graph_tensor *one = &groups.tensor[i];
        const int value = one->parameter < 0 ? one->node : graph->node[one->node].input[0];
        assert_in_range(one->group, 0, groups.groups - 1);
        assert_int_equal(leader_of(graph, &groups, one->group), first_behind(graph, value));
        of_tensors += one->elements * (one->gradient ? 2 : 1);
    }
    for (int g = 0; g < groups.groups; g++) {
        assert_true(g == 0 || leader_of(graph, &groups, g) > leader_of(graph, &groups, g - 1));
        assert_true(groups.group[g].tensors > 0 && groups.group[g].demotable <= groups.group[g].elements);
        elements += groups.group[g].elements;
        demotable += groups.group[g].demotable;
        tensors += groups.group[g].tensors;
    }
    for (int n = 0; n < graph->nodes; n++)
        wanted += n == 0 || (!graph->node[n].op->alias && graph->node[n].op->kind != QS_FIXED);
    for (int p = 0; p < graph->parameters; p++)
        wanted += graph->parameter[p].gradient != QS_ROLE_COUNT;
    assert_int_equal(tensors, wanted);
    assert_int_equal(tensors, groups.tensors);
    assert_int_equal(elements, groups.elements);
    assert_int_equal(elements, of_tensors);
    assert_int_equal(demotable, groups.demotable);
    qs_groups_release(&groups);
}

TEST(random_models) {
    for (uint64_t number = 0; number < 40; number++) {
        qs_graph *graph = random_graph(number);
        rules_check(graph);
        qs_graph_release(graph);
    }
}

/* Chains of n multiplications have n + 1 groups. squeezenet's fires have two convolutions that read one value, so have the downsampling
 * units of shufflenet and the residual blocks with a projection. */
TEST(built_in) {
    static const struct {
        const char *name;
        int groups;
    } known[] = {{"mlp", 4}, {"vgg11", 10}, {"resnet18_cifar", 19}, {"mobilenet_v2", 54}, {"squeezenet", 19}, {"shufflenet_v2", 55}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(known[i].name, NULL, &graph));
        qs_groups groups = groups_of(graph);
        rules_check(graph);
        if (groups.groups != known[i].groups) fail_msg("%s has %d groups, not %d", known[i].name, groups.groups, known[i].groups);
        qs_groups_release(&groups);
        qs_graph_release(graph);
    }
}

TEST_MAIN(chain, residual, branches, random_models, built_in)
