// SPDX-License-Identifier: Apache-2.0
// covers: dbs
/* Planner dbs on synthetic clusters: the shares are the fastest of all there are, sum to the global batch and keep memory limits; what
 * cannot be is refused with figures. */
#include "qsync/planner.h"
#include "shares_support.h"

/* ---- The fastest shares ---- */

TEST(two_classes_are_exact) {
    const double weak_speed[] = {190e3, 120e3, 60e3, 30e3};
    for (size_t i = 0; i < COUNT_OF(weak_speed); i++) {
        setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, weak_speed[i])});
        qs_plan plan = setting_plan(&here, "dbs");
        shares_plan_check(&here, &plan);
        assert_true(plan.class_[0].batch >= plan.class_[1].batch);
        assert_true(plan.class_[0].predicted.iteration_us <= shares_best_fp32_us(&here) * (1 + 1e-9));
        qs_plan_release(&plan);
        setting_end(&here);
    }
}

/* Counts of classes: two weak ranks give together what the strong one takes. */
TEST(counts_are_respected) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(2, 60e3)});
    qs_plan plan = setting_plan(&here, "dbs");
    shares_plan_check(&here, &plan);
    assert_int_equal(plan.class_[0].batch + 2 * plan.class_[1].batch, 3 * SHARES_BATCH);
    assert_true(plan.class_[0].batch > plan.class_[1].batch);
    assert_true(plan.class_[0].predicted.iteration_us <= shares_best_fp32_us(&here) * (1 + 1e-9));
    qs_plan_release(&plan);
    setting_end(&here);
}

TEST(three_classes) {
    setting here =
        shares_scene_make("lenet5", 3, (synthetic_device[]){shares_strong(1), shares_weak(1, 100e3), shares_named("slow", 1, 50e3)});
    qs_plan plan = setting_plan(&here, "dbs"), fp32 = setting_plan(&here, "fp32");
    shares_plan_check(&here, &plan);
    assert_true(plan.class_[0].batch >= plan.class_[1].batch && plan.class_[1].batch >= plan.class_[2].batch);
    assert_true(plan.class_[0].predicted.iteration_us < fp32.class_[0].predicted.iteration_us);
    qs_plan_release(&fp32);
    qs_plan_release(&plan);
    setting_end(&here);
}

TEST(equal_classes_share_equally) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_named("twin", 1, 200e3)});
    qs_plan plan = setting_plan(&here, "dbs");
    assert_int_equal(plan.class_[0].batch, SHARES_BATCH);
    assert_int_equal(plan.class_[1].batch, SHARES_BATCH);
    qs_plan_release(&plan);
    setting_end(&here);
}

/* ---- Memory ---- */

/* With a limit between what the smallest and the job's batch take, fp32 fits only as a smaller share. */
TEST(memory_is_kept) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 190e3)});
    qs_plan plan = setting_plan(&here, "fp32"), dealt;
    const int64_t full = plan.class_[1].predicted.arena_bytes;
    here.cluster.class_[1].memory_limit = full - 1;
    setting_refused(&here, "fp32", QS_INFEASIBLE, "limit");
    dealt = setting_plan(&here, "dbs");
    shares_plan_check(&here, &dealt);
    assert_true(dealt.class_[1].batch < SHARES_BATCH && dealt.class_[1].predicted.arena_bytes < full);
    qs_plan_release(&dealt);
    qs_plan_release(&plan);
    setting_end(&here);
}

TEST(too_little_memory_is_refused) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 190e3)});
    here.cluster.class_[1].memory_limit = 4096;
    setting_refused(&here, "dbs", QS_INFEASIBLE, "class weak: not even 8 samples a rank fit its memory limit of 0.0 MiB (4096 bytes)");
    qs_plan plan;
    here.cluster.class_[1].memory_limit = 0;
    plan = setting_plan(&here, "fp32");
    here.cluster.class_[0].memory_limit = here.cluster.class_[1].memory_limit = plan.class_[0].predicted.arena_bytes - 1;
    setting_refused(&here, "dbs", QS_INFEASIBLE, "samples of the global batch of 32");
    qs_plan_release(&plan);
    setting_end(&here);
}

/* ---- What is missing ---- */

TEST(a_profile_of_one_batch_is_refused) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    here.profile.batches = 0;
    setting_refused(&here, "dbs", QS_MISMATCH, "profile with --batches auto");
    setting_end(&here);
}

TEST(predictions_check_batches) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    qs_plan plan = setting_plan(&here, "dbs");
    qs_prediction prediction;
    const int64_t batch = plan.class_[0].batch;
    plan.class_[0].batch = batch + 1;
    assert_refused(qs_plan_predict(&plan, here.graph, &here.cluster, &here.profile, NULL, NULL, &prediction), QS_MISMATCH,
                   "sum to 33 samples over 2 ranks, the job's global batch is 32 (2 x 16)");
    plan.class_[1].batch -= 1;
    assert_refused(qs_plan_predict(&plan, here.graph, &here.cluster, &here.profile, NULL, NULL, &prediction), QS_MISMATCH,
                   "none of the 9 from 8 to 24 that the profile knows");
    qs_plan_release(&plan);
    setting_end(&here);
}

TEST_MAIN(two_classes_are_exact, counts_are_respected, three_classes, equal_classes_share_equally, memory_is_kept,
          too_little_memory_is_refused, a_profile_of_one_batch_is_refused, predictions_check_batches)
