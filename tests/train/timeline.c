// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The clock beside a schedule: times add up to the run, phases to the times; the audit of a whole run, its warning, and its text. */
#include "plan_support.h"
#include "program_support.h"

static const qs_run one_run = {.seed = 1, .samples = 8, .global_samples = 8, .loss_scale = 1};

static int set_up(void **state) {
    return program_open(state, "mlp:width=0.1", 8);
}

static double phases_sum(const qs_phase_times *times) {
    double sum = 0;
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        sum += qs_phase_times_at(times, i);
    return sum;
}

/* The same additions in another order: 1e-6 µs is far above their rounding and far below the clock's nanosecond. */
static void times_add_up(void **state) {
    program *here = *state;
    const qs_schedule *schedule = here->schedule;
    qs_timeline timeline;
    qs_phase_times sum = {0};
    assert_ok(qs_timeline_create(schedule, &timeline));
    qs_executor_time(here->executor, &timeline);
    const double begin = qs_clock();
    assert_ok(qs_executor_run(here->executor, &one_run));
    const double end = qs_clock();
    assert_true(timeline.begin >= begin && timeline.end[schedule->steps - 1] <= end);
    for (int s = 1; s < schedule->steps; s++)
        assert_true(timeline.end[s] >= timeline.end[s - 1]);
    for (int b = 0; b < schedule->buckets; b++) {
        assert_true(timeline.complete[b] >= timeline.end[schedule->bucket[b].ready_step]);
        assert_true(timeline.complete[b] <= timeline.end[schedule->bucket[b].wait_step]);
    }
    qs_timeline_phases(&timeline, schedule, &sum);
    assert_true(fabs(phases_sum(&sum) - 1e6 * (timeline.end[schedule->steps - 1] - timeline.begin)) < 1e-6);
    assert_true(sum.forward_us > 0 && sum.backward_us > 0 && sum.optimizer_us > 0);
    assert_true(sum.cast_us == 0 && sum.data_us == 0); /* fp32 converts nothing; data are the trainer's */
    qs_executor_time(here->executor, NULL);
    timeline.begin = -1;
    assert_ok(qs_executor_run(here->executor, &one_run));
    assert_true(timeline.begin == -1);
    qs_timeline_release(&timeline);
}

/* A rank without samples runs all-reduces and the update alone: the rest takes no time, and nothing of the run before shows. */
static void empty_steps_take_no_time(void **state) {
    program *here = *state;
    const qs_run none = {.seed = 1, .global_samples = 8, .loss_scale = 1};
    qs_timeline timeline;
    qs_phase_times full = {0}, sum = {0};
    assert_ok(qs_timeline_create(here->schedule, &timeline));
    qs_executor_time(here->executor, &timeline);
    assert_ok(qs_executor_run(here->executor, &one_run));
    qs_timeline_phases(&timeline, here->schedule, &full);
    assert_ok(qs_executor_run(here->executor, &none));
    qs_timeline_phases(&timeline, here->schedule, &sum);
    assert_true(sum.backward_us < full.backward_us);
    assert_true(timeline.end[0] >= timeline.begin);
    qs_executor_time(here->executor, NULL);
    qs_timeline_release(&timeline);
}

/* ---- Whole runs ------------------------------------------------------------------------------------------------------------------- */

typedef struct planned {
    bench bench;
    qs_plan plan;
} planned;

static void planned_open(planned *here) {
    bench_open(&here->bench, backend_exists("cpu") ? "cpu" : "ref", "self", "mlp:width=0.25", 16);
    plan_fill(&here->bench, "fp32", &here->plan);
    here->bench.options.plan = &here->plan;
    here->bench.options.max_steps = 12;
}

static void planned_close(planned *here) {
    qs_plan_release(&here->plan);
    bench_close(&here->bench);
}

TEST(audit_measures) {
    planned here;
    qs_train_result result;
    planned_open(&here);
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    const qs_audit *audit = &result.audit;
    assert_int_equal(audit->ranks, 1);
    /* 12 less 5 for warm-up; where steps may run from recordings some of these */
    assert_in_range(audit->steps, qs_device_records(here.bench.device) == QS_RECORDS_NEVER ? 7 : 1, 7);
    assert_true(audit->rank[0].iteration_us > 0 && audit->rank[0].measured.forward_us > 0 && audit->rank[0].measured.data_us > 0);
    assert_int_equal(audit->rank[0].reserved_arena, here.plan.class_->predicted.arena_bytes);
    assert_int_equal(audit->rank[0].predicted_rss, -1); /* the plan knows no base */
    assert_true(audit->rank[0].measured_rss > audit->rank[0].reserved_arena);
    assert_string_equal(audit->warning, "");
    result_release(&result);
    planned_close(&here);
}

/* A plan that is wrong by design: the warning names the phase that is furthest off on the slow side, and the prediction of the process is
 * the sum of its parts. */
TEST(warning_names_the_phase) {
    planned here;
    qs_train_result result;
    char *text = NULL;
    planned_open(&here);
    here.plan.class_->predicted.iteration_us = 1;
    here.plan.class_->predicted.phases = (qs_phase_times){.forward_us = 1e9, .cast_us = 1};
    here.plan.class_->predicted.base_bytes = 1000;
    here.plan.class_->predicted.program_bytes = 100;
    here.plan.class_->predicted.communication_bytes = 10;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    const qs_audit_rank *rank = &result.audit.rank[0];
    /* phases of steps that run from recordings were not measured */
    assert_int_equal(strstr(result.audit.warning, "rank 0 (class single)") != NULL, !rank->recorded);
    assert_null(strstr(result.audit.warning, "forward")); /* predicted far too long, but the iteration is longer than predicted */
    assert_non_null(strstr(result.audit.warning, "profile again"));
    assert_int_equal(rank->program_bytes, 100); /* 256 samples are whole batches of 16 */
    const int64_t beside = rank->predicted_rss - (1000 + 100 + 10 + rank->data_bytes);
    if (memory_is_elsewhere()) /* samples of two programs and gradients are staged, weights and activations are not */
        assert_true(beside > 0 && beside < rank->predicted_arena / 2);
    else
        assert_int_equal(beside, rank->predicted_arena);
    assert_ok(qs_audit_text(&result.audit, &text));
    assert_non_null(strstr(text, "\"schema\": \"qsync/audit/2\""));
    assert_non_null(strstr(text, "\"warning\": \"an iteration takes"));
    free(text);
    result_release(&result);
    here.bench.options.audit_bound = 1e9;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_string_equal(result.audit.warning, "");
    result_release(&result);
    planned_close(&here);
}

/* A last step of another size has a program of its own, which holds as much again. */
TEST(partial_steps_count) {
    planned here;
    qs_train_result result;
    planned_open(&here);
    here.bench.options.training_limit = 250;
    here.plan.class_->predicted.program_bytes = 100;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.audit.rank[0].program_bytes, 200);
    result_release(&result);
    planned_close(&here);
}

TEST(errors_are_relative) {
    assert_true(fabs(qs_audit_error(110, 100) - 10) < 1e-9);
    assert_true(fabs(qs_audit_error(90, 100) + 10) < 1e-9);
    assert_true(isnan(qs_audit_error(0, 100)) && isnan(qs_audit_error(100, 0)) && isnan(qs_audit_error(-1, 100)));
}

/* What is touched is resident, what is given back is not; other memory of this process moves by less than a quarter of it. */
TEST(resident_bytes_follow) {
    const size_t bytes = (size_t)32 << 20;
    qs_arena arena;
    const int64_t before = qs_resident_bytes();
    if (before == 0) skip();
    assert_ok(qs_arena_reserve(bytes, &arena));
    const int64_t with = qs_resident_bytes();
    qs_arena_release(&arena);
    assert_true(with - before >= (int64_t)bytes && with - before < (int64_t)(bytes + bytes / 4));
    assert_true(qs_resident_bytes() < before + (int64_t)(bytes / 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(times_add_up, set_up, program_close),
        cmocka_unit_test_setup_teardown(empty_steps_take_no_time, set_up, program_close),
        cmocka_unit_test(audit_measures),
        cmocka_unit_test(warning_names_the_phase),
        cmocka_unit_test(partial_steps_count),
        cmocka_unit_test(errors_are_relative),
        cmocka_unit_test(resident_bytes_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
