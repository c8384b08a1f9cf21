// SPDX-License-Identifier: Apache-2.0
/* qsync bench: images per second of whole training steps, per model and recipe; which kernels are the fastest; or the speed of the cost
 * mapper, of planning, of rounding, of normalisations, of the formula for accumulators or of products in narrow ones, or how far planners
 * are from the optimum. */
#include "bench_mapper.h"
#include "bench_accum.h"
#include "bench_formats.h"
#include "bench_gap.h"
#include "bench_narrow.h"
#include "bench_norm.h"
#include "bench_plan.h"
#include "bench_shiftmm.h"
#include "bench_tune.h"

typedef struct bench {
    qs_device *device;
    int64_t batch;
    int steps, threads;
    bool json, kernels;
    const char *recipes, *model; /* comma-separated; the one at hand */
    json_t *models, *row;        /* row: of the model at hand */
    json_t *listed;              /* kernels of the recipe at hand */
} bench;

/* What the command line asks for. */
typedef struct request {
    bench steps;
    const char *models, *isa, *backend, *dataset;
    bool plan, gap, accum, formats, norm, narrow, shiftmm, tune;
    int operators;
} request;

/* ---- Whole steps ---- */

static void kernel_list(void *context, const qs_step *step, int places, bool tuned) {
    bench *one = context;
    if (one->json)
        json_object_set_new(one->listed, step->case_text,
                            json_pack("{s:s,s:i,s:b}", "kernel", step->kernel, "places", places, "tuned", tuned));
    else
        printf("  %4d x %-40s %s%s\n", places, step->kernel, tuned ? "(tuned) " : "", step->case_text);
}

static json_t *figure_json(bench *one, const qs_bench_figure *figure) {
    json_t *out = json_pack("{s:f,s:f,s:f,s:i,s:i}", "images_per_s", figure->images_per_second, "step_us", figure->step_us, "gflop_per_s",
                            figure->flops_per_step / figure->step_us / 1e3, "cases", figure->cases, "tuned", figure->tuned);
    if (one->listed) json_object_set_new(out, "kernels", one->listed);
    one->listed = NULL;
    return out;
}

static void figure_print(const bench *one, const char *recipe, const qs_bench_figure *figure) {
    printf("%-20s %-12s %8.1f images/s %12s a step %8.1f GFLOP/s", one->model, recipe, figure->images_per_second,
           time_text(figure->step_us), figure->flops_per_step / figure->step_us / 1e3);
    if (figure->tuned > 0) printf("   tuned kernels in %d of %d cases", figure->tuned, figure->cases);
    printf("\n");
}

static qs_status recipe_run(void *context, const char *recipe) {
    bench *one = context;
    qs_bench_figure figure;
    QS_TRY(qs_bench_step(one->model, recipe, one->batch, one->steps, one->device, &figure));
    if (!one->json) figure_print(one, recipe, &figure);
    if (one->kernels && one->json) one->listed = json_object();
    if (one->kernels) QS_TRY(qs_bench_kernels(one->model, recipe, one->batch, one->device, kernel_list, one));
    if (one->json) json_object_set_new(one->row, recipe, figure_json(one, &figure));
    fflush(stdout);
    return QS_OK;
}

static qs_status model_run(void *context, const char *model) {
    bench *one = context;
    one->model = model;
    one->row = json_object();
    json_object_set_new(one->models, model, one->row);
    return names_each(one->recipes, recipe_run, one);
}

static qs_status models_run(bench *one, const char *models) {
    one->models = json_object();
    const qs_status status = names_each(models, model_run, one);
    if (status == QS_OK && one->json)
        return json_print(
            json_pack("{s:I,s:I,s:o}", "batch", (json_int_t)one->batch, "threads", (json_int_t)one->threads, "models", one->models));
    json_decref(one->models);
    return status;
}

/* ---- The verb ---- */

static void options_fill(request *asked, option_table *table) {
    bench *steps = &asked->steps;
    *asked = (request){.steps = {.batch = 128, .steps = 12, .threads = 1, .recipes = "fp32,bf16,int8/bf16"},
                       .models = "resnet20",
                       .isa = "all",
                       .backend = "cpu",
                       .dataset = ""};
    options_add(table, (option_row){"models", OPTION_TEXT, &asked->models, "LIST", "comma-separated (resnet20)", 0});
    options_add(table, (option_row){"recipes", OPTION_TEXT, &steps->recipes, "LIST",
                                    "comma-separated (fp32,bf16,int8/bf16; --tune: all that the device offers)", 0});
    options_add(table, (option_row){"batch", OPTION_INTEGER, &steps->batch, "N", "batch (128)", 1});
    options_add(table, (option_row){"steps", OPTION_INT, &steps->steps, "N",
                                    "timed steps, or rounds of --tune, --formats, --norm and --narrow (12)", 1});
    options_add(table, (option_row){"threads", OPTION_INT, &steps->threads, "N", "threads (1)", 1});
    options_add(table, (option_row){"isa", OPTION_TEXT, &asked->isa, "NAME", "instruction-set ceiling (all)", 0});
    options_add(table, (option_row){"backend", OPTION_TEXT, &asked->backend, "NAME", "cpu or ref (cpu)", 0});
    options_add(table, (option_row){"kernels", OPTION_FLAG, &steps->kernels, NULL, "also every kernel by name", 0});
    options_add(table, (option_row){"tune", OPTION_FLAG, &asked->tune, NULL, "instead: which kernels are the fastest, for later runs", 0});
    options_add(table, (option_row){"dataset", OPTION_TEXT, &asked->dataset, "NAME",
                                    "--tune: images of this set, or 3x32x32:10 (the model's usual ones)", 0});
    options_add(table,
                (option_row){"mapper", OPTION_INT, &asked->operators, "N", "instead: changes of one among N operators, made-up costs", 20});
    options_add(table, (option_row){"plan", OPTION_FLAG, &asked->plan, NULL, "instead: planning for 32 devices, made-up costs", 0});
    options_add(table, (option_row){"gap", OPTION_FLAG, &asked->gap, NULL, "instead: plans of small random models above the optimum", 0});
    options_add(table, (option_row){"accum", OPTION_FLAG, &asked->accum, NULL, "instead: the width of an accumulator, by the formula", 0});
    options_add(table, (option_row){"formats", OPTION_FLAG, &asked->formats, NULL, "instead: rounding to formats, beside a copy", 0});
    options_add(table, (option_row){"norm", OPTION_FLAG, &asked->norm, NULL, "instead: normalisations, beside batch_norm", 0});
    options_add(table,
                (option_row){"narrow", OPTION_FLAG, &asked->narrow, NULL, "instead: products in narrow accumulators, beside fp32's", 0});
    options_add(table,
                (option_row){"shiftmm", OPTION_FLAG, &asked->shiftmm, NULL, "instead: products of 4 and 6 bits beside int8 and bf16", 0});
    options_add(table, (option_row){"json", OPTION_FLAG, &steps->json, NULL, "print JSON", 0});
}

static qs_status request_check(const request *asked, const option_table *table) {
    const int others = asked->plan + asked->gap + asked->accum + asked->formats + asked->norm + asked->narrow + asked->shiftmm;
    if (others + asked->tune + (asked->operators > 0) > 1)
        return qs_fail(QS_USAGE, "--mapper, --plan, --gap, --accum, --formats, --norm, --narrow, --shiftmm, --tune are benchmarks of their "
                                 "own: give one");
    if (asked->steps.kernels && (others || asked->tune || asked->operators > 0))
        return qs_fail(QS_USAGE, "--kernels lists those of whole steps: leave out the other benchmark");
    if (option_given(table, "dataset") && !asked->tune) return qs_fail(QS_USAGE, "--dataset goes with --tune");
    return QS_OK;
}

static qs_status tune(request *asked, const option_table *table) {
    const tune_request one = {.models = asked->models,
                              .recipes = option_given(table, "recipes") ? asked->steps.recipes : NULL,
                              .dataset = asked->dataset,
                              .backend = asked->backend,
                              .isa = asked->isa,
                              .batch = asked->steps.batch,
                              .threads = asked->steps.threads,
                              .rounds = asked->steps.steps,
                              .json = asked->steps.json};
    return bench_tune(asked->steps.device, &one);
}

static qs_status device_run(request *asked, const option_table *table) {
    bench *steps = &asked->steps;
    const qs_device_options options = {.backend = asked->backend, .threads = steps->threads, .isa = asked->isa, .speed = 1};
    QS_TRY(qs_device_open(&options, &steps->device));
    qs_status status = tuned_take(steps->device);
    if (status == QS_OK)
        status = asked->tune      ? tune(asked, table)
                 : asked->norm    ? bench_norm(steps->device, steps->steps, steps->json)
                 : asked->shiftmm ? bench_shiftmm(steps->device, steps->threads, steps->json)
                                  : models_run(steps, asked->models);
    qs_device_close(steps->device);
    return status;
}

static qs_status request_run(request *asked, const option_table *table) {
    const bench *steps = &asked->steps;
    if (asked->operators > 0) return bench_mapper(asked->operators, steps->json);
    if (asked->plan) return bench_plan(steps->json);
    if (asked->gap) return bench_gap(steps->json);
    if (asked->accum) return bench_accum(steps->json);
    threads_pin(steps->threads);
    if (asked->narrow) return bench_narrow(steps->threads, asked->isa, steps->steps, steps->json);
    if (asked->formats) return bench_formats(steps->threads, asked->isa, steps->steps, steps->json);
    return device_run(asked, table);
}

qs_status verb_bench(int argc, char **argv) {
    const verb_usage usage = {
        "bench", "",
        "Images per second of whole training steps (forward, backward, update) on generated data: the median over steps, per model\n"
        "and recipe, on this machine. --tune times every kernel that can run a case of the models in such steps, and remembers the\n"
        "fastest in the file QSYNC_CACHE (~/.cache/qsync/tuning.sqlite; QSYNC_CACHE=off: nowhere) for this processor, isa and threads:\n"
        "profiles measured later take them, plans name them.",
        "  qsync bench --models resnet20,vgg11_bn --recipes fp32,bf16 --threads 2\n"
        "  qsync bench --tune --models resnet20 --isa avx2_vnni\n"
        "  qsync bench --mapper 1000\n"
        "  qsync bench --plan\n  qsync bench --gap\n  qsync bench --accum\n  qsync bench --narrow\n  qsync bench --formats --threads 2\n"
        "  qsync bench --norm --steps 40\n  qsync bench --shiftmm\n"};
    request asked;
    bool done = false;
    int first = 0;
    option_table table = {0};
    options_fill(&asked, &table);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    QS_TRY(request_check(&asked, &table));
    return request_run(&asked, &table);
}
