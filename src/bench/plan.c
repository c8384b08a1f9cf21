// SPDX-License-Identifier: Apache-2.0
/* qsync-bench plan: planning time on 32 devices. From scratch: from graph, cluster and profile in memory to the plan. Again: within a
 * session that has made a plan before, for another memory limit, then for another number of devices. */
#include "bench.h"

#include "qsync/planner.h"
#include "synthetic.h"

enum { DEVICES = 2, EACH = 16, ROUNDS = 5, BUDGETS = 4, BLOCKS = 12, WIDTH = 768, TOKENS = 128, HEADS = 12 };

static const synthetic_device devices[DEVICES] = {
    {.name = "strong", .count = EACH, .formats = {"fp32"}, .fp32 = 12e6, .half = 12e6, .int8 = 12e6, .bytes = 800e3},
    {.name = "weak",
     .inference = true,
     .count = EACH,
     .formats = {"fp32", "fp16", "int8"},
     .fp32 = 6e6,
     .half = 24e6,
     .int8 = 48e6,
     .bytes = 300e3}};

typedef struct plan_bench {
    qs_graph *graph;
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
    double plan_ms, budget_ms, devices_ms, omega; /* medians */
} plan_bench;

/* ---- A graph of the size of BERT-base ---- */

static qs_status node_add(qs_graph *graph, const char *op, const qs_attributes *attributes, int first, int second, int64_t outputs,
                          int *at) {
    const int input[2] = {first, second};
    char name[32];
    snprintf(name, sizeof name, "n%d", graph->nodes);
    return qs_graph_add(graph, name, op, attributes, second < 0 ? 1 : 2, input, outputs, false, at);
}

/* A linear operator on every token; groups stand for heads. */
static qs_status tokens_add(qs_graph *graph, int input, int64_t outputs, int groups, int *at) {
    const qs_attributes attributes = {.kernel = {1, 1}, .stride = {1, 1}, .groups = groups};
    return node_add(graph, "conv2d", &attributes, input, -1, outputs, at);
}

static qs_status attention_add(qs_graph *graph, int input, int *at) {
    int query, key, value, scores, context;
    QS_TRY(tokens_add(graph, input, WIDTH, 1, &query));
    QS_TRY(tokens_add(graph, input, WIDTH, 1, &key));
    QS_TRY(tokens_add(graph, input, WIDTH, 1, &value));
    QS_TRY(node_add(graph, "add", NULL, query, key, 0, &scores));
    QS_TRY(tokens_add(graph, scores, WIDTH, HEADS, &scores));
    QS_TRY(node_add(graph, "add", NULL, scores, value, 0, &context));
    QS_TRY(tokens_add(graph, context, WIDTH, HEADS, &context));
    return tokens_add(graph, context, WIDTH, 1, at);
}

static qs_status residual_add(qs_graph *graph, int input, int *at) {
    QS_TRY(node_add(graph, "add", NULL, *at, input, 0, at));
    return node_add(graph, "batch_norm", NULL, *at, -1, 0, at);
}

static qs_status block_add(qs_graph *graph, int *at) {
    int input = *at;
    QS_TRY(attention_add(graph, input, at));
    QS_TRY(residual_add(graph, input, at));
    input = *at;
    QS_TRY(tokens_add(graph, input, 4 * WIDTH, 1, at));
    QS_TRY(node_add(graph, "relu", NULL, *at, -1, 0, at));
    QS_TRY(tokens_add(graph, *at, WIDTH, 1, at));
    return residual_add(graph, input, at);
}

static qs_status bert_build(qs_graph **out) {
    int at = 0;
    QS_TRY(qs_graph_of_images("bert-sized", WIDTH, TOKENS, 1, out));
    for (int block = 0; block < BLOCKS; block++)
        QS_TRY(block_add(*out, &at));
    QS_TRY(node_add(*out, "global_average_pool", NULL, at, -1, 0, &at));
    QS_TRY(node_add(*out, "flatten", NULL, at, -1, 0, &at));
    QS_TRY(node_add(*out, "linear", NULL, at, -1, 2, &at));
    return qs_graph_finish(*out, at, NULL);
}

/* ---- Timing ---- */

static qs_status scratch_run(plan_bench *one) {
    double ms[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        qs_plan plan = {0};
        const double start = qs_clock();
        QS_TRY(qs_plan_make("qsync", one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
        ms[i] = (qs_clock() - start) * 1e3;
        one->omega = plan.class_[1].predicted.sum_omega;
        if (i == 0) one->cluster.class_[1].memory_limit = plan.class_[1].predicted.arena_bytes; /* the sessions' first budget */
        qs_plan_release(&plan);
    }
    one->plan_ms = median(ms, ROUNDS);
    return QS_OK;
}

static qs_status again(plan_bench *one, qs_plan_session *plans, double *ms) {
    qs_plan plan = {0};
    const double start = qs_clock();
    QS_TRY(qs_plan_session_make(plans, &one->cluster, "qsync", &one->options, &plan));
    *ms = (qs_clock() - start) * 1e3;
    qs_plan_release(&plan);
    return QS_OK;
}

/* Less and less memory, then fewer and fewer devices. */
static qs_status session_run(plan_bench *one, qs_plan_session *plans) {
    const int64_t most = one->cluster.class_[1].memory_limit;
    double budget_ms[BUDGETS], devices_ms[BUDGETS], first_ms;
    QS_TRY(again(one, plans, &first_ms));
    for (int i = 0; i < BUDGETS; i++) {
        one->cluster.class_[1].memory_limit = most - most / 50 * (i + 1);
        QS_TRY(again(one, plans, &budget_ms[i]));
    }
    for (int i = 0; i < BUDGETS; i++) {
        one->cluster.class_[i % DEVICES].count -= 2;
        QS_TRY(again(one, plans, &devices_ms[i]));
    }
    one->budget_ms = median(budget_ms, BUDGETS);
    one->devices_ms = median(devices_ms, BUDGETS);
    return QS_OK;
}

static qs_status bench_run(plan_bench *one, int64_t batch) {
    qs_plan_session *plans = NULL;
    qs_job_default(&one->job);
    one->job.batch = batch;
    snprintf(one->job.algorithm, sizeof one->job.algorithm, "ring");
    qs_plan_options_default(&one->options);
    QS_TRY(synthetic_cluster_make(DEVICES, devices, &one->cluster));
    QS_TRY(synthetic_profile_make(one->graph, &one->cluster, devices, &one->job, &synthetic_ring, &one->profile));
    QS_TRY(synthetic_statistics_make(one->graph, batch, qs_cluster_ranks(&one->cluster), 0, 0, &one->profile.statistics));
    QS_TRY(scratch_run(one));
    QS_TRY(qs_plan_session_create(one->graph, &one->profile, &one->job, &plans));
    const qs_status status = session_run(one, plans);
    qs_plan_session_release(plans);
    return status;
}

static void bench_release(plan_bench *one) {
    qs_graph_release(one->graph);
    qs_cluster_release(&one->cluster);
    qs_profile_release(&one->profile);
    *one = (plan_bench){0};
}

static const option_row option_rows[] = {
    {OPTION_JSON(bench_request)},
};

qs_status bench_plan(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "plan",
        .arguments = "",
        .purpose =
            "Planning for graphs of the size of resnet50 and of BERT-base with synthetic costs, on 16 training and 16 inference devices:\n"
            "from scratch, and again for another memory limit or other numbers of devices."};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    plan_bench resnet = {0}, bert = {0};
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    QS_GOTO(qs_model_build("resnet50", NULL, &resnet.graph));
    QS_GOTO(bench_run(&resnet, 32));
    QS_GOTO(bert_build(&bert.graph));
    QS_GOTO(bench_run(&bert, 16));
    if (asked.json)
        QS_GOTO(json_print(json_pack("{s:{s:f,s:f},s:{s:f,s:f},s:{s:f,s:f}}", "plan_ms", "resnet50", resnet.plan_ms, "bert", bert.plan_ms,
                                     "replan_ms", "resnet50", resnet.budget_ms, "bert", bert.budget_ms, "replan_devices_ms", "resnet50",
                                     resnet.devices_ms, "bert", bert.devices_ms)));
    else
        printf("resnet50: plan %.0f ms, again with another budget %.0f ms, with other devices %.0f ms\nbert-sized: %.0f, %.0f, %.0f ms\n",
               resnet.plan_ms, resnet.budget_ms, resnet.devices_ms, bert.plan_ms, bert.budget_ms, bert.devices_ms);
done:
    bench_release(&resnet);
    bench_release(&bert);
    return status;
}
