// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Which kernels are the fastest: every case with a choice has all of its candidates' times, another kernel than the usual one is chosen
 * only where it surely took less, and a device that is told runs what was chosen. */
#include "profiler_support.h"

#include "../../src/profiler/timing/timing.h"

static qs_device *device_open(const char *backend) {
    qs_device *device;
    assert_ok(qs_device_open(&(qs_device_options){.backend = backend, .threads = 1, .speed = 1}, &device));
    return device;
}

static qs_status measure(qs_device *device, const char *backend, const char *model, const char *recipe, int rounds, qs_tune_result *out) {
    qs_tune_options options;
    qs_cluster cluster;
    qs_recipe one;
    qs_job job;
    qs_job_default(&job);
    snprintf(job.model, sizeof job.model, "%s", model);
    job.batch = 4;
    assert_ok(qs_cluster_single(backend, 1, &cluster));
    assert_ok(qs_recipe_builtin(recipe, &one));
    qs_tune_options_default(&options);
    options.job = &job;
    options.class_ = cluster.class_;
    options.recipes = 1;
    options.recipe = &one;
    options.rounds = rounds;
    const qs_status status = qs_tune_measure(&options, device, out);
    qs_cluster_release(&cluster);
    return status;
}

static bool has_library(const qs_device *device) {
    qs_device_info info;
    qs_device_describe(device, &info);
    return strcmp(info.library, "own kernels") != 0;
}

static void row_check(qs_device *device, const qs_tune_row *row) {
    qs_kernel_fact fact[QS_MOST_CANDIDATES];
    qs_case one;
    int count = 0;
    assert_ok(qs_case_parse(row->case_text, &one));
    assert_ok(qs_device_candidates(device, &one, fact, &count));
    assert_int_equal(row->candidates, count);
    assert_true(count >= 2 && row->chosen >= 0 && row->chosen < count);
    for (int c = 0; c < count; c++) {
        assert_string_equal(row->kernel[c], fact[c].kernel);
        assert_true(isfinite(row->us[c]) && row->us[c] > 0);
    }
    /* Of six rounds of one plan none is left out: in each the chosen one took at most 0.98, so in the median as well. */
    if (row->chosen > 0) assert_true(row->us[row->chosen] <= 0.98 * (1 + 1e-12) * row->us[0]);
}

TEST(chosen_kernels_run) {
    qs_tune_result result;
    qs_bench_figure figure;
    qs_kernel_choice choice[64];
    if (!qs_device_backend_at(1)) skip();
    qs_device *device = device_open("cpu");
    if (!has_library(device)) { /* our own kernels alone are no choice */
        qs_device_close(device);
        skip();
    }
    assert_ok(measure(device, "cpu", "lenet5", "fp32", 6, &result));
    assert_in_range(result.rows, 3, 64);
    assert_true(result.chosen_us > 0 && result.chosen_us <= result.usual_us);
    for (int i = 0; i < result.rows; i++) {
        row_check(device, &result.row[i]);
        choice[i].case_text = result.row[i].case_text;
        memcpy(choice[i].kernel, result.row[i].kernel[result.row[i].candidates - 1], sizeof choice[i].kernel);
    }
    assert_ok(qs_device_prefer(device, result.rows, choice));
    const qs_bench_question question = {.model = "lenet5", .recipe = "fp32", .batch = 4, .steps = 1};
    assert_ok(qs_bench_step(&question, device, &figure));
    assert_int_equal(figure.tuned, result.rows); /* every case with a choice was among the model's */
    assert_true(figure.cases > figure.tuned);
    qs_tune_release(&result);
    qs_device_close(device);
}

/* ---- The rule, on constructed ratios ---- */

enum { MOST_ROUNDS = 40 };

static void samples_set(int count, const double *value, qs__samples *out) {
    out->count = 0;
    for (int i = 0; i < count; i++)
        assert_ok(qs__samples_add(out, value[i]));
}

/* Two candidates; `above` rounds of the second are 1.2, the others 0.9. */
static int chosen_of(int count, int above) {
    double value[MOST_ROUNDS];
    qs__samples ratio[2] = {{0}};
    for (int i = 0; i < count; i++)
        value[i] = i * above / count < (i + 1) * above / count ? 1.2 : 0.9;
    samples_set(count, value, &ratio[1]);
    const int chosen = qs__fastest_of(2, ratio);
    free(ratio[1].value);
    return chosen;
}

/* At most r of `count` rounds may be slower: the largest r that as many throws of a coin pass with no more than 2.5 %, Σ C(count, 0 ... r)
 * ≤ 2^count / 40 in whole numbers. */
TEST(few_slow_rounds_are_allowed) {
    for (int count = 1; count <= MOST_ROUNDS; count++) {
        uint64_t term = 1, sum = 0;
        for (int above = 0; above <= count; above++) {
            sum += term;
            term = term * (uint64_t)(count - above) / (uint64_t)(above + 1);
            const bool surely = 40 * sum <= UINT64_C(1) << count;
            if (chosen_of(count, above) != surely) fail_msg("%d of %d rounds slower: %s", above, count, surely ? "stays" : "changes");
        }
    }
}

/* Twelve rounds around a median: of candidates that save 2 % and not more, no more than 2.5 % are taken. What is allowed beyond is five
 * standard deviations of as many trials. Those that save 10 % with the same noise always are. */
TEST(noise_changes_nothing) {
    enum { ROUNDS = 12, TRIALS = 20000 };
    qs__samples ratio[2] = {{0}};
    int taken[2] = {0};
    for (int trial = 0; trial < TRIALS; trial++)
        for (int kind = 0; kind < 2; kind++) {
            double value[ROUNDS];
            for (int i = 0; i < ROUNDS; i++)
                value[i] = (kind ? 0.90 : 0.98) * exp(0.01 * (double)qs_random_normal(31, (uint64_t)(trial * ROUNDS + i)));
            samples_set(ROUNDS, value, &ratio[1]);
            taken[kind] += qs__fastest_of(2, ratio);
        }
    free(ratio[1].value);
    if (taken[0] > 0.025 * TRIALS + 5 * sqrt(0.025 * TRIALS)) fail_msg("%d of %d taken for nothing", taken[0], TRIALS);
    assert_int_equal(taken[1], TRIALS);
}

/* Of several that save enough the one with the least median; one that saves more, but not surely, is passed over. */
TEST(the_best_of_sure_ones) {
    static const double rounds[][6] = {{1, 1, 1, 1, 1, 1},
                                       {0.97, 0.97, 0.96, 0.97, 0.97, 0.97},
                                       {0.90, 0.91, 0.92, 0.93, 0.90, 0.97},
                                       {0.50, 0.50, 0.50, 0.50, 0.50, 0.99},
                                       {0.95, 0.95, 0.95, 0.95, 0.95, 0.95}};
    enum { CANDIDATES = COUNT_OF(rounds) };
    qs__samples ratio[CANDIDATES] = {{0}};
    for (int c = 0; c < CANDIDATES; c++)
        samples_set(6, rounds[c], &ratio[c]);
    assert_int_equal(qs__fastest_of(CANDIDATES, ratio), 2);
    assert_int_equal(qs__fastest_of(2, ratio), 1);
    assert_int_equal(qs__fastest_of(1, ratio), 0);
    for (int c = 0; c < CANDIDATES; c++)
        free(ratio[c].value);
}

TEST(nothing_to_choose) {
    qs_tune_result result;
    qs_device *device = device_open("ref");
    assert_ok(measure(device, "ref", "mlp", "fp32", 6, &result));
    assert_int_equal(result.rows, 0);
    qs_tune_release(&result);
    assert_refused(measure(device, "ref", "mlp", "fp32", 5, &result), QS_USAGE, "rounds 5");
    qs_device_close(device);
}

TEST_MAIN(few_slow_rounds_are_allowed, noise_changes_nothing, the_best_of_sure_ones, nothing_to_choose, chosen_kernels_run)
