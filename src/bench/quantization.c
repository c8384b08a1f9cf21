// SPDX-License-Identifier: Apache-2.0
/* qsync-bench quantization: what changing formats takes of training steps, over batch sizes. */
#include "bench.h"

#include <limits.h>
#include <stdlib.h>

#include "qsync/profiler.h"

static const char low[] = "int8/bf16", half[] = "bf16";

typedef struct bench {
    const char *models, *batches; /* comma-separated */
    const char *input;            /* "3x64x64"; NULL: the model's own, as its classes where 0 */
    int classes, steps, threads;
    const char *isa, *backend;
    bool json;
    qs_device *device;
    const char *model; /* the one at hand */
    json_t *all, *row; /* row: of the model at hand */
} bench;

typedef struct figures {
    double step_us, conversions_us, dequantize_us;
} figures;

static qs_status recipe_run(const bench *one, const char *recipe, int64_t batch, figures *out) {
    qs_samples input;
    qs_bench_figure figure;
    QS_TRY(model_samples_parse(one->input, one->classes, one->model, &input));
    QS_TRY(qs_bench_step(&(qs_bench_question){.model = one->model,
                                              .samples = &input,
                                              .recipe = recipe,
                                              .batch = batch,
                                              .steps = one->steps,
                                              .parts = true,
                                              .dequantize = recipe == low},
                         one->device, &figure));
    *out = (figures){.step_us = figure.step_us, .dequantize_us = figure.dequantize_us};
    for (int i = 0; i < figure.parts; i++)
        if (figure.part[i].conversion) out->conversions_us += figure.part[i].us;
    qs_bench_figure_release(&figure);
    return QS_OK;
}

static void batch_show(const bench *one, const char *batch, const figures *int8, const figures *bf16) {
    const double share = int8->conversions_us / int8->step_us, half_share = bf16->conversions_us / bf16->step_us;
    const double more = int8->conversions_us - bf16->conversions_us, extra = more / int8->step_us;
    const double extra_vanilla = (more + int8->dequantize_us) / (int8->step_us + int8->dequantize_us);
    const double saved = int8->dequantize_us / (int8->conversions_us + int8->dequantize_us);
    if (one->json)
        json_object_set_new(one->row, batch,
                            json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "step_us", int8->step_us, "conversions_us",
                                      int8->conversions_us, "share", share, "half_step_us", bf16->step_us, "half_conversions_us",
                                      bf16->conversions_us, "half_share", half_share, "extra_over_half", extra, "extra_in_three_passes",
                                      extra_vanilla, "speedup_over_half", bf16->step_us / int8->step_us, "dequantize_us",
                                      int8->dequantize_us, "saved", saved));
    else
        printf("%-20s %6s %12s %9s %12s %9s %8.2fx %9s %12s %9s %9s\n", one->model, batch, time_text(int8->step_us), percent_text(share),
               time_text(bf16->step_us), percent_text(half_share), bf16->step_us / int8->step_us, percent_text(extra),
               time_text(int8->dequantize_us), percent_text(extra_vanilla), percent_text(saved));
    fflush(stdout);
}

/* 0: none. */
static int64_t batch_of(const char *text) {
    char *end = NULL;
    const long long batch = strtoll(text, &end, 10);
    return end == text || *end || batch < 1 || batch == LLONG_MAX ? 0 : batch;
}

static qs_status batch_check(void *context, const char *text) {
    (void)context;
    return batch_of(text) > 0 ? QS_OK : qs_fail(QS_USAGE, "--batches: '%s' is no batch; give numbers such as 16,32,64", text);
}

static qs_status batch_run(void *context, const char *text) {
    const bench *one = context;
    const int64_t batch = batch_of(text);
    figures int8, bf16;
    QS_TRY(recipe_run(one, half, batch, &bf16));
    QS_TRY(recipe_run(one, low, batch, &int8));
    batch_show(one, text, &int8, &bf16);
    return QS_OK;
}

static qs_status model_run(void *context, const char *model) {
    bench *one = context;
    one->model = model;
    one->row = json_object();
    json_object_set_new(one->all, model, one->row);
    return names_each(one->batches, batch_run, one);
}

static const option_row option_rows[] = {
    {OPTION(bench, models, "models", "LIST", "comma-separated"), .standard = "resnet20"},
    {OPTION(bench, batches, "batches", "LIST", "comma-separated"), .standard = "16,32,64,128,256"},
    {OPTION(bench, input, "input", "CxHxW", "input shape"), .usual = "each model's own"},
    {OPTION(bench, classes, "classes", "N", "classes"), .usual = "each model's own", .minimum = 1},
    {OPTION(bench, steps, "steps", "N", "timed steps"), .standard = "12", .minimum = 1},
    {OPTION_THREADS(bench)},
    {OPTION_ISA(bench)},
    {OPTION_BACKEND(bench)},
    {OPTION_JSON(bench)},
};

qs_status bench_quantization(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "quantization",
        .arguments = "",
        .purpose =
            "Per model and batch, of a step in int8/bf16 and one in bf16: the share of kernels that change formats, and what int8's are "
            "more\n"
            "than bf16's (extra_over_half, of the int8 step). Beside them the same in three passes: absolute maximum and codes, as here, "
            "and\n"
            "dequantizing by itself, which our products do as they write: what int8 would cost more then (extra_in_three_passes, of the "
            "longer\n"
            "step), and how much less changing formats takes than that (saved).",
        .examples = "  qsync-bench quantization --models resnet20 --batches 16,64,256\n"};
    bool done = false;
    option_table table = {0};
    bench one = {0};
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    QS_TRY(names_each(one.batches, batch_check, NULL));
    QS_TRY(device_start(one.backend, one.threads, one.isa, &one.device));
    one.all = json_object();
    if (!one.json)
        printf("%-20s %6s %12s %9s %12s %9s %9s %9s %12s %9s %9s\n", "", "batch", low, "formats", half, "formats", "speed-up", "extra",
               "dequantize", "3 passes", "saved");
    const qs_status status = names_each(one.models, model_run, &one);
    qs_device_close(one.device);
    if (status == QS_OK && one.json)
        return json_print(json_pack("{s:i,s:s,s:s,s:o}", "threads", one.threads, "recipe", low, "half", half, "models", one.all));
    json_decref(one.all);
    return status;
}
