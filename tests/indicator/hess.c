// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The Hessian baseline: its definition on a model of two layers, and what it says where nothing was measured. */
#include "indicator_support.h"

enum { RECIPES = 4, BATCH = 8 };

static void recipes_fill(qs_recipe *recipe) {
    static const char *const names[RECIPES] = {"fp32", "bf16", "int8/bf16", "int4/bf16"};
    for (int r = 0; r < RECIPES; r++)
        assert_ok(qs_recipe_builtin(names[r], &recipe[r]));
}

static qs_status evaluate(const small_model *model, int recipes, const qs_recipe *recipe, double *omega) {
    return qs_indicator_evaluate("hess", QS_CONVENTION_DEFAULT, model->graph, &model->profile, BATCH, BATCH, recipes, recipe, 1, omega);
}

static double mean(const double *values) {
    return (values[0] + values[1] + values[2]) / SMALL_ITERATIONS;
}

/* |λ| / parameters × error of the weights for integers, the mean over iterations; a float has half of the next lower recipe's. */
TEST(is_its_definition) {
    small_model model = small_model_make(BATCH);
    qs_recipe recipe[RECIPES];
    double omega[16 * RECIPES];
    recipes_fill(recipe);
    for (int i = 0; i < model.profile.statistics.operators; i++) {
        qs_operator_statistics *one = &model.profile.statistics.operator_[i];
        one->hessian_top = i % 2 ? 3.5 : -2.0;
        for (int k = 0; k < model.profile.statistics.iterations; k++)
            one->weights.variance_int8_channel[k] = 0.25 + k;
    }
    assert_ok(evaluate(&model, RECIPES, recipe, omega));
    const double error8 = 0.25 + (model.profile.statistics.iterations - 1) / 2.0;
    for (int i = 0; i < model.profile.statistics.operators; i++) {
        const qs_operator_statistics *one = &model.profile.statistics.operator_[i];
        const double *at = &omega[small_model_node(&model, one->name) * RECIPES], most = recipe[3].forward.weights.format->max;
        const double curvature = fabs(one->hessian_top) / (double)one->weights.count;
        close_to(at[2], curvature * error8);
        close_to(at[3], curvature * mean(one->weights.channel_absmax2) / (most * most) / 6); /* int4 was not measured: uniform remainders */
        close_to(at[1], at[2] / 2);
        close_to(at[0], at[1] / 2);
    }
    small_model_release(&model);
}

/* Floats alone: the lowest one's own rounding error is what the others halve. */
TEST(floats_alone) {
    small_model model = small_model_make(BATCH);
    qs_recipe recipe[RECIPES];
    double omega[16 * 2];
    recipes_fill(recipe);
    for (int i = 0; i < model.profile.statistics.operators; i++)
        model.profile.statistics.operator_[i].hessian_top = 1;
    assert_ok(evaluate(&model, 2, recipe, omega));
    const qs_operator_statistics *one = &model.profile.statistics.operator_[0];
    const double *at = &omega[small_model_node(&model, one->name) * 2];
    close_to(at[1], mean(one->weights.variance_bf16) / 2 / (double)one->weights.count); /* rounded to nearest */
    close_to(at[0], at[1] / 2);
    small_model_release(&model);
}

TEST(needs_eigenvalues) {
    small_model model = small_model_make(BATCH);
    qs_recipe recipe[RECIPES];
    double omega[16 * RECIPES];
    recipes_fill(recipe);
    assert_refused(evaluate(&model, RECIPES, recipe, omega), QS_MISMATCH, "qsync profile --hessian");
    model.profile.statistics.iterations = 0;
    assert_refused(evaluate(&model, RECIPES, recipe, omega), QS_MISMATCH, "--statistics-iterations");
    small_model_release(&model);
}

/* A product of two activations has no weights to look along: it counts as the most sensitive operator that has, at every recipe. */
TEST(products_of_activations) {
    static const char *const names[] = {"first", "scores", "last"};
    const qs_input input = {.name = "input", .type = QS_INPUT_F32, .rank = 2, .extent = {4, 6}};
    const qs_attributes with = {.heads = 1, .transposed = 1};
    small_model model = {0};
    qs_recipe recipe[RECIPES];
    double omega[16 * RECIPES];
    int node = 0;
    recipes_fill(recipe);
    assert_ok(qs_graph_create("products", "rows", 1, &input, &model.graph));
    assert_ok(qs_graph_add(model.graph, "first", "linear", NULL, 1, &(int){0}, 6, false, &node));
    assert_ok(qs_graph_add(model.graph, "scores", "matmul", &with, 2, (int[]){node, 0}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, "flat", "flatten", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, "last", "linear", NULL, 1, &(int){node}, 3, false, &node));
    assert_ok(qs_graph_finish(model.graph, node, NULL));
    qs_statistics *statistics = &model.profile.statistics;
    *statistics = (qs_statistics){.batch = BATCH, .iterations = SMALL_ITERATIONS, .ranks = 1, .operators = SMALL_OPERATORS};
    statistics->operator_ = calloc(SMALL_OPERATORS, sizeof *statistics->operator_);
    assert_non_null(statistics->operator_);
    for (int i = 0; i < SMALL_OPERATORS; i++) {
        qs_operator_statistics *one = &statistics->operator_[i];
        assert_ok(qs_operator_statistics_create(SMALL_ITERATIONS, one));
        snprintf(one->name, sizeof one->name, "%s", names[i]);
        small_tensor(&one->weights, 36, 0.1 + i, (uint64_t)i);
        one->hessian_top = i == 1 ? NAN : 1; /* nobody measured any of the product */
    }
    assert_ok(evaluate(&model, RECIPES, recipe, omega));
    const double *first = &omega[small_model_node(&model, "first") * RECIPES];
    const double *scores = &omega[small_model_node(&model, "scores") * RECIPES];
    const double *last = &omega[small_model_node(&model, "last") * RECIPES];
    for (int r = 0; r < RECIPES; r++) {
        assert_true(first[r] > 0 && last[r] > 0);
        assert_true(scores[r] == fmax(first[r], last[r]));
    }
    small_model_release(&model);
}

TEST_MAIN(is_its_definition, floats_alone, needs_eigenvalues, products_of_activations)
