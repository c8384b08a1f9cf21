// SPDX-License-Identifier: Apache-2.0
/* The fixed batch and its gradient. Gradients lie in the gradient buffer when a step has ended: the update only reads them, and with
 * learning rate 0 it changes momentum but no weight. */
#include "noise/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BATCH = 4 }; /* smaller batches are not halved: batch norm needs two values */

int64_t qs__probe_batch(int64_t batch) {
    return batch < LEAST_BATCH ? batch : batch / 2;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------------------- */

/* Before every run: the arena may use the memory of inputs again once they were read. */
static qs_status batch_fill(const qs__probe *probe, int64_t step) {
    const qs_dataset *set = &probe->training;
    const int64_t first = step * probe->batch;
    const qs_augmentation augmentation = qs_augmentation_standard(set, probe->job.augmentation, probe->job.seed, first / set->count);
    for (int64_t i = 0; i < probe->batch; i++)
        probe->indices[i] = probe->order[(first + i) % set->count];
    return qs_executor_load(probe->executor, probe->graph, set, &augmentation, probe->indices, probe->batch);
}

static qs_status step_run(qs__probe *probe, uint64_t seed, int64_t step, double rate) {
    const qs_run run = {.seed = seed,
                        .step = (uint64_t)step,
                        .samples = probe->batch,
                        .global_samples = probe->batch,
                        .loss_scale = probe->job.loss_scale,
                        .label_smoothing = probe->job.label_smoothing,
                        .learning_rate = rate,
                        .updates = step};
    float loss;
    QS_TRY(batch_fill(probe, step));
    QS_TRY(qs_executor_run(probe->executor, &run));
    QS_TRY(qs_executor_read(probe->executor, probe->schedule->loss, 0, sizeof loss, &loss));
    if (isfinite(loss)) return QS_OK;
    return qs_fail(QS_NUMERIC, "the loss is not finite after %lld iterations: lower the learning rate (%g) or the warm-up", (long long)step,
                   probe->job.rate.base);
}

qs_status qs__probe_gradient(qs__probe *probe, uint64_t seed, int64_t batch, const float **out) {
    QS_TRY(step_run(probe, seed, batch, 0));
    *out = probe->gradient;
    return qs_executor_read(probe->executor, probe->schedule->gradients, 0,
                            (size_t)probe->graph->trained_elements * sizeof *probe->gradient, probe->gradient);
}

qs_status qs__probe_weights_set(const qs__probe *probe, int64_t first, int64_t count, const float *values) {
    return qs_executor_write(probe->executor, probe->schedule->masters, (size_t)first * sizeof *values, (size_t)count * sizeof *values,
                             values);
}

/* ---- Programs ------------------------------------------------------------------------------------------------------------------------ */

static void program_drop(qs__probe *probe) {
    qs_executor_release(probe->executor);
    qs_schedule_release(probe->schedule);
    probe->executor = NULL;
    probe->schedule = NULL;
}

qs_status qs__probe_program(qs__probe *probe) {
    const qs_lowering lowering = {.graph = probe->graph,
                                  .batch = probe->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &probe->job,
                                  .recipe = probe->recipe,
                                  .half = probe->half,
                                  .lookup = qs_lookup_device,
                                  .context = probe->device};
    program_drop(probe);
    QS_TRY(qs_schedule_lower(&lowering, &probe->schedule));
    if (!probe->memory || probe->schedule->arena_bytes > qs_memory_bytes(probe->memory)) {
        qs_memory_release(probe->memory);
        probe->memory = NULL;
        QS_TRY(qs_memory_reserve(probe->device, probe->schedule->arena_bytes, &probe->memory));
    }
    QS_TRY(qs_memory_fill(qs_device_queue(probe->device, QS_QUEUE_KERNELS), qs_location_of(probe->memory, 0), 0,
                          probe->schedule->persistent_bytes));
    QS_TRY(qs_executor_create(probe->schedule, probe->device, probe->self, probe->memory, &probe->executor));
    if (probe->schedule->running >= 0)
        QS_TRY(qs_executor_write(probe->executor, probe->schedule->running, 0,
                                 (size_t)probe->graph->statistics_elements * sizeof *probe->statistics, probe->statistics));
    return qs__probe_weights_set(probe, 0, probe->graph->trained_elements, probe->weights);
}

/* ---- Start ------------------------------------------------------------------------------------------------------------------------- */

static qs_status data_load(qs__probe *probe, const char *data_folder) {
    QS_TRY(qs_job_samples(&probe->job, probe->graph, data_folder, QS_PART_TRAINING, 0, &probe->training));
    QS_TRY(qs_allocate((size_t)probe->training.count, sizeof *probe->order, &probe->order));
    QS_TRY(qs_allocate((size_t)probe->batch, sizeof *probe->indices, &probe->indices));
    qs_random_permutation(qs_random_key(probe->job.seed, 0, 0, 0), probe->training.count, probe->order);
    return QS_OK;
}

/* All operators in fp32, the weights as the seed says. Dropout is switched off. */
static qs_status model_start(qs__probe *probe) {
    qs_graph *graph = probe->graph;
    QS_TRY(qs_recipe_builtin("fp32", &probe->fp32));
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *probe->recipe, &probe->recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind == QS_ADJUSTABLE) probe->recipe[n] = &probe->fp32;
        if (qs_op_setting(graph->node[n].op, "probability") >= 0) graph->node[n].attributes.probability = 0;
    }
    QS_TRY(qs_allocate((size_t)graph->trained_elements, sizeof *probe->weights, &probe->weights));
    QS_TRY(qs_allocate((size_t)graph->trained_elements, sizeof *probe->gradient, &probe->gradient));
    QS_TRY(qs_allocate((size_t)graph->statistics_elements, sizeof *probe->statistics, &probe->statistics));
    qs_graph_initialize(graph, probe->job.seed, probe->weights, probe->statistics);
    return QS_OK;
}

static qs_status train(qs__probe *probe, int warm_up) {
    const int64_t steps = (probe->training.count + probe->job.batch - 1) / probe->job.batch;
    QS_TRY(qs__probe_program(probe));
    for (int64_t i = 0; i < warm_up; i++)
        QS_TRY(step_run(probe, probe->job.seed, i, qs_learning_rate(&probe->job, i, steps)));
    return qs_executor_read(probe->executor, probe->schedule->masters, 0, (size_t)probe->graph->trained_elements * sizeof *probe->weights,
                            probe->weights);
}

static qs_status model_take(const qs_job *job, const qs_graph *model, qs_graph **out) {
    qs_data_description set;
    char *text = NULL;
    if (!model) {
        QS_TRY(qs_dataset_describe(job->dataset, NULL, &set));
        return qs_model_open(job->model, &set.samples, out);
    }
    QS_TRY(qs_graph_text(model, &text));
    const qs_status status = qs_graph_parse(text, model->name, out);
    free(text);
    return status;
}

qs_status qs__probe_start(const qs_job *job, const qs_graph *model, const qs_format *half, const char *data_folder, int warm_up,
                          const float *weights, qs_device *device, qs__probe *out) {
    if (warm_up < 0) return qs_fail(QS_USAGE, "warm-up of %d iterations: at least 0", warm_up);
    if (job->batch < 1) return qs_fail(QS_USAGE, "batch %lld: at least 1", (long long)job->batch);
    out->job = *job;
    out->job.dynamic_loss_scaling = false;
    out->job.clip_norm = 0; /* gradients are read behind the update: as they were formed */
    out->device = device;
    out->half = half;
    out->batch = qs__probe_batch(job->batch);
    out->at = warm_up;
    QS_TRY(qs_comm_open("self", &out->self));
    QS_TRY(model_take(job, model, &out->graph));
    QS_TRY(data_load(out, data_folder));
    QS_TRY(model_start(out));
    if (weights) memcpy(out->weights, weights, (size_t)out->graph->trained_elements * sizeof *weights);
    if (warm_up == 0) return QS_OK;
    return qs_fail_within(train(out, warm_up), "%s at batch %lld", job->model, (long long)out->batch);
}

void qs__probe_release(qs__probe *probe) {
    program_drop(probe);
    qs_memory_release(probe->memory);
    qs_dataset_release(&probe->training);
    qs_graph_release(probe->graph);
    qs_comm_close(probe->self);
    free(probe->order);
    free(probe->indices);
    free(probe->recipe);
    free(probe->weights);
    free(probe->statistics);
    free(probe->gradient);
    *probe = (qs__probe){0};
}
