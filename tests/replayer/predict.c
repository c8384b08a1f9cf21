// SPDX-License-Identifier: Apache-2.0
/* Predictions for clusters one does not have: other counts, slower ranks, no casts; and what of it stands on less than a measurement. */
#include "replay_support.h"
#include "kit/synthetic.h"

static const synthetic_device device[2] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
static qs_graph *graph;
static qs_cluster cluster;
static qs_profile profile;
static qs_job job;
static qs_recipe int8;
static const qs_recipe **bound[2];

static int setup(void **state) {
    (void)state;
    job = stub_job(16);
    assert_ok(qs_model_build("resnet8:width=0.5", NULL, &graph));
    cluster = synthetic_cluster(2, device);
    profile = synthetic_profile(graph, &cluster, device, &job);
    assert_ok(qs_recipe_builtin("int8/bf16", &int8));
    for (int c = 0; c < 2; c++)
        bound[c] = calloc((size_t)graph->nodes, sizeof *bound[c]);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) bound[1][n] = &int8;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free(bound[0]);
    free(bound[1]);
    qs_profile_release(&profile);
    qs_cluster_release(&cluster);
    qs_graph_release(graph);
    return 0;
}

static qs_prediction ask(int count, const qs_cost_options *options) {
    const qs_recipe *const *recipe[2] = {bound[0], bound[1]};
    qs_prediction out;
    cluster.class_[0].count = cluster.class_[1].count = count;
    assert_ok(qs_predict(graph, &cluster, &profile, &job, recipe, options, &out));
    return out;
}

static double phases_sum(const qs_phase_times *one) {
    return one->forward_us + one->backward_us + one->cast_us + one->communication_us + one->waiting_us + one->optimizer_us + one->data_us;
}

static bool notes_say(const qs_prediction *one, const char *text) {
    for (int i = 0; i < one->notes; i++)
        if (strstr(one->note[i], text)) return true;
    return false;
}

TEST(more_ranks_than_profiled_are_told) {
    qs_prediction few = ask(1, NULL), many = ask(16, NULL);
    assert_int_equal(few.notes, 0);
    assert_true(notes_say(&many, "all-reduce of 32 ranks"));
    assert_true(notes_say(&many, "from 2"));
    assert_int_equal(few.groups, 2);
    assert_int_equal(many.groups, 2);
    assert_int_equal(many.group[0].ranks, 16);
    /* A ring of 32 ranks sends more than one of 2; nothing else changes. */
    assert_true(many.iteration_us > few.iteration_us);
    near(many.class_[0].compute_us, few.class_[0].compute_us);
    near(many.samples_per_second * many.iteration_us, 16 * few.samples_per_second * few.iteration_us);
    qs_prediction_release(&few);
    qs_prediction_release(&many);
}

TEST(phases_are_the_iteration) {
    qs_prediction one = ask(2, NULL);
    for (int c = 0; c < 2; c++) {
        const qs_phase_times *phases = &one.class_[c].phases;
        near(phases_sum(phases), one.iteration_us);
        near(phases->waiting_us, one.class_[c].waiting_us);
        assert_true(phases->forward_us > 0 && phases->backward_us > 0 && phases->optimizer_us > 0 && phases->data_us > 0);
    }
    /* Gradient sums of residual blocks are conversions in fp32 too. */
    assert_true(one.class_[1].phases.cast_us > 2 * one.class_[0].phases.cast_us);
    qs_prediction_release(&one);
}

TEST(without_casts_only_casts_are_gone) {
    for (int c = 0; c < 2; c++) { /* the second time conversions have a time alone as well */
        qs_prediction with = ask(1, NULL), without = ask(1, &(qs_cost_options){.no_casts = true});
        assert_true(without.class_[1].phases.cast_us == 0);
        near(without.class_[1].phases.forward_us, with.class_[1].phases.forward_us);
        assert_true(without.class_[1].compute_us < with.class_[1].compute_us);
        qs_prediction_release(&with);
        qs_prediction_release(&without);
        for (int i = 0; i < profile.class_[1].conversions; i++)
            profile.class_[1].conversion[i].alone = c ? 0 : 0.8;
    }
}

TEST(a_slow_rank_is_waited_for) {
    const qs_slowdown slowdown[2] = {{.rank = 1, .factor = 3}, {.class_name = "strong", .factor = 2}};
    qs_prediction plain = ask(2, NULL), slow = ask(2, &(qs_cost_options){.slowdowns = 2, .slowdown = slowdown});
    assert_int_equal(slow.groups, 3);
    assert_int_equal(slow.group[1].first, 1);
    near(slow.group[0].slow, 2);
    near(slow.group[1].slow, 6);
    near(slow.group[2].slow, 1);
    near(slow.group[1].phases.forward_us, 6 * plain.group[0].phases.forward_us);
    assert_true(slow.late_us[2 * 3 + 1] > 0 && slow.late_us[1 * 3 + 2] == 0);
    qs_prediction_release(&plain);
    qs_prediction_release(&slow);
}

TEST(impossible_slowdowns_are_refused) {
    const qs_recipe *const *recipe[2] = {bound[0], bound[1]};
    const qs_slowdown wrong[] = {
        {.rank = 4, .factor = 2}, {.rank = -1, .factor = 2}, {.rank = 0, .factor = 0}, {.class_name = "nobody", .factor = 2}};
    qs_prediction out;
    cluster.class_[0].count = cluster.class_[1].count = 2;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(
            qs_predict(graph, &cluster, &profile, &job, recipe, &(qs_cost_options){.slowdowns = 1, .slowdown = &wrong[i]}, &out), QS_USAGE);
}

/* Times of a whole GPU say nothing of a part of one, and the other way round. */
TEST(parts_of_gpus_are_told_apart) {
    const qs_recipe *const *recipe[2] = {bound[0], bound[1]};
    qs_prediction out;
    cluster.class_[1].cuda_multiprocessors = 64;
    assert_refused(qs_predict(graph, &cluster, &profile, &job, recipe, NULL, &out), QS_MISMATCH, "the cluster has it on 64 of its GPU's");
    profile.class_[1].multiprocessors = 128;
    assert_refused(qs_predict(graph, &cluster, &profile, &job, recipe, NULL, &out), QS_MISMATCH, "on 128, the cluster has it on 64");
    cluster.class_[1].cuda_multiprocessors = 128;
    qs_prediction same = ask(1, NULL);
    qs_prediction_release(&same);
    cluster.class_[1].cuda_multiprocessors = profile.class_[1].multiprocessors = 0;
}

/* Nor do those of one speed say anything of others, of all kernels or of products in a format. */
TEST(speeds_are_told_apart) {
    const qs_recipe *const *recipe[2] = {bound[0], bound[1]};
    qs_speeds *products = &cluster.class_[1].products;
    qs_prediction out;
    *products = (qs_speeds){1, {qs_format_of("fp32")}, {0.25}};
    assert_refused(qs_predict(graph, &cluster, &profile, &job, recipe, NULL, &out), QS_MISMATCH, "the cluster has 1 at fp32 0.25");
    profile.class_[1].products = *products;
    qs_prediction same = ask(1, NULL);
    qs_prediction_release(&same);
    products->formats = 0;
    assert_refused(qs_predict(graph, &cluster, &profile, &job, recipe, NULL, &out), QS_MISMATCH,
                   "at speed fp32 0.25, the cluster has 1 at 1");
    profile.class_[1].products.formats = 0;
}

/* Times alone make nobody slower, and the one that is waited for faster. */
TEST(host_slowdown_is_what_was_measured) {
    qs_prediction beside = ask(1, NULL);
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < profile.class_[c].kernels; k++)
            profile.class_[c].kernel[k].us_alone = profile.class_[c].kernel[k].us * 0.5;
    qs_prediction alone = ask(1, NULL);
    const int late = beside.class_[0].waiting_us > beside.class_[1].waiting_us;
    assert_true(alone.iteration_us < beside.iteration_us);
    assert_true(alone.class_[late].compute_us < beside.class_[late].compute_us);
    assert_true(alone.class_[late].compute_us > 0.5 * beside.class_[late].compute_us);
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < profile.class_[c].kernels; k++)
            profile.class_[c].kernel[k].us_alone = 0;
    qs_prediction again = ask(1, NULL);
    assert_true(again.iteration_us == beside.iteration_us);
    qs_prediction_release(&beside);
    qs_prediction_release(&alone);
    qs_prediction_release(&again);
}

/* Launches that take longer than kernels: a recording's times are the prediction's, unless the class starts kernels one by one; where they
 * are no shorter nothing is said of them. Whoever waits for the class, waits as much less. */
TEST(recordings_are_taken_where_they_are_faster) {
    const qs_prediction plain = ask(1, NULL);
    const qs_phase_times *before = &plain.class_[1].phases;
    for (int record = 0; record < 3; record++)
        for (int faster = 0; faster < 2; faster++) {
            const bool taken = record == 2 || (record == 0 && faster);
            const double share = faster ? 0.5 : 1.25;
            synthetic_records(share, share, 1, &profile.class_[1]);
            cluster.class_[1].cuda_record = record;
            qs_prediction one = ask(1, NULL);
            const qs_phase_times *phases = &one.class_[1].phases;
            assert_int_equal(one.class_[1].recorded, taken);
            assert_false(one.class_[0].recorded);
            assert_int_equal(notes_say(&one, "kernels of class weak take the times of recordings"), taken);
            near(phases->forward_us, (taken ? share : 1) * before->forward_us);
            near(phases->cast_us, (taken ? share : 1) * before->cast_us);
            near(phases->optimizer_us, (taken ? share : 1) * before->optimizer_us);
            near(one.class_[0].phases.forward_us, plain.class_[0].phases.forward_us);
            if (!taken) assert_true(one.iteration_us == plain.iteration_us);
            qs_prediction_release(&one);
        }
    synthetic_records(0, 0, 1, &profile.class_[1]);
    cluster.class_[1].cuda_record = 0;
    qs_prediction again = ask(1, NULL);
    assert_true(again.iteration_us == plain.iteration_us);
    qs_prediction_release(&again);
    qs_prediction_release((qs_prediction *)&plain);
}

/* What recordings leave of data and loop is all that a step takes beside its kernels, and only where they are taken. */
TEST(recordings_hide_the_host_s_work) {
    qs_class_profile *one = &profile.class_[1];
    const double overhead_us = one->iteration_overhead_us;
    one->iteration_overhead_us = 500;
    for (int record = 1; record < 3; record++) {
        cluster.class_[1].cuda_record = record;
        synthetic_records(1, 1, 1, one);
        const qs_prediction without = ask(1, NULL);
        one->recorded_loop_us = 100;
        const qs_prediction with = ask(1, NULL);
        one->recorded_loop_us = 0;
        const double us = qs_cost_loop(one, &graph->samples, job.batch, QS_START_ONE_BY_ONE);
        assert_true(us > 500);
        near(without.class_[1].phases.data_us - with.class_[1].phases.data_us, record == 2 ? us - 100 : 0);
        qs_prediction_release((qs_prediction *)&without);
        qs_prediction_release((qs_prediction *)&with);
    }
    one->iteration_overhead_us = overhead_us;
    synthetic_records(0, 0, 1, one);
    cluster.class_[1].cuda_record = 0;
}

TEST_MAIN_WITH(setup, teardown, more_ranks_than_profiled_are_told, phases_are_the_iteration, without_casts_only_casts_are_gone,
               a_slow_rank_is_waited_for, impossible_slowdowns_are_refused, parts_of_gpus_are_told_apart, speeds_are_told_apart,
               host_slowdown_is_what_was_measured, recordings_are_taken_where_they_are_faster, recordings_hide_the_host_s_work)
