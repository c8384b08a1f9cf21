// SPDX-License-Identifier: Apache-2.0
/* qsync bench: images per second of whole training steps, per model and recipe; or the speed of the cost mapper, of planning, of rounding,
 * of normalisations, of the formula for accumulators or of products in narrow ones, or how far planners are from the optimum. */
#include "bench_mapper.h"
#include "bench_accum.h"
#include "bench_formats.h"
#include "bench_gap.h"
#include "bench_narrow.h"
#include "bench_norm.h"
#include "bench_plan.h"
#include "bench_shiftmm.h"

typedef struct bench {
    qs_device *device;
    int64_t batch;
    int steps, threads;
    bool json;
    const char *recipes, *model; /* comma-separated; the one at hand */
    json_t *models, *row;        /* row: of the model at hand */
} bench;

static qs_status recipe_run(void *context, const char *recipe) {
    bench *one = context;
    qs_bench_figure figure;
    QS_TRY(qs_bench_step(one->model, recipe, one->batch, one->steps, one->device, &figure));
    if (one->json)
        json_object_set_new(one->row, recipe,
                            json_pack("{s:f,s:f,s:f}", "images_per_s", figure.images_per_second, "step_us", figure.step_us, "gflop_per_s",
                                      figure.flops_per_step / figure.step_us / 1e3));
    else
        printf("%-20s %-12s %8.1f images/s %12s a step %8.1f GFLOP/s\n", one->model, recipe, figure.images_per_second,
               time_text(figure.step_us), figure.flops_per_step / figure.step_us / 1e3);
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

static qs_status closed(bench *one, qs_status status) {
    qs_device_close(one->device);
    return status;
}

qs_status verb_bench(int argc, char **argv) {
    const verb_usage usage = {
        "bench", "",
        "Images per second of whole training steps (forward, backward, update) on generated data: the median over steps, per model\n"
        "and recipe, on this machine.",
        "  qsync bench --models resnet20,vgg11_bn --recipes fp32,bf16 --threads 2\n"
        "  qsync bench --mapper 1000\n"
        "  qsync bench --plan\n  qsync bench --gap\n  qsync bench --accum\n  qsync bench --narrow\n  qsync bench --formats --threads 2\n"
        "  qsync bench --norm --steps 40\n  qsync bench --shiftmm\n"};
    const char *models = "resnet20", *isa = "all", *backend = "cpu";
    bool done = false, plan = false, gap = false, accum = false, formats = false, norm = false, narrow = false, shiftmm = false;
    int first = 0, operators = 0;
    bench one = {.batch = 128, .steps = 12, .threads = 1, .recipes = "fp32,bf16,int8/bf16"};
    option_table table = {0};
    options_add(&table, (option_row){"models", OPTION_TEXT, &models, "LIST", "comma-separated (resnet20)", 0});
    options_add(&table, (option_row){"recipes", OPTION_TEXT, &one.recipes, "LIST", "comma-separated (fp32,bf16,int8/bf16)", 0});
    options_add(&table, (option_row){"batch", OPTION_INTEGER, &one.batch, "N", "batch (128)", 1});
    options_add(&table,
                (option_row){"steps", OPTION_INT, &one.steps, "N", "timed steps, or rounds of --formats, --norm and --narrow (12)", 1});
    options_add(&table, (option_row){"threads", OPTION_INT, &one.threads, "N", "threads (1)", 1});
    options_add(&table, (option_row){"isa", OPTION_TEXT, &isa, "NAME", "instruction-set ceiling (all)", 0});
    options_add(&table, (option_row){"backend", OPTION_TEXT, &backend, "NAME", "cpu or ref (cpu)", 0});
    options_add(&table,
                (option_row){"mapper", OPTION_INT, &operators, "N", "instead: changes of one among N operators, made-up costs", 20});
    options_add(&table, (option_row){"plan", OPTION_FLAG, &plan, NULL, "instead: planning for 32 devices, made-up costs", 0});
    options_add(&table, (option_row){"gap", OPTION_FLAG, &gap, NULL, "instead: plans of small random models above the optimum", 0});
    options_add(&table, (option_row){"accum", OPTION_FLAG, &accum, NULL, "instead: the width of an accumulator, by the formula", 0});
    options_add(&table, (option_row){"formats", OPTION_FLAG, &formats, NULL, "instead: rounding to formats, beside a copy", 0});
    options_add(&table, (option_row){"norm", OPTION_FLAG, &norm, NULL, "instead: normalisations, beside batch_norm", 0});
    options_add(&table, (option_row){"narrow", OPTION_FLAG, &narrow, NULL, "instead: products in narrow accumulators, beside fp32's", 0});
    options_add(&table, (option_row){"shiftmm", OPTION_FLAG, &shiftmm, NULL, "instead: products of 4 and 6 bits beside int8 and bf16", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &one.json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    if ((operators > 0) + plan + gap + accum + formats + norm + narrow + shiftmm > 1)
        return qs_fail(QS_USAGE,
                       "--mapper, --plan, --gap, --accum, --formats, --norm, --narrow, --shiftmm are benchmarks of their own: give one");
    if (operators > 0) return bench_mapper(operators, one.json);
    if (plan) return bench_plan(one.json);
    if (gap) return bench_gap(one.json);
    if (accum) return bench_accum(one.json);
    threads_pin(one.threads);
    if (narrow) return bench_narrow(one.threads, isa, one.steps, one.json);
    if (formats) return bench_formats(one.threads, isa, one.steps, one.json);
    const qs_device_options options = {.backend = backend, .threads = one.threads, .isa = isa, .speed = 1};
    QS_TRY(qs_device_open(&options, &one.device));
    if (norm) return closed(&one, bench_norm(one.device, one.steps, one.json));
    if (shiftmm) return closed(&one, bench_shiftmm(one.device, one.threads, one.json));
    one.models = json_object();
    const qs_status status = names_each(models, model_run, &one);
    qs_device_close(one.device);
    if (status == QS_OK && one.json)
        return json_print(
            json_pack("{s:I,s:I,s:o}", "batch", (json_int_t)one.batch, "threads", (json_int_t)one.threads, "models", one.models));
    json_decref(one.models);
    return status;
}
