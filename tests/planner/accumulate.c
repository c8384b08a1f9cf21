// SPDX-License-Identifier: Apache-2.0
/* Plans for devices that add narrowly, and plans that choose accumulators by a rule: what stands in them, what it costs, and what omega
 * makes of it. */
#include "setting.h"

/* Both classes are measured with an accumulator, so that the times of all widths of it are known. */
static setting narrow_setting(const char *accumulator) {
    setting one = {.device = {SYNTHETIC_STRONG, SYNTHETIC_WEAK}, .job = stub_job(16)};
    assert_ok(qs_model_build("resnet8", NULL, &one.graph));
    snprintf(one.job.model, sizeof one.job.model, "resnet8");
    one.cluster = synthetic_cluster(2, one.device);
    for (int c = 0; c < 2; c++)
        assert_ok(qs_narrow_find(accumulator, &one.cluster.class_[c].accumulator));
    one.profile = synthetic_profile(one.graph, &one.cluster, one.device, &one.job);
    qs_plan_options_default(&one.options);
    return one;
}

static qs_recipe recipe_at(const qs_plan *plan, const char *class_name, const char *operator_name) {
    const qs_class_plan *one = qs_plan_class(plan, class_name);
    qs_recipe recipe = {0};
    for (int i = 0; i < one->operators; i++)
        if (strcmp(one->operator_[i].name, operator_name) == 0) assert_ok(qs_choice_recipe(plan, &one->operator_[i], &recipe));
    return recipe;
}

static void predicts_itself(const setting *one, const qs_plan *plan) {
    qs_prediction prediction;
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
    assert_true(plan->class_[0].predicted.iteration_us == prediction.iteration_us);
    qs_prediction_release(&prediction);
}

static void text_is(const qs_narrow *narrow, const char *expected) {
    char text[QS_NARROW_TEXT];
    assert_string_equal(qs_narrow_text(narrow, text), expected);
}

TEST(a_class_that_adds_narrowly) {
    setting one = narrow_setting("fp(6,9)/chunk64/align-truncate");
    static const char *const planners[] = {"fp32", "uniform", "qsync"};
    for (size_t p = 0; p < COUNT_OF(planners); p++) {
        qs_plan plan = setting_plan(&one, planners[p]);
        const qs_recipe recipe = recipe_at(&plan, "strong", "stage2.block0.conv1");
        text_is(&recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT], "fp(6,9)/chunk64/align-truncate");
        assert_null(qs_plan_recipe(&plan, "fp32")->accumulator[QS_GEMM_FORWARD].adder); /* the classes share it */
        predicts_itself(&one, &plan);
        qs_plan_release(&plan);
    }
    setting_end(&one);
}

static double omega_by(setting *one, const qs_accumulation_rule *rule) {
    one->options.accumulate = rule;
    qs_plan plan = setting_plan(one, "fp32");
    const double sum = plan.class_[1].predicted.sum_omega;
    predicts_itself(one, &plan);
    qs_plan_release(&plan);
    return sum;
}

/* Each bit less is more noise, and none is what wide accumulators have. */
TEST(narrower_is_noisier) {
    setting one = narrow_setting("fp(8,9)/align-truncate");
    double before = 0;
    for (int bits = 22; bits >= 4; bits -= 6) {
        qs_accumulation_rule rule;
        char text[QS_NARROW_TEXT];
        snprintf(text, sizeof text, "fp(8,%d)/align-truncate", bits);
        assert_ok(qs_accumulation_rule_find(text, &rule));
        const double omega = omega_by(&one, &rule);
        assert_true(omega > before);
        before = omega;
    }
    setting_end(&one);
}

/* Widths by length differ from operator to operator, and only products of few bits get narrow ones: those of fp32 add in fp32, whose
 * kernels this profile lacks. */
TEST(by_length) {
    setting one = narrow_setting("fp(8,9)/chunk64/product(5)/align-truncate");
    qs_accumulation_rule rule;
    assert_ok(qs_accumulation_rule_find("fp(8,auto)/chunk64/product(5)/align-truncate", &rule));
    one.options.accumulate = &rule;
    qs_plan plan = setting_plan(&one, "qsync");
    for (int n = one.graph->samples.inputs; n < one.graph->nodes; n++) {
        qs_recipe expected;
        if (one.graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        const qs_recipe recipe = recipe_at(&plan, "weak", one.graph->node[n].name);
        expected = recipe;
        memset(expected.accumulator, 0, sizeof expected.accumulator);
        assert_ok(qs_accumulators_choose(&rule, one.graph, n, 16, &one.profile.statistics, &expected));
        for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
            if (qs_gemm_length(one.graph, n, gemm, 16) == 0) continue;
            assert_true(qs_narrow_equal(&recipe.accumulator[gemm], &expected.accumulator[gemm]));
        }
    }
    predicts_itself(&one, &plan);
    qs_plan_release(&plan);
    setting_end(&one);
}

/* Planning again in one session under another rule is planning anew. */
TEST(a_session_tells_rules_apart) {
    setting one = narrow_setting("fp(8,9)/align-truncate");
    qs_plan_session *session = NULL;
    qs_accumulation_rule rule[2];
    assert_ok(qs_accumulation_rule_find("fp(8,6)/align-truncate", &rule[0]));
    assert_ok(qs_accumulation_rule_find("fp(8,10)/align-truncate", &rule[1]));
    assert_ok(qs_plan_session_create(one.graph, &one.profile, &one.job, &session));
    for (int turn = 0; turn < 3; turn++) {
        qs_plan kept, fresh;
        one.options.accumulate = &rule[turn % 2];
        assert_ok(qs_plan_session_make(session, &one.cluster, "qsync", &one.options, &kept));
        fresh = setting_plan(&one, "qsync");
        plans_equal_check(&kept, &fresh);
        qs_plan_release(&kept);
        qs_plan_release(&fresh);
    }
    qs_plan_session_release(session);
    setting_end(&one);
}

TEST_MAIN(a_class_that_adds_narrowly, narrower_is_noisier, by_length, a_session_tells_rules_apart)
