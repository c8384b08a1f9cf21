// SPDX-License-Identifier: Apache-2.0
/* What the plan said against what was measured: times by phase and memory, of every rank; and audit.json. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_READINGS = 256 };
static const double default_bound = 10;

enum { COMMUNICATION = 3, WAITING = 4, DATA = 6 };

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
    double medians[QS_MOST_LENGTHS][QS_PHASE_TIMES + 1];
    int64_t steps[QS_MOST_LENGTHS], arena_bytes, data_bytes, resident_bytes;
    int64_t staging_bytes;             /* of this process, where the arena is none of its memory; else -1 */
    int64_t programs[QS_MOST_LENGTHS]; /* of training: a smaller step has one of its own */
    int64_t recorded;                  /* its steps run from recordings */
} rank_figures;

/* Readings of the clock in an iteration × what one costs. */
static double observing_us(int steps) {
    const double begin = qs_clock();
    double end = begin;
    for (int i = 0; i < CLOCK_READINGS; i++)
        end = qs_clock();
    return 1e6 * (end - begin) / CLOCK_READINGS * steps;
}

/* ---- Put together --------------------------------------------------------------------------------------------------------------- */

double qs__length_share(const qs_length_time *length, int lengths, int index) {
    int64_t all = 0;
    for (int k = 0; k < lengths; k++)
        if (length[k].measured_us > 0) all += length[k].steps;
    if (all == 0) return index + 1 == lengths ? 1 : 0;
    return length[index].measured_us > 0 ? (double)length[index].steps / (double)all : 0;
}

/* The same for one rank, of the lengths of which its clock saw steps. */
static double seen_share(const rank_figures *from, const qs_train_result *result, int index) {
    double all = 0;
    for (int k = 0; k < result->lengths; k++)
        if (from->steps[k] > 0) all += qs__length_share(result->length, result->lengths, k);
    const double share = qs__length_share(result->length, result->lengths, index);
    if (all <= 0) return share;
    return from->steps[index] > 0 ? share / all : 0;
}

/* Medians of all phases and the whole, each length as often as it occurred. */
static void measured_fill(const rank_figures *from, const qs_train_result *result, qs_audit_rank *out) {
    double m[QS_PHASE_TIMES + 1] = {0};
    for (int k = 0; k < result->lengths; k++)
        for (int i = 0; i <= QS_PHASE_TIMES; i++)
            m[i] += seen_share(from, result, k) * from->medians[k][i];
    out->measured = (qs_phase_times){m[0], m[1], m[2], m[3], m[4], m[5], m[6]};
    out->iteration_us = m[QS_PHASE_TIMES];
}

/* The same mean of what the plan says of each length. */
static void predicted_fill(const qs_class_plan *plan, const rank_figures *from, const qs_train_result *result, qs_audit_rank *out) {
    double p[QS_PHASE_TIMES] = {0};
    if (plan->lengths == 0) {
        out->predicted = plan->predicted.phases;
        out->program_bytes = plan->predicted.program_bytes * from->programs[0];
        return;
    }
    for (int k = 0; k < plan->lengths; k++) {
        out->program_bytes += plan->length[k].program_bytes * from->programs[k];
        for (int i = 0; i < QS_PHASE_TIMES; i++)
            p[i] += seen_share(from, result, k) * qs_phase_times_at(&plan->length[k].phases, i);
    }
    out->predicted = (qs_phase_times){p[0], p[1], p[2], p[3], p[4], p[5], p[6]};
}

static void rank_fill(const qs_class *class_, const qs_class_plan *plan, const rank_figures *from, const qs_train_result *result,
                      int64_t predicted_arena, qs_audit_rank *out) {
    *out = (qs_audit_rank){.predicted_arena = predicted_arena,
                           .reserved_arena = from->arena_bytes,
                           .data_bytes = from->data_bytes,
                           .recorded = from->recorded,
                           .predicted_rss = -1,
                           .measured_rss = from->resident_bytes};
    snprintf(out->class_name, sizeof out->class_name, "%s", class_->name);
    measured_fill(from, result, out);
    if (!plan) return;
    predicted_fill(plan, from, result, out);
    out->base_bytes = plan->predicted.base_bytes;
    out->communication_bytes = plan->predicted.communication_bytes;
    if (out->base_bytes > 0 && out->predicted_arena >= 0)
        out->predicted_rss = out->base_bytes + out->program_bytes + out->data_bytes + out->communication_bytes +
                             (from->staging_bytes >= 0 ? from->staging_bytes : out->predicted_arena);
}

/* ---- The warning ------------------------------------------------------------------------------------------------------------------ */

/* The phase that is furthest off, in time, to the side to which the iteration is. Waiting follows from the others, and is blamed only when
 * it is off by twice as much. Phases of steps that run from recordings were not measured. */
static void worst_find(const qs_audit *audit, int *rank, int *phase) {
    const double side = audit->measured_us > audit->predicted_us ? 1 : -1;
    double worst = 0;
    *rank = -1;
    for (int r = 0; r < audit->ranks; r++) {
        const qs_audit_rank *one = &audit->rank[r];
        for (int i = 0; i < QS_PHASE_TIMES && is_predicted(&one->predicted) && !one->recorded; i++) {
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
        snprintf(rest, left, ": most is %s of rank %d (class %s), %.0f us instead of %.0f us; %s", qs_phase_times_name(phase), rank,
                 audit->rank[rank].class_name, qs_phase_times_at(&audit->rank[rank].measured, phase),
                 qs_phase_times_at(&audit->rank[rank].predicted, phase), advice(phase));
}

/* ---- All together ----------------------------------------------------------------------------------------------------------------- */

static qs_status audit_fill(const qs__setting *setting, const qs__plans *plans, const rank_figures *all, const qs_train_result *result,
                            qs_audit *out) {
    const double bound = setting->options->audit_bound;
    QS_TRY(qs_allocate((size_t)setting->ranks, sizeof *out->rank, &out->rank));
    out->ranks = setting->ranks;
    for (int r = 0; r < setting->ranks; r++)
        rank_fill(qs__class_of(setting->options->cluster, r), qs__class_plan_of(setting, &plans->present, r), &all[r], result,
                  result->predicted_bytes[r], &out->rank[r]);
    out->lengths = result->lengths;
    memcpy(out->length, result->length, sizeof out->length);
    for (int k = 0; k < out->lengths; k++) {
        out->steps += all[0].steps[k];
        out->predicted_us += qs__length_share(out->length, out->lengths, k) * out->length[k].predicted_us;
        out->observing_us += qs__length_share(out->length, out->lengths, k) * observing_us(plans->watch[k].schedule->steps);
    }
    out->first_step = plans->present.first_step;
    out->measured_us = result->median_step_us;
    out->bound_percent = bound > 0 ? bound : default_bound;
    warning_write(out);
    return QS_OK;
}

/* Each program has staging of its own; -1 where none has any: the arena is memory of the process. */
static int64_t staging_sum(const qs__plans *plans) {
    int64_t bytes = 0;
    if (qs_memory_host(plans->memory)) return -1;
    for (int k = 0; k < plans->present.lengths; k++) {
        const qs__length_programs *at = &plans->present.at[k];
        const qs_schedule *schedule[] = {at->main.schedule, at->partial.schedule, at->evaluation.schedule};
        for (int i = 0; i < 3; i++)
            if (schedule[i]) bytes += (int64_t)qs__staging_bytes(schedule[i]);
    }
    return bytes;
}

qs_status qs__audit_make(const qs__setting *setting, const qs__plans *plans, const qs_train_result *result, int64_t resident_bytes,
                         qs_audit *out) {
    qs_comm *comm = setting->comm;
    rank_figures mine = {.arena_bytes = (int64_t)qs_memory_bytes(plans->memory),
                         .data_bytes = setting->data_bytes,
                         .resident_bytes = resident_bytes,
                         .staging_bytes = staging_sum(plans),
                         .recorded = qs_executor_recorded(qs__main(&plans->present)->executor).state == QS_RECORDED_YES};
    rank_figures *all = NULL;
    char *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = QS_OK;
    for (int k = 0; k < plans->present.lengths && status == QS_OK; k++) {
        mine.programs[k] = plans->present.at[k].partial.schedule ? 2 : 1;
        status = qs__watch_medians(&plans->watch[k], mine.medians[k], &mine.steps[k]);
    }
    QS_GOTO(qs_comm_agree(comm, status));
    QS_GOTO(qs_comm_gather(comm, &mine, (int64_t)sizeof mine, &data, &sizes));
    if (setting->rank == 0) {
        status = qs_allocate((size_t)setting->ranks, sizeof *all, &all);
        if (status == QS_OK) memcpy(all, data, (size_t)setting->ranks * sizeof *all);
        if (status == QS_OK) status = audit_fill(setting, plans, all, result, out);
    }
    status = qs_comm_agree(comm, status);
done:
    free(all);
    free(data);
    free(sizes);
    return status;
}

/* ---- audit.json: fields that the plan says nothing about are left out ---------------------------------------------------------------- */

static void number_put(qs__text *text, const char *key, double value) {
    fprintf(text->stream, "\"%s\": %.9g", key, value);
}

static void integer_put(qs__text *text, const char *key, int64_t value) {
    fprintf(text->stream, "\"%s\": %lld", key, (long long)value);
}

static void error_put(qs__text *text, double predicted, double measured) {
    const double error = qs_audit_error(predicted, measured);
    if (!isfinite(error)) return;
    fputs(", ", text->stream);
    number_put(text, "error_percent", error);
}

static void time_put(qs__text *text, const char *key, bool known, double predicted, double measured) {
    fprintf(text->stream, "\"%s\": {", key);
    if (known) {
        number_put(text, "predicted", predicted);
        fputs(", ", text->stream);
    }
    number_put(text, "measured", measured);
    if (known) error_put(text, predicted, measured);
    putc('}', text->stream);
}

static void phases_put(qs__text *text, const qs_audit_rank *one) {
    double sum = 0;
    char key[32];
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        sum += fabs(qs_phase_times_at(&one->predicted, i));
    fputs("     \"phases\": {", text->stream);
    for (int i = 0; i < QS_PHASE_TIMES; i++) {
        snprintf(key, sizeof key, "%s_us", qs_phase_times_name(i));
        fputs(i ? ",\n                " : "", text->stream);
        time_put(text, key, sum > 0 && !one->recorded, qs_phase_times_at(&one->predicted, i), qs_phase_times_at(&one->measured, i));
    }
    fputs("},\n", text->stream);
}

static void memory_put(qs__text *text, const qs_audit_rank *one) {
    const bool known = one->predicted_rss >= 0;
    fputs("     \"memory\": {\"arena\": {", text->stream);
    if (one->predicted_arena >= 0) fprintf(text->stream, "\"predicted\": %lld, ", (long long)one->predicted_arena);
    fprintf(text->stream, "\"reserved\": %lld}, \"data\": %lld, ", (long long)one->reserved_arena, (long long)one->data_bytes);
    if (known)
        fprintf(text->stream, "\"base\": %lld, \"programs\": %lld, \"communication\": %lld, ", (long long)one->base_bytes,
                (long long)one->program_bytes, (long long)one->communication_bytes);
    fputs("\"rss\": {", text->stream);
    if (known) fprintf(text->stream, "\"predicted\": %lld, ", (long long)one->predicted_rss);
    integer_put(text, "measured", one->measured_rss);
    error_put(text, (double)one->predicted_rss, (double)one->measured_rss);
    fputs("}}", text->stream);
}

static void rank_put(qs__text *text, int rank, const qs_audit_rank *one) {
    fprintf(text->stream, "%s    {\"rank\": %d, \"class\": ", rank ? ",\n" : "", rank);
    qs__text_quote(text, one->class_name);
    fputs(", ", text->stream);
    number_put(text, "iteration_us", one->iteration_us);
    fputs(one->recorded ? ", \"recorded\": true,\n" : ",\n", text->stream);
    phases_put(text, one);
    memory_put(text, one);
    putc('}', text->stream);
}

static void lengths_put(qs__text *text, const qs_audit *audit) {
    fputs("\"lengths\": [", text->stream);
    for (int k = 0; k < audit->lengths; k++) {
        const qs_length_time *one = &audit->length[k];
        fputs(k ? ",\n             {" : "{", text->stream);
        integer_put(text, "length", one->length);
        fputs(", ", text->stream);
        integer_put(text, "steps", one->steps);
        fputs(", ", text->stream);
        time_put(text, "iteration_us", one->predicted_us > 0, one->predicted_us, one->measured_us);
        putc('}', text->stream);
    }
    fputs("],\n ", text->stream);
}

qs_status qs_audit_text(const qs_audit *audit, char **json) {
    qs__text text;
    QS_TRY(qs__text_start(&text));
    fputs("{\"schema\": \"" QS_SCHEMA("audit") "\",\n ", text.stream);
    integer_put(&text, "steps", audit->steps);
    fputs(",\n ", text.stream);
    integer_put(&text, "first_step", audit->first_step + 1);
    fputs(",\n ", text.stream);
    time_put(&text, "iteration_us", audit->predicted_us > 0, audit->predicted_us, audit->measured_us);
    fputs(",\n ", text.stream);
    if (audit->length[0].length > 0) lengths_put(&text, audit);
    number_put(&text, "observing_us", audit->observing_us);
    fputs(",\n ", text.stream);
    number_put(&text, "bound_percent", audit->bound_percent);
    if (audit->warning[0]) {
        fputs(",\n \"warning\": ", text.stream);
        qs__text_quote(&text, audit->warning);
    }
    fputs(",\n \"ranks\": [\n", text.stream);
    for (int r = 0; r < audit->ranks; r++)
        rank_put(&text, r, &audit->rank[r]);
    fputs("]}\n", text.stream);
    return qs__text_finish(&text, json);
}
