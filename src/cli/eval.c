// SPDX-License-Identifier: Apache-2.0
/* qsync eval: accuracy of saved weights on a data set's test part, in fp32. */
#include "cli.h"

typedef struct eval_work {
    job_options job;
    worker_options where;
    const char *weights;
    char model[QS_MODEL_NAME], source[QS_MODEL]; /* of the weights: name, and what opens it */
    int64_t test_limit;
    bool json;
} eval_work;

static qs_status evaluated(const eval_work *work, const worker *here) {
    qs_evaluation result = {0};
    const int64_t limit = here->cluster.class_[here->class_index].memory_limit;
    QS_TRY(qs_evaluate(work->weights, &work->job.job, work->job.data_folder, work->test_limit, limit, here->device, here->comm, &result));
    if (!worker_is_first(here)) return QS_OK;
    if (work->json)
        return json_print(
            json_pack("{s:f,s:f,s:I}", "accuracy", result.accuracy, "loss", result.loss, "samples", (json_int_t)result.samples));
    printf("accuracy %.2f %%, loss %.4f over %lld samples\n", 100 * result.accuracy, result.loss, (long long)result.samples);
    return QS_OK;
}

static const option_row option_rows[] = {
    {OPTION(eval_work, test_limit, "test-limit", "N", "use the first N test samples only")},
    {OPTION_JSON(eval_work)},
};

static qs_status work_read(eval_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {.verb = "eval",
                              .arguments = "WEIGHTS",
                              .purpose = "Accuracy and loss of saved weights on the test part of a data set, computed in fp32.",
                              .examples = "  qsync eval run/weights.safetensors --dataset fashion-mnist\n",
                              .least = 1,
                              .most = 1};
    int first = 0;
    option_table table = {0};
    job_options_start(&work->job);
    worker_options_add(&work->where, "eval", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_SET | JOB_FOLDER);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    work->weights = argv[first];
    QS_TRY(qs_weights_model(work->weights, work->model));
    snprintf(work->source, sizeof work->source, "%s", work->model);
    QS_TRY(job_model_beside(work->weights, work->source));
    work->job.model = work->source;
    return job_options_finish(&work->job);
}

qs_status verb_eval(int argc, char **argv) {
    eval_work work = {0};
    worker here;
    bool done = false;
    const qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    QS_TRY(worker_open(&work.where, status, &here));
    return worker_end(&here, evaluated(&work, &here));
}
