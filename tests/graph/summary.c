// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Costs on paper: saved bytes by hand, shared tensors counted once, gradients that flow, and what must hold for every model. */
#include "kit/kit.h"
#include "qsync/graph.h"

static qs_graph *built(const char *name) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, NULL, &graph));
    return graph;
}

static qs_node_summary *summary(const qs_graph *graph, int64_t batch, const char *compute, const char *storage) {
    qs_node_summary *out = calloc((size_t)graph->nodes, sizeof *out);
    assert_ok(qs_graph_summarize(graph, batch, qs_format_of(compute), qs_format_of(storage), out));
    return out;
}

static int64_t saved(const qs_graph *graph, const qs_node_summary *of, const char *name) {
    int node = qs_graph_find(graph, name);
    if (node < 0) fail_msg("no node %s", name);
    return of[node].saved_bytes;
}

/* resnet8 at batch 8: maps of 16×32×32 in stage 1, 32×16×16 in stage 2. */
TEST(test_saved_bytes) {
    static const struct {
        const char *compute, *storage;
        int64_t c, s; /* bytes an element */
    } plans[] = {{"fp32", "fp32", 4, 4}, {"bf16", "bf16", 2, 2}, {"int8", "bf16", 1, 2}};
    qs_graph *graph = built("resnet8");
    int64_t image = 8 * 3 * 32 * 32, one = 8 * 16 * 32 * 32, two = 8 * 32 * 16 * 16;
    for (int i = 0; i < 3; i++) {
        qs_node_summary *of = summary(graph, 8, plans[i].compute, plans[i].storage);
        int64_t c = plans[i].c, s = plans[i].s;
        assert_int_equal(saved(graph, of, "input"), 0);
        assert_int_equal(saved(graph, of, "stem.conv"), image * c);
        assert_int_equal(saved(graph, of, "stem.bn"), one * s + 2 * 16 * 4);
        assert_int_equal(saved(graph, of, "stem.relu"), one / 8);
        assert_int_equal(saved(graph, of, "stage1.block0.conv1"), one * c);
        assert_int_equal(saved(graph, of, "stage1.block0.add"), 0);
        assert_int_equal(saved(graph, of, "stage2.block0.conv1"), one * c);
        assert_int_equal(saved(graph, of, "stage2.block0.shortcut.conv"), 0); /* the tensor that conv1 saves */
        assert_int_equal(saved(graph, of, "stage2.block0.shortcut.bn"), two * s + 2 * 32 * 4);
        assert_int_equal(saved(graph, of, "fc"), 8 * 64 * c);
        assert_int_equal(saved(graph, of, "loss"), 8 * 10 * 4);
        free(of);
    }
    qs_graph_release(graph);
}

/* A flattened image is the image: mlp's first layer saves it. Max pool keeps one byte an output element. */
TEST(test_aliases_and_pools) {
    qs_graph *graph = built("mlp");
    qs_node_summary *of = summary(graph, 2, "fp32", "fp32");
    assert_int_equal(saved(graph, of, "flatten"), 0);
    assert_int_equal(saved(graph, of, "fc1"), 2 * 784 * 4);
    free(of);
    qs_graph_release(graph);
    graph = built("vgg11");
    of = summary(graph, 2, "bf16", "bf16");
    assert_int_equal(saved(graph, of, "stage1.pool"), 2 * 64 * 16 * 16);
    assert_int_equal(saved(graph, of, "stage1.relu1"), 2 * 64 * 32 * 32 / 8);
    free(of);
    qs_graph_release(graph);
}

TEST(test_facts) {
    qs_graph *graph = built("resnet8");
    qs_node_summary *of = summary(graph, 4, "fp32", "fp32");
    int conv = qs_graph_find(graph, "stage1.block0.conv1"), bn = conv + 1, last = graph->nodes - 1;
    assert_string_equal(of[0].kind, "input");
    assert_string_equal(of[conv].kind, "adjustable");
    assert_string_equal(of[bn].kind, "dependent");
    assert_string_equal(of[last].kind, "fixed");
    assert_int_equal(of[conv].parameters, 16 * 16 * 9);
    assert_int_equal(of[bn].parameters, 32);
    assert_int_equal(of[last].depth, 28);
    assert_int_equal(of[conv].shape.dim[0], 4);
    assert_true(of[conv].forward_flops == 2.0 * 4 * 16 * 16 * 9 * 32 * 32);
    assert_true(of[conv].total_flops == 3 * of[conv].forward_flops);
    assert_true(of[1].total_flops == 2 * of[1].forward_flops);
    assert_true(of[last].total_flops > of[last].forward_flops && of[last].forward_flops > 0);
    free(of);
    qs_graph_release(graph);
}

/* int8 <= bf16 <= fp32 in saved bytes, parameters add up, costs are proportional to the batch (but batch norm's statistics). */
TEST(test_every_model) {
    for (size_t m = 0; qs_model_name_at(m); m++) {
        qs_graph *graph = built(qs_model_name_at(m));
        qs_node_summary *wide = summary(graph, 8, "fp32", "fp32"), *half = summary(graph, 8, "bf16", "bf16"),
                        *narrow = summary(graph, 8, "int8", "bf16"), *twice = summary(graph, 16, "fp32", "fp32");
        for (int i = 0; i < graph->nodes; i++) {
            assert_true(narrow[i].saved_bytes <= half[i].saved_bytes && half[i].saved_bytes <= wide[i].saved_bytes);
            assert_true(twice[i].forward_flops == 2 * wide[i].forward_flops && twice[i].total_flops == 2 * wide[i].total_flops);
            assert_true(wide[i].total_flops >= wide[i].forward_flops);
        }
        free(wide);
        free(half);
        free(narrow);
        free(twice);
        qs_graph_release(graph);
    }
}

TEST(test_gradients) {
    bool needed[64];
    qs_graph *graph = built("mlp");
    qs_graph_gradients(graph, needed);
    assert_false(needed[0]);
    assert_false(needed[qs_graph_find(graph, "flatten")]);
    for (int i = qs_graph_find(graph, "fc1"); i < graph->nodes; i++) {
        assert_true(needed[i]);
    }
    qs_graph_release(graph);
}

TEST(test_refusals) {
    qs_graph *graph = built("mlp");
    qs_node_summary of[16];
    const qs_format *fp32 = qs_format_of("fp32");
    assert_refused(qs_graph_summarize(graph, 0, fp32, fp32, of), QS_USAGE, "batch of 0");
    assert_int_equal(qs_graph_summarize(graph, INT64_C(1) << 40, fp32, fp32, of), QS_USAGE);
    qs_graph_release(graph);
}

TEST_MAIN(test_saved_bytes, test_aliases_and_pools, test_facts, test_every_model, test_gradients, test_refusals)
