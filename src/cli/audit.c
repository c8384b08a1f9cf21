// SPDX-License-Identifier: Apache-2.0
/* A run's audit: per rank the phases of an iteration and the memory of the process, predicted beside measured. */
#include "audit.h"

#include <math.h>
#include <string.h>

/* The phases, and the iteration. */
enum { COLUMNS = QS_PHASE_TIMES + 1 };
static const int widths[COLUMNS] = {10, 10, 10, 14, 10, 10, 10, 10};

static qs_status field_fail(const char *source, const char *what) {
    return qs_fail(QS_BAD_FILE, "%s: %s", source, what);
}

static bool is_complete(const json_t *rank) {
    const json_t *memory = json_object_get(rank, "memory");
    return json_is_string(json_object_get(rank, "class")) && json_is_number(json_object_get(rank, "iteration_us")) &&
           json_is_object(json_object_get(rank, "phases")) && json_is_object(json_object_get(memory, "rss"));
}

static qs_status audit_check(const char *source, const json_t *audit) {
    const json_t *ranks = json_object_get(audit, "ranks");
    const char *schema = json_string_value(json_object_get(audit, "schema"));
    QS_TRY(qs_schema_check(source, schema ? schema : "", "audit"));
    if (!json_is_integer(json_object_get(audit, "steps"))) return field_fail(source, "steps: must be a count");
    if (!json_is_object(json_object_get(audit, "iteration_us"))) return field_fail(source, "iteration_us: must be an object");
    for (size_t r = 0; r < json_array_size(ranks); r++)
        if (!is_complete(json_array_get(ranks, r)))
            return field_fail(source, "ranks: class, iteration_us, phases and memory of every rank");
    return json_array_size(ranks) > 0 ? QS_OK : field_fail(source, "ranks: must be a list, and not empty");
}

qs_status audit_parse(const char *text, const char *source, json_t **out) {
    json_error_t error;
    json_t *audit = json_loads(text, 0, &error);
    if (!audit) return qs_fail(QS_BAD_FILE, "%s:%d:%d: %s", source, error.line, error.column, error.text);
    const qs_status status = audit_check(source, audit);
    if (status == QS_OK)
        *out = audit;
    else
        json_decref(audit);
    return status;
}

/* NaN for what is not there. */
static double number_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double phase_at(const json_t *rank, int column, const char *which) {
    char key[32];
    snprintf(key, sizeof key, "%s_us", qs_phase_times_name(column));
    return number_at(json_object_get(json_object_get(rank, "phases"), key), which);
}

static void times_print(const char *label, const char *which, const double *us) {
    printf("%-22.22s %-10s", label, which);
    for (int c = 0; c < COLUMNS; c++)
        printf("%*s", widths[c], time_text(us[c]));
    printf("\n");
}

/* Difference as a share of the whole iteration: a phase that hardly takes time may be far off without harm. */
static void errors_print(const double *predicted, const double *measured) {
    char cell[32];
    printf("%-22s %-10s", "", "difference");
    for (int c = 0; c < COLUMNS; c++) {
        snprintf(cell, sizeof cell, "%+.1f %%", 100 * (predicted[c] - measured[c]) / measured[QS_PHASE_TIMES]);
        printf("%*s", widths[c], isfinite(predicted[c]) && isfinite(measured[c]) ? cell : "-");
    }
    printf("\n");
}

static void rank_print(const json_t *rank, size_t index, double predicted_iteration) {
    double measured[COLUMNS], predicted[COLUMNS];
    char label[96];
    for (int c = 0; c < QS_PHASE_TIMES; c++) {
        measured[c] = phase_at(rank, c, "measured");
        predicted[c] = phase_at(rank, c, "predicted");
    }
    measured[QS_PHASE_TIMES] = number_at(rank, "iteration_us");
    predicted[QS_PHASE_TIMES] = predicted_iteration;
    snprintf(label, sizeof label, "rank %zu (%s)", index, json_string_value(json_object_get(rank, "class")));
    times_print(label, "measured", measured);
    if (!isfinite(predicted_iteration) || json_is_true(json_object_get(rank, "recorded"))) return; /* of other steps than these */
    times_print("", "predicted", predicted);
    errors_print(predicted, measured);
}

/* Of what was said before: the iteration. */
static void iteration_print(const json_t *iteration) {
    const double measured = number_at(iteration, "measured"), predicted = number_at(iteration, "predicted");
    if (measured > 0) printf(", iteration %s measured", time_text(measured));
    if (isfinite(predicted)) printf(", %s predicted", time_text(predicted));
    if (measured > 0 && isfinite(predicted)) printf(" (%+.1f %%)", number_at(iteration, "error_percent"));
    printf("\n");
}

static void length_print(const json_t *row) {
    printf("length %lld: %lld full-size steps", (long long)json_integer_value(json_object_get(row, "length")),
           (long long)json_integer_value(json_object_get(row, "steps")));
    iteration_print(json_object_get(row, "iteration_us"));
}

static void memory_print(const json_t *rank, size_t index) {
    const json_t *memory = json_object_get(rank, "memory"), *rss = json_object_get(memory, "rss"),
                 *arena = json_object_get(memory, "arena");
    printf("rank %zu: process %s", index, bytes_text(number_at(rss, "measured")));
    if (isfinite(number_at(rss, "predicted")))
        printf(", predicted %s (%+.1f %%): base %s, kernels %s, arena %s, data %s, all-reduce %s\n",
               bytes_text(number_at(rss, "predicted")), number_at(rss, "error_percent"), bytes_text(number_at(memory, "base")),
               bytes_text(number_at(memory, "programs")), bytes_text(number_at(arena, "predicted")), bytes_text(number_at(memory, "data")),
               bytes_text(number_at(memory, "communication")));
    else
        printf(": arena %s, data %s\n", bytes_text(number_at(arena, "reserved")), bytes_text(number_at(memory, "data")));
}

void audit_print(const json_t *audit) {
    const json_t *ranks = json_object_get(audit, "ranks");
    const char *warning = json_string_value(json_object_get(audit, "warning"));
    char head[64];
    snprintf(head, sizeof head, "medians of %lld steps", (long long)json_integer_value(json_object_get(audit, "steps")));
    printf("%-33s", head);
    for (int c = 0; c < COLUMNS; c++)
        printf("%*s", widths[c], c < QS_PHASE_TIMES ? qs_phase_times_name(c) : "iteration");
    printf("\n");
    for (size_t r = 0; r < json_array_size(ranks); r++)
        rank_print(json_array_get(ranks, r), r, number_at(json_object_get(audit, "iteration_us"), "predicted"));
    bool recorded = false;
    for (size_t r = 0; r < json_array_size(ranks); r++)
        recorded = recorded || json_is_true(json_object_get(json_array_get(ranks, r), "recorded"));
    if (recorded) {
        printf("steps are started as recordings, phases are of those that were timed kernel by kernel");
        iteration_print(json_object_get(audit, "iteration_us"));
    }
    for (size_t k = 0; k < json_array_size(json_object_get(audit, "lengths")); k++)
        length_print(json_array_get(json_object_get(audit, "lengths"), k));
    for (size_t r = 0; r < json_array_size(ranks); r++)
        memory_print(json_array_get(ranks, r), r);
    if (warning) printf("warning: %s\n", warning);
}
