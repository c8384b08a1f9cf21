// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
// covers: qsync random
/* Ω against reference values in both depth conventions, and the properties that planners rely on. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <string.h>

#include "indicator_support.h"
#include "vectors.h"

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

static int convention_check(const json_t *one, const char *key, qs_depth depth) {
    const qs_sensitivity sensitivity = sensitivity_of(one);
    const json_t *expected = json_object_get(one, key), *value;
    const char *name;
    int checked = 0;
    json_object_foreach((json_t *)expected, name, value) {
        const qs_recipe recipe = stochastic_recipe(name);
        double omega = 0;
        if (qs_omega(&sensitivity, &recipe, (qs_convention){depth, QS_PLAIN}, &omega) != QS_OK) fail_msg("%s: %s", name, qs_message());
        close_to(omega, json_number_value(value));
        checked++;
    }
    return checked;
}

static void vectors_agree(void **state) {
    (void)state;
    json_t *root = vectors_load("indicator.json");
    if (!root) skip();
    size_t i;
    json_t *one;
    int checked = 0;
    json_array_foreach(root, i, one) {
        checked += convention_check(one, "omega_paper", QS_DEPTH_PAPER);
        checked += convention_check(one, "omega_influence", QS_DEPTH_INFLUENCE);
    }
    assert_true(checked > 0);
    json_decref(root);
}

static const qs_sensitivity example = {.depth = 3,
                                       .model_depth = 10,
                                       .gamma = 1.0 / 64,
                                       .v = {.count = 1e5, .norm2 = 5e4, .absmax = 4.5},
                                       .x = {.count = 1e3, .norm2 = 20, .absmax = 0.5},
                                       .gv = {.count = 2e5, .norm2 = 1e-3, .absmax = 1e-3},
                                       .inner_forward = 1,
                                       .inner_backward = 1};

static void coarser_formats_are_noisier(void **state) {
    (void)state;
    const char *const names[] = {"fp32", "fp16", "bf16", "int8/bf16"};
    double previous = 0;
    for (size_t i = 0; i < 4; i++) {
        const qs_recipe recipe = stochastic_recipe(names[i]);
        double omega = 0;
        assert_int_equal(qs_omega(&example, &recipe, (qs_convention){QS_DEPTH_INFLUENCE, QS_PLAIN}, &omega), QS_OK);
        if (i < 3) assert_true(omega > previous); /* int8 against bf16 depends on the data */
        previous = omega;
    }
}

static void nearest_is_half_of_stochastic(void **state) {
    (void)state;
    qs_recipe recipe = stochastic_recipe("bf16");
    double stochastic = 0, nearest = 0;
    assert_int_equal(qs_omega(&example, &recipe, (qs_convention){QS_DEPTH_FLAT, QS_PLAIN}, &stochastic), QS_OK);
    recipe.forward.src.rounding = recipe.forward.weights.rounding = recipe.weight_gradient.diff_dst.rounding = QS_NEAREST_EVEN;
    assert_int_equal(qs_omega(&example, &recipe, (qs_convention){QS_DEPTH_FLAT, QS_PLAIN}, &nearest), QS_OK);
    assert_true(fabs(nearest * 2 / stochastic - 1) < 1e-12);
}

static void range_is_checked(void **state) {
    (void)state;
    qs_sensitivity one = example;
    const qs_recipe recipe = stochastic_recipe("fp16");
    double omega = 0;
    one.v.absmax = 70000; /* beyond fp16's 65504 */
    assert_int_equal(qs_omega(&one, &recipe, (qs_convention){QS_DEPTH_PAPER, QS_PLAIN}, &omega), QS_INFEASIBLE);
    assert_non_null(strstr(qs_message(), "fp16"));
}

static void spearman_of_known_orders(void **state) {
    (void)state;
    const double up[] = {1, 2, 3, 4, 5}, down[] = {9, 7, 5, 3, 1}, ties[] = {1, 1, 2, 2, 2};
    assert_true(fabs(qs_spearman(5, up, up) - 1) < 1e-12);
    assert_true(fabs(qs_spearman(5, up, down) + 1) < 1e-12);
    /* By hand: ranks of ties 0.5 0.5 3 3 3 against 0..4: Σxy = 7.5, Σxx = 10, Σyy = 7.5. */
    assert_true(fabs(qs_spearman(5, up, ties) - 7.5 / sqrt(75)) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_agree), cmocka_unit_test(coarser_formats_are_noisier),
                                       cmocka_unit_test(nearest_is_half_of_stochastic), cmocka_unit_test(range_is_checked),
                                       cmocka_unit_test(spearman_of_known_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
