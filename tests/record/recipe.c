// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Built-in recipes, and which of them a class can run. */
#include "record_samples.h"

TEST(float_recipe) {
    const qs_format *bf16 = qs_format_of("bf16");
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("bf16", &recipe));
    const qs_quantizer *all[] = {
        &recipe.forward.src,         &recipe.forward.weights,         &recipe.input_gradient.diff_dst, &recipe.input_gradient.weights,
        &recipe.weight_gradient.src, &recipe.weight_gradient.diff_dst};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_ptr_equal(all[i]->format, bf16);
        assert_int_equal(all[i]->granularity, QS_PER_TENSOR);
        assert_int_equal(all[i]->rounding, QS_NEAREST_EVEN);
    }
    assert_null(recipe.forward.dst);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        assert_null(recipe.accumulator[gemm].adder);
    assert_string_equal(recipe.name, "bf16");
}

TEST(integer_recipe) {
    qs_recipe recipe;
    char text[64];
    assert_ok(qs_recipe_builtin("int8/fp16", &recipe));
    assert_string_equal(recipe.name, "int8/fp16");
    const qs_format *a, *b;
    qs_recipe_operands(&recipe, QS_GEMM_FORWARD, &a, &b);
    assert_ptr_equal(a, qs_format_of("int8"));
    qs_recipe_operands(&recipe, QS_GEMM_WEIGHT_GRADIENT, &a, &b);
    assert_ptr_equal(b, qs_format_of("fp16"));
    assert_int_equal(recipe.forward.src.granularity, QS_PER_TENSOR);
    assert_int_equal(recipe.forward.src.rounding, QS_STOCHASTIC);
    assert_int_equal(recipe.forward.weights.granularity, QS_PER_CHANNEL);
    assert_false(recipe.forward.weights.channel_is_input);
    assert_string_equal(qs_quantizer_text(&recipe.weight_gradient.src, text), "fp16");
    assert_string_equal(qs_quantizer_text(&recipe.input_gradient.weights, text), "fp16");
}

static void expect_quantizer(const qs_quantizer *one, const char *expected) {
    char text[64];
    assert_string_equal(qs_quantizer_text(one, text), expected);
}

TEST(all_in_integers) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("int4:shift4", &recipe));
    assert_string_equal(recipe.name, "int4:shift4");
    expect_quantizer(&recipe.forward.src, "int4:shift4(in):stochastic");
    expect_quantizer(&recipe.forward.weights, "int4:channel(out):stochastic");
    expect_quantizer(&recipe.input_gradient.diff_dst, "int4:shift4(out):stochastic");
    expect_quantizer(&recipe.input_gradient.weights, "int4:channel(in):stochastic");
    expect_quantizer(&recipe.weight_gradient.src, "int4:shift4(in):stochastic");
    expect_quantizer(&recipe.weight_gradient.diff_dst, "int4:shift4(out):stochastic");
    assert_ok(qs_recipe_builtin("int8:tensor", &recipe));
    expect_quantizer(&recipe.forward.src, "int8:tensor:stochastic");
    expect_quantizer(&recipe.input_gradient.diff_dst, "int8:tensor:stochastic");
    expect_quantizer(&recipe.input_gradient.weights, "int8:channel(in):stochastic");
    assert_ok(qs_recipe_builtin("int6:shift3/bf16", &recipe));
    expect_quantizer(&recipe.forward.src, "int6:shift3(in):stochastic");
    expect_quantizer(&recipe.weight_gradient.src, "bf16");
}

/* Forward and gradients apart, to nearest, clipped, in powers of two. */
TEST(apart) {
    static const struct {
        const char *name, *src, *weights, *diff_dst, *input_weights, *saved, *weight_diff_dst;
    } all[] = {{"int4:shift4:nearest-even", "int4:shift4(in):nearest-even", "int4:channel(out):nearest-even", "int4:shift4(out):stochastic",
                "int4:channel(in):nearest-even", "int4:shift4(in):nearest-even", "int4:shift4(out):stochastic"},
               {"int4:shift4:mse", "int4:shift4(in):nearest-even:mse", "int4:channel(out):nearest-even:mse", "int4:shift4(out):stochastic",
                "int4:channel(in):nearest-even:mse", "int4:shift4(in):nearest-even:mse", "int4:shift4(out):stochastic"},
               {"int4:tensor:mse/log4/log4:draw2", "int4:tensor:nearest-even:mse", "int4:channel(out):nearest-even:mse",
                "log4:tensor:stochastic", "int4:channel(in):nearest-even:mse", "int4:tensor:nearest-even:mse",
                "log4:tensor:stochastic:draw2"},
               {"int4:shift4/int8/int4:shift2", "int4:shift4(in):stochastic", "int4:channel(out):stochastic", "int8:tensor:stochastic",
                "int4:channel(in):stochastic", "int4:shift4(in):stochastic", "int4:shift2(out):stochastic"},
               {"bf16/int4:shift4", "bf16", "bf16", "int4:shift4(out):stochastic", "int4:channel(in):stochastic",
                "int4:shift4(in):stochastic", "int4:shift4(out):stochastic"},
               {"bf16/fp32/log4", "bf16", "bf16", "fp32", "fp32", "int4:tensor:stochastic", "log4:tensor:stochastic"},
               {"int4:shift4/log4/bf16", "int4:shift4(in):stochastic", "int4:channel(out):stochastic", "log4:tensor:stochastic",
                "int4:channel(in):stochastic", "bf16", "bf16"}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        qs_recipe recipe;
        assert_ok(qs_recipe_builtin(all[i].name, &recipe));
        assert_string_equal(recipe.name, all[i].name);
        expect_quantizer(&recipe.forward.src, all[i].src);
        expect_quantizer(&recipe.forward.weights, all[i].weights);
        expect_quantizer(&recipe.input_gradient.diff_dst, all[i].diff_dst);
        expect_quantizer(&recipe.input_gradient.weights, all[i].input_weights);
        expect_quantizer(&recipe.weight_gradient.src, all[i].saved);
        expect_quantizer(&recipe.weight_gradient.diff_dst, all[i].weight_diff_dst);
    }
}

TEST(transformed) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("int4:hadamard", &recipe));
    assert_string_equal(recipe.name, "int4:hadamard");
    expect_quantizer(&recipe.forward.src, "int4:hadamard16(in):stochastic");
    expect_quantizer(&recipe.forward.weights, "int4:hadamard16(in):stochastic");
    expect_quantizer(&recipe.input_gradient.diff_dst, "int4:hadamard16(out):stochastic");
    expect_quantizer(&recipe.input_gradient.weights, "int4:hadamard16(out):stochastic");
    expect_quantizer(&recipe.weight_gradient.src, "int4:hadamard16(samples):stochastic");
    expect_quantizer(&recipe.weight_gradient.diff_dst, "int4:hadamard16(samples):stochastic");
    assert_ok(qs_recipe_builtin("int8:hadamard32/bf16", &recipe));
    expect_quantizer(&recipe.forward.weights, "int8:hadamard32(in):stochastic");
    expect_quantizer(&recipe.weight_gradient.src, "bf16");
}

TEST(in_blocks) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("mxfp4:stochastic", &recipe));
    assert_string_equal(recipe.name, "mxfp4:stochastic");
    expect_quantizer(&recipe.forward.src, "mxfp4:along(in):stochastic");
    expect_quantizer(&recipe.forward.weights, "mxfp4:along(in):stochastic");
    expect_quantizer(&recipe.input_gradient.diff_dst, "mxfp4:along(out):stochastic");
    expect_quantizer(&recipe.input_gradient.weights, "mxfp4:along(out):stochastic");
    expect_quantizer(&recipe.weight_gradient.src, "mxfp4:along(samples):stochastic");
    expect_quantizer(&recipe.weight_gradient.diff_dst, "mxfp4:along(samples):stochastic");
    assert_ok(qs_recipe_builtin("mxfp4/mx(e4m3,32)/bf16", &recipe));
    expect_quantizer(&recipe.forward.weights, "mxfp4");
    expect_quantizer(&recipe.input_gradient.weights, "mxfp8:along(out):nearest-even");
    expect_quantizer(&recipe.weight_gradient.src, "bf16");
    assert_ok(qs_recipe_builtin("nvfp4", &recipe));
    assert_string_equal(recipe.forward.src.format->name, "fp32");
    assert_int_equal(qs_recipe_builtin("mxfp8:along(out)", &recipe), QS_USAGE);
    assert_int_equal(qs_recipe_builtin("mxfp8:mse", &recipe), QS_USAGE);
    assert_int_equal(qs_recipe_builtin("bf16:along(in)", &recipe), QS_USAGE);
}

/* By name into a plan, out as an object with all its quantizers, and in again. */
TEST(in_a_plan) {
    qs_plan plan, again;
    char *first, *second;
    assert_ok(
        qs_plan_parse("{\"schema\": \"qsync/plan/2\", \"classes\": {\"a\": {\"operators\": {\"fc\": \"int4:hadamard\"}}}}", "plan", &plan));
    assert_ok(qs_plan_text(&plan, &first));
    assert_non_null(strstr(first, "\"src\": \"int4:hadamard16(samples):stochastic<saved\""));
    assert_ok(qs_plan_parse(first, "again", &again));
    assert_ok(qs_plan_text(&again, &second));
    assert_string_equal(first, second);
    expect_quantizer(&qs_plan_recipe(&again, "int4:hadamard")->input_gradient.weights, "int4:hadamard16(out):stochastic");
    free(first), free(second);
    qs_plan_release(&plan);
    qs_plan_release(&again);
}

TEST(unknown) {
    static const char *const names[] = {"",
                                        "int8",
                                        "int3",
                                        "bf16/bf16",
                                        "int8/",
                                        "/bf16",
                                        "uint8/bf16",
                                        "bf17",
                                        "int8/bf16/x",
                                        "int4:shift9",
                                        "int4:channel(out)",
                                        "uint4:shift4",
                                        "bf16:tensor",
                                        "int4:shift4:floor",
                                        "log4:tensor",
                                        "int4:shift4/int4:hadamard",
                                        "int4:hadamard/int4:shift4",
                                        "int4:shift4/log4/log4/log4",
                                        "int4:shift4:draw2",
                                        "int4:shift4/int4:nearest-even",
                                        "bf16/bf16/bf16",
                                        "int4:shift4(in)",
                                        "int4:hadamard(out)",
                                        "int4:hadamard3",
                                        "uint4:hadamard"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        qs_recipe recipe;
        assert_refused(qs_recipe_builtin(names[i], &recipe), QS_USAGE, "int8/bf16");
    }
}

static void class_text(const char *formats, char *text, size_t capacity) {
    snprintf(text, capacity,
             "{\"schema\":\"qsync/cluster/2\",\"classes\":{\"a\":{\"role\":\"training\",\"backend\":\"ref\",\"formats\":%s}}}", formats);
}

static void expect_recipes(const char *formats, const char *expected) {
    char text[512], names[256] = "";
    class_text(formats, text, sizeof text);
    qs_cluster cluster;
    qs_recipe recipes[QS_MAX_FORMATS];
    int count;
    assert_ok(qs_cluster_parse(text, "recipes", &cluster));
    assert_ok(qs_class_recipes(&cluster.class_[0], QS_MAX_FORMATS, recipes, &count));
    for (int i = 0; i < count; i++) {
        strncat(names, recipes[i].name, sizeof names - strlen(names) - 1);
        strncat(names, " ", sizeof names - strlen(names) - 1);
    }
    assert_string_equal(names, expected);
    assert_int_equal(qs_class_recipes(&cluster.class_[0], count - 1, recipes, &count), QS_USAGE);
    qs_cluster_release(&cluster);
}

TEST(of_class) {
    expect_recipes("[\"int8\", \"bf16\", \"fp32\"]", "fp32 bf16 int8/bf16 ");
    expect_recipes("[\"int8\", \"fp32\"]", "fp32 int8/fp32 ");
    expect_recipes("[\"fp32\"]", "fp32 ");
    expect_recipes("[\"int4\", \"fp32\", \"int8\", \"int6\"]", "fp32 int8/fp32 int6:shift4 int4:shift4 ");
    expect_recipes("[\"fp32\", \"int8\", \"fp16\"]", "fp32 fp16 int8/fp16 ");
}

/* By forward products first, by gradients then, whatever the order of the file; the file that is written says the same. */
TEST(of_class_by_name) {
    static const char listed[] =
        "[\"fp32\",\"bf16\",\"int8\",\"int4\"],\"recipes\":[\"int4:shift2\",\"int8:tensor\",\"fp32\",\"int8/bf16\",\"int8/fp32\"]";
    expect_recipes(listed, "fp32 int8/fp32 int8/bf16 int8:tensor int4:shift2 ");
    char text[512], *again, *twice;
    qs_cluster cluster;
    class_text(listed, text, sizeof text);
    assert_ok(qs_cluster_parse(text, "recipes", &cluster));
    assert_ok(qs_cluster_text(&cluster, &again));
    qs_cluster_release(&cluster);
    assert_ok(qs_cluster_parse(again, "again", &cluster));
    assert_int_equal(cluster.class_[0].recipes, 5);
    assert_ok(qs_cluster_text(&cluster, &twice));
    assert_string_equal(twice, again);
    free(again);
    free(twice);
    qs_cluster_release(&cluster);
}

TEST(of_class_refused) {
    static const char *const refused[][2] = {
        {"[]", "recipes"},
        {"[\"bf16\"]", "must contain \"fp32\""},
        {"[\"fp32\", \"fp32\"]", "stands there twice"},
        {"[\"fp32\", \"int4:shift4\"]", "computes in int4, which is not among the class's formats"},
        {"[\"fp32\", \"int8/fp16\"]", "computes in fp16"},
        {"[\"fp32\", \"int8:column\"]", "no recipe \"int8:column\""},
        {"[\"fp32\", 8]", "recipes"},
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char formats[256], text[512];
        qs_cluster cluster;
        snprintf(formats, sizeof formats, "[\"fp32\",\"bf16\",\"int8\"],\"recipes\":%s", refused[i][0]);
        class_text(formats, text, sizeof text);
        assert_refused(qs_cluster_parse(text, "recipes", &cluster), QS_BAD_FILE, refused[i][1]);
    }
}

TEST_MAIN(float_recipe, integer_recipe, all_in_integers, apart, transformed, in_blocks, in_a_plan, unknown, of_class, of_class_by_name,
          of_class_refused)
