// SPDX-License-Identifier: Apache-2.0
/* Made-up clusters and profiles for tests of the DECIDE side: every case that plans can contain, priced by a roofline (the
 * larger of operations over speed and bytes over bandwidth), conversions by the line they follow, plausible statistics. */
#ifndef QSYNC_TESTS_KIT_SYNTHETIC
#define QSYNC_TESTS_KIT_SYNTHETIC

#include "kit.h"
#include "qsync/costmodel.h"
#include "schedule.h"

typedef struct synthetic_device {
    const char *name;
    bool inference;
    int count;
    const char *formats[4];  /* fp32 among them; NULL behind the last */
    double fp32, half, int8; /* operations a microsecond */
    double bytes;            /* a microsecond */
    int64_t memory_limit;    /* 0: none */
} synthetic_device;

/* A quick training device, and a weak one that is quick only in few bits. */
#define SYNTHETIC_STRONG \
    { .name = "strong", .count = 1, .formats = {"fp32"}, .fp32 = 200e3, .half = 200e3, .int8 = 200e3, .bytes = 40e3 }
#define SYNTHETIC_WEAK                                                                                                                   \
    {                                                                                                                                    \
        .name = "weak", .inference = true, .count = 1, .formats = {"fp32", "bf16", "int8"}, .fp32 = 120e3, .half = 240e3, .int8 = 480e3, \
        .bytes = 30e3                                                                                                                    \
    }

/* ---- Cluster ---- */

static inline qs_class synthetic_class(const synthetic_device *device) {
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

static inline qs_cluster synthetic_cluster(int count, const synthetic_device *device) {
    qs_cluster cluster = {.classes = count, .class_ = calloc((size_t)count, sizeof(qs_class))};
    assert_non_null(cluster.class_);
    for (int c = 0; c < count; c++)
        cluster.class_[c] = synthetic_class(&device[c]);
    return cluster;
}

/* ---- Prices ---- */

static inline bool synthetic_is_gemm(const qs_case *one) {
    return one->op->kind == QS_ADJUSTABLE;
}

static inline double synthetic_us(const synthetic_device *device, const qs_case *one) {
    const qs_format *format = one->operand[0].format;
    const double speed = format->kind == QS_KIND_INTEGER ? device->int8 : format->bits == 16 ? device->half : device->fp32;
    const double memory = qs_case_bytes(one) / device->bytes;
    return 1 + fmax(synthetic_is_gemm(one) ? qs_case_flops(one) / speed : 0, memory);
}

/* A conversion moves its source and its result once. */
static inline qs_fit_piece synthetic_piece(const synthetic_device *device, const qs_case *one) {
    const qs_operand *src = &one->operand[qs_case_position(one, QS_SRC)];
    return (qs_fit_piece){.to_elements = 1 << 24,
                          .us_per_element = qs_case_bytes(one) / device->bytes / (double)qs_shape_count(&src->shape),
                          .us = 1,
                          .r2 = 1};
}

/* ---- Recording ---- */

typedef struct synthetic_recorder {
    const synthetic_device *device;
    qs_class_profile *out;
    size_t kernels, conversions; /* capacities */
    int slots;
    int *slot; /* by hash of the text */
    bool failed;
} synthetic_recorder;

static inline int *synthetic_slot(synthetic_recorder *one, const char *text) {
    size_t at = (size_t)qs_hash(text, strlen(text), 0) % (size_t)one->slots;
    while (one->slot[at] >= 0 && strcmp(one->out->kernel[one->slot[at]].case_text, text) != 0)
        at = (at + 1) % (size_t)one->slots;
    return &one->slot[at];
}

static inline qs_status synthetic_record(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    synthetic_recorder *recorder = context;
    int *slot = synthetic_slot(recorder, case_text);
    *out = (qs_kernel_row){.kernel = "synthetic", .scratch_bytes = synthetic_is_gemm(one) ? 4096 : 0};
    if (*slot >= 0) return QS_OK;
    assert_true(recorder->out->kernels < recorder->slots / 2);
    *slot = recorder->out->kernels;
    QS_TRY(qs_grow(&recorder->out->kernel, &recorder->kernels, (size_t)recorder->out->kernels + 1, sizeof *recorder->out->kernel));
    qs_kernel_cost *row = &recorder->out->kernel[recorder->out->kernels++];
    *row = (qs_kernel_cost){.scratch_bytes = (int64_t)out->scratch_bytes, .samples = 9};
    row->us = row->us_low = row->us_high = synthetic_us(recorder->device, one);
    snprintf(row->kernel, sizeof row->kernel, "%s", out->kernel);
    return qs_format_text(&row->case_text, "%s", case_text);
}

static inline void synthetic_conversion(synthetic_recorder *one, const qs_case *case_) {
    qs_conversion_cost row = {.from = case_->operand[qs_case_position(case_, QS_SRC)].format,
                              .to = qs_conversion_target(case_),
                              .steps = qs_conversion_steps_of(case_),
                              .rounding = case_->attributes.rounding,
                              .pieces = 1,
                              .piece = {synthetic_piece(one->device, case_)}};
    snprintf(row.kind, sizeof row.kind, "%s", case_->op->name);
    for (int i = 0; i < one->out->conversions; i++) {
        const qs_conversion_cost *old = &one->out->conversion[i];
        if (strcmp(old->kind, row.kind) == 0 && old->from == row.from && old->to == row.to && old->steps == row.steps &&
            old->rounding == row.rounding)
            return;
    }
    assert_ok(qs_grow(&one->out->conversion, &one->conversions, (size_t)one->out->conversions + 1, sizeof row));
    one->out->conversion[one->out->conversions++] = row;
}

static inline void synthetic_mix(synthetic_recorder *one, const qs_graph *graph, const qs_class *class_, const qs_job *job,
                                 const qs_recipe *const *list) {
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = job,
                                  .recipe = list,
                                  .half = qs_class_half(class_),
                                  .lookup = synthetic_record,
                                  .context = one};
    qs_schedule *schedule = lower(&lowering);
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].conversion) synthetic_conversion(one, &schedule->step[s].case_);
    qs_schedule_release(schedule);
}

static inline qs_status synthetic_visit(void *context, const qs_draft_case *one, bool conversion) {
    if (conversion) synthetic_conversion(context, &one->case_);
    return QS_OK;
}

/* Every case of every plan over the class's recipes. */
static inline void synthetic_cases(synthetic_recorder *one, const qs_graph *graph, const qs_class *class_, const qs_job *job) {
    qs_recipe recipe[8];
    int recipes = 0;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = job,
                                  .half = qs_class_half(class_),
                                  .lookup = synthetic_record,
                                  .context = one};
    assert_ok(qs_class_recipes(class_, 8, recipe, &recipes));
    assert_ok(qs_schedule_cases(&lowering, recipes, recipe, synthetic_visit, one));
}

static inline void synthetic_class_profile(const qs_graph *graph, const qs_class *class_, const synthetic_device *device, const qs_job *job,
                                           qs_class_profile *out) {
    synthetic_recorder recorder = {.device = device, .out = out, .slots = 1 << 14};
    recorder.slot = malloc((size_t)recorder.slots * sizeof *recorder.slot);
    assert_non_null(recorder.slot);
    for (int i = 0; i < recorder.slots; i++)
        recorder.slot[i] = -1;
    *out = (qs_class_profile){
        .threads = 1, .speed = 1, .base_bytes = 50 << 20, .step_overhead_us = 0.5, .iteration_overhead_us = 20, .data_us_per_sample = 0.5};
    snprintf(out->class_name, sizeof out->class_name, "%s", class_->name);
    snprintf(out->backend, sizeof out->backend, "%s", class_->backend);
    synthetic_cases(&recorder, graph, class_, job);
    qs_class_profile_sort(out);
    free(recorder.slot);
}

/* ---- Simulated formats ---- */

static inline void synthetic_any_size(synthetic_recorder *one, const char *pass, const char *from, const char *to, const char *rest) {
    char text[QS_CASE_TEXT];
    qs_case case_;
    qs_kernel_row row;
    snprintf(text, sizeof text, "%s src=%s[64] dst=%s[64]%s", pass, from, to, rest);
    assert_ok(qs_case_parse(text, &case_));
    assert_ok(synthetic_record(one, &case_, qs_case_text(&case_, text), &row));
    synthetic_conversion(one, &case_);
}

/* The model in fp32 with operators apart that one kernel does otherwise: as where tensors are rounded one by one. */
static inline void synthetic_apart(synthetic_recorder *one, const qs_graph *graph, const qs_class *class_, const qs_job *job) {
    const qs_recipe **none = calloc((size_t)graph->nodes, sizeof *none);
    qs_tensor_table tensors = {calloc((size_t)graph->nodes, sizeof *tensors.value),
                               calloc((size_t)graph->parameters + 1, sizeof *tensors.parameter)};
    qs_lowering lowering = lowering_of(graph, job, QS_MODE_TRAIN, none);
    assert_true(none && tensors.value && tensors.parameter);
    lowering.half = qs_class_half(class_);
    lowering.tensors = &tensors;
    lowering.lookup = synthetic_record;
    lowering.context = one;
    qs_schedule_release(lower(&lowering));
    qs_tensor_table_release(&tensors);
    free(none);
}

/* What a profile of a class that stores these formats, without computing in them, has for assigning tensors to them. */
static inline void synthetic_simulates(const qs_graph *graph, const qs_job *job, qs_class *class_, const synthetic_device *device,
                                       int formats, const char *const *format, qs_class_profile *out) {
    synthetic_recorder one = {
        .device = device, .out = out, .kernels = (size_t)out->kernels, .conversions = (size_t)out->conversions, .slots = 1 << 14};
    one.slot = malloc((size_t)one.slots * sizeof *one.slot);
    assert_non_null(one.slot);
    for (int i = 0; i < one.slots; i++)
        one.slot[i] = -1;
    for (int k = 0; k < out->kernels; k++)
        *synthetic_slot(&one, out->kernel[k].case_text) = k;
    synthetic_apart(&one, graph, class_, job);
    for (int f = 0; f < formats; f++) {
        char rest[128];
        class_->storage[class_->storages++] = qs_format_of(format[f]);
        snprintf(rest, sizeof rest, " to=%s", format[f]);
        synthetic_any_size(&one, "round/forward", "fp32", "fp32", rest);
        snprintf(rest, sizeof rest, " packed=%s[64] to=%s", format[f], format[f]);
        synthetic_any_size(&one, "round/pack", "fp32", "fp32", rest);
        synthetic_any_size(&one, "cast/forward", "fp32", format[f], "");
        synthetic_any_size(&one, "cast/forward", format[f], "fp32", "");
    }
    free(one.slot);
    qs_class_profile_sort(out);
}

/* ---- Statistics ---- */

static inline void synthetic_tensor(qs_tensor_statistics *out, int iterations, int64_t count, double variance, uint64_t key) {
    out->count = count;
    for (int i = 0; i < iterations; i++) {
        const double wobble = 1 + 0.1 * (double)qs_random_uniform(key, (uint64_t)i), step = 4.5 * sqrt(variance) / 127;
        out->norm2[i] = variance * wobble * (double)count;
        out->absmax[i] = 4.5 * sqrt(variance);
        out->minimum[i] = -out->absmax[i];
        out->maximum[i] = out->absmax[i];
        out->channel_absmax2[i] = 9 * variance * (double)count;
        out->variance_int8[i] = step * step * (double)count / 6;
        out->variance_bf16[i] = out->variance_fp16[i] = out->variance_int8[i] / 16;
    }
}

/* Operators matter differently: variances differ by a factor of up to a hundred. */
static inline void synthetic_statistics(const qs_graph *graph, int64_t batch, int ranks, uint64_t seed, qs_statistics *out) {
    *out = (qs_statistics){.batch = batch, .iterations = 3, .ranks = ranks};
    out->operator_ = calloc((size_t)graph->nodes, sizeof *out->operator_);
    assert_non_null(out->operator_);
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        const uint64_t key = qs_random_key(seed, (uint64_t)n, 0, 0);
        const qs_shape src = qs_graph_shape(graph, graph->node[n].input[0], batch), dst = qs_graph_shape(graph, n, batch);
        qs_operator_statistics *one = &out->operator_[out->operators++];
        assert_ok(qs_operator_statistics_create(out->iterations, one));
        snprintf(one->name, sizeof one->name, "%s", graph->node[n].name);
        synthetic_tensor(&one->src, 3, qs_shape_count(&src), pow(10, 2 * (double)qs_random_uniform(key, 10) - 1), key + 1);
        synthetic_tensor(&one->weights, 3, qs_shape_count(&qs_graph_parameter(graph, n, QS_WEIGHTS)->shape), 0.01, key + 2);
        synthetic_tensor(&one->diff_dst, 3, qs_shape_count(&dst), 1e-8 * pow(10, 2 * (double)qs_random_uniform(key, 11) - 1), key + 3);
    }
}

/* ---- Profile ---- */

static inline qs_profile synthetic_profile(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device,
                                           const qs_job *job) {
    qs_profile profile = {.batch = job->batch, .classes = cluster->classes, .collectives = 1};
    qs_graph_signature(graph, profile.graph);
    snprintf(profile.model, sizeof profile.model, "%s", graph->name);
    profile.samples = graph->samples;
    profile.class_ = calloc((size_t)cluster->classes, sizeof *profile.class_);
    profile.collective = calloc(1, sizeof *profile.collective);
    assert_true(profile.class_ && profile.collective);
    for (int c = 0; c < cluster->classes; c++)
        synthetic_class_profile(graph, &cluster->class_[c], &device[c], job, &profile.class_[c]);
    *profile.collective =
        (qs_collective_cost){.ranks = 2, .algorithm = "shared", .alpha_us = 20, .us_per_byte = 5e-4, .r2 = 1, .temporary_per_byte = 0.5};
    synthetic_statistics(graph, job->batch / 2 > 0 ? job->batch / 2 : 1, qs_cluster_ranks(cluster), 7, &profile.statistics);
    return profile;
}

/* ---- Other batches ---- */

static inline void synthetic_rows_add(qs_class_profile *out, qs_class_profile *from) {
    size_t capacity = (size_t)out->kernels;
    const int before = out->kernels;
    for (int i = 0; i < from->kernels; i++) {
        bool known = false;
        for (int k = 0; k < before && !known; k++)
            known = strcmp(out->kernel[k].case_text, from->kernel[i].case_text) == 0;
        if (known) {
            free(from->kernel[i].case_text);
            continue;
        }
        assert_ok(qs_grow(&out->kernel, &capacity, (size_t)out->kernels + 1, sizeof *out->kernel));
        out->kernel[out->kernels++] = from->kernel[i];
    }
    free(from->kernel);
    free(from->conversion);
    qs_class_profile_sort(out);
}

/* Rows of a profile that was made for job->batch at so many ascending batches, that one among them. */
static inline void synthetic_batches_add(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device,
                                         const qs_job *job, int batches, const int64_t *batch, qs_profile *profile) {
    profile->batch_row = calloc((size_t)batches, sizeof *profile->batch_row);
    assert_non_null(profile->batch_row);
    for (int b = 0; b < batches; b++) {
        qs_job other = *job;
        other.batch = batch[b];
        profile->batch_row[profile->batches++] = (qs_profile_batch){batch[b], true};
        for (int c = 0; c < cluster->classes && batch[b] != job->batch; c++) {
            qs_class_profile rows = {0};
            synthetic_class_profile(graph, &cluster->class_[c], &device[c], &other, &rows);
            synthetic_rows_add(&profile->class_[c], &rows);
        }
    }
}

#endif
