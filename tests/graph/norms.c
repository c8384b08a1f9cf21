// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: l2bn l1bn l1bnq l2bnq l2bnq-std ln l1ln l1lnq rms
/* Models with another normalisation, and which relus the normalisation before them does. */
#include "kit/kit.h"
#include "qsync/graph.h"

static qs_graph *built(const char *name) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, NULL, &graph));
    return graph;
}

static void refused(const char *name, const char *reason) {
    qs_graph *graph = NULL;
    assert_refused(qs_model_build(name, NULL, &graph), QS_USAGE, reason);
}

static int count_of(const qs_graph *graph, const char *op) {
    int count = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        count += strcmp(graph->node[n].op->name, op) == 0;
    return count;
}

TEST(option) {
    static const char *const op[] = {"batch_norm",         "l1_batch_norm",          "l1_batch_norm_int8",
                                     "l2_batch_norm_int8", "l2_batch_norm_int8_std", "layer_norm",
                                     "l1_layer_norm",      "l1_layer_norm_int8",     "rms_norm"};
    for (size_t i = 0; qs_norm_name_at(i); i++) {
        char name[64];
        snprintf(name, sizeof name, "resnet8:norm=%s", qs_norm_name_at(i));
        qs_graph *graph = built(name);
        assert_true(i < COUNT_OF(op));
        assert_int_equal(count_of(graph, op[i]), 9);
        assert_string_equal(graph->name, i == 0 ? "resnet8" : name);
        qs_graph_release(graph);
    }
    qs_graph *graph = built("mobilenet_v2:norm=l1bnq,width=0.5");
    assert_string_equal(graph->name, "mobilenet_v2:width=0.5,norm=l1bnq");
    assert_non_null(qs_graph_parameter(graph, qs_graph_find(graph, "head.bn"), QS_RUNNING_DEVIATION));
    qs_graph_release(graph);
}

TEST(refusals) {
    refused("resnet8:norm=l3bn", "there are l2bn, l1bn");
    refused("resnet8:norm=", "no normalisation \"\"");
    refused("resnet8:Norm=l1bn", "norm=NAME");
    refused("lenet5:norm=l1bn", "has no batch norms");
    qs_graph *graph = built("lenet5:norm=l2bn");
    assert_string_equal(graph->name, "lenet5");
    qs_graph_release(graph);
}

/* In a basic block the first relu stands behind a batch norm, the second behind a sum. */
TEST(relus_of_blocks) {
    qs_graph *graph = built("resnet8");
    const int first = qs_graph_find(graph, "stage1.block0.bn1"), second = qs_graph_find(graph, "stage1.block0.bn2");
    const int relu = qs_graph_find(graph, "stage1.block0.relu1"), last = qs_graph_find(graph, "stage1.block0.relu2");
    assert_int_equal(qs_graph_fused_relu(graph, first), relu);
    assert_int_equal(qs_graph_fused_relu(graph, second), -1);
    assert_int_equal(qs_graph_fused_relu(graph, relu), -1);
    assert_int_equal(qs_graph_fused_relu(graph, 0), -1);
    assert_true(qs_graph_is_name(graph, relu));
    assert_false(qs_graph_is_name(graph, last));
    assert_false(qs_graph_is_name(graph, first));
    assert_false(qs_graph_is_name(graph, 0));
    assert_true(qs_graph_is_name(graph, qs_graph_find(graph, "flatten")));
    qs_graph_release(graph);
}

/* A normalisation with a second reader keeps its own value, so its relu stays a kernel. */
TEST(two_readers) {
    qs_graph *graph = NULL;
    int norm, relu, sum, flat, fc;
    assert_ok(qs_graph_of_images("two", 4, 2, 2, &graph));
    assert_ok(qs_graph_add(graph, "norm", "batch_norm", NULL, 1, (int[]){0}, 0, false, &norm));
    assert_ok(qs_graph_add(graph, "relu", "relu", NULL, 1, &norm, 0, false, &relu));
    assert_ok(qs_graph_add(graph, "sum", "add", NULL, 2, (int[]){norm, relu}, 0, false, &sum));
    assert_ok(qs_graph_add(graph, "flat", "flatten", NULL, 1, &sum, 0, false, &flat));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &flat, 3, true, &fc));
    assert_ok(qs_graph_finish(graph, fc, NULL));
    assert_int_equal(qs_graph_fused_relu(graph, norm), -1);
    assert_false(qs_graph_is_name(graph, relu));
    qs_graph_release(graph);
}

TEST_MAIN(option, refusals, relus_of_blocks, two_readers)
