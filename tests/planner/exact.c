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

enum { SCENES = 12, LARGEST = 5 };

static double planned(const scene *one) {
    qs_plan plan;
    assert_ok(qs_plan_make("exact", one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
    const qs_class_plan *weak = qs_plan_class(&plan, "weak");
    const double omega = weak->predicted.sum_omega;
    assert_true(weak->predicted.iteration_us <= one->limit_us);
    assert_true(one->cluster.class_[SCENE_WEAK].memory_limit <= 0 ||
                weak->predicted.arena_bytes <= one->cluster.class_[SCENE_WEAK].memory_limit);
    qs_plan_release(&plan);
    return omega;
}

static void as_by_exhaustion(bool trouble, bool limited) {
    uint64_t number = 900;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, 3, LARGEST, trouble);
        if (limited) scene_limit(&one, 0.1 + 0.8 * scene_dice(number, 4));
        const double optimum = scene_optimum(&one), omega = planned(&one);
        /* The same sums in another order. */
        if (fabs(omega - optimum) > 1e-12 * optimum) fail_msg("model %d: planned %.17g, optimum %.17g", (int)one.number, omega, optimum);
        scene_end(&one);
    }
}

static void exhaustion(void **state) {
    (void)state;
    as_by_exhaustion(false, false);
    as_by_exhaustion(false, true);
}

static void exhaustion_in_trouble(void **state) {
    (void)state;
    as_by_exhaustion(true, true);
}

static void too_large(void **state) {
    (void)state;
    scene one;
    qs_graph *graph = NULL;
    qs_plan plan;
    assert_ok(qs_model_build("resnet20:width=0.5", NULL, &graph));
    scene_start(&one, graph, 3, true);
    scene_limit(&one, 0.4);
    assert_int_equal(qs_plan_make("exact", one.graph, &one.cluster, &one.profile, &one.job, &one.options, &plan), QS_UNSUPPORTED);
    assert_non_null(strstr(qs_message(), "22 operators are too many"));
    assert_non_null(strstr(qs_message(), "use planner qsync"));
    scene_end(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exhaustion), cmocka_unit_test(exhaustion_in_trouble), cmocka_unit_test(too_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
