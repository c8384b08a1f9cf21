// SPDX-License-Identifier: Apache-2.0
/* qsync plan: from cluster and profile to a plan. Reads files only; opens no device. */
#include <stdlib.h>

#include "plan_output.h"

typedef struct plan_work {
    qs_cluster cluster;
    qs_profile profile;
    qs_graph *graph;
    qs_plan pins, plan;
} plan_work;

static void work_release(plan_work *work) {
    qs_plan_release(&work->plan);
    qs_plan_release(&work->pins);
    qs_graph_release(work->graph);
    qs_profile_release(&work->profile);
    qs_cluster_release(&work->cluster);
}

/* A plan is made for what was profiled, as far as the command line leaves it open. */
static void job_from_profile(const qs_profile *profile, const option_table *table, job_options *job) {
    if (!option_given(table, "model")) job->model = profile->model;
    if (!option_given(table, "batch")) job->job.batch = profile->batch;
}

/* The profile does not know the data set's name, only its images. */
static qs_status input_check(const qs_job *job, const qs_profile *profile) {
    qs_model_input input;
    QS_TRY(qs_dataset_shape(job->dataset, &input.channels, &input.height, &input.width, &input.classes));
    if (profile->channels == input.channels && profile->model_classes == input.classes) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "--dataset %s: %d channels and %d classes, but the profile was measured with %d and %d: name the profiled set",
                   job->dataset, input.channels, input.classes, profile->channels, profile->model_classes);
}

static qs_status batch_check(const qs_job *job, const qs_profile *profile) {
    if (job->batch == profile->batch) return QS_OK;
    return qs_fail(QS_MISMATCH, "batch %lld: the profile was measured at batch %lld; profile with --batch %lld", (long long)job->batch,
                   (long long)profile->batch, (long long)job->batch);
}

static qs_status plan_out(const plan_work *work, const char *out, bool json, bool explain) {
    if (out) QS_TRY(qs_plan_write(out, &work->plan));
    if (json) {
        char *text = NULL;
        QS_TRY(qs_plan_text(&work->plan, &text));
        puts(text);
        free(text);
        return QS_OK;
    }
    plan_print(&work->plan, &work->cluster);
    if (explain) plan_explain(&work->plan);
    return QS_OK;
}

qs_status verb_plan(int argc, char **argv) {
    const verb_usage usage = {
        "plan", "",
        "Decides which operator gets which precision on which device class. `qsync` starts from the fastest plan that fits the\n"
        "memory and recovers precision where the gradients gain most, while memory and throughput allow; `uniform` takes one\n"
        "precision for all; `fp32` is the oracle.",
        "  qsync plan --cluster cluster.json --profile profile.json --out plan.json --explain\n"};
    const char *cluster = NULL, *profile = NULL, *planner = "qsync", *out = NULL, *pins = NULL;
    bool json = false, explain = false, done = false;
    int first = 0;
    plan_work work = {0};
    qs_plan_options options;
    job_options job;
    option_table table = {0};
    qs_status status = QS_OK;
    qs_plan_options_default(&options);
    job_options_start(&job);
    options_add(&table, (option_row){"cluster", OPTION_TEXT, &cluster, "FILE", "device classes (required)", 0});
    options_add(&table, (option_row){"profile", OPTION_TEXT, &profile, "FILE", "what qsync profile measured (required)", 0});
    options_add(&table, (option_row){"planner", OPTION_TEXT, &planner, "NAME", "fp32, uniform or qsync (qsync)", 0});
    options_add(&table, (option_row){"indicator", OPTION_TEXT, &options.indicator, "NAME", "qsync or random (qsync)", 0});
    options_add(&table,
                (option_row){"tolerance", OPTION_REAL, &options.tolerance, "X", "throughput given up at most, as a share (0.005)", 0});
    options_add(&table, (option_row){"until-fits", OPTION_FLAG, &options.until_fits, NULL, "uniform: lower only until memory fits", 0});
    options_add(&table, (option_row){"pins", OPTION_TEXT, &pins, "FILE", "plan whose pinned operators keep their recipe", 0});
    options_add(&table, (option_row){"out", OPTION_TEXT, &out, "FILE", "write the plan here", 0});
    options_add(&table, (option_row){"explain", OPTION_FLAG, &explain, NULL, "per operator: recipe, omega, what stopped it", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print the plan as JSON", 0});
    job_options_add(&job, &table, JOB_STEP | JOB_SET | JOB_EPOCHS | JOB_PROFILED);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    if (!cluster || !profile) return qs_fail(QS_USAGE, "plan needs --cluster and --profile; see qsync plan --help");
    QS_GOTO(qs_cluster_read(cluster, &work.cluster));
    QS_GOTO(qs_profile_read(profile, &work.profile));
    job_from_profile(&work.profile, &table, &job);
    QS_GOTO(job_options_finish(&job));
    QS_GOTO(input_check(&job.job, &work.profile));
    QS_GOTO(batch_check(&job.job, &work.profile));
    QS_GOTO(qs_job_model(&job.job, &work.graph));
    if (pins) QS_GOTO(qs_plan_read(pins, &work.pins));
    if (pins) options.pins = &work.pins;
    QS_GOTO(qs_plan_make(planner, work.graph, &work.cluster, &work.profile, &job.job, &options, &work.plan));
    QS_GOTO(plan_out(&work, out, json, explain));
done:
    work_release(&work);
    return status;
}
