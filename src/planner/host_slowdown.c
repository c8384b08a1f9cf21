// SPDX-License-Identifier: Apache-2.0
#include "host_slowdown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ended = -1;

static qs_status counts_fill(const qs_cluster *cluster, const int *host, int hosts, qs__host_slowdown *out) {
    const size_t row = (size_t)cluster->classes;
    QS_TRY(qs_allocate((size_t)hosts * row, sizeof *out->count, &out->count));
    for (int r = 0; r < qs_cluster_ranks(cluster); r++)
        out->count[(size_t)host[r] * row + (size_t)qs_cluster_class_of(cluster, r)]++;
    for (int h = 0; h < hosts; h++) {
        const int *wanted = &out->count[(size_t)h * row];
        int like = 0;
        while (like < out->hosts && memcmp(&out->count[(size_t)like * row], wanted, row * sizeof *wanted) != 0)
            like++;
        if (like < out->hosts) continue;
        memmove(&out->count[(size_t)out->hosts * row], wanted, row * sizeof *wanted);
        out->hosts++;
    }
    return QS_OK;
}

qs_status qs__host_slowdown_make(const qs_cluster *cluster, qs__host_slowdown *out) {
    int *host = NULL, hosts = 0;
    qs_status status = QS_OK;
    *out = (qs__host_slowdown){.classes = cluster->classes};
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *out->left, &out->left));
    QS_GOTO(qs_allocate((size_t)qs_cluster_ranks(cluster), sizeof *host, &host));
    qs_cluster_hosts(cluster, host, &hosts);
    QS_GOTO(counts_fill(cluster, host, hosts, out));
done:
    free(host);
    return status;
}

void qs__host_slowdown_release(qs__host_slowdown *one) {
    free(one->count);
    free(one->left);
    *one = (qs__host_slowdown){0};
}

/* As the replayer has it: between both speeds by how many of the others are at work. */
static double speed_of(double alone, int ranks, int active) {
    const double share = ranks > 1 ? (double)(active - 1) / (ranks - 1) : 0;
    return alone > 0 ? share + (1 - share) / alone : 1;
}

/* From one class's end to the next. */
static void host_run(const qs__host_slowdown *one, const int *count, const double *work_us, const double *alone, double *end_us) {
    int ranks = 0;
    double now = 0;
    for (int c = 0; c < one->classes; c++) {
        ranks += count[c];
        one->left[c] = count[c] > 0 ? work_us[c] : ended;
    }
    for (int active = ranks; active > 0;) {
        int first = -1;
        double soonest = INFINITY;
        for (int c = 0; c < one->classes; c++) {
            const double us = one->left[c] / speed_of(alone[c], ranks, active);
            if (one->left[c] == ended || us >= soonest) continue;
            soonest = us;
            first = c;
        }
        now += soonest;
        for (int c = 0; c < one->classes; c++)
            if (one->left[c] != ended) one->left[c] = fmax(one->left[c] - soonest * speed_of(alone[c], ranks, active), 0);
        one->left[first] = ended;
        end_us[first] = fmax(end_us[first], now);
        active -= count[first];
    }
}

void qs__host_slowdown_ends(const qs__host_slowdown *one, const double *work_us, const double *alone, double *end_us) {
    for (int c = 0; c < one->classes; c++)
        end_us[c] = 0;
    for (int h = 0; h < one->hosts; h++)
        host_run(one, &one->count[(size_t)h * (size_t)one->classes], work_us, alone, end_us);
    for (int c = 0; c < one->classes; c++)
        if (end_us[c] == 0) end_us[c] = work_us[c];
}
