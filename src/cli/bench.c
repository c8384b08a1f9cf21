// SPDX-License-Identifier: Apache-2.0
/* qsync bench: samples per second of whole training steps, per model and recipe, beside the roof of their products, and which kernels they
 * consist of; or which kernels are the fastest (bench_tune.c). */
#include <math.h>

#include "bench_tune.h"

typedef struct bench {
    const char *models, *recipes;        /* comma-separated */
    const char *recompute;               /* blocks that are computed again */
    const char *input;                   /* "3x64x64"; NULL: the model's own, as its classes where 0 */
    const char *isa, *backend, *dataset; /* dataset: of --tune */
    const char *optimizer;               /* NULL: sgd */
    int classes, steps, threads;
    int64_t batch;
    bool breakdown, kernels, tune, loss_scaling, json;
    qs_device *device;
    const char *model; /* the one at hand */
    json_t *all, *row; /* row: of the model at hand */
    json_t *listed;    /* kernels of the recipe at hand */
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

static json_t *recorded_json(const qs_recorded *recorded) {
    return json_pack("{s:b,s:i,s:i,s:f,s:f}", "taken", recorded->state == QS_RECORDED_YES, "recordings", recorded->recordings, "kernels",
                     recorded->kernels, "us", recorded->recorded_us, "one_by_one_us", recorded->one_by_one_us);
}

static json_t *figure_json(bench *one, const qs_bench_figure *figure) {
    json_t *row = json_pack("{s:f,s:f,s:f,s:o,s:I,s:i,s:i}", "samples_per_s", figure->samples_per_second, "step_us", figure->step_us,
                            "gflop_per_s", figure->flops_per_step / figure->step_us / 1e3, "fraction_of_roof",
                            json_number(fraction(figure->roof_us, figure->step_us)), "arena_bytes", (json_int_t)figure->arena_bytes,
                            "cases", figure->cases, "tuned", figure->tuned);
    if (one->listed) json_object_set_new(row, "kernels", one->listed);
    one->listed = NULL;
    if (figure->recorded.recordings > 0 || figure->recorded.recorded_us > 0)
        json_object_set_new(row, "recorded", recorded_json(&figure->recorded));
    if (figure->parts > 0) {
        json_object_set_new(row, "breakdown", breakdown_json(figure));
        json_object_set_new(row, "rest_us", json_real(rest_of(figure)));
    }
    return row;
}

static void figure_print(const bench *one, const char *recipe, const qs_bench_figure *figure) {
    printf("%-20s %-12s %8.1f %s/s %12s a step %8.1f GFLOP/s", one->model, recipe, figure->samples_per_second, figure->unit,
           time_text(figure->step_us), figure->flops_per_step / figure->step_us / 1e3);
    if (figure->roof_us > 0) printf(" %9s of the roof", percent_text(figure->roof_us / figure->step_us));
    if (figure->tuned > 0) printf("   tuned kernels in %d of %d cases", figure->tuned, figure->cases);
    printf("\n");
    if (figure->recorded.recordings > 0)
        printf("  %d kernels started as %d recordings\n", figure->recorded.kernels, figure->recorded.recordings);
    if (figure->parts > 0) breakdown_print(figure);
}

/* ---- Kernels of a step by name ---- */

static void kernel_list(void *context, const qs_step *step, int places, bool tuned) {
    bench *one = context;
    if (one->json)
        json_object_set_new(one->listed, step->case_text,
                            json_pack("{s:s,s:i,s:b}", "kernel", step->kernel, "places", places, "tuned", tuned));
    else
        printf("  %4d x %-40s %s%s\n", places, step->kernel, tuned ? "(tuned) " : "", step->case_text);
}

static qs_status figure_show(bench *one, const qs_bench_question *question, const qs_bench_figure *figure) {
    if (!one->json) figure_print(one, question->recipe, figure);
    if (one->kernels && one->json) one->listed = json_object();
    if (one->kernels) QS_TRY(qs_bench_kernels(question, one->device, kernel_list, one));
    if (one->json) json_object_set_new(one->row, question->recipe, figure_json(one, figure));
    fflush(stdout);
    return QS_OK;
}

/* ---- Models and recipes ---- */

static qs_status recipe_run(void *context, const char *recipe) {
    bench *one = context;
    qs_samples input;
    qs_bench_figure figure;
    QS_TRY(model_samples_parse(one->input, one->classes, one->model, &input));
    const qs_bench_question question = {.model = one->model,
                                        .samples = &input,
                                        .recipe = recipe,
                                        .optimizer = one->optimizer,
                                        .recompute = one->recompute,
                                        .batch = one->batch,
                                        .loss_scaling = one->loss_scaling,
                                        .steps = one->steps,
                                        .parts = one->breakdown};
    QS_TRY(qs_bench_step(&question, one->device, &figure));
    const qs_status status = figure_show(one, &question, &figure);
    qs_bench_figure_release(&figure);
    return status;
}

static qs_status model_run(void *context, const char *model) {
    bench *one = context;
    one->model = model;
    one->row = json_object();
    json_object_set_new(one->all, model, one->row);
    return names_each(one->recipes, recipe_run, one);
}

/* ---- The verb ---- */

static const option_row option_rows[] = {
    {OPTION(bench, models, "models", "LIST", "comma-separated"), .standard = "resnet20"},
    {OPTION(bench, recipes, "recipes", "LIST", "comma-separated; of --tune: all that the device offers"),
     .standard = "fp32,bf16,int8/bf16"},
    {OPTION(bench, recompute, "recompute", "BLOCKS", "computed again for backward: no, all, or names as in inspect --blocks"),
     .standard = "no", .excludes = "tune"},
    {OPTION(bench, batch, "batch", "N", "samples of a step"), .standard = "128", .minimum = 1},
    {OPTION(bench, optimizer, "optimizer", "NAME", NULL), .describe = optimizer_names, .usual = "sgd"},
    {OPTION(bench, loss_scaling, "loss-scaling", NULL, "with what dynamic loss scaling takes of a step"), .excludes = "tune"},
    {OPTION(bench, input, "input", "CxHxW", "input shape"), .usual = "each model's own"},
    {OPTION(bench, classes, "classes", "N", "classes"), .usual = "each model's own", .minimum = 1},
    {OPTION(bench, steps, "steps", "N", "timed steps, or rounds of --tune"), .standard = "12", .minimum = 1},
    {OPTION_THREADS(bench)},
    {OPTION_ISA(bench)},
    {OPTION(bench, backend, "backend", "NAME", "cpu, ref, far or cuda"), .standard = "cpu"},
    {OPTION(bench, kernels, "kernels", NULL, "also every kernel by name")},
    {OPTION(bench, breakdown, "breakdown", NULL, "also what each operator's passes take of a step")},
    {OPTION(bench, tune, "tune", NULL, "instead: which kernels are the fastest, for later runs"),
     .excludes = "kernels,breakdown,optimizer"},
    {OPTION(bench, dataset, "dataset", "NAME", "images as of this set"), .standard = "", .usual = "each model's own", .needs = "tune",
     .excludes = "input,classes"},
    {OPTION_JSON(bench)},
};

static qs_status tune(const bench *one, const option_table *table) {
    const tune_request request = {.models = one->models,
                                  .recipes = option_given(table, "recipes") ? one->recipes : NULL,
                                  .dataset = one->dataset,
                                  .input = one->input,
                                  .classes = one->classes,
                                  .backend = one->backend,
                                  .isa = one->isa,
                                  .batch = one->batch,
                                  .threads = one->threads,
                                  .rounds = one->steps,
                                  .json = one->json};
    return bench_tune(one->device, &request);
}

static qs_status models_run(bench *one) {
    one->all = json_object();
    const qs_status status = names_each(one->models, model_run, one);
    if (status == QS_OK && one->json)
        return json_print(json_pack("{s:I,s:s?,s:i,s:o}", "batch", (json_int_t)one->batch, "input", one->input, "threads", one->threads,
                                    "models", one->all));
    json_decref(one->all);
    return status;
}

qs_status verb_bench(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "bench",
        .arguments = "",
        .purpose =
            "Images per second of whole training steps (forward, backward, update) on generated data: the median over steps, per model\n"
            "and recipe, on this machine. \"Of the roof\": the time that the step's products would take at the peak of the processor,\n"
            "measured in the same run, each in its format and all else for nothing, over the time of the step.\n"
            "--tune times every kernel that can run a case of the models in such steps, and remembers the fastest in the file QSYNC_CACHE\n"
            "(~/.cache/qsync/tuning.sqlite; QSYNC_CACHE=off: nowhere) for this processor, isa and threads: profiles measured later take "
            "them,\n"
            "plans name them.",
        .examples = "  qsync bench --models resnet20,vgg11_bn --recipes fp32,bf16 --threads 2\n"
                    "  qsync bench --models resnet18,resnet50 --input 3x64x64 --batch 16 --breakdown\n"
                    "  qsync bench --tune --models resnet20 --isa avx2_vnni\n"};
    bench one = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(device_start(one.backend, one.threads, one.isa, &one.device));
    const qs_status status = one.tune ? tune(&one, &table) : models_run(&one);
    qs_device_close(one.device);
    return status;
}
