// SPDX-License-Identifier: Apache-2.0
/* Start values. A draw is keyed by the parameter's index and counted by its element, so it depends on the seed and the graph only:
 * every rank, thread count and byte order of work gives the same. */
#include "qsync/graph.h"

#include <math.h>
#include <string.h>

/* Tells these draws from those of training, whose streams are small numbers. */
static const uint64_t stream = 0x696E6974; /* "init" */
static const int64_t grain = 4096;

typedef struct filling {
    uint64_t key;
    float deviation;
    float *values;
} filling;

static void fill_normal(void *context, int64_t begin, int64_t end) {
    const filling *job = context;
    for (int64_t i = begin; i < end; i++) {
        job->values[i] = job->deviation * qs_random_normal(job->key, (uint64_t)i);
    }
}

static void fill_parameter(const qs_parameter *parameter, uint64_t key, float *values) {
    int64_t count = qs_shape_count(&parameter->shape);
    if (parameter->fan_in == 0) {
        for (int64_t i = 0; i < count; i++) {
            values[i] = parameter->initial;
        }
        return;
    }
    filling job = {key, (float)sqrt((double)parameter->gain / (double)parameter->fan_in), values};
    qs_parallel(count, grain, fill_normal, &job);
}

void qs_graph_initialize(const qs_graph *graph, uint64_t seed, float *trained, float *statistics) {
    memset(trained, 0, (size_t)(graph->trained_elements + graph->frozen_elements) * sizeof *trained);
    memset(statistics, 0, (size_t)graph->statistics_elements * sizeof *statistics);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        float *buffer = parameter->gradient == QS_ROLE_COUNT ? statistics : trained;
        fill_parameter(parameter, qs_random_key(seed, 0, (uint64_t)i, stream), buffer + parameter->offset);
    }
}
