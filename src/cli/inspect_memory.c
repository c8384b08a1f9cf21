// SPDX-License-Identifier: Apache-2.0
/* The arena of a training step by category at its fullest, and the buffers that fill it: lowered with the kernels of a local device, so it
 * is what training under these recipes reserves, to the byte. */
#include <stdlib.h>
#include <string.h>

#include "inspect.h"

enum { LARGEST = 10, BAR = 32 };

typedef struct lowered {
    const qs_graph *graph;
    qs_graph *of_data; /* graph, where the plan's data set decides its input */
    qs_job job;
    qs_plan plan; /* zeroed without one */
    qs_recipe uniform;
    const qs_recipe **recipe; /* (nodes) */
    qs_tensor_table tensors;
    size_t kept_bytes;  /* the arena, were nothing computed again */
    qs_cluster cluster; /* of the device that lends its kernels */
    qs_device *device;
    qs_schedule *schedule;
    const char *what; /* recipe, or class of the plan */
} lowered;

/* ---- Lowering -------------------------------------------------------------------------------------------------------------------- */

static const char *best_backend(void) {
    for (size_t i = 0; qs_device_backend_at(i); i++)
        if (strcmp(qs_device_backend_at(i), "cpu") == 0) return "cpu";
    return "ref";
}

static qs_status uniform_bind(const qs_graph *graph, lowered *out) {
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->recipe, &out->recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) out->recipe[n] = &out->uniform;
    return QS_OK;
}

static qs_status data_model(const memory_question *question, lowered *out) {
    qs_job job = out->job;
    if (question->own_input || !job.dataset[0]) return QS_OK;
    snprintf(job.model, sizeof job.model, "%s", question->graph->name);
    QS_TRY(job_model_open(&job, &out->of_data));
    out->graph = out->of_data;
    return QS_OK;
}

static qs_status plan_bind(const memory_question *question, lowered *out) {
    const qs_class_plan *one = NULL;
    QS_TRY(qs_plan_read(question->plan, &out->plan));
    if (out->plan.classes > 0) one = question->class_name ? qs_plan_class(&out->plan, question->class_name) : &out->plan.class_[0];
    if (!one) return qs_fail(QS_USAGE, "%s: no class %s", question->plan, question->class_name ? question->class_name : "at all");
    if (!out->plan.without_job) out->job = out->plan.job;
    if (one->batch > 0) out->job.batch = one->batch;
    out->what = one->class_name;
    QS_TRY(data_model(question, out));
    QS_TRY(qs_plan_bind(&out->plan, one->class_name, out->graph, &out->recipe));
    return qs_tensors_bind(one, out->graph, &out->tensors);
}

static qs_status recipes_bind(const memory_question *question, lowered *out) {
    qs_job_default(&out->job);
    out->graph = question->graph;
    out->job.batch = 1;
    out->what = question->recipe;
    if (question->plan) return plan_bind(question, out);
    QS_TRY(qs_comm_wire_check(question->wire, out->job.algorithm));
    snprintf(out->job.wire, sizeof out->job.wire, "%s", question->wire);
    QS_TRY(qs_recipe_builtin(question->recipe, &out->uniform));
    QS_TRY(uniform_bind(out->graph, out));
    qs_class_plan blocks = {0};
    qs_status status = qs_fail_within(qs_recompute_list(question->recompute, out->graph, &blocks), "--recompute");
    if (status == QS_OK) status = qs_tensors_bind(&blocks, out->graph, &out->tensors);
    free(blocks.recompute);
    return status;
}

static qs_status lower(const memory_question *question, lowered *out) {
    const char *backend = question->backend ? question->backend : best_backend();
    QS_TRY(recipes_bind(question, out));
    if (question->batch > 0) out->job.batch = question->batch;
    if (!question->plan) QS_TRY(qs_job_optimizer_set(&out->job, question->optimizer));
    QS_TRY(qs_cluster_single(backend, 1, &out->cluster));
    QS_TRY(qs_device_open(&(qs_device_options){.backend = backend, .threads = 1, .speed = 1}, &out->device));
    QS_TRY(tuned_take(out->device));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = out->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &out->job,
                                  .recipe = out->recipe,
                                  .half = qs_class_half(&out->cluster.class_[0]),
                                  .tensors = &out->tensors,
                                  .joins = qs_device_joins(out->device),
                                  .lookup = qs_lookup_device,
                                  .context = out->device};
    if (out->tensors.recomputed) QS_TRY(qs_schedule_kept_bytes(&lowering, &out->kept_bytes));
    return qs_schedule_lower(&lowering, &out->schedule);
}

static void lowered_release(lowered *one) {
    qs_schedule_release(one->schedule);
    qs_device_close(one->device);
    qs_cluster_release(&one->cluster);
    free(one->recipe);
    qs_tensor_table_release(&one->tensors);
    qs_plan_release(&one->plan);
    qs_graph_release(one->of_data);
}

/* ---- What lives at the peak -------------------------------------------------------------------------------------------------------- */

static bool is_live(const qs_schedule *schedule, const qs_buffer *buffer) {
    return buffer->first <= schedule->peak_step && schedule->peak_step <= buffer->last && buffer->first != -2;
}

/* Places are multiples of 64 bytes. */
static size_t placed_bytes(const qs_buffer *buffer) {
    return (buffer->bytes + 63) / 64 * 64;
}

static size_t persistent_bytes(const qs_schedule *schedule, int category) {
    size_t sum = 0;
    for (int b = 0; b < schedule->buffers; b++)
        if (schedule->buffer[b].persistent && (int)schedule->buffer[b].category == category) sum += placed_bytes(&schedule->buffer[b]);
    return sum;
}

static int larger_first(const void *left, const void *right) {
    const qs_buffer *a = *(const qs_buffer *const *)left, *b = *(const qs_buffer *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The caller frees. */
static qs_status largest_find(const qs_schedule *schedule, const qs_buffer ***out, int *count) {
    const qs_buffer **live = NULL;
    QS_TRY(qs_allocate((size_t)schedule->buffers, sizeof *live, &live));
    *count = 0;
    for (int b = 0; b < schedule->buffers; b++)
        if (schedule->buffer[b].bytes > 0 && is_live(schedule, &schedule->buffer[b])) live[(*count)++] = &schedule->buffer[b];
    qsort(live, (size_t)*count, sizeof *live, larger_first);
    if (*count > LARGEST) *count = LARGEST;
    *out = live;
    return QS_OK;
}

/* "backward, conv2d/weight_gradient of conv1"; before the first step the host fills the input. */
static void peak_text(const qs_graph *graph, const qs_schedule *schedule, char *text, size_t size) {
    const int s = schedule->peak_step;
    if (s < 0 || s >= schedule->steps) {
        snprintf(text, size, "%s", s < 0 ? "before the first step" : "behind the last step");
        return;
    }
    const qs_step *step = &schedule->step[s];
    const char *node = step->node >= 0 ? graph->node[step->node].name : "all weights";
    if (step->kind == QS_STEP_KERNEL)
        snprintf(text, size, "%s, %s/%s of %s", qs_phase_name(step->phase), step->case_.op->name, step->case_.pass->name, node);
    else
        snprintf(text, size, "%s, all-reduce of bucket %d", qs_phase_name(step->phase), step->bucket);
}

/* ---- Text ---------------------------------------------------------------------------------------------------------------------------- */

static void category_print(const qs_schedule *schedule, int category) {
    const size_t bytes = schedule->category_bytes[category], persistent = persistent_bytes(schedule, category);
    const double share = schedule->live_bytes > 0 ? (double)bytes / (double)schedule->live_bytes : 0;
    char bar[BAR + 1] = "";
    if (bytes == 0) return;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(BAR * share + 0.5) ? '#' : '.';
    bar[BAR] = 0;
    printf("%-24s %12s %7.1f %%  %s  %s\n", qs_category_name((qs_category)category), bytes_text((double)bytes), 100 * share, bar,
           persistent == bytes ? "persistent" : "transient");
}

static void text_print(const memory_question *question, const lowered *one, const qs_buffer *const *largest, int count) {
    const qs_schedule *schedule = one->schedule;
    qs_device_info info;
    char peak[256];
    qs_device_describe(one->device, &info);
    peak_text(one->graph, schedule, peak, sizeof peak);
    printf("%s, batch %lld, %s %s, kernels of %s (%s)\n", question->graph->name, (long long)schedule->batch,
           question->plan ? "plan of class" : "recipe", one->what, info.backend, info.library);
    printf("arena %s: persistent %s, transient %s; live at the peak %s, lost to packing %s\n", bytes_text((double)schedule->arena_bytes),
           bytes_text((double)schedule->persistent_bytes), bytes_text((double)(schedule->arena_bytes - schedule->persistent_bytes)),
           bytes_text((double)schedule->live_bytes), bytes_text((double)(schedule->arena_bytes - schedule->live_bytes)));
    if (one->kept_bytes > 0) {
        int steps = 0;
        for (int s = 0; s < schedule->steps; s++)
            steps += schedule->step[s].recomputed;
        printf("%d steps are computed again; were all kept, the arena would have %s\n", steps, bytes_text((double)one->kept_bytes));
    }
    printf("peak in step %d of %d: %s\n\n", schedule->peak_step + 1, schedule->steps, peak);
    for (int c = 0; c < QS_CATEGORY_COUNT; c++)
        category_print(schedule, c);
    printf("\n%-44s %-24s %12s  %s\n", "largest buffers at the peak", "category", "bytes", "lives in steps");
    for (int i = 0; i < count; i++) {
        const bool always = largest[i]->persistent;
        printf("%-44.44s %-24s %12s  ", largest[i]->name, qs_category_name(largest[i]->category), bytes_text((double)largest[i]->bytes));
        if (always)
            printf("all\n");
        else
            printf("%d to %d\n", largest[i]->first + 1, largest[i]->last + 1);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------------------- */

static json_t *categories_json(const qs_schedule *schedule) {
    json_t *all = json_object();
    for (int c = 0; c < QS_CATEGORY_COUNT; c++)
        json_object_set_new(all, qs_category_name((qs_category)c),
                            json_pack("{s:I,s:I}", "bytes", (json_int_t)schedule->category_bytes[c], "persistent_bytes",
                                      (json_int_t)persistent_bytes(schedule, c)));
    return all;
}

static json_t *largest_json(const qs_buffer *const *largest, int count) {
    json_t *all = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(all, json_pack("{s:s,s:s,s:I,s:b,s:i,s:i}", "name", largest[i]->name, "category",
                                             qs_category_name(largest[i]->category), "bytes", (json_int_t)largest[i]->bytes, "persistent",
                                             (int)largest[i]->persistent, "first_step", largest[i]->first, "last_step", largest[i]->last));
    return all;
}

static qs_status json_out(const memory_question *question, const lowered *one, const qs_buffer *const *largest, int count) {
    const qs_schedule *schedule = one->schedule;
    qs_device_info info;
    char peak[256];
    qs_device_describe(one->device, &info);
    peak_text(one->graph, schedule, peak, sizeof peak);
    return json_print(json_pack(
        "{s:s,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:{s:i,s:i,s:s},s:o,s:o}", "model", question->graph->name, "batch", (json_int_t)schedule->batch,
        question->plan ? "class" : "recipe", one->what, "backend", info.backend, "arena_bytes", (json_int_t)schedule->arena_bytes,
        "kept_bytes", (json_int_t)(one->kept_bytes > 0 ? one->kept_bytes : schedule->arena_bytes), "persistent_bytes",
        (json_int_t)schedule->persistent_bytes, "live_bytes", (json_int_t)schedule->live_bytes, "peak", "step", schedule->peak_step,
        "steps", schedule->steps, "what", peak, "categories", categories_json(schedule), "largest", largest_json(largest, count)));
}

qs_status memory_inspect(const memory_question *question, bool json) {
    lowered one = {0};
    const qs_buffer **largest = NULL;
    int count = 0;
    qs_status status = lower(question, &one);
    if (status == QS_OK) status = largest_find(one.schedule, &largest, &count);
    if (status == QS_OK && json) status = json_out(question, &one, largest, count);
    if (status == QS_OK && !json) text_print(question, &one, largest, count);
    free(largest);
    lowered_release(&one);
    return status;
}
