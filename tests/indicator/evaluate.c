// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Ω of a model: operators bound by name, means over iterations, figures rescaled from profiling to the job, the trace. */
#include "indicator_support.h"

enum { RECIPES = 3, NODES = 16, BATCH = 8 };

static void recipes_fill(qs_recipe *recipe) {
    static const char *const names[RECIPES] = {"fp32", "bf16", "int8/bf16"};
    for (int r = 0; r < RECIPES; r++)
        assert_ok(qs_recipe_builtin(names[r], &recipe[r]));
}

static void evaluate(const small_model *model, const char *convention, int64_t batch, int64_t global_batch, double *omega) {
    qs_recipe recipe[RECIPES];
    qs_convention parsed;
    recipes_fill(recipe);
    assert_true(model->graph->nodes <= NODES);
    assert_ok(qs_convention_parse(convention, &parsed));
    assert_ok(qs_indicator_evaluate("qsync", parsed, model->graph, &model->profile, batch, global_batch, RECIPES, recipe, 1, omega));
}

static const qs_operator_statistics *statistics_of(const small_model *model, const char *name) {
    const qs_statistics *statistics = &model->profile.statistics;
    for (int i = 0; i < statistics->operators; i++)
        if (strcmp(statistics->operator_[i].name, name) == 0) return &statistics->operator_[i];
    return NULL;
}

/* One operator from its raw figures: profiled at half the job's batch, with the same ranks. The sum over samples doubles, the gradient of
 * the mean loss halves: ‖v‖² and D_v ×2, ‖∇v‖² ×1/2, absmax of ∇v ×1/2. */
static double by_hand(const qs_operator_statistics *raw, double depth, double model_depth, double inner_forward, double inner_backward) {
    const double gamma2 = 1.0 / (4 * BATCH) / (4 * BATCH);
    double sum = 0;
    for (int i = 0; i < SMALL_ITERATIONS; i++) {
        const double v = 2 * raw->src.norm2[i], x = raw->weights.norm2[i], gv = raw->diff_dst.norm2[i] / 2;
        const double variance_v = 2 * raw->src.variance_int8[i], variance_x = raw->weights.channel_absmax2[i] / (127 * 127) / 6;
        const double variance_gv = raw->diff_dst.variance_bf16[i] / 2 / 2; /* rounded to nearest */
        sum += gamma2 * (model_depth - depth) * (x * variance_v + v * variance_x) / inner_forward +
               depth * (gv * variance_v + v * variance_gv) / inner_backward;
    }
    return sum / SMALL_ITERATIONS;
}

TEST(rescaled_from_half_the_batch) {
    small_model model = small_model_make(BATCH);
    double omega[NODES * RECIPES], model_depth;
    int depth[NODES];
    evaluate(&model, "influence-contracted", 2 * BATCH, 4 * BATCH, omega);
    qs_graph_depths(model.graph, depth);
    model_depth = depth[model.graph->nodes - 1];
    /* dense 4 → 8 on 6×6, depthwise to 3×3, fc 8 → 5; depths as the graph has them, tested there. */
    const int dense = small_model_node(&model, "dense"), depthwise = small_model_node(&model, "depthwise");
    const int fc = small_model_node(&model, "fc");
    close_to(omega[dense * RECIPES + 2], by_hand(statistics_of(&model, "dense"), depth[dense], model_depth, 36, 2 * BATCH * 36));
    close_to(omega[depthwise * RECIPES + 2], by_hand(statistics_of(&model, "depthwise"), depth[depthwise], model_depth, 9, 2 * BATCH * 9));
    close_to(omega[fc * RECIPES + 2], by_hand(statistics_of(&model, "fc"), depth[fc], model_depth, 8, 2 * BATCH));
    evaluate(&model, "influence-counted", 2 * BATCH, 4 * BATCH, omega);
    /* D_x D_v / M: C_in · positions read / positions written, and D_v D_∇v / M: batch · positions read · C_in / (kernel · channels); of
     * nine places of the depthwise window along each axis, eight are in the image; of eighteen of the dense one, sixteen. */
    const double inside = 8.0 / 9 * 8 / 9;
    close_to(omega[dense * RECIPES + 2],
             by_hand(statistics_of(&model, "dense"), depth[dense], model_depth, 4 / inside, 2 * BATCH * 36 / 9.0 / inside));
    close_to(omega[depthwise * RECIPES + 2], by_hand(statistics_of(&model, "depthwise"), depth[depthwise], model_depth,
                                                     8 * 36 / 9.0 / inside, 2 * BATCH * 36 * 8 / 9.0 / inside));
    close_to(omega[fc * RECIPES + 2], by_hand(statistics_of(&model, "fc"), depth[fc], model_depth, 8, 2 * BATCH));
    for (int n = 0; n < model.graph->nodes; n++)
        assert_true((omega[n * RECIPES] > 0) == (n == dense || n == depthwise || n == fc));
    small_model_release(&model);
}

/* A recurrence of 12 hidden values over 36 positions: what it multiplies are its states, whose step is that of values up to 1. Profiled as
 * the job is, so that nothing is rescaled. */
TEST(states_have_the_step_of_one) {
    static const char *const names[SMALL_OPERATORS] = {"gates", "cell", "fc"};
    small_model model = {0};
    double omega[NODES * RECIPES], sum = 0;
    int node = 0, depth[NODES];
    assert_ok(qs_graph_of_images("recurrent", 4, 6, 6, &model.graph));
    assert_ok(qs_graph_add(model.graph, "sequence", "sequence", NULL, 1, &(int){0}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, names[0], "linear", NULL, 1, &(int){node}, 12, false, &node));
    assert_ok(qs_graph_add(model.graph, names[1], "recurrence", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, "pool", "global_average_pool", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, "flat", "flatten", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, names[2], "linear", NULL, 1, &(int){node}, 5, true, &node));
    assert_ok(qs_graph_finish(model.graph, node, NULL));
    qs_statistics *statistics = &model.profile.statistics;
    *statistics = (qs_statistics){.batch = BATCH, .iterations = SMALL_ITERATIONS, .ranks = 2, .operators = SMALL_OPERATORS};
    statistics->operator_ = calloc(SMALL_OPERATORS, sizeof *statistics->operator_);
    assert_non_null(statistics->operator_);
    for (int i = 0; i < SMALL_OPERATORS; i++) {
        qs_operator_statistics *one = &statistics->operator_[i];
        assert_ok(qs_operator_statistics_create(SMALL_ITERATIONS, one));
        snprintf(one->name, sizeof one->name, "%s", names[i]);
        small_tensor(&one->src, BATCH * 12 * 36, 0.1, (uint64_t)(3 * i));
        small_tensor(&one->weights, 12 * 12, 0.1, (uint64_t)(3 * i + 1));
        small_tensor(&one->diff_dst, BATCH * 12 * 36, 1e-3, (uint64_t)(3 * i + 2));
    }
    evaluate(&model, "influence-contracted", BATCH, 2 * BATCH, omega);
    qs_graph_depths(model.graph, depth);
    const qs_operator_statistics *raw = statistics_of(&model, "cell");
    const int cell = small_model_node(&model, "cell");
    const double gamma2 = 1.0 / (2 * BATCH) / (2 * BATCH), rest = depth[model.graph->nodes - 1] - depth[cell];
    for (int i = 0; i < SMALL_ITERATIONS; i++) {
        const double v = raw->src.norm2[i], x = raw->weights.norm2[i], gv = raw->diff_dst.norm2[i];
        const double of_v = raw->src.variance_int8[i] / raw->src.absmax[i] / raw->src.absmax[i];
        const double of_x = raw->weights.channel_absmax2[i] / (127 * 127) / 6, of_gv = 0; /* products of floats are in fp32 */
        sum += gamma2 * rest * (x * of_v + v * of_x) / 12 + depth[cell] * (gv * of_v + v * of_gv) / (BATCH * 36);
    }
    close_to(omega[cell * RECIPES + 2], sum / SMALL_ITERATIONS);
    small_model_release(&model);
}

/* The gain of an operator is its output gradient's squared norm over the last one's, whatever the batch. */
TEST(gain_of_gradients) {
    small_model model = small_model_make(BATCH);
    double omega[NODES * RECIPES], influence[NODES * RECIPES], flat[NODES * RECIPES];
    int depth[NODES];
    qs_graph_depths(model.graph, depth);
    const int dense = small_model_node(&model, "dense"), fc = small_model_node(&model, "fc");
    const double end = depth[model.graph->nodes - 1];
    evaluate(&model, "gain-counted", 2 * BATCH, 4 * BATCH, omega);
    evaluate(&model, "influence-counted", 2 * BATCH, 4 * BATCH, influence);
    evaluate(&model, "flat-counted", 2 * BATCH, 4 * BATCH, flat);
    const int nodes[] = {dense, fc};
    for (int i = 0; i < 2; i++) {
        const qs_operator_statistics *own = statistics_of(&model, model.graph->node[nodes[i]].name), *last = statistics_of(&model, "fc");
        const int at = nodes[i] * RECIPES + 2;
        /* From two conventions with the same backward factor: forward and backward noise, means over iterations. */
        const double forward = (flat[at] - influence[at]) / depth[nodes[i]];
        const double backward = (influence[at] - (end - depth[nodes[i]]) * forward) / depth[nodes[i]];
        double least = INFINITY, most = 0;
        for (int k = 0; k < SMALL_ITERATIONS; k++) {
            const double gain = own->diff_dst.norm2[k] / last->diff_dst.norm2[k];
            least = fmin(least, gain);
            most = fmax(most, gain);
        }
        if (nodes[i] == fc) assert_true(least == 1 && most == 1);
        assert_true(omega[at] > (least * forward + backward) * (1 - 1e-9) && omega[at] < (most * forward + backward) * (1 + 1e-9));
    }
    small_model_release(&model);
}

/* More ranks at the same local batch: γ and ∇v fall together, so that Ω falls with the square of the ranks; no order changes. */
TEST(more_ranks_are_less_noise) {
    small_model model = small_model_make(BATCH);
    double few[NODES * RECIPES], many[NODES * RECIPES];
    for (size_t c = 0; qs_convention_name_at(c); c++) {
        evaluate(&model, qs_convention_name_at(c), BATCH, 2 * BATCH, few);
        evaluate(&model, qs_convention_name_at(c), BATCH, 8 * BATCH, many);
        for (int i = 0; i < model.graph->nodes * RECIPES; i++)
            close_to(16 * many[i], few[i]);
    }
    small_model_release(&model);
}

TEST(the_trace_has_the_mean) {
    small_model model = small_model_make(BATCH);
    double omega[NODES * RECIPES], trace[NODES * SMALL_ITERATIONS];
    qs_recipe recipe[RECIPES];
    recipes_fill(recipe);
    for (size_t c = 0; qs_convention_name_at(c); c++) {
        qs_convention convention;
        assert_ok(qs_convention_parse(qs_convention_name_at(c), &convention));
        evaluate(&model, qs_convention_name_at(c), BATCH, 2 * BATCH, omega);
        assert_ok(qs_indicator_trace(convention, model.graph, &model.profile, BATCH, 2 * BATCH, &recipe[2], trace));
        for (int n = 0; n < model.graph->nodes; n++) {
            double sum = 0;
            for (int i = 0; i < SMALL_ITERATIONS; i++)
                sum += trace[i * model.graph->nodes + n];
            close_to(sum / SMALL_ITERATIONS, omega[n * RECIPES + 2]);
        }
        const int n = small_model_node(&model, "fc");
        assert_true(trace[n] != trace[model.graph->nodes + n]);
    }
    small_model_release(&model);
}

/* A range that a format cannot hold in one iteration makes it infeasible there, other recipes and operators are as before. */
TEST(infeasible_is_infinite) {
    small_model model = small_model_make(BATCH);
    double before[NODES * RECIPES], after[NODES * RECIPES];
    evaluate(&model, "paper", BATCH, BATCH, before);
    const int n = small_model_node(&model, "fc"), dense = small_model_node(&model, "dense");
    statistics_of(&model, "fc")->src.absmax[1] = 3.395e38; /* fp32 holds it, bf16 ends at 3.3895e38 */
    evaluate(&model, "paper", BATCH, BATCH, after);
    assert_true(isfinite(before[n * RECIPES + 1]) && isinf(after[n * RECIPES + 1]) && isfinite(after[n * RECIPES]));
    assert_true(after[dense * RECIPES + 1] == before[dense * RECIPES + 1]);
    small_model_release(&model);
}

TEST(what_is_missing_is_said) {
    small_model model = small_model_make(BATCH);
    double omega[NODES * RECIPES];
    qs_recipe recipe[RECIPES];
    recipes_fill(recipe);
#define EVALUATE(name) \
    qs_indicator_evaluate(name, QS_CONVENTION_DEFAULT, model.graph, &model.profile, BATCH, BATCH, RECIPES, recipe, 1, omega)
    assert_refused(EVALUATE("entropy"), QS_USAGE, "qsync, measured, random");
    model.profile.statistics.operators--;
    assert_refused(EVALUATE("qsync"), QS_MISMATCH, "operator dense");
    model.profile.statistics.iterations = 0;
    assert_int_equal(EVALUATE("qsync"), QS_MISMATCH);
    assert_ok(EVALUATE("random")); /* needs nothing measured; halved at each higher precision */
    for (int n = model.graph->samples.inputs; n < model.graph->nodes; n++)
        assert_true(omega[n * RECIPES + 1] == omega[n * RECIPES + 2] / 2 && omega[n * RECIPES] == omega[n * RECIPES + 2] / 4);
    small_model_release(&model);
}

TEST_MAIN(rescaled_from_half_the_batch, states_have_the_step_of_one, gain_of_gradients, more_ranks_are_less_noise, the_trace_has_the_mean,
          infeasible_is_infinite, what_is_missing_is_said)
