// SPDX-License-Identifier: Apache-2.0
#include "synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 3, SCRATCH = 4096, MOST_RECIPES = 8 };

/* ---- Costs ---- */

double synthetic_us(const synthetic_device *device, const qs_case *one) {
    const qs_format *format = one->operand[0].format;
    const double speed = format->kind == QS_KIND_INTEGER ? device->int8 : format->bits == 16 ? device->half : device->fp32;
    return 1 + fmax(one->op->kind == QS_ADJUSTABLE ? qs_case_flops(one) / speed : 0, qs_case_bytes(one) / device->bytes);
}

qs_status synthetic_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    synthetic_costs *costs = context;
    qs_class_profile *profile = costs->profile;
    *out = (qs_kernel_row){.kernel = "synthetic", .scratch_bytes = one->op->kind == QS_ADJUSTABLE ? SCRATCH : 0};
    for (int i = 0; i < profile->kernels; i++)
        if (strcmp(profile->kernel[i].case_text, case_text) == 0) return QS_OK;
    QS_TRY(qs_grow(&profile->kernel, &costs->kernels, (size_t)profile->kernels + 1, sizeof *profile->kernel));
    qs_kernel_cost *row = &profile->kernel[profile->kernels];
    row->us = row->us_low = row->us_high = synthetic_us(costs->device, one);
    row->scratch_bytes = (int64_t)out->scratch_bytes;
    row->samples = 9;
    memcpy(row->kernel, out->kernel, sizeof row->kernel);
    QS_TRY(qs_format_text(&row->case_text, "%s", case_text));
    profile->kernels++;
    return QS_OK;
}

/* A conversion moves its source and its result once. */
qs_status synthetic_conversion(synthetic_costs *costs, const qs_case *one) {
    qs_class_profile *profile = costs->profile;
    const qs_operand *src = &one->operand[qs_case_position(one, QS_SRC)];
    const double elements = (double)qs_shape_count(&src->shape);
    qs_conversion_cost row = {
        .from = src->format,
        .to = qs_conversion_target(one),
        .steps = qs_conversion_steps_of(one),
        .rounding = one->attributes.rounding,
        .least_squares = one->attributes.least_squares,
        .pieces = 1,
        .piece = {{.to_elements = 1 << 24, .us_per_element = qs_case_bytes(one) / costs->device->bytes / elements, .us = 1, .r2 = 1}}};
    snprintf(row.kind, sizeof row.kind, "%s", one->op->name);
    for (int i = 0; i < profile->conversions; i++) {
        const qs_conversion_cost *old = &profile->conversion[i];
        if (strcmp(old->kind, row.kind) == 0 && old->from == row.from && old->to == row.to && old->steps == row.steps &&
            old->rounding == row.rounding && old->least_squares == row.least_squares)
            return QS_OK;
    }
    QS_TRY(qs_grow(&profile->conversion, &costs->conversions, (size_t)profile->conversions + 1, sizeof row));
    profile->conversion[profile->conversions++] = row;
    return QS_OK;
}

static qs_status conversion_visit(void *context, const qs_draft_case *one, bool conversion) {
    return conversion ? synthetic_conversion(context, &one->case_) : QS_OK;
}

qs_status synthetic_cases(synthetic_costs *costs, const qs_graph *graph, const qs_class *class_, const qs_job *job) {
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = job,
                                  .half = qs_class_half(class_),
                                  .joins = costs->profile->joins,
                                  .lookup = synthetic_lookup,
                                  .context = costs};
    qs_recipe recipe[MOST_RECIPES];
    int recipes = 0;
    QS_TRY(qs_class_recipes(class_, MOST_RECIPES, recipe, &recipes));
    QS_TRY(qs_schedule_cases(&lowering, recipes, recipe, conversion_visit, costs));
    qs_class_profile_sort(costs->profile);
    return QS_OK;
}

/* ---- Classes ---- */

void synthetic_class_release(qs_class_profile *profile) {
    for (int i = 0; i < profile->kernels; i++)
        free(profile->kernel[i].case_text);
    free(profile->kernel);
    free(profile->conversion);
    *profile = (qs_class_profile){0};
}

qs_class synthetic_class(const synthetic_device *device) {
    qs_class one = {.inference = device->inference,
                    .count = device->count,
                    .threads = 1,
                    .speed = 1,
                    .memory_limit = device->memory_limit,
                    .memory_capacity = device->memory_limit};
    snprintf(one.name, sizeof one.name, "%s", device->name);
    snprintf(one.backend, sizeof one.backend, "cpu");
    snprintf(one.isa, sizeof one.isa, "all");
    for (int i = 0; i < 4 && device->formats[i]; i++) {
        const qs_format *format = qs_format_of(device->formats[i]);
        one.format[one.formats++] = format;
        if (format->kind == QS_KIND_FLOAT) one.storage[one.storages++] = format;
    }
    return one;
}

qs_status synthetic_cluster_make(int classes, const synthetic_device *device, qs_cluster *out) {
    *out = (qs_cluster){.classes = classes};
    QS_TRY(qs_allocate((size_t)classes, sizeof *out->class_, &out->class_));
    for (int c = 0; c < classes; c++)
        out->class_[c] = synthetic_class(&device[c]);
    return QS_OK;
}

/* ---- Statistics ---- */

typedef enum tensor_of { SRC = 1, DIFF_DST, WEIGHTS } tensor_of;

/* 0.1 to 10. */
static double draw(uint64_t key, tensor_of what) {
    return pow(10, 2 * (double)qs_random_uniform(key, what) - 1);
}

static void tensor_fill(qs_tensor_statistics *out, int64_t count, double variance, uint64_t key, tensor_of what, double wobble) {
    const double step = 4.5 * sqrt(variance) / 127, elements = (double)count;
    out->count = count;
    for (int i = 0; i < ITERATIONS; i++) {
        out->norm2[i] = variance * (1 + wobble * (double)qs_random_uniform(key, (uint64_t)(10 * (int)what + i))) * elements;
        out->absmax[i] = out->maximum[i] = 4.5 * sqrt(variance);
        out->minimum[i] = -out->absmax[i];
        out->channel_absmax2[i] = 9 * variance * elements;
        out->variance_int8[i] = step * step * elements / 6;
        out->variance_bf16[i] = out->variance_fp16[i] = out->variance_int8[i] / 16;
    }
}

qs_status synthetic_statistics_make(const qs_graph *graph, int64_t batch, int ranks, uint64_t seed, double wobble, qs_statistics *out) {
    *out = (qs_statistics){.batch = batch, .iterations = ITERATIONS, .ranks = ranks};
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        const qs_shape src = qs_graph_shape(graph, graph->node[n].input[0], batch), dst = qs_graph_shape(graph, n, batch);
        const uint64_t key = seed + (uint64_t)n;
        qs_operator_statistics *one = &out->operator_[out->operators++];
        QS_TRY(qs_operator_statistics_create(ITERATIONS, one));
        snprintf(one->name, sizeof one->name, "%s", graph->node[n].name);
        tensor_fill(&one->src, qs_shape_count(&src), draw(key, SRC), key, SRC, wobble);
        const qs_parameter *weights = qs_graph_parameter(graph, n, QS_WEIGHTS);
        const qs_shape factor = weights ? weights->shape : qs_graph_shape(graph, graph->node[n].input[1], batch);
        tensor_fill(&one->weights, qs_shape_count(&factor), 0.01, key, WEIGHTS, wobble);
        tensor_fill(&one->diff_dst, qs_shape_count(&dst), 1e-8 * draw(key, DIFF_DST), key, DIFF_DST, wobble);
    }
    return QS_OK;
}

/* ---- Profile ---- */

const qs_collective_cost synthetic_ring = {.ranks = 2, .algorithm = "ring", .alpha_us = 20, .us_per_byte = 1e-4, .r2 = 1};

static qs_status class_profile(const qs_graph *graph, const qs_class *class_, const synthetic_device *device, const qs_job *job,
                               qs_class_profile *out) {
    synthetic_costs costs = {.device = device, .profile = out};
    *out = (qs_class_profile){.threads = class_->threads,
                              .joins = device->joins,
                              .speed = class_->speed,
                              .step_overhead_us = 0.5,
                              .iteration_overhead_us = 20,
                              .data_us_per_sample = 0.5};
    snprintf(out->class_name, sizeof out->class_name, "%s", class_->name);
    snprintf(out->backend, sizeof out->backend, "%s", class_->backend);
    return synthetic_cases(&costs, graph, class_, job);
}

qs_status synthetic_profile_make(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device, const qs_job *job,
                                 const qs_collective_cost *reduce, qs_profile *out) {
    *out = (qs_profile){.batch = job->batch, .samples = graph->samples};
    qs_graph_signature(graph, out->graph);
    snprintf(out->model, sizeof out->model, "%s", graph->name);
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    QS_TRY(qs_allocate(1, sizeof *out->collective, &out->collective));
    *out->collective = *reduce;
    out->collectives = 1;
    out->classes = cluster->classes;
    for (int c = 0; c < cluster->classes; c++)
        QS_TRY(class_profile(graph, &cluster->class_[c], &device[c], job, &out->class_[c]));
    return QS_OK;
}
