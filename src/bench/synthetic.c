// SPDX-License-Identifier: Apache-2.0
#include "synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 3, SCRATCH = 4096, MOST_RECIPES = 8 };

/* ---- Costs ---- */

static double case_us(const synthetic_device *device, const qs_case *one) {
    const qs_format *format = one->operand[0].format;
    const double speed = format->kind == QS_KIND_INTEGER ? device->int8 : format->bits == 16 ? device->half : device->fp32;
    return 1 + fmax(one->op->kind == QS_ADJUSTABLE ? qs_case_flops(one) / speed : 0, qs_case_bytes(one) / device->bytes);
}

/* A conversion moves its source and its result once. */
static qs_status conversion_note(synthetic_costs *costs, const qs_case *one) {
    const int src = qs_case_position(one, QS_SRC), dst = qs_case_position(one, QS_DST);
    const double elements = (double)qs_shape_count(&one->operand[src].shape);
    if (qs_cost_conversion(&costs->profile, one)) return QS_OK;
    qs_conversion_cost row = {.from = one->operand[src].format,
                              .to = dst < 0 ? NULL : one->operand[dst].format,
                              .steps = qs_conversion_steps_of(one),
                              .rounding = one->attributes.rounding,
                              .pieces = 1,
                              .piece = {{.us_per_element = qs_case_bytes(one) / costs->device->bytes / elements, .us = 1}}};
    snprintf(row.kind, sizeof row.kind, "%s", one->op->name);
    QS_TRY(qs_grow(&costs->profile.conversion, &costs->conversions, (size_t)costs->profile.conversions + 1, sizeof row));
    costs->profile.conversion[costs->profile.conversions++] = row;
    return QS_OK;
}

qs_status synthetic_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    synthetic_costs *costs = context;
    qs_class_profile *profile = &costs->profile;
    *out = (qs_kernel_row){.kernel = "synthetic", .scratch_bytes = one->op->kind == QS_ADJUSTABLE ? SCRATCH : 0};
    if (one->op->kind == QS_AUXILIARY || one->op == qs_op_of("add")) QS_TRY(conversion_note(costs, one));
    QS_TRY(qs_grow(&profile->kernel, &costs->kernels, (size_t)profile->kernels + 1, sizeof *profile->kernel));
    qs_kernel_cost *row = &profile->kernel[profile->kernels];
    row->us = row->us_low = row->us_high = case_us(costs->device, one);
    row->scratch_bytes = (int64_t)out->scratch_bytes;
    memcpy(row->kernel, out->kernel, sizeof row->kernel);
    QS_TRY(qs_format_text(&row->case_text, "%s", case_text));
    profile->kernels++;
    return QS_OK;
}

void synthetic_release(synthetic_costs *costs) {
    qs_class_profile *profile = &costs->profile;
    for (int i = 0; i < profile->kernels; i++)
        free(profile->kernel[i].case_text);
    free(profile->kernel);
    free(profile->conversion);
    *costs = (synthetic_costs){0};
}

/* ---- Cluster ---- */

static void class_fill(const synthetic_device *device, qs_class *out) {
    *out = (qs_class){.inference = device->inference, .count = device->count, .threads = 1, .speed = 1};
    snprintf(out->name, sizeof out->name, "%s", device->name);
    snprintf(out->backend, sizeof out->backend, "cpu");
    snprintf(out->isa, sizeof out->isa, "all");
    for (int i = 0; i < 4 && device->format[i]; i++) {
        const qs_format *format = qs_format_of(device->format[i]);
        out->format[out->formats++] = format;
        if (format->kind == QS_KIND_FLOAT) out->storage[out->storages++] = format;
    }
}

qs_status synthetic_cluster(int classes, const synthetic_device *device, qs_cluster *out) {
    *out = (qs_cluster){.classes = classes};
    QS_TRY(qs_allocate((size_t)classes, sizeof *out->class_, &out->class_));
    for (int c = 0; c < classes; c++)
        class_fill(&device[c], &out->class_[c]);
    return QS_OK;
}

/* ---- Statistics ---- */

static void tensor_fill(qs_tensor_statistics *out, int64_t count, double variance) {
    const double step = 4.5 * sqrt(variance) / 127, elements = (double)count;
    out->count = count;
    for (int i = 0; i < ITERATIONS; i++) {
        out->norm2[i] = variance * elements;
        out->absmax[i] = out->maximum[i] = 4.5 * sqrt(variance);
        out->minimum[i] = -out->absmax[i];
        out->channel_absmax2[i] = 9 * variance * elements;
        out->variance_int8[i] = step * step * elements / 6;
        out->variance_bf16[i] = out->variance_fp16[i] = out->variance_int8[i] / 16;
    }
}

/* Operators matter differently: variances differ by a factor of up to a hundred. */
static double draw(int node, uint64_t what) {
    return pow(10, 2 * (double)qs_random_uniform((uint64_t)node, what) - 1);
}

static qs_status statistics_fill(const qs_graph *graph, const qs_job *job, int ranks, qs_statistics *out) {
    *out = (qs_statistics){.batch = job->batch, .iterations = ITERATIONS, .ranks = ranks};
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        const qs_shape src = qs_graph_shape(graph, graph->node[n].input[0], job->batch), dst = qs_graph_shape(graph, n, job->batch);
        qs_operator_statistics *one = &out->operator_[out->operators++];
        QS_TRY(qs_operator_statistics_create(ITERATIONS, one));
        snprintf(one->name, sizeof one->name, "%s", graph->node[n].name);
        tensor_fill(&one->src, qs_shape_count(&src), draw(n, 1));
        tensor_fill(&one->weights, qs_shape_count(&qs_graph_parameter(graph, n, QS_WEIGHTS)->shape), 0.01);
        tensor_fill(&one->diff_dst, qs_shape_count(&dst), 1e-8 * draw(n, 2));
    }
    return QS_OK;
}

/* ---- Profile ---- */

static qs_status class_make(const qs_graph *graph, const qs_class *class_, const synthetic_device *device, const qs_job *job,
                            qs_class_profile *out) {
    synthetic_costs costs = {.device = device};
    qs_recipe recipe[MOST_RECIPES];
    int recipes = 0;
    QS_TRY(qs_class_recipes(class_, MOST_RECIPES, recipe, &recipes));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = job,
                                  .half = qs_class_half(class_),
                                  .lookup = synthetic_lookup,
                                  .context = &costs};
    qs_status status = QS_OK;
    QS_GOTO(qs_schedule_cases(&lowering, recipes, recipe, NULL, NULL));
    qs_class_profile_sort(&costs.profile);
    costs.profile.step_overhead_us = 0.5;
    costs.profile.threads = class_->threads;
    snprintf(costs.profile.backend, sizeof costs.profile.backend, "%s", class_->backend);
    costs.profile.speed = class_->speed;
    costs.profile.iteration_overhead_us = 20;
    costs.profile.data_us_per_sample = 0.5;
    snprintf(costs.profile.class_name, sizeof costs.profile.class_name, "%s", class_->name);
    *out = costs.profile;
    costs = (synthetic_costs){0};
done:
    synthetic_release(&costs);
    return status;
}

qs_status synthetic_profile(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device, const qs_job *job,
                            qs_profile *out) {
    *out = (qs_profile){.batch = job->batch};
    qs_graph_signature(graph, out->graph);
    snprintf(out->model, sizeof out->model, "%s", graph->name);
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    QS_TRY(qs_allocate(1, sizeof *out->collective, &out->collective));
    out->classes = cluster->classes;
    for (int c = 0; c < cluster->classes; c++)
        QS_TRY(class_make(graph, &cluster->class_[c], &device[c], job, &out->class_[c]));
    out->collectives = 1;
    *out->collective = (qs_collective_cost){.ranks = 2, .algorithm = "ring", .alpha_us = 20, .us_per_byte = 1e-4, .r2 = 1};
    return statistics_fill(graph, job, qs_cluster_ranks(cluster), &out->statistics);
}
