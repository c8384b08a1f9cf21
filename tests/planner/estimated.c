// SPDX-License-Identifier: Apache-2.0
/* Planning without the hardware: the clusters of the paper as they are shipped, resnet50 for 224x224 images on 32 GPUs. */
#include "setting.h"

#define BATCH 128

static setting setting_around(const char *example, int64_t least, int64_t most) {
    char path[4096];
    setting one = {.job = stub_job(BATCH)};
    snprintf(one.job.algorithm, sizeof one.job.algorithm, "ring");
    assert_ok(qs_model_build("resnet50", NULL, &one.graph));
    snprintf(path, sizeof path, "%s/examples/%s", getenv("QS_SOURCE"), example);
    assert_ok(qs_cluster_read(path, &one.cluster));
    assert_ok(qs_profile_estimate(one.graph, &one.cluster, &one.job, least, most, &one.profile));
    synthetic_statistics(one.graph, BATCH / 2, qs_cluster_ranks(&one.cluster), 7, &one.profile.statistics);
    qs_plan_options_default(&one.options);
    return one;
}

static setting setting_make(const char *example) {
    return setting_around(example, BATCH, BATCH);
}

static int count_of(const qs_class_plan *plan, const char *recipe) {
    int count = 0;
    for (int i = 0; i < plan->operators; i++)
        count += strcmp(plan->operator_[i].recipe, recipe) == 0;
    return count;
}

/* What it computes alone under one recipe, in µs. */
static double compute_us(const setting *one, int c, const char *name) {
    const qs_recipe recipe = recipe_of(name);
    const qs_recipe **list = recipes_uniform(one->graph, &recipe), **none = calloc((size_t)one->graph->nodes, sizeof *none);
    const qs_recipe *const *const bound[] = {c == 0 ? list : none, c == 1 ? list : none};
    qs_prediction prediction;
    assert_ok(qs_predict(one->graph, &one->cluster, &one->profile, &one->job, bound, NULL, &prediction));
    const double us = prediction.class_[c].compute_us;
    qs_prediction_release(&prediction);
    free(list);
    free(none);
    return us;
}

TEST(order) {
    setting one = setting_make("cluster-a.json");
    assert_int_equal(qs_cluster_ranks(&one.cluster), 32);
    const double v100 = compute_us(&one, 0, "fp32"), t4 = compute_us(&one, 1, "fp32"), half = compute_us(&one, 1, "fp16");
    assert_true(t4 > v100 * 15.7 / 8.1 * 0.9 && t4 < v100 * 900 / 320 * 1.1);
    assert_true(half < t4 && half < v100 && compute_us(&one, 0, "fp16") < half);
    setting_end(&one);
}

/* Part of a T4: estimated, quantizing eats what products in eight bits gain when they are forward's alone. A class that names the recipe
 * with gradients in eight bits gets plans of it. */
TEST(named_recipes) {
    static const char *const names[] = {"int8:tensor", "fp32", "fp16", "int8/fp16"};
    setting one = setting_make("cluster-a.json");
    double samples_per_second[2];
    for (int named = 0; named < 2; named++) {
        qs_class *t4 = &one.cluster.class_[1];
        t4->speed = 0.3;
        for (size_t i = 0; named && i < COUNT_OF(names); i++)
            snprintf(t4->recipe[t4->recipes++], sizeof *t4->recipe, "%s", names[i]);
        qs_profile_release(&one.profile);
        assert_ok(qs_profile_estimate(one.graph, &one.cluster, &one.job, BATCH, BATCH, &one.profile));
        synthetic_statistics(one.graph, BATCH / 2, qs_cluster_ranks(&one.cluster), 7, &one.profile.statistics);
        qs_plan uniform = setting_plan(&one, "uniform"), plan = setting_plan(&one, "qsync");
        assert_int_equal(count_of(qs_plan_class(&uniform, "t4"), "int8:tensor"), named ? 54 : 0);
        assert_int_equal(count_of(qs_plan_class(&plan, "t4"), "int8:tensor") > 0, named);
        assert_true(plan.samples_per_second >= uniform.samples_per_second * (1 - 0.0051));
        samples_per_second[named] = uniform.samples_per_second;
        qs_plan_release(&plan);
        qs_plan_release(&uniform);
    }
    assert_true(samples_per_second[1] > samples_per_second[0]);
    setting_end(&one);
}

/* Whole T4s: half precision keeps the pace of the V100s, and their waiting for the T4s is what pays for operators in fp32. */
TEST(cluster_a) {
    setting one = setting_make("cluster-a.json");
    qs_plan uniform = setting_plan(&one, "uniform"), plan = setting_plan(&one, "qsync");
    const qs_class_plan *t4 = qs_plan_class(&plan, "t4"), *flat = qs_plan_class(&uniform, "t4");
    assert_int_equal(count_of(qs_plan_class(&plan, "v100"), "fp32"), 54);
    assert_int_equal(count_of(flat, "fp16"), 54);
    assert_true(count_of(t4, "fp32") > 0 && count_of(t4, "int8/fp16") == 0);
    assert_true(t4->predicted.sum_omega < flat->predicted.sum_omega);
    assert_true(t4->predicted.waiting_us < flat->predicted.waiting_us);
    assert_true(plan.samples_per_second >= uniform.samples_per_second * (1 - 0.0051));
    qs_plan_release(&plan);
    qs_plan_release(&uniform);
    setting_end(&one);
}

/* 30 % of a T4: neither fp32 nor fp16 everywhere fits, so some operators are integers, and no more than memory asks for. */
TEST(cluster_b) {
    setting one = setting_make("cluster-b.json");
    qs_plan uniform = setting_plan(&one, "uniform"), plan = setting_plan(&one, "qsync");
    const qs_class_plan *t4 = qs_plan_class(&plan, "t4");
    const int64_t limit = one.cluster.class_[1].memory_limit;
    assert_int_equal(limit, (INT64_C(16) << 30) * 3 / 10);
    assert_int_equal(count_of(qs_plan_class(&uniform, "t4"), "int8/fp16"), 54);
    assert_in_range(count_of(t4, "int8/fp16"), 1, 53);
    assert_true(t4->predicted.arena_bytes <= limit && t4->predicted.arena_bytes > limit * 9 / 10);
    qs_plan_release(&plan);
    qs_plan_release(&uniform);
    setting_end(&one);
}

/* The T4s help: the V100s alone reach half. By published figures V100s in fp32 are half as fast as T4s in int8, and there are as many of
 * them, so they are at the border of helping: what is said of them must agree with their figure. */
TEST(helpful) {
    setting one = setting_make("cluster-a.json");
    const qs_plan_question ask = {"uniform", one.graph, &one.cluster, &one.profile, &one.job, &one.options};
    qs_plan plan = setting_plan(&one, "uniform");
    assert_ok(qs_plan_weigh_classes(&ask, &plan));
    const double all = plan.samples_per_second, strong = plan.without[1].samples_per_second, weak = plan.without[0].samples_per_second;
    assert_true(strong > 0 && strong < 0.6 * all);
    assert_true(weak > 0.6 * all);
    assert_int_equal(qs_plan_unhelpful(&plan), weak > all ? 0 : -1);
    qs_plan_release(&plan);
    setting_end(&one);
}

/* Unequal batches: the V100s take more of the global batch than the T4s, nearly in the proportion of their paces. */
TEST(shares) {
    setting one = setting_around("cluster-a.json", BATCH / 4, 2 * BATCH);
    const double ratio = compute_us(&one, 1, "fp32") / compute_us(&one, 0, "fp32");
    qs_plan plan = setting_plan(&one, "dbs"), equal = setting_plan(&one, "fp32");
    const int64_t fast = qs_plan_class(&plan, "v100")->batch, slow = qs_plan_class(&plan, "t4")->batch;
    assert_int_equal(fast + slow, 2 * BATCH);
    assert_true(fabs((double)slow - 2 * BATCH / (1 + ratio)) <= BATCH / 16);
    assert_true(plan.samples_per_second > equal.samples_per_second * 1.3);
    qs_plan_release(&plan);
    qs_plan_release(&equal);
    setting_end(&one);
}

TEST_MAIN(order, cluster_a, named_recipes, cluster_b, helpful, shares)
