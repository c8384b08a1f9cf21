// SPDX-License-Identifier: Apache-2.0
// covers: qsync_heap random hess dpro
/* What the allocator promises whatever it is asked: on random models, clusters and budgets the full predictor finds memory and T_min kept;
 * more memory never costs precision; sessions give the plans of qs_plan_make; training classes are lowered where that is wanted and
 * helps. */
#include "kit/random_graph.h"
#include "setting.h"

#define BATCH 16

/* Slow devices: the models are so small that nothing but overheads would count. */
static void device_vary(synthetic_device *device, uint64_t seed) {
    device->fp32 *= (0.3 + 0.7 * (double)qs_random_uniform(seed, 1)) / 100;
    device->half *= (0.5 + (double)qs_random_uniform(seed, 2)) / 100;
    device->int8 /= 100;
    device->bytes *= (0.5 + (double)qs_random_uniform(seed, 3)) / 100;
}

static void hessian_fill(qs_statistics *statistics) {
    for (int i = 0; i < statistics->operators; i++)
        statistics->operator_[i].hessian_top = 1 + (double)qs_random_uniform(9, (uint64_t)i);
}

static void setting_start(setting *one, qs_graph *graph, int classes, const synthetic_device *device) {
    *one = (setting){.graph = graph, .classes = classes, .job = stub_job(BATCH)};
    memcpy(one->device, device, (size_t)classes * sizeof *device);
    one->cluster = synthetic_cluster(classes, one->device);
    one->profile = synthetic_profile(graph, &one->cluster, one->device, &one->job);
    hessian_fill(&one->profile.statistics);
    qs_plan_options_default(&one->options);
}

/* Odd numbers: two lowered classes, one of two ranks. */
static void random_start(setting *one, uint64_t number) {
    synthetic_device device[SETTING_MOST] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK, SYNTHETIC_WEAK};
    device[2].name = "weaker";
    device[2].count = 2;
    device_vary(&device[1], number);
    device_vary(&device[2], number + 1000);
    device[0].fp32 /= 100;
    device[0].bytes /= 100;
    setting_start(one, random_graph(number), number % 2 ? 3 : 2, device);
}

static qs_prediction judged(const setting *one, const qs_plan *plan) {
    qs_prediction prediction;
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
    assert_true(plan->class_[0].predicted.iteration_us == prediction.iteration_us);
    return prediction;
}

static double omega_of(const setting *one, const qs_plan *plan) {
    double sum = 0;
    for (int c = 0; c < one->classes; c++)
        sum += one->cluster.class_[c].count * plan->class_[c].predicted.sum_omega;
    return sum;
}

/* The longest iteration that T_min allows: from the uniform plan, which the planner tests hold against its definition; several classes
 * choose one after the other, each within the tolerance. */
static double limit_of(const setting *one) {
    qs_plan uniform = setting_plan(one, "uniform");
    const double us = uniform.class_[0].predicted.iteration_us;
    qs_plan_release(&uniform);
    return us / (1 - one->options.tolerance);
}

/* Bytes of one recipe everywhere, the highest (0) or the lowest, on a class. */
static int64_t bytes_of(setting *one, int c, bool lowest) {
    qs_recipe recipe[8];
    const qs_recipe **bound[SETTING_MOST] = {0}, *const * list[SETTING_MOST];
    qs_prediction prediction;
    int recipes = 0;
    assert_ok(qs_class_recipes(&one->cluster.class_[c], 8, recipe, &recipes));
    for (int i = 0; i < one->classes; i++)
        list[i] = bound[i] = recipes_uniform(one->graph, &recipe[i == c && lowest ? recipes - 1 : 0]);
    assert_ok(qs_predict(one->graph, &one->cluster, &one->profile, &one->job, list, NULL, &prediction));
    const int64_t bytes = (int64_t)prediction.class_[c].arena_bytes;
    qs_prediction_release(&prediction);
    for (int i = 0; i < one->classes; i++)
        free(bound[i]);
    return bytes;
}

static void budget_set(setting *one, double share) {
    for (int c = 1; c < one->classes; c++) {
        one->cluster.class_[c].memory_limit = 0;
        const int64_t high = bytes_of(one, c, false), low = bytes_of(one, c, true);
        one->cluster.class_[c].memory_limit = low + (int64_t)(share * (double)(high - low)) + 1;
    }
}

/* ---- Memory and T_min ---- */

static const char *const allocators[] = {"qsync", "qsync-heap", "random", "hess"};

static void planners_check(const setting *one) {
    const double limit = limit_of(one);
    double omega[4];
    qs_plan uniform = setting_plan(one, "uniform");
    for (int p = 0; p < 4; p++) {
        qs_plan plan = setting_plan(one, allocators[p]);
        qs_prediction prediction = judged(one, &plan);
        assert_true(prediction.fits);
        assert_true(prediction.iteration_us <= limit * (1 + 1e-12));
        assert_string_equal(plan.planner, allocators[p]);
        omega[p] = omega_of(one, &plan);
        qs_prediction_release(&prediction);
        qs_plan_release(&plan);
    }
    assert_true(omega[0] <= omega_of(one, &uniform) * (1 + 1e-12));
    assert_true(omega[0] <= omega[1] * (1 + 1e-12));
    qs_plan_release(&uniform);
}

TEST(memory_and_throughput_are_kept) {
    for (uint64_t number = 100; number < 112; number++) {
        setting one;
        random_start(&one, number);
        planners_check(&one);
        budget_set(&one, (double)qs_random_uniform(number, 7));
        planners_check(&one);
        setting_end(&one);
    }
}

/* Costs that depend on the place in the arena, on host slowdown and noise: quick answers are off, plans are not. */
TEST(so_they_are_where_quick_answers_are_off) {
    for (uint64_t number = 200; number < 206; number++) {
        setting one;
        random_start(&one, number);
        for (int c = 0; c < one.classes; c++) {
            qs_class_profile *profile = &one.profile.class_[c];
            profile->cache_bytes = 32 << 10;
            profile->jitter = 0.03;
            for (int k = 0; k < profile->kernels; k++) {
                profile->kernel[k].us_per_cold_byte = 2e-3;
                profile->kernel[k].us_alone = 0.8 * profile->kernel[k].us;
            }
        }
        planners_check(&one);
        budget_set(&one, 0.4);
        planners_check(&one);
        setting_end(&one);
    }
}

/* ---- Budgets ---- */

/* T_min follows from what fits, so it is held: budgets are compared only where it is the same. */
TEST(more_memory_is_never_noisier) {
    int compared = 0;
    for (uint64_t number = 300; number < 312; number++) {
        setting one;
        random_start(&one, number);
        double before = INFINITY, limit_before = 0;
        for (int share = 0; share <= 4; share++) {
            budget_set(&one, 0.25 * share);
            qs_plan plan = setting_plan(&one, "qsync");
            const double omega = omega_of(&one, &plan), limit = limit_of(&one);
            if (limit == limit_before) assert_true(omega <= before * (1 + 1e-12));
            compared += limit == limit_before;
            before = omega;
            limit_before = limit;
            qs_plan_release(&plan);
        }
        setting_end(&one);
    }
    assert_true(compared > 12);
}

/* Whatever a session has planned before, its plans are those of qs_plan_make. */
TEST(sessions_give_the_same_plans) {
    setting one;
    qs_plan_session *session = NULL;
    random_start(&one, 401);
    const int formats = one.cluster.class_[2].formats;
    assert_ok(qs_plan_session_create(one.graph, &one.profile, &one.job, &session));
    for (int i = 0; i < 12; i++) {
        static const char *const planners[] = {"qsync", "dpro", "random", "qsync", "uniform", "qsync-heap"};
        qs_plan kept, fresh = {0};
        budget_set(&one, 0.1 + 0.07 * i);
        one.cluster.class_[2].count = 1 + i % 3;
        one.cluster.class_[2].formats = formats - i / 3 % 2; /* other recipes */
        assert_ok(qs_plan_session_make(session, &one.cluster, planners[i % 6], &one.options, &kept));
        fresh = setting_plan(&one, planners[i % 6]);
        plans_equal_check(&kept, &fresh);
        qs_plan_release(&kept);
        qs_plan_release(&fresh);
    }
    qs_plan_session_release(session);
    setting_end(&one);
}

/* ---- Classes ---- */

/* Two classes alike in all but name. */
TEST(equal_classes_get_equal_plans) {
    synthetic_device device[SETTING_MOST] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK, SYNTHETIC_WEAK};
    qs_graph *graph = NULL;
    setting one;
    device[2].name = "twin";
    device[2].count = 3;
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    setting_start(&one, graph, 3, device);
    budget_set(&one, 0.3);
    qs_plan plan = setting_plan(&one, "qsync");
    const qs_class_plan *a = &plan.class_[1], *b = &plan.class_[2];
    assert_int_equal(a->operators, b->operators);
    for (int i = 0; i < a->operators; i++)
        assert_string_equal(a->operator_[i].recipe, b->operator_[i].recipe);
    assert_string_equal(a->schedule, b->schedule);
    qs_plan_release(&plan);
    setting_end(&one);
}

static int lowered_count(const qs_class_plan *plan) {
    int count = 0;
    for (int i = 0; i < plan->operators; i++)
        count += strcmp(plan->operator_[i].recipe, "fp32") != 0;
    return count;
}

/* The training class holds up the others: it stays in fp32 unless it may be lowered, and then no more than the pace needs. */
TEST(a_straggling_training_class_is_lowered_when_asked) {
    synthetic_device device[] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
    qs_graph *graph = NULL;
    setting one;
    device[0].formats[1] = "bf16";
    device[0].fp32 /= 2;
    device[0].bytes /= 2;
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    setting_start(&one, graph, 2, device);
    qs_plan plain = setting_plan(&one, "qsync");
    one.options.lower_training = true;
    qs_plan uniform = setting_plan(&one, "uniform"), both = setting_plan(&one, "qsync");
    qs_prediction prediction = judged(&one, &both);
    assert_int_equal(lowered_count(&plain.class_[0]), 0);
    assert_true(lowered_count(&both.class_[0]) > 0);
    assert_true(prediction.iteration_us < plain.class_[0].predicted.iteration_us * 0.95);
    assert_true(prediction.iteration_us <= uniform.class_[0].predicted.iteration_us / (1 - one.options.tolerance));
    assert_true(omega_of(&one, &both) < omega_of(&one, &uniform));
    qs_prediction_release(&prediction);
    qs_plan_release(&plain);
    qs_plan_release(&uniform);
    qs_plan_release(&both);
    setting_end(&one);
}

/* A training class that waits anyway is not lowered, though it may be. */
TEST(a_waiting_training_class_stays) {
    synthetic_device device[] = {SYNTHETIC_STRONG, SYNTHETIC_WEAK};
    qs_graph *graph = NULL;
    setting one;
    device[0].formats[1] = "bf16";
    device[0].fp32 *= 20;
    device[0].bytes *= 20;
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    setting_start(&one, graph, 2, device);
    one.options.lower_training = true;
    qs_plan plan = setting_plan(&one, "qsync");
    assert_int_equal(lowered_count(&plan.class_[0]), 0);
    qs_plan_release(&plan);
    setting_end(&one);
}

/* ---- Baselines ---- */

/* Conversions that cost a lot: whoever does not know that makes mixes which miss T_min, and is told so. */
TEST(dpro_does_not_know_conversions) {
    int missed = 0;
    for (uint64_t number = 500; number < 508; number++) {
        setting one;
        random_start(&one, number);
        for (int c = 0; c < one.classes; c++)
            for (int i = 0; i < one.profile.class_[c].conversions; i++)
                one.profile.class_[c].conversion[i].piece[0].us += 20;
        const double limit = limit_of(&one);
        qs_plan plan = setting_plan(&one, "dpro");
        qs_prediction prediction = judged(&one, &plan);
        assert_true(prediction.fits);
        missed += prediction.iteration_us > limit;
        qs_prediction_release(&prediction);
        qs_plan_release(&plan);
        setting_end(&one);
    }
    assert_true(missed > 0);
}

/* They decide by their own indicator; the Ω that a plan states are the options'. */
TEST(baselines_state_comparable_noise) {
    int worse = 0;
    for (uint64_t number = 600; number < 606; number++) {
        setting one;
        random_start(&one, number);
        budget_set(&one, 0.5);
        qs_plan qsync = setting_plan(&one, "qsync"), random = setting_plan(&one, "random"), hess = setting_plan(&one, "hess");
        for (int i = 0; i < random.class_[1].reasons; i++) {
            const qs_operator_reason *why = &random.class_[1].reason[i], *other = &qsync.class_[1].reason[i];
            if (strcmp(random.class_[1].operator_[i].recipe, qsync.class_[1].operator_[i].recipe) == 0)
                assert_true(why->omega == other->omega);
        }
        worse += omega_of(&one, &random) > omega_of(&one, &qsync);
        worse += omega_of(&one, &hess) > omega_of(&one, &qsync);
        qs_plan_release(&qsync);
        qs_plan_release(&random);
        qs_plan_release(&hess);
        setting_end(&one);
    }
    assert_true(worse > 0);
}

TEST_MAIN(memory_and_throughput_are_kept, so_they_are_where_quick_answers_are_off, more_memory_is_never_noisier,
          sessions_give_the_same_plans, equal_classes_get_equal_plans, a_straggling_training_class_is_lowered_when_asked,
          a_waiting_training_class_stays, dpro_does_not_know_conversions, baselines_state_comparable_noise)
