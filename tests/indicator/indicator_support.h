// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of indicator: a small model with statistics made up for it. Include after cmocka.h. */
#ifndef QSYNC_TESTS_INDICATOR_SUPPORT_H
#define QSYNC_TESTS_INDICATOR_SUPPORT_H

#include "kit/kit.h"
#include "qsync/indicator.h"

/* A dozen roundings in double on either side. */
static inline void close_to(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("got %.17g, expected %.17g", got, expected);
}

enum { SMALL_ITERATIONS = 3, SMALL_OPERATORS = 3 };

typedef struct small_model {
    qs_graph *graph;
    qs_profile profile;
} small_model;

static inline int small_model_node(const small_model *model, const char *name) {
    const int node = qs_graph_find(model->graph, name);
    assert_true(node > 0 && node < 16);
    return node;
}

static inline void small_tensor(qs_tensor_statistics *out, int64_t count, double size, uint64_t key) {
    out->count = count;
    for (int i = 0; i < SMALL_ITERATIONS; i++) {
        const double wobble = size * (0.5 + (double)qs_random_uniform(key, (uint64_t)i)), q = 4 * wobble / 127;
        out->norm2[i] = wobble * wobble * (double)count;
        out->absmax[i] = out->maximum[i] = 4 * wobble;
        out->minimum[i] = -3 * wobble;
        out->channel_absmax2[i] = 9 * out->norm2[i];
        out->variance_int8[i] = q * q * (double)count / 8;
        out->variance_bf16[i] = out->norm2[i] * 0x1p-16;
        out->variance_fp16[i] = out->norm2[i] * 0x1p-22;
    }
}

/* A convolution, a depthwise one with stride 2 and a linear layer, profiled at `batch` on two ranks. */
static inline small_model small_model_make(int64_t batch) {
    static const char *const names[SMALL_OPERATORS] = {"dense", "depthwise", "fc"};
    const qs_attributes dense = {.kernel = {3, 3}, .padding = {1, 1}};
    const qs_attributes depthwise = {.kernel = {3, 3}, .padding = {1, 1}, .stride = {2, 2}, .groups = 8};
    small_model model = {0};
    int node = 0;
    assert_ok(qs_graph_of_images("small", 4, 6, 6, &model.graph));
    assert_ok(qs_graph_add(model.graph, names[0], "conv2d", &dense, 1, &(int){0}, 8, false, &node));
    assert_ok(qs_graph_add(model.graph, "relu", "relu", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, names[1], "conv2d", &depthwise, 1, &(int){node}, 8, false, &node));
    assert_ok(qs_graph_add(model.graph, "pool", "global_average_pool", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, "flat", "flatten", NULL, 1, &(int){node}, 0, false, &node));
    assert_ok(qs_graph_add(model.graph, names[2], "linear", NULL, 1, &(int){node}, 5, true, &node));
    assert_ok(qs_graph_finish(model.graph, node, NULL));
    qs_statistics *statistics = &model.profile.statistics;
    *statistics = (qs_statistics){.batch = batch, .iterations = SMALL_ITERATIONS, .ranks = 2, .operators = SMALL_OPERATORS};
    statistics->operator_ = calloc(SMALL_OPERATORS, sizeof *statistics->operator_);
    assert_non_null(statistics->operator_);
    for (int i = 0; i < SMALL_OPERATORS; i++) {
        /* In another order than the graph's: names bind them. */
        qs_operator_statistics *one = &statistics->operator_[SMALL_OPERATORS - 1 - i];
        const int n = small_model_node(&model, names[i]);
        const qs_shape src = qs_graph_shape(model.graph, model.graph->node[n].input[0], batch), dst = qs_graph_shape(model.graph, n, batch);
        assert_ok(qs_operator_statistics_create(SMALL_ITERATIONS, one));
        snprintf(one->name, sizeof one->name, "%s", names[i]);
        small_tensor(&one->src, qs_shape_count(&src), 1.0 + i, (uint64_t)(3 * i));
        small_tensor(&one->weights, qs_shape_count(&qs_graph_parameter(model.graph, n, QS_WEIGHTS)->shape), 0.1, (uint64_t)(3 * i + 1));
        small_tensor(&one->diff_dst, qs_shape_count(&dst), 1e-3, (uint64_t)(3 * i + 2));
    }
    return model;
}

static inline void small_model_release(small_model *model) {
    qs_graph_release(model->graph);
    model->profile.statistics.operators = SMALL_OPERATORS;
    qs_profile_release(&model->profile);
}

#endif
