// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The planner's choice of a wire, on profiles whose all-reduces are made up: the fastest one by more than the tolerance, at equal time the
 * more exact one, none whose residuals do not fit; and what the plan tells of those that it did not take. */
#include "kit/kit.h"
#include "setting.h"

enum { BATCH = 32, WIRES = 3 };
enum { FP32, BF16, INT8 };

/* Microseconds a byte of each wire; 0: not measured. */
static void setting_make(setting *one, const double us_per_byte[WIRES]) {
    static const char *const names[WIRES] = {"", "bf16", "int8"};
    *one = (setting){.classes = 2, .device = {SYNTHETIC_STRONG, SYNTHETIC_WEAK}, .job = stub_job(BATCH)};
    assert_ok(qs_model_build("resnet8:width=0.5", NULL, &one->graph));
    one->cluster = synthetic_cluster(one->classes, one->device);
    one->profile = synthetic_profile(one->graph, &one->cluster, one->device, &one->job);
    const qs_collective_cost like = one->profile.collective[0];
    free(one->profile.collective);
    one->profile.collective = calloc(WIRES, sizeof like);
    assert_non_null(one->profile.collective);
    one->profile.collectives = 0;
    for (int w = 0; w < WIRES; w++) {
        qs_collective_cost *row = &one->profile.collective[one->profile.collectives];
        if (us_per_byte[w] == 0) continue;
        *row = like;
        row->us_per_byte = us_per_byte[w];
        row->cpu_share = 1;
        snprintf(row->wire, sizeof row->wire, "%s", names[w]);
        one->profile.collectives++;
    }
    qs_plan_options_default(&one->options);
    one->options.choose_wire = true;
}

static int64_t residuals(const setting *one) {
    return one->graph->trained_elements * (int64_t)sizeof(float);
}

/* The plan of a job on a wire that leaves nothing to choose. */
static qs_plan plan_on(const setting *one, const char *planner, const char *wire) {
    setting told = *one;
    told.options.choose_wire = false;
    snprintf(told.job.wire, sizeof told.job.wire, "%s", wire);
    return setting_plan(&told, planner);
}

/* The plan is on the wire, which is taken, and but for its list of wires the one that a job on that wire gets; the list tells what such
 * plans take. */
static void choice_check(const setting *one, const char *planner, const char *wire, const char *why[WIRES]) {
    qs_plan plan = setting_plan(one, planner);
    plan_round_trip_check(&plan);
    assert_string_equal(plan.job.wire, wire);
    assert_int_equal(plan.wires, WIRES);
    for (int w = 0; w < WIRES; w++) {
        const qs_wire_plan *row = &plan.wire[w];
        qs_plan told = plan_on(one, planner, row->wire);
        assert_string_equal(row->why, why[w]);
        assert_true(row->iteration_us == told.class_[0].predicted.iteration_us);
        assert_true(row->exposed_us > 0 && row->exposed_us < row->iteration_us);
        assert_int_equal(row->residual_bytes, w == FP32 ? 0 : residuals(one));
        qs_plan_release(&told);
    }
    qs_plan told = plan_on(one, planner, wire);
    free(plan.wire);
    plan.wire = NULL;
    plan.wires = 0;
    plans_equal_check(&plan, &told);
    qs_plan_release(&told);
    qs_plan_release(&plan);
}

static void rates_check(double fp32, double bf16, double int8, const char *wire, const char *why_fp32, const char *why_bf16,
                        const char *why_int8) {
    static const char *const planners[] = {"fp32", "uniform", "qsync"};
    setting one;
    setting_make(&one, (const double[]){fp32, bf16, int8});
    for (size_t p = 0; p < COUNT_OF(planners); p++)
        choice_check(&one, planners[p], wire, (const char *[]){why_fp32, why_bf16, why_int8});
    setting_end(&one);
}

/* As within a host: what compressed wires save on the way, they lose in memory. */
TEST(fast_link) {
    rates_check(1e-4, 2.8e-4, 2.7e-4, "fp32", "taken", "slower", "slower");
}

/* By the bytes of two ranks: 4, 2 and 1 a value. */
TEST(slow_link) {
    rates_check(8e-2, 4e-2, 2e-2, "int8", "slower", "slower", "taken");
}

/* bf16 is the faster one, by packing that int8 takes longer for. */
TEST(packing_binds) {
    rates_check(8e-2, 2e-2, 3e-2, "bf16", "slower", "taken", "slower");
}

/* Equal times: the more exact one. */
TEST(equal_times) {
    rates_check(4e-2, 4e-2, 4e-2, "fp32", "taken", "slower", "slower");
    rates_check(8e-2, 2e-2, 2e-2, "bf16", "slower", "taken", "slower");
}

/* A saving within the tolerance is none, and another tolerance decides otherwise. */
TEST(tolerance) {
    setting one;
    setting_make(&one, (const double[]){4e-2, 3.9e-2, 3.8e-2});
    qs_plan exact = plan_on(&one, "fp32", "fp32"), least = plan_on(&one, "fp32", "int8");
    const double saved = 1 - least.class_[0].predicted.iteration_us / exact.class_[0].predicted.iteration_us;
    assert_true(saved > 0.001);
    one.options.tolerance = saved * 1.01;
    choice_check(&one, "fp32", "fp32", (const char *[]){"taken", "tolerance", "tolerance"});
    one.options.tolerance = saved * 0.99;
    choice_check(&one, "fp32", "int8", (const char *[]){"slower", "slower", "taken"});
    qs_plan_release(&exact);
    qs_plan_release(&least);
    setting_end(&one);
}

/* Memory for all but the residuals: the fast wires are refused, for that. Without memory for anything the most exact one's reason is told.
 */
TEST(memory) {
    setting one;
    setting_make(&one, (const double[]){8e-2, 4e-2, 2e-2});
    qs_plan exact = plan_on(&one, "fp32", "fp32"), least = plan_on(&one, "fp32", "int8");
    const int64_t needed = exact.class_[1].predicted.arena_bytes;
    assert_true(least.class_[1].predicted.arena_bytes >= needed + residuals(&one));
    one.cluster.class_[1].memory_limit = needed + residuals(&one) / 2;
    qs_plan plan = setting_plan(&one, "fp32");
    plan_round_trip_check(&plan);
    assert_string_equal(plan.job.wire, "fp32");
    assert_string_equal(plan.wire[FP32].why, "taken");
    for (int w = BF16; w <= INT8; w++) {
        assert_string_equal(plan.wire[w].why, "memory");
        assert_true(plan.wire[w].iteration_us == 0 && plan.wire[w].residual_bytes == residuals(&one));
    }
    one.cluster.class_[1].memory_limit = needed / 2;
    setting_refused(&one, "fp32", QS_INFEASIBLE, "class weak");
    qs_plan_release(&plan);
    qs_plan_release(&exact);
    qs_plan_release(&least);
    setting_end(&one);
}

/* One wire is no choice and is told as none, as of a profile of before; none at all leaves the job's. A wire measured over another link
 * cannot be priced. */
TEST(what_was_measured) {
    setting one;
    setting_make(&one, (const double[]){0, 0, 2e-2});
    qs_plan plan = setting_plan(&one, "uniform"), told = plan_on(&one, "uniform", "int8");
    plans_equal_check(&plan, &told);
    assert_int_equal(plan.wires, 0);
    qs_plan_release(&plan);
    qs_plan_release(&told);
    setting_end(&one);

    setting_make(&one, (const double[]){8e-2, 4e-2, 2e-2});
    qs_collective_cost *row = &one.profile.collective[INT8];
    row->hosts = 2;
    snprintf(row->link, sizeof row->link, "network");
    plan = setting_plan(&one, "uniform");
    assert_string_equal(plan.job.wire, "bf16");
    assert_string_equal(plan.wire[INT8].why, "profile");
    qs_plan_release(&plan);
    setting_end(&one);

    /* One rank sends nothing, so no wire saves anything. */
    setting alone;
    setting_make(&alone, (const double[]){8e-2, 4e-2, 2e-2});
    one = alone;
    assert_ok(qs_cluster_without(&alone.cluster, 1, &one.cluster));
    plan = setting_plan(&one, "fp32");
    assert_string_equal(plan.job.wire, "fp32");
    assert_true(plan.wires == WIRES && plan.wire[FP32].exposed_us == 0 && plan.wire[INT8].exposed_us == 0);
    qs_plan_release(&plan);
    one.profile.collectives = 0;
    plan = setting_plan(&one, "fp32");
    assert_string_equal(plan.job.wire, "fp32");
    assert_int_equal(plan.wires, 0);
    qs_plan_release(&plan);
    qs_cluster_release(&one.cluster);
    setting_end(&alone);
}

/* A session keeps one job on each wire, and its plans are those of qs_plan_make. */
TEST(sessions) {
    setting one;
    qs_plan_session *session = NULL;
    setting_make(&one, (const double[]){8e-2, 4e-2, 2e-2});
    assert_ok(qs_plan_session_create(one.graph, &one.profile, &one.job, &session));
    for (int round = 0; round < 4; round++) {
        qs_plan again;
        one.options.choose_wire = round != 2;
        qs_plan plan = setting_plan(&one, "qsync");
        assert_ok(qs_plan_session_make(session, &one.cluster, "qsync", &one.options, &again));
        plans_equal_check(&plan, &again);
        qs_plan_release(&again);
        qs_plan_release(&plan);
    }
    qs_plan_session_release(session);
    setting_end(&one);
}

/* What the rest reaches without a class is on the wire that is best for the rest: one rank sends nothing. */
TEST(without_a_class) {
    setting one;
    setting_make(&one, (const double[]){8e-2, 4e-2, 2e-2});
    const qs_plan_question ask = {"uniform", one.graph, &one.cluster, &one.profile, &one.job, &one.options};
    qs_plan plan = setting_plan(&one, "uniform");
    assert_ok(qs_plan_weigh_classes(&ask, &plan));
    assert_int_equal(plan.withouts, 2);
    assert_true(plan.without[0].samples_per_second > 0 && plan.without[1].samples_per_second > 0);
    qs_plan_release(&plan);
    setting_end(&one);
}

TEST_MAIN(fast_link, slow_link, packing_binds, equal_times, tolerance, memory, what_was_measured, sessions, without_a_class)
