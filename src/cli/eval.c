// SPDX-License-Identifier: Apache-2.0
/* qsync eval: accuracy of saved weights on a data set's test part, in fp32. */
#include "cli.h"

typedef struct eval_work {
    job_options job;
    session_options where;
    const char *weights;
    char model[QS_NAME]; /* of the weights */
    int64_t test_limit;
    bool json;
} eval_work;

static qs_status evaluated(const eval_work *work, const session *here) {
    qs_evaluation result = {0};
    const int64_t limit = here->cluster.class_[here->class_index].memory_limit;
    QS_TRY(qs_evaluate(work->weights, &work->job.job, work->job.data_folder, work->test_limit, limit, here->device, here->comm, &result));
    if (!session_is_first(here)) return QS_OK;
    if (work->json)
        return json_print(
            json_pack("{s:f,s:f,s:I}", "accuracy", result.accuracy, "loss", result.loss, "samples", (json_int_t)result.samples));
    printf("accuracy %.2f %%, loss %.4f over %lld samples\n", 100 * result.accuracy, result.loss, (long long)result.samples);
    return QS_OK;
}

static qs_status work_read(eval_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {"eval", "WEIGHTS", "Accuracy and loss of saved weights on the test part of a data set, computed in fp32.",
                              "  qsync eval run/weights.qsync --dataset fashion-mnist\n"};
    int first = 0;
    option_table table = {0};
    job_options_start(&work->job);
    session_options_add(&work->where, "eval", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_SET | JOB_FOLDER);
    options_add(&table, (option_row){"test-limit", OPTION_INTEGER, &work->test_limit, "N", "use the first N test samples only", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &work->json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 1));
    if (first == argc) return qs_fail(QS_USAGE, "eval needs a weights file; see qsync eval --help");
    work->weights = argv[first];
    QS_TRY(qs_weights_model(work->weights, work->model));
    work->job.model = work->model;
    return job_options_finish(&work->job);
}

qs_status verb_eval(int argc, char **argv) {
    eval_work work = {0};
    session here;
    bool done = false;
    const qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    QS_TRY(session_open(&work.where, status, &here));
    return session_end(&here, evaluated(&work, &here));
}
