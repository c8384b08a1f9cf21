// SPDX-License-Identifier: Apache-2.0
/* qsync eval: how well saved weights do on a data set's test part, in fp32 or in the formats of a plan, by the running statistics that were
 * saved or by new ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* ---- Measures ---- */

const char *measures_text(const qs_evaluation *evaluation) {
    static char text[128];
    text[0] = '\0';
    for (int i = 0; i < evaluation->measures; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ", %s %.4f", evaluation->measure[i].name, evaluation->measure[i].value);
        for (char *at = text + used; *at; at++)
            if (*at == '_') *at = ' ';
    }
    return text;
}

void measures_put(json_t *object, const char *prefix, const qs_evaluation *evaluation) {
    for (int i = 0; i < evaluation->measures; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%s", prefix, evaluation->measure[i].name);
        json_object_set_new(object, key, json_number(evaluation->measure[i].value));
    }
}

/* ---- The verb ---- */

typedef struct eval_work {
    job_options job;
    worker_options where;
    const char *weights, *named;                 /* the file; the model that --model says */
    char model[QS_MODEL_NAME], source[QS_MODEL]; /* of the weights: name, and what opens it */
    qs_job run;                                  /* that they are of */
    int64_t test_limit, recalibrate;
    const char *plan_file, *plan_class, *arithmetic;
    char plan_beside[QS_MODEL]; /* plan.json of the run that the weights are of; "": there is none */
    bool json;
} eval_work;

/* What was evaluated: in fp32, in the formats of the plan, or both. */
typedef struct eval_result {
    bool fp32, planned;
    qs_evaluation in_fp32, in_plan;
} eval_result;

/* Running statistics anew where that is asked for; in the formats of a plan's class, with steps of quantizers from each batch, or in fp32
 * (file NULL). */
static qs_status evaluated_in_formats(const eval_work *work, const worker *here, const char *file, qs_evaluation *out) {
    const qs_job *job = &work->job.job;
    qs_plan plan = {0};
    qs_graph *graph = NULL;
    const qs_recipe **recipe = NULL;
    float *trained = NULL, *statistics = NULL;
    qs_status status;
    if (qs_comm_size(here->comm) > 1)
        return qs_fail(QS_USAGE,
                       "evaluation in formats of a plan, or with new statistics, runs on one rank: leave out --plan, --arithmetic plan "
                       "and --recalibrate, or run it on one");
    if (file) QS_GOTO(qs_plan_read(file, &plan));
    if (file && plan.classes == 0) QS_GOTO(qs_fail(QS_MISMATCH, "%s: a plan without classes has no formats", file));
    QS_GOTO(job_model_open(job, &graph));
    QS_GOTO(qs_allocate((size_t)(graph->trained_elements + graph->frozen_elements), sizeof *trained, &trained));
    QS_GOTO(qs_allocate((size_t)graph->statistics_elements, sizeof *statistics, &statistics));
    QS_GOTO(qs_weights_read(work->weights, graph, trained, statistics));
    const qs_class_plan *class_ = NULL;
    if (file) QS_GOTO(plan_class_choose(&plan, file, work->plan_class, &class_));
    if (file && !class_) class_ = &plan.class_[0]; /* all are in fp32 */
    if (file) QS_GOTO(qs_plan_bind(&plan, class_->class_name, graph, &recipe));
    if (file && class_->tensors > 0)
        qs_log(QS_LOG_WARNING, "class %s gives tensors formats of their own, which are of training: evaluation has them in fp32",
               class_->class_name);
    const qs_calibration_options options = {.graph = graph,
                                            .trained = trained,
                                            .statistics = statistics,
                                            .job = job,
                                            .data_folder = work->job.data_folder,
                                            .part = QS_PART_TEST,
                                            .samples = work->test_limit,
                                            .recalibrate = work->recalibrate,
                                            .recipe = recipe,
                                            .half = qs_class_half(&here->cluster.class_[here->class_index])};
    status = qs_calibrate(&options, here->device, NULL, out);
done:
    free(recipe);
    free(trained);
    free(statistics);
    qs_graph_release(graph);
    qs_plan_release(&plan);
    return status;
}

/* Whether the run that the weights are of computed forward passes in other formats than fp32, in one class. */
static bool run_was_lowered(const eval_work *work) {
    const qs_class_plan *class_ = NULL;
    qs_plan plan = {0};
    bool lowered = false;
    if (!work->plan_beside[0] || qs_plan_read(work->plan_beside, &plan) != QS_OK) return false;
    if (plan_class_choose(&plan, work->plan_beside, work->plan_class, &class_) == QS_OK) lowered = class_ != NULL;
    qs_plan_release(&plan);
    return lowered;
}

static qs_status arithmetic_choose(eval_work *work, const worker *here, eval_result *out) {
    const char *named = work->arithmetic;
    if (named && strcmp(named, "fp32") != 0 && strcmp(named, "plan") != 0)
        return qs_fail(QS_USAGE, "--arithmetic %s: fp32, or plan", named);
    if (named && strcmp(named, "plan") == 0 && !work->plan_file && !work->plan_beside[0])
        return qs_fail(QS_USAGE, "--arithmetic plan: there is no plan.json beside %s; name one by --plan", work->weights);
    out->planned = named ? strcmp(named, "plan") == 0 : work->plan_file || (qs_comm_size(here->comm) == 1 && run_was_lowered(work));
    out->fp32 = named ? !out->planned : !work->plan_file;
    if (!work->plan_file) work->plan_file = work->plan_beside;
    return QS_OK;
}

static void result_print(const char *where, const qs_evaluation *found) {
    printf("%saccuracy %.2f %%, loss %.4f%s over %lld samples\n", where, 100 * found->accuracy, found->loss, measures_text(found),
           (long long)found->samples);
}

static qs_status evaluated(eval_work *work, const worker *here) {
    eval_result result = {0};
    const int64_t limit = here->cluster.class_[here->class_index].memory_limit;
    QS_TRY(arithmetic_choose(work, here, &result));
    if (result.fp32 && work->recalibrate > 0)
        QS_TRY(evaluated_in_formats(work, here, NULL, &result.in_fp32));
    else if (result.fp32)
        QS_TRY(qs_evaluate(work->weights, &work->job.job, work->job.data_folder, work->test_limit, limit, here->device, here->comm,
                           &result.in_fp32));
    if (result.planned) QS_TRY(evaluated_in_formats(work, here, work->plan_file, &result.in_plan));
    if (!worker_is_first(here)) return QS_OK;
    const qs_evaluation *first = result.fp32 ? &result.in_fp32 : &result.in_plan;
    if (!work->json) {
        result_print(result.fp32 ? "" : "in the plan's arithmetic: ", first);
        if (result.fp32 && result.planned) result_print("in the plan's arithmetic: ", &result.in_plan);
        return QS_OK;
    }
    json_t *root = json_pack("{s:o,s:o,s:I,s:s}", "accuracy", json_number(first->accuracy), "loss", json_number(first->loss), "samples",
                             (json_int_t)first->samples, "arithmetic", result.fp32 ? "fp32" : "plan");
    if (root) measures_put(root, "", first);
    if (root && result.fp32 && result.planned) {
        json_object_set_new(root, "planned_accuracy", json_number(result.in_plan.accuracy));
        json_object_set_new(root, "planned_loss", json_number(result.in_plan.loss));
    }
    if (root && work->recalibrate > 0) json_object_set_new(root, "recalibrated", json_integer((json_int_t)work->recalibrate));
    return json_print(root);
}

static const option_row option_rows[] = {
    {OPTION(eval_work, named, "model", "NAME", "model of the weights, or a graph.json"), .usual = "what the file says"},
    {OPTION(eval_work, test_limit, "test-limit", "N", "use the first N test samples only")},
    {OPTION(eval_work, plan_file, "plan", "FILE", "in the formats of a plan, not in fp32")},
    {OPTION(eval_work, plan_class, "class", "NAME", "formats of this class of the plan"),
     .usual = "the one class that has others than fp32"},
    {OPTION(eval_work, arithmetic, "arithmetic", "NAME",
            "fp32, or plan: forward formats of the plan, or of the run that the weights are of"),
     .usual = "plan with --plan; else fp32, and the run's as well where it has others"},
    {OPTION(eval_work, recalibrate, "recalibrate", "N",
            "before, let running statistics follow N batches of the training part in that arithmetic")},
    {OPTION_JSON(eval_work)},
};

static qs_status work_read(eval_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "eval",
        .arguments = "WEIGHTS",
        .purpose = "Accuracy and loss of saved weights on the test part of a data set, computed in fp32, or in the formats of a\n"
                   "plan; of language models the perplexity, of tags and spans F1 as well. Weights in a run's folder are evaluated on the "
                   "run's data set, normalised\n"
                   "as there, unless options say otherwise.",
        .examples = "  qsync eval run/weights.safetensors --dataset fashion-mnist\n",
        .least = 1,
        .most = 1};
    int first = 0;
    option_table table = {0};
    job_options_start(&work->job);
    worker_options_add(&work->where, "eval", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_SET | JOB_LENGTHS | JOB_FOLDER);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    work->weights = argv[first];
    if (!work->named && qs_model_has_weights(work->weights)) work->named = work->weights;
    const char *slash = strrchr(work->weights, '/');
    const int folder = slash ? (int)(slash - work->weights) + 1 : 0;
    const int length = snprintf(work->plan_beside, sizeof work->plan_beside, "%.*splan.json", folder, work->weights);
    if (length >= (int)sizeof work->plan_beside || access(work->plan_beside, R_OK) != 0) work->plan_beside[0] = '\0';
    if (job_beside(work->weights, &work->run)) {
        const bool normalized = option_given(&table, "mean") || option_given(&table, "deviation") || option_given(&table, "scale");
        if (!normalized) work->job.job.normalization = work->run.normalization;
        if (!option_given(&table, "dataset") && work->run.dataset[0]) work->job.dataset = work->run.dataset;
    }
    if (work->named) {
        work->job.model = work->named;
        return job_options_finish(&work->job);
    }
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
