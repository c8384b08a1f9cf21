// SPDX-License-Identifier: Apache-2.0
// covers: exact
/* Planner `exact` finds what asking for every plan finds, also with two weak classes, with caches and noise, with pins; and says so where a
 * model is too large. */
#include "scene.h"

enum { SCENES = 12, LARGEST = 5, LARGE_SCENES = 2, LARGE = 8 };

/* With one lowered class the optimum is its own bound. */
static double planned(const scene *one) {
    qs_plan plan = scene_plan(one, "exact");
    const double omega = scene_omega_of(one, &plan);
    for (int c = SCENE_WEAK; c < one->classes; c++) {
        const qs_class_plan *weak = &plan.class_[c];
        const int64_t limit = one->cluster.class_[c].memory_limit;
        assert_true(weak->predicted.iteration_us <= one->limit_us);
        assert_true(limit <= 0 || weak->predicted.arena_bytes <= limit);
        if (one->classes == 2) assert_true(weak->predicted.lower_bound == weak->predicted.sum_omega);
    }
    qs_plan_release(&plan);
    return omega;
}

static void scene_check(scene *one, bool limited) {
    if (limited) scene_limit(one, 0.1 + 0.8 * scene_dice(one->number, 4));
    const double optimum = scene_optimum(one), omega = planned(one);
    /* The same sums in another order. */
    if (fabs(omega - optimum) > 1e-12 * optimum) fail_msg("model %d: planned %.17g, optimum %.17g", (int)one->number, omega, optimum);
    scene_end(one);
}

static void as_by_exhaustion(unsigned kind, bool limited) {
    uint64_t number = 900;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 3, LARGEST, kind);
        scene_check(&one, limited);
    }
}

TEST(exhaustion) {
    as_by_exhaustion(0, false);
    as_by_exhaustion(0, true);
}

TEST(exhaustion_in_trouble) {
    as_by_exhaustion(SCENE_TROUBLE, true);
}

TEST(exhaustion_of_joined_passes) {
    as_by_exhaustion(SCENE_JOINS, false);
    as_by_exhaustion(SCENE_JOINS | SCENE_TROUBLE, true);
}

TEST(exhaustion_of_larger_models) {
    uint64_t number = 1000;
    for (int s = 0; s < LARGE_SCENES; s++) {
        scene one;
        scene_next(&one, &number, LARGE, LARGE, s ? SCENE_TROUBLE : 0);
        scene_check(&one, s > 0);
    }
}

TEST(exhaustion_over_two_classes) {
    uint64_t number = 1100;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 2, 3, SCENE_TWO | (s % 4 == 3 ? SCENE_TROUBLE : 0));
        scene_check(&one, s % 2);
    }
}

/* Each operator in turn, in each recipe. */
TEST(exhaustion_beside_pins) {
    uint64_t number = 1200;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 3, LARGEST, s % 4 == 3 ? SCENE_TROUBLE : 0);
        scene_pin(&one, s % one.nodes, s % one.weak->recipes);
        scene_check(&one, s % 2);
    }
}

TEST(too_large) {
    scene one;
    qs_graph *graph = NULL;
    qs_plan plan;
    assert_ok(qs_model_build("resnet20:width=0.5", NULL, &graph));
    scene_start(&one, graph, 3, SCENE_TROUBLE);
    scene_limit(&one, 0.6);
    assert_refused(qs_plan_make("exact", one.graph, &one.cluster, &one.profile, &one.job, &one.options, &plan), QS_UNSUPPORTED,
                   "22 operators are too many");
    assert_message("use planner qsync");
    scene_end(&one);
}

TEST_MAIN(exhaustion, exhaustion_in_trouble, exhaustion_of_joined_passes, exhaustion_of_larger_models, exhaustion_over_two_classes,
          exhaustion_beside_pins, too_large)
