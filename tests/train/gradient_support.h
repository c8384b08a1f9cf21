// SPDX-License-Identifier: Apache-2.0
/* What tests of a step share with the oracle of its gradients: numbers that both compute, and how far the two may differ. */
#ifndef QSYNC_TRAIN_GRADIENT_SUPPORT_H
#define QSYNC_TRAIN_GRADIENT_SUPPORT_H

#include "kit/kit.h"

#include <math.h>
#include <stdlib.h>

#include "qsync/graph.h"

/* The hash of tests/golden/make_step.py, by a seed, a name and an index. */
static inline uint32_t hash_bits(uint32_t seed, const char *name, const char *suffix, int64_t index) {
    uint32_t key = 2166136261u ^ seed;
    for (const char *c = name; *c; c++)
        key = (key ^ (uint8_t)*c) * 16777619u;
    for (const char *c = suffix; *c; c++)
        key = (key ^ (uint8_t)*c) * 16777619u;
    uint32_t x = (uint32_t)index * 0x9E3779B1u + key;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ x >> 16;
}

/* In [-1/2, 1/2): multiples of 2^-24. */
static inline float hash_uniform(uint32_t seed, const char *name, int64_t index) {
    return (float)(hash_bits(seed, name, "", index) >> 8) * 0x1p-24f - 0.5f;
}

/* Part of a tensor's largest gradient. Values pass as many layers forward and backward as the graph is deep (resnet8: 28), each rounding
 * sums of up to 4·32·32 = 4096 terms of random sign, whose error grows with the root of the length: 2^-24 × 28 × sqrt(4096) = 1.1e-4.
 * The seeds keep every branch (ReLU, max pool) clear of such errors. A wrong term, factor or order shows as 1e-2 and more. */
static inline double tolerance_of(const qs_graph *graph) {
    int *depth = calloc((size_t)graph->nodes, sizeof *depth);
    assert_non_null(depth);
    qs_graph_depths(graph, depth);
    const double tolerance = 0x1p-24 * 64 * depth[graph->nodes - 1];
    free(depth);
    return tolerance;
}

static inline double largest(const float *values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)values[i]));
    return most;
}

/* The largest number that a parameter's gradient is made of. */
static inline double magnitude_of(const qs_graph *graph, const qs_parameter *parameter, const float *gradients) {
    double magnitude = largest(gradients + parameter->offset, qs_shape_count(&parameter->shape));
    if (parameter->role == QS_SHIFT) { /* its terms may cancel; those of the scale's gradient are as large */
        const qs_parameter *scale = qs_graph_parameter(graph, parameter->node, QS_SCALE);
        if (scale) magnitude = fmax(magnitude, largest(gradients + scale->offset, qs_shape_count(&scale->shape)));
    }
    if (parameter->role == QS_BIAS) { /* so may those of a bias of keys, which shifts all scores of a query alike */
        const qs_parameter *weights = qs_graph_parameter(graph, parameter->node, QS_WEIGHTS);
        const double terms = largest(gradients + weights->offset, qs_shape_count(&weights->shape));
        if (magnitude < 0x1p-10 * terms) magnitude = terms;
    }
    return magnitude;
}

#endif
