// SPDX-License-Identifier: Apache-2.0
/* qsync-bench gap: planners beside the proven optimum of planner `exact`, on small random models. Where uniform is optimal every
 * planner is, and nothing is shown: such scenes are counted, but stay out of the medians, which they would flatter. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "qsync/planner.h"
#include "synthetic.h"

enum { GRAPHS = 60, LEAST = 4, MOST = 12, BATCH = 16, DEVICES = 2, VALUES = 4, PLANNERS = 3 };

/* Above the optimum by no more than this share is rounding: sums of Omega in another order. */
static const double rounding = 1e-9;
static const char *const planners[PLANNERS] = {"qsync", "qsync-heap", "uniform"};

/* Slow ones: these models are so small that nothing but overheads would count. Every scene varies their speeds, so that the pace lies now
 * between two formats, now between mixes of them. */
static const synthetic_device usual[DEVICES] = {
    {.name = "strong", .count = 1, .formats = {"fp32"}, .fp32 = 2e3, .half = 2e3, .int8 = 2e3, .bytes = 400},
    {.name = "weak",
     .inference = true,
     .count = 1,
     .formats = {"fp32", "bf16", "int8"},
     .fp32 = 1e3,
     .half = 2e3,
     .int8 = 4e3,
     .bytes = 300},
};

typedef struct gap_bench {
    uint64_t key, counter;
    int scenes, nontrivial, refused; /* compared; with a gap of uniform's over an optimum above 0; those that exact refuses */
    int infeasible;                  /* scenes whose memory limit no plan keeps */
    double gap[PLANNERS][GRAPHS];    /* per cent, of the nontrivial ones */
} gap_bench;

static int roll(gap_bench *one, int sides) {
    return (int)(qs_random_bits(one->key, one->counter++) % (uint32_t)sides);
}

/* ---- Models: convolutions in chains and side by side, joined by sums ---- */

static qs_status node_add(qs_graph *graph, const char *op, int first, int second, int64_t outputs, int *at) {
    const qs_attributes conv = {.kernel = {3, 3}, .padding = {1, 1}};
    const int input[2] = {first, second};
    char name[32];
    snprintf(name, sizeof name, "n%d", graph->nodes);
    return qs_graph_add(graph, name, op, qs_op_of(op) == qs_op_of("conv2d") ? &conv : NULL, second < 0 ? 1 : 2, input, outputs, false, at);
}

/* All values so far may be read; the oldest falls out of sight once it has been. */
static qs_status model_fill(gap_bench *one, qs_graph *graph, int operators) {
    int value[VALUES], values = 1;
    QS_TRY(node_add(graph, "conv2d", 0, -1, 8, &value[0]));
    for (int i = 2; i < operators; i++) {
        int at = value[roll(one, values)];
        QS_TRY(node_add(graph, "conv2d", at, -1, 8, &at));
        if (roll(one, 2)) QS_TRY(node_add(graph, "batch_norm", at, -1, 0, &at));
        if (roll(one, 2)) QS_TRY(node_add(graph, "relu", at, -1, 0, &at));
        if (values == VALUES) {
            QS_TRY(node_add(graph, "add", value[0], at, 0, &value[0]));
        } else {
            value[values++] = at;
        }
    }
    for (int v = 1; v < values; v++)
        QS_TRY(node_add(graph, "add", value[0], value[v], 0, &value[0]));
    QS_TRY(node_add(graph, "global_average_pool", value[0], -1, 0, &value[0]));
    QS_TRY(node_add(graph, "flatten", value[0], -1, 0, &value[0]));
    QS_TRY(node_add(graph, "linear", value[0], -1, 10, &value[0]));
    return qs_graph_finish(graph, value[0], NULL);
}

/* ---- Plans ---- */

typedef struct scene {
    qs_graph *graph;
    qs_cluster cluster;
    qs_profile profile;
    qs_job job;
    qs_plan_options options;
} scene;

static qs_status planned(const scene *one, const char *planner, double *omega, int64_t *bytes) {
    qs_plan plan = {0};
    QS_TRY(qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
    *omega = plan.class_[1].predicted.sum_omega;
    *bytes = plan.class_[1].predicted.arena_bytes;
    qs_plan_release(&plan);
    return QS_OK;
}

static qs_status compare(gap_bench *one, const scene *at) {
    double best, omega[PLANNERS];
    int64_t bytes;
    const qs_status status = planned(at, "exact", &best, &bytes);
    if (status == QS_UNSUPPORTED) {
        one->refused++;
        return QS_OK;
    }
    if (status != QS_OK) return status;
    for (int p = 0; p < PLANNERS; p++)
        QS_TRY(planned(at, planners[p], &omega[p], &bytes));
    one->scenes++;
    if (!(best > 0 && omega[PLANNERS - 1] > best * (1 + rounding))) return QS_OK;
    for (int p = 0; p < PLANNERS; p++)
        one->gap[p][one->nontrivial] = 100 * (omega[p] / best - 1);
    one->nontrivial++;
    return QS_OK;
}

/* Between `least` and `most` times. */
static double varied(gap_bench *one, double speed, double least, double most) {
    return speed * (least + (most - least) * roll(one, 1000) / 1000);
}

static void devices_vary(gap_bench *one, synthetic_device *device) {
    memcpy(device, usual, sizeof usual);
    device[0].fp32 = varied(one, usual[0].fp32, 0.4, 1.4);
    device[0].bytes = varied(one, usual[0].bytes, 0.4, 1.4);
    device[1].fp32 = varied(one, usual[1].fp32, 0.3, 1);
    device[1].half = varied(one, usual[1].half, 0.5, 1.5);
    device[1].bytes = varied(one, usual[1].bytes, 0.5, 1.5);
}

static qs_status scene_run(gap_bench *one, bool limited, scene *at) {
    synthetic_device devices[DEVICES];
    double omega;
    int64_t most;
    devices_vary(one, devices);
    qs_job_default(&at->job);
    at->job.batch = BATCH;
    snprintf(at->job.algorithm, sizeof at->job.algorithm, "ring"); /* what synthetic profiles know */
    qs_plan_options_default(&at->options);
    QS_TRY(qs_graph_of_images("random", 3, 8, 8, &at->graph));
    QS_TRY(model_fill(one, at->graph, LEAST + roll(one, MOST - LEAST + 1)));
    QS_TRY(synthetic_cluster_make(DEVICES, devices, &at->cluster));
    QS_TRY(synthetic_profile_make(at->graph, &at->cluster, devices, &at->job, &synthetic_ring, &at->profile));
    QS_TRY(synthetic_statistics_make(at->graph, BATCH, qs_cluster_ranks(&at->cluster), 0, 0, &at->profile.statistics));
    if (!limited) return compare(one, at);
    QS_TRY(planned(at, "fp32", &omega, &most));
    at->cluster.class_[1].memory_limit = most - most * roll(one, 30) / 100;
    const qs_status status = compare(one, at);
    one->infeasible += status == QS_INFEASIBLE;
    return status == QS_INFEASIBLE ? QS_OK : status;
}

static qs_status figures_print(gap_bench *one, bool json) {
    double middle[PLANNERS], worst[PLANNERS];
    for (int p = 0; p < PLANNERS; p++) {
        middle[p] = median(one->gap[p], one->nontrivial); /* sorts them */
        worst[p] = one->gap[p][one->nontrivial - 1];
    }
    if (json)
        return json_print(json_pack("{s:{s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:i}}", "gap", "median", middle[0], "worst", worst[0],
                                    "heap_median", middle[1], "heap_worst", worst[1], "uniform_median", middle[2], "uniform_worst",
                                    worst[2], "scenes", one->scenes, "nontrivial", one->nontrivial, "refused", one->refused, "infeasible",
                                    one->infeasible));
    printf(
        "%d scenes compared with the proven optimum, %d more not proven, %d without a plan that fits; above it, over the %d where uniform "
        "is not optimal:\n",
        one->scenes, one->refused, one->infeasible, one->nontrivial);
    for (int p = 0; p < PLANNERS; p++)
        printf("  %-11s median %8.3f %%, worst %8.3f %%\n", planners[p], middle[p], worst[p]);
    return QS_OK;
}

static const option_row option_rows[] = {
    {OPTION_JSON(bench_request)},
};

qs_status bench_gap(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "gap",
        .arguments = "",
        .purpose = "Random models of up to 12 adjustable operators with synthetic costs, every other one with a memory limit: the sum of\n"
                   "omega of planners above that of planner exact, which the tests hold to asking for every plan, in per cent."};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    gap_bench one = {.key = 1};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    for (int g = 0; g < GRAPHS; g++) {
        scene at = {0};
        const qs_status status = scene_run(&one, g % 2 == 1, &at);
        fprintf(stderr, "qsync-bench: model %d of %d done\n", g + 1, GRAPHS);
        qs_graph_release(at.graph);
        qs_cluster_release(&at.cluster);
        qs_profile_release(&at.profile);
        QS_TRY(status);
    }
    if (one.nontrivial == 0)
        return qs_fail(QS_FAILED, "gap: nothing to show: uniform is optimal in all %d scenes, and exact refused %d", one.scenes,
                       one.refused);
    return figures_print(&one, asked.json);
}
