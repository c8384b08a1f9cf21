// SPDX-License-Identifier: Apache-2.0
/* What a model gives for one sample that is made of a formula, beside what ONNX Runtime gave (tests/golden/make_onnx.py). */
#ifndef QSYNC_TESTS_KIT_OUTPUTS
#define QSYNC_TESTS_KIT_OUTPUTS

#include "kit.h"

#include <jansson.h>
#include <math.h>

#include "qsync/checkpoint.h"
#include "qsync/comm.h"
#include "qsync/train.h"

/* The formula's number i: from -0.5 to 0.5, in 24 bits. */
static inline float outputs_real(int64_t i) {
    const uint32_t mixed = (uint32_t)((uint64_t)i * 2654435761u);
    return (float)((double)(mixed >> 8) / (1 << 24) - 0.5);
}

/* An input of the model in memory order: images have channels last, the formula counts them as the file does, channels first. */
static inline void outputs_input(const qs_graph *graph, int input, void *to, int64_t count) {
    const qs_input *is = &graph->samples.input[input];
    const qs_shape *shape = &graph->node[input].shape;
    for (int64_t i = 0; i < count; i++) {
        if (is->type == QS_INPUT_I32) {
            const bool keep = qs_graph_integers(graph, input) == QS_KEEP;
            ((int32_t *)to)[i] = (int32_t)(keep ? i < count - count / 4 : is->bound == 2 ? i % 2 : 5 + i * 7 % 11);
        } else if (qs_input_is_image(is)) {
            const int64_t channels = shape->dim[1], pixels = count / channels;
            ((float *)to)[i] = outputs_real(i % channels * pixels + i / channels);
        } else
            ((float *)to)[i] = outputs_real(i);
    }
}

/* The logits of the sample: what the loss reads, `count` numbers on the heap. */
static inline float *outputs_of(const qs_graph *graph, const char *weights, const char *backend, int64_t *count) {
    qs_device *device = NULL;
    qs_comm *self = NULL;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    qs_job job;
    qs_job_default(&job);
    const qs_device_options options = {.backend = backend, .threads = 1, .speed = 1};
    assert_ok(qs_device_open(&options, &device));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = 1,
                                  .mode = QS_MODE_EVALUATION,
                                  .job = &job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_ok(qs_comm_open("self", &self));
    assert_ok(qs_memory_reserve(device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, device, self, memory, &executor));
    float *trained = calloc((size_t)(graph->trained_elements + graph->frozen_elements) + 1, sizeof *trained);
    float *statistics = calloc((size_t)graph->statistics_elements + 1, sizeof *statistics);
    assert_ok(qs_weights_start(weights, graph, NULL, trained, statistics, NULL));
    assert_ok(qs_executor_write(executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, trained));
    if (graph->statistics_elements > 0)
        assert_ok(qs_executor_write(executor, schedule->running, 0, schedule->buffer[schedule->running].bytes, statistics));
    for (int i = 0; i < graph->samples.inputs; i++) {
        const int64_t values = qs_shape_count(&graph->node[i].shape);
        float *input = calloc((size_t)values, sizeof *input);
        outputs_input(graph, i, input, values);
        if (schedule->input[i] >= 0) assert_ok(qs_executor_write(executor, schedule->input[i], 0, (size_t)values * sizeof *input, input));
        free(input);
    }
    const int64_t labels = qs_target_values(&graph->samples.target);
    void *target = calloc((size_t)labels, sizeof(int32_t));
    assert_ok(qs_executor_write(executor, schedule->target, 0, (size_t)labels * sizeof(int32_t), target));
    assert_ok(qs_executor_run(executor, &(qs_run){.samples = 1, .global_samples = 1, .loss_scale = 1}));
    const qs_step *loss = NULL;
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL && schedule->step[s].node == graph->nodes - 1) loss = &schedule->step[s];
    assert_non_null(loss);
    const int at = qs_case_position(&loss->case_, QS_SRC);
    *count = qs_shape_count(&loss->case_.operand[at].shape);
    float *out = calloc((size_t)*count, sizeof *out);
    assert_ok(qs_executor_read(executor, loss->place[at].buffer, loss->place[at].offset, (size_t)*count * sizeof *out, out));
    free(target);
    free(trained);
    free(statistics);
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_comm_close(self);
    qs_device_close(device);
    return out;
}

/* Softmax, or its logarithm, of each row of classes: what the import leaves to the loss. */
static inline void outputs_normalise(int64_t count, int64_t classes, bool logarithm, float *values) {
    for (int64_t row = 0; row + classes <= count; row += classes) {
        double most = -INFINITY, sum = 0;
        for (int64_t c = 0; c < classes; c++)
            most = fmax(most, (double)values[row + c]);
        for (int64_t c = 0; c < classes; c++)
            sum += exp((double)values[row + c] - most);
        for (int64_t c = 0; c < classes; c++)
            values[row + c] = (float)(logarithm ? (double)values[row + c] - most - log(sum) : exp((double)values[row + c] - most) / sum);
    }
}

/* Holds the outputs against a row of the golden file: largest difference over the largest magnitude. */
static inline double outputs_distance(const json_t *row, int64_t count, float *values) {
    const char *ends = json_string_value(json_object_get(row, "ends"));
    const int64_t classes = json_integer_value(json_object_get(row, "classes")), every = json_integer_value(json_object_get(row, "every"));
    const json_t *list = json_object_get(row, "values");
    assert_int_equal(count, json_integer_value(json_object_get(row, "count")));
    if (strcmp(ends, "Softmax") == 0 || strcmp(ends, "LogSoftmax") == 0) outputs_normalise(count, classes, ends[0] == 'L', values);
    double worst = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        worst = fmax(worst, fabs((double)values[(int64_t)i * every] - json_number_value(json_array_get(list, i))));
    return worst / fmax(json_number_value(json_object_get(row, "largest")), 1e-30);
}

#endif
