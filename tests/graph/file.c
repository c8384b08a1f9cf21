// SPDX-License-Identifier: Apache-2.0
/* graph.json: every built-in model goes out and comes back the same, through a text and through a file; a model that is written by hand
 * is built; whatever contradicts itself is refused with the operator, the value and the rule. */
#include <stdlib.h>
#include <unistd.h>

#include "convolutional.h"

static void same_start(const qs_graph *a, const qs_graph *b) {
    assert_int_equal(a->parameters, b->parameters);
    for (int i = 0; i < a->parameters; i++) {
        const qs_parameter *left = &a->parameter[i], *right = &b->parameter[i];
        assert_string_equal(left->name, right->name);
        assert_true(left->initial == right->initial && left->fan_in == right->fan_in && left->gain == right->gain);
        assert_true(left->offset == right->offset && left->role == right->role && left->gradient == right->gradient);
    }
}

static void round_trip(const qs_graph *graph) {
    char *text = NULL, *again = NULL, first[32], second[32], path[] = "graph-file-XXXXXX.json";
    qs_graph *read = NULL, *from_file = NULL;
    assert_ok(qs_graph_text(graph, &text));
    assert_ok(qs_graph_parse(text, "text", &read));
    assert_ok(qs_graph_text(read, &again));
    assert_string_equal(text, again);
    assert_string_equal(qs_graph_signature(graph, first), qs_graph_signature(read, second));
    assert_string_equal(graph->name, read->name);
    assert_int_equal(graph->samples.target.classes, read->samples.target.classes);
    same_start(graph, read);
    free(again);
    const int file = mkstemps(path, 5);
    assert_true(file >= 0 && close(file) == 0);
    assert_ok(qs_graph_write(read, path));
    assert_ok(qs_model_open(path, &graph->samples, &from_file));
    assert_ok(qs_graph_text(from_file, &again));
    assert_string_equal(text, again);
    unlink(path);
    qs_graph_release(read);
    qs_graph_release(from_file);
    free(text);
    free(again);
}

TEST(built_in_models_come_back) {
    static const char *const options[] = {"", ":width=0.5", ":norm=l1bn", ":width=0.25,norm=ln", ":norm=l2bnq"};
    for (size_t m = 0; qs_model_name_at(m); m++)
        for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
            char name[64];
            qs_graph *graph = NULL;
            if (!is_convolutional(qs_model_name_at(m)) && *options[o]) continue;
            snprintf(name, sizeof name, "%s%s", qs_model_name_at(m), options[o]);
            if (strstr(options[o], "norm") && qs_model_build(name, NULL, &graph) != QS_OK) continue; /* has no normalisation */
            if (!graph) assert_ok(qs_model_build(name, NULL, &graph));
            round_trip(graph);
            qs_graph_release(graph);
        }
}

TEST(size_and_classes_of_the_data) {
    qs_graph *graph = NULL;
    const qs_samples small = {
        .inputs = 1, .input = {qs_input_image(20, 24, 1)}, .target = {.kind = QS_TARGET_CLASS, .classes = 7, .extent = 1}};
    assert_ok(qs_model_open("resnet8", &small, &graph));
    assert_int_equal(graph->node[0].shape.dim[3], 24);
    assert_int_equal(graph->samples.target.classes, 7);
    round_trip(graph);
    qs_graph_release(graph);
    const qs_samples tokens = {.inputs = 1, .input = {{.name = "tokens", .type = QS_INPUT_I32, .rank = 1, .extent = {8}}}};
    assert_refused(qs_model_open("resnet8", &tokens, &graph), QS_MISMATCH, "takes one image");
    assert_refused(qs_model_open("no-such.json", NULL, &graph), QS_BAD_FILE, "no-such.json");
    assert_refused(qs_model_open("resnet9", NULL, &graph), QS_USAGE, "resnet8");
}

/* Two branches of one image, added, then set beside a third. */
#define HEAD "{\"schema\": \"qsync/graph/2\", \"name\": \"branches\", \"unit\": \"images\", "
#define INPUT "\"inputs\": [{\"name\": \"picture\", \"type\": \"u8\", \"extents\": [8, 8, 3]}], "
#define TARGET "\"target\": {\"kind\": \"class\", \"classes\": 5}, "
#define CONV(name, from, more)                                          \
    "{\"name\": \"" name "\", \"op\": \"conv2d\", \"inputs\": [\"" from \
    "\"], \"outputs\": 4, \"kernel\": [3, 3], \"padding\": [1, 1]" more "}, "
#define ADD "{\"name\": \"sum\", \"op\": \"add\", \"inputs\": [\"left\", \"right\"], \"shape\": [\"batch\", 4, 8, 8]}, "
#define CONCAT "{\"name\": \"both\", \"op\": \"concat\", \"inputs\": [\"sum\", \"third\"]}, "
#define REST                                                                                           \
    "{\"name\": \"relu\", \"op\": \"relu\", \"inputs\": [\"both\"], \"settings\": {\"ceiling\": 6}}, " \
    "{\"name\": \"pool\", \"op\": \"global_average_pool\", \"inputs\": [\"relu\"]}, "                  \
    "{\"name\": \"flat\", \"op\": \"flatten\", \"inputs\": [\"pool\"]}, "                              \
    "{\"name\": \"fc\", \"op\": \"linear\", \"inputs\": [\"flat\"], \"outputs\": 5, \"bias\": true}"
#define END "], \"output\": \"fc\"}"
#define BRANCHES CONV("left", "picture", "") CONV("right", "picture", ", \"bias\": true") CONV("third", "picture", "")
#define WHOLE HEAD INPUT TARGET "\"operators\": [" BRANCHES ADD CONCAT REST END

TEST(written_by_hand) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_parse(WHOLE, "hand", &graph));
    assert_int_equal(graph->nodes, 11);
    assert_int_equal(graph->node[qs_graph_find(graph, "both")].shape.dim[1], 8);
    assert_true(graph->parameter[graph->parameters - 2].gain == 1); /* of the last layer */
    round_trip(graph);
    qs_graph_release(graph);
}

TEST(lengths_that_vary) {
    static const char text[] =
        "{\"schema\": \"qsync/graph/2\", \"name\": \"vectors\", \"inputs\": [{\"name\": \"values\", \"type\": \"f32\", "
        "\"extents\": [\"length\"], \"length\": 12}], \"target\": {\"kind\": \"class\", \"classes\": 2}, \"operators\": "
        "[{\"name\": \"relu\", \"op\": \"relu\", \"inputs\": [\"values\"], \"shape\": [\"batch\", \"length\"]}, {\"name\": "
        "\"fc\", \"op\": \"linear\", \"inputs\": [\"relu\"], \"outputs\": 2}], \"output\": \"fc\"}";
    qs_graph *graph = NULL;
    assert_ok(qs_graph_parse(text, "text", &graph));
    assert_int_equal(graph->node[1].shape.dim[1], 12);
    assert_true(graph->samples.input[0].varies);
    round_trip(graph);
    qs_graph_release(graph);
}

/* Dilation, padding that is not alike on both sides, means that count padding: shapes, and the file again. */
TEST(windows) {
    static const char text[] = HEAD INPUT TARGET "\"operators\": [" CONV(
        "left", "picture",
        ", \"dilation\": [2, 1], "
        "\"stride\": [1, 2], \"padding_more\": [3, -1]") "{\"name\": \"pool\", \"op\": \"average_pool\", \"inputs\": [\"left\"], "
                                                         "\"kernel\": [2, 2], \"stride\": [2, 2], "
                                                         "\"padding_more\": [1, 0], \"count_padding\": true}, "
                                                         "{\"name\": \"flat\", \"op\": \"flatten\", \"inputs\": [\"pool\"]}, "
                                                         "{\"name\": \"fc\", \"op\": \"linear\", \"inputs\": [\"flat\"], \"outputs\": "
                                                         "5}" END;
    qs_graph *graph = NULL;
    assert_ok(qs_graph_parse(text, "text", &graph));
    const qs_shape conv = qs_graph_shape(graph, 1, 1), pool = qs_graph_shape(graph, 2, 1);
    assert_true(qs_shape_equal(&conv, &(qs_shape){4, {1, 4, 9, 4}}));
    assert_true(qs_shape_equal(&pool, &(qs_shape){4, {1, 4, 5, 2}}));
    assert_true(graph->node[2].attributes.count_padding);
    round_trip(graph);
    qs_graph_release(graph);
}

/* Settings whose fields have other names, also negative ones; those that are left out are the standards. */
TEST(settings_of_functions) {
    static const char text[] =
        "{\"schema\": \"qsync/graph/2\", \"name\": \"vectors\", \"inputs\": [{\"name\": \"values\", \"type\": \"f32\", "
        "\"extents\": [12]}], \"target\": {\"kind\": \"class\", \"classes\": 3}, \"operators\": "
        "[{\"name\": \"seen\", \"op\": \"reshape\", \"inputs\": [\"values\"], \"settings\": {\"height\": 4, \"channels\": -1}}, "
        "{\"name\": \"moved\", \"op\": \"permute\", \"inputs\": [\"seen\"], \"settings\": {\"extent1\": -1, \"extent2\": 3, \"order\": "
        "21}}, {\"name\": \"cut\", \"op\": \"clip\", \"inputs\": [\"moved\"], \"settings\": {\"least\": -3.4028234663852886e38, \"most\": "
        "0.1}}, {\"name\": \"line\", \"op\": \"affine\", \"inputs\": [\"cut\"], \"settings\": {\"term\": -2}}, "
        "{\"name\": \"hard\", \"op\": \"hard_sigmoid\", \"inputs\": [\"line\"]}, {\"name\": \"shift\", \"op\": \"offset\", "
        "\"inputs\": [\"hard\"], \"settings\": {\"over\": 1}}, {\"name\": \"fc\", \"op\": \"reduce_max\", \"inputs\": [\"shift\"], "
        "\"settings\": {\"over\": 1}}, {\"name\": \"end\", \"op\": \"reshape\", \"inputs\": [\"fc\"], \"settings\": {\"channels\": 3}}], "
        "\"output\": \"end\"}";
    qs_graph *graph = NULL;
    assert_ok(qs_graph_parse(text, "text", &graph));
    const qs_node *cut = &graph->node[qs_graph_find(graph, "cut")], *line = &graph->node[qs_graph_find(graph, "line")],
                  *hard = &graph->node[qs_graph_find(graph, "hard")];
    assert_true(qs_shape_equal(&cut->shape, &(qs_shape){3, {1, 4, 3}}));
    assert_true(cut->attributes.constant[1] == 0.1 && cut->attributes.constant[0] < -3e38);
    assert_true(line->attributes.constant[0] == 1 && line->attributes.constant[1] == -2);
    assert_true(hard->attributes.constant[0] == 1.0 / 6 && hard->attributes.constant[1] == 0.5);
    assert_int_equal(qs_shape_count(&graph->parameter[0].shape), 12);
    round_trip(graph);
    qs_graph_release(graph);
}

static void refused(const char *text, const char *part) {
    qs_graph *graph = NULL;
    assert_refused(qs_graph_parse(text, "bad.json", &graph), QS_BAD_FILE, part);
    assert_null(graph);
    assert_non_null(strstr(qs_message(), "bad.json"));
}

TEST(contradictions) {
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "third", "") CONV("third", "left", "") REST END,
            "operator \"left\": it reads \"third\", which does not stand before it");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "left", "") REST END, "\"left\", which does not stand before it");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "image", "") REST END, "\"image\", which is no input and no operator");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"groups\": 2") REST END, "operator \"left\": ");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"offset\": 2") REST END, "conv2d takes no offset");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"dilatation\": 2") REST END, "unknown field \"dilatation\"");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"count_padding\": true") REST END,
            "conv2d takes no count_padding");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"padding_more\": [0, -9]") REST END,
            "does not fit the width of 8");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"settings\": {\"slope\": 2}") REST END,
            "no setting \"slope\"");
    refused(HEAD INPUT TARGET
            "\"operators\": [{\"name\": \"x\", \"op\": \"elu\", \"inputs\": [\"picture\"], \"settings\": {\"alpha\": 0}}" END,
            "alpha is 0, which stands for 1: elu cannot have it 0");
    refused(HEAD INPUT TARGET
            "\"operators\": [{\"name\": \"x\", \"op\": \"reshape\", \"inputs\": [\"picture\"], \"settings\": {\"channels\": 7}}" END,
            "a sample of [1,3,8,8] has 192 values");
    refused(HEAD INPUT TARGET "\"operators\": [{\"name\": \"x\", \"op\": \"convolve\", \"inputs\": [\"picture\"]}" END, "convolve");
    refused(HEAD INPUT TARGET "\"operators\": [{\"name\": \"x\", \"op\": \"cast\", \"inputs\": [\"picture\"]}" END,
            "no operator of a model");
    refused(HEAD INPUT TARGET "\"operators\": [{\"name\": \"x\", \"op\": \"add\", \"inputs\": [\"picture\"]}" END, "add reads 2 inputs");
    refused(HEAD INPUT "\"target\": {\"kind\": \"class\", \"classes\": 6}, \"operators\": [" BRANCHES ADD CONCAT REST END,
            "softmax_cross_entropy, reads [1,6]");
    refused(HEAD INPUT TARGET "\"operators\": [" BRANCHES ADD CONCAT REST "], \"output\": \"fc2\"}", "output \"fc2\" is no operator");
    refused(HEAD INPUT TARGET "\"operators\": [" BRANCHES ADD CONCAT CONV("dead", "sum", "") REST END, "\"dead\" does not reach the loss");
    refused(HEAD INPUT TARGET "\"signature\": \"xxh64:0123456789abcdef\", \"operators\": [" BRANCHES ADD CONCAT REST END, "signature says");
    refused(HEAD INPUT TARGET "\"tensors\": [{\"name\": \"left.weights\", \"role\": \"weights\", \"shape\": [4, 3, 3, 2], \"start\": {}}], "
                              "\"operators\": [" BRANCHES ADD CONCAT REST END,
            "tensor \"left.weights\": shape says [4,3,3,2]");
    refused(HEAD INPUT TARGET "\"tensors\": [{\"name\": \"left.weights\", \"role\": \"weights\", \"shape\": [4, 3, 3, 3], \"start\": {}}], "
                              "\"operators\": [" BRANCHES ADD CONCAT REST END,
            "tensors has 1 rows, the operators have 6 parameters");
    refused(HEAD "\"inputs\": [{\"name\": \"picture\", \"type\": \"u8\", \"extents\": [8, \"length\", 3]}], " TARGET
                 "\"operators\": [" REST END,
            "\"length\" may be the first extent");
    refused(HEAD "\"inputs\": [{\"name\": \"picture\", \"type\": \"u8\", \"extents\": [\"length\", 8, 3]}], " TARGET
                 "\"operators\": [" REST END,
            "go together");
}

TEST(wrong_shape_of_an_operator) {
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"shape\": [\"batch\", 4, 8, 9]") CONV("right", "picture", "")
                CONV("third", "picture", "") ADD CONCAT REST END,
            "operator \"left\": shape says [batch,4,8,9], from its inputs follows [batch,4,8,8]");
}

/* What an imported model says of its parameters: names in the user's file, and constants, which nothing thaws. */
#define FROM(more) ", \"parameters\": {\"weights\": " more "}"
#define IMPORTED                                                                                                          \
    HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", FROM("\"conv.1\""))                                      \
        CONV("right", "picture", FROM("{\"constant\": true}"))                                                            \
            CONV("third", "picture", FROM("{\"file\": \"c\", \"constant\": true, \"extents\": [108]}")) ADD CONCAT        \
        "{\"name\": \"pool\", \"op\": \"global_average_pool\", \"inputs\": [\"both\"]}, "                                 \
        "{\"name\": \"flat\", \"op\": \"flatten\", \"inputs\": [\"pool\"]}, "                                             \
        "{\"name\": \"fc\", \"op\": \"linear\", \"inputs\": [\"flat\"], \"outputs\": 5, \"bias\": true, \"parameters\": " \
        "{\"weights\": {\"file\": \"onnx::MatMul_7\", \"transposed\": true}, \"bias\": \"fc.b\"}}" END

TEST(where_parameters_come_from) {
    qs_graph *graph = NULL, *plain = NULL;
    char with[32], without[32];
    assert_ok(qs_graph_parse(IMPORTED, "imported", &graph));
    round_trip(graph);
    const qs_parameter *left = qs_graph_parameter(graph, qs_graph_find(graph, "left"), QS_WEIGHTS);
    const qs_parameter *right = qs_graph_parameter(graph, qs_graph_find(graph, "right"), QS_WEIGHTS);
    const qs_parameter *last = qs_graph_parameter(graph, qs_graph_find(graph, "fc"), QS_WEIGHTS);
    assert_string_equal(left->origin.file, "conv.1");
    assert_true(!left->frozen && right->frozen && last->origin.transposed && !last->frozen);
    assert_int_equal(graph->frozen_elements, 2 * 112);
    assert_int_equal(right->offset, graph->trained_elements);
    assert_ok(qs_graph_freeze(graph, "left.*"));
    assert_int_equal(graph->frozen_elements, 3 * 112);
    assert_ok(qs_graph_freeze(graph, ""));
    assert_int_equal(graph->frozen_elements, 2 * 112);
    assert_refused(qs_graph_freeze(graph, "left.*,fc.*"), QS_USAGE, "nothing is left to train");
    /* A name is no part of the signature; that something is constant is. */
    assert_ok(qs_graph_parse(HEAD INPUT TARGET "\"operators\": [" BRANCHES ADD CONCAT REST END, "plain", &plain));
    qs_graph_signature(plain, without);
    qs_parameter_origin origin = {.file = "x"};
    assert_ok(qs_graph_origin_set(plain, 0, &origin));
    assert_string_equal(qs_graph_signature(plain, with), without);
    origin.constant = true;
    assert_ok(qs_graph_origin_set(plain, 0, &origin));
    assert_string_not_equal(qs_graph_signature(plain, with), without);
    qs_graph_release(plain);
    qs_graph_release(graph);
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", FROM("{\"transposed\": true}")) CONV("right", "picture", "")
                CONV("third", "picture", "") ADD CONCAT REST END,
            "operator \"left\": left.weights is [4,3,3,3]: only matrices are transposed");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", FROM("{\"extents\": [109]}")) CONV("right", "picture", "")
                CONV("third", "picture", "") ADD CONCAT REST END,
            "left.weights is [4,3,3,3], in files [109]");
    refused(HEAD INPUT TARGET "\"operators\": [" CONV("left", "picture", ", \"parameters\": {\"slope\": \"x\"}")
                CONV("right", "picture", "") CONV("third", "picture", "") ADD CONCAT REST END,
            "conv2d has no parameter \"slope\"");
}

/* Whatever piece of a file is there, and whatever one byte becomes: a refusal or a graph, and no memory that is lost. */
TEST(damaged_files) {
    char text[sizeof WHOLE];
    for (size_t length = 0; length < sizeof WHOLE - 1; length++) {
        qs_graph *graph = NULL;
        memcpy(text, WHOLE, length);
        text[length] = '\0';
        assert_int_equal(qs_graph_parse(text, "cut", &graph), QS_BAD_FILE);
    }
    for (size_t at = 0; at < sizeof WHOLE - 1; at++)
        for (const char *byte = "0-{}[]\",:x"; *byte; byte++) {
            qs_graph *graph = NULL;
            memcpy(text, WHOLE, sizeof WHOLE);
            text[at] = *byte;
            const qs_status status = qs_graph_parse(text, "changed", &graph);
            if (status == QS_OK)
                qs_graph_release(graph);
            else
                assert_int_equal(status, QS_BAD_FILE);
        }
}

TEST(too_many_and_too_deep) {
    static const char row[] = "{\"name\": \"x\", \"op\": \"relu\", \"inputs\": [\"picture\"]},";
    enum { OPERATORS = 100000, DEPTH = 100000 };
    char *text = malloc(sizeof row * OPERATORS + 1000), *at = text;
    assert_non_null(text);
    at += sprintf(at, "%s", HEAD INPUT TARGET "\"operators\": [");
    for (int i = 0; i < OPERATORS; i++, at += sizeof row - 1)
        memcpy(at, row, sizeof row);
    strcpy(at - 1, END);
    refused(text, "100000 elements");
    at = text + sprintf(text, "%s", HEAD "\"inputs\": ");
    memset(at, '[', DEPTH);
    at[DEPTH] = '\0';
    refused(text, "");
    free(text);
}

TEST_MAIN(built_in_models_come_back, size_and_classes_of_the_data, written_by_hand, lengths_that_vary, windows, settings_of_functions,
          contradictions, wrong_shape_of_an_operator, where_parameters_come_from, damaged_files, too_many_and_too_deep)
