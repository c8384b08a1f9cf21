// SPDX-License-Identifier: Apache-2.0
/* qsync export: a model with its weights as an ONNX file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#include "qsync/export.h"

typedef struct export_work {
    const char *model, *weights, *plan_file, *class_name, *dataset, *data_folder, *out, *form, *backend; /* as given; NULL: not said */
    int opset, threads;
    int64_t samples, batch;
    bool fold, external, normalise, fp32, json;
    char *own_weights, *own_plan;               /* of the run's folder */
    char name[QS_MODEL_NAME], source[QS_MODEL]; /* of the model: name, and what opens it */
    qs_plan plan;
    const qs_class_plan *class_; /* NULL: fp32 */
    qs_graph *graph;
    const qs_recipe **recipe;
    qs_tensor_table tensors;
    qs_magnitudes seen; /* of the calibration; NULL: none was needed */
    qs_data_description set;
    float *trained, *statistics;
} export_work;

static const option_row option_rows[] = {
    {OPTION(export_work, out, "out", "FILE", "the ONNX file"), .standard = "model.onnx"},
    {OPTION(export_work, model, "model", "NAME", "model of the weights, or a graph.json"),
     .usual = "what graph.json beside the weights, or they say"},
    {OPTION(export_work, weights, "weights", "FILE", "weights"), .usual = "RUN/weights.safetensors"},
    {OPTION(export_work, form, "form", "FORM", "inference, or training: batch norms by the batch, dropout that drops"),
     .standard = "inference"},
    {OPTION(export_work, fold, "fold", NULL, "batch norms go into the convolutions before them")},
    {OPTION(export_work, opset, "opset", "N", "of ONNX, 17 to 23"), .usual = "the lowest that holds the types used", .minimum = 1},
    {OPTION(export_work, external, "external", NULL, "values in a file of their own beside it, as they are from 2 GB on")},
    {OPTION(export_work, normalise, "normalise", NULL, "images come as 0 ... 255; the data set's normalisation is in the file")},
    {OPTION(export_work, plan_file, "plan", "FILE", "formats of this plan"), .usual = "RUN/plan.json", .excludes = "fp32"},
    {OPTION(export_work, class_name, "class", "NAME", "formats of this class of the plan"),
     .usual = "the one class that has others than fp32", .excludes = "fp32"},
    {OPTION(export_work, fp32, "fp32", NULL, "all in fp32, whatever the plan says")},
    {OPTION(export_work, dataset, "dataset", "NAME", "whose samples calibrate, whose normalisation is taken"), .usual = "the plan's"},
    {OPTION(export_work, samples, "samples", "N", "training samples that calibrate"), .standard = "1024", .minimum = 1},
    {OPTION(export_work, batch, "batch", "N", "of them at a time, as a quantizer finds steps"), .usual = "the plan's, or 64", .minimum = 1},
    {OPTION(export_work, data_folder, "data", "FOLDER", "where the data sets are"), .usual = "$QSYNC_DATA"},
    {OPTION(export_work, backend, "backend", "NAME", "device backend that calibrates"), .standard = "cpu"},
    {OPTION_THREADS(export_work)},
    {OPTION_JSON(export_work)},
};

/* ---- What the options say ---------------------------------------------------------------------------------------------------------- */

/* "FOLDER/NAME" where there is such a file; else NULL. */
static qs_status file_in(const char *folder, const char *name, char **out) {
    QS_TRY(qs_path_join(folder, name, out));
    if (access(*out, R_OK) == 0) return QS_OK;
    free(*out);
    *out = NULL;
    return QS_OK;
}

static qs_status run_read(export_work *work, const char *run) {
    if (!work->weights) {
        QS_TRY(qs_path_join(run, "weights.safetensors", &work->own_weights));
        work->weights = work->own_weights;
    }
    if (work->plan_file) return QS_OK;
    QS_TRY(file_in(run, "plan.json", &work->own_plan));
    work->plan_file = work->own_plan;
    return QS_OK;
}

static qs_status model_open(export_work *work) {
    const bool known = work->dataset != NULL;
    if (known) QS_TRY(qs_dataset_describe(work->dataset, work->data_folder, &work->set));
    if (work->model) {
        snprintf(work->source, sizeof work->source, "%s", work->model);
    } else {
        QS_TRY(job_model_beside(work->weights, work->source));
        if (!work->source[0]) {
            QS_TRY(qs_weights_model(work->weights, work->name));
            snprintf(work->source, sizeof work->source, "%s", work->name);
        }
    }
    return qs_model_open(work->source, known ? &work->set.samples : NULL, &work->graph);
}

static qs_status work_read(export_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "export",
        .arguments = "[RUN]",
        .purpose = "A trained model as an ONNX file: of a run's folder, or of weights and the model that they belong to. Operators in\n"
                   "lower precision stand in the formats that the plan's class has, integers with steps from samples of the data set\n"
                   "(docs/export.md).",
        .examples = "  qsync export run/first --out model.onnx\n"
                    "  qsync export run/first --fp32 --fold --normalise --out small.onnx\n"
                    "  qsync export --model resnet8 --weights resnet8.safetensors --form training --out again.onnx\n",
        .least = 0,
        .most = 1};
    option_table table = {0};
    int first = 0;
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    if (strcmp(work->form, "inference") != 0 && strcmp(work->form, "training") != 0)
        return qs_fail(QS_USAGE, "--form %s: inference or training", work->form);
    if (first < argc) QS_TRY(run_read(work, argv[first]));
    if (!work->weights) return qs_fail(QS_USAGE, "export needs a run's folder, or --weights and their --model");
    if (work->class_name && !work->plan_file)
        return qs_fail(QS_USAGE, "--class %s: there is no plan, name one by --plan", work->class_name);
    if (work->plan_file) {
        QS_TRY(qs_plan_read(work->plan_file, &work->plan));
        if (!work->fp32) QS_TRY(plan_class_choose(&work->plan, work->plan_file, work->class_name, &work->class_));
        if (!work->dataset && work->plan.job.dataset[0] && !work->plan.without_job) work->dataset = work->plan.job.dataset;
    }
    if (work->normalise && !work->dataset) return qs_fail(QS_USAGE, "--normalise needs --dataset, whose normalisation is taken");
    return output_check(work->out);
}

/* ---- The verb -------------------------------------------------------------------------------------------------------------------- */

static qs_status weights_read(export_work *work) {
    QS_TRY(qs_allocate((size_t)(work->graph->trained_elements + work->graph->frozen_elements), sizeof *work->trained, &work->trained));
    QS_TRY(qs_allocate((size_t)work->graph->statistics_elements, sizeof *work->statistics, &work->statistics));
    qs_graph_initialize(work->graph, 1, work->trained, work->statistics);
    return qs_weights_read(work->weights, work->graph, work->trained, work->statistics);
}

static qs_status summary_print(const export_work *work, const qs_export_summary *one) {
    if (work->json)
        return json_print(json_pack("{s:s,s:s,s:i,s:i,s:i,s:I,s:s,s:i,s:i,s:i,s:i,s:i,s:i}", "file", work->out, "model", work->graph->name,
                                    "opset", one->opset, "ir_version", one->ir_version, "nodes", one->nodes, "bytes",
                                    (json_int_t)one->bytes, "class", work->class_ ? work->class_->class_name : "", "integer", one->integer,
                                    "half", one->half, "float8", one->float8, "int4", one->int4, "shift_groups", one->shift_groups,
                                    "transformed", one->transformed));
    printf("%s: %s, %d nodes, opset %d, %s\n", work->out, work->graph->name, one->nodes, one->opset, bytes_text((double)one->bytes));
    if (work->class_)
        printf("formats of class %s: %d operators in integers (%d of them with weights of 4 bits), %d in 16-bit floats, %d in float8\n",
               work->class_->class_name, one->integer, one->int4, one->half, one->float8);
    if (one->shift_groups)
        printf("%d of them read values in shift groups, with a step for each channel (docs/export.md)\n", one->shift_groups);
    if (one->transformed)
        printf("%d operators compute on transformed values, for which ONNX has no form: they stand in fp32\n", one->transformed);
    return QS_OK;
}

/* The run's own normalisation in the place of the data set's, all in units of 0 ... 1. */
static qs_status normalisation_take(export_work *work) {
    const qs_job *job = &work->plan.job;
    QS_TRY(qs_data_normalize(&work->set, job->normalization.means, job->normalization.mean, job->normalization.deviations,
                             job->normalization.deviation, job->normalization.scale));
    for (int i = 0; i < QS_DATA_MOST_CHANNELS && work->set.scale > 0; i++) {
        work->set.mean[i] *= work->set.scale / 255;
        work->set.deviation[i] *= work->set.scale / 255;
    }
    return QS_OK;
}

/* The largest magnitudes of all values, where an operator reads one in integers. */
static qs_status calibrated(export_work *work) {
    const qs_graph *graph = work->graph;
    bool needed = false;
    qs_device *device = NULL;
    qs_evaluation seen;
    qs_job job;
    qs_job_default(&job);
    for (int n = 0; n < graph->nodes; n++) {
        const qs_recipe *recipe = work->recipe[n];
        needed =
            needed ||
            (recipe && (recipe->forward.src.format->kind == QS_KIND_INTEGER || recipe->forward.weights.format->kind == QS_KIND_INTEGER));
    }
    if (!needed) return QS_OK;
    if (!work->dataset)
        return qs_fail(QS_USAGE, "operators of class %s read integers, whose steps come from samples: --dataset says of which set",
                       work->class_->class_name);
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *work->seen.largest, &work->seen.largest));
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *work->seen.typical, &work->seen.typical));
    for (int n = 0; n < graph->nodes - 1; n++) {
        QS_TRY(qs_allocate((size_t)graph->node[n].shape.dim[1], sizeof(float), &work->seen.largest[n]));
        QS_TRY(qs_allocate((size_t)graph->node[n].shape.dim[1], sizeof(float), &work->seen.typical[n]));
    }
    snprintf(job.dataset, sizeof job.dataset, "%s", work->dataset);
    job.batch = work->batch > 0 ? work->batch : work->plan.job.batch > 0 && !work->plan.without_job ? work->plan.job.batch : 64;
    job.normalization = work->plan.job.normalization;
    const qs_calibration_options options = {.graph = graph,
                                            .trained = work->trained,
                                            .statistics = work->statistics,
                                            .job = &job,
                                            .data_folder = work->data_folder,
                                            .part = QS_PART_TRAINING,
                                            .samples = work->samples};
    QS_TRY(device_start(work->backend, work->threads, "all", &device));
    const qs_status status = qs_calibrate(&options, device, &work->seen, &seen);
    qs_device_close(device);
    return status;
}

static qs_status exported(export_work *work) {
    qs_export_summary summary;
    qs_export_ranges ranges = {0};
    QS_TRY(model_open(work));
    if (work->normalise) QS_TRY(normalisation_take(work));
    QS_TRY(weights_read(work));
    if (work->class_) QS_TRY(qs_plan_bind(&work->plan, work->class_->class_name, work->graph, &work->recipe));
    if (work->class_) QS_TRY(qs_tensors_bind(work->class_, work->graph, &work->tensors));
    if (work->class_) QS_TRY(calibrated(work));
    if (work->seen.largest) ranges = (qs_export_ranges){work->graph->nodes, work->seen.largest, work->seen.typical};
    const qs_export_options options = {.form = strcmp(work->form, "training") == 0 ? QS_EXPORT_TRAINING : QS_EXPORT_INFERENCE,
                                       .fold = work->fold,
                                       .external = work->external,
                                       .opset = work->opset,
                                       .mean = work->normalise ? work->set.mean : NULL,
                                       .deviation = work->normalise ? work->set.deviation : NULL,
                                       .recipe = work->recipe,
                                       .value = work->tensors.value,
                                       .parameter = work->tensors.parameter,
                                       .ranges = work->seen.largest ? &ranges : NULL};
    QS_TRY(qs_export_onnx(work->graph, work->trained, work->statistics, &options, work->out, &summary));
    return summary_print(work, &summary);
}

qs_status verb_export(int argc, char **argv) {
    export_work work = {0};
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (status == QS_OK && !done) status = exported(&work);
    free(work.own_weights);
    free(work.own_plan);
    for (int n = 0; work.seen.typical && n < work.graph->nodes; n++) {
        free(work.seen.largest[n]);
        free(work.seen.typical[n]);
    }
    free(work.seen.largest);
    free(work.seen.typical);
    free(work.recipe);
    qs_tensor_table_release(&work.tensors);
    free(work.trained);
    free(work.statistics);
    qs_graph_release(work.graph);
    qs_plan_release(&work.plan);
    return status;
}
