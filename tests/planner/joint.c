// SPDX-License-Identifier: Apache-2.0
// covers: joint
/* Planner joint on synthetic clusters: never slower than uniform or dbs, never noisier than one of them that is as fast, faster than both
 * where shares and precision help together; as fast as the fastest pair of all. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "qsync/planner.h"
#include "shares_support.h"

static const double tolerance = 0.005; /* the options' default */

static double total_omega(const shares_scene *one, const qs_plan *plan) {
    double sum = 0;
    for (int c = 0; c < plan->classes; c++)
        sum += one->cluster.class_[c].count * plan->class_[c].predicted.sum_omega;
    return sum;
}

static double iteration_us(const qs_plan *plan) {
    return plan->class_[0].predicted.iteration_us;
}

/* Over all shares of two classes and all recipes of the weak one. */
static double fastest_pair_us(const shares_scene *one) {
    static const char *const names[] = {"fp32", "bf16", "int8/bf16"};
    double best = INFINITY;
    for (int r = 0; r < 3; r++) {
        const qs_recipe recipe = recipe_of(names[r]);
        const qs_recipe **list = recipes_uniform(one->graph, &recipe), **none = calloc((size_t)one->graph->nodes, sizeof *none);
        const qs_recipe *const *const bound[] = {none, list};
        best = fmin(best, shares_best_us(one, bound));
        free(list);
        free(none);
    }
    return best;
}

/* What joint promises beside another planner's plan. */
static void beside(const shares_scene *one, const qs_plan *joint, const char *planner, double limit_us) {
    qs_plan other;
    const qs_status status = qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &other);
    if (status == QS_INFEASIBLE) return;
    assert_int_equal(status, QS_OK);
    assert_true(iteration_us(joint) <= iteration_us(&other) / (1 - tolerance) * (1 + 1e-9));
    if (iteration_us(&other) <= limit_us) assert_true(total_omega(one, joint) <= total_omega(one, &other) * (1 + 1e-9));
    qs_plan_release(&other);
}

static void scene_check(shares_scene *here) {
    const double limit_us = fastest_pair_us(here) / (1 - tolerance);
    qs_plan plan = shares_planned(here, "joint");
    shares_plan_check(here, &plan);
    assert_true(iteration_us(&plan) <= limit_us * (1 + 1e-9));
    beside(here, &plan, "uniform", limit_us);
    beside(here, &plan, "dbs", limit_us);
    qs_plan_release(&plan);
}

static void never_worse_than_both(void **state) {
    (void)state;
    const double weak_speed[] = {250e3, 150e3, 80e3, 40e3};
    for (size_t i = 0; i < sizeof weak_speed / sizeof *weak_speed; i++) {
        shares_scene here =
            shares_scene_make("resnet8:width=0.5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, weak_speed[i])});
        scene_check(&here);
        qs_plan plan = shares_planned(&here, "fp32");
        here.cluster.class_[1].memory_limit = plan.class_[1].predicted.arena_bytes * 3 / 4;
        scene_check(&here);
        qs_plan_release(&plan);
        shares_scene_end(&here);
    }
}

/* A device so weak that neither fewer bits nor a smaller share alone let it keep pace. */
static void faster_than_both(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("resnet8", 2, (synthetic_device[]){shares_strong(1), shares_weak(2, 60e3)});
    qs_plan joint = shares_planned(&here, "joint"), uniform = shares_planned(&here, "uniform"), dbs = shares_planned(&here, "dbs");
    shares_plan_check(&here, &joint);
    assert_true(iteration_us(&joint) < 0.97 * iteration_us(&uniform));
    assert_true(iteration_us(&joint) < 0.97 * iteration_us(&dbs));
    assert_true(joint.class_[0].batch > joint.class_[1].batch);
    qs_plan_release(&joint);
    qs_plan_release(&uniform);
    qs_plan_release(&dbs);
    shares_scene_end(&here);
}

static void equal_runs_give_equal_plans(void **state) {
    (void)state;
    shares_scene here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    qs_plan first = shares_planned(&here, "joint"), again = shares_planned(&here, "joint");
    char *text = NULL, *same = NULL;
    assert_ok(qs_plan_text(&first, &text));
    assert_ok(qs_plan_text(&again, &same));
    assert_string_equal(text, same);
    free(text);
    free(same);
    qs_plan_release(&first);
    qs_plan_release(&again);
    here.profile.batches = 0;
    shares_refused(&here, "joint", QS_MISMATCH, "profile with --batches auto");
    shares_scene_end(&here);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_worse_than_both),
        cmocka_unit_test(faster_than_both),
        cmocka_unit_test(equal_runs_give_equal_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
