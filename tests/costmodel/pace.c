// SPDX-License-Identifier: Apache-2.0
/* A profile at another pace: every step takes so many times as long as its kind says, and what was measured stays as it is. */
#include "kit/synthetic.h"

static const synthetic_device devices[] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};

static qs_schedule *lowered(const qs_graph *graph, const qs_job *job, const qs_class_profile *profile) {
    const qs_recipe recipe = recipe_of("int8/bf16");
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    union {
        const qs_class_profile *profile;
        void *context;
    } pass = {.profile = profile}; /* the lookup only reads it */
    qs_lowering lowering = lowering_of(graph, job, QS_MODE_TRAIN, list);
    lowering.lookup = qs_lookup_profile;
    lowering.context = pass.context;
    qs_schedule *schedule = lower(&lowering);
    free(list);
    return schedule;
}

TEST(kinds_of_kernels_have_paces_of_their_own) {
    const qs_pace pace[2] = {{1, 1, 1}, {0.5, 0.25, 0.8}};
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet8:width=0.5", NULL, &graph));
    const qs_job job = stub_job(4);
    qs_cluster cluster = synthetic_cluster(2, devices);
    qs_profile profile = synthetic_profile(graph, &cluster, devices, &job), paced;
    profile.class_[1].step_overhead_us = 0;
    assert_ok(qs_profile_at_pace(&profile, &cluster, pace, &paced));
    qs_schedule *schedule = lowered(graph, &job, &profile.class_[1]);
    double *us = calloc((size_t)schedule->steps, sizeof *us), *paced_us = calloc((size_t)schedule->steps, sizeof *us);
    int seen[3] = {0};
    assert_ok(qs_cost_schedule(&profile.class_[1], schedule, NULL, us));
    assert_ok(qs_cost_schedule(&paced.class_[1], schedule, NULL, paced_us));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL) continue;
        const bool computes = step->case_.op->kind == QS_ADJUSTABLE;
        seen[computes ? 0 : step->conversion ? 1 : 2]++;
        assert_true(fabs(paced_us[s] - us[s] / (computes ? 0.5 : 0.25)) <= 1e-9 * paced_us[s]);
    }
    assert_true(seen[0] > 10 && seen[1] > 10 && seen[2] > 10);
    /* The other class is as it was; all-reduces go by the slowest. */
    for (int i = 0; i < profile.class_[0].kernels; i++)
        assert_true(paced.class_[0].kernel[i].us == profile.class_[0].kernel[i].us);
    double before, after, share;
    assert_ok(qs_cost_all_reduce(&profile, 2, 1 << 20, &before, &share));
    assert_ok(qs_cost_all_reduce(&paced, 2, 1 << 20, &after, &share));
    assert_true(fabs(after - before / 0.8) <= 1e-9 * after);
    free(us);
    free(paced_us);
    qs_schedule_release(schedule);
    qs_profile_at_pace_release(&paced);
    qs_profile_release(&profile);
    qs_cluster_release(&cluster);
    qs_graph_release(graph);
}

TEST_MAIN(kinds_of_kernels_have_paces_of_their_own)
