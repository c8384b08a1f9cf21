// SPDX-License-Identifier: Apache-2.0
/* Scenes for planners: a random model on a quick training class and one or two weak inference classes, with synthetic costs, as a candidate
 * whose every plan can be asked for. Include after cmocka.h. */
#ifndef QSYNC_TESTS_PLANNER_SCENE_H
#define QSYNC_TESTS_PLANNER_SCENE_H

#include "kit/kit.h"

#include <limits.h>

#include "../../src/planner/planner_internal.h"
#include "kit/random_graph.h"
#include "kit/synthetic.h"

enum { SCENE_BATCH = 16, SCENE_MOST = 400, SCENE_WEAK = 1, SCENE_CLASSES = 3 };

/* What a scene has beside the plain one, as bits. */
enum {
    SCENE_TROUBLE = 1, /* costs that depend on caches, host slowdown and noise */
    SCENE_LATE = 2,    /* the training class is the late one, the more the longer the other computes */
    SCENE_TWO = 4,     /* a second weak class, of two ranks */
    SCENE_JOINS = 8    /* devices of weak classes join passes */
};

typedef struct scene {
    uint64_t number;
    unsigned kind;
    int classes;
    qs_graph *graph;
    synthetic_device device[SCENE_CLASSES];
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
    qs_plan pins;
    qs_candidate candidate;
    qs_candidate_class *weak; /* the candidate's */
    int node[SCENE_MOST], nodes;
    double limit_us; /* T_min's */
} scene;

static inline double scene_dice(uint64_t number, uint64_t draw) {
    return (double)qs_random_uniform(number * 2 + 1, draw);
}

static inline int scene_adjustable(const qs_graph *graph) {
    int count = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
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

/* What makes the full prediction differ from sums: caches that are found warm or cold, steps that are quicker while others wait, noise; and
 * recordings of the device, which are faster under some plans. */
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
        if (c == SCENE_WEAK) synthetic_records(0.7, 1.3, one->number, profile);
    }
}

/* A little slower while the other rank computes. */
static inline void scene_slowdown(scene *one) {
    for (int c = 0; c < one->profile.classes; c++)
        for (int i = 0; i < one->profile.class_[c].kernels; i++) {
            qs_kernel_cost *row = &one->profile.class_[c].kernel[i];
            row->us_alone = row->us * (0.9 + 0.1 * scene_dice((uint64_t)i, 5));
        }
}

/* Slow devices: these models are so small that nothing but overheads would count. */
static inline void scene_devices(scene *one) {
    one->device[0] = (synthetic_device)SYNTHETIC_STRONG;
    one->device[1] = one->device[2] = (synthetic_device)SYNTHETIC_WEAK;
    one->device[2].name = "weaker";
    one->device[2].count = 2;
    for (int d = 0; d < one->classes; d++) {
        const uint64_t key = one->number + (uint64_t)(d > 1 ? 1000 : 0);
        one->device[d].fp32 *= (d ? 0.3 + 0.7 * scene_dice(key, 1) : 1) / 100;
        one->device[d].half *= (d ? 0.5 + scene_dice(key, 2) : 1) / 100;
        one->device[d].int8 /= 100;
        one->device[d].bytes *= (d ? 0.5 + scene_dice(key, 3) : 1) / 100;
        one->device[d].joins = d > 0 && one->kind & SCENE_JOINS;
    }
    if (one->kind & SCENE_LATE) one->device[0].fp32 /= 4;
}

static inline void scene_draft(scene *one) {
    assert_ok(qs__candidate_create(one->graph, &one->cluster, &one->profile, &one->job, &one->options, &one->candidate));
    one->weak = &one->candidate.class_[SCENE_WEAK];
    assert_ok(qs__uniform_choose(&one->candidate, false, &one->limit_us));
}

static inline void scene_start(scene *one, qs_graph *graph, uint64_t number, unsigned kind) {
    *one = (scene){.number = number, .kind = kind, .graph = graph, .job = stub_job(SCENE_BATCH), .classes = kind & SCENE_TWO ? 3 : 2};
    scene_devices(one);
    one->cluster = synthetic_cluster(one->classes, one->device);
    one->job.bucket_bytes = 4096 << (number % 4);
    one->profile = synthetic_profile(graph, &one->cluster, one->device, &one->job);
    if (number % 2) scene_level(&one->profile.statistics);
    if (kind & SCENE_TROUBLE) scene_trouble(one);
    if (kind & SCENE_LATE) scene_slowdown(one);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) one->node[one->nodes++] = n;
    qs_plan_options_default(&one->options);
    scene_draft(one);
}

/* Pins an operator of the weak class. */
static inline void scene_pin(scene *one, int operator_, int recipe) {
    qs_class_plan *pins = calloc(1, sizeof *pins);
    assert_non_null(pins);
    *pins = (qs_class_plan){.class_name = "weak", .operators = 1, .operator_ = calloc(1, sizeof *pins->operator_)};
    assert_non_null(pins->operator_);
    pins->operator_->pin = true;
    snprintf(pins->operator_->name, QS_NAME, "%s", one->graph->node[one->node[operator_]].name);
    snprintf(pins->operator_->recipe, QS_NAME, "%s", one->weak->recipe[recipe].name);
    one->pins = (qs_plan){.classes = 1, .class_ = pins};
    one->options.pins = &one->pins;
    qs__candidate_release(&one->candidate);
    scene_draft(one);
}

/* The next random model with that many adjustable operators, from *number on. */
static inline void scene_next(scene *one, uint64_t *number, int least, int most, unsigned kind) {
    for (;; ++*number) {
        qs_graph *graph = random_graph(*number);
        const int count = scene_adjustable(graph);
        if (count >= least && count <= most) {
            scene_start(one, graph, (*number)++, kind);
            return;
        }
        qs_graph_release(graph);
    }
}

static inline void scene_end(scene *one) {
    qs__candidate_release(&one->candidate);
    qs_plan_release(&one->pins);
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
    qs_graph_release(one->graph);
}

/* ΣΩ over all devices of the weak classes. */
static inline double scene_omega(const scene *one) {
    double sum = 0;
    for (int c = SCENE_WEAK; c < one->classes; c++)
        sum += one->cluster.class_[c].count * qs__candidate_sum_omega(&one->candidate, c);
    return sum;
}

/* The same recipe wherever nothing is pinned. */
static inline void scene_ask_uniform(scene *one, int recipe, double *omega, qs_prediction *out) {
    for (int c = SCENE_WEAK; c < one->classes; c++)
        qs__candidate_set_uniform(&one->candidate, c, recipe);
    *omega = scene_omega(one);
    assert_ok(qs__candidate_predict(&one->candidate, out));
}

/* Plan number `mix` of the weak classes, its recipes being the digits; false where it unpins an operator or a cost is missing. */
static inline bool scene_ask(scene *one, int mix, double *omega, qs_prediction *out) {
    for (int c = SCENE_WEAK; c < one->classes; c++)
        for (int i = 0; i < one->nodes; i++, mix /= one->weak->recipes) {
            const int node = one->node[i], recipe = mix % one->weak->recipes;
            qs_candidate_class *class_ = &one->candidate.class_[c];
            if (class_->pinned[node] && recipe != class_->choice[node]) return false;
            class_->choice[node] = recipe;
        }
    *omega = scene_omega(one);
    return qs__candidate_predict(&one->candidate, out) == QS_OK;
}

static inline int scene_mixes(const scene *one) {
    int mixes = 1;
    for (int i = 0; i < one->nodes * (one->classes - 1); i++) {
        assert_true(mixes <= INT_MAX / one->weak->recipes);
        mixes *= one->weak->recipes;
    }
    return mixes;
}

/* Memory limits between what the lowest and the highest precision need, and T_min under them. */
static inline void scene_limit(scene *one, double share) {
    double omega;
    qs_prediction high, low;
    scene_ask_uniform(one, 0, &omega, &high);
    scene_ask_uniform(one, one->weak->recipes - 1, &omega, &low);
    for (int c = SCENE_WEAK; c < one->classes; c++) {
        const double from = (double)low.class_[c].arena_bytes, to = (double)high.class_[c].arena_bytes;
        one->cluster.class_[c].memory_limit = (int64_t)(from + share * (to - from)) + 1;
    }
    qs_prediction_release(&high);
    qs_prediction_release(&low);
    assert_ok(qs__uniform_choose(&one->candidate, false, &one->limit_us));
}

/* Least ΣΩ over all devices, by asking for every plan. */
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

static inline qs_plan scene_plan(const scene *one, const char *planner) {
    qs_plan plan;
    assert_ok(qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
    return plan;
}

/* What a plan states of that. */
static inline double scene_omega_of(const scene *one, const qs_plan *plan) {
    double sum = 0;
    for (int c = SCENE_WEAK; c < one->classes; c++)
        sum += one->cluster.class_[c].count * plan->class_[c].predicted.sum_omega;
    return sum;
}

static inline double scene_planned(const scene *one, const char *planner) {
    qs_plan plan = scene_plan(one, planner);
    const double omega = scene_omega_of(one, &plan);
    qs_plan_release(&plan);
    return omega;
}

#endif
