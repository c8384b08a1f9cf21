// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Building graphs by hand: shapes, order, depths, layout of the parameters, and everything that must be refused with a figure. */
#include "kit/kit.h"
#include "qsync/graph.h"

static const qs_attributes none = {0};
static const qs_attributes conv3 = {.kernel = {3, 3}, .padding = {1, 1}};

static void refused(qs_status status, const char *part) {
    assert_refused(status, QS_USAGE, part);
}

static qs_graph *fresh(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("by hand", 3, 8, 6, &graph));
    return graph;
}

static int add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int from, int64_t outputs, bool bias) {
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, attributes, 1, &from, outputs, bias, &node));
    return node;
}

static int join(qs_graph *graph, const char *name, int left, int right) {
    int node = -1;
    if (qs_graph_add(graph, name, "add", &none, 2, (int[]){left, right}, 0, false, &node) != QS_OK) fail_msg("%s", qs_message());
    return node;
}

/* input -> conv -> bn -> relu -> conv2 -> add(conv2, relu) -> flatten -> fc -> loss */
static qs_graph *residual(void) {
    qs_graph *graph = fresh();
    int conv = add(graph, "conv", "conv2d", &conv3, 0, 4, false);
    int bn = add(graph, "bn", "batch_norm", &none, conv, 0, false);
    int relu = add(graph, "relu", "relu", &none, bn, 0, false);
    int conv2 = add(graph, "conv2", "conv2d", &conv3, relu, 4, true);
    int sum = join(graph, "sum", conv2, relu);
    int flat = add(graph, "flatten", "flatten", &none, sum, 0, false);
    int fc = add(graph, "fc", "linear", &none, flat, 5, true);
    assert_ok(qs_graph_finish(graph, fc, NULL));
    return graph;
}

TEST(test_structure) {
    qs_graph *graph = residual();
    assert_int_equal(graph->nodes, 9);
    assert_int_equal(graph->samples.target.classes, 5);
    assert_null(graph->node[0].op);
    assert_string_equal(graph->node[8].name, "loss");
    int relu = qs_graph_find(graph, "relu");
    assert_int_equal(graph->node[relu].consumers, 2);
    assert_int_equal(graph->node[8].consumers, 0);
    assert_int_equal(qs_graph_find(graph, "nowhere"), -1);
    qs_shape shape = qs_graph_shape(graph, relu, 7), expected = qs_shape_of(4, (int64_t)7, (int64_t)4, (int64_t)8, (int64_t)6);
    assert_true(qs_shape_equal(&shape, &expected));
    shape = qs_graph_shape(graph, qs_graph_find(graph, "flatten"), 7);
    expected = qs_shape_of(2, (int64_t)7, (int64_t)(4 * 8 * 6));
    assert_true(qs_shape_equal(&shape, &expected));
    qs_graph_release(graph);
}

TEST(test_depths_are_longest_paths) {
    qs_graph *graph = residual();
    /* add lies behind conv2 (4), not behind the short edge from relu (3). */
    const int expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    int depth[9];
    qs_graph_depths(graph, depth);
    assert_memory_equal(depth, expected, sizeof expected);
    qs_graph_release(graph);
}

TEST(test_parameters) {
    qs_graph *graph = residual();
    const char *names[] = {"conv.weights",  "bn.scale",   "bn.shift",   "bn.running_mean", "bn.running_variance",
                           "conv2.weights", "conv2.bias", "fc.weights", "fc.bias"};
    const int64_t offsets[] = {0, 112, 128, 0, 16, 144, 288, 304, 304 + 960};
    assert_int_equal(graph->parameters, 9);
    for (int i = 0; i < 9; i++) {
        assert_string_equal(graph->parameter[i].name, names[i]);
        assert_int_equal(graph->parameter[i].offset, offsets[i]);
    }
    assert_int_equal(graph->trained_elements, 304 + 960 + 16);
    assert_int_equal(graph->statistics_elements, 32);
    int bn = qs_graph_find(graph, "bn"), fc = qs_graph_find(graph, "fc");
    assert_ptr_equal(qs_graph_parameter(graph, bn, QS_SCALE), qs_graph_parameter(graph, bn, QS_DIFF_SCALE));
    assert_null(qs_graph_parameter(graph, bn, QS_WEIGHTS));
    assert_null(qs_graph_parameter(graph, bn, QS_ROLE_COUNT));
    assert_true(qs_graph_parameter(graph, qs_graph_find(graph, "conv2"), QS_WEIGHTS)->gain == 2);
    assert_true(qs_graph_parameter(graph, fc, QS_WEIGHTS)->gain == 1);
    qs_graph_release(graph);
}

TEST(test_refused_nodes_leave_the_graph) {
    qs_graph *graph = fresh();
    int conv = add(graph, "conv", "conv2d", &conv3, 0, 4, false), node = -1, pair[] = {0, conv};
    const qs_attributes large = {.kernel = {9, 9}}, grouped = {.kernel = {3, 3}, .groups = 2};
    char long_name[80];
    memset(long_name, 'x', 64);
    long_name[64] = '\0';
    qs_graph before = *graph;
    refused(qs_graph_add(graph, "big", "conv2d", &large, 1, &conv, 4, false, &node), "node \"big\"");
    refused(qs_graph_add(graph, "big", "conv2d", &large, 1, &conv, 4, false, &node), "kernel of 9");
    const qs_attributes vast = {.kernel = {1 << 20, 1 << 20}, .padding = {1 << 19, 1 << 19}};
    refused(qs_graph_add(graph, "vast", "conv2d", &vast, 1, &conv, 4, false, &node), "conv2d weights");
    refused(qs_graph_add(graph, "g", "conv2d", &grouped, 1, (int[]){0}, 4, false, &node), "2 groups must divide 3");
    refused(qs_graph_add(graph, "none", "conv2d", &conv3, 1, &conv, 0, false, &node), "0 output channels");
    refused(qs_graph_add(graph, "many", "conv2d", &conv3, 1, &conv, INT64_C(1) << 40, false, &node), "node \"many\"");
    refused(qs_graph_add(graph, "sum", "add", &none, 2, pair, 0, false, &node), "[1,4,8,6]");
    refused(qs_graph_add(graph, "sum", "add", &none, 1, pair, 0, false, &node), "reads 2 inputs, 1 were given");
    refused(qs_graph_add(graph, "fc", "linear", &none, 1, &conv, 4, true, &node), "[1,4,8,6]");
    refused(qs_graph_add(graph, "conv", "relu", &none, 1, &conv, 0, false, &node), "there already");
    refused(qs_graph_add(graph, "", "relu", &none, 1, &conv, 0, false, &node), "0 characters");
    refused(qs_graph_add(graph, long_name, "relu", &none, 1, &conv, 0, false, &node), "64 characters");
    refused(qs_graph_add(graph, "r", "relu", &none, 1, (int[]){2}, 0, false, &node), "input 2 is no node");
    refused(qs_graph_add(graph, "r", "relu", &none, 1, (int[]){-1}, 0, false, &node), "input -1 is no node");
    refused(qs_graph_add(graph, "c", "cast", &none, 1, &conv, 0, false, &node), "placed by lowering");
    refused(qs_graph_add(graph, "u", "unheard_of", &none, 1, &conv, 0, false, &node), "unheard_of");
    assert_int_equal(node, -1);
    assert_int_equal(graph->nodes, before.nodes);
    assert_int_equal(graph->parameters, before.parameters);
    assert_int_equal(graph->trained_elements, before.trained_elements);
    qs_graph_release(graph);
}

TEST(test_refused_ends) {
    qs_graph *graph = fresh(), *other = NULL;
    int node = -1;
    refused(qs_graph_of_images("g", 0, 8, 8, &other), "input");
    refused(qs_graph_of_images("g", 3, 8, 0, &other), "input");
    refused(qs_graph_of_images("g", 3, -1, 8, &other), "input");
    assert_null(other);
    int flat = add(graph, "flatten", "flatten", &none, 0, 0, false);
    int fc = add(graph, "fc", "linear", &none, flat, 5, true);
    int dead = add(graph, "dead", "relu", &none, flat, 0, false);
    refused(qs_graph_finish(graph, 0, NULL), "[1,3,8,6]");
    refused(qs_graph_finish(graph, 99, NULL), "node 99");
    refused(qs_graph_finish(graph, fc, NULL), "\"dead\" does not reach the loss");
    refused(qs_graph_finish(graph, dead, NULL), "\"fc\" does not reach the loss");
    assert_int_equal(graph->samples.target.classes, 0);
    qs_graph_release(graph);
    graph = residual();
    refused(qs_graph_add(graph, "late", "relu", &none, 1, (int[]){0}, 0, false, &node), "finished");
    refused(qs_graph_finish(graph, 7, NULL), "finished");
    qs_graph_release(graph);
    qs_graph_release(NULL);
}

TEST(test_vectors) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("vector", 12, 0, 0, &graph));
    int fc = add(graph, "fc", "linear", &none, 0, 3, false);
    assert_ok(qs_graph_finish(graph, fc, NULL));
    qs_shape shape = qs_graph_shape(graph, fc, 9), expected = qs_shape_of(2, (int64_t)9, (int64_t)3);
    assert_true(qs_shape_equal(&shape, &expected));
    qs_graph_release(graph);
}

static void shape_is(const qs_graph *graph, int node, qs_shape expected) {
    assert_true(qs_shape_equal(&graph->node[node].shape, &expected));
}

TEST(several_typed_inputs) {
    const qs_input input[] = {{.name = "tokens", .type = QS_INPUT_I32, .rank = 1, .extent = {16}, .varies = true},
                              {.name = "features", .type = QS_INPUT_F32, .rank = 2, .extent = {16, 5}},
                              {.name = "vector", .type = QS_INPUT_F32, .rank = 1, .extent = {7}}};
    const qs_target two = {.kind = QS_TARGET_CLASS, .classes = 2, .extent = 1},
                    three = {.kind = QS_TARGET_CLASS, .classes = 3, .extent = 1};
    qs_graph *graph = NULL;
    int fc = 0;
    refused(qs_graph_create("g", "tokens", 0, input, &graph), "0 inputs");
    refused(qs_graph_create("g", "tokens", 2, (qs_input[]){input[0], input[0]}, &graph), "\"tokens\" is there already");
    assert_ok(qs_graph_create("g", "tokens", 3, input, &graph));
    assert_int_equal(graph->nodes, 3);
    shape_is(graph, 0, qs_shape_of(2, (int64_t)1, (int64_t)16));
    shape_is(graph, 1, qs_shape_of(3, (int64_t)1, (int64_t)5, (int64_t)16));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &(int){2}, 2, true, &fc));
    refused(qs_graph_finish(graph, fc, &two), "\"tokens\" does not reach the loss");
    qs_graph_release(graph);
    assert_ok(qs_graph_create("g", "vectors", 1, &input[2], &graph));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &(int){0}, 2, true, &fc));
    refused(qs_graph_finish(graph, fc, &three), "softmax_cross_entropy, reads [1,3], node \"fc\" gives [1,2]");
    assert_ok(qs_graph_finish(graph, fc, &two));
    assert_int_equal(graph->samples.target.classes, 2);
    qs_graph_release(graph);
}

/* What each kind of target reads, and that nothing else will do. */
TEST(targets_of_every_kind) {
    const qs_input ids = {.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {6}},
                   vector = {.name = "vector", .type = QS_INPUT_F32, .rank = 1, .extent = {4}};
    static const struct {
        qs_target target;
        const char *loss;
    } all[] = {{{.kind = QS_TARGET_CLASS_PER_POSITION, .classes = 2, .extent = 6, .ignored = -100}, "softmax_cross_entropy"},
               {{.kind = QS_TARGET_SPAN, .extent = 6}, "span_cross_entropy"},
               {{.kind = QS_TARGET_REAL, .extent = 4}, "squared_loss"}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const bool real = all[i].target.kind == QS_TARGET_REAL;
        qs_target wrong = all[i].target;
        qs_graph *graph = NULL;
        int last = 0;
        wrong.extent++;
        assert_ok(qs_graph_create("g", "samples", 1, real ? &vector : &ids, &graph));
        if (!real) last = add(graph, "table", "embedding", &(qs_attributes){.vocabulary = 9}, 0, 2, false);
        refused(qs_graph_finish(graph, last, &wrong), all[i].loss);
        wrong = all[i].target;
        wrong.ignored = 1;
        if (wrong.kind == QS_TARGET_CLASS_PER_POSITION) refused(qs_graph_finish(graph, last, &wrong), "ignored value is 1");
        assert_ok(qs_graph_finish(graph, last, &all[i].target));
        assert_string_equal(graph->node[graph->nodes - 1].op->name, all[i].loss);
        qs_graph_release(graph);
    }
}

/* Integers are ids of rows, of inputs alone, and bounded by the table. */
TEST(integers_are_ids) {
    qs_input input[] = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {6}},
                        {.name = "more", .type = QS_INPUT_I32, .rank = 1, .extent = {6}, .bound = 10},
                        {.name = "vector", .type = QS_INPUT_F32, .rank = 1, .extent = {4}}};
    const qs_attributes nine = {.vocabulary = 9}, half = {.vocabulary = 0.5}, ten = {.vocabulary = 10};
    qs_graph *graph = NULL;
    int node = -1;
    assert_ok(qs_graph_create("g", "samples", 3, input, &graph));
    refused(qs_graph_add(graph, "relu", "relu", &none, 1, (int[]){0}, 0, false, &node), "relu does not read integers");
    refused(qs_graph_add(graph, "flat", "flatten", &none, 1, (int[]){1}, 0, false, &node), "flatten does not read integers");
    refused(qs_graph_add(graph, "table", "embedding", &nine, 1, (int[]){2}, 3, false, &node), "\"vector\" holds none");
    refused(qs_graph_add(graph, "table", "embedding", &nine, 1, (int[]){1}, 3, false, &node), "9 rows");
    refused(qs_graph_add(graph, "table", "embedding", &none, 1, (int[]){0}, 3, false, &node), "vocabulary");
    refused(qs_graph_add(graph, "table", "embedding", &half, 1, (int[]){0}, 3, false, &node), "vocabulary");
    assert_int_equal(graph->nodes, 3);
    assert_int_equal(graph->samples.input[0].bound, 0);
    add(graph, "table", "embedding", &nine, 0, 3, false);
    add(graph, "table2", "embedding", &ten, 1, 3, false);
    assert_int_equal(graph->samples.input[0].bound, 9);
    shape_is(graph, 3, qs_shape_of(3, (int64_t)1, (int64_t)3, (int64_t)6));
    qs_graph_release(graph);
}

TEST_MAIN(test_structure, test_depths_are_longest_paths, test_parameters, test_refused_nodes_leave_the_graph, test_refused_ends,
          test_vectors, several_typed_inputs, targets_of_every_kind, integers_are_ids)
