// SPDX-License-Identifier: Apache-2.0
/* Indicator `qsync`: the running mean of Ω over the profiled iterations, per operator and recipe. */
#include <math.h>
#include <stdlib.h>

#include "indicator_internal.h"

/* Ω of one iteration, its accumulators included. */
static qs_status recipe_evaluate(const qs_question *question, const qs_sensitivity *one, const qs_recipe *recipe, const double *loss,
                                 double *value) {
    const qs_status status = qs_omega(one, recipe, question->convention, value);
    if (status == QS_INFEASIBLE) {
        *value = INFINITY;
        return QS_OK;
    }
    *value += qs_omega_accumulators(one, loss, question->convention);
    return status;
}

/* loss[r × QS_GEMMS + gemm]: they follow from lengths, so iterations share them. */
static qs_status losses_find(const qs_question *question, int node, double *loss) {
    for (int r = 0; r < question->recipes; r++)
        for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
            QS_TRY(qs_gemm_loss(question->graph, node, gemm, question->batch, &question->profile->statistics,
                                qs__recipe_of(question, node, r), &loss[r * QS_GEMMS + (int)gemm]));
    return QS_OK;
}

static qs_status iterations_evaluate(const qs_question *question, int node, const int *depth, const double *loss, double *omega) {
    const int iterations = question->profile->statistics.iterations;
    for (int i = 0; i < iterations; i++) {
        qs_sensitivity one;
        QS_TRY(qs__sensitivity(question, node, i, depth, &one));
        for (int r = 0; r < question->recipes; r++) {
            double value = 0;
            QS_TRY(recipe_evaluate(question, &one, qs__recipe_of(question, node, r), &loss[r * QS_GEMMS], &value));
            omega[r] += value / iterations;
        }
    }
    return QS_OK;
}

static qs_status node_evaluate(const qs_question *question, int node, const int *depth, double *omega) {
    double *loss = NULL;
    QS_TRY(qs_allocate((size_t)question->recipes * QS_GEMMS, sizeof *loss, &loss));
    qs_status status = losses_find(question, node, loss);
    if (status == QS_OK) status = iterations_evaluate(question, node, depth, loss, omega);
    free(loss);
    return status;
}

qs_status qs__indicator_qsync(const qs_question *question, double *omega) {
    int *depth = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs__statistics_check(question));
    QS_TRY(qs_allocate((size_t)question->graph->nodes, sizeof *depth, &depth));
    qs_graph_depths(question->graph, depth);
    for (int n = question->graph->samples.inputs; n < question->graph->nodes; n++)
        if (question->graph->node[n].op->kind == QS_ADJUSTABLE)
            QS_GOTO(node_evaluate(question, n, depth, &omega[(size_t)n * (size_t)question->recipes]));
done:
    free(depth);
    return status;
}
