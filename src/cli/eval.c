// SPDX-License-Identifier: Apache-2.0
/* qsync eval: accuracy of saved weights on a data set's test part, in fp32. */
#include "cli.h"

static qs_status evaluated(const char *weights, const job_options *job, const session *here, bool json) {
    qs_evaluation result = {0};
    QS_TRY(qs_evaluate(weights, &job->job, job->data_folder, job->test_limit, here->device, here->comm, &result));
    if (!session_is_first(here)) return QS_OK;
    if (json)
        return json_print(json_pack("{s:f,s:f,s:I}", "accuracy", result.accuracy, "loss", result.loss, "samples", (json_int_t)result.samples));
    printf("accuracy %.2f %%, loss %.4f over %lld samples\n", 100 * result.accuracy, result.loss, (long long)result.samples);
    return QS_OK;
}

qs_status verb_eval(int argc, char **argv) {
    const verb_usage usage = {"eval", "WEIGHTS", "Accuracy and loss of saved weights on the test part of a data set, computed in fp32.",
                              "  qsync eval run/weights.qsync --dataset fashion-mnist\n"};
    bool json = false, done = false;
    int first = 0;
    char model[QS_NAME];
    job_options job;
    session_options where;
    session here;
    option_table table = {0};
    job_options_start(&job);
    session_options_add(&where, &table);
    job_options_add(&job, &table, false);
    options_add(&table, (option_row){"test-limit", OPTION_INTEGER, &job.test_limit, "N", "use the first N test samples only", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 1));
    if (first == argc) return qs_fail(QS_USAGE, "eval needs a weights file; see qsync eval --help");
    QS_TRY(qs_weights_model(argv[first], model));
    job.model = model;
    QS_TRY(job_options_finish(&job));
    QS_TRY(session_open(&where, &here));
    return session_end(&here, evaluated(argv[first], &job, &here, json));
}
