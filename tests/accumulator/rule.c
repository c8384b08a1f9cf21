// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Rules: their texts, the accumulators that a model's GEMMs get by them, plans that they change. */
#include "kit/kit.h"
#include "qsync/accumulator.h"

enum { BATCH = 128 };
static qs_graph *graph;

static qs_accumulation_rule rule_of(const char *text) {
    qs_accumulation_rule rule;
    assert_ok(qs_accumulation_rule_find(text, &rule));
    return rule;
}

static void text_is(const qs_narrow *narrow, const char *expected) {
    char text[QS_NARROW_TEXT];
    assert_string_equal(qs_narrow_text(narrow, text), expected);
}

TEST(texts) {
    const qs_accumulation_rule by_length = rule_of("fp(8,auto)/chunk64/align-truncate"), flat = rule_of("fp(6,9)/nearest-even");
    assert_true(by_length.by_length && !by_length.by_adder && by_length.bits_more == 0);
    assert_int_equal(by_length.like.chunk, 64);
    assert_int_equal(by_length.like.exponent_bits, 8);
    assert_false(flat.by_length);
    assert_int_equal(flat.like.mantissa_bits, 9);
    static const char *const wrong[] = {
        "fp32", "", "fp(8,auto)", "fp(auto,8)/nearest-even", "fp(8,auto)/odd", "fp(8,auto)/chunk1/stochastic"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        qs_accumulation_rule rule;
        assert_int_equal(qs_accumulation_rule_find(wrong[i], &rule), QS_USAGE);
    }
}

static qs_recipe chosen(const qs_accumulation_rule *rule, const char *node, const char *recipe_name) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin(recipe_name, &recipe));
    assert_ok(qs_accumulators_choose(rule, graph, qs_graph_find(graph, node), BATCH, NULL, &recipe));
    return recipe;
}

/* The formula's widths: those that the table of docs/accumulators.md has, from 2 + 2 + 1 bits of products. */
TEST(by_the_formula) {
    qs_accumulation_rule rule = rule_of("fp(8,auto)/align-truncate");
    qs_recipe recipe = chosen(&rule, "stage3.block1.conv1", "e5m2");
    text_is(&recipe.accumulator[QS_GEMM_FORWARD], "fp(8,7)/align-truncate");
    text_is(&recipe.accumulator[QS_GEMM_INPUT_GRADIENT], "fp(8,7)/align-truncate");
    rule.bits_more = -2;
    recipe = chosen(&rule, "stage3.block1.conv1", "e5m2");
    text_is(&recipe.accumulator[QS_GEMM_FORWARD], "fp(8,5)/align-truncate");
    rule.bits_more = 2;
    recipe = chosen(&rule, "stage3.block1.conv1", "e5m2");
    text_is(&recipe.accumulator[QS_GEMM_FORWARD], "fp(8,9)/align-truncate");
    /* The stem has no input gradient; products of fp32 need more than fp32 has. */
    recipe = chosen(&rule, "stem.conv", "e5m2");
    assert_null(recipe.accumulator[QS_GEMM_INPUT_GRADIENT].adder);
    recipe = chosen(&rule, "stage3.block1.conv1", "fp32");
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        assert_null(recipe.accumulator[gemm].adder);
    /* Sums of integers stay exact. */
    recipe = chosen(&rule, "stage3.block1.conv1", "int8/bf16");
    assert_null(recipe.accumulator[QS_GEMM_FORWARD].adder);
    assert_non_null(recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT].adder);
}

/* Of two activations: scores sum over a head's channels, their gradients over the positions of the other factor; heads that share keys add
 * up in the gradient of the keys. */
TEST(lengths_of_activations) {
    const qs_input sequence = {.name = "sequence", .type = QS_INPUT_F32, .rank = 2, .extent = {5, 12}};
    const qs_attributes scores = {.heads = 4, .key_heads = 2, .transposed = 1};
    qs_graph *attention = NULL;
    int input = 0, q, k, at;
    assert_ok(qs_graph_create("attention", "sequences", 1, &sequence, &attention));
    assert_ok(qs_graph_add(attention, "q", "linear", NULL, 1, &input, 16, true, &q));
    assert_ok(qs_graph_add(attention, "k", "linear", NULL, 1, &input, 8, true, &k));
    assert_ok(qs_graph_add(attention, "scores", "matmul", &scores, 2, (int[]){q, k}, 0, false, &at));
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_FORWARD, 8), 4);
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_INPUT_GRADIENT, 8), 5);
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_WEIGHT_GRADIENT, 8), 10);
    /* Inputs of the model have no gradient. */
    assert_ok(qs_graph_add(attention, "keys", "linear", NULL, 1, &input, 12, true, &k));
    assert_ok(
        qs_graph_add(attention, "pairs", "matmul", &(qs_attributes){.heads = 2, .transposed = 1}, 2, (int[]){k, input}, 0, false, &at));
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_FORWARD, 8), 6);
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_INPUT_GRADIENT, 8), 5);
    assert_int_equal(qs_gemm_length(attention, at, QS_GEMM_WEIGHT_GRADIENT, 8), 0);
    qs_graph_release(attention);
}

/* A transposed convolution sums over its own input channels forward, over its output's in the input gradient, and where its input lies in
 * the weight gradient. */
TEST(lengths_of_mirrors) {
    const qs_attributes same = {.kernel = {1, 1}}, twice = {.kernel = {3, 3}, .stride = {2, 2}, .groups = 2};
    qs_graph *images = NULL;
    int at = 0;
    assert_ok(qs_graph_of_images("images", 3, 6, 6, &images));
    assert_ok(qs_graph_add(images, "conv", "conv2d", &same, 1, &at, 16, false, &at));
    assert_ok(qs_graph_add(images, "up", "conv_transpose", &twice, 1, &at, 8, false, &at));
    assert_int_equal(qs_gemm_length(images, at, QS_GEMM_FORWARD, 3), 16 / 2 * 9);
    assert_int_equal(qs_gemm_length(images, at, QS_GEMM_INPUT_GRADIENT, 3), 8 / 2 * 9);
    assert_int_equal(qs_gemm_length(images, at, QS_GEMM_WEIGHT_GRADIENT, 3), 3 * 36);
    qs_graph_release(images);
}

TEST(by_the_adder) {
    qs_accumulation_rule rule = rule_of("fp(8,auto)/chunk64/toward-zero");
    const qs_accumulation sum = {5, qs_gemm_length(graph, qs_graph_find(graph, "stem.conv"), QS_GEMM_WEIGHT_GRADIENT, BATCH), 64, 1};
    int bits = 0;
    rule.by_adder = true;
    assert_ok(qs_adder_bits(rule.like.adder, QS_ADDENDS_PRODUCTS, &sum, &bits));
    const qs_recipe recipe = chosen(&rule, "stem.conv", "e5m2");
    assert_int_equal(recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT].mantissa_bits, bits);
}

/* Rounded products are the ones that are added. */
TEST(of_rounded_products) {
    const qs_accumulation_rule rule = rule_of("fp(8,auto)/product(5)/align-truncate");
    const qs_recipe recipe = chosen(&rule, "stage3.block1.conv1", "fp32");
    text_is(&recipe.accumulator[QS_GEMM_FORWARD], "fp(8,7)/product(5)/align-truncate");
}

TEST(zeros_narrow) {
    double histogram[QS_EXPONENTS] = {0}, full[QS_EXPONENTS] = {0};
    histogram[100] = 25;
    full[100] = 50;
    full[101] = 50;
    qs_operator_statistics row = {.name = "stage3.block1.conv1",
                                  .src = {.count = 100, .range_histogram = histogram},
                                  .weights = {.count = 100, .range_histogram = full},
                                  .diff_dst = {.count = 100, .range_histogram = full}};
    const qs_statistics statistics = {.operators = 1, .operator_ = &row};
    assert_true(qs_gemm_nonzero(&statistics, row.name, QS_GEMM_FORWARD) == 0.25);
    assert_true(qs_gemm_nonzero(&statistics, row.name, QS_GEMM_INPUT_GRADIENT) == 1);
    assert_true(qs_gemm_nonzero(&statistics, row.name, QS_GEMM_WEIGHT_GRADIENT) == 0.25);
    assert_true(qs_gemm_nonzero(&statistics, "another", QS_GEMM_FORWARD) == 1);
    assert_true(qs_gemm_nonzero(NULL, row.name, QS_GEMM_FORWARD) == 1);
    const qs_accumulation_rule rule = rule_of("fp(8,auto)/align-truncate");
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("e5m2", &recipe));
    assert_ok(qs_accumulators_choose(&rule, graph, qs_graph_find(graph, row.name), BATCH, &statistics, &recipe));
    text_is(&recipe.accumulator[QS_GEMM_FORWARD], "fp(8,5)/align-truncate");
}

TEST(losses) {
    const int node = qs_graph_find(graph, "stage3.block1.conv1");
    const qs_accumulation_rule rule = rule_of("fp(8,5)/align-truncate");
    const qs_accumulation sum = {5, qs_gemm_length(graph, node, QS_GEMM_FORWARD, BATCH), 0, 1};
    const qs_recipe recipe = chosen(&rule, "stage3.block1.conv1", "e5m2");
    double loss = -1, retained = 0;
    assert_ok(qs_gemm_loss(graph, node, QS_GEMM_FORWARD, BATCH, NULL, &recipe, &loss));
    assert_ok(qs_adder_retention(rule.like.adder, QS_ADDENDS_PRODUCTS, &sum, 5, &retained));
    assert_true(loss > 0.05 && loss == fabs(1 - retained));
    qs_recipe plain;
    assert_ok(qs_recipe_builtin("e5m2", &plain));
    assert_ok(qs_gemm_loss(graph, node, QS_GEMM_FORWARD, BATCH, NULL, &plain, &loss));
    assert_true(loss == 0);
}

static const char plan_text[] = "{\"schema\":\"qsync/plan/2\",\"recipes\":{\"fp8\":{"
                                "\"forward\":{\"src\":\"fp(5,2,0)\",\"weights\":\"fp(5,2,0)\",\"dst\":\"fp32\"},"
                                "\"input_gradient\":{\"diff_dst\":\"fp(5,2,0)\",\"weights\":\"fp(5,2,0)\"},"
                                "\"weight_gradient\":{\"src\":\"fp(5,2,0)<saved\",\"diff_dst\":\"fp(5,2,0)\"}}},"
                                "\"classes\":{\"single\":{\"operators\":{\"stage3.block1.conv1\":{\"recipe\":\"fp8\",\"pin\":true}},"
                                "\"schedule\":\"xxh64:01\"}}}";

TEST(of_a_plan) {
    const qs_accumulation_rule rule = rule_of("fp(6,auto)/nearest-even");
    qs_plan plan;
    char *text = NULL;
    assert_ok(qs_plan_parse(plan_text, "plan.json", &plan));
    assert_ok(qs_plan_accumulate(&rule, graph, BATCH, NULL, &plan));
    assert_string_equal(plan.class_[0].schedule, ""); /* it held for what was */
    assert_int_equal(plan.class_[0].operators, 22);
    assert_ok(qs_plan_text(&plan, &text));
    assert_non_null(strstr(text, "\"stage3.block1.conv1\": {\"recipe\": \"fp8\", \"pin\": true, \"accumulator\": {\"forward\": "
                                 "\"fp(6,7)/nearest-even\", \"input_gradient\": \"fp(6,7)/nearest-even\", \"weight_gradient\": "
                                 "\"fp(6,9)/nearest-even\"}}"));
    assert_non_null(strstr(text, "\"stem.conv\": \"fp32\"")); /* nothing to say */
    free(text);
    qs_plan_release(&plan);
}

static int setup(void **state) {
    (void)state;
    return qs_model_build("resnet20", NULL, &graph) != QS_OK;
}

static int teardown(void **state) {
    (void)state;
    qs_graph_release(graph);
    return 0;
}

TEST_MAIN_WITH(setup, teardown, texts, by_the_formula, lengths_of_activations, lengths_of_mirrors, by_the_adder, of_rounded_products,
               zeros_narrow, losses, of_a_plan)
