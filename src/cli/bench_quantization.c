// SPDX-License-Identifier: Apache-2.0
/* What changing formats takes of training steps, over batch sizes. */
#include "bench_step.h"

#include <limits.h>
#include <stdlib.h>

static const char low[] = "int8/bf16", half[] = "bf16";

typedef struct bench {
    const step_bench *options;
    qs_device *device;
    const char *model;    /* the one at hand */
    json_t *models, *row; /* row: of the model at hand */
} bench;

typedef struct figures {
    double step_us, conversions_us, dequantize_us;
} figures;

static qs_status recipe_run(const bench *one, const char *recipe, int64_t batch, figures *out) {
    qs_model_input input;
    qs_bench_figure figure;
    QS_TRY(model_input_parse(one->options->input, one->options->classes, one->model, &input));
    QS_TRY(qs_bench_step(&(qs_bench_question){.model = one->model,
                                              .input = &input,
                                              .recipe = recipe,
                                              .batch = batch,
                                              .steps = one->options->steps,
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
    if (one->options->json)
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
    json_object_set_new(one->models, model, one->row);
    return names_each(one->options->batches, batch_run, one);
}

qs_status bench_quantization(const step_bench *options, qs_device *device) {
    QS_TRY(names_each(options->batches, batch_check, NULL));
    bench one = {.options = options, .device = device, .models = json_object()};
    if (!options->json)
        printf("%-20s %6s %12s %9s %12s %9s %9s %9s %12s %9s %9s\n", "", "batch", low, "formats", half, "formats", "speed-up", "extra",
               "dequantize", "3 passes", "saved");
    const qs_status status = names_each(options->models, model_run, &one);
    if (status == QS_OK && options->json)
        return json_print(json_pack("{s:i,s:s,s:s,s:o}", "threads", options->threads, "recipe", low, "half", half, "models", one.models));
    json_decref(one.models);
    return status;
}
