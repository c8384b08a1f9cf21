// SPDX-License-Identifier: Apache-2.0
// covers: exact
/* Planner `exact` finds what asking for every plan finds, also with two weak classes, with caches and noise, with pins; and says so where a
 * model is too large. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

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

static void exhaustion(void **state) {
    (void)state;
    as_by_exhaustion(0, false);
    as_by_exhaustion(0, true);
}

static void exhaustion_in_trouble(void **state) {
    (void)state;
    as_by_exhaustion(SCENE_TROUBLE, true);
}

static void exhaustion_of_larger_models(void **state) {
    (void)state;
    uint64_t number = 1000;
    for (int s = 0; s < LARGE_SCENES; s++) {
        scene one;
        scene_next(&one, &number, LARGE, LARGE, s ? SCENE_TROUBLE : 0);
        scene_check(&one, s > 0);
    }
}

static void exhaustion_over_two_classes(void **state) {
    (void)state;
    uint64_t number = 1100;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 2, 3, SCENE_TWO | (s % 4 == 3 ? SCENE_TROUBLE : 0));
        scene_check(&one, s % 2);
    }
}

/* Each operator in turn, in each recipe. */
static void exhaustion_beside_pins(void **state) {
    (void)state;
    uint64_t number = 1200;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 3, LARGEST, s % 4 == 3 ? SCENE_TROUBLE : 0);
        scene_pin(&one, s % one.nodes, s % one.weak->recipes);
        scene_check(&one, s % 2);
    }
}

static void too_large(void **state) {
    (void)state;
    scene one;
    qs_graph *graph = NULL;
    qs_plan plan;
    assert_ok(qs_model_build("resnet20:width=0.5", NULL, &graph));
    scene_start(&one, graph, 3, SCENE_TROUBLE);
    scene_limit(&one, 0.6);
    assert_int_equal(qs_plan_make("exact", one.graph, &one.cluster, &one.profile, &one.job, &one.options, &plan), QS_UNSUPPORTED);
    assert_non_null(strstr(qs_message(), "22 operators are too many"));
    assert_non_null(strstr(qs_message(), "use planner qsync"));
    scene_end(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exhaustion),
                                       cmocka_unit_test(exhaustion_in_trouble),
                                       cmocka_unit_test(exhaustion_of_larger_models),
                                       cmocka_unit_test(exhaustion_over_two_classes),
                                       cmocka_unit_test(exhaustion_beside_pins),
                                       cmocka_unit_test(too_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
