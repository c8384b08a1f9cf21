// SPDX-License-Identifier: Apache-2.0
/* Top eigenvalue of each operator's Hessian block by power iteration (docs/method.md §3.9). A product with the Hessian is a central
 * difference of fp32 gradients along the direction, on the fixed batch, batch norm on that batch's statistics.
 *
 * Step. For a unit direction v, (g(w + h v) - g(w - h v)) / 2h is off by ε‖g‖/h from rounding and by about λ (h/L)²/6 from curvature, L the
 * length over which the Hessian changes; with ‖g‖ of the order of λ L both are balanced at h = ε^(1/3) L. The top direction puts all its
 * weight on few outputs and is aligned with their inputs: L is where one output's own weights, ‖w‖/√outputs, change by a root mean square
 * weight per input, that is ‖w‖/√count; more would carry many units over the kinks of their relu. Measured on a small mlp against exact
 * blocks: within 0.3 % of each other for factors of 2^-14 to 2^-6, beyond that rounding or kinks show; the default is 2^-8. */
#include "noise/probe.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    qs__probe probe;
    int64_t first, count; /* of the operator's weights in the flat buffers */
    double step;
    double *v, *hv; /* (count) */
    float *moved;   /* (count) the weights at one side */
} block;

static double norm_of(int64_t count, const double *values) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sqrt(sum);
}

static qs_status side_add(block *one, double sign) {
    const float *weights = one->probe.weights + one->first, *gradient;
    const double factor = sign / (2 * one->step * one->probe.job.loss_scale);
    for (int64_t i = 0; i < one->count; i++)
        one->moved[i] = (float)((double)weights[i] + sign * one->step * one->v[i]);
    QS_TRY(qs__probe_weights_set(&one->probe, one->first, one->count, one->moved));
    QS_TRY(qs__probe_gradient(&one->probe, one->probe.job.seed, one->probe.at, &gradient));
    for (int64_t i = 0; i < one->count; i++)
        one->hv[i] += factor * (double)gradient[one->first + i];
    return QS_OK;
}

static void direction_set(block *one, const double *from) {
    const double norm = norm_of(one->count, from);
    for (int64_t i = 0; i < one->count; i++)
        one->v[i] = from[i] / norm;
}

static qs_status power_iterate(block *one, int iterations, double tolerance, double *top) {
    double value = 0;
    for (int i = 0; i < iterations; i++) {
        const double before = value;
        value = 0;
        memset(one->hv, 0, (size_t)one->count * sizeof *one->hv);
        QS_TRY(side_add(one, 1));
        QS_TRY(side_add(one, -1));
        for (int64_t e = 0; e < one->count; e++)
            value += one->v[e] * one->hv[e];
        const double norm = norm_of(one->count, one->hv);
        if (!isfinite(norm)) return qs_fail(QS_NUMERIC, "the gradient beside the trained weights is not finite");
        if (norm == 0 || (i > 0 && fabs(value - before) < tolerance * fabs(value))) break;
        direction_set(one, one->hv);
    }
    *top = value;
    return QS_OK;
}

static qs_status node_measure(block *one, const qs_hessian_options *options, int node, double *top) {
    const qs_parameter *weights = qs_graph_parameter(one->probe.graph, node, QS_WEIGHTS);
    double norm2 = 0;
    one->first = weights->offset;
    one->count = qs_shape_count(&weights->shape);
    for (int64_t i = 0; i < one->count; i++)
        norm2 += (double)one->probe.weights[one->first + i] * (double)one->probe.weights[one->first + i];
    const double typical = norm2 > 0 ? sqrt(norm2 / (double)one->count) : 1;
    one->step = typical * (options->relative_step > 0 ? options->relative_step : cbrt((double)FLT_EPSILON / 2));
    const uint64_t key = qs_random_key(one->probe.job.seed, 0, (uint64_t)node, 2);
    for (int64_t i = 0; i < one->count; i++)
        one->hv[i] = (double)qs_random_normal(key, (uint64_t)i);
    direction_set(one, one->hv);
    qs_status status = power_iterate(one, options->iterations, options->tolerance, top);
    if (status == QS_OK) status = qs__probe_weights_set(&one->probe, one->first, one->count, one->probe.weights + one->first);
    return qs_fail_within(status, "Hessian of %s", one->probe.graph->node[node].name);
}

static qs_status measure(block *one, const qs_hessian_options *options, qs_device *device, double *top) {
    if (options->iterations < 1) return qs_fail(QS_USAGE, "power iterations %d: at least 1", options->iterations);
    if (options->parts < 1 || options->part < 0 || options->part >= options->parts)
        return qs_fail(QS_USAGE, "part %d of %d parts: from 0, and at least one part", options->part, options->parts);
    QS_TRY(qs__probe_start(options->job, NULL, qs_format_of("fp32"), options->data_folder, options->warm_up, NULL, device, &one->probe));
    QS_TRY(qs_allocate((size_t)one->probe.graph->trained_elements, sizeof *one->v, &one->v));
    QS_TRY(qs_allocate((size_t)one->probe.graph->trained_elements, sizeof *one->hv, &one->hv));
    QS_TRY(qs_allocate((size_t)one->probe.graph->trained_elements, sizeof *one->moved, &one->moved));
    QS_TRY(qs__probe_program(&one->probe));
    memset(top, 0, (size_t)one->probe.graph->nodes * sizeof *top);
    const qs_graph *graph = one->probe.graph;
    for (int n = graph->samples.inputs, adjustable = 0; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE || adjustable++ % options->parts != options->part) continue;
        if (!qs_graph_parameter(graph, n, QS_WEIGHTS)) continue; /* no block of its own: 0 */
        if (options->progress) options->progress(options->progress_context, graph->node[n].name, (double)n / graph->nodes);
        QS_TRY(node_measure(one, options, n, &top[n]));
    }
    return QS_OK;
}

void qs_hessian_options_default(qs_hessian_options *out) {
    *out = (qs_hessian_options){.warm_up = 20, .iterations = 20, .tolerance = 1e-2, .parts = 1};
}

qs_status qs_hessian_measure(const qs_hessian_options *options, qs_device *device, double *top) {
    block one = {0};
    const qs_status status = measure(&one, options, device, top);
    qs__probe_release(&one.probe);
    free(one.v);
    free(one.hv);
    free(one.moved);
    return status;
}

/* ---- Into a profile ------------------------------------------------------------------------------------------------------------------ */

/* Every operator is some rank's; the others add 0. */
static qs_status parts_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, const qs_graph *graph,
                               qs_profile *profile) {
    const bool first = qs_comm_rank(comm) == 0;
    qs_hessian_options mine;
    double *top = NULL;
    qs_hessian_options_default(&mine);
    mine.job = options->job;
    mine.data_folder = options->data_folder;
    mine.part = qs_comm_rank(comm);
    mine.parts = qs_comm_size(comm);
    mine.progress = first ? options->progress : NULL;
    mine.progress_context = options->progress_context;
    qs_status status = qs_allocate((size_t)graph->nodes, sizeof *top, &top);
    if (status == QS_OK && first && profile->statistics.operators == 0)
        status = qs_fail(QS_USAGE, "Hessian eigenvalues stand with statistics, and the profile has none: take 1 iteration or more");
    status = qs_comm_agree(comm, status);
    if (status == QS_OK) status = qs_comm_agree(comm, qs_hessian_measure(&mine, device, top));
    if (status == QS_OK) status = qs_comm_sum(comm, top, graph->nodes);
    for (int i = 0; status == QS_OK && first && i < profile->statistics.operators; i++) {
        qs_operator_statistics *one = &profile->statistics.operator_[i];
        const int node = qs_graph_find(graph, one->name);
        if (node > 0) one->hessian_top = top[node];
    }
    free(top);
    return status;
}

qs_status qs_profile_hessian(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *profile) {
    qs_graph *graph = NULL;
    QS_TRY(qs_model_share(options->job, NULL, comm, &graph));
    const qs_status status = parts_measure(options, device, comm, graph, profile);
    qs_graph_release(graph);
    return status;
}
