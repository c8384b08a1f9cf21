// SPDX-License-Identifier: Apache-2.0
/* One model after the other: its cases' kernels are timed, told, and remembered. */
#include "bench_tune.h"

#include <stdlib.h>
#include <string.h>

#include "qsync/tuning.h"

typedef struct bench {
    const tune_request *request;
    qs_device *device;
    qs_device_info info;
    qs_cluster cluster; /* a class like the device */
    qs_recipe recipe[QS_MAX_FORMATS];
    int recipes;
    char *path; /* NULL: nothing is remembered */
    json_t *models;
} bench;

static qs_status recipe_add(void *context, const char *name) {
    bench *one = context;
    if (one->recipes == QS_MAX_FORMATS) return qs_fail(QS_USAGE, "--recipes: at most %d", QS_MAX_FORMATS);
    return qs_recipe_builtin(name, &one->recipe[one->recipes++]);
}

static void progress(void *context, const char *what, double fraction) {
    (void)context;
    progress_show(fraction, "kernels of %s", what);
}

/* ---- Telling ---- */

static json_t *row_json(const qs_tune_row *row) {
    json_t *kernels = json_object();
    for (int c = 0; c < row->candidates; c++)
        json_object_set_new(kernels, row->kernel[c], json_number(row->us[c]));
    return json_pack("{s:s,s:s,s:s,s:o}", "case", row->case_text, "usual", row->kernel[0], "chosen", row->kernel[row->chosen], "us",
                     kernels);
}

static json_t *result_json(const qs_tune_result *result) {
    json_t *rows = json_array();
    for (int i = 0; i < result->rows; i++)
        json_array_append_new(rows, row_json(&result->row[i]));
    return json_pack("{s:f,s:f,s:o}", "usual_us", result->usual_us, "chosen_us", result->chosen_us, "cases", rows);
}

static void result_print(const char *model, const qs_tune_result *result) {
    int others = 0;
    printf("%s\n", model);
    for (int i = 0; i < result->rows; i++) {
        const qs_tune_row *row = &result->row[i];
        others += row->chosen > 0;
        printf("  %s\n", row->case_text);
        for (int c = 0; c < row->candidates; c++)
            printf("    %c %-44s %12s %7.2f\n", c == row->chosen ? '*' : ' ', row->kernel[c], time_text(row->us[c]),
                   row->us[c] / row->us[0]);
    }
    printf("%s: %d of %d cases have a faster kernel than the usual one; these cases take %s of a step in place of %s\n\n", model, others,
           result->rows, time_text(result->chosen_us), time_text(result->usual_us));
}

/* ---- Remembering ---- */

/* The texts stay the result's. */
static qs_status remember(const bench *one, const qs_tune_result *result) {
    qs_tuning tuning = {0};
    if (!one->path || result->rows == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)result->rows, sizeof *tuning.choice, &tuning.choice));
    for (int i = 0; i < result->rows; i++) {
        qs_kernel_choice *choice = &tuning.choice[tuning.choices++];
        choice->case_text = result->row[i].case_text;
        memcpy(choice->kernel, result->row[i].kernel[result->row[i].chosen], sizeof choice->kernel);
    }
    const qs_status status = qs_tuning_write(one->path, &one->info, &tuning);
    free(tuning.choice);
    return status;
}

static qs_status job_make(const tune_request *request, const char *model, qs_job *out) {
    qs_samples input;
    qs_job_default(out);
    snprintf(out->model, sizeof out->model, "%s", model);
    snprintf(out->dataset, sizeof out->dataset, "%s", request->dataset);
    out->batch = request->batch;
    if (!request->input && !request->classes) return QS_OK;
    QS_TRY(model_samples_parse(request->input, request->classes, model, &input));
    snprintf(out->dataset, sizeof out->dataset, "%lldx%lldx%lld:%lld", (long long)input.input[0].extent[2],
             (long long)input.input[0].extent[0], (long long)input.input[0].extent[1], (long long)input.target.classes);
    return QS_OK;
}

static qs_status model_run(void *context, const char *model) {
    bench *one = context;
    qs_tune_options options;
    qs_tune_result result;
    qs_job job;
    QS_TRY(job_make(one->request, model, &job));
    qs_tune_options_default(&options);
    options.job = &job;
    options.class_ = one->cluster.class_;
    options.recipes = one->recipes;
    options.recipe = one->recipe;
    options.rounds = one->request->rounds;
    options.progress = progress;
    QS_TRY(qs_tune_measure(&options, one->device, &result));
    progress_end();
    if (one->request->json)
        json_object_set_new(one->models, model, result_json(&result));
    else
        result_print(model, &result);
    const qs_status status = remember(one, &result);
    qs_tune_release(&result);
    return status;
}

static qs_status start(bench *one) {
    qs_device_describe(one->device, &one->info);
    QS_TRY(qs_cluster_single(one->request->backend, one->request->threads, &one->cluster));
    class_formats_limit(one->device, one->cluster.class_);
    if (one->request->recipes) QS_TRY(names_each(one->request->recipes, recipe_add, one));
    return qs_tuning_path(&one->path);
}

static qs_status tell_where(bench *one) {
    const tune_request *request = one->request;
    if (request->json)
        return json_print(json_pack("{s:s?,s:s,s:i,s:I,s:O}", "file", one->path, "isa", request->isa, "threads", request->threads, "batch",
                                    (json_int_t)request->batch, "models", one->models));
    if (one->path)
        printf("remembered in %s for %s, isa %s, %d thread%s\n", one->path, one->info.cpu, one->info.isa, one->info.threads,
               one->info.threads == 1 ? "" : "s");
    else
        printf("not remembered: QSYNC_CACHE is off, or there is no home folder\n");
    return QS_OK;
}

qs_status bench_tune(qs_device *device, const tune_request *request) {
    bench one = {.request = request, .device = device, .models = json_object()};
    qs_status status = start(&one);
    if (status == QS_OK) status = names_each(request->models, model_run, &one);
    progress_end();
    if (status == QS_OK) status = tell_where(&one);
    qs_cluster_release(&one.cluster);
    json_decref(one.models);
    free(one.path);
    return status;
}
