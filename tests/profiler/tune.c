// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Which kernels are the fastest: every case with a choice has all of its candidates' times, another kernel than the usual one is chosen
 * only where it took less, and a device that is told runs what was chosen. */
#include "profiler_support.h"

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
}

static void chosen_kernels_run(void **state) {
    (void)state;
    qs_tune_result result;
    qs_bench_figure figure;
    qs_kernel_choice choice[64];
    if (!qs_device_backend_at(1)) skip();
    qs_device *device = device_open("cpu");
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

static void nothing_to_choose(void **state) {
    (void)state;
    qs_tune_result result;
    qs_device *device = device_open("ref");
    assert_ok(measure(device, "ref", "mlp", "fp32", 6, &result));
    assert_int_equal(result.rows, 0);
    qs_tune_release(&result);
    assert_refused(measure(device, "ref", "mlp", "fp32", 5, &result), QS_USAGE, "rounds 5");
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_to_choose), cmocka_unit_test(chosen_kernels_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
