// SPDX-License-Identifier: Apache-2.0
/* Whole training steps: images per second, beside the roof of their products, and which kernels they consist of. */
#include "bench_step.h"

#include <math.h>

typedef struct bench {
    const step_bench *options;
    qs_device *device;
    const char *model;    /* the one at hand */
    json_t *models, *row; /* row: of the model at hand */
    json_t *listed;       /* kernels of the recipe at hand */
} bench;

/* A figure that the device or the kernel has not is NAN. */
static double fraction(double part, double whole) {
    return part > 0 && whole > 0 ? part / whole : NAN;
}

/* ---- Kernels of a step by operator and pass ---- */

static double rest_of(const qs_bench_figure *figure) {
    double rest = figure->step_us;
    for (int i = 0; i < figure->parts; i++)
        rest -= figure->part[i].us;
    return rest;
}

static json_t *breakdown_json(const qs_bench_figure *figure) {
    json_t *rows = json_array();
    for (int i = 0; i < figure->parts; i++) {
        const qs_bench_part *one = &figure->part[i];
        json_array_append_new(rows, json_pack("{s:s,s:b,s:i,s:f,s:f,s:f,s:f,s:o}", "pass", one->name, "conversion", one->conversion,
                                              "count", one->count, "us", one->us, "share", one->us / figure->step_us, "gflop_per_s",
                                              one->flops / one->us / 1e3, "gb_per_s", one->bytes / one->us / 1e3, "fraction_of_roof",
                                              json_number(fraction(one->roof_us, one->us))));
    }
    return rows;
}

static void breakdown_print(const qs_bench_figure *figure) {
    for (int i = 0; i < figure->parts; i++) {
        const qs_bench_part *one = &figure->part[i];
        printf("  %-36s %-10s %4d %12s %9s %8.1f GFLOP/s %7.1f GB/s", one->name, one->conversion ? "conversion" : "", one->count,
               time_text(one->us), percent_text(one->us / figure->step_us), one->flops / one->us / 1e3, one->bytes / one->us / 1e3);
        if (one->roof_us > 0) printf(" %9s of the roof", percent_text(one->roof_us / one->us));
        printf("\n");
    }
    printf("  %-36s %-10s %4s %12s %9s\n", "rest", "", "", time_text(rest_of(figure)), percent_text(rest_of(figure) / figure->step_us));
}

/* ---- Steps ---- */

static json_t *figure_json(bench *one, const qs_bench_figure *figure) {
    json_t *row = json_pack("{s:f,s:f,s:f,s:o,s:i,s:i}", "images_per_s", figure->images_per_second, "step_us", figure->step_us,
                            "gflop_per_s", figure->flops_per_step / figure->step_us / 1e3, "fraction_of_roof",
                            json_number(fraction(figure->roof_us, figure->step_us)), "cases", figure->cases, "tuned", figure->tuned);
    if (one->listed) json_object_set_new(row, "kernels", one->listed);
    one->listed = NULL;
    if (figure->parts > 0) {
        json_object_set_new(row, "breakdown", breakdown_json(figure));
        json_object_set_new(row, "rest_us", json_real(rest_of(figure)));
    }
    return row;
}

static void figure_print(const bench *one, const char *recipe, const qs_bench_figure *figure) {
    printf("%-20s %-12s %8.1f images/s %12s a step %8.1f GFLOP/s", one->model, recipe, figure->images_per_second,
           time_text(figure->step_us), figure->flops_per_step / figure->step_us / 1e3);
    if (figure->roof_us > 0) printf(" %9s of the roof", percent_text(figure->roof_us / figure->step_us));
    if (figure->tuned > 0) printf("   tuned kernels in %d of %d cases", figure->tuned, figure->cases);
    printf("\n");
    if (figure->parts > 0) breakdown_print(figure);
}

/* ---- Kernels of a step by name ---- */

static void kernel_list(void *context, const qs_step *step, int places, bool tuned) {
    bench *one = context;
    if (one->options->json)
        json_object_set_new(one->listed, step->case_text,
                            json_pack("{s:s,s:i,s:b}", "kernel", step->kernel, "places", places, "tuned", tuned));
    else
        printf("  %4d x %-40s %s%s\n", places, step->kernel, tuned ? "(tuned) " : "", step->case_text);
}

static qs_status figure_show(bench *one, const qs_bench_question *question, const qs_bench_figure *figure) {
    const step_bench *options = one->options;
    if (!options->json) figure_print(one, question->recipe, figure);
    if (options->kernels && options->json) one->listed = json_object();
    if (options->kernels) QS_TRY(qs_bench_kernels(question, one->device, kernel_list, one));
    if (options->json) json_object_set_new(one->row, question->recipe, figure_json(one, figure));
    fflush(stdout);
    return QS_OK;
}

/* ---- Models and recipes ---- */

static qs_status recipe_run(void *context, const char *recipe) {
    bench *one = context;
    const step_bench *options = one->options;
    qs_model_input input;
    qs_bench_figure figure;
    QS_TRY(model_input_parse(options->input, options->classes, one->model, &input));
    const qs_bench_question question = {.model = one->model,
                                        .input = &input,
                                        .recipe = recipe,
                                        .optimizer = options->optimizer,
                                        .batch = options->batch,
                                        .steps = options->steps,
                                        .parts = options->breakdown};
    QS_TRY(qs_bench_step(&question, one->device, &figure));
    const qs_status status = figure_show(one, &question, &figure);
    qs_bench_figure_release(&figure);
    return status;
}

static qs_status model_run(void *context, const char *model) {
    bench *one = context;
    one->model = model;
    one->row = json_object();
    json_object_set_new(one->models, model, one->row);
    return names_each(one->options->recipes, recipe_run, one);
}

qs_status bench_step(const step_bench *options, qs_device *device) {
    bench one = {.options = options, .device = device, .models = json_object()};
    const qs_status status = names_each(options->models, model_run, &one);
    if (status == QS_OK && options->json)
        return json_print(json_pack("{s:I,s:s?,s:i,s:o}", "batch", (json_int_t)options->batch, "input", options->input, "threads",
                                    options->threads, "models", one.models));
    json_decref(one.models);
    return status;
}
