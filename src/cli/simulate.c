// SPDX-License-Identifier: Apache-2.0
/* qsync simulate: what a plan will take in time and memory, and its timeline. Reads files only. What if there were more ranks, or slower
 * ones, is a matter of options; what was measured in a run stands beside the prediction in one trace. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

enum { MOST_SLOWDOWNS = 64, MOST_RANKS = 65536, MOST_TRACED = 1024 };

typedef struct simulation {
    qs_cluster cluster;
    qs_profile profile;
    qs_plan plan;
    qs_graph *graph;
    qs_prediction prediction;
    char *trace;
    qs_slowdown slowdown[MOST_SLOWDOWNS];
    int slowdowns;
    double measured_us; /* 0: nothing was measured */
} simulation;

typedef struct simulate_options {
    const char *cluster, *profile, *plan, *trace, *measured, *count, *slow;
    bool no_casts, json;
} simulate_options;

static void simulation_release(simulation *one) {
    free(one->trace);
    qs_prediction_release(&one->prediction);
    qs_graph_release(one->graph);
    qs_plan_release(&one->plan);
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
}

static qs_status simulation_read(simulation *one, const simulate_options *options) {
    char signature[32];
    const char *plan = options->plan;
    QS_TRY(qs_cluster_read(options->cluster, &one->cluster));
    QS_TRY(qs_profile_read(options->profile, &one->profile));
    QS_TRY(qs_plan_read(plan, &one->plan));
    if (!one->plan.job.model[0] || !one->plan.job.dataset[0])
        return qs_fail(QS_MISMATCH, "%s does not say what it trains: add \"job\": {\"model\": ..., \"dataset\": ...}", plan);
    QS_TRY(job_model_open(&one->plan.job, &one->graph));
    qs_graph_signature(one->graph, signature);
    if (one->plan.graph[0] && strcmp(one->plan.graph, signature) != 0)
        return qs_fail(QS_MISMATCH, "%s is a plan for another model (%s) than %s (%s)", plan, one->plan.graph, one->graph->name, signature);
    return QS_OK;
}

/* ---- What if --------------------------------------------------------------------------------------------------------------------- */

/* "weak=16" */
static qs_status count_set(void *context, const char *text) {
    simulation *one = context;
    const char *equals = strrchr(text, '=');
    char name[QS_NAME], *end = NULL;
    int index;
    const long count = equals ? strtol(equals + 1, &end, 10) : 0;
    if (!equals || end == equals + 1 || *end || count < 1 || count > MOST_RANKS)
        return qs_fail(QS_USAGE, "--count %s: must be CLASS=RANKS with 1 to %d ranks, like weak=16", text, MOST_RANKS);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    QS_TRY(qs_cluster_find(&one->cluster, name, &index));
    one->cluster.class_[index].count = (int)count;
    return QS_OK;
}

/* "rank:3:1.5" (before a class of that name) or "weak:2". */
static qs_status slow_add(void *context, const char *text) {
    simulation *one = context;
    const char *colon = strrchr(text, ':');
    char name[QS_NAME], *end = NULL;
    int index;
    qs_slowdown slowdown = {.factor = colon ? strtod(colon + 1, &end) : 0};
    if (!colon || end == colon + 1 || *end || !(slowdown.factor > 0 && slowdown.factor <= 1e6))
        return qs_fail(QS_USAGE, "--slow %s: must be CLASS:FACTOR or rank:N:FACTOR, like weak:1.5 or rank:3:2", text);
    if (one->slowdowns == MOST_SLOWDOWNS) return qs_fail(QS_USAGE, "--slow: at most %d of them", MOST_SLOWDOWNS);
    snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
    if (strncmp(name, "rank:", 5) == 0) {
        slowdown.rank = (int)strtol(name + 5, &end, 10);
        if (end == name + 5 || *end || slowdown.rank < 0 || slowdown.rank >= qs_cluster_ranks(&one->cluster))
            return qs_fail(QS_USAGE, "--slow %s: the cluster has ranks 0 to %d", text, qs_cluster_ranks(&one->cluster) - 1);
    } else {
        QS_TRY(qs_cluster_find(&one->cluster, name, &index));
        slowdown.class_name = one->cluster.class_[index].name;
    }
    one->slowdown[one->slowdowns++] = slowdown;
    return QS_OK;
}

static qs_status what_if_apply(simulation *one, const simulate_options *options) {
    if (options->count) QS_TRY(names_each(options->count, count_set, one));
    if (options->slow) QS_TRY(names_each(options->slow, slow_add, one));
    const int ranks = qs_cluster_ranks(&one->cluster);
    if (ranks > MOST_RANKS) return qs_fail(QS_USAGE, "%d ranks: at most %d can be simulated", ranks, MOST_RANKS);
    if (options->trace && ranks > MOST_TRACED)
        return qs_fail(QS_USAGE, "--trace with %d ranks: at most %d can be drawn; leave it out", ranks, MOST_TRACED);
    return QS_OK;
}

/* ---- Measured beside predicted ------------------------------------------------------------------------------------------------------ */

static qs_status measured_read(const char *run, char **path, char **text) {
    size_t bytes;
    QS_TRY(qs_format_text(path, "%s/trace.json", run));
    if (qs_file_read(*path, (size_t)1 << 30, text, &bytes) == QS_OK) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s has no measured timeline (trace.json): make one with qsync train --trace --out %s", run, run);
}

/* The trace of both in the place of the predicted one. */
static qs_status measured_merge(simulation *one, const char *run) {
    char *path = NULL, *measured = NULL, *both = NULL;
    json_t *root = NULL;
    qs_status status = QS_OK;
    QS_GOTO(measured_read(run, &path, &measured));
    QS_GOTO(qs_trace_beside(one->trace, measured, path, &both));
    root = json_loads(both, 0, NULL);
    one->measured_us = json_number_value(json_object_get(json_object_get(json_object_get(root, "qsync"), "measured"), "iteration_us"));
    free(one->trace);
    one->trace = both;
done:
    json_decref(root);
    free(path);
    free(measured);
    return status;
}

/* ---- Output -------------------------------------------------------------------------------------------------------------------------- */

static qs_status result_json(const simulation *one, const simulate_options *options) {
    json_t *root = prediction_json(&one->cluster, &one->prediction);
    json_object_set_new(root, "no_casts", json_boolean(options->no_casts));
    if (one->measured_us > 0) json_object_set_new(root, "measured_iteration_us", json_real(one->measured_us));
    return json_print(root);
}

static void result_print(const simulation *one, const simulate_options *options) {
    prediction_print(&one->cluster, &one->prediction);
    if (options->no_casts) printf("%snote: conversions are taken to cost nothing (--no-casts)\n", one->prediction.notes ? "" : "\n");
    if (one->measured_us > 0)
        printf("\nmeasured in %s: iteration %s; the prediction is off by %+.2f %%\n", options->measured, time_text(one->measured_us),
               100 * (one->prediction.iteration_us / one->measured_us - 1));
}

static qs_status simulate(const simulate_options *options) {
    simulation one = {0};
    qs_status status = QS_OK;
    QS_GOTO(simulation_read(&one, options));
    QS_GOTO(what_if_apply(&one, options));
    const qs_cost_options costs = {.no_casts = options->no_casts, .slowdowns = one.slowdowns, .slowdown = one.slowdown};
    QS_GOTO(qs_plan_predict(&one.plan, one.graph, &one.cluster, &one.profile, &costs, options->trace ? &one.trace : NULL, &one.prediction));
    if (options->measured) QS_GOTO(measured_merge(&one, options->measured));
    if (options->trace) QS_GOTO(qs_file_write(options->trace, one.trace, strlen(one.trace)));
    if (options->json)
        QS_GOTO(result_json(&one, options));
    else
        result_print(&one, options);
done:
    simulation_release(&one);
    return status;
}

static const option_row option_rows[] = {
    {OPTION(simulate_options, cluster, "cluster", "FILE", "device classes"), .usual = "required"},
    {OPTION(simulate_options, profile, "profile", "FILE", "what qsync profile measured"), .usual = "required"},
    {OPTION(simulate_options, plan, "plan", "FILE", "the plan"), .usual = "required"},
    {OPTION(simulate_options, count, "count", "CLASS=N,...", "other numbers of ranks than the cluster's")},
    {OPTION(simulate_options, slow, "slow", "WHO:FACTOR,...", "stragglers: CLASS:FACTOR or rank:N:FACTOR")},
    {OPTION(simulate_options, trace, "trace", "FILE", "write the timeline as a Chrome trace")},
    {OPTION(simulate_options, measured, "measured", "RUN", "and a run's measured timeline beside it"), .needs = "trace"},
    {OPTION(simulate_options, no_casts, "no-casts", NULL, "conversions cost nothing (ablation)")},
    {OPTION_JSON(simulate_options)},
};

qs_status verb_simulate(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "simulate",
        .arguments = "",
        .purpose = "Predicts iteration time, waiting and memory of a plan from a profile, without running it. The trace opens in Perfetto\n"
                   "(ui.perfetto.dev): one process a rank; threads for data, compute, cast, communication and idle.",
        .examples = "  qsync simulate --cluster cluster.json --profile profile.json --plan plan.json --trace trace.json\n"
                    "  qsync simulate --cluster cluster.json --profile profile.json --plan plan.json --count weak=16,strong=16\n"
                    "  qsync simulate --cluster cluster.json --profile profile.json --plan plan.json --slow rank:3:2,weak:1.1\n"
                    "  qsync simulate --cluster cluster.json --profile profile.json --plan plan.json --trace both.json --measured run\n"};
    simulate_options o = {0};
    option_table table = {0};
    bool done = false;
    int first = 0;
    OPTIONS_ADD(&table, option_rows, &o);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(options_require(&table, &usage, 3, (const char *const[]){"cluster", "profile", "plan"}));
    return simulate(&o);
}
