// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Recomputation as a decision: where memory does not bind nothing changes; where only recomputation fits, it is chosen; where it competes
 * with low precision, the better plan wins by the planner's own order; what the plan says is what lowering it gives. */
#include "kit/kit.h"
#include "setting.h"

enum { BATCH = 32 };

static void setting_make(setting *one, const char *model, int classes, const synthetic_device *device) {
    *one = (setting){.classes = classes, .job = stub_job(BATCH)};
    memcpy(one->device, device, (size_t)classes * sizeof *device);
    assert_ok(qs_model_build(model, NULL, &one->graph));
    one->cluster = synthetic_cluster(classes, one->device);
    one->profile = synthetic_profile(one->graph, &one->cluster, one->device, &one->job);
    qs_plan_options_default(&one->options);
}

static double omega_of(const setting *one, const qs_plan *plan) {
    double sum = 0;
    for (int c = 0; c < plan->classes; c++)
        sum += one->cluster.class_[c].count * plan->class_[c].predicted.sum_omega;
    return sum;
}

/* What the plan's own prediction says is what predicting it anew says, and what lowering gives. */
static void plan_check(const setting *one, const qs_plan *plan) {
    qs_prediction prediction;
    plan_round_trip_check(plan);
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *own = &plan->class_[c];
        assert_string_equal(prediction.class_[c].schedule, own->schedule);
        assert_int_equal((int64_t)prediction.class_[c].arena_bytes, own->predicted.arena_bytes);
        assert_true(prediction.class_[c].fits);
        assert_true((own->recomputes > 0) == (own->predicted.recompute_us > 0) && (own->recomputes > 0) == (own->predicted.kept_bytes > 0));
        assert_true(prediction.class_[c].recompute_us == own->predicted.recompute_us);
    }
    qs_prediction_release(&prediction);
}

static int64_t arena_of(const setting *one, const char *planner, const char *blocks, int c) {
    setting free_of_limits = *one;
    qs_class class_[SETTING_MOST];
    memcpy(class_, one->cluster.class_, (size_t)one->cluster.classes * sizeof *class_);
    free_of_limits.cluster.class_ = class_;
    for (int i = 0; i < one->cluster.classes; i++)
        class_[i].memory_limit = 0;
    free_of_limits.options.recompute = blocks;
    qs_plan plan = setting_plan(&free_of_limits, planner);
    const int64_t bytes = plan.class_[c].predicted.arena_bytes;
    qs_plan_release(&plan);
    return bytes;
}

/* Without limits the plan is the one of before but for the word why. */
TEST(ample_memory_changes_nothing) {
    setting one;
    setting_make(&one, "resnet20", 2, (const synthetic_device[]){SYNTHETIC_STRONG, SYNTHETIC_WEAK});
    qs_plan kept = setting_plan(&one, "qsync");
    one.options.recompute = "auto";
    qs_plan chosen = setting_plan(&one, "qsync");
    for (int c = 0; c < 2; c++) {
        assert_string_equal(chosen.class_[c].recompute_why, "fits");
        chosen.class_[c].recompute_why[0] = 0;
    }
    plans_equal_check(&kept, &chosen);
    qs_plan_release(&kept);
    qs_plan_release(&chosen);
    setting_end(&one);
}

/* A device of one format: nothing else helps. As few blocks as the limit needs. */
TEST(only_way_to_fit) {
    setting one;
    setting_make(&one, "resnet20", 1, (const synthetic_device[]){SYNTHETIC_STRONG});
    const int64_t kept = arena_of(&one, "fp32", "no", 0), least = arena_of(&one, "fp32", "all", 0);
    assert_true(least < kept / 4 * 3);
    int before = 0;
    for (int i = 1; i <= 4; i++) {
        one.cluster.class_[0].memory_limit = kept - i * (kept - least) / 4 - (i == 4 ? 0 : 1);
        one.options.recompute = "no";
        setting_refused(&one, "fp32", QS_INFEASIBLE, "--recompute auto");
        one.options.recompute = "auto";
        qs_plan plan = setting_plan(&one, "fp32");
        plan_check(&one, &plan);
        assert_string_equal(plan.class_->recompute_why, "memory");
        assert_true(plan.class_->recomputes >= before && plan.class_->recomputes > 0);
        assert_int_equal(plan.class_->predicted.kept_bytes, kept);
        before = plan.class_->recomputes;
        qs_plan_release(&plan);
    }
    one.cluster.class_[0].memory_limit = least / 2;
    setting_refused(&one, "fp32", QS_INFEASIBLE, "blocks computed again");
    setting_end(&one);
}

/* The weak device waits for the strong one, whose pace allows it to recompute: more precision than by low formats alone, at the same
 * pace. Where it sets the pace itself, low formats are faster and win. */
TEST(competes_with_precision) {
    for (int late = 0; late < 2; late++) {
        setting one;
        synthetic_device device[2] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
        for (int d = 0; d < 2; d++)
            device[d].fp32 /= d == late ? 8 : 1, device[d].half /= d == late ? 8 : 1, device[d].int8 /= d == late ? 8 : 1,
                device[d].bytes /= d == late ? 8 : 1;
        setting_make(&one, "resnet20", 2, device);
        const int64_t high = arena_of(&one, "fp32", "no", 1);
        one.cluster.class_[1].memory_limit = high / 2;
        qs_plan kept = setting_plan(&one, "qsync");
        one.options.recompute = "auto";
        qs_plan chosen = setting_plan(&one, "qsync");
        plan_check(&one, &chosen);
        assert_true(omega_of(&one, &kept) > 0);
        assert_true(omega_of(&one, &chosen) <= omega_of(&one, &kept));
        assert_true(chosen.samples_per_second >= kept.samples_per_second * (1 - 2 * one.options.tolerance));
        assert_string_equal(chosen.class_[0].recompute_why, "fits");
        if (!late) {
            assert_string_equal(chosen.class_[1].recompute_why, "memory");
            assert_true(omega_of(&one, &chosen) < 1e-3 * omega_of(&one, &kept) && chosen.class_[1].recomputes > 0);
        } else {
            assert_string_equal(chosen.class_[1].recompute_why, chosen.class_[1].recomputes > 0 ? "memory" : "pace");
        }
        qs_plan_release(&kept);
        qs_plan_release(&chosen);
        setting_end(&one);
    }
}

/* Asked for by name, under planners of every kind: also those that round tensors, and those that deal batches. */
TEST(asked_for) {
    static const char *const planners[] = {"fp32", "uniform", "qsync", "exact", "random", "demote"};
    setting one;
    setting_make(&one, "resnet8:width=0.5", 1, (const synthetic_device[]){SYNTHETIC_WEAK});
    synthetic_simulates(one.graph, &one.job, &one.cluster.class_[0], &one.device[0], 3,
                        (const char *const[]){"fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"}, &one.profile.class_[0]);
    for (size_t p = 0; p < COUNT_OF(planners); p++) {
        one.options.recompute = "stage1.block0.conv1,stem.conv";
        qs_plan plan = setting_plan(&one, planners[p]);
        plan_check(&one, &plan);
        assert_int_equal(plan.class_->recomputes, 2);
        assert_string_equal(plan.class_->recompute_why, "asked");
        qs_plan_release(&plan);
    }
    one.options.recompute = "stage1.block0.conv1,stem.bn";
    setting_refused(&one, "qsync", QS_USAGE, "stem.bn");
    setting_end(&one);
}

/* Planners that deal batches too, by name and by choice. Where devices are alike the fastest start of joint is a uniform plan, and its own
 * limit lies a tolerance above that plan's: each plan is held against what its planner allowed it. */
TEST(with_shares_of_the_batch) {
    static const char *const planners[] = {"dbs", "joint"}, *const blocks[] = {"stem.conv", "auto"};
    static const int64_t batch[] = {8, 16, 24, 32, 40, 48, 56};
    for (int alike = 0; alike < 2; alike++) {
        setting one;
        synthetic_device device[] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
        const synthetic_device strong = device[0];
        if (alike) device[0] = device[1], device[0].name = strong.name, device[0].inference = device[1].inference = false;
        setting_make(&one, "resnet8:width=0.5", 2, device);
        synthetic_batches_add(one.graph, &one.cluster, one.device, &one.job, COUNT_OF(batch), batch, &one.profile);
        one.cluster.class_[1].memory_limit = arena_of(&one, "fp32", "no", 1) * (alike ? 4 : 8) / 10;
        one.options.tolerance = 0.05;
        for (size_t p = 0; p < 2 * COUNT_OF(planners); p++) {
            one.options.recompute = blocks[p % 2];
            qs_plan plan = setting_plan(&one, planners[p / 2]);
            plan_check(&one, &plan);
            assert_string_equal(plan.class_[0].recompute_why, p % 2 ? "fits" : "asked");
            qs_plan_release(&plan);
        }
        setting_end(&one);
    }
}

/* A planner that assigns formats to tensors says no ΣΩ: the plan with the least share in low formats is kept. */
TEST(with_formats_of_tensors) {
    static const char *const formats[] = {"fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"};
    setting one;
    setting_make(&one, "resnet8:width=0.5", 1, (const synthetic_device[]){SYNTHETIC_WEAK});
    synthetic_simulates(one.graph, &one.job, &one.cluster.class_[0], &one.device[0], 3, formats, &one.profile.class_[0]);
    one.options.assignment.ratio = 0; /* as high as memory allows */
    one.options.tolerance = 0.3;      /* what is computed again may cost that */
    one.cluster.class_[0].memory_limit = arena_of(&one, "demote", "no", 0) * 9 / 10;
    qs_plan kept = setting_plan(&one, "demote");
    one.options.recompute = "auto";
    qs_plan chosen = setting_plan(&one, "demote");
    plan_check(&one, &chosen);
    assert_true(kept.class_->assignment.ratio_low > 0 && chosen.class_->recomputes > 0);
    assert_true(chosen.class_->assignment.ratio_low < kept.class_->assignment.ratio_low);
    qs_plan_release(&kept);
    qs_plan_release(&chosen);
    setting_end(&one);
}

/* The lower bound of a plan with recomputed blocks lies below it, and its plan is that of a session. */
TEST(sessions_and_bounds) {
    setting one;
    qs_plan_session *session = NULL;
    setting_make(&one, "resnet8:width=0.5", 2, (const synthetic_device[]){SYNTHETIC_STRONG, SYNTHETIC_WEAK});
    one.cluster.class_[1].memory_limit = arena_of(&one, "fp32", "no", 1) * 3 / 4;
    assert_ok(qs_plan_session_create(one.graph, &one.profile, &one.job, &session));
    static const char *const blocks[] = {"no", "all", "no", "auto", "stem.conv", "all"};
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        qs_plan again, plan;
        one.options.recompute = blocks[i];
        plan = setting_plan(&one, "qsync");
        assert_ok(qs_plan_session_make(session, &one.cluster, "qsync", &one.options, &again));
        plans_equal_check(&plan, &again);
        assert_true(plan.class_[1].predicted.lower_bound <= plan.class_[1].predicted.sum_omega);
        qs_plan_release(&again);
        qs_plan_release(&plan);
    }
    qs_plan_session_release(session);
    setting_end(&one);
}

TEST_MAIN(ample_memory_changes_nothing, only_way_to_fit, competes_with_precision, asked_for, with_shares_of_the_batch,
          with_formats_of_tensors, sessions_and_bounds)
