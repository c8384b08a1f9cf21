// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: mlp lenet5 resnet8 resnet20 resnet32 resnet18_cifar resnet18 resnet50 vgg11 vgg11_bn vgg16 vgg16_bn alexnet mobilenet_v2
// covers: squeezenet shufflenet_v2
/* The built-in models: parameter counts and FLOPs against published figures, properties that hold for every one (order, layout, depth,
 * reach), sizes and options, and refusals. A model of models.def without a line here fails. */
#include "convolutional.h"

typedef struct published {
    const char *name;
    qs_model_input input;
    int64_t parameters;
} published;

/* Sources: torchvision's documentation (resnet18 11 689 512, resnet50 25 557 032, vgg11 132 863 336, vgg16 138 357 544, alexnet
 * 61 100 840), whose vgg_bn have a bias in front of each batch norm that is left out here: vgg11_bn 132 868 840 less 2752 channels,
 * vgg16_bn 138 365 992 less 4224. CIFAR: the widely used resnet20 and resnet32 with option A have 269 722 and 464 154; projections add
 * 16·32 + 2·32 + 32·64 + 2·64 = 2752. resnet18 at 3×3 stem: 11 173 962. MLPerf tiny's resnet8 reports 78 666: 336 biases and 480 running
 * statistics more, 192 batch norm values at shortcuts less. vgg features (9 220 480, 14 714 688) + 5130. lenet5 61 706. mobilenet_v2:
 * torchvision's 3 504 872, of which 1000 · 1281 are the classifier: 2 223 872 and 10 · 1281 in CIFAR form, whose strides change none.
 * squeezenet: torchvision's squeezenet1_0 1 248 424 with a 7×7 stem (96 · 3 · 40 more) and biases where batch norm has scale and shift
 * (2976 channels). shufflenet_v2: torchvision's shufflenet_v2_x1_0 2 278 604, of which 1000 · 1025 are the classifier. */
static const published figures[] = {
    {"mlp", {1, 28, 28, 10}, 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10},
    {"lenet5", {1, 28, 28, 10}, 61706},
    {"lenet5", {3, 32, 32, 10}, 62006},
    {"resnet8", {3, 32, 32, 10}, 78666 - 336 - 480 + 192},
    {"resnet20", {3, 32, 32, 10}, 269722 + 2752},
    {"resnet32", {3, 32, 32, 10}, 464154 + 2752},
    {"resnet18_cifar", {3, 32, 32, 10}, 11173962},
    {"resnet18", {3, 224, 224, 1000}, 11689512},
    {"resnet50", {3, 224, 224, 1000}, 25557032},
    {"vgg11", {3, 32, 32, 10}, 9220480 + 5130},
    {"vgg11", {3, 224, 224, 1000}, 132863336},
    {"vgg11_bn", {3, 32, 32, 10}, 9220480 + 2752 + 5130},
    {"vgg11_bn", {3, 224, 224, 1000}, 132868840 - 2752},
    {"vgg16", {3, 32, 32, 10}, 14714688 + 5130},
    {"vgg16", {3, 224, 224, 1000}, 138357544},
    {"vgg16_bn", {3, 32, 32, 10}, 14714688 + 4224 + 5130},
    {"vgg16_bn", {3, 224, 224, 1000}, 138365992 - 4224},
    {"alexnet", {3, 224, 224, 1000}, 61100840},
    {"mobilenet_v2", {3, 32, 32, 10}, 3504872 - 1000 * 1281 + 10 * 1281},
    {"mobilenet_v2", {3, 224, 224, 1000}, 3504872},
    {"squeezenet", {3, 32, 32, 10}, 1248424 - 96 * 3 * 40 + 2976 - 990 * 513},
    {"squeezenet", {3, 224, 224, 1000}, 1248424 - 96 * 3 * 40 + 2976},
    {"shufflenet_v2", {3, 32, 32, 10}, 2278604 - 990 * 1025},
    {"shufflenet_v2", {3, 224, 224, 1000}, 2278604},
};
enum { FIGURES = COUNT_OF(figures) };

static qs_graph *built(const char *name, const qs_model_input *input) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, input, &graph));
    return graph;
}

static void refused(const char *name, const qs_model_input *input, const char *part) {
    qs_graph *graph = NULL;
    assert_int_equal(qs_model_build(name, input, &graph), QS_USAGE);
    assert_null(graph);
    assert_message(part);
}

static int64_t trained(const qs_graph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->parameters; i++) {
        if (graph->parameter[i].gradient != QS_ROLE_COUNT) count += qs_shape_count(&graph->parameter[i].shape);
    }
    return count;
}

TEST(test_parameter_counts) {
    for (int i = 0; i < FIGURES; i++) {
        qs_graph *graph = built(figures[i].name, &figures[i].input);
        if (trained(graph) != figures[i].parameters) {
            fail_msg("%s at %d: %lld parameters, published %lld", figures[i].name, figures[i].input.height, (long long)trained(graph),
                     (long long)figures[i].parameters);
        }
        qs_graph_release(graph);
    }
}

TEST(test_every_model_has_a_figure) {
    size_t models = 0;
    for (const char *name; (name = qs_model_name_at(models)); models++) {
        bool found = false;
        qs_model_input input;
        if (!is_convolutional(name)) continue;
        assert_ok(qs_model_input_of(name, &input));
        for (int i = 0; i < FIGURES; i++) {
            found |= strcmp(figures[i].name, name) == 0 && memcmp(&figures[i].input, &input, sizeof input) == 0;
        }
        if (!found) fail_msg("model %s has no published figure at its standard input", name);
    }
    assert_true(models >= 16);
}

/* ---- Properties of any graph ---- */

static void check_order(const qs_graph *graph) {
    int depth[512];
    assert_true(graph->nodes <= 512);
    qs_graph_depths(graph, depth);
    for (int i = 0; i < graph->nodes; i++) {
        const qs_node *node = &graph->node[i];
        int deepest = -1;
        assert_int_equal(qs_graph_find(graph, node->name), i);
        assert_true((node->op == NULL) == (i == 0));
        assert_true((node->consumers == 0) == (i == graph->nodes - 1));
        for (int k = 0; k < node->inputs; k++) {
            assert_in_range(node->input[k], 0, i - 1);
            if (depth[node->input[k]] > deepest) deepest = depth[node->input[k]];
        }
        assert_int_equal(depth[i], deepest + 1);
        assert_true(depth[i] < depth[graph->nodes - 1] || i == graph->nodes - 1);
    }
}

/* In node order, aligned to 16, each behind the end of the one before it, the last inside the buffer. */
static void check_layout(const qs_graph *graph) {
    int64_t end[2] = {0, 0};
    int node = 0;
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        int64_t *used = &end[parameter->gradient == QS_ROLE_COUNT];
        assert_true(parameter->node >= node && parameter->offset % 16 == 0);
        assert_true(parameter->offset >= *used && parameter->offset < *used + 16);
        *used = parameter->offset + qs_shape_count(&parameter->shape);
        node = parameter->node;
        assert_in_range(i, graph->node[node].first_parameter, graph->node[node].first_parameter + graph->node[node].parameters - 1);
    }
    assert_true(graph->trained_elements >= end[0] && graph->trained_elements < end[0] + 16);
    assert_true(graph->statistics_elements >= end[1] && graph->statistics_elements < end[1] + 16);
}

/* A bias in front of batch norm would be trained for nothing. */
static void check_biases(const qs_graph *graph) {
    for (int i = graph->samples.inputs; i < graph->nodes; i++) {
        int from = graph->node[i].input[0];
        if (strcmp(graph->node[i].op->name, "batch_norm") == 0) assert_null(qs_graph_parameter(graph, from, QS_BIAS));
    }
}

/* Every pass of every node passes the operators' own check: shapes, formats and presence. */
static void check_cases(const qs_graph *graph) {
    for (int i = graph->samples.inputs; i < graph->nodes; i++) {
        const qs_op *op = graph->node[i].op;
        for (int k = 0; k < op->passes; k++) {
            qs_case one = qs_graph_case(graph, i, &op->pass[k], 4);
            if (qs_case_check(&one) != QS_OK) fail_msg("%s: %s: %s", graph->name, graph->node[i].name, qs_message());
        }
    }
}

static void check_all(const qs_graph *graph) {
    check_order(graph);
    check_layout(graph);
    check_biases(graph);
    check_cases(graph);
}

TEST(test_properties) {
    for (int i = 0; i < FIGURES; i++) {
        qs_graph *graph = built(figures[i].name, &figures[i].input);
        assert_int_equal(graph->samples.target.classes, figures[i].input.classes);
        assert_string_equal(graph->name, figures[i].name);
        check_all(graph);
        qs_graph_release(graph);
    }
}

/* One or three channels and odd sizes, wherever the model says that it takes them. */
TEST(test_sizes) {
    static const struct {
        const char *name;
        int height, width;
    } sizes[] = {{"mlp", 5, 7},
                 {"lenet5", 12, 12},
                 {"lenet5", 33, 40},
                 {"resnet8", 28, 28},
                 {"resnet20", 28, 28},
                 {"resnet32", 28, 28},
                 {"resnet8", 8, 9},
                 {"resnet18_cifar", 28, 28},
                 {"resnet18", 32, 32},
                 {"resnet18", 65, 97},
                 {"resnet50", 32, 33},
                 {"resnet50", 64, 64},
                 {"vgg11", 28, 28},
                 {"vgg11_bn", 28, 28},
                 {"vgg16", 28, 28},
                 {"vgg16_bn", 28, 28},
                 {"vgg16", 16, 16},
                 {"vgg11", 63, 64},
                 {"vgg11_bn", 64, 65},
                 {"alexnet", 63, 64},
                 {"alexnet", 227, 227},
                 {"vgg11", 31, 17},
                 {"resnet8", 96, 33},
                 {"mobilenet_v2", 8, 9},
                 {"mobilenet_v2", 28, 28},
                 {"mobilenet_v2", 65, 97},
                 {"squeezenet", 8, 9},
                 {"squeezenet", 28, 28},
                 {"squeezenet", 65, 97},
                 {"shufflenet_v2", 8, 9},
                 {"shufflenet_v2", 28, 28},
                 {"shufflenet_v2", 65, 97}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int channels = 1; channels <= 3; channels += 2) {
            qs_graph *graph = built(sizes[i].name, &(qs_model_input){channels, sizes[i].height, sizes[i].width, 7});
            check_all(graph);
            assert_int_equal(graph->samples.target.classes, 7);
            qs_graph_release(graph);
        }
    }
}

TEST(test_vector_input) {
    qs_graph *graph = built("mlp", &(qs_model_input){20, 0, 0, 3});
    assert_int_equal(trained(graph), 21 * 256 + 257 * 128 + 129 * 3);
    assert_int_equal(qs_graph_find(graph, "flatten"), -1);
    qs_graph_release(graph);
    refused("resnet8", &(qs_model_input){20, 0, 0, 3}, "not vectors of 20 features");
}

/* ---- Structure ---- */

static int depth_of(const qs_graph *graph, const char *name) {
    int depth[512], node = qs_graph_find(graph, name);
    if (node < 0) fail_msg("%s has no node %s", graph->name, name);
    qs_graph_depths(graph, depth);
    return depth[node];
}

/* Depths by hand: stem 3 nodes; a basic block is conv bn relu conv bn add relu = 7 on its longest path, its projection 2. */
TEST(test_resnet_depths) {
    qs_graph *graph = built("resnet8", NULL);
    assert_int_equal(depth_of(graph, "input"), 0);
    assert_int_equal(depth_of(graph, "stem.conv"), 1);
    assert_int_equal(depth_of(graph, "stage1.block0.conv1"), 4);
    assert_int_equal(depth_of(graph, "stage1.block0.add"), 9);
    assert_int_equal(depth_of(graph, "stage2.block0.shortcut.conv"), 11);
    assert_int_equal(depth_of(graph, "stage2.block0.bn2"), 15);
    assert_int_equal(depth_of(graph, "stage2.block0.add"), 16);
    assert_int_equal(depth_of(graph, "stage3.block0.relu2"), 24);
    assert_int_equal(depth_of(graph, "fc"), 27);
    assert_int_equal(depth_of(graph, "loss"), 28);
    assert_int_equal(qs_graph_find(graph, "stage1.block0.shortcut.conv"), -1);
    qs_graph_release(graph);
}

/* By hand: the first block has no expansion: conv bn relu, conv bn = 5 nodes behind the stem's 3; a block with one has 8, and a sum where
 * shapes agree. Of 32×32 images the maps are 32 32 16 8 8 4 4; the sums stand in the repeated blocks, 1 + 2 + 3 + 2 + 2 of them. */
TEST(test_mobilenet) {
    static const int64_t channels[] = {16, 24, 32, 64, 96, 160, 320}, maps[] = {32, 32, 16, 8, 8, 4, 4};
    static const int blocks[] = {1, 2, 3, 4, 3, 3, 1};
    qs_graph *graph = built("mobilenet_v2", NULL);
    int sums = 0, depthwise = 0;
    for (int s = 0; s < 7; s++) {
        for (int i = 0; i < blocks[s]; i++) {
            char name[64];
            snprintf(name, sizeof name, "stage%d.block%d.project.bn", s + 1, i);
            qs_shape shape = qs_graph_shape(graph, qs_graph_find(graph, name), 2);
            qs_shape expected = qs_shape_of(4, (int64_t)2, channels[s], maps[s], maps[s]);
            assert_true(qs_shape_equal(&shape, &expected));
            snprintf(name, sizeof name, "stage%d.block%d.add", s + 1, i);
            assert_true((qs_graph_find(graph, name) >= 0) == (i > 0));
            sums += i > 0;
        }
    }
    for (int i = graph->samples.inputs; i < graph->nodes; i++) {
        const qs_node *node = &graph->node[i];
        bool filter = strstr(node->name, "depthwise.conv") != NULL;
        depthwise += filter;
        if (strcmp(node->op->name, "conv2d") == 0) assert_int_equal(node->attributes.groups, filter ? node->shape.dim[1] : 1);
        if (strcmp(node->op->name, "relu") == 0) assert_true(node->attributes.ceiling == 6);
    }
    assert_int_equal(sums, 10);
    assert_int_equal(depthwise, 17);
    assert_int_equal(depth_of(graph, "stage1.block0.project.bn"), 8);
    assert_int_equal(depth_of(graph, "stage2.block0.project.bn"), 16);
    assert_int_equal(depth_of(graph, "stage2.block1.add"), 25);
    assert_int_equal(depth_of(graph, "head.relu"), 3 + 5 + 16 * 8 + sums + 3);
    assert_int_equal(depth_of(graph, "loss"), 3 + 5 + 16 * 8 + sums + 3 + 4);
    assert_int_equal(graph->node[qs_graph_find(graph, "head.conv")].shape.dim[1], 1280);
    qs_graph_release(graph);
}

TEST(test_names) {
    qs_graph *graph = built("resnet50", NULL);
    assert_true(qs_graph_find(graph, "stem.pool") > 0);
    assert_true(qs_graph_find(graph, "stage1.block0.shortcut.bn") > 0);
    assert_true(qs_graph_find(graph, "stage4.block2.conv3") > 0);
    assert_int_equal(qs_graph_find(graph, "stage4.block3.conv1"), -1);
    qs_shape shape = qs_graph_shape(graph, qs_graph_find(graph, "stage4.block2.relu3"), 2);
    qs_shape expected = qs_shape_of(4, (int64_t)2, (int64_t)2048, (int64_t)7, (int64_t)7);
    assert_true(qs_shape_equal(&shape, &expected));
    qs_graph_release(graph);
}

/* ---- FLOPs ---- */

static double gemm_flops(const qs_graph *graph, bool total) {
    qs_node_summary *summary = calloc((size_t)graph->nodes, sizeof *summary);
    const qs_format *fp32 = qs_format_of("fp32");
    double flops = 0;
    assert_ok(qs_graph_summarize(graph, 1, fp32, fp32, summary));
    for (int i = 0; i < graph->nodes; i++) {
        if (strcmp(summary[i].kind, "adjustable") == 0) flops += total ? summary[i].total_flops : summary[i].forward_flops;
    }
    free(summary);
    return flops;
}

/* Published as multiply-adds in units of 10^9 to two digits behind the point (torchvision): half a unit of the last place either way.
 * The CIFAR figure is He's 41 million for resnet20, plus 16·32·256 + 32·64·64 = 0.26 million for the projections. */
TEST(test_flops) {
    static const struct {
        const char *name;
        qs_model_input input;
        double giga, tolerance;
    } known[] = {{"resnet18", {3, 224, 224, 1000}, 1.81, 0.005},     {"resnet50", {3, 224, 224, 1000}, 4.09, 0.005},
                 {"vgg11", {3, 224, 224, 1000}, 7.61, 0.005},        {"vgg16", {3, 224, 224, 1000}, 15.47, 0.005},
                 {"mobilenet_v2", {3, 224, 224, 1000}, 0.30, 0.005}, {"shufflenet_v2", {3, 224, 224, 1000}, 0.146, 0.003},
                 {"alexnet", {3, 224, 224, 1000}, 0.71, 0.005},      {"resnet20", {3, 32, 32, 10}, 0.0408 + 0.00026, 0.0005}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        qs_graph *graph = built(known[i].name, &known[i].input);
        double giga = gemm_flops(graph, false) / 2e9;
        if (giga < known[i].giga - known[i].tolerance || giga > known[i].giga + known[i].tolerance) {
            fail_msg("%s: %.5f GMAC, published %.2f", known[i].name, giga, known[i].giga);
        }
        qs_graph_release(graph);
    }
}

/* A GEMM costs the same in each of its three passes; only the stem has no input gradient. */
TEST(test_total_flops) {
    qs_graph *graph = built("resnet8", NULL);
    double stem = 2.0 * 16 * 27 * 32 * 32;
    assert_true(gemm_flops(graph, true) == 3 * gemm_flops(graph, false) - stem);
    qs_graph_release(graph);
}

/* ---- Options ---- */

TEST(test_width) {
    qs_graph *graph = built("resnet8:width=0.5", NULL);
    assert_string_equal(graph->name, "resnet8:width=0.5");
    assert_int_equal(graph->node[qs_graph_find(graph, "stem.conv")].shape.dim[1], 8);
    assert_int_equal(graph->node[qs_graph_find(graph, "stage3.block0.conv1")].shape.dim[1], 32);
    qs_graph_release(graph);
    graph = built("resnet8:width=0.01", NULL);
    assert_int_equal(graph->node[qs_graph_find(graph, "stage3.block0.conv1")].shape.dim[1], 8);
    qs_graph_release(graph);
    graph = built("resnet8:width=5e-1", NULL);
    assert_string_equal(graph->name, "resnet8:width=0.5");
    qs_graph_release(graph);
    graph = built("lenet5:width=1.0", NULL);
    assert_string_equal(graph->name, "lenet5");
    assert_int_equal(trained(graph), 61706);
    qs_graph_release(graph);
}

/* Random widths and sizes: the graph builds, its properties hold, channels are multiples of 8, and its name builds it again. */
TEST(test_random_options) {
    for (uint64_t i = 0; i < 120; i++) {
        size_t model = qs_random_bits(20260, i) % 16;
        double width = 0.05 + 1.9 * (double)qs_random_uniform(20261, i);
        int size = 64 + (int)(qs_random_bits(20262, i) % 40);
        qs_model_input input = {1 + (int)(i % 3), size, size + (int)(i % 5), 2 + (int)(i % 11)};
        char name[64], one[32], two[32];
        snprintf(name, sizeof name, "%s:width=%.17g", qs_model_name_at(model), width);
        qs_graph *graph = built(name, &input), *again = built(graph->name, &input);
        check_all(graph);
        assert_string_equal(qs_graph_signature(graph, one), qs_graph_signature(again, two));
        /* The last but one, the classifier, has as many as there are classes. */
        for (int k = graph->samples.inputs; k < graph->nodes - 2; k++) {
            if (qs_graph_parameter(graph, k, QS_WEIGHTS)) assert_int_equal(graph->node[k].shape.dim[1] % 8, 0);
        }
        qs_graph_release(graph);
        qs_graph_release(again);
    }
}

TEST(test_refusals) {
    refused("resnet9", NULL, "resnet8, resnet20");
    refused("", NULL, "no model \"\"");
    refused("resnet", NULL, "no model \"resnet\"");
    refused("resnet8:depth=3", NULL, "unknown option \"depth=3\"");
    refused("resnet8:", NULL, "unknown option \"\"");
    refused("resnet8:width", NULL, "unknown option \"width\"");
    refused("resnet8:width=0.5,", NULL, "unknown option \"\"");
    refused("resnet8:width=", NULL, "width \"\"");
    refused("resnet8:width=0", NULL, "above 0");
    refused("resnet8:width=-1", NULL, "above 0");
    refused("resnet8:width=nan", NULL, "width \"nan\"");
    refused("resnet8:width=17", NULL, "at most 16");
    refused("resnet8:width=1x", NULL, "width \"1x\"");
    refused("resnet8:width=0.50000000000000000000000000000000001", NULL, "width");
    refused("alexnet", &(qs_model_input){3, 32, 32, 10}, "images of 32x32 are too small: the model takes 63x63");
    refused("resnet50", &(qs_model_input){3, 31, 224, 10}, "31x224");
    refused("vgg16", &(qs_model_input){3, 15, 15, 10}, "16x16");
    refused("lenet5", &(qs_model_input){3, 11, 12, 10}, "12x12");
    refused("resnet8", &(qs_model_input){0, 32, 32, 10}, "model resnet8");
    refused("resnet8", &(qs_model_input){3, 32, -32, 10}, "model resnet8");
    refused("resnet8", &(qs_model_input){3, 32, 32, 1}, "1 classes");
    refused("mlp", &(qs_model_input){3, 2000000, 2000000, 10}, "model mlp");
    qs_model_input input;
    assert_int_equal(qs_model_input_of("resnet8:wid=1", &input), QS_USAGE);
    assert_int_equal(qs_model_input_of("nothing", &input), QS_USAGE);
    assert_ok(qs_model_input_of("resnet8:width=0.5", &input));
    assert_int_equal(input.height, 32);
}

TEST_MAIN(test_parameter_counts, test_every_model_has_a_figure, test_properties, test_sizes, test_vector_input, test_resnet_depths,
          test_mobilenet, test_names, test_flops, test_total_flops, test_width, test_random_options, test_refusals)
