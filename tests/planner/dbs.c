// SPDX-License-Identifier: Apache-2.0
// covers: dbs
/* Planner dbs on synthetic clusters: the shares are the fastest of all there are, sum to the global batch and keep memory limits; what
 * cannot be is refused with figures. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "qsync/planner.h"
#include "shares_support.h"

/* ---- The fastest shares ---- */

static void two_classes_are_exact(void **state) {
    (void)state;
    const double weak_speed[] = {190e3, 120e3, 60e3, 30e3};
    for (size_t i = 0; i < sizeof weak_speed / sizeof *weak_speed; i++) {
        shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, weak_speed[i])});
        qs_plan plan = shares_planned(&here, "dbs");
        shares_plan_check(&here, &plan);
        assert_true(plan.class_[0].batch >= plan.class_[1].batch);
        assert_true(plan.class_[0].predicted.iteration_us <= shares_best_fp32_us(&here) * (1 + 1e-9));
        qs_plan_release(&plan);
        shares_scene_end(&here);
    }
}

/* Counts of classes: two weak ranks give together what the strong one takes. */
static void counts_are_respected(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(2, 60e3)});
    qs_plan plan = shares_planned(&here, "dbs");
    shares_plan_check(&here, &plan);
    assert_int_equal(plan.class_[0].batch + 2 * plan.class_[1].batch, 3 * SHARES_BATCH);
    assert_true(plan.class_[0].batch > plan.class_[1].batch);
    assert_true(plan.class_[0].predicted.iteration_us <= shares_best_fp32_us(&here) * (1 + 1e-9));
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

static void three_classes(void **state) {
    (void)state;
    shares_scene here =
        shares_scene_make("lenet5", 3, (synthetic_device[]){shares_strong(1), shares_weak(1, 100e3), shares_named("slow", 1, 50e3)});
    qs_plan plan = shares_planned(&here, "dbs"), fp32 = shares_planned(&here, "fp32");
    shares_plan_check(&here, &plan);
    assert_true(plan.class_[0].batch >= plan.class_[1].batch && plan.class_[1].batch >= plan.class_[2].batch);
    assert_true(plan.class_[0].predicted.iteration_us < fp32.class_[0].predicted.iteration_us);
    qs_plan_release(&fp32);
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

static void equal_classes_share_equally(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_named("twin", 1, 200e3)});
    qs_plan plan = shares_planned(&here, "dbs");
    assert_int_equal(plan.class_[0].batch, SHARES_BATCH);
    assert_int_equal(plan.class_[1].batch, SHARES_BATCH);
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

/* ---- Memory ---- */

/* With a limit between what the smallest and the job's batch take, fp32 fits only as a smaller share. */
static void memory_is_kept(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 190e3)});
    qs_plan plan = shares_planned(&here, "fp32"), dealt;
    const int64_t full = plan.class_[1].predicted.arena_bytes;
    here.cluster.class_[1].memory_limit = full - 1;
    shares_refused(&here, "fp32", QS_INFEASIBLE, "limit");
    dealt = shares_planned(&here, "dbs");
    shares_plan_check(&here, &dealt);
    assert_true(dealt.class_[1].batch < SHARES_BATCH && dealt.class_[1].predicted.arena_bytes < full);
    qs_plan_release(&dealt);
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

static void too_little_memory_is_refused(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 190e3)});
    here.cluster.class_[1].memory_limit = 4096;
    shares_refused(&here, "dbs", QS_INFEASIBLE, "class weak: not even 8 samples a rank fit its memory limit of 0.0 MiB (4096 bytes)");
    qs_plan plan;
    here.cluster.class_[1].memory_limit = 0;
    plan = shares_planned(&here, "fp32");
    here.cluster.class_[0].memory_limit = here.cluster.class_[1].memory_limit = plan.class_[0].predicted.arena_bytes - 1;
    shares_refused(&here, "dbs", QS_INFEASIBLE, "samples of the global batch of 32");
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

/* ---- What is missing ---- */

static void a_profile_of_one_batch_is_refused(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    here.profile.batches = 0;
    shares_refused(&here, "dbs", QS_MISMATCH, "profile with --batches auto");
    shares_scene_end(&here);
}

static void predictions_check_batches(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    qs_plan plan = shares_planned(&here, "dbs");
    qs_prediction prediction;
    const int64_t batch = plan.class_[0].batch;
    plan.class_[0].batch = batch + 1;
    assert_int_equal(qs_plan_predict(&plan, here.graph, &here.cluster, &here.profile, NULL, NULL, &prediction), QS_MISMATCH);
    assert_non_null(strstr(qs_message(), "sum to 33 samples over 2 ranks, the job's global batch is 32 (2 x 16)"));
    plan.class_[1].batch -= 1;
    assert_int_equal(qs_plan_predict(&plan, here.graph, &here.cluster, &here.profile, NULL, NULL, &prediction), QS_MISMATCH);
    assert_non_null(strstr(qs_message(), "none of the 9 from 8 to 24 that the profile knows"));
    qs_plan_release(&plan);
    shares_scene_end(&here);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_classes_are_exact),
        cmocka_unit_test(counts_are_respected),
        cmocka_unit_test(three_classes),
        cmocka_unit_test(equal_classes_share_equally),
        cmocka_unit_test(memory_is_kept),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(a_profile_of_one_batch_is_refused),
        cmocka_unit_test(predictions_check_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
