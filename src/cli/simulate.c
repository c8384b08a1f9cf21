// SPDX-License-Identifier: Apache-2.0
/* qsync simulate: what a plan will take in time and memory, and its timeline. Reads files only. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

typedef struct simulation {
    qs_cluster cluster;
    qs_profile profile;
    qs_plan plan;
    qs_graph *graph;
    qs_prediction prediction;
    char *trace;
} simulation;

static void simulation_release(simulation *one) {
    free(one->trace);
    qs_prediction_release(&one->prediction);
    qs_graph_release(one->graph);
    qs_plan_release(&one->plan);
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
}

static qs_status simulation_read(simulation *one, const char *cluster, const char *profile, const char *plan) {
    char signature[32];
    QS_TRY(qs_cluster_read(cluster, &one->cluster));
    QS_TRY(qs_profile_read(profile, &one->profile));
    QS_TRY(qs_plan_read(plan, &one->plan));
    if (!one->plan.job.model[0] || !one->plan.job.dataset[0])
        return qs_fail(QS_MISMATCH, "%s does not say what it trains: add \"job\": {\"model\": ..., \"dataset\": ...}", plan);
    QS_TRY(qs_job_model(&one->plan.job, &one->graph));
    qs_graph_signature(one->graph, signature);
    if (one->plan.graph[0] && strcmp(one->plan.graph, signature) != 0)
        return qs_fail(QS_MISMATCH, "%s is a plan for another model (%s) than %s (%s)", plan, one->plan.graph, one->graph->name, signature);
    return QS_OK;
}

qs_status verb_simulate(int argc, char **argv) {
    const verb_usage usage = {
        "simulate", "",
        "Predicts iteration time, waiting and memory of a plan from a profile, without running it. The trace opens in Perfetto\n"
        "(ui.perfetto.dev): one process a rank; tracks for compute, conversion, all-reduce and idle.",
        "  qsync simulate --cluster cluster.json --profile profile.json --plan plan.json --trace trace.json\n"};
    const char *cluster = NULL, *profile = NULL, *plan = NULL, *trace = NULL;
    bool json = false, done = false;
    int first = 0;
    qs_cost_options costs = {0};
    simulation one = {0};
    option_table table = {0};
    qs_status status = QS_OK;
    options_add(&table, (option_row){"cluster", OPTION_TEXT, &cluster, "FILE", "device classes (required)", 0});
    options_add(&table, (option_row){"profile", OPTION_TEXT, &profile, "FILE", "what qsync profile measured (required)", 0});
    options_add(&table, (option_row){"plan", OPTION_TEXT, &plan, "FILE", "the plan (required)", 0});
    options_add(&table, (option_row){"trace", OPTION_TEXT, &trace, "FILE", "write the timeline as a Chrome trace", 0});
    options_add(&table, (option_row){"no-casts", OPTION_FLAG, &costs.no_casts, NULL, "conversions cost nothing (ablation)", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    if (!cluster || !profile || !plan)
        return qs_fail(QS_USAGE, "simulate needs --cluster, --profile and --plan; see qsync simulate --help");
    QS_GOTO(simulation_read(&one, cluster, profile, plan));
    QS_GOTO(qs_plan_predict(&one.plan, one.graph, &one.cluster, &one.profile, &costs, trace ? &one.trace : NULL, &one.prediction));
    if (trace) QS_GOTO(qs_file_write(trace, one.trace, strlen(one.trace)));
    if (json)
        QS_GOTO(json_print(prediction_json(&one.cluster, &one.prediction)));
    else
        prediction_print(&one.cluster, &one.prediction);
done:
    simulation_release(&one);
    return status;
}
