// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The signature: equal for equal graphs, stable over batches (shapes hold N = 1), and changed by every single thing it covers. */
#include "convolutional.h"

/* What the small graph below is made from; each test changes one of these. */
typedef struct recipe {
    int channels, height, width;
    const char *conv_name, *between;
    qs_attributes conv, norm, pool;
    int64_t outputs, classes;
    bool bias, crossed;
} recipe;

static const recipe plain = {.channels = 4,
                             .height = 9,
                             .width = 9,
                             .conv_name = "conv",
                             .between = "relu",
                             .conv = {.kernel = {3, 3}, .padding = {1, 1}},
                             .pool = {.kernel = {3, 3}, .stride = {2, 2}},
                             .outputs = 4,
                             .classes = 5};

static int add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int from, int64_t outputs, bool bias) {
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, attributes, 1, &from, outputs, bias, &node));
    return node;
}

static char *signature(const recipe *from) {
    static char text[2][32];
    static int turn = 0;
    qs_graph *graph = NULL;
    turn = !turn;
    assert_ok(qs_graph_of_images("g", from->channels, from->height, from->width, &graph));
    int conv = add(graph, from->conv_name, "conv2d", &from->conv, 0, from->outputs, from->bias);
    int norm = add(graph, "bn", "batch_norm", &from->norm, conv, 0, false);
    int left = add(graph, "left", from->between, &(qs_attributes){0}, norm, 0, false);
    int right = add(graph, "right", "relu", &(qs_attributes){0}, norm, 0, false);
    int sum = -1;
    int pair[] = {from->crossed ? right : left, from->crossed ? left : right};
    assert_ok(qs_graph_add(graph, "sum", "add", &(qs_attributes){0}, 2, pair, 0, false, &sum));
    int pool = add(graph, "pool", "max_pool", &from->pool, sum, 0, false);
    int flat = add(graph, "flatten", "flatten", &(qs_attributes){0}, pool, 0, false);
    int fc = add(graph, "fc", "linear", &(qs_attributes){0}, flat, from->classes, true);
    assert_ok(qs_graph_finish(graph, fc, NULL));
    qs_graph_signature(graph, text[turn]);
    qs_graph_release(graph);
    return text[turn];
}

TEST(test_form) {
    const char *text = signature(&plain);
    assert_int_equal(strlen(text), 6 + 16);
    assert_memory_equal(text, "xxh64:", 6);
    assert_int_equal(strspn(text + 6, "0123456789abcdef"), 16);
}

TEST(test_equal_graphs) {
    recipe explicit_ones = plain;
    explicit_ones.conv.stride[0] = explicit_ones.conv.stride[1] = explicit_ones.conv.groups = 1;
    explicit_ones.conv.dilation[0] = explicit_ones.conv.dilation[1] = 1;
    assert_string_equal(signature(&plain), signature(&plain));
    assert_string_equal(signature(&plain), signature(&explicit_ones));
}

TEST(test_every_change_shows) {
    enum { CHANGES = 19 };
    recipe changed[CHANGES];
    for (int i = 0; i < CHANGES; i++) {
        changed[i] = plain;
    }
    changed[0].channels = 8;
    changed[1].height = 10;
    changed[2].width = 10;
    changed[3].conv_name = "convolution";
    changed[4].between = "dropout";
    changed[5].conv.kernel[0] = 1;
    changed[6].conv.stride[1] = 2;
    changed[7].conv.padding[0] = 2;
    changed[8].conv.groups = 2;
    changed[9].norm.epsilon = 1e-3;
    changed[10].norm.momentum = 0.01;
    changed[11].pool.kernel[0] = 2;
    changed[12].outputs = 8;
    changed[13].classes = 6;
    changed[14].bias = true;
    changed[15].crossed = true;
    changed[16].conv = (qs_attributes){.kernel = {5, 5}, .padding = {2, 2}};
    changed[17].conv.dilation[0] = 2;
    changed[18].conv.padding_more[1] = -1;
    for (int i = 0; i < CHANGES; i++) {
        if (strcmp(signature(&plain), signature(&changed[i])) == 0) fail_msg("change %d does not show", i);
    }
}

/* Asking for batches changes nothing, and all models differ from each other. */
TEST(test_models) {
    char seen[32][32];
    size_t models = 0;
    for (const char *name; (name = qs_model_name_at(models)); models++) {
        qs_graph *graph = NULL;
        char again[32];
        if (!is_convolutional(name)) break; /* the first ones are */
        assert_true(models < 32);
        assert_ok(qs_model_build(name, &(qs_model_input){3, 64, 64, 10}, &graph));
        qs_graph_signature(graph, seen[models]);
        for (int64_t batch = 1; batch <= 128; batch *= 2) {
            qs_graph_shape(graph, graph->nodes - 1, batch);
            assert_string_equal(qs_graph_signature(graph, again), seen[models]);
        }
        for (size_t i = 0; i < models; i++) {
            assert_string_not_equal(seen[i], seen[models]);
        }
        qs_graph_release(graph);
    }
}

TEST_MAIN(test_form, test_equal_graphs, test_every_change_shows, test_models)
