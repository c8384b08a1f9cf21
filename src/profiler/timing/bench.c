// SPDX-License-Identifier: Apache-2.0
/* Whole training steps of one model in one recipe on synthetic data: what `qsync bench` prints. Kernels are timed in their places
 * in the step. Passes that dequantize run there as well, in an observer, behind the product whose sums they would read; the sums are
 * written just before, as the product would have left them. */
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The product that a step of a schedule is: its operands' format; NULL: it is none. */
static const qs_format *product_format(const qs_step *step) {
    const bool product = step->kind == QS_STEP_KERNEL && !step->conversion && qs_op_multiplies(step->case_.op);
    return product ? step->case_.operand[0].format : NULL; /* its first factor's, as the second's */
}

/* ---- Times of kernels ---- */

/* Times of the kernels of one schedule in so many runs. */
typedef struct kernel_times {
    const qs_schedule *schedule;
    int runs, run; /* room for, and the one at hand */
    double *us;    /* (schedule->steps × runs) */
} kernel_times;

static qs_status kernel_times_create(const qs_schedule *schedule, int runs, kernel_times *out) {
    *out = (kernel_times){.schedule = schedule, .runs = runs};
    return qs_allocate((size_t)schedule->steps * (size_t)runs, sizeof *out->us, &out->us);
}

static void kernel_times_release(kernel_times *times) {
    free(times->us);
    *times = (kernel_times){0};
}

static void kernel_times_add(const kernel_times *times, int step, double seconds) {
    times->us[(size_t)step * (size_t)times->runs + (size_t)times->run] = seconds * 1e6;
}

static double kernel_times_median(const kernel_times *times, int step) {
    return qs__quartiles_of(times->runs, times->us + (size_t)step * (size_t)times->runs).median;
}

/* ---- Passes that dequantize ----------------------------------------------------------------------------------------------------- */

/* Passes that would dequantize the results of integer products, run behind each of them and timed. */
typedef struct dequantizing {
    qs_kernel **kernel; /* (schedule->steps) NULL behind all else */
    size_t *bytes;      /* (schedule->steps) of the sums */
    qs_memory *memory;  /* sums, then values */
    qs_queue *queue;
    kernel_times times;
    qs_status status; /* the first failure of a pass */
} dequantizing;

/* What an integer product writes; NULL: the step is none. */
static const qs_operand *integer_result(const qs_step *step) {
    const qs_format *format = product_format(step);
    if (!format || format->kind != QS_KIND_INTEGER) return NULL;
    for (int i = 0; i < step->case_.operands; i++)
        if (qs_pass_writes(step->case_.pass, i)) return &step->case_.operand[i];
    return NULL;
}

static size_t sums_bytes(const qs_operand *result) {
    return (size_t)qs_shape_count(&result->shape) * sizeof(float);
}

static qs_status pass_make(dequantizing *passes, size_t most, int step, const qs_operand *result, qs_device *device) {
    qs_case one = qs_case_make("cast", "forward", NULL);
    const qs_location operand[] = {qs_location_of(passes->memory, 0), qs_location_of(passes->memory, most)};
    passes->bytes[step] = sums_bytes(result);
    qs_case_bind(&one, QS_SRC, result->shape, qs_format_of("fp32"));
    qs_case_bind(&one, QS_DST, result->shape, result->format);
    return qs_device_prepare(device, &one, NULL, operand, (qs_location){0}, &passes->kernel[step]);
}

static qs_status passes_make(const qs_schedule *schedule, qs_device *device, dequantizing *passes) {
    size_t most = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_operand *result = integer_result(&schedule->step[s]);
        if (result && sums_bytes(result) > most) most = sums_bytes(result);
    }
    most = (most + 63) / 64 * 64;
    QS_TRY(qs_memory_reserve(device, 2 * most, &passes->memory));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_operand *result = integer_result(&schedule->step[s]);
        if (result) QS_TRY(pass_make(passes, most, s, result, device));
    }
    return QS_OK;
}

static qs_status dequantizing_create(const qs_schedule *schedule, int runs, qs_device *device, dequantizing *out) {
    *out = (dequantizing){.status = QS_OK, .queue = qs_device_queue(device, QS_QUEUE_KERNELS)};
    QS_TRY(kernel_times_create(schedule, runs, &out->times));
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *out->kernel, &out->kernel));
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *out->bytes, &out->bytes));
    return passes_make(schedule, device, out);
}

static void dequantizing_release(dequantizing *passes) {
    for (int s = 0; passes->kernel && s < passes->times.schedule->steps; s++)
        qs_kernel_release(passes->kernel[s]);
    free(passes->kernel);
    free(passes->bytes);
    qs_memory_release(passes->memory);
    kernel_times_release(&passes->times);
}

static void dequantizing_kernel(void *context, const qs_schedule *schedule, int step, double seconds) {
    dequantizing *passes = context;
    const qs_run run = {.seed = 1, .samples = schedule->batch, .global_samples = schedule->batch, .loss_scale = 1};
    if (!passes->kernel[step] || passes->status != QS_OK) return;
    passes->status = qs_memory_fill(passes->queue, qs_location_of(passes->memory, 0), 1, passes->bytes[step]); /* ordinary numbers */
    if (passes->status == QS_OK) passes->status = qs_kernel_time(passes->kernel[step], &run, &seconds);
    if (passes->status == QS_OK) kernel_times_add(&passes->times, step, seconds);
}

/* ---- The step ---- */

typedef struct bench {
    qs_job job;
    qs_recipe recipe;
    const qs_recipe **recipes; /* (nodes) */
    qs_tensor_table tensors;   /* what is computed again */
    qs_graph *graph;
    qs_comm *self;
    qs_schedule *schedule;
    qs_executor *executor;
    qs_memory *memory;
    qs_device *device;
    int step;   /* run so far, warm-up included */
    double *us; /* (question->steps) */
    kernel_times times;
    qs_timeline timeline; /* where `times` are asked for */
    dequantizing passes;
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

static qs_status recompute_bind(const char *text, bench *one) {
    qs_class_plan plan = {0};
    qs_status status = qs_recompute_list(text, one->graph, &plan);
    if (status == QS_OK) status = qs_tensors_bind(&plan, one->graph, &one->tensors);
    free(plan.recompute);
    return status;
}

static qs_status schedule_make(bench *one) {
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof *one->recipes, &one->recipes));
    for (int n = one->graph->samples.inputs; n < one->graph->nodes; n++)
        if (one->graph->node[n].op->kind == QS_ADJUSTABLE) one->recipes[n] = &one->recipe;
    const qs_lowering lowering = {.graph = one->graph,
                                  .batch = one->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &one->job,
                                  .recipe = one->recipes,
                                  .half = storage_of(&one->recipe, one->device),
                                  .tensors = &one->tensors,
                                  .joins = qs_device_joins(one->device),
                                  .lookup = qs_lookup_device,
                                  .context = one->device};
    return qs_schedule_lower(&lowering, &one->schedule);
}

static qs_status bench_lower(const qs_bench_question *question, bench *one) {
    if (question->batch < 1) return qs_fail(QS_USAGE, "batch %lld: at least 1", (long long)question->batch);
    qs_job_default(&one->job);
    if (question->optimizer) QS_TRY(qs_job_optimizer_set(&one->job, question->optimizer));
    one->job.batch = question->batch;
    one->job.dynamic_loss_scaling = question->loss_scaling;
    QS_TRY(qs_recipe_builtin(question->recipe, &one->recipe));
    QS_TRY(qs_model_open(question->model, question->samples, &one->graph));
    if (question->recompute) QS_TRY(recompute_bind(question->recompute, one));
    return schedule_make(one);
}

static qs_status bench_start(const qs_bench_question *question, bench *one) {
    if (question->steps < 1) return qs_fail(QS_USAGE, "steps %d: at least 1", question->steps);
    QS_TRY(bench_lower(question, one));
    QS_TRY(qs_comm_open("self", &one->self));
    QS_TRY(qs_memory_reserve(one->device, one->schedule->arena_bytes, &one->memory));
    QS_TRY(qs_executor_create(one->schedule, one->device, one->self, one->memory, &one->executor));
    QS_TRY(qs_allocate((size_t)question->steps, sizeof *one->us, &one->us));
    if (question->parts) QS_TRY(kernel_times_create(one->schedule, question->steps, &one->times));
    if (question->parts) QS_TRY(qs_timeline_create(one->schedule, &one->timeline));
    if (question->dequantize) QS_TRY(dequantizing_create(one->schedule, question->steps, one->device, &one->passes));
    QS_TRY(qs_executor_initialize(one->executor, one->graph, one->job.seed));
    return QS_OK;
}

static void bench_end(bench *one) {
    dequantizing_release(&one->passes);
    kernel_times_release(&one->times);
    qs_timeline_release(&one->timeline);
    qs_executor_release(one->executor);
    qs_schedule_release(one->schedule);
    qs_memory_release(one->memory);
    qs_comm_close(one->self);
    qs_graph_release(one->graph);
    free(one->recipes);
    qs_tensor_table_release(&one->tensors);
    free(one->us);
}

/* ---- Steps ---------------------------------------------------------------------------------------------------------------------- */

/* One step, with somebody watching, or with the clock beside it (NULL: neither). */
static qs_status step_run(bench *one, dequantizing *passes, qs_timeline *timeline, double *us) {
    const qs_run run = {.seed = one->job.seed,
                        .step = (uint64_t)one->step,
                        .samples = one->job.batch,
                        .global_samples = one->job.batch,
                        .loss_scale = 1,
                        .updates = one->step++};
    QS_TRY(qs__inputs_fill(one->graph, one->schedule, one->executor));
    QS_TRY(qs_queue_wait(qs_device_queue(one->device, QS_QUEUE_KERNELS))); /* the batch has arrived when the clock starts */
    qs_executor_observe(one->executor, passes ? dequantizing_kernel : NULL, passes);
    qs_executor_time(one->executor, timeline);
    const double begin = qs_clock();
    QS_TRY(qs_executor_run(one->executor, &run));
    *us = (qs_clock() - begin) * 1e6;
    return QS_OK;
}

static qs_status steps_run(bench *one, const qs_bench_question *question) {
    double unused;
    for (int s = 0; s < QS__WARM_UP || qs_executor_recorded(one->executor).state == QS_RECORDED_TRYING; s++)
        QS_TRY(step_run(one, NULL, NULL, &unused));
    for (int s = 0; s < question->steps; s++) {
        QS_TRY(step_run(one, NULL, NULL, &one->us[s]));
        one->times.run = s;
        if (question->parts) QS_TRY(step_run(one, NULL, &one->timeline, &unused));
        for (int i = 0; question->parts && i < one->schedule->steps; i++)
            kernel_times_add(&one->times, i, qs_timeline_seconds(&one->timeline, i));
    }
    for (int s = 0; question->dequantize && s < question->steps; s++) {
        one->passes.times.run = s;
        QS_TRY(step_run(one, &one->passes, NULL, &unused));
        QS_TRY(one->passes.status);
    }
    return QS_OK;
}

/* ---- Kernels by name ----------------------------------------------------------------------------------------------------------- */

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

qs_status qs_bench_kernels(const qs_bench_question *question, qs_device *device, qs_bench_kernel visit, void *context) {
    bench one = {.device = device};
    qs_status status = bench_lower(question, &one);
    if (status == QS_OK) status = kernels_visit(one.schedule, device, visit, context);
    bench_end(&one);
    return status;
}

/* ---- Figures -------------------------------------------------------------------------------------------------------------------- */

/* The device's peaks for the formats that were asked for. */
typedef struct peaks {
    qs_device *device;
    const qs_format *format[QS_MAX_FORMATS];
    double peak[QS_MAX_FORMATS];
    int count;
} peaks;

static double peak_of(peaks *known, const qs_format *format) {
    int i = 0;
    while (i < known->count && known->format[i] != format)
        i++;
    if (i == QS_MAX_FORMATS) return qs_device_peak(known->device, format);
    if (i == known->count) {
        known->format[i] = format;
        known->peak[i] = qs_device_peak(known->device, format);
        known->count++;
    }
    return known->peak[i];
}

/* What a product takes at the peak; NAN where that is not known, 0 where the step is no product. A multiply-add is two operations. */
static double roof_of(peaks *known, const qs_step *step) {
    const qs_format *format = product_format(step);
    const double peak = format ? peak_of(known, format) : 0;
    return !format ? 0 : peak > 0 ? qs_case_flops(&step->case_) / 2 / peak * 1e6 : NAN;
}

/* Sums of gradients, which lowering places too, are what every recipe has. */
static bool changes_format(const qs_step *step) {
    return step->conversion && step->case_.op->kind == QS_AUXILIARY;
}

static qs_bench_part *part_find(qs_bench_figure *out, const qs_step *step) {
    const bool conversion = changes_format(step);
    char name[sizeof out->part->name];
    int i = 0;
    snprintf(name, sizeof name, "%s/%s", step->case_.op->name, step->case_.pass->name);
    while (i < out->parts && (strcmp(out->part[i].name, name) != 0 || out->part[i].conversion != conversion))
        i++;
    if (i == out->parts) {
        out->part[out->parts++].conversion = conversion;
        memcpy(out->part[i].name, name, sizeof name);
    }
    return &out->part[i];
}

static int slower_first(const void *left, const void *right) {
    const double a = ((const qs_bench_part *)left)->us, b = ((const qs_bench_part *)right)->us;
    return (a < b) - (a > b);
}

static qs_status parts_fill(const bench *one, peaks *known, qs_bench_figure *out) {
    QS_TRY(qs_allocate((size_t)one->schedule->steps, sizeof *out->part, &out->part)); /* as many rows as there may be */
    for (int s = 0; s < one->schedule->steps; s++) {
        const qs_step *step = &one->schedule->step[s];
        if (step->kind != QS_STEP_KERNEL) continue;
        qs_bench_part *row = part_find(out, step);
        const double roof = roof_of(known, step);
        row->count++;
        row->us += kernel_times_median(&one->times, s);
        row->flops += qs_case_flops(&step->case_);
        row->bytes += qs_case_bytes(&step->case_);
        row->roof_us += isnan(roof) ? 0 : roof;
    }
    qsort(out->part, (size_t)out->parts, sizeof *out->part, slower_first);
    return QS_OK;
}

/* What a step does on paper: operations, and the time of its products at the peak. */
static void work_sum(const qs_schedule *schedule, peaks *known, qs_bench_figure *out) {
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || step->conversion) continue;
        out->flops_per_step += qs_case_flops(&step->case_);
        out->roof_us += roof_of(known, step);
    }
    if (isnan(out->roof_us)) out->roof_us = 0;
}

static void kernel_count(void *context, const qs_step *step, int places, bool tuned) {
    qs_bench_figure *figure = context;
    (void)step;
    (void)places;
    figure->cases++;
    figure->tuned += tuned;
}

static qs_status figure_fill(bench *one, const qs_bench_question *question, qs_bench_figure *out) {
    const double us = qs__quartiles_of(question->steps, one->us).median;
    peaks known = {.device = one->device};
    out->step_us = us;
    out->recorded = qs_executor_recorded(one->executor);
    out->arena_bytes = one->schedule->arena_bytes;
    out->samples_per_second = (double)question->batch / us * 1e6;
    memcpy(out->unit, one->graph->samples.unit, sizeof out->unit);
    work_sum(one->schedule, &known, out);
    for (int s = 0; question->dequantize && s < one->schedule->steps; s++)
        out->dequantize_us += one->passes.kernel[s] ? kernel_times_median(&one->passes.times, s) : 0;
    QS_TRY(kernels_visit(one->schedule, one->device, kernel_count, out));
    return question->parts ? parts_fill(one, &known, out) : QS_OK;
}

qs_status qs_bench_step(const qs_bench_question *question, qs_device *device, qs_bench_figure *out) {
    bench one = {.device = device};
    qs_status status = bench_start(question, &one);
    *out = (qs_bench_figure){0};
    if (status == QS_OK) status = steps_run(&one, question);
    if (status == QS_OK) status = figure_fill(&one, question, out);
    bench_end(&one);
    return status;
}

void qs_bench_figure_release(qs_bench_figure *figure) {
    free(figure->part);
    *figure = (qs_bench_figure){0};
}
