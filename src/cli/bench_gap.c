// SPDX-License-Identifier: Apache-2.0
#include "bench_gap.h"

#include <stdlib.h>
#include <string.h>

#include "made_up.h"

enum { GRAPHS = 60, LEAST = 4, MOST = 12, BATCH = 16, CHANGES = 3000, DEVICES = 2, VALUES = 4 };

/* Slow ones: these models are so small that nothing but overheads would count. */
static const made_up_device devices[DEVICES] = {
    {.name = "strong", .count = 1, .format = {"fp32"}, .fp32 = 2e3, .half = 2e3, .int8 = 2e3, .bytes = 400},
    {.name = "weak",
     .inference = true,
     .count = 1,
     .format = {"fp32", "bf16", "int8"},
     .fp32 = 1e3,
     .half = 2e3,
     .int8 = 4e3,
     .bytes = 300},
};

typedef struct gap_bench {
    uint64_t key, counter;
    int count, refused; /* plans compared; plans that exact refuses */
    double gap[GRAPHS];
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
    return qs_graph_add(graph, name, op, strcmp(op, "conv2d") == 0 ? &conv : NULL, second < 0 ? 1 : 2, input, outputs, false, at);
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
    return qs_graph_finish(graph, value[0]);
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
    double best, qsync;
    int64_t bytes;
    const qs_status status = planned(at, "exact", &best, &bytes);
    if (status == QS_UNSUPPORTED) {
        one->refused++;
        return QS_OK;
    }
    if (status != QS_OK) return status;
    QS_TRY(planned(at, "qsync", &qsync, &bytes));
    one->gap[one->count++] = best > 0 ? 100 * (qsync / best - 1) : 0;
    return QS_OK;
}

static qs_status scene_run(gap_bench *one, bool limited, scene *at) {
    double omega;
    int64_t most;
    qs_job_default(&at->job);
    at->job.batch = BATCH;
    snprintf(at->job.algorithm, sizeof at->job.algorithm, "ring"); /* what made-up profiles know */
    qs_plan_options_default(&at->options);
    QS_TRY(qs_graph_create("random", 3, 8, 8, &at->graph));
    QS_TRY(model_fill(one, at->graph, LEAST + roll(one, MOST - LEAST + 1)));
    QS_TRY(made_up_cluster(DEVICES, devices, &at->cluster));
    QS_TRY(made_up_profile(at->graph, &at->cluster, devices, &at->job, CHANGES, &at->profile));
    if (!limited) return compare(one, at);
    QS_TRY(planned(at, "fp32", &omega, &most));
    at->cluster.class_[1].memory_limit = most - most * roll(one, 30) / 100;
    const qs_status status = compare(one, at);
    return status == QS_INFEASIBLE ? QS_OK : status;
}

static int number_compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

qs_status bench_gap(bool json) {
    gap_bench one = {.key = 1};
    for (int g = 0; g < GRAPHS; g++) {
        scene at = {0};
        const qs_status status = scene_run(&one, g % 2 == 1, &at);
        fprintf(stderr, "bench: model %d of %d done\n", g + 1, GRAPHS);
        qs_graph_release(at.graph);
        qs_cluster_release(&at.cluster);
        qs_profile_release(&at.profile);
        QS_TRY(status);
    }
    if (one.count == 0) return qs_fail(QS_FAILED, "bench --gap: planner exact refused all %d plans", one.refused);
    qsort(one.gap, (size_t)one.count, sizeof *one.gap, number_compare);
    const double middle = one.gap[one.count / 2], worst = one.gap[one.count - 1];
    if (json)
        return json_print(
            json_pack("{s:{s:f,s:f,s:i,s:i}}", "gap", "median", middle, "worst", worst, "plans", one.count, "refused", one.refused));
    printf("qsync above the optimum: median %.3f %%, worst %.3f %%, %d plans, %d that exact refused\n", middle, worst, one.count,
           one.refused);
    return QS_OK;
}
