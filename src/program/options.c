// SPDX-License-Identifier: Apache-2.0
/* Option tables: parsing, checking numbers, printing --help. */
#include "program.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void options_add(option_table *table, option_row row) {
    if (table->rows < MOST_OPTIONS) table->row[table->rows++] = row;
}

static void help_print(const option_table *table, const verb_usage *usage) {
    printf("usage: %s %s [options]%s%s\n\n%s\n\noptions:\n", program_name(), usage->verb, usage->arguments[0] ? " " : "", usage->arguments,
           usage->purpose);
    for (int i = 0; i < table->rows; i++) {
        char left[64];
        const option_row *row = &table->row[i];
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
        printf("  %-26s %s\n", left, row->help);
    }
    printf("  %-26s %s\n", "--help", "this text");
    if (usage->examples) printf("\nexamples:\n%s", usage->examples);
}

static qs_status integer_parse(const option_row *row, const char *text, int64_t most, int64_t *out) {
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || (errno && errno != ERANGE)) return qs_fail(QS_USAGE, "--%s %s: not an integer", row->name, text);
    if ((double)value < row->minimum) return qs_fail(QS_USAGE, "--%s %s: must be at least %g", row->name, text, row->minimum);
    if (value > most || errno) return qs_fail(QS_USAGE, "--%s %s: must be at most %lld", row->name, text, (long long)most);
    *out = value;
    return QS_OK;
}

static qs_status int_set(const option_row *row, const char *text) {
    int64_t value = 0;
    QS_TRY(integer_parse(row, text, INT_MAX, &value));
    *(int *)row->target = (int)value;
    return QS_OK;
}

static qs_status real_parse(const option_row *row, const char *text) {
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value)) return qs_fail(QS_USAGE, "--%s %s: not a finite number", row->name, text);
    if (value < row->minimum) return qs_fail(QS_USAGE, "--%s %s: must be at least %g", row->name, text, row->minimum);
    *(double *)row->target = value;
    return QS_OK;
}

static qs_status value_set(const option_row *row, const char *text) {
    switch (row->kind) {
    case OPTION_TEXT:
        *(const char **)row->target = text;
        return QS_OK;
    case OPTION_INT:
        return int_set(row, text);
    case OPTION_INTEGER:
        return integer_parse(row, text, INT64_MAX, row->target);
    case OPTION_REAL:
        return real_parse(row, text);
    case OPTION_FLAG:
        *(bool *)row->target = true;
        return QS_OK;
    }
    return QS_OK;
}

static const option_row *row_find(const option_table *table, const char *name, size_t length) {
    for (int i = 0; i < table->rows; i++)
        if (strlen(table->row[i].name) == length && strncmp(table->row[i].name, name, length) == 0) return &table->row[i];
    return NULL;
}

/* Handles --name, --name=value or --name value at argv[*at]. */
static qs_status option_take(option_table *table, const verb_usage *usage, int argc, char **argv, int *at) {
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const option_row *row = row_find(table, name, equals ? (size_t)(equals - name) : strlen(name));
    if (!row) return qs_fail(QS_USAGE, "unknown option %s; see %s %s --help", argv[*at], program_name(), usage->verb);
    table->given[row - table->row] = true;
    if (row->kind == OPTION_FLAG) {
        if (equals) return qs_fail(QS_USAGE, "--%s takes no value; see %s %s --help", row->name, program_name(), usage->verb);
        return value_set(row, "");
    }
    if (equals) return value_set(row, equals + 1);
    if (*at + 1 >= argc) return qs_fail(QS_USAGE, "--%s needs a value; see %s %s --help", row->name, program_name(), usage->verb);
    return value_set(row, argv[++*at]);
}

/* Not getopt_long: values may be negative numbers, which it takes for options. Plain arguments are moved behind the options, in order. */
qs_status options_parse(option_table *table, const verb_usage *usage, int argc, char **argv, int *first, bool *done) {
    int plain = 0, at = 1;
    char **kept = NULL;
    qs_status status = QS_OK;
    *done = false;
    QS_TRY(qs_allocate((size_t)argc, sizeof *kept, &kept));
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        char *end = NULL;
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            help_print(table, usage);
            *done = true;
            goto done;
        }
        const bool number = (strtod(argv[at], &end), end != argv[at] && !*end);
        if (strncmp(argv[at], "--", 2) == 0)
            QS_GOTO(option_take(table, usage, argc, argv, &at));
        else if (argv[at][0] == '-' && argv[at][1] && !number)
            QS_GOTO(qs_fail(QS_USAGE, "unknown option %s; see %s %s --help", argv[at], program_name(), usage->verb));
        else
            kept[plain++] = argv[at];
    }
    for (at++; at < argc; at++)
        kept[plain++] = argv[at];
    *first = argc - plain;
    memcpy(&argv[*first], kept, (size_t)plain * sizeof *kept);
done:
    free(kept);
    return status;
}

bool option_given(const option_table *table, const char *name) {
    for (int i = 0; i < table->rows; i++)
        if (strcmp(table->row[i].name, name) == 0) return table->given[i];
    return false;
}

qs_status arguments_check(const verb_usage *usage, int argc, char **argv, int first, int most) {
    if (argc - first <= most) return QS_OK;
    return qs_fail(QS_USAGE, "unexpected argument %s; see %s %s --help", argv[first + most], program_name(), usage->verb);
}

qs_status names_each(const char *list, qs_status (*visit)(void *context, const char *name), void *context) {
    char *copy = NULL;
    qs_status status = qs_format_text(&copy, "%s", list);
    for (char *rest = copy, *name; status == QS_OK && (name = strsep(&rest, ",")) != NULL;)
        status = visit(context, name);
    free(copy);
    return status;
}

qs_status model_input_parse(const char *text, int classes, const char *model, qs_model_input *out) {
    char rest = 0;
    QS_TRY(qs_model_input_of(model, out));
    if (text && (sscanf(text, "%9dx%9dx%9d%c", &out->channels, &out->height, &out->width, &rest) != 3 || out->channels < 1 ||
                 out->height < 1 || out->width < 1))
        return qs_fail(QS_USAGE, "--input %s: channels, height and width as in 3x32x32", text);
    if (classes > 0) out->classes = classes;
    return QS_OK;
}
