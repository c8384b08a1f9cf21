// SPDX-License-Identifier: Apache-2.0
/* What the plan said against what was measured: times by phase and memory, of every rank. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_READINGS = 256 };
static const double default_bound = 10;

/* ---- Phases as a list ---------------------------------------------------------------------------------------------------------- */

static const char *const phase_names[QS_PHASE_TIMES] = {"forward", "backward", "cast", "communication", "waiting", "optimizer", "data"};
enum { COMMUNICATION = 3, WAITING = 4, DATA = 6 };

const char *qs_phase_times_name(int index) {
    return phase_names[index];
}

double qs_phase_times_at(const qs_phase_times *times, int index) {
    const double all[QS_PHASE_TIMES] = {times->forward_us, times->backward_us,  times->cast_us, times->communication_us,
                                        times->waiting_us, times->optimizer_us, times->data_us};
    return all[index];
}

static bool is_predicted(const qs_phase_times *times) {
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        if (qs_phase_times_at(times, i) != 0) return true;
    return false;
}

double qs_audit_error(double predicted, double measured) {
    return predicted > 0 && measured > 0 ? 100 * (predicted / measured - 1) : NAN;
}

void qs_audit_release(qs_audit *audit) {
    free(audit->rank);
    *audit = (qs_audit){0};
}

/* ---- What every rank knows ------------------------------------------------------------------------------------------------------ */

typedef struct rank_figures {
    double medians[QS_PHASE_TIMES + 1];
    int64_t steps, arena_bytes, data_bytes, resident_bytes;
    int64_t programs; /* of training: a smaller last step has one of its own */
} rank_figures;

static qs_status figures_fill(const qs__trainer *trainer, rank_figures *out) {
    *out = (rank_figures){.arena_bytes = (int64_t)trainer->arena.bytes, .resident_bytes = trainer->resident_bytes};
    out->programs = trainer->partial.schedule ? 2 : 1;
    out->data_bytes = trainer->data_bytes;
    return qs__watch_medians(&trainer->watch, out->medians, &out->steps);
}

/* Readings of the clock in an iteration × what one costs. */
static double observing_us(const qs__watch *watch) {
    const double begin = qs_clock();
    double end = begin;
    for (int i = 0; i < CLOCK_READINGS; i++)
        end = qs_clock();
    return 1e6 * (end - begin) / CLOCK_READINGS * watch->schedule->steps;
}

/* ---- Put together --------------------------------------------------------------------------------------------------------------- */

static void rank_fill(const qs__trainer *trainer, int rank, const rank_figures *from, const qs_train_result *result, qs_audit_rank *out) {
    const qs_class_plan *plan = qs__class_plan_of(trainer, rank);
    const double *m = from->medians;
    *out = (qs_audit_rank){.measured = {m[0], m[1], m[2], m[3], m[4], m[5], m[6]},
                           .iteration_us = m[QS_PHASE_TIMES],
                           .predicted_arena = result->predicted_bytes[rank],
                           .reserved_arena = from->arena_bytes,
                           .data_bytes = from->data_bytes,
                           .predicted_rss = -1,
                           .measured_rss = from->resident_bytes};
    snprintf(out->class_name, sizeof out->class_name, "%s", qs__class_of(trainer, rank)->name);
    if (!plan) return;
    out->predicted = plan->predicted.phases;
    out->base_bytes = plan->predicted.base_bytes;
    out->program_bytes = plan->predicted.program_bytes * from->programs;
    out->communication_bytes = plan->predicted.communication_bytes;
    if (out->base_bytes > 0 && out->predicted_arena >= 0)
        out->predicted_rss = out->base_bytes + out->program_bytes + out->data_bytes + out->communication_bytes + out->predicted_arena;
}

/* ---- The warning ------------------------------------------------------------------------------------------------------------------ */

/* The phase that is furthest off, in time, to the side to which the iteration is. Waiting follows from the others, and is blamed only when
 * it is off by twice as much. */
static void worst_find(const qs_audit *audit, int *rank, int *phase) {
    const double side = audit->measured_us > audit->predicted_us ? 1 : -1;
    double worst = 0;
    *rank = -1;
    for (int r = 0; r < audit->ranks; r++) {
        const qs_audit_rank *one = &audit->rank[r];
        for (int i = 0; i < QS_PHASE_TIMES && is_predicted(&one->predicted); i++) {
            const double weight = i == WAITING ? 0.5 : 1;
            const double off = weight * side * (qs_phase_times_at(&one->measured, i) - qs_phase_times_at(&one->predicted, i));
            if (off <= worst) continue;
            worst = off;
            *rank = r;
            *phase = i;
        }
    }
}

static const char *advice(int phase) {
    switch (phase) {
    case COMMUNICATION:
    case WAITING:
        return "profile again with all ranks of the cluster running as they do in training";
    case DATA:
        return "profile again on this data set";
    default:
        return "profile again, with nothing else running on the machine";
    }
}

static void warning_write(qs_audit *audit) {
    const double error = qs_audit_error(audit->predicted_us, audit->measured_us);
    int rank = -1, phase = 0;
    if (!(fabs(error) > audit->bound_percent)) return;
    int at =
        snprintf(audit->warning, sizeof audit->warning, "an iteration takes %.0f us, the plan predicted %.0f us (%+.1f %%, bound %g %%)",
                 audit->measured_us, audit->predicted_us, error, audit->bound_percent);
    worst_find(audit, &rank, &phase);
    char *rest = audit->warning + at;
    const size_t left = sizeof audit->warning - (size_t)at;
    if (rank < 0)
        snprintf(rest, left, "; %s", advice(0));
    else
        snprintf(rest, left, ": most is %s of rank %d (class %s), %.0f us instead of %.0f us; %s", phase_names[phase], rank,
                 audit->rank[rank].class_name, qs_phase_times_at(&audit->rank[rank].measured, phase),
                 qs_phase_times_at(&audit->rank[rank].predicted, phase), advice(phase));
}

/* ---- All together ----------------------------------------------------------------------------------------------------------------- */

static qs_status audit_fill(const qs__trainer *trainer, const rank_figures *all, const qs_train_result *result, qs_audit *out) {
    const double bound = trainer->options->audit_bound;
    const qs_class_plan *plan = qs__class_plan_of(trainer, 0);
    QS_TRY(qs_allocate((size_t)trainer->ranks, sizeof *out->rank, &out->rank));
    out->ranks = trainer->ranks;
    for (int r = 0; r < trainer->ranks; r++)
        rank_fill(trainer, r, &all[r], result, &out->rank[r]);
    out->steps = all[0].steps;
    out->first_step = trainer->plan_step;
    out->predicted_us = plan ? plan->predicted.iteration_us : 0;
    out->measured_us = result->median_step_us;
    out->observing_us = observing_us(&trainer->watch);
    out->bound_percent = bound > 0 ? bound : default_bound;
    warning_write(out);
    return QS_OK;
}

qs_status qs__audit_make(qs__trainer *trainer, const qs_train_result *result, qs_audit *out) {
    rank_figures mine, *all = NULL;
    char *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_agree(trainer->comm, figures_fill(trainer, &mine)));
    QS_GOTO(qs_comm_gather(trainer->comm, &mine, (int64_t)sizeof mine, &data, &sizes));
    if (trainer->rank == 0) {
        status = qs_allocate((size_t)trainer->ranks, sizeof *all, &all);
        if (status == QS_OK) memcpy(all, data, (size_t)trainer->ranks * sizeof *all);
        if (status == QS_OK) status = audit_fill(trainer, all, result, out);
    }
    status = qs_comm_agree(trainer->comm, status);
done:
    free(all);
    free(data);
    free(sizes);
    return status;
}
