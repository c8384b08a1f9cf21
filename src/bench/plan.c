// SPDX-License-Identifier: Apache-2.0
/* qsync-bench plan: planning time on 32 devices, and for a large decoder on 1,024 devices of eight classes. From scratch: from graph,
 * cluster and profile in memory to the plan. Again: within a session that has made a plan before, for another memory limit, then for
 * another number of devices. And one full prediction of the plan. */
#include "bench.h"

#include "qsync/planner.h"
#include "synthetic.h"

enum { MOST_ROUNDS = 20, BUDGETS = 4, WIDTH = 768, TOKENS = 128, HEADS = 12 };
/* Blocks of the graphs of tokens, and what queries, keys and values of the large one pass through. */
enum { BLOCKS = 12, DECODER_BLOCKS = 96, LATENT = 256 };

#define STRONG(called, many, factor) \
    { .name = called, .count = many, .formats = {"fp32"}, .fp32 = 12e6 * (factor), .half = 12e6, .int8 = 12e6, .bytes = 800e3 }
#define WEAK(called, many, factor)                                                                                     \
    {                                                                                                                  \
        .name = called, .inference = true, .count = many, .formats = {"fp32", "fp16", "int8"}, .fp32 = 6e6 * (factor), \
        .half = 24e6 * (factor), .int8 = 48e6 * (factor), .bytes = 300e3 * (factor)                                    \
    }

static const synthetic_device few[] = {STRONG("strong", 16, 1), WEAK("weak", 16, 1)};
static const synthetic_device many[] = {STRONG("strong", 128, 1), STRONG("older", 128, 0.9), WEAK("weak-0", 128, 1.2),
                                        WEAK("weak-1", 128, 1),   WEAK("weak-2", 128, 0.9),  WEAK("weak-3", 128, 0.8),
                                        WEAK("weak-4", 128, 0.7), WEAK("weak-5", 128, 0.6)};

typedef struct plan_bench {
    const char *name;
    const synthetic_device *device;
    int classes, rounds;
    qs_graph *graph;
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
    double plan_ms, budget_ms, devices_ms, predict_ms; /* medians */
} plan_bench;

/* ---- Graphs of the size of BERT-base, and of a large decoder ---- */

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

/* latent > 0: through narrow products, queries through one, keys and values through another. */
static qs_status attention_add(qs_graph *graph, int input, int64_t latent, int *at) {
    int query = input, key = input, value, scores, context;
    if (latent > 0) QS_TRY(tokens_add(graph, input, latent, 1, &query));
    if (latent > 0) QS_TRY(tokens_add(graph, input, latent, 1, &key));
    QS_TRY(tokens_add(graph, query, WIDTH, 1, &query));
    QS_TRY(tokens_add(graph, key, WIDTH, 1, &value));
    QS_TRY(tokens_add(graph, key, WIDTH, 1, &key));
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

/* Of the decoder the feed-forward part is gated. */
static qs_status block_add(qs_graph *graph, bool decoder, int *at) {
    int input = *at, gate;
    QS_TRY(attention_add(graph, input, decoder ? LATENT : 0, at));
    QS_TRY(residual_add(graph, input, at));
    input = *at;
    QS_TRY(tokens_add(graph, input, 4 * WIDTH, 1, at));
    QS_TRY(node_add(graph, "relu", NULL, *at, -1, 0, at));
    if (decoder) QS_TRY(tokens_add(graph, input, 4 * WIDTH, 1, &gate));
    if (decoder) QS_TRY(node_add(graph, "multiply", NULL, *at, gate, 0, at));
    QS_TRY(tokens_add(graph, *at, WIDTH, 1, at));
    return residual_add(graph, input, at);
}

static qs_status tokens_build(bool decoder, qs_graph **out) {
    int at = 0;
    QS_TRY(qs_graph_of_images(decoder ? "decoder" : "bert-sized", WIDTH, TOKENS, 1, out));
    for (int block = 0; block < (decoder ? DECODER_BLOCKS : BLOCKS); block++)
        QS_TRY(block_add(*out, decoder, &at));
    QS_TRY(node_add(*out, "global_average_pool", NULL, at, -1, 0, &at));
    QS_TRY(node_add(*out, "flatten", NULL, at, -1, 0, &at));
    QS_TRY(node_add(*out, "linear", NULL, at, -1, 2, &at));
    return qs_graph_finish(*out, at, NULL);
}

/* ---- Timing ---- */

static qs_status scratch_run(plan_bench *one) {
    double ms[MOST_ROUNDS];
    for (int i = 0; i < one->rounds; i++) {
        qs_plan plan = {0};
        const double start = qs_clock();
        QS_TRY(qs_plan_make("qsync", one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
        ms[i] = (qs_clock() - start) * 1e3;
        /* the sessions' first budgets */
        for (int c = 0; i == 0 && c < one->classes; c++)
            if (one->cluster.class_[c].inference) one->cluster.class_[c].memory_limit = plan.class_[c].predicted.arena_bytes;
        qs_plan_release(&plan);
    }
    one->plan_ms = median(ms, one->rounds);
    return QS_OK;
}

static qs_status again(plan_bench *one, qs_plan_session *plans, qs_plan *plan, double *ms) {
    qs_plan_release(plan);
    const double start = qs_clock();
    QS_TRY(qs_plan_session_make(plans, &one->cluster, "qsync", &one->options, plan));
    *ms = (qs_clock() - start) * 1e3;
    return QS_OK;
}

/* All that a plan asks for: every class lowered, packed and priced anew, all ranks replayed. */
static qs_status predict_run(plan_bench *one, const qs_plan *plan) {
    double ms[MOST_ROUNDS];
    for (int i = 0; i < one->rounds; i++) {
        qs_prediction prediction = {0};
        const double start = qs_clock();
        QS_TRY(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
        ms[i] = (qs_clock() - start) * 1e3;
        qs_prediction_release(&prediction);
    }
    one->predict_ms = median(ms, one->rounds);
    return QS_OK;
}

/* Less and less memory of the last class, then fewer and fewer devices. */
static qs_status session_run(plan_bench *one, qs_plan_session *plans, qs_plan *plan) {
    qs_class *last = &one->cluster.class_[one->classes - 1];
    const int64_t most = last->memory_limit;
    const int changes = one->rounds < BUDGETS ? one->rounds : BUDGETS;
    double budget_ms[BUDGETS], devices_ms[BUDGETS], first_ms;
    QS_TRY(again(one, plans, plan, &first_ms));
    QS_TRY(predict_run(one, plan));
    for (int i = 0; i < changes; i++) {
        last->memory_limit = most - most / 50 * (i + 1);
        QS_TRY(again(one, plans, plan, &budget_ms[i]));
    }
    for (int i = 0; i < changes; i++) {
        one->cluster.class_[i % one->classes].count -= 2;
        QS_TRY(again(one, plans, plan, &devices_ms[i]));
    }
    one->budget_ms = median(budget_ms, changes);
    one->devices_ms = median(devices_ms, changes);
    return QS_OK;
}

static qs_status bench_run(plan_bench *one, int64_t batch) {
    qs_plan_session *plans = NULL;
    qs_plan plan = {0};
    qs_job_default(&one->job);
    one->job.batch = batch;
    snprintf(one->job.algorithm, sizeof one->job.algorithm, "ring");
    qs_plan_options_default(&one->options);
    QS_TRY(synthetic_cluster_make(one->classes, one->device, &one->cluster));
    QS_TRY(synthetic_profile_make(one->graph, &one->cluster, one->device, &one->job, &synthetic_ring, &one->profile));
    QS_TRY(synthetic_statistics_make(one->graph, batch, qs_cluster_ranks(&one->cluster), 0, 0, &one->profile.statistics));
    QS_TRY(scratch_run(one));
    QS_TRY(qs_plan_session_create(one->graph, &one->profile, &one->job, &plans));
    const qs_status status = session_run(one, plans, &plan);
    qs_plan_release(&plan);
    qs_plan_session_release(plans);
    return status;
}

static void bench_release(plan_bench *one) {
    qs_graph_release(one->graph);
    qs_cluster_release(&one->cluster);
    qs_profile_release(&one->profile);
    *one = (plan_bench){0};
}

enum { SCENES = 3 };

static qs_status figures_print(const plan_bench *scene, bool json) {
    json_t *figures = json_object();
    const char *const name[] = {"plan_ms", "replan_ms", "replan_devices_ms", "predict_ms"};
    for (int f = 0; f < 4; f++) {
        json_t *row = json_object();
        for (int i = 0; i < SCENES; i++) {
            const double ms[] = {scene[i].plan_ms, scene[i].budget_ms, scene[i].devices_ms, scene[i].predict_ms};
            json_object_set_new(row, scene[i].name, json_real(ms[f]));
        }
        json_object_set_new(figures, name[f], row);
    }
    if (json) return json_print(figures);
    json_decref(figures);
    for (int i = 0; i < SCENES; i++)
        printf("%s: plan %.0f ms, again with another budget %.0f ms, with other devices %.0f ms; a prediction %.1f ms\n", scene[i].name,
               scene[i].plan_ms, scene[i].budget_ms, scene[i].devices_ms, scene[i].predict_ms);
    return QS_OK;
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 5, "plans from scratch, whose median counts")},
    {OPTION_JSON(bench_request)},
};

qs_status bench_plan(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "plan",
        .arguments = "",
        .purpose =
            "Planning for graphs of the size of resnet50 and of BERT-base with synthetic costs, on 16 training and 16 inference devices,\n"
            "and for a decoder of 96 layers (1057 adjustable operators) on 1,024 devices of eight classes: from scratch, again for\n"
            "another memory limit or other numbers of devices, and one prediction of the plan."};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    plan_bench scene[SCENES] = {{.name = "resnet50", .device = few, .classes = sizeof few / sizeof *few},
                                {.name = "bert", .device = few, .classes = sizeof few / sizeof *few},
                                {.name = "decoder", .device = many, .classes = sizeof many / sizeof *many}};
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    if (asked.rounds > MOST_ROUNDS) return qs_fail(QS_USAGE, "--rounds %d: at most %d", asked.rounds, MOST_ROUNDS);
    for (int i = 0; i < SCENES; i++)
        scene[i].rounds = asked.rounds;
    QS_GOTO(qs_model_build("resnet50", NULL, &scene[0].graph));
    QS_GOTO(tokens_build(false, &scene[1].graph));
    QS_GOTO(tokens_build(true, &scene[2].graph));
    QS_GOTO(bench_run(&scene[0], 32));
    QS_GOTO(bench_run(&scene[1], 16));
    QS_GOTO(bench_run(&scene[2], 16));
    QS_GOTO(figures_print(scene, asked.json));
done:
    for (int i = 0; i < SCENES; i++)
        bench_release(&scene[i]);
    return status;
}
