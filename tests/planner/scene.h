// SPDX-License-Identifier: Apache-2.0
/* Scenes for planners: a random model on a quick training class and a weak inference class, with made-up costs, as a draft whose every plan
 * can be asked for. Include after cmocka.h. */
#ifndef QSYNC_TESTS_PLANNER_SCENE_H
#define QSYNC_TESTS_PLANNER_SCENE_H

#include "../../src/planner/planner_internal.h"
#include "../random_graph.h"
#include "../synthetic.h"

enum { SCENE_BATCH = 16, SCENE_MOST = 32, SCENE_WEAK = 1 };

typedef struct scene {
    uint64_t number;
    qs_graph *graph;
    synthetic_device device[2];
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
    qs_draft_plan draft;
    qs_draft_class *weak; /* the draft's */
    int node[SCENE_MOST], nodes;
    double limit_us; /* T_min's */
} scene;

static inline double scene_dice(uint64_t number, uint64_t draw) {
    return (double)qs_random_uniform(number * 2 + 1, draw);
}

static inline int scene_adjustable(const qs_graph *graph) {
    int count = 0;
    for (int n = 1; n < graph->nodes; n++)
        count += graph->node[n].op->kind == QS_ADJUSTABLE;
    return count;
}

/* Operators that matter alike: what remains is a knapsack, the hard case. */
static inline void scene_level(qs_statistics *statistics) {
    for (int i = 0; i < statistics->operators; i++) {
        qs_tensor_statistics *tensor[2] = {&statistics->operator_[i].src, &statistics->operator_[i].diff_dst};
        const double variance[2] = {1, 1e-8};
        for (int t = 0; t < 2; t++)
            for (int k = 0; k < statistics->iterations; k++) {
                tensor[t]->norm2[k] = variance[t] * 1e4;
                tensor[t]->absmax[k] = 4.5 * sqrt(variance[t]);
            }
    }
}

/* What makes the full prediction differ from sums: caches that are found warm or cold, steps that are quicker while others wait, noise. */
static inline void scene_trouble(scene *one) {
    for (int c = 0; c < one->profile.classes; c++) {
        qs_class_profile *profile = &one->profile.class_[c];
        profile->cache_bytes = 256 << 10;
        profile->jitter = 0.02;
        for (int i = 0; i < profile->kernels; i++) {
            qs_kernel_cost *row = &profile->kernel[i];
            const uint64_t key = one->number + (uint64_t)i;
            row->cold_bytes = 1e5 * scene_dice(key, 20);
            row->us_per_cold_byte = row->us * 5e-6 * scene_dice(key, 21);
            row->us_alone = row->us * (0.8 + 0.3 * scene_dice(key, 22));
        }
        for (int i = 0; i < profile->conversions; i++)
            profile->conversion[i].alone = 0.9;
    }
}

/* Slow devices: these models are so small that nothing but overheads would count. */
static inline void scene_devices(scene *one) {
    one->device[0] = (synthetic_device)SYNTHETIC_STRONG;
    one->device[1] = (synthetic_device)SYNTHETIC_WEAK;
    for (int d = 0; d < 2; d++) {
        one->device[d].fp32 /= 100;
        one->device[d].half /= 100;
        one->device[d].int8 /= 100;
        one->device[d].bytes /= 100;
    }
    one->device[1].fp32 *= 0.3 + 0.7 * scene_dice(one->number, 1);
    one->device[1].half *= 0.5 + scene_dice(one->number, 2);
    one->device[1].bytes *= 0.5 + scene_dice(one->number, 3);
}

static inline void scene_draft(scene *one) {
    qs_plan_options_default(&one->options);
    assert_ok(qs__draft_create(one->graph, &one->cluster, &one->profile, &one->job, &one->options, &one->draft));
    one->weak = &one->draft.class_[SCENE_WEAK];
    assert_ok(qs__uniform_choose(&one->draft, false, &one->limit_us));
}

static inline void scene_start(scene *one, qs_graph *graph, uint64_t number, bool trouble) {
    *one = (scene){.number = number, .graph = graph, .job = stub_job(SCENE_BATCH)};
    scene_devices(one);
    one->cluster = synthetic_cluster(2, one->device);
    one->job.bucket_bytes = 4096 << (number % 4);
    one->profile = synthetic_profile(graph, &one->cluster, one->device, &one->job, 300);
    if (number % 2) scene_level(&one->profile.statistics);
    if (trouble) scene_trouble(one);
    for (int n = 1; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) one->node[one->nodes++] = n;
    scene_draft(one);
}

/* The next random model with that many adjustable operators, from *number on. */
static inline void scene_next(scene *one, uint64_t *number, int least, int most, bool trouble) {
    for (;; ++*number) {
        qs_graph *graph = random_graph(*number);
        const int count = scene_adjustable(graph);
        if (count >= least && count <= most) {
            scene_start(one, graph, (*number)++, trouble);
            return;
        }
        qs_graph_release(graph);
    }
}

static inline void scene_end(scene *one) {
    qs__draft_release(&one->draft);
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
    qs_graph_release(one->graph);
}

/* Plan number `mix` of the weak class, its recipes being the digits; false where a cost is missing. */
static inline bool scene_ask(scene *one, int mix, double *omega, qs_prediction *out) {
    *omega = 0;
    for (int i = 0; i < one->nodes; i++, mix /= one->weak->recipes) {
        one->weak->choice[one->node[i]] = mix % one->weak->recipes;
        *omega += one->weak->omega[one->node[i] * one->weak->recipes + mix % one->weak->recipes];
    }
    return qs__draft_predict(&one->draft, out) == QS_OK;
}

static inline int scene_mixes(const scene *one) {
    int mixes = 1;
    for (int i = 0; i < one->nodes; i++)
        mixes *= one->weak->recipes;
    return mixes;
}

/* A memory limit between what the lowest and the highest precision need, and T_min under it. */
static inline void scene_limit(scene *one, double share) {
    double omega;
    qs_prediction high, low;
    assert_true(scene_ask(one, 0, &omega, &high) && scene_ask(one, scene_mixes(one) - 1, &omega, &low));
    const double from = (double)low.class_[SCENE_WEAK].arena_bytes, to = (double)high.class_[SCENE_WEAK].arena_bytes;
    one->cluster.class_[SCENE_WEAK].memory_limit = (int64_t)(from + share * (to - from)) + 1;
    qs_prediction_release(&high);
    qs_prediction_release(&low);
    assert_ok(qs__uniform_choose(&one->draft, false, &one->limit_us));
}

/* Least ΣΩ of the weak class over all its plans, by asking for every one. */
static inline double scene_optimum(scene *one) {
    double best = INFINITY, omega;
    for (int mix = 0; mix < scene_mixes(one); mix++) {
        qs_prediction prediction;
        if (!scene_ask(one, mix, &omega, &prediction)) continue;
        if (omega < best && prediction.fits && prediction.iteration_us <= one->limit_us) best = omega;
        qs_prediction_release(&prediction);
    }
    return best;
}

#endif
