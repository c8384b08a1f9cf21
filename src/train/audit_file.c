// SPDX-License-Identifier: Apache-2.0
/* audit.json: the audit as a file. Fields that the plan says nothing about are left out. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

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
        time_put(text, key, sum > 0, qs_phase_times_at(&one->predicted, i), qs_phase_times_at(&one->measured, i));
    }
    fputs("},\n", text->stream);
}

static void memory_put(qs__text *text, const qs_audit_rank *one) {
    fputs("     \"memory\": {\"arena\": {", text->stream);
    if (one->predicted_arena >= 0) {
        integer_put(text, "predicted", one->predicted_arena);
        fputs(", ", text->stream);
    }
    integer_put(text, "reserved", one->reserved_arena);
    fputs("}, ", text->stream);
    integer_put(text, "data", one->data_bytes);
    fputs(", ", text->stream);
    if (one->predicted_rss >= 0) {
        integer_put(text, "base", one->base_bytes);
        fputs(", ", text->stream);
        integer_put(text, "programs", one->program_bytes);
        fputs(", ", text->stream);
        integer_put(text, "communication", one->communication_bytes);
        fputs(", \"rss\": {", text->stream);
        integer_put(text, "predicted", one->predicted_rss);
        fputs(", ", text->stream);
    } else {
        fputs("\"rss\": {", text->stream);
    }
    integer_put(text, "measured", one->measured_rss);
    error_put(text, (double)one->predicted_rss, (double)one->measured_rss);
    fputs("}}", text->stream);
}

static void rank_put(qs__text *text, int rank, const qs_audit_rank *one) {
    fprintf(text->stream, "%s    {\"rank\": %d, \"class\": ", rank ? ",\n" : "", rank);
    qs__text_quote(text, one->class_name);
    fputs(", ", text->stream);
    number_put(text, "iteration_us", one->iteration_us);
    fputs(",\n", text->stream);
    phases_put(text, one);
    memory_put(text, one);
    putc('}', text->stream);
}

qs_status qs_audit_text(const qs_audit *audit, char **json) {
    qs__text text;
    QS_TRY(qs__text_start(&text));
    fputs("{\"schema\": \"qsync/audit/1\",\n ", text.stream);
    integer_put(&text, "steps", audit->steps);
    fputs(",\n ", text.stream);
    integer_put(&text, "first_step", audit->first_step + 1);
    fputs(",\n ", text.stream);
    time_put(&text, "iteration_us", audit->predicted_us > 0, audit->predicted_us, audit->measured_us);
    fputs(",\n ", text.stream);
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
