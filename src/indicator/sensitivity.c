// SPDX-License-Identifier: Apache-2.0
/* From raw statistics, profiled at another batch, to the figures of the job (docs/method.md §3.7): sums over samples grow with the batch,
 * the gradient of a mean loss shrinks with it. */
#include <math.h>
#include <string.h>

#include "indicator_internal.h"
#include "qsync/inner.h"

qs_status qs__statistics_check(const qs_question *question) {
    if (question->profile->statistics.iterations > 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "the profile holds no statistics: run qsync profile with --statistics-iterations 1 or more");
}

qs_status qs__statistics_find(const qs_question *question, int node, const qs_operator_statistics **out) {
    const qs_statistics *statistics = &question->profile->statistics;
    const char *name = question->graph->node[node].name;
    for (int i = 0; i < statistics->operators; i++) {
        *out = &statistics->operator_[i];
        if (strcmp((*out)->name, name) == 0) return QS_OK;
    }
    return qs_fail(QS_MISMATCH, "the profile has no statistics of operator %s: profile this model again", name);
}

/* `samples` times as many elements, `scale` times as large; counts that do not follow the batch have samples 1. Steps follow the values, up
 * to the rounding of `scale` to a power of two for floats. */
static qs_spread spread_at(const qs_tensor_statistics *raw, int iteration, double samples, double scale) {
    const double sums = samples * scale * scale;
    return (qs_spread){.count = (double)raw->count * samples,
                       .norm2 = raw->norm2[iteration] * sums,
                       .absmax = raw->absmax[iteration] * scale,
                       .minimum = raw->minimum[iteration] * scale,
                       .maximum = raw->maximum[iteration] * scale,
                       .channel_absmax2 = raw->channel_absmax2[iteration] * sums,
                       .channel_range2 = raw->channel_range2[iteration] * sums,
                       .variance_int8 = raw->variance_int8[iteration] * sums,
                       .variance_int8_channel = raw->variance_int8_channel[iteration] * sums,
                       .variance_bf16 = raw->variance_bf16[iteration] * sums,
                       .variance_fp16 = raw->variance_fp16[iteration] * sums,
                       .range_histogram = raw->range_histogram,
                       .histogram_factor = samples,
                       .histogram_shift = (int)lround(log2(scale))};
}

qs_spread qs__weights_spread(const qs_operator_statistics *raw, int iteration) {
    return spread_at(&raw->weights, iteration, 1, 1);
}

/* Along one axis: places of the window in the image, over all results. */
static double places_inside(int64_t src, int64_t dst, const qs_attributes *with, int axis) {
    int64_t inside = 0;
    for (int64_t o = 0; o < dst; o++)
        for (int64_t k = 0; k < with->kernel[axis]; k++) {
            const int64_t place = o * with->stride[axis] - with->padding[axis] + k * with->dilation[axis];
            if (place >= 0 && place < src) inside++;
        }
    return (double)inside;
}

/* Share of an operator's products whose input element is not padding. */
static double inside_share(const qs_graph *graph, int node) {
    const qs_attributes *with = &graph->node[node].attributes;
    const bool mirrored = graph->node[node].op->mirror != NULL; /* its windows lie on what it writes */
    const int from = graph->node[node].input[0];
    const qs_shape src = qs_graph_shape(graph, mirrored ? node : from, 1), dst = qs_graph_shape(graph, mirrored ? from : node, 1);
    double share = 1;
    for (int axis = 2; axis < dst.axes && with->kernel[axis - 2] > 0; axis++) /* positions of a linear operator have no window */
        share *= places_inside(src.dim[axis], dst.dim[axis], with, axis - 2) / (double)(dst.dim[axis] * with->kernel[axis - 2]);
    return share;
}

/* ‖∇v‖² of a node over that of the last adjustable operator, in one iteration; batch and loss scale are the same for both. */
static qs_status gain_of(const qs_question *question, const qs_operator_statistics *raw, int iteration, double *out) {
    const qs_operator_statistics *last = NULL;
    int node = question->graph->nodes - 1;
    while (question->graph->node[node].op->kind != QS_ADJUSTABLE)
        node--;
    QS_TRY(qs__statistics_find(question, node, &last));
    *out = raw->diff_dst.norm2[iteration] / last->diff_dst.norm2[iteration];
    if (!isfinite(*out)) *out = 1; /* no gradient came from the loss: nothing is known */
    return QS_OK;
}

qs_status qs__sensitivity(const qs_question *question, int node, int iteration, const int *depth, qs_sensitivity *out) {
    const qs_graph *graph = question->graph;
    const qs_statistics *statistics = &question->profile->statistics;
    const qs_operator_statistics *raw = NULL;
    QS_TRY(qs__statistics_find(question, node, &raw));
    /* Profiling scaled the loss by 1/(global samples then), the job does by 1/(global samples now). */
    const double samples = (double)question->batch / (double)statistics->batch;
    const double gradient = (double)(statistics->batch * statistics->ranks) / (double)question->global_batch;
    const qs_parameter *parameter = qs_graph_parameter(graph, node, QS_WEIGHTS);
    double gain;
    QS_TRY(gain_of(question, raw, iteration, &gain));
    *out = (qs_sensitivity){.depth = depth[node],
                            .model_depth = depth[graph->nodes - 1],
                            .gamma = 1.0 / (double)question->global_batch,
                            .gain = gain,
                            .v = spread_at(&raw->src, iteration, samples, 1),
                            .x = parameter ? qs__weights_spread(raw, iteration) : spread_at(&raw->weights, iteration, samples, 1),
                            .gv = spread_at(&raw->diff_dst, iteration, samples, gradient),
                            .activations = !parameter};
    if (!parameter) {
        const qs_case forward = qs_graph_case(graph, node, qs_op_pass(graph->node[node].op, "forward"), question->batch);
        out->products = qs_case_flops(&forward) / 2;
        out->inner_forward = out->v.count * out->x.count / out->products;
        out->inner_backward = out->v.count * out->gv.count / out->products;
        return QS_OK;
    }
    const double outputs = (double)parameter->shape.dim[0];
    out->inner = graph->node[node].op->inner != NULL;
    out->codes = out->inner && graph->node[node].op->inner->takes_codes(&graph->node[node].attributes);
    if (out->inner) { /* states have the step of values up to 1, however large they are */
        const double wider = 1 / out->v.absmax;
        out->v.absmax = 1;
        out->v.variance_int8 = isfinite(wider) ? out->v.variance_int8 * wider * wider : 0;
    }
    if (graph->node[node].op->mirror) { /* sums by their mean length: results have unlike numbers of windows over them */
        out->products = (double)qs_shape_count(&parameter->shape) / outputs * out->v.count * inside_share(graph, node);
        out->inner_forward = out->products / out->gv.count;
        out->inner_backward = out->products / out->x.count;
        return QS_OK;
    }
    out->inner_forward = (double)qs_shape_count(&parameter->shape) / outputs;
    out->inner_backward = out->gv.count / outputs; /* batch · H_out · W_out */
    out->products = out->inner_forward * out->gv.count * inside_share(graph, node);
    return QS_OK;
}
