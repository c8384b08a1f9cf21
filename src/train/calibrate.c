// SPDX-License-Identifier: Apache-2.0
/* Evaluation in any formats, and what it sees on the way: the largest magnitude of every channel of every value, of all samples and the
 * mean over batches, which static steps of quantizers are made from. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct calibration {
    const qs_graph *graph;
    const qs__program *program;
    const qs_magnitudes *seen; /* NULL: nothing is looked at */
    qs_status status;
} calibration;

/* A batch of a node's values. */
static qs_status magnitudes_add(const calibration *one, int node, int64_t count, const float *values) {
    const int64_t channels = one->graph->node[node].shape.dim[1];
    float *batch = NULL;
    QS_TRY(qs_allocate((size_t)channels, sizeof *batch, &batch));
    for (int64_t i = 0; i < count; i++)
        batch[i % channels] = fmaxf(batch[i % channels], fabsf(values[i]));
    for (int64_t c = 0; c < channels; c++) {
        one->seen->largest[node][c] = fmaxf(one->seen->largest[node][c], batch[c]);
        one->seen->typical[node][c] += batch[c];
    }
    free(batch);
    return QS_OK;
}

/* What a pass of a node wrote as its output; conversions are no values of the model. */
static void step_observe(void *context, const qs_schedule *schedule, int index, double seconds) {
    calibration *one = context;
    const qs_step *step = &schedule->step[index];
    const int dst = step->kind == QS_STEP_KERNEL ? qs_case_position(&step->case_, QS_DST) : -1;
    void *data = NULL;
    float *values = NULL;
    qs_status status = one->status;
    (void)seconds;
    if (status != QS_OK || dst < 0 || step->conversion || step->node < 0 || step->case_.op != one->graph->node[step->node].op) return;
    const qs_operand *operand = &step->case_.operand[dst];
    const int64_t count = qs_shape_count(&operand->shape);
    QS_GOTO(qs__executor_operand(one->program->executor, step, dst, &data));
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    qs_convert_to_fp32(operand->format, count, data, values);
    status = magnitudes_add(one, step->node, count, values);
done:
    free(data);
    free(values);
    one->status = status;
}

static qs_status inputs_observe(calibration *one) {
    const qs_schedule *schedule = one->program->schedule;
    for (int i = 0; i < schedule->inputs; i++) {
        const qs_shape *shape = &one->graph->node[i].shape;
        const int64_t count = schedule->batch * qs_shape_count(shape);
        float *values = NULL;
        if (one->graph->samples.input[i].type == QS_INPUT_I32) continue;
        QS_TRY(qs__executor_copy(one->program->executor, schedule->input[i], &values));
        const qs_status status = magnitudes_add(one, i, count, values);
        free(values);
        QS_TRY(status);
    }
    return QS_OK;
}

/* Sums over batches become means. Values that no pass of their own writes are those of their first input: of flatten, of a relu that a
 * normalisation does. A flattened image's features are its channels again and again. */
static void magnitudes_finish(const qs_graph *graph, int64_t batches, const qs_magnitudes *seen) {
    for (int n = 0; n < graph->nodes - 1; n++)
        for (int64_t c = 0; c < graph->node[n].shape.dim[1]; c++)
            seen->typical[n][c] /= (float)batches;
    for (int n = graph->samples.inputs; n < graph->nodes - 1; n++) {
        const qs_node *node = &graph->node[n];
        const int64_t from = graph->node[node->input[0]].shape.dim[1];
        if (!qs_graph_is_name(graph, n) && !node->op->training_only) continue;
        for (int64_t c = 0; c < node->shape.dim[1]; c++)
            seen->largest[n][c] = seen->largest[node->input[0]][c % from], seen->typical[n][c] = seen->typical[node->input[0]][c % from];
    }
}

static qs_status samples_run(calibration *one, const qs_dataset *set, qs__sums *sums) {
    const qs__program *program = one->program;
    const int64_t batch = program->schedule->batch;
    int64_t *indices = NULL;
    qs_status status;
    QS_TRY(qs_allocate((size_t)batch, sizeof *indices, &indices));
    if (one->seen) qs_executor_observe(program->executor, step_observe, one);
    for (int64_t at = 0; at < set->count; at += batch) {
        const int64_t count = set->count - at < batch ? set->count - at : batch;
        const qs_run run = {.samples = count, .global_samples = count, .loss_scale = 1, .first_sample = at};
        for (int64_t i = 0; i < count; i++)
            indices[i] = at + i;
        QS_GOTO(qs_executor_load(program->executor, one->graph, set, NULL, indices, count));
        if (one->seen) QS_GOTO(inputs_observe(one));
        QS_GOTO(qs_executor_run(program->executor, &run));
        QS_GOTO(one->status);
        QS_GOTO(qs__sums_add(sums, program, set, indices, count));
    }
    if (one->seen && set->count > 0) magnitudes_finish(one->graph, (set->count + batch - 1) / batch, one->seen);
done:
    free(indices);
    return status;
}

static qs_status weights_put(const qs__program *program, const qs_graph *graph, const float *trained, const float *statistics) {
    const qs_schedule *schedule = program->schedule;
    const int64_t weights = graph->trained_elements + graph->frozen_elements;
    if (weights > 0) QS_TRY(qs_executor_write(program->executor, schedule->masters, 0, (size_t)weights * sizeof *trained, trained));
    if (graph->statistics_elements == 0) return QS_OK;
    return qs_executor_write(program->executor, schedule->running, 0, (size_t)graph->statistics_elements * sizeof *statistics, statistics);
}

/* Forward passes of training over the first batches of the training part, in its order, which move the running statistics along. */
static qs_status statistics_follow(const qs_calibration_options *options, const qs__formats *formats, const qs__kernels *kernels,
                                   qs_comm *comm, float *statistics) {
    const qs_graph *graph = options->graph;
    const int64_t batch = options->job->batch;
    qs__program program = {0};
    qs_dataset set = {0};
    qs_memory *memory = NULL;
    int64_t *indices = NULL;
    qs_status status;
    QS_GOTO(qs_job_samples(options->job, graph, options->data_folder, QS_PART_TRAINING, 0, &set));
    if (set.count / batch < options->recalibrate)
        QS_GOTO(qs_fail(QS_USAGE, "%lld batches of %lld for running statistics: the training part has %lld samples",
                        (long long)options->recalibrate, (long long)batch, (long long)set.count));
    QS_GOTO(qs_allocate((size_t)batch, sizeof *indices, &indices));
    QS_GOTO(qs__program_lower(graph, options->job, formats, QS_MODE_TRAIN, batch, kernels, &program));
    QS_GOTO(qs_memory_reserve(kernels->device, program.schedule->arena_bytes, &memory));
    QS_GOTO(qs_executor_create(program.schedule, kernels->device, comm, memory, &program.executor));
    QS_GOTO(weights_put(&program, graph, options->trained, statistics));
    for (int64_t k = 0; k < options->recalibrate; k++) {
        const qs_run run = {
            .seed = options->job->seed, .step = (uint64_t)k, .first_sample = 0, .samples = batch, .global_samples = batch, .loss_scale = 1};
        for (int64_t i = 0; i < batch; i++)
            indices[i] = k * batch + i;
        QS_GOTO(qs_executor_load(program.executor, graph, &set, NULL, indices, batch));
        QS_GOTO(qs__executor_phase(program.executor, QS_FORWARD, &run, NULL));
    }
    status = qs_executor_read(program.executor, program.schedule->running, 0, (size_t)graph->statistics_elements * sizeof *statistics,
                              statistics);
done:
    qs__program_release(&program);
    qs_memory_release(memory);
    qs_dataset_release(&set);
    free(indices);
    return status;
}

qs_status qs_calibrate(const qs_calibration_options *options, qs_device *device, const qs_magnitudes *seen, qs_evaluation *out) {
    const qs_graph *graph = options->graph;
    const qs_recipe **recipe = NULL;
    qs__formats formats = {.half = options->half ? options->half : qs_format_of("fp32")};
    const qs__kernels kernels = {.device = device};
    qs__program program = {0};
    calibration one = {.graph = graph, .program = &program, .seen = seen};
    qs_dataset set = {0};
    qs_memory *memory = NULL;
    qs_comm *comm = NULL;
    qs__sums sums = {0};
    float *statistics = NULL;
    qs_status status;
    QS_GOTO(qs__recipes_to_nearest(graph, options->recipe, &recipe));
    formats.recipe = recipe;
    QS_GOTO(qs_job_samples(options->job, graph, options->data_folder, options->part, options->samples, &set));
    QS_GOTO(qs_comm_open("self", &comm));
    if (options->recalibrate > 0 && graph->statistics_elements > 0) {
        QS_GOTO(qs_allocate((size_t)graph->statistics_elements, sizeof *statistics, &statistics));
        memcpy(statistics, options->statistics, (size_t)graph->statistics_elements * sizeof *statistics);
        QS_GOTO(statistics_follow(options, &formats, &kernels, comm, statistics));
    }
    QS_GOTO(qs__program_lower(graph, options->job, &formats, QS_MODE_EVALUATION, options->job->batch, &kernels, &program));
    QS_GOTO(qs_memory_reserve(device, program.schedule->arena_bytes, &memory));
    QS_GOTO(qs_executor_create(program.schedule, device, comm, memory, &program.executor));
    QS_GOTO(weights_put(&program, graph, options->trained, statistics ? statistics : options->statistics));
    QS_GOTO(samples_run(&one, &set, &sums));
    *out = (qs_evaluation){.loss = qs__mean(sums.loss, &sums), .accuracy = qs__mean(sums.correct, &sums), .samples = (int64_t)sums.samples};
done:
    qs__program_release(&program);
    qs_memory_release(memory);
    qs_comm_close(comm);
    qs_dataset_release(&set);
    free(recipe);
    free(statistics);
    return status;
}
