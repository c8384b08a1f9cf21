// SPDX-License-Identifier: Apache-2.0
/* Synthetic clusters whose profile knows local batches from half to one and a half of the job's. Include after cmocka.h. */
#ifndef QSYNC_PLANNER_SHARES_SUPPORT_H
#define QSYNC_PLANNER_SHARES_SUPPORT_H

#include "setting.h"

#define SHARES_BATCH 16
enum { SHARES_BATCHES = 9 };
static const int64_t shares_batch[SHARES_BATCHES] = {8, 10, 12, 14, 16, 18, 20, 22, 24};

static inline synthetic_device shares_strong(int count) {
    synthetic_device one = SYNTHETIC_STRONG;
    one.count = count;
    return one;
}

/* fp32 only, memory as quick as the strong one's. */
static inline synthetic_device shares_named(const char *name, int count, double fp32) {
    synthetic_device one = shares_strong(count);
    one.name = name;
    one.fp32 = fp32;
    return one;
}

/* Twice as quick in half, four times in int8. */
static inline synthetic_device shares_weak(int count, double fp32) {
    synthetic_device one = SYNTHETIC_WEAK;
    one.count = count;
    one.fp32 = fp32;
    one.half = 2 * fp32;
    one.int8 = 4 * fp32;
    return one;
}

static inline setting shares_scene_make(const char *model, int classes, const synthetic_device *device) {
    setting one = {.classes = classes, .job = stub_job(SHARES_BATCH)};
    memcpy(one.device, device, (size_t)classes * sizeof *device);
    assert_ok(qs_model_build(model, NULL, &one.graph));
    snprintf(one.job.model, sizeof one.job.model, "%s", model);
    one.cluster = synthetic_cluster(classes, one.device);
    one.profile = synthetic_profile(one.graph, &one.cluster, one.device, &one.job);
    synthetic_batches_add(one.graph, &one.cluster, one.device, &one.job, SHARES_BATCHES, shares_batch, &one.profile);
    qs_plan_options_default(&one.options);
    return one;
}

/* The plan sums up, fits, and predicts itself again. */
static inline void shares_plan_check(const setting *one, const qs_plan *plan) {
    int64_t sum = 0, batch[3];
    qs_prediction prediction;
    for (int c = 0; c < plan->classes; c++)
        sum += (plan->class_[c].idle ? 0 : plan->class_[c].batch) * one->cluster.class_[c].count;
    assert_int_equal(sum, SHARES_BATCH * qs_cluster_ranks(&one->cluster));
    assert_ok(qs_plan_batches(plan, &one->cluster, SHARES_BATCH, batch));
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
    assert_true(prediction.fits);
    assert_true(fabs(prediction.iteration_us - plan->class_[0].predicted.iteration_us) <= 1e-9 * prediction.iteration_us);
    assert_true(fabs(prediction.samples_per_second * prediction.iteration_us * 1e-6 - (double)sum) <= 1e-9 * (double)sum);
    for (int c = 0; c < plan->classes; c++) {
        assert_int_equal(prediction.class_[c].arena_bytes, plan->class_[c].predicted.arena_bytes);
        assert_string_equal(prediction.class_[c].schedule, plan->class_[c].schedule);
    }
    qs_prediction_release(&prediction);
}

/* The shortest iteration of two classes with these recipes, over all shares. */
static inline double shares_best_us(const setting *one, const qs_recipe *const *const *bound) {
    qs_predictor *predictor = NULL;
    double best = INFINITY;
    assert_ok(qs_predictor_create(one->graph, &one->cluster, &one->profile, &one->job, NULL, &predictor));
    for (int i = 0; i < SHARES_BATCHES; i++) {
        const int64_t count[] = {one->cluster.class_[0].count, one->cluster.class_[1].count};
        const int64_t rest = SHARES_BATCH * (count[0] + count[1]) - count[0] * shares_batch[i];
        const int64_t batch[] = {shares_batch[i], rest / count[1]};
        qs_prediction prediction;
        if (rest % count[1] != 0 || !qs_profile_batch_find(&one->profile, batch[1])) continue;
        assert_ok(qs_predictor_batches(predictor, batch));
        assert_ok(qs_predictor_ask(predictor, bound, NULL, &prediction));
        if (prediction.fits) best = fmin(best, prediction.iteration_us);
        qs_prediction_release(&prediction);
    }
    qs_predictor_release(predictor);
    return best;
}

static inline double shares_best_fp32_us(const setting *one) {
    const qs_recipe **none = calloc((size_t)one->graph->nodes, sizeof *none);
    assert_non_null(none);
    const double best = shares_best_us(one, (const qs_recipe *const *const[]){none, none});
    free(none);
    return best;
}

#endif
