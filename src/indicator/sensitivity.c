// SPDX-License-Identifier: Apache-2.0
/* From raw statistics, profiled at another batch, to the figures of the job (qsync.md §3): sums over samples grow with the batch, the
 * gradient of a mean loss shrinks with it. */
#include <math.h>
#include <string.h>

#include "indicator_internal.h"

static const qs_operator_statistics *statistics_find(const qs_statistics *statistics, const char *name) {
    for (int i = 0; i < statistics->operators; i++)
        if (strcmp(statistics->operator_[i].name, name) == 0) return &statistics->operator_[i];
    return NULL;
}

qs_status qs__sensitivity(const qs_question *question, int node, int iteration, const int *depth, const qs_recipe *recipe,
                          qs_sensitivity *out) {
    const qs_graph *graph = question->graph;
    const qs_statistics *statistics = &question->profile->statistics;
    const qs_operator_statistics *raw = statistics_find(statistics, graph->node[node].name);
    if (!raw) return qs_fail(QS_MISMATCH, "the profile has no statistics of operator %s: profile this model again", graph->node[node].name);
    /* Profiling scaled the loss by 1/(global samples then), the job does by 1/(global samples now). */
    const double samples = (double)question->batch / (double)statistics->batch;
    const double gradient = (double)(statistics->batch * statistics->ranks) / (double)question->global_batch;
    *out = (qs_sensitivity){.depth = depth[node],
                            .model_depth = depth[graph->nodes - 1],
                            .gamma = 1.0 / (double)question->global_batch,
                            .count_v = (double)raw->src.count * samples,
                            .count_x = (double)raw->weights.count,
                            .count_gv = (double)raw->diff_dst.count * samples,
                            .norm2_v = raw->src.norm2[iteration] * samples,
                            .norm2_x = raw->weights.norm2[iteration],
                            .norm2_gv = raw->diff_dst.norm2[iteration] * samples * gradient * gradient,
                            .absmax_v = raw->src.absmax[iteration],
                            .absmax_x = raw->weights.absmax[iteration],
                            .absmax_gv = raw->diff_dst.absmax[iteration] * gradient};
    /* Channel-wise weight steps: Σ q_c² D_c. */
    const qs_quantizer *weights = &recipe->forward.weights;
    if (weights->format->kind == QS_KIND_INTEGER && weights->granularity == QS_PER_CHANNEL)
        out->step2_x = raw->weights.channel_absmax2[iteration] / (weights->format->max * weights->format->max);
    return QS_OK;
}
