// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Balanced ranks: plans in which ranks of one host have about as much to do; and the factor by which they slow each other, found again from
 * iterations that are known by Monte Carlo, so that unseen plans are predicted without bias. */
#include "replay_support.h"
#include "kit/synthetic.h"

static const double true_factor = 1.12, jitter = 0.02;
enum { TRIALS = 400 };

static const synthetic_device device[2] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
static qs_graph *graph;
static qs_cluster cluster;
static qs_profile profile;
static qs_job job;
static qs_recipe low[2][2 * QS_MAX_FORMATS];
static const qs_recipe **chosen[2][2]; /* of each plan, of each class */

/* Kernels take 0.9 of their time while the neighbour waits. */
static int setup(void **state) {
    (void)state;
    job = stub_job(16);
    assert_ok(qs_model_build("resnet8:width=0.5", NULL, &graph));
    cluster = synthetic_cluster(2, device);
    profile = synthetic_profile(graph, &cluster, device, &job);
    for (int c = 0; c < 2; c++) {
        qs_class_profile *one = &profile.class_[c];
        one->jitter = jitter;
        for (int k = 0; k < one->kernels; k++)
            one->kernel[k].us_alone = 0.9 * one->kernel[k].us;
        for (int k = 0; k < one->conversions; k++)
            one->conversion[k].alone = 0.9;
        for (int p = 0; p < 2; p++) {
            chosen[p][c] = calloc((size_t)graph->nodes, sizeof *chosen[p][c]);
            assert_non_null(chosen[p][c]);
        }
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++)
        free(chosen[i / 2][i % 2]);
    qs_profile_release(&profile);
    qs_cluster_release(&cluster);
    qs_graph_release(graph);
    return 0;
}

static void choose(int plan, double *share) {
    assert_ok(qs_balance_choose(graph, &cluster, &profile, &job, plan == 1, low[plan], (const qs_recipe **const *)chosen[plan], share));
}

static qs_prediction predict(const qs_profile *of, const qs_recipe **const *recipe) {
    qs_prediction out;
    const qs_recipe *const *asked[2] = {recipe[0], recipe[1]};
    assert_ok(qs_predict(graph, &cluster, of, &job, asked, NULL, &out));
    return out;
}

static int lowered(const qs_recipe **recipe) {
    int count = 0;
    for (int n = 0; n < graph->nodes; n++)
        count += recipe[n] != NULL && strcmp(recipe[n]->name, "fp32") != 0;
    return count;
}

/* The weak class is slower in fp32 and faster in int8: some operators are enough. One more in fp32 would make it the later one. */
TEST(ranks_have_about_as_much_to_do) {
    for (int p = 0; p < 2; p++) {
        double share;
        choose(p, &share);
        assert_true(share > 0.85 && share <= 1);
        assert_int_equal(lowered(chosen[p][0]), 0);
        const int count = lowered(chosen[p][1]);
        assert_true(count > 0);
        qs_prediction one = predict(&profile, chosen[p]);
        assert_true(one.class_[1].waiting_us < 0.15 * one.iteration_us && one.class_[0].waiting_us < 0.15 * one.iteration_us);
        qs_prediction_release(&one);
        int first = 0;
        while (first < graph->nodes && chosen[p][1][first] == NULL)
            first++;
        assert_true(p == 0 || chosen[1][1][first] != chosen[0][1][first] || count < 8);
    }
    bool differs = false;
    for (int n = 0; n < graph->nodes; n++)
        differs = differs || (chosen[0][1][n] != NULL) != (chosen[1][1][n] != NULL);
    assert_true(differs);
}

/* ---- Iterations by Monte Carlo ---- */

/* Mean over trials of a replay without noise, whose steps were drawn: times `true_factor` beside the neighbour at work, and noise whose
 * variance is that of the profile's jitter. A step's time is log-normal, which is never negative. */
static double iterations_mean(const qs_recipe **const *recipe, double *standard_error) {
    qs_profile truth;
    qs_schedule *schedule[2];
    double *us[2], *alone[2], *drawn[2], *drawn_alone[2], busy[2] = {0}, sum = 0, squares = 0;
    qs_replay_rank rank[2];
    assert_ok(qs_profile_beside(&profile, true_factor, &truth));
    for (int c = 0; c < 2; c++) {
        qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, recipe[c]);
        lowering.half = qs_class_half(&cluster.class_[c]);
        lowering.joins = truth.class_[c].joins;
        lowering.lookup = qs_lookup_profile;
        lowering.context = &truth.class_[c];
        schedule[c] = lower(&lowering);
        const size_t steps = (size_t)schedule[c]->steps;
        double **all[] = {&us[c], &alone[c], &drawn[c], &drawn_alone[c]};
        for (int i = 0; i < 4; i++)
            assert_non_null(*all[i] = calloc(steps, sizeof(double)));
        assert_ok(qs_cost_schedule(&truth.class_[c], schedule[c], NULL, us[c]));
        assert_true(qs_cost_schedule_alone(&truth.class_[c], schedule[c], us[c], alone[c]));
        for (size_t s = 0; s < steps; s++)
            busy[c] += us[c][s];
        rank[c] = (qs_replay_rank){.class_name = cluster.class_[c].name,
                                   .schedule = schedule[c],
                                   .step_us = drawn[c],
                                   .step_alone_us = drawn_alone[c],
                                   .data_us = qs_cost_loop(&truth.class_[c], &graph->samples, job.batch, QS_START_ONE_BY_ONE)};
    }
    for (uint64_t t = 0; t < TRIALS; t++) {
        qs_replay_result result;
        for (int c = 0; c < 2; c++) {
            const uint64_t key = qs_random_key(t, (uint64_t)c, 77, 0);
            for (int s = 0; s < schedule[c]->steps; s++) {
                if (us[c][s] <= 0) continue;
                const double variance = jitter * jitter * busy[c] * us[c][s], spread2 = log(1 + variance / (us[c][s] * us[c][s]));
                const double factor = exp(sqrt(spread2) * (double)qs_random_normal(key, (uint64_t)s) - spread2 / 2);
                drawn[c][s] = us[c][s] * factor;
                drawn_alone[c][s] = alone[c][s] * factor;
            }
        }
        assert_ok(qs_replay(&(qs_replay_case){.profile = &truth, .ranks = 2, .rank = rank}, &result));
        sum += result.iteration_us / TRIALS;
        squares += result.iteration_us * result.iteration_us / TRIALS;
        qs_replay_release(&result);
    }
    *standard_error = sqrt((squares - sum * sum) / TRIALS) / sum;
    for (int c = 0; c < 2; c++) {
        free(us[c]);
        free(alone[c]);
        free(drawn[c]);
        free(drawn_alone[c]);
        qs_schedule_release(schedule[c]);
    }
    qs_profile_at_pace_release(&truth);
    return sum;
}

/* What the replayer's noise may be off by (test replayer.noise), as a share of an iteration: a twentieth of a step's deviation. */
static const double noise_error = jitter / 20;

/* An iteration is at least half work beside the neighbour: errors of measured times come back at most twice in the factor. */
TEST(the_factor_is_found_again) {
    qs_balanced plan[2];
    const qs_recipe *const *asked[2][2];
    double share, error, factor, standard_error[2];
    for (int p = 0; p < 2; p++) {
        choose(p, &share);
        for (int c = 0; c < 2; c++)
            asked[p][c] = chosen[p][c];
        plan[p] = (qs_balanced){.recipe = asked[p], .measured_us = iterations_mean(chosen[p], &standard_error[p])};
    }
    assert_ok(qs_balance_fit(graph, &cluster, &profile, &job, 2, plan, &factor, &error));
    const double worst = 4 * fmax(standard_error[0], standard_error[1]) + noise_error;
    print_message("factor %.4f, without it off by %.4f; iterations are known to %.4f\n", factor, error, worst);
    assert_true(fabs(factor - true_factor) < 2 * worst);
    assert_true(error > 0.5 * (true_factor - 1) && error < true_factor - 1 + worst);
    /* Plans that it was not fitted by: their predictions without it are too short, and right with it. */
    qs_profile fitted;
    assert_ok(qs_profile_beside(&profile, factor, &fitted));
    for (int unseen = 0; unseen < 3; unseen++) {
        const qs_recipe *unequal[2 * 64] = {0}, **recipe[2] = {unequal, unequal + 64};
        double known;
        assert_in_range(graph->nodes, 1, 64);
        for (int n = graph->samples.inputs; n < graph->nodes; n++)
            if (graph->node[n].op->kind == QS_ADJUSTABLE && n % 3 != unseen) recipe[1][n] = &low[0][QS_MAX_FORMATS + 2];
        const double truth = iterations_mean(recipe, &known);
        qs_prediction with = predict(&fitted, recipe), without = predict(&profile, recipe);
        print_message("unseen: %+.4f without, %+.4f with\n", without.iteration_us / truth - 1, with.iteration_us / truth - 1);
        assert_true(fabs(with.iteration_us / truth - 1) < 4 * known + noise_error + 2 * worst);
        assert_true(without.iteration_us < 0.95 * truth);
        qs_prediction_release(&with);
        qs_prediction_release(&without);
    }
    qs_profile_at_pace_release(&fitted);
}

/* Nothing is changed by less than is known, by less than the machine's pace changed, by more than neighbours explain, or where no rank has
 * a neighbour. */
TEST(without_reason_nothing_changes) {
    static const struct {
        double times, confidence, drift;
        bool fitted;
    } asked[] = {{1.02, 0.001, 0, true}, {1.02, 0.05, 0, false}, {1.02, 0.001, 0.03, false}, {1.05, 0.001, 0.03, true},
                 {3, 0.001, 0, false},   {0.3, 0.001, 0, false}, {0.98, 0.001, 0, true},     {1, 0, 0, false}};
    double share, error, factor;
    choose(0, &share);
    const qs_recipe *const *recipe[2] = {chosen[0][0], chosen[0][1]};
    qs_prediction one = predict(&profile, chosen[0]);
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        const qs_balanced plan = {recipe, one.iteration_us * asked[i].times, asked[i].confidence};
        profile.class_[1].quality.drift = asked[i].drift;
        assert_ok(qs_balance_fit(graph, &cluster, &profile, &job, 1, &plan, &factor, &error));
        assert_int_equal(factor != 1, asked[i].fitted);
        assert_true(fabs(error - (asked[i].times - 1)) < 1e-9);
        if (asked[i].fitted) assert_int_equal(factor > 1, asked[i].times > 1);
    }
    profile.class_[1].quality.drift = 0;
    assert_ok(qs_balance_fit(graph, &cluster, &profile, &job, 0, NULL, &factor, &error));
    assert_true(factor == 1 && error == 0);
    qs_prediction_release(&one);
}

/* What steps take alone stays, and company makes nothing faster; a class without such times is as it was. */
TEST(only_times_beside_others_change) {
    qs_profile more, less;
    const double kept = profile.class_[0].kernel[0].us_alone;
    assert_ok(qs_profile_beside(&profile, 1.25, &more));
    assert_ok(qs_profile_beside(&profile, 0.8, &less));
    for (int c = 0; c < 2; c++) {
        const qs_class_profile *one = &profile.class_[c];
        near(more.class_[c].beside, 1.25);
        for (int k = 0; k < one->kernels; k++) {
            near(more.class_[c].kernel[k].us, 1.25 * one->kernel[k].us);
            assert_true(more.class_[c].kernel[k].us_alone == one->kernel[k].us_alone);
            near(less.class_[c].kernel[k].us_alone, 0.8 * one->kernel[k].us); /* 0.9 of it was more */
        }
        for (int k = 0; k < one->conversions; k++) {
            near(more.class_[c].conversion[k].piece[0].us_per_element, 1.25 * one->conversion[k].piece[0].us_per_element);
            near(more.class_[c].conversion[k].alone, 0.9 / 1.25);
            near(less.class_[c].conversion[k].alone, 1);
        }
    }
    qs_profile_at_pace_release(&more);
    qs_profile_at_pace_release(&less);
    for (int k = 0; k < profile.class_[0].kernels; k++)
        profile.class_[0].kernel[k].us_alone = 0;
    assert_ok(qs_profile_beside(&profile, 1.25, &more));
    assert_true(more.class_[0].kernel[0].us == profile.class_[0].kernel[0].us && more.class_[0].beside == 0);
    for (int k = 0; k < profile.class_[0].kernels; k++)
        profile.class_[0].kernel[k].us_alone = 0.9 * profile.class_[0].kernel[k].us;
    assert_true(fabs(profile.class_[0].kernel[0].us_alone - kept) <= 1e-12 * kept);
    qs_profile_at_pace_release(&more);
}

TEST_MAIN_WITH(setup, teardown, ranks_have_about_as_much_to_do, the_factor_is_found_again, without_reason_nothing_changes,
               only_times_beside_others_change)
