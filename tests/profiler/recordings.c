// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: replayer
/* What kernels take in recordings of the device: found again, by sums of steps alone, of devices that are made up, whether they take longer
 * to start kernels or to run them; and measured on the device that is there. */
#include "profiler_support.h"
#include "kit/synthetic.h"
#include "qsync/replayer.h"

#include "../../src/profiler/timing/timing.h"

/* ---- Made-up devices ---- */

enum { PLANS = 16, OTHERS = 24, UNIFORM = 3 };
static const double gap_us = 1;

typedef struct scene {
    bench b;
    synthetic_device device;
    qs_cluster cluster;
    qs_class_profile profile;
    qs__setting setting;
    qs__cases cases;
    qs__mix mix[PLANS + OTHERS]; /* uniform ones, then random ones; OTHERS are not measured */
    double *computes_us;         /* (kernels) what each computes for */
} scene;

static void scene_open(scene *one) {
    *one = (scene){.device = SYNTHETIC_WEAK};
    bench_open(&one->b, NULL, "ref", "resnet8:width=0.5", 4);
    one->device.joins = qs_device_joins(one->b.device);
    one->cluster = synthetic_cluster(1, &one->device);
    const synthetic_device *device = &one->device;
    qs_profile profile = synthetic_profile(one->b.graph, &one->cluster, device, &one->b.job);
    one->profile = profile.class_[0];
    profile.class_[0] = (qs_class_profile){0};
    qs_profile_release(&profile);
    one->setting = (qs__setting){
        .job = &one->b.job, .device = one->b.device, .class_ = &one->cluster.class_[0], .graph = one->b.graph, .options = &one->b.options};
    assert_ok(qs_class_recipes(one->setting.class_, UNIFORM, one->setting.recipe, &one->setting.recipes));
    assert_int_equal(one->setting.recipes, UNIFORM);
    one->cases.device = one->b.device;
    for (int m = 0; m < PLANS + OTHERS; m++) {
        one->mix[m].choice = calloc((size_t)one->b.graph->nodes, 1);
        assert_non_null(one->mix[m].choice);
        for (int n = one->b.graph->samples.inputs; n < one->b.graph->nodes; n++)
            one->mix[m].choice[n] =
                (unsigned char)(m < UNIFORM ? m : (int)(qs_random_bits(qs_random_key(3, (uint64_t)m, 0, 0), (uint64_t)n) % UNIFORM));
    }
    one->computes_us = calloc((size_t)one->profile.kernels, sizeof *one->computes_us);
    for (int i = 0; i < one->profile.kernels; i++)
        one->computes_us[i] = one->profile.kernel[i].us;
}

static void scene_close(scene *one) {
    for (int m = 0; m < PLANS + OTHERS; m++)
        free(one->mix[m].choice);
    free(one->computes_us);
    qs__cases_release(&one->cases);
    synthetic_class_release(&one->profile);
    qs_cluster_release(&one->cluster);
    bench_close(&one->b);
}

/* A kernel started by itself takes as long as starting it does, or as it computes for; behind another one in a recording it takes that, and
 * a gap. */
static void device_make(scene *one, double start_us) {
    for (int i = 0; i < one->profile.kernels; i++)
        one->profile.kernel[i].us = fmax(one->computes_us[i], start_us);
}

static qs_schedule *lowered(scene *one, int mix) {
    qs_schedule *schedule = NULL;
    assert_ok(qs__mix_lower(&one->setting, &one->cases, one->mix[mix].choice, QS_MODE_TRAIN, one->b.job.batch, &schedule));
    return schedule;
}

/* Conversions are so long that starting them does not count, and have no gaps. */
static double recorded_truth(scene *one, int mix) {
    qs_schedule *schedule = lowered(one, mix);
    double sum = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        double us;
        assert_ok(qs_cost_step(&one->profile, step, &us));
        if (step->kind == QS_STEP_KERNEL && !step->conversion)
            us = one->computes_us[qs_class_profile_kernel(&one->profile, step->case_text) - one->profile.kernel] + gap_us;
        sum += us;
    }
    qs_schedule_release(schedule);
    return sum;
}

static double recorded_priced(scene *one, int mix, double *one_by_one) {
    const qs_cost_options always = {.start = QS_START_RECORDED};
    qs_schedule *schedule = lowered(one, mix);
    double sum = 0, *us = calloc((size_t)schedule->steps, sizeof *us);
    *one_by_one = 0;
    assert_ok(qs_cost_schedule(&one->profile, schedule, NULL, us));
    for (int s = 0; s < schedule->steps; s++)
        *one_by_one += us[s];
    assert_true(qs_cost_schedule_recorded(&one->profile, schedule, &always, us));
    for (int s = 0; s < schedule->steps; s++)
        sum += us[s];
    free(us);
    qs_schedule_release(schedule);
    return sum;
}

static bool is_taken(scene *one, int mix) {
    qs_schedule *schedule = lowered(one, mix);
    double *us = calloc((size_t)schedule->steps, sizeof *us);
    assert_ok(qs_cost_schedule(&one->profile, schedule, NULL, us));
    const bool taken = qs_cost_schedule_recorded(&one->profile, schedule, NULL, us);
    free(us);
    qs_schedule_release(schedule);
    return taken;
}

/* noise: by so much, as a share, each time may be off. */
static void figures_fill(scene *one, double noise, qs__step_figures *figures) {
    figures->measured = calloc(PLANS, sizeof *figures->measured);
    for (int p = 0; p < PLANS; p++) {
        figures->measured[p] = p;
        const double off = noise * (2 * (double)qs_random_uniform(99, (uint64_t)p) - 1);
        assert_ok(qs__samples_add(&figures->recorded_us, recorded_truth(one, p) * (1 + off)));
    }
}

/* Errors of plans from..to: with shares of rows, and with one share for all. */
static void errors_find(scene *one, int from, int to, double *worst, double *worst_plain, double *ratio) {
    *worst = *worst_plain = *ratio = 0;
    for (int m = from; m < to; m++) {
        double one_by_one;
        const double truth = recorded_truth(one, m), priced = recorded_priced(one, m, &one_by_one);
        *worst = fmax(*worst, fabs(priced / truth - 1));
        *worst_plain = fmax(*worst_plain, fabs(one->profile.recorded * one_by_one / truth - 1));
        *ratio += truth / one_by_one / (to - from);
    }
}

/* Where starting a kernel takes no time, and where it takes as long as half of the kernels do, or most: plans that were measured are found
 * again as far as their times were right, those that were not are far nearer than with one share for all, and whichever way is faster is
 * taken. */
TEST(shares_are_found_by_sums) {
    static const double start_us[] = {0, 10, 20, 10, 20}, noise[] = {0, 0, 0, 0.02, 0.02};
    scene one;
    scene_open(&one);
    for (size_t i = 0; i < COUNT_OF(start_us); i++) {
        qs__step_figures figures = {0};
        double own, other, plain, ratio;
        device_make(&one, start_us[i]);
        for (int k = 0; k < one.profile.conversions; k++)
            one.profile.conversion[k].recorded = 0;
        figures_fill(&one, noise[i], &figures);
        assert_ok(qs__recordings_fill(&one.setting, &(qs__mixes){.mix = one.mix, .count = PLANS}, &one.cases, &figures, &one.profile));
        errors_find(&one, 0, PLANS, &own, &plain, &ratio);
        errors_find(&one, PLANS, PLANS + OTHERS, &other, &plain, &ratio);
        print_message("started in %g us, noise %g: %.2f of the time in recordings; measured plans off by %.2f %% at worst, others %.2f %%, "
                      "with one share %.2f %%\n",
                      start_us[i], noise[i], ratio, 100 * own, 100 * other, 100 * plain);
        /* What times are off by is found again in either, and can add up in plans that were not measured. */
        assert_true(own < 0.01 + 1.5 * noise[i] && other < 0.05 + 1.5 * noise[i] && other < plain / 2);
        assert_true(start_us[i] > 0 ? ratio < 0.9 : ratio > 1);
        for (int m = 0; m < PLANS + OTHERS; m++)
            assert_int_equal(is_taken(&one, m), start_us[i] > 0);
        qs__step_figures_release(&figures);
    }
    scene_close(&one);
}

/* A plan of which nothing is recorded says nothing; where that is so of all, the class knows no recordings. */
TEST(plans_without_recordings_are_left_out) {
    scene one;
    qs__step_figures figures = {0};
    scene_open(&one);
    device_make(&one, 20);
    figures_fill(&one, 0, &figures);
    for (int left = 1; left >= 0; left--) {
        for (int p = left; p < PLANS; p++)
            figures.recorded_us.value[p] = 0;
        one.profile.recorded = 0;
        for (int i = 0; i < one.profile.kernels; i++)
            one.profile.kernel[i].us_recorded = 0;
        assert_ok(qs__recordings_fill(&one.setting, &(qs__mixes){.mix = one.mix, .count = PLANS}, &one.cases, &figures, &one.profile));
        double one_by_one;
        if (left) assert_true(fabs(recorded_priced(&one, 0, &one_by_one) / figures.recorded_us.value[0] - 1) < 1e-9);
        assert_int_equal(one.profile.recorded > 0, left);
        assert_int_equal(one.profile.kernel[0].us_recorded > 0, left);
    }
    qs__step_figures_release(&figures);
    scene_close(&one);
}

/* ---- The device that is there ---- */

static void measured_check(const bench *b, bool known) {
    const qs_class_profile *one = &b->profile.class_[0];
    assert_int_equal(one->recorded > 0, known);
    assert_true(known || one->recorded_loop_us == 0);
    for (int i = 0; i < one->kernels; i++)
        assert_int_equal(one->kernel[i].us_recorded > 0, known);
    for (int i = 0; i < one->conversions; i++)
        assert_int_equal(one->conversion[i].recorded > 0, known);
    assert_int_equal(b->profile.checks, 1);
    assert_true(b->profile.check[0].measured_us > 0 && isfinite(b->profile.check[0].measured_us));
}

static void prediction_check(const bench *b, bool known) {
    const qs_recipe **fp32 = calloc((size_t)b->graph->nodes, sizeof *fp32);
    const qs_recipe *const *recipe[] = {fp32};
    for (int record = 0; record < 3; record++) {
        qs_prediction one;
        b->cluster.class_[0].cuda_record = record;
        assert_ok(qs_predict(b->graph, &b->cluster, &b->profile, &b->job, recipe, NULL, &one));
        assert_true(one.iteration_us > 0 && isfinite(one.iteration_us));
        if (!known || record != 0) assert_int_equal(one.class_[0].recorded, known && record == 2);
        qs_prediction_release(&one);
    }
    b->cluster.class_[0].cuda_record = 0;
    free(fp32);
}

/* With a plan that is checked, which runs as training would run it. */
TEST(profiles_know_recordings) {
    static const qs_records ways[] = {QS_RECORDS_NEVER, QS_RECORDS_ALWAYS, QS_RECORDS_TRIED};
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        bench b;
        bench_open(&b, NULL, fast_backend(), "mlp:width=0.1", 4);
        qs_device_options options = device_options(fast_backend(), "all", 1, 1);
        const bool records = strcmp(options.backend, "cuda") == 0, known = records && ways[w] != QS_RECORDS_NEVER;
        char text[256];
        qs_plan plan;
        const char *name = "plan.json";
        options.cuda.records = ways[w];
        qs_device_close(b.device);
        assert_ok(qs_device_open(&options, &b.device));
        snprintf(text, sizeof text, "{\"schema\":\"qsync/plan/2\",\"classes\":{\"%s\":{\"operators\":{}}}}", b.cluster.class_[0].name);
        assert_ok(qs_plan_parse(text, "test", &plan));
        b.options.conversion_seconds = 0.05;
        b.options.checks = 1;
        b.options.check = &plan;
        b.options.check_name = &name;
        assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
        measured_check(&b, known);
        prediction_check(&b, known);
        qs_plan_release(&plan);
        bench_close(&b);
        if (!records) break;
    }
}

TEST_MAIN(shares_are_found_by_sums, plans_without_recordings_are_left_out, profiles_know_recordings)
