// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The Monte-Carlo ground truth: nothing for fp32, the exact variance where one is known, no bias where there is none (docs/method.md §3.5).
 * */
#include "profiler_support.h"

enum { BATCH = 16, HALF = BATCH / 2, PIXELS = 3072, MOST = 32 };

static void truth_open(bench *b, const char *backend, const char *model, qs_truth_options *options) {
    bench_open(b, NULL, backend, model, BATCH);
    qs_truth_options_default(options);
    options->job = &b->job;
    options->class_ = &b->cluster.class_[0];
    options->warm_up = 2;
    options->seeds = 4;
}

static qs_recipe recipe_named(const char *name) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin(name, &recipe));
    return recipe;
}

/* variance + bias2_raw = error2 is an identity of sums over seeds; doubles keep it to about 1e-12 of the largest term, which here is the
 * squared distance of a gradient from the mean. */
static void sums_agree(const qs_truth *truth) {
    for (int i = 0; i < truth->rows; i++) {
        const qs_truth_row *row = &truth->row[i];
        if (fabs(row->variance + row->bias2_raw - row->error2) > 1e-9 * row->error2)
            fail_msg("%s in %s: %g + %g is not %g", row->name, row->recipe, row->variance, row->bias2_raw, row->error2);
        assert_true(row->bias2 == fmax(row->bias2_raw, 0));
        assert_true(row->variance >= 0 && row->standard_error >= 0);
    }
}

/* resnet8 has batch norm, which keeps a state beside the weights: were anything left behind by a step, or a bit different between runs, the
 * second run would show it. A recipe that draws nothing has no variance, but an error. */
TEST(fp32_against_itself_is_nothing) {
    bench b;
    qs_truth_options options;
    qs_truth truth = {0};
    truth_open(&b, backend_exists("cpu") ? "cpu" : "ref", "resnet8:width=0.5", &options);
    const qs_recipe recipes[] = {recipe_named("fp32"), recipe_named("bf16")};
    options.recipe = recipes;
    options.recipes = device_multiplies(b.device, "bf16") ? 2 : 1;
    assert_ok(qs_truth_measure(&options, b.device, &truth));
    assert_int_equal(truth.batch, HALF);
    assert_true(truth.gradient_norm2 > 0);
    assert_int_equal(truth.rows, 10 * options.recipes);
    sums_agree(&truth);
    for (int i = 0; i < truth.rows; i++) {
        const qs_truth_row *row = &truth.row[i];
        assert_string_equal(b.graph->node[row->node].name, row->name);
        assert_int_equal(row->seeds, 2);
        assert_true(row->variance == 0 && row->standard_error == 0);
        assert_true(strcmp(row->recipe, "fp32") == 0 ? row->error2 == 0 : row->error2 > 0 && row->error2 < truth.gradient_norm2);
    }
    qs_truth_release(&truth);
    bench_close(&b);
}

/* ---- A variance known exactly ---------------------------------------------------------------------------------------- */

typedef struct layer {
    int inputs, outputs;
    const float *weights, *bias;
} layer;

static layer layer_of(const qs_graph *graph, const float *trained, const char *name) {
    const int node = qs_graph_find(graph, name);
    assert_true(node > 0);
    const qs_parameter *weights = qs_graph_parameter(graph, node, QS_WEIGHTS);
    const layer one = {(int)weights->shape.dim[1], (int)weights->shape.dim[0], trained + weights->offset,
                       trained + qs_graph_parameter(graph, node, QS_BIAS)->offset};
    assert_true(one.inputs <= PIXELS && one.outputs <= MOST);
    return one;
}

static void layer_apply(const layer *one, const double *src, bool relu, double *dst) {
    for (int o = 0; o < one->outputs; o++) {
        dst[o] = (double)one->bias[o];
        for (int i = 0; i < one->inputs; i++)
            dst[o] += (double)one->weights[o * one->inputs + i] * src[i];
        if (relu) dst[o] = fmax(dst[o], 0);
    }
}

/* ‖∂ mean loss / ∂ logits‖² of one sample. */
static double logits_gradient2(int classes, const double *logits, int label) {
    double sum = 0, norm2 = 0;
    for (int o = 0; o < classes; o++)
        sum += exp(logits[o]);
    for (int o = 0; o < classes; o++) {
        const double g = (exp(logits[o]) / sum - (o == label)) / HALF;
        norm2 += g * g;
    }
    return norm2;
}

/* The last layer's saved input alone is rounded stochastically to bf16 for its weight gradient Σ g xᵀ, which nothing else depends on: the
 * variance is Σ over samples of ‖g‖² Σ q² f (1 - f), at the start weights. */
static double variance_by_hand(const bench *b) {
    static float images[HALF * PIXELS];
    static double pixels[PIXELS];
    int32_t labels[HALF];
    qs_dataset set;
    int64_t *order = NULL;
    float *trained = NULL, none;
    double variance = 0;
    assert_ok(qs_allocate((size_t)b->graph->trained_elements, sizeof *trained, &trained));
    qs_graph_initialize(b->graph, b->job.seed, trained, &none);
    const layer fc1 = layer_of(b->graph, trained, "fc1"), fc2 = layer_of(b->graph, trained, "fc2"), fc = layer_of(b->graph, trained, "fc");
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 0, &set));
    assert_ok(qs_allocate((size_t)set.count, sizeof *order, &order));
    qs_random_permutation(qs_random_key(b->job.seed, 0, 0, 0), set.count, order);
    const qs_batch batch = {.input = {images}, .extent = {{32, 32}}, .target = labels};
    assert_ok(qs_batch_fill(&set, NULL, order, HALF, &batch));
    for (int s = 0; s < HALF; s++) {
        double first[MOST], second[MOST], logits[MOST];
        float rounded[MOST];
        for (int i = 0; i < PIXELS; i++)
            pixels[i] = (double)images[s * PIXELS + i];
        layer_apply(&fc1, pixels, true, first);
        layer_apply(&fc2, first, true, second);
        layer_apply(&fc, second, false, logits);
        for (int i = 0; i < fc.inputs; i++)
            rounded[i] = (float)second[i];
        variance +=
            logits_gradient2(fc.outputs, logits, labels[s]) * qs_stochastic_variance_array(qs_format_of("bf16"), 0, fc.inputs, rounded);
    }
    free(order);
    free(trained);
    qs_dataset_release(&set);
    return variance;
}

static const qs_truth_row *row_of(const qs_truth *truth, const char *name) {
    for (int i = 0; i < truth->rows; i++)
        if (strcmp(truth->row[i].name, name) == 0) return &truth->row[i];
    fail_msg("no row of %s", name);
    return NULL;
}

/* The mean over seeds lies within 5 standard errors (a chance of 1e-6), which the measurement states itself; that it states them well
 * enough is checked too: the squared error is a sum over some 100 products, so it spreads by a part of its size, not by more.
 * The bias is that of chance: variance/seeds, with a spread below variance × √2/seeds. */
TEST(variance_is_exact_and_unbiased) {
    enum { SEEDS = 200 };
    bench b;
    qs_truth_options options;
    qs_truth truth = {0};
    truth_open(&b, "ref", "mlp:width=0.125", &options);
    b.job.augmentation = false;
    b.job.loss_scale = 1024;
    qs_recipe recipe = recipe_named("fp32");
    snprintf(recipe.name, sizeof recipe.name, "saved-bf16");
    assert_ok(qs_quantizer_find("bf16:tensor:stochastic", &recipe.weight_gradient.src));
    options.recipe = &recipe;
    options.recipes = 1;
    options.warm_up = 0;
    options.seeds = SEEDS;
    assert_ok(qs_truth_measure(&options, b.device, &truth));
    sums_agree(&truth);
    const double expected = variance_by_hand(&b);
    const qs_truth_row *row = row_of(&truth, "fc");
    assert_int_equal(row->seeds, SEEDS);
    if (fabs(row->error2 - expected) > 5 * row->standard_error)
        fail_msg("error %g +- %g, by hand %g", row->error2, row->standard_error, expected);
    assert_true(row->standard_error > 0.01 * expected / sqrt(SEEDS) && row->standard_error < expected / sqrt(SEEDS));
    if (fabs(row->bias2_raw) > 5 * sqrt(2) * row->variance / SEEDS)
        fail_msg("bias %g beside a variance of %g", row->bias2_raw, row->variance);
    qs_truth_release(&truth);
    bench_close(&b);
}

/* ---- Options --------------------------------------------------------------------------------------------------------- */

/* With stochastic floats a bf16 recipe draws. The class's recipes are those below fp32. */
TEST(floats_may_be_stochastic) {
    bench b;
    qs_truth_options options;
    qs_truth nearest = {0}, stochastic = {0};
    truth_open(&b, "ref", "mlp:width=0.125", &options);
    assert_ok(qs_truth_measure(&options, b.device, &nearest));
    options.stochastic_floats = true;
    assert_ok(qs_truth_measure(&options, b.device, &stochastic));
    assert_int_equal(nearest.rows, 3 * 2);
    assert_int_equal(stochastic.rows, 3 * 2);
    sums_agree(&nearest);
    sums_agree(&stochastic);
    for (int i = 0; i < nearest.rows; i++) {
        assert_string_equal(nearest.row[i].recipe, i % 2 ? "int8/bf16" : "bf16");
        assert_true((nearest.row[i].variance == 0) == (i % 2 == 0));
        assert_true(stochastic.row[i].variance > 0);
        assert_int_equal(stochastic.row[i].seeds, 4);
    }
    qs_truth_release(&nearest);
    qs_truth_release(&stochastic);
    bench_close(&b);
}

TEST(bad_options_are_refused) {
    bench b;
    qs_truth_options options;
    qs_truth truth = {0};
    truth_open(&b, "ref", "mlp:width=0.125", &options);
    options.seeds = 1;
    assert_refused(qs_truth_measure(&options, b.device, &truth), QS_USAGE, "seeds 1");
    options.seeds = 2;
    options.warm_up = -1;
    assert_refused(qs_truth_measure(&options, b.device, &truth), QS_USAGE, "warm-up of -1");
    options.warm_up = 0;
    b.cluster.class_[0].formats = 1;
    assert_refused(qs_truth_measure(&options, b.device, &truth), QS_USAGE, "nothing to measure");
    b.job.rate.base = 1e30;
    b.cluster.class_[0].formats = 2;
    options.warm_up = 4;
    assert_refused(qs_truth_measure(&options, b.device, &truth), QS_NUMERIC, "lower the learning rate");
    assert_null(truth.row);
    bench_close(&b);
}

TEST_MAIN(fp32_against_itself_is_nothing, variance_is_exact_and_unbiased, floats_may_be_stochastic, bad_options_are_refused)
