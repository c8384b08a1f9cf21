// SPDX-License-Identifier: Apache-2.0
/* The ranks of a cluster: their hosts, what-if slowdowns, the price of their all-reduces; and predictions told by class and by group. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "replayer_internal.h"

static const double most_jitter = 0.1; /* a profile with more than this is told of: its machine had other work */

static bool concerns(const qs_cluster *cluster, const qs_slowdown *slowdown, int rank) {
    if (!slowdown->class_name) return slowdown->rank == rank;
    return strcmp(slowdown->class_name, cluster->class_[qs_cluster_class_of(cluster, rank)].name) == 0;
}

static qs_status slowdown_apply(const qs_slowdown *slowdown, qs__ranks *ranks) {
    int index;
    if (!(slowdown->factor > 0) || !isfinite(slowdown->factor))
        return qs_fail(QS_USAGE, "slowdown by %g: the factor must be positive", slowdown->factor);
    if (slowdown->class_name) QS_TRY(qs_cluster_find(ranks->cluster, slowdown->class_name, &index));
    if (!slowdown->class_name && (slowdown->rank < 0 || slowdown->rank >= ranks->count))
        return qs_fail(QS_USAGE, "slowdown of rank %d: the cluster has ranks 0 to %d", slowdown->rank, ranks->count - 1);
    for (int r = 0; r < ranks->count; r++)
        if (concerns(ranks->cluster, slowdown, r)) ranks->slow[r] *= slowdown->factor;
    return QS_OK;
}

qs_status qs__ranks_make(const qs_cluster *cluster, const qs_cost_options *options, qs__ranks *out) {
    *out = (qs__ranks){.cluster = cluster, .count = qs_cluster_ranks(cluster)};
    if (out->count < 1) return qs_fail(QS_USAGE, "the cluster has no rank");
    QS_TRY(qs_allocate((size_t)out->count, sizeof *out->host, &out->host));
    QS_TRY(qs_allocate((size_t)out->count, sizeof *out->slow, &out->slow));
    qs_cluster_hosts(cluster, out->host, &out->hosts);
    for (int r = 0; r < out->count; r++)
        out->slow[r] = 1;
    for (int i = 0; i < options->slowdowns; i++)
        QS_TRY(slowdown_apply(&options->slowdown[i], out));
    return QS_OK;
}

void qs__ranks_release(qs__ranks *ranks) {
    free(ranks->host);
    free(ranks->slow);
    free(ranks->reduce);
    *ranks = (qs__ranks){0};
}

qs_status qs__ranks_price(const qs_profile *profile, const qs_job *job, const qs_schedule *schedule, qs__ranks *ranks) {
    const qs_all_reduce what = {job->algorithm, ranks->count, ranks->host, qs_cluster_network(ranks->cluster), job->wire};
    return ranks->reduce ? QS_OK : qs__reduces_price(profile, &what, schedule, &ranks->reduce);
}

/* ---- Predictions ----------------------------------------------------------------------------------------------------------------- */

static void classes_fill(const qs__ranks *ranks, const qs_replay_result *result, qs_prediction *out) {
    int first = 0;
    for (int c = 0; c < out->classes; first += ranks->cluster->class_[c++].count) {
        if (ranks->cluster->class_[c].count == 0) continue;
        out->class_[c].compute_us = result->compute_us[first];
        out->class_[c].waiting_us = result->waiting_us[first];
        out->class_[c].phases = result->group[result->group_of[first]].phases;
    }
}

qs_status qs__prediction_fill(const qs__ranks *ranks, qs_replay_result *result, qs_prediction *out) {
    classes_fill(ranks, result, out);
    QS_TRY(qs_allocate((size_t)result->groups, sizeof *out->group, &out->group));
    out->groups = result->groups;
    for (int g = 0; g < result->groups; g++) {
        const qs_replay_group *from = &result->group[g];
        out->group[g] = (qs_prediction_group){.class_index = qs_cluster_class_of(ranks->cluster, from->first),
                                              .first = from->first,
                                              .ranks = from->ranks,
                                              .slow = ranks->slow[from->first],
                                              .compute_us = from->compute_us,
                                              .waiting_us = from->waiting_us,
                                              .reducing_us = from->reducing_us,
                                              .phases = from->phases};
    }
    out->late_us = result->late_us;
    result->late_us = NULL;
    return QS_OK;
}

static void note(qs_prediction *out, const char *format, ...) QS_PRINTF(2, 3);
static void note(qs_prediction *out, const char *format, ...) {
    if (out->notes >= QS_PREDICTION_NOTES) return;
    va_list list;
    va_start(list, format);
    vsnprintf(out->note[out->notes++], sizeof out->note[0], format, list);
    va_end(list);
}

static const char *plural(int count, const char *one, const char *more) {
    return count == 1 ? one : more;
}

static void reduce_note(const qs__ranks *ranks, const qs_all_reduce_cost *cost, qs_prediction *out) {
    note(out, "all-reduce of %d %s on %d %s extrapolated from %d on %d, by the algorithm's formula", ranks->count,
         plural(ranks->count, "rank", "ranks"), ranks->hosts, plural(ranks->hosts, "host", "hosts"), cost->from_ranks, cost->from_hosts);
}

void qs__notes_fill(const qs_profile *profile, int buckets, const qs__ranks *ranks, qs_prediction *out) {
    const int measured = profile->statistics.ranks;
    for (int b = 0; b < buckets; b++) {
        if (!ranks->reduce[b].extrapolated) continue;
        reduce_note(ranks, &ranks->reduce[b], out);
        break;
    }
    if (measured > 0 && measured != ranks->count)
        note(out, "kernel and conversion times were measured with %d %s at work, not with %d", measured, plural(measured, "rank", "ranks"),
             ranks->count);
    for (int c = 0; c < ranks->cluster->classes; c++) {
        const char *name = ranks->cluster->class_[c].name;
        const qs_class_profile *one = qs_profile_class(profile, name);
        if (one->estimated) note(out, "kernel times of class %s are estimated, not measured", name);
        if (one->jitter > most_jitter) note(out, "steps of class %s were profiled under noise of %.0f %%", name, 100 * one->jitter);
    }
}
