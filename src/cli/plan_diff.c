// SPDX-License-Identifier: Apache-2.0
/* What two plan files differ in: rows of (class, operator, field, from, to), printed or as JSON. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

typedef struct difference {
    json_t *rows;
    const char *class_name, *operator_name; /* of the rows that come; NULL: of the whole plan, of the whole class */
} difference;

/* ---- Rows ---------------------------------------------------------------------------------------------------------------------- */

static void row_add(difference *to, const char *field, json_t *from, json_t *into) {
    json_t *row = json_object();
    if (to->class_name) json_object_set_new(row, "class", json_string(to->class_name));
    if (to->operator_name) json_object_set_new(row, "operator", json_string(to->operator_name));
    json_object_set_new(row, "field", json_string(field));
    json_object_set_new(row, "from", from);
    json_object_set_new(row, "to", into);
    json_array_append_new(to->rows, row);
}

static void text_compare(difference *to, const char *field, const char *from, const char *into) {
    if (strcmp(from, into) != 0) row_add(to, field, *from ? json_string(from) : json_null(), *into ? json_string(into) : json_null());
}

static void number_compare(difference *to, const char *field, double from, double into) {
    if (from != into) row_add(to, field, json_real(from), json_real(into));
}

static void integer_compare(difference *to, const char *field, int64_t from, int64_t into) {
    if (from != into) row_add(to, field, json_integer(from), json_integer(into));
}

/* ---- Plans --------------------------------------------------------------------------------------------------------------------- */

static const qs_operator_choice *choice_find(const qs_class_plan *one, const char *name) {
    for (int i = 0; i < one->operators; i++)
        if (strcmp(one->operator_[i].name, name) == 0) return &one->operator_[i];
    return NULL;
}

static const qs_operator_reason *reason_find(const qs_class_plan *one, const char *name) {
    for (int i = 0; i < one->reasons; i++)
        if (strcmp(one->reason[i].name, name) == 0) return &one->reason[i];
    return NULL;
}

static void operator_compare(difference *to, const char *name, const qs_class_plan *a, const qs_class_plan *b) {
    const qs_operator_choice *from = choice_find(a, name), *into = choice_find(b, name);
    const qs_operator_reason *why_from = reason_find(a, name), *why_into = reason_find(b, name);
    to->operator_name = name;
    text_compare(to, "recipe", qs_class_plan_recipe(a, name), qs_class_plan_recipe(b, name));
    text_compare(to, "pin", from && from->pin ? "pinned" : "free", into && into->pin ? "pinned" : "free");
    if (why_from && why_into) number_compare(to, "omega", why_from->omega, why_into->omega);
    to->operator_name = NULL;
}

static void operators_compare(difference *to, const qs_class_plan *a, const qs_class_plan *b) {
    for (int i = 0; i < a->operators; i++)
        operator_compare(to, a->operator_[i].name, a, b);
    for (int i = 0; i < b->operators; i++)
        if (!choice_find(a, b->operator_[i].name)) operator_compare(to, b->operator_[i].name, a, b);
}

/* Names with commas between them; the caller frees. NULL: there was no memory. */
static char *blocks_text(const qs_class_plan *one) {
    size_t used = 0;
    char *text = NULL;
    if (qs_allocate((size_t)one->recomputes * (QS_NAME + 2) + 1, 1, &text) != QS_OK) return NULL;
    for (int i = 0; i < one->recomputes; i++)
        used += (size_t)sprintf(text + used, "%s%s", i ? ", " : "", one->recompute[i]);
    return text;
}

static void blocks_compare(difference *to, const qs_class_plan *a, const qs_class_plan *b) {
    char *from = blocks_text(a), *into = blocks_text(b);
    if (from && into) text_compare(to, "recompute", from, into);
    free(from);
    free(into);
}

static void class_compare(difference *to, const qs_class_plan *a, const qs_class_plan *b) {
    to->class_name = a->class_name;
    integer_compare(to, "batch", a->batch, b->batch);
    integer_compare(to, "idle", a->idle, b->idle);
    number_compare(to, "iteration_us", a->predicted.iteration_us, b->predicted.iteration_us);
    number_compare(to, "compute_us", a->predicted.compute_us, b->predicted.compute_us);
    number_compare(to, "waiting_us", a->predicted.waiting_us, b->predicted.waiting_us);
    integer_compare(to, "arena_bytes", a->predicted.arena_bytes, b->predicted.arena_bytes);
    number_compare(to, "sum_omega", a->predicted.sum_omega, b->predicted.sum_omega);
    number_compare(to, "lower_bound", a->predicted.lower_bound, b->predicted.lower_bound);
    number_compare(to, "recompute_us", a->predicted.recompute_us, b->predicted.recompute_us);
    blocks_compare(to, a, b);
    operators_compare(to, a, b);
    text_compare(to, "schedule", a->schedule, b->schedule);
    to->class_name = NULL;
}

static void classes_compare(difference *to, const qs_plan *a, const qs_plan *b) {
    for (int i = 0; i < a->classes; i++) {
        const qs_class_plan *other = qs_plan_class(b, a->class_[i].class_name);
        if (other)
            class_compare(to, &a->class_[i], other);
        else
            row_add(to, "class", json_string(a->class_[i].class_name), json_null());
    }
    for (int i = 0; i < b->classes; i++)
        if (!qs_plan_class(a, b->class_[i].class_name)) row_add(to, "class", json_null(), json_string(b->class_[i].class_name));
}

static void head_compare(difference *to, const qs_plan *a, const qs_plan *b) {
    char from[QS_LENGTHS_TEXT] = "", into[QS_LENGTHS_TEXT] = "";
    text_compare(to, "planner", a->planner, b->planner);
    text_compare(to, "model", a->job.model, b->job.model);
    text_compare(to, "dataset", a->job.dataset, b->job.dataset);
    integer_compare(to, "batch", a->job.batch, b->job.batch);
    text_compare(to, "lengths", qs_lengths_text(&a->job.lengths, from), qs_lengths_text(&b->job.lengths, into));
    text_compare(to, "graph", a->graph, b->graph);
    text_compare(to, "cluster", a->cluster, b->cluster);
    text_compare(to, "profile", a->profile, b->profile);
    text_compare(to, "job", a->without_job ? "" : qs_job_signature(&a->job, from), b->without_job ? "" : qs_job_signature(&b->job, into));
    text_compare(to, "wire", a->job.wire, b->job.wire);
    number_compare(to, "samples_per_second", a->samples_per_second, b->samples_per_second);
}

/* What no row tells (kernels, definitions of recipes, phases, reasons) differs all the same. */
static qs_status rest_compare(difference *to, const qs_plan *a, const qs_plan *b) {
    char *from = NULL, *into = NULL;
    qs_status status = qs_plan_text(a, &from);
    if (status == QS_OK) status = qs_plan_text(b, &into);
    if (status == QS_OK && json_array_size(to->rows) == 0 && strcmp(from, into) != 0)
        row_add(to, "kernels, recipe definitions or other records", json_null(), json_null());
    free(from);
    free(into);
    return status;
}

/* ---- Output -------------------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), end = strlen(ending);
    return length >= end && strcmp(text + length - end, ending) == 0;
}

static const char *value_text(const char *field, const json_t *value, char *text, size_t size) {
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_null(value)) return "-";
    if (ends_with(field, "_us")) return time_text(json_number_value(value));
    if (ends_with(field, "_bytes")) return bytes_text(json_number_value(value));
    snprintf(text, size, "%.6g", json_number_value(value));
    return text;
}

static void rows_print(const json_t *rows) {
    size_t i;
    const json_t *row;
    int columns = 28;
    json_array_foreach(rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "operator"));
        if (name) columns = name_columns(columns, name);
    }
    json_array_foreach(rows, i, row) {
        const char *class_name = json_string_value(json_object_get(row, "class")),
                   *operator_name = json_string_value(json_object_get(row, "operator")),
                   *field = json_string_value(json_object_get(row, "field"));
        char from[32], into[32];
        printf("%-10s %-*s %-18s %s -> %s\n", class_name ? class_name : "plan", columns, operator_name ? operator_name : "", field,
               value_text(field, json_object_get(row, "from"), from, sizeof from),
               value_text(field, json_object_get(row, "to"), into, sizeof into));
    }
}

static qs_status rows_out(const difference *one, const char *a, const char *b, bool json) {
    const bool same = json_array_size(one->rows) == 0;
    if (json)
        QS_TRY(json_print(json_pack("{s:s,s:s,s:b,s:O}", "from", a, "to", b, "same", (int)same, "differences", one->rows)));
    else
        rows_print(one->rows);
    return same ? QS_OK : qs_fail(QS_FAILED, "%s and %s differ", a, b);
}

/* As diff: 0 the same, 1 different, 2 trouble. */
static qs_status plan_take(const char *path, qs_plan *out) {
    const qs_status status = qs_plan_read(path, out);
    return status == QS_BAD_FILE ? qs_fail(QS_USAGE, "%s", qs_message()) : status;
}

qs_status plan_diff(const char *a, const char *b, bool json) {
    qs_plan from = {0}, into = {0};
    difference one = {0};
    qs_status status = QS_OK;
    QS_GOTO(plan_take(a, &from));
    QS_GOTO(plan_take(b, &into));
    one.rows = json_array();
    head_compare(&one, &from, &into);
    classes_compare(&one, &from, &into);
    QS_GOTO(rest_compare(&one, &from, &into));
    QS_GOTO(rows_out(&one, a, b, json));
done:
    json_decref(one.rows);
    qs_plan_release(&into);
    qs_plan_release(&from);
    return status;
}
