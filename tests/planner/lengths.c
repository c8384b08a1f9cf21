// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Plans of jobs with several lengths: each length is predicted by itself, times are means by how often each occurs, memory is the most that
 * one needs, and what a plan is accepted by is that. */
#include <math.h>

#include "kit/kit.h"
#include "qsync/planner.h"

static const char pair[] =
    "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
    "\"fast\":{\"role\":\"training\",\"backend\":\"cuda\",\"device\":\"v100\",\"count\":1,\"formats\":[\"fp32\",\"fp16\"]},"
    "\"slow\":{\"role\":\"inference\",\"backend\":\"cuda\",\"device\":\"t4\",\"count\":2,\"formats\":[\"fp32\",\"fp16\",\"int8\"],"
    "\"storage\":[\"fp32\",\"fp16\",\"int8\"]}}}";
static const qs_lengths several = {3, {16, 48, 128}};
static const int64_t there[] = {700, 250, 50};

typedef struct scene {
    qs_graph *graph;
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
} scene;

static qs_samples samples_make(void) {
    static const char *const names[] = {"ids", "types", "keep"};
    qs_samples out = {.unit = "sentences", .inputs = 3, .target = {.kind = QS_TARGET_CLASS, .classes = 2, .extent = 1}};
    for (int i = 0; i < 3; i++) {
        out.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {128}, .varies = true, .bound = i ? 2 : 90};
        snprintf(out.input[i].name, sizeof out.input[i].name, "%s", names[i]);
    }
    return out;
}

static void scene_open(scene *out) {
    const qs_samples samples = samples_make();
    *out = (scene){.graph = NULL};
    qs_job_default(&out->job);
    out->job.batch = 16;
    out->job.lengths = several;
    strcpy(out->job.algorithm, "ring");
    assert_ok(qs_model_open("bert:layers=2,hidden=256,heads=4,inner=512,vocab=100", &samples, &out->graph));
    assert_ok(qs_cluster_parse(pair, "cluster", &out->cluster));
    assert_ok(qs_profile_estimate(out->graph, &out->cluster, &out->job, 12, 24, &out->profile));
    assert_int_equal(out->profile.lengths, 3);
    for (int k = 0; k < 3; k++)
        out->profile.length_row[k].samples = there[k];
    qs_plan_options_default(&out->options);
    out->options.indicator = "random";
}

static void scene_close(scene *one) {
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
    qs_graph_release(one->graph);
}

static void plan_make(scene *here, const char *planner, qs_plan *out) {
    assert_ok(qs_plan_make(planner, here->graph, &here->cluster, &here->profile, &here->job, &here->options, out));
}

/* The plan at one length: the model built so, and a job that knows of no other. */
static void predict_alone(scene *here, const qs_plan *plan, int64_t length, qs_prediction *out) {
    qs_graph *graph = NULL;
    qs_plan alone = *plan;
    alone.job.lengths.count = 0;
    assert_ok(qs_graph_of_length(here->graph, length, &graph));
    assert_ok(qs_plan_predict(&alone, graph, &here->cluster, &here->profile, NULL, NULL, out));
    qs_graph_release(graph);
}

/* What a plan says is put together from what is predicted of each length alone. */
static void parts_agree(scene *here, const qs_plan *plan) {
    double iteration = 0, phases[2] = {0};
    int64_t arena[2] = {0}, programs[2] = {0};
    for (int k = 0; k < 3; k++) {
        qs_prediction alone;
        const double share = (double)there[k] / 1000;
        predict_alone(here, plan, several.at[k], &alone);
        iteration += share * alone.iteration_us;
        for (int c = 0; c < 2; c++) {
            const qs_length_plan *row = &plan->class_[c].length[k];
            assert_int_equal(row->length, several.at[k]);
            assert_true(row->share == share && row->iteration_us == alone.iteration_us);
            assert_true(row->compute_us == alone.class_[c].compute_us && row->waiting_us == alone.class_[c].waiting_us);
            assert_string_equal(row->schedule, alone.class_[c].schedule);
            assert_int_equal(row->arena_bytes, alone.class_[c].arena_bytes);
            if (row->arena_bytes > arena[c]) arena[c] = row->arena_bytes;
            programs[c] += alone.class_[c].program_bytes;
            phases[c] += share * alone.class_[c].phases.backward_us;
        }
        qs_prediction_release(&alone);
    }
    for (int c = 0; c < 2; c++) {
        const qs_class_plan *one = &plan->class_[c];
        assert_int_equal(one->lengths, 3);
        assert_near(one->predicted.iteration_us, iteration, 1e-9 * iteration);
        assert_near(one->predicted.phases.backward_us, phases[c], 1e-9 * phases[c]);
        assert_int_equal(one->predicted.arena_bytes, arena[c]);
        assert_int_equal(one->predicted.program_bytes, programs[c]);
        assert_string_equal(one->schedule, one->length[2].schedule);
        assert_true(one->length[0].arena_bytes < one->length[2].arena_bytes && one->length[0].iteration_us < one->length[2].iteration_us);
    }
    assert_near(plan->samples_per_second, 48e6 / iteration, 1e-9 * 48e6 / iteration);
}

TEST(each_length_is_predicted_by_itself) {
    static const char *const planners[] = {"fp32", "uniform", "qsync", "dpro"};
    scene here;
    scene_open(&here);
    for (size_t i = 0; i < COUNT_OF(planners); i++) {
        qs_plan plan = {0};
        plan_make(&here, planners[i], &plan);
        parts_agree(&here, &plan);
        qs_plan_release(&plan);
    }
    scene_close(&here);
}

/* A limit that fp32 breaks at the longest length alone: the plan keeps it, though most steps would not need to. */
TEST(memory_is_planned_for_the_longest) {
    scene here;
    qs_plan high = {0}, plan = {0};
    scene_open(&here);
    plan_make(&here, "fp32", &high);
    const qs_class_plan *slow = &high.class_[1];
    here.cluster.class_[1].memory_capacity = here.cluster.class_[1].memory_limit =
        (slow->length[1].arena_bytes + slow->length[2].arena_bytes) / 2;
    qs_plan refused = {0};
    assert_refused(qs_plan_make("fp32", here.graph, &here.cluster, &here.profile, &here.job, &here.options, &refused), QS_INFEASIBLE,
                   "class slow");
    plan_make(&here, "qsync", &plan);
    assert_true(plan.class_[1].predicted.arena_bytes <= here.cluster.class_[1].memory_limit);
    parts_agree(&here, &plan);
    qs_plan_release(&plan);
    qs_plan_release(&high);
    scene_close(&here);
}

/* The planner recovers no more than what the best uniform plan's mean iteration allows. */
TEST(pace_is_the_mean_over_lengths) {
    scene here;
    qs_plan uniform = {0}, plan = {0};
    scene_open(&here);
    plan_make(&here, "uniform", &uniform);
    plan_make(&here, "qsync", &plan);
    const double allowed = uniform.class_[1].predicted.iteration_us / (1 - here.options.tolerance) * (1 + 1e-9);
    assert_true(plan.class_[1].predicted.iteration_us <= allowed);
    assert_true(plan.class_[1].predicted.sum_omega <= uniform.class_[1].predicted.sum_omega);
    assert_true(plan.class_[1].predicted.lower_bound == 0);
    qs_plan_release(&uniform);
    qs_plan_release(&plan);
    scene_close(&here);
}

TEST(what_cannot_be_planned) {
    scene here;
    qs_plan plan = {0};
    scene_open(&here);
    assert_refused(qs_plan_make("exact", here.graph, &here.cluster, &here.profile, &here.job, &here.options, &plan), QS_UNSUPPORTED,
                   "planner exact: its bounds are of one length, the job has 3");
    here.job.lengths = (qs_lengths){2, {48, 128}};
    assert_refused(qs_plan_make("fp32", here.graph, &here.cluster, &here.profile, &here.job, &here.options, &plan), QS_MISMATCH,
                   "the job has lengths 48,128, the profile knows 16,48,128: profile with --lengths 48,128");
    here.job.lengths = (qs_lengths){2, {16, 48}};
    assert_refused(qs_plan_make("fp32", here.graph, &here.cluster, &here.profile, &here.job, &here.options, &plan), QS_USAGE,
                   "lengths 16,48: the longest must be the length of the samples, 128");
    here.job.lengths = several;
    for (int k = 0; k < 3; k++)
        here.profile.length_row[k].samples = 0;
    assert_refused(qs_plan_make("fp32", here.graph, &here.cluster, &here.profile, &here.job, &here.options, &plan), QS_MISMATCH,
                   "does not say how many samples have each of its lengths");
    /* A job of one length is planned from the same profile, as if that knew no other. */
    here.job.lengths.count = 0;
    plan_make(&here, "qsync", &plan);
    assert_int_equal(plan.class_[0].lengths, 0);
    qs_plan_release(&plan);
    scene_close(&here);
}

/* Unequal batches: an estimated profile has rows for each of them at every length. */
TEST(batches_may_be_unequal) {
    scene here;
    qs_plan plan = {0};
    scene_open(&here);
    plan_make(&here, "dbs", &plan);
    assert_int_equal(plan.class_[0].batch + 2 * plan.class_[1].batch, 48);
    parts_agree(&here, &plan);
    qs_plan_release(&plan);
    scene_close(&here);
}

TEST_MAIN(each_length_is_predicted_by_itself, memory_is_planned_for_the_longest, pace_is_the_mean_over_lengths, what_cannot_be_planned,
          batches_may_be_unequal)
