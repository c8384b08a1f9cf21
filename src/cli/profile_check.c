// SPDX-License-Identifier: Apache-2.0
/* Checks of a profile: files in, predictions beside what was measured, a table out. */
#include "profile_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/planner.h"

/* ---- Reading --------------------------------------------------------------------------------------------------------------------- */

static qs_status check_read(void *context, const char *file) {
    profile_checks *all = context;
    if (all->count == MOST_CHECKS) return qs_fail(QS_USAGE, "--check: at most %d plans", MOST_CHECKS);
    QS_TRY(qs_plan_read(file, &all->plan[all->count]));
    all->count++;
    return qs_format_text(&all->file[all->count - 1], "%s", file);
}

qs_status profile_checks_read(const char *list, profile_checks *out) {
    return list ? names_each(list, check_read, out) : QS_OK;
}

void profile_checks_release(profile_checks *checks) {
    for (int i = 0; i < checks->count; i++) {
        qs_plan_release(&checks->plan[i]);
        free(checks->file[i]);
    }
}

/* ---- Predicting -------------------------------------------------------------------------------------------------------------------- */

static qs_status iteration_predict(const qs_plan *plan, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile,
                                   bool no_casts, double *us) {
    const qs_cost_options costs = {.no_casts = no_casts};
    qs_prediction prediction = {0};
    QS_TRY(qs_plan_predict(plan, graph, cluster, profile, &costs, NULL, &prediction));
    *us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return QS_OK;
}

/* Timed were the plan's operators in the job of the profile, whatever else the plan says. */
static qs_status check_predict(const qs_plan *check, const qs_graph *graph, const qs_cluster *cluster, const qs_job *job,
                               const qs_profile *profile, qs_profile_check *row) {
    qs_plan plan = *check;
    plan.job = *job;
    QS_TRY(iteration_predict(&plan, graph, cluster, profile, false, &row->predicted_us));
    return iteration_predict(&plan, graph, cluster, profile, true, &row->no_casts_us);
}

qs_status profile_checks_predict(const profile_checks *checks, const qs_cluster *cluster, const qs_job *job, qs_profile *profile) {
    qs_graph *graph = NULL;
    qs_status status = QS_OK;
    if (profile->checks == 0) return QS_OK;
    QS_TRY(job_model_open(job, &graph));
    for (int i = 0; i < profile->checks && status == QS_OK; i++) {
        status = check_predict(&checks->plan[i], graph, cluster, job, profile, &profile->check[i]);
        status = qs_fail_within(status, "check %s", checks->file[i]);
    }
    qs_graph_release(graph);
    return status;
}

/* ---- Printing ---------------------------------------------------------------------------------------------------------------------- */

void profile_checks_print(const qs_profile *profile) {
    double mean = 0, worst = 0;
    if (profile->checks == 0) return;
    printf("  plans timed beside these figures, none of which is from them; steps in which no rank was disturbed\n");
    printf("  %-32s %13s %10s %10s %8s\n", "check", "steps", "measured", "predicted", "error");
    for (int i = 0; i < profile->checks; i++) {
        const qs_profile_check *row = &profile->check[i];
        const double error = row->predicted_us / row->measured_us - 1;
        printf("  %-32s %6d of %3d %10s %10s %+7.2f%%\n", row->plan, row->undisturbed, row->steps, time_text(row->measured_us),
               time_text(row->predicted_us), 100 * error);
        mean += fabs(error) / profile->checks;
        worst = fmax(worst, fabs(error));
    }
    printf("  predictions are off by %.2f %% on average, %.2f %% at worst\n", 100 * mean, 100 * worst);
}
