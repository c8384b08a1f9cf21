// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
// covers: qsync random
/* Ω against reference values in both weightings that have some, and the properties that planners rely on. */
#include "indicator_support.h"
#include "kit/vectors.h"

/* The reference values are for stochastic rounding of every operand: 1/6 throughout. */
static qs_recipe stochastic_recipe(const char *name) {
    qs_recipe recipe = {0};
    char forward[32];
    snprintf(forward, sizeof forward, "%s", name);
    char *slash = strchr(forward, '/');
    if (slash) *slash = 0;
    const qs_quantizer in = {.format = qs_format_of(forward), .rounding = QS_STOCHASTIC};
    const qs_quantizer back = {.format = qs_format_of(slash ? slash + 1 : forward), .rounding = QS_STOCHASTIC};
    recipe.forward.src = recipe.forward.weights = in;
    recipe.input_gradient.diff_dst = recipe.input_gradient.weights = back;
    recipe.weight_gradient.src = recipe.weight_gradient.diff_dst = back;
    return recipe;
}

static qs_spread spread_of(const json_t *one, const char *of) {
    char count[8], norm2[8], absmax[16];
    snprintf(count, sizeof count, "D_%s", of);
    snprintf(norm2, sizeof norm2, "n2_%s", of);
    snprintf(absmax, sizeof absmax, "absmax_%s", of);
    return (qs_spread){.count = vectors_number(one, count), .norm2 = vectors_number(one, norm2), .absmax = vectors_number(one, absmax)};
}

static qs_sensitivity sensitivity_of(const json_t *one) {
    return (qs_sensitivity){.depth = vectors_number(one, "depth"),
                            .model_depth = vectors_number(one, "model_depth"),
                            .gamma = vectors_number(one, "gamma"),
                            .v = spread_of(one, "v"),
                            .x = spread_of(one, "x"),
                            .gv = spread_of(one, "gv")};
}

static int convention_check(const json_t *one, const char *key, qs_weighting weighting) {
    const qs_sensitivity sensitivity = sensitivity_of(one);
    const json_t *expected = json_object_get(one, key), *value;
    const char *name;
    int checked = 0;
    json_object_foreach((json_t *)expected, name, value) {
        const qs_recipe recipe = stochastic_recipe(name);
        double omega = 0;
        if (qs_omega(&sensitivity, &recipe, (qs_convention){weighting, QS_PLAIN}, &omega) != QS_OK) fail_msg("%s: %s", name, qs_message());
        close_to(omega, json_number_value(value));
        checked++;
    }
    return checked;
}

TEST(vectors_agree) {
    json_t *root = vectors_load("indicator.json");
    if (!root) skip();
    size_t i;
    json_t *one;
    int checked = 0;
    json_array_foreach(root, i, one) {
        checked += convention_check(one, "omega_paper", QS_WEIGHTING_PAPER);
        checked += convention_check(one, "omega_influence", QS_WEIGHTING_INFLUENCE);
    }
    assert_true(checked >= (int)json_array_size(root) * 2);
    json_decref(root);
}

#define NOT_MEASURED .variance_int8 = NAN, .variance_int8_channel = NAN, .variance_bf16 = NAN, .variance_fp16 = NAN
static const qs_sensitivity example = {.depth = 3,
                                       .model_depth = 10,
                                       .gamma = 1.0 / 64,
                                       .gain = 0.25,
                                       .v = {.count = 1e5, .norm2 = 5e4, .absmax = 4.5, .channel_absmax2 = 1e6, NOT_MEASURED},
                                       .x = {.count = 1e3, .norm2 = 20, .absmax = 0.5, .channel_absmax2 = 100, NOT_MEASURED},
                                       .gv = {.count = 2e5, .norm2 = 1e-3, .absmax = 1e-3, .channel_absmax2 = 0.1, NOT_MEASURED},
                                       .inner_forward = 50,
                                       .inner_backward = 4000,
                                       .products = 9e6};

static double omega_of(const qs_sensitivity *one, const qs_recipe *recipe, qs_weighting weighting, qs_contraction contraction) {
    double omega = -1;
    assert_ok(qs_omega(one, recipe, (qs_convention){weighting, contraction}, &omega));
    return omega;
}

/* The weightings by their definition, from σ_fp and σ_bp told apart: at depth 0 paper has σ_bp alone, at the loss σ_fp alone. */
TEST(weighting_and_contraction) {
    const double squares = example.gamma * example.gamma, products = example.products;
    const double inner[3][2] = {{1, 1},
                                {example.inner_forward, example.inner_backward},
                                {example.x.count * example.v.count / products, example.v.count * example.gv.count / products}};
    static const char *const names[] = {"fp32", "bf16", "e5m2", "fp(4,3,4)", "int8/bf16", "int4/fp32"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const qs_recipe recipe = stochastic_recipe(names[i]);
        qs_sensitivity first = example, last = example;
        first.depth = 0;
        last.depth = last.model_depth;
        const double backward = omega_of(&first, &recipe, QS_WEIGHTING_PAPER, QS_PLAIN) / 10;
        const double forward = omega_of(&last, &recipe, QS_WEIGHTING_PAPER, QS_PLAIN) / 10 / squares;
        assert_true(forward > 0 && backward > 0);
        for (int k = 0; k < 3; k++) { /* nothing exact was measured: only the divisors tell contractions apart */
            const double f = squares * forward / inner[k][0], b = backward / inner[k][1];
            close_to(omega_of(&example, &recipe, QS_WEIGHTING_PAPER, (qs_contraction)k), 3 * f + 7 * b);
            close_to(omega_of(&example, &recipe, QS_WEIGHTING_INFLUENCE, (qs_contraction)k), 7 * f + 3 * b);
            close_to(omega_of(&example, &recipe, QS_WEIGHTING_FLAT, (qs_contraction)k), 10 * f + 3 * b);
            close_to(omega_of(&example, &recipe, QS_WEIGHTING_GAIN, (qs_contraction)k), 0.25 * f + b);
        }
    }
}

/* What narrow accumulators lose, by the definition: a share of the exact sums' variance. */
TEST(accumulators) {
    const double loss[QS_GEMMS] = {0.1, 0.02, 0.3}, none[QS_GEMMS] = {0};
    const double forward = 0.1 * 20 * 5e4 / 4096, backward = 0.32 * 5e4 * 1e-3;
    close_to(qs_omega_accumulators(&example, loss, (qs_convention){QS_WEIGHTING_PAPER, QS_PLAIN}), 3 * forward + 7 * backward);
    close_to(qs_omega_accumulators(&example, loss, (qs_convention){QS_WEIGHTING_INFLUENCE, QS_CONTRACTED}),
             7 * forward / 50 + 3 * backward / 4000);
    assert_true(qs_omega_accumulators(&example, none, QS_CONVENTION_DEFAULT) == 0);
}

/* Steps per channel, and an output gradient in fixed point (fully integer recipes), by hand. */
TEST(integers_everywhere) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin("int8/bf16", &recipe));
    assert_ok(qs_quantizer_find("int8", &recipe.weight_gradient.diff_dst));
    const double v = 4.5 * 4.5 * 1e5, x = 100, gv = 1e-6 * 2e5, unit = 1 / (6.0 * 127 * 127);
    const double forward = (20 * v + 5e4 * x) * unit, backward = (1e-3 * v + 5e4 * gv) * unit;
    close_to(omega_of(&example, &recipe, QS_WEIGHTING_INFLUENCE, QS_PLAIN), 7 * forward / 4096 + 3 * backward);
    assert_ok(qs_quantizer_find("int8:channel(out)", &recipe.weight_gradient.diff_dst));
    assert_ok(qs_quantizer_find("int4:channel(out)", &recipe.forward.src));
    const double v4 = 1e6 * 127 * 127 / 49;
    qs_sensitivity negative = example;
    negative.v.minimum = -1;
    close_to(omega_of(&negative, &recipe, QS_WEIGHTING_INFLUENCE, QS_PLAIN),
             7 * (20 * v4 + 5e4 * x) * unit / 4096 + 3 * (1e-3 * v4 + 5e4 * 0.1) * unit);
    negative.v.minimum = 0; /* behind a ReLU: codes from 0 to 15 */
    const double u4 = v4 * 49 / 225;
    close_to(omega_of(&negative, &recipe, QS_WEIGHTING_INFLUENCE, QS_PLAIN),
             7 * (20 * u4 + 5e4 * x) * unit / 4096 + 3 * (1e-3 * u4 + 5e4 * 0.1) * unit);
}

/* An operator without weights: its input's variance forward, nothing backward, in any contraction. */
TEST(unary_operators) {
    const qs_recipe recipe = stochastic_recipe("int8/bf16");
    qs_sensitivity one = {.depth = 3, .model_depth = 10, .gamma = 0.5, .v = example.v};
    for (int k = 0; k < 3; k++)
        close_to(omega_of(&one, &recipe, QS_WEIGHTING_PAPER, (qs_contraction)k), 0.25 * 3 * 4.5 * 4.5 / (127 * 127) * 1e5 / 6);
}

TEST(conventions_have_names) {
    size_t count = 0;
    for (; qs_convention_name_at(count); count++) {
        qs_convention convention;
        assert_ok(qs_convention_parse(qs_convention_name_at(count), &convention));
        assert_string_equal(qs_convention_name(convention), qs_convention_name_at(count));
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(qs_convention_name_at(i), qs_convention_name_at(count));
    }
    assert_int_equal(count, 12);
    assert_refused(qs_convention_parse("deep", &(qs_convention){QS_WEIGHTING_FLAT, QS_PLAIN}), QS_USAGE, "paper-contracted");
    assert_non_null(qs_convention_name(QS_CONVENTION_DEFAULT));
}

TEST(coarser_formats_are_noisier) {
    const char *const names[] = {"fp32", "fp16", "bf16", "int8/bf16"};
    double previous = 0;
    for (size_t i = 0; i < 4; i++) {
        const qs_recipe recipe = stochastic_recipe(names[i]);
        const double omega = omega_of(&example, &recipe, QS_WEIGHTING_INFLUENCE, QS_PLAIN);
        if (i < 3) assert_true(omega > previous); /* int8 against bf16 depends on the data */
        previous = omega;
    }
}

TEST(range_is_checked) {
    static const char *const words[] = {"input activation", "weights", "output gradient"};
    const qs_recipe recipe = stochastic_recipe("fp16"), integer = stochastic_recipe("int8/fp32");
    for (int i = 0; i < 3; i++) {
        qs_sensitivity one = example;
        qs_spread *const tensors[] = {&one.v, &one.x, &one.gv};
        double omega = 0;
        tensors[i]->absmax = 70000; /* beyond fp16's 65504 */
        assert_refused(qs_omega(&one, &recipe, (qs_convention){QS_WEIGHTING_PAPER, QS_PLAIN}, &omega), QS_INFEASIBLE, "fp16");
        assert_message(words[i]);
        omega_of(&one, &integer, QS_WEIGHTING_PAPER, QS_PLAIN); /* fixed-point steps follow the range, fp32 holds it */
        tensors[i]->absmax = NAN;
        assert_int_not_equal(qs_omega(&one, &recipe, (qs_convention){QS_WEIGHTING_PAPER, QS_PLAIN}, &omega), QS_OK);
    }
}

TEST(spearman_of_known_orders) {
    const double up[] = {1, 2, 3, 4, 5}, down[] = {9, 7, 5, 3, 1}, ties[] = {1, 1, 2, 2, 2};
    assert_true(fabs(qs_spearman(5, up, up) - 1) < 1e-12);
    assert_true(fabs(qs_spearman(5, up, down) + 1) < 1e-12);
    /* By hand: ranks of ties 0.5 0.5 3 3 3 against 0..4: Σxy = 7.5, Σxx = 10, Σyy = 7.5. */
    assert_true(fabs(qs_spearman(5, up, ties) - 7.5 / sqrt(75)) < 1e-12);
}

TEST_MAIN(vectors_agree, weighting_and_contraction, accumulators, integers_everywhere, unary_operators, conventions_have_names,
          coarser_formats_are_noisier, range_is_checked, spearman_of_known_orders)
