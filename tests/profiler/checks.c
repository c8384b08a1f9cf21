// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Plans that are timed beside the profile's own: every one has its row, the profile is no other for them, a resumed one keeps them to the
 * bit, and plans that cannot be timed are refused by name on both ranks. */
#include "profiler_support.h"

#include <unistd.h>

static const char cluster[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                              "\"big\":{\"role\":\"training\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\"]},"
                              "\"weak\":{\"role\":\"inference\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\",\"int8\"],"
                              "\"storage\":[\"fp32\",\"int8\"]}}}";
static const char *const plan_text[2] = {
    "{\"schema\":\"qsync/plan/2\",\"classes\":{\"big\":{\"operators\":{}},\"weak\":{\"operators\":{\"fc1\":\"int8/fp32\"}}}}",
    /* a format for a tensor: its cases are no other plan's */
    "{\"schema\":\"qsync/plan/2\","
    "\"classes\":{\"big\":{\"operators\":{}},\"weak\":{\"operators\":{},\"tensors\":{\"fc1\":{\"saved\":\"e5m2\"}}}}}"};
static const char *const plan_name[2] = {"low.json", "saved.json"};
enum { REPETITIONS = 3, STEPS_OF_A_VISIT = 50 };

static bench opened;
static qs_plan plan[2];
static char partial[64];

static void with_plan(const char *text) {
    qs_plan_release(&plan[0]);
    assert_ok(qs_plan_parse(text, "test", &plan[0]));
}

static void measure(bench *b, int checks) {
    b->options.checks = checks;
    qs_profile_release(&b->profile);
    assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
}

static void each_has_a_row(void **state) {
    bench *b = *state;
    measure(b, 2);
    if (qs_comm_rank(b->comm) > 0) return;
    assert_int_equal(b->profile.checks, 2);
    for (int i = 0; i < 2; i++) {
        const qs_profile_check *row = &b->profile.check[i];
        assert_string_equal(row->plan, plan_name[i]);
        /* every second round may be left out, and no other */
        assert_true(row->steps % STEPS_OF_A_VISIT == 0 && row->steps >= STEPS_OF_A_VISIT && row->steps <= REPETITIONS * STEPS_OF_A_VISIT);
        assert_true(row->undisturbed >= 0 && row->undisturbed <= row->steps);
        assert_true(isfinite(row->measured_us) && row->measured_us > 0 && isfinite(row->median_us) && row->median_us > 0);
        assert_true(row->confidence >= 0 && row->confidence <= 1);
        assert_true(row->predicted_us == 0 && row->no_casts_us == 0);
    }
}

/* Cases that only checks have get no row. */
static void no_figure_is_from_them(void **state) {
    bench *b = *state;
    measure(b, 2);
    const qs_profile with = b->profile;
    b->profile = (qs_profile){0};
    measure(b, 0);
    if (qs_comm_rank(b->comm) > 0) return;
    assert_int_equal(b->profile.checks, 0);
    assert_int_equal(with.classes, b->profile.classes);
    for (int c = 0; c < with.classes; c++) {
        assert_int_equal(with.class_[c].kernels, b->profile.class_[c].kernels);
        assert_int_equal(with.class_[c].quality.plans, b->profile.class_[c].quality.plans);
        for (int i = 0; i < with.class_[c].kernels; i++)
            assert_string_equal(with.class_[c].kernel[i].case_text, b->profile.class_[c].kernel[i].case_text);
    }
    qs_profile released = with;
    qs_profile_release(&released);
}

static void a_resumed_profile_keeps_them(void **state) {
    bench *b = *state;
    b->options.partial = partial;
    measure(b, 2);
    qs_profile before = b->profile;
    b->profile = (qs_profile){0};
    measure(b, 2);
    if (qs_comm_rank(b->comm) == 0) {
        for (int i = 0; i < 2; i++)
            assert_memory_equal(&b->profile.check[i], &before.check[i], sizeof before.check[i]);
        qs_profile_release(&before);
    }
    qs_profile_partial_remove(&b->options);
    b->options.partial = NULL;
}

static void what_cannot_be_timed_is_refused(void **state) {
    bench *b = *state;
    qs_profile unused;
    b->options.checks = 1;
    with_plan("{\"schema\":\"qsync/plan/2\",\"classes\":{\"big\":{\"operators\":{}},\"weak\":{\"operators\":{\"conv7\":\"int8/fp32\"}}}}");
    assert_refused(qs_profile_measure(&b->options, b->device, b->comm, &unused), QS_MISMATCH, "check low.json");
    with_plan("{\"schema\":\"qsync/plan/2\",\"signature\":{\"graph\":\"xxh64:0000000000000000\"},"
              "\"classes\":{\"big\":{\"operators\":{}},\"weak\":{\"operators\":{}}}}");
    assert_refused(qs_profile_measure(&b->options, b->device, b->comm, &unused), QS_MISMATCH, "plan for another model");
    with_plan("{\"schema\":\"qsync/plan/2\",\"classes\":{"
              "\"big\":{\"batch\":12,\"operators\":{}},\"weak\":{\"batch\":4,\"operators\":{}}}}");
    assert_refused(qs_profile_measure(&b->options, b->device, b->comm, &unused), QS_USAGE, "checks are timed at the profile's 8");
    with_plan(plan_text[0]);
}

static int open_bench(void **state) {
    bench_open(&opened, cluster, NULL, "mlp:width=0.125", 8);
    opened.options.repetitions = REPETITIONS;
    opened.options.statistics_iterations = 0;
    opened.options.check = plan;
    opened.options.check_name = plan_name;
    for (int i = 0; i < 2; i++)
        assert_ok(qs_plan_parse(plan_text[i], "test", &plan[i]));
    double process = (double)getpid();
    assert_ok(qs_comm_broadcast(opened.comm, &process, sizeof process, 0));
    snprintf(partial, sizeof partial, "profiler-checks-%.0f.partial.%d", process, qs_comm_rank(opened.comm));
    *state = &opened;
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        qs_plan_release(&plan[i]);
    bench_close(&opened);
    return 0;
}

TEST_MAIN_WITH(open_bench, close_bench, each_has_a_row, no_figure_is_from_them, a_resumed_profile_keeps_them,
               what_cannot_be_timed_is_refused)
