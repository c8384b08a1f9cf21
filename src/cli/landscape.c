// SPDX-License-Identifier: Apache-2.0
/* qsync landscape: the training loss along a random direction through saved weights, in the arithmetic that they were trained in. */
#include <string.h>

#include "cli.h"

typedef struct landscape_work {
    job_options job;
    worker_options where;
    qs_landscape_options options;
    const char *plan_path; /* NULL: fp32 everywhere */
    qs_plan plan;
    char model[QS_MODEL_NAME], source[QS_MODEL]; /* of the weights: name, and what opens it */
    bool json;
} landscape_work;

static void progress(void *context, int done, int points) {
    (void)context;
    progress_show((double)done / points, "point %d/%d", done, points);
}

static qs_status landscape_json(const landscape_work *work, const qs_landscape *landscape) {
    json_t *points = json_array();
    for (int i = 0; i < landscape->points; i++) {
        const qs_landscape_point *point = &landscape->point[i];
        json_array_append_new(
            points, json_pack("{s:f,s:o,s:f}", "alpha", point->alpha, "loss", json_number(point->loss), "accuracy", point->accuracy));
    }
    return json_print(json_pack("{s:s,s:I,s:I,s:I,s:o}", "model", work->model, "seed", (json_int_t)work->job.job.seed, "direction",
                                (json_int_t)work->options.direction, "samples", (json_int_t)landscape->samples, "points", points));
}

static void landscape_print(const landscape_work *work, const qs_landscape *landscape) {
    printf("%s, direction %lld, mean over %lld training samples\n", work->model, (long long)work->options.direction,
           (long long)landscape->samples);
    printf("%10s %12s %12s\n", "alpha", "loss", "accuracy");
    for (int i = 0; i < landscape->points; i++) {
        const qs_landscape_point *point = &landscape->point[i];
        printf("%10.4f %12.6g %10.2f %%\n", point->alpha, point->loss, 100 * point->accuracy);
    }
}

static qs_status measured(landscape_work *work, const worker *here) {
    qs_landscape landscape = {0};
    qs_landscape_options *options = &work->options;
    options->job = &work->job.job;
    options->cluster = &here->cluster;
    options->plan = work->plan_path ? &work->plan : NULL;
    options->data_folder = work->job.data_folder;
    options->progress = progress;
    QS_TRY(qs_landscape_measure(options, here->device, here->comm, &landscape));
    qs_status status = QS_OK;
    if (worker_is_first(here)) {
        progress_end();
        if (work->json)
            status = landscape_json(work, &landscape);
        else
            landscape_print(work, &landscape);
    }
    qs_landscape_release(&landscape);
    return status;
}

static const option_row option_rows[] = {
    {OPTION(landscape_work, job.seed, "seed", "N", "of the batches, the rounding and the direction"), .standard = "1"},
    {OPTION(landscape_work, options.training_limit, "train-limit", "N", "use the first N training samples only")},
    {OPTION(landscape_work, plan_path, "plan", "FILE", "plan.json of the run; its job gives the defaults"), .usual = "fp32 everywhere"},
    {OPTION(landscape_work, options.points, "points", "N", "points of the slice, an odd number"), .standard = "51", .minimum = 3},
    {OPTION(landscape_work, options.range, "range", "X", "from -X to X along the direction"), .standard = "1"},
    {OPTION(landscape_work, options.batches, "batches", "N", "batches that each loss is the mean over"), .standard = "8", .minimum = 1},
    {OPTION(landscape_work, options.direction, "direction", "N", "which random direction"), .standard = "1"},
    {OPTION_JSON(landscape_work)},
};

/* The weights know their model; the plan, where it has a job, the rest. */
static qs_status work_read(landscape_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "landscape",
        .arguments = "WEIGHTS",
        .purpose = "The training loss along one random direction through saved weights, each filter of it as long as that of the weights. "
                   "The loss "
                   "is\n"
                   "what training sees: the plan's arithmetic, the batch's statistics, the first batches of an epoch without augmentation.",
        .examples = "  qsync landscape run/weights.safetensors --plan run/plan.json --points 51\n",
        .least = 1,
        .most = 1};
    int first = 0;
    option_table table = {0};
    job_options_start(&work->job);
    worker_options_add(&work->where, "landscape", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_SET | JOB_LENGTHS | JOB_FOLDER);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    work->options.weights = argv[first];
    QS_TRY(qs_weights_model(work->options.weights, work->model));
    snprintf(work->source, sizeof work->source, "%s", work->model);
    QS_TRY(job_model_beside(work->options.weights, work->source));
    if (work->plan_path) {
        QS_TRY(qs_plan_read(work->plan_path, &work->plan));
        job_names_from_plan(&work->plan, &table, &work->job);
    }
    work->job.model = work->source;
    QS_TRY(job_options_finish(&work->job));
    if (!work->plan_path) return QS_OK;
    job_from_plan(&work->plan, &table, &work->job.job);
    memcpy(work->job.job.model, work->source, sizeof work->source);
    return QS_OK;
}

qs_status verb_landscape(int argc, char **argv) {
    landscape_work work = {0};
    worker here;
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    status = worker_open(&work.where, status, &here);
    if (status == QS_OK) status = worker_end(&here, measured(&work, &here));
    qs_plan_release(&work.plan);
    return status;
}
