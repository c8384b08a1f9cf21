// SPDX-License-Identifier: Apache-2.0
/* Whole training steps of one model in one recipe on synthetic data: what `qsync bench` prints. */
#include "profiler_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench {
    qs_job job;
    qs_recipe recipe;
    const qs_recipe **recipes; /* (nodes) */
    qs_graph *graph;
    qs_comm *self;
    qs_schedule *schedule;
    qs_executor *executor;
    qs_arena arena;
    double *us;
} bench;

/* What is stored between operators: the recipe's float format; where all its products are integer, the 16-bit one that the device computes
 * in, as in training. */
static const qs_format *storage_of(const qs_recipe *recipe, const qs_device *device) {
    const qs_format *format = recipe->weight_gradient.diff_dst.format;
    qs_device_info info;
    if (format->kind == QS_KIND_FLOAT) return format;
    qs_device_describe(device, &info);
    for (int i = 0; info.formats[i]; i++) {
        format = qs_format_of(info.formats[i]);
        if (format->kind == QS_KIND_FLOAT && format->bits == 16) return format;
    }
    return qs_format_of("fp32");
}

static qs_status schedule_make(bench *one, qs_device *device) {
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof *one->recipes, &one->recipes));
    for (int n = 1; n < one->graph->nodes; n++)
        if (one->graph->node[n].op->kind == QS_ADJUSTABLE) one->recipes[n] = &one->recipe;
    const qs_lowering lowering = {.graph = one->graph,
                                  .batch = one->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &one->job,
                                  .recipe = one->recipes,
                                  .half = storage_of(&one->recipe, device),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    return qs_schedule_lower(&lowering, &one->schedule);
}

static qs_status bench_lower(const char *model, const char *recipe, int64_t batch, qs_device *device, bench *one) {
    if (batch < 1) return qs_fail(QS_USAGE, "batch %lld: at least 1", (long long)batch);
    qs_job_default(&one->job);
    one->job.batch = batch;
    QS_TRY(qs_recipe_builtin(recipe, &one->recipe));
    QS_TRY(qs_model_build(model, NULL, &one->graph));
    return schedule_make(one, device);
}

static qs_status bench_start(const char *model, const char *recipe, int64_t batch, int steps, qs_device *device, bench *one) {
    if (steps < 1) return qs_fail(QS_USAGE, "steps %d: at least 1", steps);
    QS_TRY(bench_lower(model, recipe, batch, device, one));
    QS_TRY(qs_comm_open("self", &one->self));
    QS_TRY(qs_arena_reserve(one->schedule->arena_bytes, &one->arena));
    QS_TRY(qs_executor_create(one->schedule, device, one->self, one->arena.memory, &one->executor));
    QS_TRY(qs_allocate((size_t)steps, sizeof *one->us, &one->us));
    qs_graph_initialize(one->graph, one->job.seed, qs_executor_buffer(one->executor, one->schedule->masters),
                        qs_executor_buffer(one->executor, one->schedule->running));
    return QS_OK;
}

static void bench_end(bench *one) {
    qs_executor_release(one->executor);
    qs_schedule_release(one->schedule);
    qs_arena_release(&one->arena);
    qs_comm_close(one->self);
    qs_graph_release(one->graph);
    free(one->recipes);
    free(one->us);
}

static qs_status steps_run(bench *one, int steps) {
    for (int s = -QS__WARM_UP; s < steps; s++) {
        const qs_run run = {.seed = one->job.seed,
                            .step = (uint64_t)(s + QS__WARM_UP),
                            .samples = one->job.batch,
                            .global_samples = one->job.batch,
                            .loss_scale = 1};
        qs__inputs_fill(one->graph, one->schedule, one->executor);
        const double begin = qs_clock();
        QS_TRY(qs_executor_run(one->executor, &run));
        if (s >= 0) one->us[s] = (qs_clock() - begin) * 1e6;
    }
    return QS_OK;
}

static double flops_of(const qs_schedule *schedule) {
    double flops = 0;
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL && !schedule->step[s].conversion) flops += qs_case_flops(&schedule->step[s].case_);
    return flops;
}

/* ---- Kernels by name ---- */

/* The steps that run the case of step `first`; 0 where an earlier step has it. */
static int places_of(const qs_schedule *schedule, int first) {
    int places = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || strcmp(step->case_text, schedule->step[first].case_text) != 0) continue;
        if (s < first) return 0;
        places++;
    }
    return places;
}

static qs_status kernels_visit(const qs_schedule *schedule, qs_device *device, qs_bench_kernel visit, void *context) {
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const int places = step->kind == QS_STEP_KERNEL ? places_of(schedule, s) : 0;
        qs_kernel_fact fact;
        if (places == 0) continue;
        QS_TRY(qs_device_fact(device, &step->case_, &fact));
        visit(context, step, places, fact.tuned);
    }
    return QS_OK;
}

qs_status qs_bench_kernels(const char *model, const char *recipe, int64_t batch, qs_device *device, qs_bench_kernel visit, void *context) {
    bench one = {0};
    qs_status status = bench_lower(model, recipe, batch, device, &one);
    if (status == QS_OK) status = kernels_visit(one.schedule, device, visit, context);
    bench_end(&one);
    return status;
}

/* ---- Whole steps ---- */

static void kernel_count(void *context, const qs_step *step, int places, bool tuned) {
    qs_bench_figure *figure = context;
    (void)step;
    (void)places;
    figure->cases++;
    figure->tuned += tuned;
}

qs_status qs_bench_step(const char *model, const char *recipe, int64_t batch, int steps, qs_device *device, qs_bench_figure *out) {
    bench one = {0};
    qs_status status = bench_start(model, recipe, batch, steps, device, &one);
    if (status == QS_OK) status = steps_run(&one, steps);
    if (status == QS_OK) {
        const double us = qs__quartiles_of(steps, one.us).median;
        *out = (qs_bench_figure){.images_per_second = (double)batch / us * 1e6, .step_us = us, .flops_per_step = flops_of(one.schedule)};
        status = kernels_visit(one.schedule, device, kernel_count, out);
    }
    bench_end(&one);
    return status;
}
