// SPDX-License-Identifier: Apache-2.0
// covers: joint
/* Planner joint on synthetic clusters: never slower than uniform or dbs, never noisier than one of them that is as fast, faster than both
 * where shares and precision help together; as fast as the fastest pair of all. */
#include "qsync/planner.h"
#include "shares_support.h"

static const double tolerance = 0.005; /* the options' default */

static double total_omega(const setting *one, const qs_plan *plan) {
    double sum = 0;
    for (int c = 0; c < plan->classes; c++)
        sum += one->cluster.class_[c].count * plan->class_[c].predicted.sum_omega;
    return sum;
}

static double iteration_us(const qs_plan *plan) {
    return plan->class_[0].predicted.iteration_us;
}

/* Over all shares of two classes and all recipes of the weak one. */
static double fastest_pair_us(const setting *one) {
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
static void beside(const setting *one, const qs_plan *joint, const char *planner, double limit_us) {
    qs_plan other;
    const qs_status status = qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &other);
    if (status == QS_INFEASIBLE) return;
    assert_ok(status);
    assert_true(iteration_us(joint) <= iteration_us(&other) / (1 - tolerance) * (1 + 1e-9));
    if (iteration_us(&other) <= limit_us) assert_true(total_omega(one, joint) <= total_omega(one, &other) * (1 + 1e-9));
    qs_plan_release(&other);
}

static void scene_check(setting *here) {
    const double limit_us = fastest_pair_us(here) / (1 - tolerance);
    qs_plan plan = setting_plan(here, "joint");
    shares_plan_check(here, &plan);
    assert_true(iteration_us(&plan) <= limit_us * (1 + 1e-9));
    beside(here, &plan, "uniform", limit_us);
    beside(here, &plan, "dbs", limit_us);
    qs_plan_release(&plan);
}

TEST(never_worse_than_both) {
    const double weak_speed[] = {250e3, 150e3, 80e3, 40e3};
    for (size_t i = 0; i < COUNT_OF(weak_speed); i++) {
        setting here = shares_scene_make("resnet8:width=0.5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, weak_speed[i])});
        scene_check(&here);
        qs_plan plan = setting_plan(&here, "fp32");
        here.cluster.class_[1].memory_limit = plan.class_[1].predicted.arena_bytes * 3 / 4;
        scene_check(&here);
        qs_plan_release(&plan);
        setting_end(&here);
    }
}

/* A device so weak that neither fewer bits nor a smaller share alone let it keep pace. */
TEST(faster_than_both) {
    setting here = shares_scene_make("resnet8", 2, (synthetic_device[]){shares_strong(1), shares_weak(2, 60e3)});
    qs_plan joint = setting_plan(&here, "joint"), uniform = setting_plan(&here, "uniform"), dbs = setting_plan(&here, "dbs");
    shares_plan_check(&here, &joint);
    assert_true(iteration_us(&joint) < 0.97 * iteration_us(&uniform));
    assert_true(iteration_us(&joint) < 0.97 * iteration_us(&dbs));
    assert_true(joint.class_[0].batch > joint.class_[1].batch);
    qs_plan_release(&joint);
    qs_plan_release(&uniform);
    qs_plan_release(&dbs);
    setting_end(&here);
}

TEST(equal_runs_give_equal_plans) {
    setting here = shares_scene_make("lenet5", 2, (synthetic_device[]){shares_strong(1), shares_weak(1, 60e3)});
    qs_plan first = setting_plan(&here, "joint"), again = setting_plan(&here, "joint");
    plans_equal_check(&first, &again);
    qs_plan_release(&first);
    qs_plan_release(&again);
    here.profile.batches = 0;
    setting_refused(&here, "joint", QS_MISMATCH, "profile with --batches auto");
    setting_end(&here);
}

/* Even the least share of a class that is slow enough holds the others up; where classes may be idle they do without it. One that helps
 * goes on, and its plan is the same as if it could not be idle. */
TEST(what_only_holds_up_is_idle) {
    setting here = shares_scene_make("resnet8", 2, (synthetic_device[]){shares_strong(2), shares_weak(1, 3e3)});
    qs_plan small = setting_plan(&here, "joint");
    assert_int_equal(small.class_[1].batch, shares_batch[0]);
    assert_false(small.class_[1].idle);
    here.options.idle = true;
    qs_plan idle = setting_plan(&here, "joint");
    shares_plan_check(&here, &idle);
    assert_true(idle.class_[1].idle && !idle.class_[0].idle);
    assert_int_equal(idle.class_[0].batch, 24);
    assert_int_equal(idle.class_[1].batch, SHARES_BATCH); /* what its schedule is lowered at */
    assert_true(iteration_us(&idle) < 0.9 * iteration_us(&small));
    assert_true(idle.class_[1].predicted.sum_omega == 0);
    assert_true(idle.class_[1].predicted.phases.forward_us + idle.class_[1].predicted.phases.backward_us == 0);
    assert_true(idle.class_[1].predicted.phases.optimizer_us > 0);
    qs_plan_release(&small);
    qs_plan_release(&idle);
    setting_end(&here);

    here = shares_scene_make("resnet8", 2, (synthetic_device[]){shares_strong(2), shares_weak(1, 250e3)});
    qs_plan without = setting_plan(&here, "joint");
    here.options.idle = true;
    qs_plan with = setting_plan(&here, "joint");
    plans_equal_check(&without, &with);
    qs_plan_release(&without);
    qs_plan_release(&with);
    setting_end(&here);
}

TEST_MAIN(never_worse_than_both, faster_than_both, equal_runs_give_equal_plans, what_only_holds_up_is_idle)
