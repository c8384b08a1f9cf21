// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Measured noise: shrinkage by the standard error, where another run tells most, and the indicator that comes of it. */
#include "indicator_support.h"

enum { RECIPES = 3, BATCH = 8, NODES = 16 };

static qs_noise_candidate candidate(int recipe, double formula, int runs, double error2, double standard_error) {
    return (qs_noise_candidate){.recipe = recipe, .formula = formula, .runs = runs, .error2 = error2, .standard_error = standard_error};
}

/* ---- Beliefs --------------------------------------------------------------------------------------------------------------- */

/* What is known exactly is believed, what is hardly known is the formula times what it is wrong by elsewhere. */
TEST(shrinks_by_the_standard_error) {
    qs_noise_candidate all[] = {candidate(0, 1, 2, 3, 0),       candidate(0, 1, 2, 12, 0), candidate(0, 1, 2, 6, 6e6),
                                candidate(0, 5, 0, 0, 0),       candidate(1, 2, 0, 0, 0),  candidate(0, 0, 1, 4, 1),
                                candidate(0, 1, 2, INFINITY, 0)};
    qs_noise_shrink(7, all);
    close_to(all[0].correction, log(3.0));
    close_to(all[1].correction, log(12.0));
    assert_true(all[0].variance == 0);
    const double offset = log(6.0);                       /* the mean of the two that are known */
    assert_true(fabs(all[2].correction - offset) < 1e-9); /* a variance of 10^12 leaves 10^-12 of its own figure */
    for (int i = 3; i < 7; i++)
        if (i != 5) assert_true(fabs(all[i].correction - offset) < 1e-9);
    /* Variance 1 counts as two, ln² 2 stands on either side, and the third adds what is believed already. */
    assert_true(fabs(all[3].variance - (2 + 2 * log(2.0) * log(2.0)) / 4) < 1e-6);
}

/* Between the two by their variances: its own figure counts as d / (d + variance), with d how much candidates differ, which is the fixed
 * point of (2 + Σ (share² correction² + share variance)) / (2 + candidates). */
TEST(weighs_formula_and_measurement) {
    qs_noise_candidate all[] = {candidate(0, 1, 4, exp(1.0), 0.5 * exp(1.0)), candidate(0, 1, 4, exp(-1.0), 0.5 * exp(-1.0))};
    qs_noise_shrink(2, all);
    double difference = 1, share = 0;
    for (int i = 0; i < 50; i++) {
        share = difference / (difference + 0.25);
        difference = (2 + 2 * (share * share + share * 0.25)) / 4;
    }
    share = difference / (difference + 0.25);
    close_to(all[0].correction, share);
    close_to(all[1].correction, -share);
    close_to(all[0].variance, share * 0.25);
}

/* Runs go to those that cannot be told apart, and of two to the one that less is known of. */
TEST(confusion_is_between_neighbours) {
    qs_noise_candidate all[] = {candidate(0, 1, 0, 0, 0), candidate(0, 1.1, 0, 0, 0), candidate(0, 1e6, 0, 0, 0),
                                candidate(0, INFINITY, 0, 0, 0)};
    double worth[4];
    all[0].variance = 0.04;
    all[1].variance = 0.01;
    all[2].variance = 0.04;
    all[3].variance = 1;
    const double confusion = qs_noise_confusion(4, all, worth);
    const double exchanged = erfc(log(1.1) / sqrt(0.05) / sqrt(2)) / 2;
    assert_true(fabs(confusion - exchanged / 3) < 1e-12);
    assert_true(fabs(worth[0] - 0.8 * exchanged) < 1e-12 && fabs(worth[1] - 0.2 * exchanged) < 1e-12);
    assert_true(worth[2] < 1e-12 && worth[3] == 0);
}

/* ---- The indicator ----------------------------------------------------------------------------------------------------------- */

static void recipes_fill(qs_recipe *recipe) {
    static const char *const names[RECIPES] = {"fp32", "bf16", "int8/bf16"};
    for (int r = 0; r < RECIPES; r++)
        assert_ok(qs_recipe_builtin(names[r], &recipe[r]));
}

static qs_status evaluate(const small_model *model, const char *name, int64_t batch, const qs_recipe *recipe, double *omega) {
    return qs_indicator_evaluate(name, QS_CONVENTION_DEFAULT, model->graph, &model->profile, batch, batch, RECIPES, recipe, 1, omega);
}

static qs_noise_row row_of(const char *name, const char *recipe, double error2, double standard_error) {
    qs_noise_row row = {.runs = 2, .error2 = error2, .standard_error = standard_error};
    snprintf(row.name, sizeof row.name, "%s", name);
    snprintf(row.recipe, sizeof row.recipe, "%s", recipe);
    return row;
}

static void rows_give(small_model *model, int rows, const qs_noise_row *row) {
    qs_noise *noise = &model->profile.statistics.noise;
    *noise = (qs_noise){.batch = BATCH, .iteration = 3, .runs = 9, .gradient_norm2 = 1, .rows = rows};
    noise->row = calloc((size_t)rows, sizeof *row);
    assert_non_null(noise->row);
    memcpy(noise->row, row, (size_t)rows * sizeof *row);
}

/* Known exactly: Ω at the batch that was measured is what was measured, and follows the formula to other batches. fp32, which nobody
 * measured, is corrected as the operator's other recipes are. */
TEST(is_what_was_measured) {
    small_model model = small_model_make(BATCH);
    qs_recipe recipe[RECIPES];
    double formula[NODES * RECIPES], more[NODES * RECIPES], omega[NODES * RECIPES], later[NODES * RECIPES];
    recipes_fill(recipe);
    assert_refused(evaluate(&model, "measured", BATCH, recipe, omega), QS_MISMATCH, "--noise-runs");
    const qs_noise_row rows[] = {row_of("fc", "bf16", 7, 0), row_of("fc", "int8/bf16", 70, 0), row_of("dense", "bf16", 3, 0),
                                 row_of("dense", "int8/bf16", 50, 0)};
    rows_give(&model, 4, rows);
    assert_ok(evaluate(&model, "qsync", BATCH, recipe, formula));
    assert_ok(evaluate(&model, "qsync", 4 * BATCH, recipe, more));
    assert_ok(evaluate(&model, "measured", BATCH, recipe, omega));
    assert_ok(evaluate(&model, "measured", 4 * BATCH, recipe, later));
    const int fc = small_model_node(&model, "fc") * RECIPES, depthwise = small_model_node(&model, "depthwise") * RECIPES;
    const int dense = small_model_node(&model, "dense") * RECIPES;
    close_to(omega[fc + 1], 7);
    close_to(omega[fc + 2], 70);
    close_to(later[fc + 1], 7 * more[fc + 1] / formula[fc + 1]);
    close_to(omega[fc], formula[fc] * sqrt(7 / formula[fc + 1] * 70 / formula[fc + 2]));
    close_to(omega[depthwise + 1], formula[depthwise + 1] * sqrt(7 / formula[fc + 1] * 3 / formula[dense + 1]));
    assert_true(omega[0] == 0); /* the input */
    small_model_release(&model);
}

/* A recipe that left its range is infinite, whatever the formula thinks; one that did nothing adds nothing. */
TEST(extremes_are_taken_as_they_are) {
    small_model model = small_model_make(BATCH);
    qs_recipe recipe[RECIPES];
    double omega[NODES * RECIPES];
    qs_noise_row rows[] = {row_of("fc", "bf16", 0, 0), row_of("fc", "int8/bf16", 0, 0), row_of("dense", "bf16", 3, 0.1)};
    recipes_fill(recipe);
    rows[1].overflow = true;
    rows_give(&model, 3, rows);
    assert_ok(evaluate(&model, "measured", BATCH, recipe, omega));
    const int fc = small_model_node(&model, "fc") * RECIPES, dense = small_model_node(&model, "dense") * RECIPES;
    assert_true(omega[fc + 1] == 0 && isinf(omega[fc + 2]));
    assert_true(isfinite(omega[dense + 1]) && isfinite(omega[dense + 2]) && omega[dense + 2] > 0);
    snprintf(model.profile.statistics.noise.row[0].name, QS_NAME, "nobody");
    assert_refused(evaluate(&model, "measured", BATCH, recipe, omega), QS_MISMATCH, "nobody");
    small_model_release(&model);
}

TEST_MAIN(shrinks_by_the_standard_error, weighs_formula_and_measurement, confusion_is_between_neighbours, is_what_was_measured,
          extremes_are_taken_as_they_are)
