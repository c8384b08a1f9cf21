// SPDX-License-Identifier: Apache-2.0
/* What manuals say of records: the tables' own words, and ranges and defaults as the reader applies them. */
#include <string.h>

#include "table.h"

enum { TEXT_BYTES = 512 };
/* Bounds from here on only catch slips of the pen: no manual names them. */
static const double no_bound = 1e9;

typedef struct listener {
    qs_field_visitor visit;
    void *context;
} listener;

static void append(char *text, const char *format, ...) QS_PRINTF(2, 3);
static void append(char *text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, list);
    va_end(list);
}

static void values_describe(const qs__field *field, char *text) {
    static const char *const words[] = {[QS__TEXT] = "text",
                                        [QS__NAME] = "name",
                                        [QS__STRING] = "text",
                                        [QS__FLAG] = "true, false",
                                        [QS__SIZE] = "bytes, or `\"2GiB\"`",
                                        [QS__PART] = "0.001 .. 1, or `\"30%\"`",
                                        [QS__ROUNDING] = "rounding",
                                        [QS__FORMAT] = "format",
                                        [QS__QUANTIZER] = "quantizer",
                                        [QS__ACCUMULATOR] = "accumulator",
                                        [QS__OBJECT] = "object"};
    const bool number = field->type == QS__COUNT || field->type == QS__INTEGER || field->type == QS__SEED || field->type == QS__NUMBER;
    const bool bounded = field->high > 0 && field->high < no_bound;
    *text = '\0';
    if (field->values) {
        append(text, "%s", field->values);
        return;
    }
    if (field->many == QS__SERIES) append(text, "list of numbers, one an iteration");
    if (field->many == QS__LIST) append(text, "%d to %d ", field->least, field->most);
    if (field->unit) append(text, "%s", field->unit);
    if (*text && number && (bounded || field->low > -INFINITY)) append(text, ", ");
    if (number && bounded && field->low > -INFINITY) append(text, "%.9g .. %.9g", field->low, field->high);
    if (number && bounded && field->low == -INFINITY) append(text, "≤ %.9g", field->high);
    if (number && !bounded && field->low > -INFINITY) append(text, "≥ %.9g", field->low);
    for (int i = 0; field->type == QS__CHOICE && field->names[i]; i++)
        append(text, "%s`%s`", i ? ", " : "", field->names[i]);
    if (field->type == QS__WORD) append(text, "`%s`", field->standard_text);
    if (!*text) append(text, "%s", number ? "number" : words[field->type]);
}

static void standard_describe(const qs__field *field, char *text) {
    *text = '\0';
    if (field->absent)
        append(text, "%s", field->absent);
    else if (field->describe_absent)
        field->describe_absent(text, TEXT_BYTES);
    else if (field->presence == QS__REQUIRED)
        return;
    else if (field->standard_text)
        append(text, "`%s`", field->standard_text);
    else if (field->type == QS__FLAG)
        append(text, "%s", field->standard != 0 ? "true" : "false");
    else if (field->type == QS__CHOICE)
        append(text, "`%s`", field->names[(int)field->standard]);
    else
        append(text, "%.9g", field->standard);
}

/* The fields of a table: those of parts without a table of their own under the part's name. */
static void fields_describe(const listener *to, const qs__record *record, const char *table, const char *prefix, const char *of_what) {
    char name[TEXT_BYTES], values[TEXT_BYTES], standard[TEXT_BYTES], more[TEXT_BYTES];
    qs__field alternative[QS__MOST_FIELDS];
    qs__record one;
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        const qs__record *part = field->many == QS__ONE || field->hook ? field->of : NULL;
        snprintf(name, sizeof name, "%s%s", prefix, field->name);
        snprintf(more, sizeof more, "%s%s", field->more ? field->more : "", of_what);
        values_describe(field, values);
        standard_describe(field, standard);
        const qs_field_manual manual = {table, name, values, standard, field->text, more};
        if (field->text) to->visit(&manual, to->context);
        append(name, ".");
        if (part && !part->title && !part->kind) fields_describe(to, part, table, name, "");
        for (size_t k = 0; field->hook && field->hook->table && field->hook->table(k, alternative, &one); k++) {
            snprintf(more, sizeof more, " (%s)", one.title);
            fields_describe(to, &one, table, name, more);
        }
    }
}

/* A table, and behind it those of its rows and members; of neighbours that are alike the first one's. */
static void tables_describe(const listener *to, const qs__record *record, const char *table) {
    const qs__record *before = NULL;
    if (table || record->kind) fields_describe(to, record, table, "", "");
    for (int i = 0; i < record->fields; i++) {
        const qs__record *of = record->field[i].of;
        if (of && of != before && !of->kind) tables_describe(to, of, of->title);
        before = of;
    }
}

qs_status qs_record_describe(const char *kind, qs_field_visitor visit, void *context) {
    static const qs__record *const records[] = {&qs__cluster_record, &qs__job_record, &qs__graph_record, &qs__profile_record,
                                                &qs__plan_record};
    const listener to = {visit, context};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        if (strcmp(records[i]->kind, kind) != 0) continue;
        tables_describe(&to, records[i], NULL);
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "no record \"%s\": there are cluster, job, graph, profile, plan", kind);
}
