// SPDX-License-Identifier: Apache-2.0
/* Which wire gradients travel in: a plan for each that the profile has measured, from the most exact one on; a less exact one is taken
 * where it saves more than the tolerance, for what it rounds away arrives late. Each plan has its residuals in its arena. */
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"
#include "session.h"

/* By how much the iteration is longer than with all-reduces that take no time. */
static qs_status exposed_find(const qs_plan_session *session, const qs_cluster *cluster, const qs_plan *plan, qs_wire_plan *out) {
    qs_profile free_of_them = *session->profile;
    qs_prediction prediction = {0};
    qs_status status = QS_OK;
    free_of_them.collective = NULL;
    QS_GOTO(qs_allocate((size_t)session->profile->collectives + 1, sizeof *free_of_them.collective, &free_of_them.collective));
    for (int i = 0; i < free_of_them.collectives; i++) {
        qs_collective_cost *row = &free_of_them.collective[i];
        *row = session->profile->collective[i];
        row->alpha_us = row->us_per_byte = row->pieces = 0;
    }
    QS_GOTO(qs_plan_predict(plan, session->graph, cluster, &free_of_them, NULL, NULL, &prediction));
    out->exposed_us = out->iteration_us - prediction.iteration_us;
done:
    qs_prediction_release(&prediction);
    free(free_of_them.collective);
    return status;
}

/* That a wire has no plan is an answer: *status says why, and its message stays. */
static qs_status wire_plan(qs_plan_session *session, const qs_cluster *cluster, const char *name, qs_planner planner,
                           const qs_plan_options *options, const char *wire, qs_plan *plan, qs_wire_plan *row) {
    const int64_t residual_bytes = session->graph->trained_elements * (int64_t)sizeof(float);
    qs_plan_session *own;
    *row = (qs_wire_plan){.residual_bytes = strcmp(wire, "fp32") == 0 ? 0 : residual_bytes};
    snprintf(row->wire, sizeof row->wire, "%s", wire);
    QS_TRY(qs__session_on_wire(session, wire, &own));
    const qs_status status = qs__plan_recomputing(own, cluster, name, planner, options, plan);
    if (status == QS_INFEASIBLE) snprintf(row->why, sizeof row->why, "memory");
    if (status == QS_MISMATCH) snprintf(row->why, sizeof row->why, "profile");
    QS_TRY(status);
    row->iteration_us = plan->class_[0].predicted.iteration_us;
    return exposed_find(session, cluster, plan, row);
}

qs_status qs__plan_choosing_wire(qs_plan_session *session, const qs_cluster *cluster, const char *name, qs_planner planner,
                                 const qs_plan_options *options, qs_plan *out) {
    qs_plan *plan = NULL;
    qs_wire_plan *row = NULL;
    const char *wire;
    char why_first[512] = "";
    qs_status first = QS_OK, status = QS_OK;
    int wires = 0, taken = -1;
    while (qs_cost_wire_at(session->profile, session->job->algorithm, (size_t)wires))
        wires++;
    if (wires < 2) { /* nothing to choose */
        wire = qs_cost_wire_at(session->profile, session->job->algorithm, 0);
        QS_TRY(qs__session_on_wire(session, wire ? wire : session->job->wire, &session));
        return qs__plan_recomputing(session, cluster, name, planner, options, out);
    }
    QS_GOTO(qs_allocate((size_t)wires, sizeof *plan, &plan));
    QS_GOTO(qs_allocate((size_t)wires, sizeof *row, &row));
    for (int w = 0; w < wires; w++) {
        wire = qs_cost_wire_at(session->profile, session->job->algorithm, (size_t)w);
        status = wire_plan(session, cluster, name, planner, options, wire, &plan[w], &row[w]);
        if (status != QS_OK && !row[w].why[0]) goto done;
        if (status == QS_OK) {
            if (taken < 0 || row[w].iteration_us < row[taken].iteration_us * (1 - options->tolerance)) taken = w;
            continue;
        }
        qs_log(QS_LOG_INFO, "no plan on wire %s: %s", wire, qs_message());
        if (first == QS_OK) snprintf(why_first, sizeof why_first, "%s", qs_message());
        if (first == QS_OK) first = status;
    }
    status = QS_OK;
    if (taken < 0) QS_GOTO(qs_fail(first, "%s", why_first));
    for (int w = 0; w < wires; w++) {
        const char *why = w == taken ? "taken" : row[w].iteration_us < row[taken].iteration_us ? "tolerance" : "slower";
        if (!row[w].why[0]) snprintf(row[w].why, sizeof row[w].why, "%s", why);
    }
    QS_GOTO(qs_allocate((size_t)wires, sizeof *plan[taken].wire, &plan[taken].wire));
    memcpy(plan[taken].wire, row, (size_t)wires * sizeof *row);
    plan[taken].wires = wires;
    *out = plan[taken];
    plan[taken] = (qs_plan){0};
done:
    for (int w = 0; plan && w < wires; w++)
        qs_plan_release(&plan[w]);
    free(plan);
    free(row);
    return status;
}
