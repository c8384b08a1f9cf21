// SPDX-License-Identifier: Apache-2.0
// labels: short
/* T_min is asked of upper bounds, as far as the profile knows its errors: no plan is later than the best uniform one's bound allows, plans
 * that believe their predictions would be, and where nothing is known, or nothing is to be doubted, plans are what they are. */
#include "kit/kit.h"
#include "scene.h"

enum { SCENES = 4, LEAST = 4, LARGEST = 10 };
static const char *const planners[] = {"uniform", "qsync", "qsync-heap", "exact"};
static const double closure = 0.02, rounding = 1e-9;
/* One-sided 95 % of a normal variable; deviation over mean magnitude. */
static const double z95 = 1.6448536269514722, over_mean = 1.2533141373155003;

/* And as in every measured profile no kernel is slower while its neighbours wait. */
static void errors_know(scene *one) {
    for (int c = 0; c < one->profile.classes; c++)
        for (int i = 0; i < one->profile.class_[c].kernels; i++) {
            qs_kernel_cost *row = &one->profile.class_[c].kernel[i];
            row->us_alone = fmin(row->us_alone, row->us);
        }
    one->profile.class_[SCENE_WEAK].quality = (qs_quality){.known = true, .plans = 16, .steps = 8, .closure_mean = closure};
}

/* An iteration of the plan with the weak class slower by a share. */
static double slowed_us(const scene *one, const qs_plan *plan, double doubt) {
    const qs_slowdown slowdown = {.class_name = "weak", .factor = 1 + doubt};
    const qs_cost_options costs = {.slowdowns = 1, .slowdown = &slowdown};
    qs_prediction prediction;
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, &costs, NULL, &prediction));
    const double us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return us;
}

/* The least upper bound of uniform plans that fit. */
static double best_uniform_us(scene *one, double doubt) {
    const qs_slowdown slowdown = {.class_name = "weak", .factor = 1 + doubt};
    const qs_cost_options costs = {.slowdowns = 1, .slowdown = &slowdown};
    double best = INFINITY, omega;
    assert_ok(qs__candidate_price(&one->candidate, &costs));
    for (int r = 0; r < one->weak->recipes; r++) {
        qs_prediction prediction;
        scene_ask_uniform(one, r, &omega, &prediction);
        if (prediction.fits) best = fmin(best, prediction.iteration_us);
        qs_prediction_release(&prediction);
    }
    return best;
}

TEST(no_plan_is_late_by_its_bound) {
    uint64_t number = 40;
    int later = 0;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, LEAST, LARGEST, s % 2 ? SCENE_LATE : SCENE_TROUBLE);
        errors_know(&one);
        const double doubt = z95 * over_mean * closure, best = best_uniform_us(&one, doubt);
        for (int p = 0; p < (int)COUNT_OF(planners); p++) {
            one.options.confidence = 0.95;
            qs_plan plan = scene_plan(&one, planners[p]);
            const double upper = slowed_us(&one, &plan, doubt);
            assert_true(fabs(plan.class_[SCENE_WEAK].predicted.doubt - doubt) < rounding && plan.class_[0].predicted.doubt == 0);
            assert_true(plan.confidence == 0.95 && fabs(plan.upper_us - upper) <= rounding * upper);
            assert_true(plan.upper_us <= plan.longest_us * (1 + rounding));
            assert_true(fabs(plan.longest_us - best / (1 - one.options.tolerance)) <= rounding * best);
            /* What it states is what it expects, not its bound. */
            const double expected = slowed_us(&one, &plan, 0);
            assert_true(fabs(plan.class_[0].predicted.iteration_us - expected) <= rounding * expected && expected <= upper);
            one.options.confidence = 0.5;
            qs_plan believed = scene_plan(&one, planners[p]);
            assert_true(believed.confidence == 0 && believed.class_[SCENE_WEAK].predicted.doubt == 0);
            later += slowed_us(&one, &believed, doubt) > plan.longest_us * (1 + rounding);
            qs_plan_release(&believed);
            qs_plan_release(&plan);
        }
        scene_end(&one);
    }
    print_message("%d of the plans that believe their predictions miss T_min by the bound\n", later);
    assert_true(later > 0);
}

/* Checks speak of whole iterations; the greater of the two errors counts. */
TEST(checks_are_known_errors) {
    const double error[] = {0.06, -0.02, 0.04};
    qs_profile_check check[4] = {{.predicted_us = 0, .measured_us = 5}}; /* never predicted: says nothing */
    qs_class_profile class_ = {.quality = {.known = true, .closure_mean = closure}};
    qs_profile profile = {.checks = 1, .check = check};
    assert_true(qs_cost_doubt(&profile, &class_, 0.5) == 0);
    assert_true(fabs(qs_cost_doubt(&profile, &class_, 0.95) - z95 * over_mean * closure) < rounding);
    for (int i = 0; i < 3; i++)
        check[++profile.checks - 1] = (qs_profile_check){.predicted_us = 100, .measured_us = 100 * (1 + error[i])};
    const double deviation = sqrt((0.06 * 0.06 + 0.02 * 0.02 + 0.04 * 0.04) / 3);
    assert_true(fabs(qs_cost_doubt(&profile, &class_, 0.95) - z95 * deviation) < rounding);
    class_.quality.closure_mean = 0.2;
    assert_true(fabs(qs_cost_doubt(&profile, &class_, 0.95) - z95 * over_mean * 0.2) < rounding);
    class_.quality.known = false;
    profile.checks = 0;
    assert_true(qs_cost_doubt(&profile, &class_, 0.99) == 0);
}

TEST(a_confidence_is_a_probability) {
    uint64_t number = 40;
    scene one;
    scene_next(&one, &number, LEAST, LARGEST, 0);
    qs_plan plan;
    for (int i = 0; i < 3; i++) {
        one.options.confidence = (const double[]){0.4, 1, NAN}[i];
        assert_refused(qs_plan_make("qsync", one.graph, &one.cluster, &one.profile, &one.job, &one.options, &plan), QS_USAGE, "confidence");
    }
    scene_end(&one);
}

TEST_MAIN(no_plan_is_late_by_its_bound, checks_are_known_errors, a_confidence_is_a_probability)
