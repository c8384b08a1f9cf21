// SPDX-License-Identifier: Apache-2.0
/* qsync eval: how well saved weights do on a data set's test part, in fp32 or in the formats of a plan, by the running statistics that were
 * saved or by new ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char beside[QS_MODEL];       /* the run's plan.json */
    qs_plan plan;                /* of plan_file, else of the run */
    const char *plan_path;       /* where it is; NULL: there is none */
    const qs_class_plan *class_; /* whose formats this rank takes; NULL: not known, or nobody asks */
    bool json;
} eval_work;

/* What was evaluated: in fp32, in the formats of the plan, or both. */
typedef struct eval_result {
    bool fp32, planned;
    qs_evaluation in_fp32, in_plan;
} eval_result;

/* By the statistics that were saved, in fp32 or in the formats of the plan, each rank in those of its class. */
static qs_status evaluated_as_saved(const eval_work *work, const worker *here, bool planned, qs_evaluation *out) {
    const qs_class *class_ = &here->cluster.class_[here->class_index];
    const qs_evaluate_options options = {.weights = work->weights,
                                         .job = &work->job.job,
                                         .data_folder = work->job.data_folder,
                                         .test_limit = work->test_limit,
                                         .memory_limit = class_->memory_limit,
                                         .plan = planned ? &work->plan : NULL,
                                         .class_name = planned ? work->class_->class_name : NULL,
                                         .half = planned ? qs_class_half(class_) : NULL};
    return qs_evaluate(&options, here->device, here->comm, out);
}

/* By running statistics that follow the training part anew, in the arithmetic at hand. */
static qs_status evaluated_anew(const eval_work *work, const worker *here, bool planned, qs_evaluation *out) {
    const qs_job *job = &work->job.job;
    qs_graph *graph = NULL;
    const qs_recipe **recipe = NULL;
    float *trained = NULL, *statistics = NULL;
    qs_status status;
    QS_GOTO(job_model_open(job, &graph));
    QS_GOTO(qs_allocate((size_t)(graph->trained_elements + graph->frozen_elements), sizeof *trained, &trained));
    QS_GOTO(qs_allocate((size_t)graph->statistics_elements, sizeof *statistics, &statistics));
    QS_GOTO(qs_weights_read(work->weights, graph, trained, statistics));
    if (planned) QS_GOTO(qs_plan_bind(&work->plan, work->class_->class_name, graph, &recipe));
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
    return status;
}

static qs_status evaluated_in(const eval_work *work, const worker *here, bool planned, qs_evaluation *out) {
    if (planned && work->class_->tensors > 0)
        qs_log(QS_LOG_WARNING, "class %s gives tensors formats of their own, which are of training: evaluation has them in fp32",
               work->class_->class_name);
    return work->recalibrate > 0 ? evaluated_anew(work, here, planned, out) : evaluated_as_saved(work, here, planned, out);
}

/* Whose formats this rank takes: the named class's; else of several ranks each its own class's, of one those of the only class that has
 * others than fp32. *reduced: some rank has others. */
static qs_status class_choose(eval_work *work, const worker *here, bool *reduced) {
    const qs_plan *plan = &work->plan;
    const qs_cluster *cluster = &here->cluster;
    if (plan->classes == 0) return qs_fail(QS_MISMATCH, "%s: a plan without classes has no formats", work->plan_path);
    if (work->plan_class || qs_comm_size(here->comm) == 1) {
        QS_TRY(plan_class_choose(plan, work->plan_path, work->plan_class, &work->class_));
        *reduced = work->class_ != NULL;
        if (!work->class_) work->class_ = &plan->class_[0];
        return QS_OK;
    }
    for (int c = 0; c < cluster->classes; c++) {
        const char *name = cluster->class_[c].name;
        const qs_class_plan *one = qs_plan_class(plan, name);
        if (cluster->class_[c].count == 0) continue;
        if (!one)
            return qs_fail(QS_USAGE, "the plan %s has no class %s, which the cluster has: --class says whose formats are meant",
                           work->plan_path, name);
        *reduced = *reduced || plan_class_is_reduced(plan, one);
        if (c == here->class_index) work->class_ = one;
    }
    return QS_OK;
}

/* What nobody asked for, the formats of the run, is left out where it is not known which they are. */
static qs_status arithmetic_choose(eval_work *work, const worker *here, eval_result *out) {
    const char *named = work->arithmetic;
    const bool in_plan = named && strcmp(named, "plan") == 0, asked = named ? in_plan : work->plan_file || work->plan_class;
    bool reduced = false;
    if (named && !in_plan && strcmp(named, "fp32") != 0) return qs_fail(QS_USAGE, "--arithmetic %s: fp32, or plan", named);
    if (work->recalibrate > 0 && qs_comm_size(here->comm) > 1)
        return qs_fail(QS_USAGE, "new statistics are found by one rank: leave out --recalibrate, or run it on one");
    if (work->plan_class && !work->plan_path)
        return qs_fail(QS_USAGE, "--class %s: there is no plan.json of a run beside %s; name a plan by --plan", work->plan_class,
                       work->weights);
    if (in_plan && !work->plan_path)
        return qs_fail(QS_USAGE, "--arithmetic plan: there is no plan.json of a run beside %s; name a plan by --plan", work->weights);
    const qs_status status = work->plan_path ? class_choose(work, here, &reduced) : QS_OK;
    if (status != QS_OK && (asked || work->plan_class)) return status;
    if (status != QS_OK && !named && worker_is_first(here)) qs_log(QS_LOG_WARNING, "evaluated in fp32 only: %s", qs_message());
    out->planned = asked || (!named && status == QS_OK && reduced);
    out->fp32 = named ? !in_plan : !work->plan_file;
    return QS_OK;
}

/* A plan that some ranks do not see, whose folder is another, is left out where nobody asked for it. */
static qs_status arithmetic_agree(eval_work *work, const worker *here, eval_result *out) {
    double seen_and_not[2];
    QS_TRY(qs_comm_agree(here->comm, arithmetic_choose(work, here, out)));
    seen_and_not[0] = out->planned;
    seen_and_not[1] = !out->planned;
    QS_TRY(qs_comm_max(here->comm, seen_and_not, 2));
    if (seen_and_not[0] == 0 || seen_and_not[1] == 0) return QS_OK;
    if (worker_is_first(here)) qs_log(QS_LOG_WARNING, "evaluated in fp32 only: not all ranks see the run's plan.json");
    out->planned = false;
    return QS_OK;
}

static void result_print(const char *where, const qs_evaluation *found) {
    printf("%saccuracy %.2f %%, loss %.4f%s over %lld samples\n", where, 100 * found->accuracy, found->loss, measures_text(found),
           (long long)found->samples);
}

static qs_status evaluated(eval_work *work, const worker *here) {
    eval_result result = {0};
    QS_TRY(arithmetic_agree(work, here, &result));
    if (result.fp32) QS_TRY(evaluated_in(work, here, false, &result.in_fp32));
    if (result.planned) QS_TRY(evaluated_in(work, here, true, &result.in_plan));
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
        measures_put(root, "planned_", &result.in_plan);
    }
    if (root && work->recalibrate > 0) json_object_set_new(root, "recalibrated", json_integer((json_int_t)work->recalibrate));
    return json_print(root);
}

static const option_row option_rows[] = {
    {OPTION(eval_work, named, "model", "NAME", "model of the weights, or a graph.json"), .usual = "what the file says"},
    {OPTION(eval_work, test_limit, "test-limit", "N", "use the first N test samples only")},
    {OPTION(eval_work, plan_file, "plan", "FILE", "in the formats of a plan, not in fp32")},
    {OPTION(eval_work, plan_class, "class", "NAME", "formats of this class of the plan"),
     .usual = "the one class that has others than fp32; of several ranks each its own"},
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
    if (!work->named) {
        QS_TRY(qs_weights_model(work->weights, work->model));
        snprintf(work->source, sizeof work->source, "%s", work->model);
        QS_TRY(job_model_beside(work->weights, work->source));
    }
    work->job.model = work->named ? work->named : work->source;
    if (run_plan_beside(work->weights, work->named ? work->named : work->model, work->beside, &work->plan)) {
        const bool normalized = option_given(&table, "mean") || option_given(&table, "deviation") || option_given(&table, "scale");
        work->run = work->plan.job;
        if (!normalized) work->job.job.normalization = work->run.normalization;
        if (!option_given(&table, "dataset") && work->run.dataset[0]) work->job.dataset = work->run.dataset;
        work->plan_path = work->beside;
    }
    if (work->plan_file) {
        qs_plan_release(&work->plan);
        QS_TRY(qs_plan_read(work->plan_file, &work->plan));
        work->plan_path = work->plan_file;
    }
    return job_options_finish(&work->job);
}

qs_status verb_eval(int argc, char **argv) {
    eval_work work = {0};
    worker here;
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    status = worker_open(&work.where, status, &here);
    if (status == QS_OK) status = worker_end(&here, evaluated(&work, &here));
    qs_plan_release(&work.plan);
    return status;
}
