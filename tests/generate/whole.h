// SPDX-License-Identifier: Apache-2.0
/* What decoders are held against: a model's whole sequences at once, by the graph that is trained, in evaluation; with the values of all
 * its nodes. */
#ifndef QSYNC_TESTS_GENERATE_WHOLE
#define QSYNC_TESTS_GENERATE_WHOLE

#include "kit/device.h"
#include "kit/folder.h"
#include "qsync/generate.h"
#include "qsync/train.h"

static inline qs_device *whole_device(void) {
    const qs_device_options options = device_options(fast_backend(), NULL, 1, 1);
    qs_device *device = NULL;
    assert_ok(qs_device_open(&options, &device));
    return device;
}

typedef struct whole {
    const qs_graph *graph;
    qs_comm *self;
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
    float **value; /* (nodes) of the last run, NULL where a node moves no data; fp32 */
} whole;

static inline void whole_observe(void *context, const qs_schedule *schedule, int step, double seconds) {
    whole *one = context;
    const qs_step *is = &schedule->step[step];
    const int dst = is->kind == QS_STEP_KERNEL ? qs_case_position(&is->case_, QS_DST) : -1;
    (void)seconds;
    if (dst < 0 || is->node < 0 || is->conversion) return;
    const size_t bytes = (size_t)qs_shape_count(&is->case_.operand[dst].shape) * sizeof(float);
    assert_string_equal(is->case_.operand[dst].format->name, "fp32");
    free(one->value[is->node]);
    one->value[is->node] = malloc(bytes);
    assert_ok(qs_executor_read(one->executor, is->place[dst].buffer, is->place[dst].offset, bytes, one->value[is->node]));
}

/* Graph and device outlive it. */
static inline void whole_open(whole *one, const qs_graph *graph, const char *weights, int64_t batch, qs_device *device) {
    qs_job job;
    qs_job_default(&job);
    *one = (whole){.graph = graph};
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = QS_MODE_EVALUATION,
                                  .job = &job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    assert_ok(qs_schedule_lower(&lowering, &one->schedule));
    assert_ok(qs_comm_open("self", &one->self));
    assert_ok(qs_memory_reserve(device, one->schedule->arena_bytes, &one->memory));
    assert_ok(qs_executor_create(one->schedule, device, one->self, one->memory, &one->executor));
    qs_executor_observe(one->executor, whole_observe, one);
    one->value = calloc((size_t)graph->nodes, sizeof *one->value);
    const size_t bytes = one->schedule->buffer[one->schedule->masters].bytes;
    float *trained = calloc(1, bytes), *statistics = calloc((size_t)graph->statistics_elements + 1, sizeof(float));
    assert_ok(qs_weights_read(weights, graph, trained, statistics));
    assert_ok(qs_executor_write(one->executor, one->schedule->masters, 0, bytes, trained));
    free(trained);
    free(statistics);
}

/* ids (batch, positions). */
static inline void whole_run(whole *one, const int32_t *ids) {
    const qs_run run = {.samples = one->schedule->batch, .global_samples = one->schedule->batch, .loss_scale = 1};
    assert_ok(qs_executor_write(one->executor, one->schedule->input[0], 0, one->schedule->buffer[one->schedule->input[0]].bytes, ids));
    assert_ok(qs_executor_clear(one->executor, one->schedule->target)); /* class 0: what the loss is does not matter */
    assert_ok(qs_executor_run(one->executor, &run));
}

/* A node's values (batch, positions, channels). */
static inline const float *whole_value(const whole *one, const char *node) {
    const int n = qs_graph_find(one->graph, node);
    if (n < 0 || !one->value[n]) fail_msg("no values of a node %s", node);
    return one->value[n];
}

/* What the loss reads. */
static inline const float *whole_logits(const whole *one) {
    return whole_value(one, one->graph->node[one->graph->node[one->graph->nodes - 1].input[0]].name);
}

static inline void whole_close(whole *one) {
    for (int n = 0; n < one->graph->nodes; n++)
        free(one->value[n]);
    free(one->value);
    qs_executor_release(one->executor);
    qs_memory_release(one->memory);
    qs_schedule_release(one->schedule);
    qs_comm_close(one->self);
}

#endif
