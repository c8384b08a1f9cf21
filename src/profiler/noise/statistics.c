// SPDX-License-Identifier: Apache-2.0
/* Raw statistics of what quantization would touch (docs/method.md §3.6): input, weights (of a product of two activations: the second one)
 * and output gradient of every adjustable operator in the first iterations of a real fp32 training at half the local batch. Figures are
 * means over ranks, extrema those of all ranks; the loss scale is divided out of gradients. */
#include "noise/statistics.h"
#include "noise/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS = 7, EXTREMA = 3, TENSORS = 3, LEAST_BATCH = 4 }; /* smaller batches are not halved: batch norm needs two values */

typedef struct collection {
    const qs__setting *setting;
    qs_graph *thawed;      /* the model with nothing frozen; NULL: that is the setting's */
    const qs_graph *graph; /* of the two the one that is measured */
    qs_schedule *schedule;
    qs_executor *executor;
    qs_memory *memory;
    int64_t batch, steps_per_epoch;
    int64_t updates; /* of the weights so far */
    qs_loss_scale scale;
    double *sum, *extremum; /* (operators × TENSORS × SUMS or EXTREMA) of the iteration at hand */
    double *histogram;      /* (operators × TENSORS × QS_EXPONENTS) over all iterations */
    qs_statistics *out;
} collection;

static qs_tensor_statistics *tensor_at(qs_operator_statistics *one, int which) {
    qs_tensor_statistics *const tensors[TENSORS] = {&one->src, &one->weights, &one->diff_dst};
    return tensors[which];
}

/* ---- One tensor ---------------------------------------------------------------------------------------------------------------------- */

/* Σ over channels of absmax² and of (maximum - minimum)², × elements per channel. */
static void channel_sums(const qs_statistics_head *head, const double *extremes, double *absmax2, double *range2) {
    *absmax2 = *range2 = 0;
    for (int64_t c = 0; c < (int64_t)head->channels; c++) {
        const double low = extremes[2 * c], high = extremes[2 * c + 1], absmax = fmax(-low, high);
        *absmax2 += absmax * absmax * head->count / head->channels;
        *range2 += (high - low) * (high - low) * head->count / head->channels;
    }
}

/* Exponents of what the values would be without `scale`. */
static void histogram_add(const qs_statistics_head *head, double scale, double *histogram) {
    const int shift = (int)lround(log2(scale));
    for (int i = 0; i < QS_EXPONENTS; i++) {
        const int at = i - shift < 0 ? 0 : i - shift >= QS_EXPONENTS ? QS_EXPONENTS - 1 : i - shift;
        histogram[at] += head->exponents[i];
    }
}

/* `scale`: what the values carry too much of. */
static void tensor_read(const void *data, double scale, double *sum, double *extremum, double *histogram) {
    qs_statistics_head head;
    memcpy(&head, data, sizeof head);
    channel_sums(&head, (const double *)((const char *)data + sizeof head), &sum[1], &sum[2]);
    sum[0] = head.norm2;
    sum[3] = head.variance_int8;
    sum[4] = head.variance_int8_channel;
    sum[5] = head.variance_bf16;
    sum[6] = head.variance_fp16;
    for (int i = 0; i < SUMS; i++)
        sum[i] /= scale * scale;
    histogram_add(&head, scale, histogram);
    extremum[0] = head.absmax / scale;
    extremum[1] = head.maximum / scale;
    extremum[2] = -head.minimum / scale;
}

/* Steps per channel were measured for weights alone. */
static void tensor_keep(const double *sum, const double *extremum, int ranks, int iteration, bool weights, qs_tensor_statistics *out) {
    out->norm2[iteration] = sum[0] / ranks;
    out->channel_absmax2[iteration] = sum[1] / ranks;
    out->channel_range2[iteration] = sum[2] / ranks;
    out->variance_int8[iteration] = sum[3] / ranks;
    if (weights) out->variance_int8_channel[iteration] = sum[4] / ranks;
    out->variance_bf16[iteration] = sum[5] / ranks;
    out->variance_fp16[iteration] = sum[6] / ranks;
    out->absmax[iteration] = extremum[0];
    out->maximum[iteration] = extremum[1];
    out->minimum[iteration] = -extremum[2];
}

/* ---- One iteration ---------------------------------------------------------------------------------------------------------------------
 */

static qs_status iteration_read(const collection *one) {
    const qs_graph *graph = one->graph;
    int at = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        for (int which = 0; which < TENSORS; which++, at++) {
            const int buffer = one->schedule->statistics_buffer[n * TENSORS + which];
            const size_t bytes = one->schedule->buffer[buffer].bytes;
            void *data = NULL;
            QS_TRY(qs_allocate(bytes, 1, &data));
            const qs_status status = qs_executor_read(one->executor, buffer, 0, bytes, data);
            if (status == QS_OK)
                tensor_read(data, which == 2 ? one->scale.value : 1, one->sum + at * SUMS, one->extremum + at * EXTREMA,
                            one->histogram + at * QS_EXPONENTS);
            free(data);
            QS_TRY(status);
        }
    }
    return QS_OK;
}

static qs_status iteration_keep(const collection *one, int iteration) {
    const int tensors = one->out->operators * TENSORS;
    QS_TRY(qs_comm_sum(one->setting->comm, one->sum, tensors * SUMS));
    QS_TRY(qs_comm_max(one->setting->comm, one->extremum, tensors * EXTREMA));
    for (int at = 0; at < tensors; at++) {
        qs_operator_statistics *of = &one->out->operator_[at / TENSORS];
        const bool weights = at % TENSORS == 1 && qs_graph_parameter(one->graph, qs_graph_find(one->graph, of->name), QS_WEIGHTS);
        tensor_keep(one->sum + at * SUMS, one->extremum + at * EXTREMA, one->setting->ranks, iteration, weights,
                    tensor_at(of, at % TENSORS));
    }
    return QS_OK;
}

static qs_status histograms_keep(const collection *one) {
    const int tensors = one->out->operators * TENSORS, over = one->out->iterations * one->setting->ranks;
    QS_TRY(qs_comm_sum(one->setting->comm, one->histogram, tensors * QS_EXPONENTS));
    for (int at = 0; at < tensors; at++)
        for (int i = 0; i < QS_EXPONENTS; i++)
            tensor_at(&one->out->operator_[at / TENSORS], at % TENSORS)->range_histogram[i] = one->histogram[at * QS_EXPONENTS + i] / over;
    return QS_OK;
}

static qs_status loss_check(const collection *one, int iteration) {
    float loss;
    QS_TRY(qs_executor_read(one->executor, one->schedule->loss, 0, sizeof loss, &loss));
    if (isfinite(loss)) return QS_OK;
    return qs_fail(QS_NUMERIC, "the training loss is not finite in iteration %d of the statistics: lower the learning rate (%g)", iteration,
                   one->setting->job->rate.base);
}

static qs_status iteration_run(collection *one, int iteration) {
    const qs__setting *setting = one->setting;
    const qs_run run = {.seed = setting->job->seed,
                        .step = (uint64_t)iteration,
                        .samples = one->batch,
                        .first_sample = setting->rank * one->batch,
                        .global_samples = setting->ranks * one->batch,
                        .loss_scale = one->scale.value,
                        .label_smoothing = setting->job->label_smoothing,
                        .learning_rate = qs_learning_rate(setting->job, iteration, one->steps_per_epoch),
                        .updates = one->updates};
    qs_status status = qs__batch_fill(setting, one->executor, iteration, one->batch);
    if (status == QS_OK) status = qs_executor_run(one->executor, &run);
    if (status == QS_OK) status = loss_check(one, iteration);
    if (status == QS_OK) status = iteration_read(one);
    QS_TRY(qs_comm_agree(setting->comm, status));
    QS_TRY(iteration_keep(one, iteration));
    float flag = 1;
    if (one->schedule->flag >= 0) {
        QS_TRY(qs_executor_read(one->executor, one->schedule->flag, 0, sizeof flag, &flag));
        qs_loss_scale_update(&one->scale, flag != 0);
    }
    if (flag != 0) one->updates++;
    return QS_OK;
}

/* ---- All of them ------------------------------------------------------------------------------------------------------------------------
 */

static qs_status operators_create(collection *one) {
    const qs_graph *graph = one->graph;
    qs_statistics *out = one->out;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        qs_operator_statistics *operator_ = &out->operator_[out->operators];
        QS_TRY(qs_operator_statistics_create(out->iterations, operator_));
        out->operators++;
        snprintf(operator_->name, sizeof operator_->name, "%s", graph->node[n].name);
        const bool inner =
            graph->node[n].op->inner; /* states are what it multiplies; the gradient is that of their sums, as of its input */
        const qs_shape src = qs_graph_shape(graph, inner ? n : graph->node[n].input[0], one->batch),
                       dst = qs_graph_shape(graph, inner ? graph->node[n].input[0] : n, one->batch);
        operator_->src.count = qs_shape_count(&src);
        const qs_parameter *weights = qs_graph_parameter(graph, n, QS_WEIGHTS);
        const qs_shape factor = weights ? weights->shape : qs_graph_shape(graph, graph->node[n].input[1], one->batch);
        operator_->weights.count = qs_shape_count(&factor);
        operator_->diff_dst.count = qs_shape_count(&dst);
    }
    const size_t tensors = (size_t)out->operators * TENSORS;
    QS_TRY(qs_allocate(tensors * SUMS, sizeof *one->sum, &one->sum));
    QS_TRY(qs_allocate(tensors * QS_EXPONENTS, sizeof *one->histogram, &one->histogram));
    return qs_allocate(tensors * EXTREMA, sizeof *one->extremum, &one->extremum);
}

/* Statistics are of the whole model, whatever a job freezes of it: every operator has an output gradient then. */
static qs_status thaw(collection *one) {
    char *text = NULL;
    one->graph = one->setting->graph;
    if (one->graph->frozen_elements == 0) return QS_OK;
    QS_TRY(qs_graph_text(one->graph, &text));
    const qs_status status = qs_graph_parse(text, one->graph->name, &one->thawed);
    free(text);
    one->graph = one->thawed;
    return status;
}

static qs_status collection_start(collection *one) {
    const qs__setting *setting = one->setting;
    const qs_recipe **recipe = NULL;
    QS_TRY(thaw(one));
    const qs_graph *graph = one->graph;
    QS_TRY(operators_create(one));
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof(const qs_recipe *), &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = &setting->recipe[0]; /* fp32 */
    const qs_lowering lowering = {.graph = graph,
                                  .batch = one->batch,
                                  .mode = QS_MODE_STATISTICS,
                                  .job = setting->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(setting->class_),
                                  .lookup = qs_lookup_device,
                                  .context = setting->device};
    const qs_status status = qs_schedule_lower(&lowering, &one->schedule);
    free(recipe);
    QS_TRY(qs_fail_within(status, "class %s: statistics at batch %lld", setting->class_->name, (long long)one->batch));
    QS_TRY(qs_memory_reserve(setting->device, one->schedule->arena_bytes, &one->memory));
    QS_TRY(qs_executor_create(one->schedule, setting->device, setting->comm, one->memory, &one->executor));
    return qs_executor_initialize(one->executor, graph, setting->job->seed);
}

static void collection_end(collection *one) {
    qs_graph_release(one->thawed);
    qs_executor_release(one->executor);
    qs_schedule_release(one->schedule);
    qs_memory_release(one->memory);
    free(one->sum);
    free(one->extremum);
    free(one->histogram);
}

/* The weights that the training reached. */
static qs_status weights_take(const collection *one, float **out) {
    const size_t elements = (size_t)one->graph->trained_elements;
    QS_TRY(qs_allocate(elements, sizeof **out, out));
    return qs_executor_read(one->executor, one->schedule->masters, 0, elements * sizeof **out, *out);
}

qs_status qs__statistics_measure(const qs__setting *setting, int noise_runs, qs_statistics *out) {
    float *weights = NULL;
    const int64_t batch = setting->job->batch < LEAST_BATCH ? setting->job->batch : setting->job->batch / 2;
    const int64_t global = setting->ranks * setting->job->batch;
    collection one = {.setting = setting,
                      .batch = batch,
                      .scale = qs_loss_scale_start(setting->job),
                      .out = out,
                      .steps_per_epoch = (setting->training.count + global - 1) / global};
    *out = (qs_statistics){.batch = batch, .iterations = setting->options->statistics_iterations, .ranks = setting->ranks};
    qs_status status = qs_comm_agree(setting->comm, collection_start(&one));
    for (int i = 0; i < out->iterations && status == QS_OK; i++) {
        qs__progress(setting, 0.68 + 0.31 * i / out->iterations, "tensor statistics");
        status = iteration_run(&one, i);
    }
    if (status == QS_OK && out->iterations > 0) status = histograms_keep(&one);
    if (status == QS_OK && noise_runs > 0) status = qs_comm_agree(setting->comm, weights_take(&one, &weights));
    collection_end(&one);
    if (status == QS_OK && noise_runs > 0) {
        out->noise.iteration = out->iterations;
        status = qs__noise_measure(setting, out, &(qs__noise_order){.weights = weights, .runs = noise_runs}, &out->noise);
    }
    free(weights);
    return status;
}
