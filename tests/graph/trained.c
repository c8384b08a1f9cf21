// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What of a model is trained: frozen parameters lie behind the others, gradients stop where nothing before learns; and its layers. */
#include "kit/kit.h"
#include "qsync/graph.h"

static qs_graph *opened(const char *model, const char *freeze) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_open_frozen(model, freeze, NULL, &graph));
    return graph;
}

static int64_t room_of(const qs_parameter *one) {
    return (qs_shape_count(&one->shape) + 15) / 16 * 16;
}

/* Trained ones first, then frozen ones, each in their order and without gaps; running statistics stay. */
TEST(frozen_lie_behind) {
    qs_graph *graph = opened("resnet8", "stage1.*,fc.bias"), *plain = opened("resnet8", "");
    int64_t at = 0;
    char first[32], second[32];
    int frozen = 0;
    for (int behind = 0; behind < 2; behind++) {
        for (int i = 0; i < graph->parameters; i++) {
            const qs_parameter *one = &graph->parameter[i];
            const bool expected = strncmp(one->name, "stage1.", 7) == 0 || strcmp(one->name, "fc.bias") == 0;
            if (one->gradient == QS_ROLE_COUNT) {
                assert_true(!one->frozen && one->offset == plain->parameter[i].offset);
                continue;
            }
            assert_int_equal(one->frozen, expected);
            assert_int_equal(qs_parameter_learns(one), !expected);
            if (one->frozen != (behind == 1)) continue;
            assert_int_equal(one->offset, at);
            at += room_of(one);
            frozen += behind;
        }
        if (behind == 0) assert_int_equal(at, graph->trained_elements);
    }
    assert_true(frozen > 3);
    assert_int_equal(at, graph->trained_elements + graph->frozen_elements);
    assert_int_equal(at, plain->trained_elements);
    assert_string_equal(qs_graph_signature(graph, first), qs_graph_signature(plain, second));
    assert_ok(qs_graph_freeze(graph, ""));
    for (int i = 0; i < graph->parameters; i++)
        assert_true(graph->parameter[i].offset == plain->parameter[i].offset && !graph->parameter[i].frozen);
    assert_int_equal(graph->frozen_elements, 0);
    qs_graph_release(graph);
    qs_graph_release(plain);
}

TEST(gradients_stop) {
    qs_graph *graph = opened("lenet5", "conv1.*,conv2.*");
    bool needed[64];
    qs_graph_gradients(graph, needed);
    const int first = qs_graph_find(graph, "fc1");
    for (int n = 0; n < graph->nodes; n++)
        assert_int_equal(needed[n], n >= first);
    /* One that learns before them is enough. */
    assert_ok(qs_graph_freeze(graph, "conv2.*,fc*"));
    qs_graph_gradients(graph, needed);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        assert_true(needed[n]);
    qs_graph_release(graph);
}

TEST(refusals) {
    qs_graph *graph = opened("lenet5", "conv1.*");
    char long_pattern[200];
    memset(long_pattern, 'a', sizeof long_pattern - 1);
    long_pattern[sizeof long_pattern - 1] = '\0';
    assert_refused(qs_graph_freeze(graph, "conv1.*,conv7.*"), QS_USAGE, "\"conv7.*\": no trained parameter");
    assert_refused(qs_graph_freeze(graph, "*"), QS_USAGE, "nothing is left to train");
    assert_refused(qs_graph_freeze(graph, long_pattern), QS_USAGE, "a pattern of 199 characters");
    assert_true(graph->parameter[0].frozen && graph->frozen_elements > 0); /* as it was */
    qs_graph_release(graph);
    assert_refused(qs_model_open_frozen("lenet5", "conv7.*", NULL, &graph), QS_USAGE, "conv7");
}

static int layer_of(const qs_graph *graph, const int *layer, const char *name) {
    return layer[qs_graph_find(graph, name)];
}

/* A residual block is one layer; norms, pooling and losses belong to the layer before them. */
TEST(layers) {
    qs_graph *graph = opened("resnet8", "");
    int layer[128];
    assert_true(graph->nodes <= 128);
    assert_ok(qs_graph_layers(graph, layer));
    const char *const behind[] = {"fc", "stage3.block0.conv2", "stage2.block0.conv1", "stage1.block0.conv2", "stem.conv"};
    for (int i = 0; i < 5; i++)
        assert_int_equal(layer_of(graph, layer, behind[i]), i);
    assert_int_equal(layer_of(graph, layer, "stem.bn"), 4);
    assert_int_equal(layer_of(graph, layer, "stage2.block0.conv2"), 2);
    assert_int_equal(layer_of(graph, layer, "loss"), 0);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        assert_true(layer[n] <= layer[n - 1]);
    qs_graph_release(graph);
}

static int node(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int first, int second,
                int64_t outputs) {
    const int input[] = {first, second};
    int at = -1;
    assert_ok(qs_graph_add(graph, name, op, attributes, second < 0 ? 1 : 2, input, outputs, false, &at));
    return at;
}

/* Tables, and the norm of their sum, are a layer of their own. */
TEST(tables_are_a_layer) {
    const qs_input input[] = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {8}},
                              {.name = "types", .type = QS_INPUT_I32, .rank = 1, .extent = {8}}};
    const qs_attributes words = {.vocabulary = 10}, types = {.vocabulary = 2};
    qs_graph *graph = NULL;
    int layer[16];
    assert_ok(qs_graph_create("words", "sentences", 2, input, &graph));
    const int word = node(graph, "word", "embedding", &words, 0, -1, 16), type = node(graph, "type", "embedding", &types, 1, -1, 16);
    const int sum = node(graph, "sum", "add", NULL, word, type, 0), norm = node(graph, "norm", "layer_norm", NULL, sum, -1, 0);
    const int pool = node(graph, "pool", "global_average_pool", NULL, norm, -1, 0),
              flat = node(graph, "flat", "flatten", NULL, pool, -1, 0);
    const int inner = node(graph, "inner", "linear", NULL, flat, -1, 16), add = node(graph, "add", "add", NULL, inner, flat, 0);
    const int head = node(graph, "head", "linear", NULL, add, -1, 3);
    assert_ok(qs_graph_finish(graph, head, NULL));
    assert_ok(qs_graph_layers(graph, layer));
    const int expected[] = {2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 0, 0};
    for (int n = 2; n < graph->nodes; n++)
        assert_int_equal(layer[n], expected[n]);
    qs_graph_release(graph);
}

TEST_MAIN(frozen_lie_behind, gradients_stop, refusals, layers, tables_are_a_layer)
