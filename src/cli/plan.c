// SPDX-License-Identifier: Apache-2.0
/* qsync plan: from cluster and profile to a plan, and what two plans differ in. Reads files only; opens no device. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

typedef struct plan_work {
    const char *cluster_file, *profile_file, *planner, *convention, *out, *pins_file, *ends, *statistics_from, *cluster_out;
    bool json, explain, diff, drop;
    qs_plan_options options;
    accumulate_options accumulate;
    qs_accumulation_rule rule;
    assignment_options assignment;
    job_options job;
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

/* ---- Reading --------------------------------------------------------------------------------------------------------------------- */

/* A plan is made for what was profiled, as far as the command line leaves it open. A wire that is left open is the planner's choice among
 * those that were profiled. */
static void job_from_profile(const qs_profile *profile, const option_table *table, plan_work *work) {
    job_options *job = &work->job;
    work->options.choose_wire = !option_given(table, "wire") || strcmp(job->wire, "auto") == 0;
    if (work->options.choose_wire) job->wire = "fp32";
    if (!option_given(table, "model")) job->model = profile->model;
    if (!option_given(table, "batch")) job->job.batch = profile->batch;
    for (int i = 0; !option_given(table, "lengths") && i < profile->lengths; i++)
        job->job.lengths.at[job->job.lengths.count++] = profile->length_row[i].length;
    for (int i = profile->collectives - 1; i >= 0; i--) {
        const qs_collective_cost *row = &profile->collective[i];
        if (row->ranks > 1 && !option_given(table, "all-reduce")) job->all_reduce = row->algorithm;
        if (row->ranks > 1 && work->options.choose_wire) job->wire = row->wire[0] ? row->wire : "fp32";
    }
}

/* The profile does not know the data set's name, only its samples. A model of a file may tell more classes apart than the set has. */
static qs_status input_check(const qs_job *job, const qs_profile *profile) {
    qs_data_description set;
    QS_TRY(qs_dataset_describe(job->dataset, NULL, &set));
    QS_TRY(qs_fail_within(qs_samples_fit(set.name, &set.samples, &profile->samples), "--dataset: not the profiled one"));
    if (set.samples.target.classes == profile->samples.target.classes || qs_model_is_file(profile->model)) return QS_OK;
    return qs_fail(QS_MISMATCH, "--dataset %s: %lld classes, but the profile was measured with %lld: name the profiled set", job->dataset,
                   (long long)set.samples.target.classes, (long long)profile->samples.target.classes);
}

static qs_status batch_check(const qs_job *job, const qs_profile *profile) {
    if (job->batch == profile->batch || qs_profile_batch_find(profile, job->batch)) return QS_OK;
    return qs_fail(QS_MISMATCH, "batch %lld: the profile was measured at batch %lld; profile with --batch %lld", (long long)job->batch,
                   (long long)profile->batch, (long long)job->batch);
}

static qs_status work_read(plan_work *work, const option_table *table) {
    if (work->accumulate.rule) {
        QS_TRY(accumulate_options_read(&work->accumulate, &work->rule));
        work->options.accumulate = &work->rule;
    }
    if (work->convention) QS_TRY(qs_convention_parse(work->convention, &work->options.convention));
    if (work->out) QS_TRY(output_check(work->out));
    if (work->cluster_out) QS_TRY(output_check(work->cluster_out));
    QS_TRY(qs_cluster_read(work->cluster_file, &work->cluster));
    QS_TRY(qs_profile_read(work->profile_file, &work->profile));
    if (work->statistics_from) QS_TRY(statistics_take(work->statistics_from, &work->profile));
    QS_TRY(statistics_check(&work->profile, work->options.indicator));
    job_from_profile(&work->profile, table, work);
    QS_TRY(assignment_options_finish(&work->assignment, work->planner, table, &work->options.assignment, &work->job));
    QS_TRY(job_options_finish(&work->job));
    QS_TRY(input_check(&work->job.job, &work->profile));
    QS_TRY(batch_check(&work->job.job, &work->profile));
    QS_TRY(job_model_open(&work->job.job, &work->graph));
    if (!work->pins_file && !work->ends) return QS_OK;
    work->options.pins = &work->pins;
    if (work->ends) return plan_ends_pin(work->graph, &work->cluster, work->ends, &work->pins);
    return qs_plan_read(work->pins_file, &work->pins);
}

/* ---- Planning ------------------------------------------------------------------------------------------------------------------- */

static qs_status work_plan(plan_work *work) {
    const qs_plan_question ask = {work->planner, work->graph, &work->cluster, &work->profile, &work->job.job, &work->options};
    qs_cluster rest = {0};
    QS_TRY(qs_plan_make(ask.planner, ask.graph, ask.cluster, ask.profile, ask.job, ask.options, &work->plan));
    QS_TRY(qs_plan_weigh_classes(&ask, &work->plan));
    if (!work->drop) return QS_OK;
    QS_TRY(qs_plan_drop_unhelpful(&ask, &rest, &work->plan));
    qs_cluster_release(&work->cluster);
    work->cluster = rest;
    return QS_OK;
}

/* ---- Output ----------------------------------------------------------------------------------------------------------------------- */

static qs_status cluster_write(const char *path, const qs_cluster *cluster) {
    char *text = NULL;
    QS_TRY(qs_cluster_text(cluster, &text));
    const qs_status status = qs_file_write(path, text, strlen(text));
    free(text);
    return status;
}

static qs_status explanation_out(const plan_work *work) {
    qs_prediction prediction = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_plan_predict(&work->plan, work->graph, &work->cluster, &work->profile, NULL, NULL, &prediction));
    if (work->json)
        status = json_print(plan_explain_json(&work->plan, &work->cluster, &prediction));
    else
        plan_explain_print(&work->plan, &work->cluster, &prediction);
    qs_prediction_release(&prediction);
    return status;
}

static qs_status work_out(const plan_work *work) {
    if (work->out) QS_TRY(qs_plan_write(work->out, &work->plan));
    if (work->cluster_out) QS_TRY(cluster_write(work->cluster_out, &work->cluster));
    if (!work->json) plan_print(&work->plan, &work->cluster, &work->profile);
    if (work->explain) return explanation_out(work);
    if (!work->json) return QS_OK;
    char *text = NULL;
    QS_TRY(qs_plan_text(&work->plan, &text));
    puts(text);
    free(text);
    return QS_OK;
}

/* ---- Options ---------------------------------------------------------------------------------------------------------------------- */

/* The members of a list, kept in `out`. */
static const char *members_text(const char *(*name_at)(size_t), char *out, size_t size) {
    size_t count = 0;
    while (name_at(count))
        count++;
    snprintf(out, size, "%s", qs_names_join(count, name_at));
    return out;
}

static const char *planners_text(void) {
    static char text[256];
    return members_text(qs_planner_name_at, text, sizeof text);
}

static const char *indicators_text(void) {
    static char text[256];
    return members_text(qs_indicator_name_at, text, sizeof text);
}

static const option_row option_rows[] = {
    {OPTION(plan_work, cluster_file, "cluster", "FILE", "device classes"), .usual = "required"},
    {OPTION(plan_work, profile_file, "profile", "FILE", "what qsync profile measured"), .usual = "required"},
    {OPTION(plan_work, statistics_from, "statistics-from", "FILE",
            "tensor statistics of another profile of the model: for estimated ones, which have none")},
    {OPTION(plan_work, pins_file, "pins", "FILE", "plan whose pinned operators keep their recipe"), .excludes = "keep-first-last"},
    {OPTION(plan_work, ends, "keep-first-last", "RECIPE",
            "pin the model's first and last operator to it (fp32), in every class that has it")},
    {OPTION(plan_work, out, "out", "FILE", "write the plan here")},
    {OPTION(plan_work, explain, "explain", NULL,
            "a summary, and per operator: recipe, omega, what stopped it, what the next recipe would cost")},
    {OPTION(plan_work, diff, "diff", NULL, "what plan files A and B differ in; exit code 0: nothing, 1: something, 2: trouble")},
    {OPTION(plan_work, drop, "drop-unhelpful", NULL, "leave out classes without which the others are as fast, and plan for the rest"),
     .needs = "cluster-out"},
    {OPTION(plan_work, cluster_out, "cluster-out", "FILE", "write the cluster that remains, for training"), .needs = "drop-unhelpful"},
    {OPTION(plan_work, json, "json", NULL, "print the plan (the explanation, the differences) as JSON")},
    {OPTION(plan_work, planner, "planner", "NAME", NULL), .describe = planners_text, .standard = "qsync"},
    {OPTION(plan_work, options.indicator, "indicator", "NAME", NULL), .describe = indicators_text,
     .usual = "measured where the profile has that, else qsync"},
    {OPTION(plan_work, convention, "convention", "NAME", "how qsync and measured form omega (indicator --help)"),
     .usual = "the best one measured"},
    {OPTION(plan_work, options.tolerance, "tolerance", "X", "throughput given up at most, as a share"), .standard = "0.005"},
    {OPTION(plan_work, options.confidence, "confidence", "P",
            "probability with which T_min is kept, by the errors that the profile knows of itself; 0.5: predictions are believed"),
     .standard = "0.95"},
    {OPTION(plan_work, options.until_fits, "until-fits", NULL, "uniform: lower only until memory fits")},
    {OPTION(plan_work, options.recompute, "recompute", "BLOCKS",
            "compute these again for backward instead of keeping what they save: no, all, blocks (inspect --blocks) by the name of their "
            "first operator with commas between, or auto: as many as make the plan better where memory binds"),
     .standard = "no"},
    {OPTION(plan_work, options.lower_training, "lower-training", NULL, "training classes may be lowered too, where they set the pace")},
};

static qs_status arguments_agree(const plan_work *work, int plans, const option_table *table, const verb_usage *usage) {
    if (work->diff && plans != 2) return qs_fail(QS_USAGE, "--diff needs two plan files, not %d; see qsync plan --help", plans);
    if (work->diff) return QS_OK;
    if (plans > 0) return qs_fail(QS_USAGE, "plan files are compared with --diff; see qsync plan --help");
    QS_TRY(options_require(table, usage, 2, (const char *const[]){"cluster", "profile"}));
    if (work->options.until_fits && strcmp(work->planner, "uniform") != 0)
        return qs_fail(QS_USAGE, "--until-fits goes with --planner uniform");
    return QS_OK;
}

static const verb_usage usage = {
    .verb = "plan",
    .arguments = "[A B]",
    .purpose = "Decides which operator gets which precision on which device class. `qsync` starts from the fastest plan that fits the\n"
               "memory and recovers precision where the gradients gain most, while memory and throughput allow; the other planners are\n"
               "what it is compared with. Every plan tells what the classes would reach without each of them: all ranks keep their\n"
               "local batch, so throughput is samples per second, and a class less is a smaller global batch.\n"
               "Of several wires that the profile has measured it takes the one of the shortest iteration (`--wire auto`, which is the\n"
               "default then); a less exact one only where that saves more than the tolerance.\n"
               "`demote`, `uniform-fp`, `op` and `op-io` leave operators in fp32 and round their tensors to formats that the class stores.",
    .examples = "  qsync plan --cluster cluster.json --profile profile.json --out plan.json --explain\n"
                "  qsync plan --cluster cluster.json --profile profile.json --drop-unhelpful --cluster-out rest.json --out plan.json\n"
                "  qsync plan --cluster cluster.json --profile profile.json --planner demote --ratio 0.8 --out plan.json\n"
                "  qsync plan --cluster cluster.json --profile profile.json --recompute auto --out plan.json --explain\n"
                "  qsync plan --diff before.json after.json\n",
    .most = 2};

qs_status verb_plan(int argc, char **argv) {
    plan_work work = {0};
    option_table table = {0};
    bool done = false;
    int first = 0;
    qs_status status = QS_OK;
    qs_plan_options_default(&work.options);
    job_options_start(&work.job);
    OPTIONS_ADD(&table, option_rows, &work);
    accumulate_options_add(&work.accumulate, &table);
    assignment_options_add(&work.assignment, &work.options.assignment, &table);
    job_options_add(&work.job, &table, JOB_STEP | JOB_SET | JOB_LENGTHS | JOB_EPOCHS | JOB_PROFILED);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_agree(&work, argc - first, &table, &usage));
    if (work.diff) return plan_diff(argv[first], argv[first + 1], work.json);
    QS_GOTO(work_read(&work, &table));
    QS_GOTO(work_plan(&work));
    QS_GOTO(work_out(&work));
done:
    work_release(&work);
    return status;
}
