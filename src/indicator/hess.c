// SPDX-License-Identifier: Apache-2.0
/* Indicator `hess`, a baseline (docs/method.md §3.9): curvature of the loss along the weights times the squared error of their
 * quantization. A product of two activations has no weights to look along: it counts as the most sensitive operator that has some, so that
 * no planner lowers it first because nobody asked. */
#include <math.h>

#include "indicator_internal.h"

static qs_status curvature_get(const qs_question *question, int node, const qs_operator_statistics *raw, double *out) {
    *out = fabs(raw->hessian_top) / (double)raw->weights.count;
    if (isfinite(*out)) return QS_OK;
    return qs_fail(QS_MISMATCH, "the profile has no Hessian eigenvalue of operator %s: run qsync profile --hessian",
                   question->graph->node[node].name);
}

/* Mean over iterations of E‖Q(x) - x‖². */
static qs_status error_mean(const qs_question *question, const qs_operator_statistics *raw, const qs_quantizer *weights, double *out) {
    const int iterations = question->profile->statistics.iterations;
    *out = 0;
    for (int i = 0; i < iterations; i++) {
        const qs_spread spread = qs__weights_spread(raw, i);
        double error;
        const qs_status status = qs_rounding_variance(&spread, weights, false, true, "weights", &error);
        if (status == QS_INFEASIBLE)
            error = INFINITY;
        else if (status != QS_OK)
            return status;
        *out += error / iterations;
    }
    return QS_OK;
}

static qs_status node_evaluate(const qs_question *question, int node, double *omega) {
    const qs_operator_statistics *raw = NULL;
    double curvature;
    QS_TRY(qs__statistics_find(question, node, &raw));
    QS_TRY(curvature_get(question, node, raw, &curvature));
    for (int r = question->recipes - 1; r >= 0; r--) {
        const qs_quantizer *weights = &qs__recipe_of(question, node, r)->forward.weights;
        if (weights->format->kind == QS_KIND_FLOAT && r + 1 < question->recipes) {
            omega[r] = omega[r + 1] / 2;
            continue;
        }
        QS_TRY(error_mean(question, raw, weights, &omega[r]));
        omega[r] *= curvature;
    }
    return QS_OK;
}

/* Operators without weights get, recipe by recipe, the largest finite Ω of those that have some. */
static void products_fill(const qs_question *question, double *omega) {
    const qs_graph *graph = question->graph;
    const int recipes = question->recipes;
    for (int r = 0; r < recipes; r++) {
        double most = 0;
        for (int n = graph->samples.inputs; n < graph->nodes; n++)
            if (isfinite(omega[n * recipes + r])) most = fmax(most, omega[n * recipes + r]);
        for (int n = graph->samples.inputs; n < graph->nodes; n++)
            if (graph->node[n].op->kind == QS_ADJUSTABLE && !qs_graph_parameter(graph, n, QS_WEIGHTS)) omega[n * recipes + r] = most;
    }
}

qs_status qs__indicator_hess(const qs_question *question, double *omega) {
    QS_TRY(qs__statistics_check(question));
    for (int n = question->graph->samples.inputs; n < question->graph->nodes; n++)
        if (question->graph->node[n].op->kind == QS_ADJUSTABLE && qs_graph_parameter(question->graph, n, QS_WEIGHTS))
            QS_TRY(node_evaluate(question, n, &omega[(size_t)n * (size_t)question->recipes]));
    products_fill(question, omega);
    return QS_OK;
}
