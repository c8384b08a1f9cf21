// SPDX-License-Identifier: Apache-2.0
/* Indicator `qsync`: the running mean of Ω over the profiled iterations, per operator and recipe. */
#include <math.h>
#include <stdlib.h>

#include "indicator_internal.h"

static qs_status node_evaluate(const qs_question *question, int node, const int *depth, double *omega) {
    const int iterations = question->profile->statistics.iterations;
    for (int i = 0; i < iterations; i++) {
        qs_sensitivity one;
        QS_TRY(qs__sensitivity(question, node, i, depth, &one));
        for (int r = 0; r < question->recipes; r++) {
            double value = 0;
            qs_status status = qs_omega(&one, &question->recipe[r], question->convention, &value);
            if (status == QS_INFEASIBLE)
                value = INFINITY;
            else if (status != QS_OK)
                return status;
            omega[r] += value / iterations;
        }
    }
    return QS_OK;
}

qs_status qs__indicator_qsync(const qs_question *question, double *omega) {
    int *depth = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs__statistics_check(question));
    QS_TRY(qs_allocate((size_t)question->graph->nodes, sizeof *depth, &depth));
    qs_graph_depths(question->graph, depth);
    for (int n = 1; n < question->graph->nodes; n++)
        if (question->graph->node[n].op->kind == QS_ADJUSTABLE)
            QS_GOTO(node_evaluate(question, n, depth, &omega[(size_t)n * (size_t)question->recipes]));
done:
    free(depth);
    return status;
}
