// SPDX-License-Identifier: Apache-2.0
/* Options: defaults, parsing, checking, printing --help. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "qsync/record.h"

/* ---- Values ---- */

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

static qs_status real_parse(const option_row *row, const char *text, double *out) {
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value)) return qs_fail(QS_USAGE, "--%s %s: not a finite number", row->name, text);
    if (value < row->minimum) return qs_fail(QS_USAGE, "--%s %s: must be at least %g", row->name, text, row->minimum);
    *out = value;
    return QS_OK;
}

static qs_status value_set(const option_row *row, const char *text, void *target) {
    int64_t whole = 0;
    switch (row->kind) {
    case OPTION_TEXT:
        *(const char **)target = text;
        break;
    case OPTION_INT:
        QS_TRY(integer_parse(row, text, INT_MAX, &whole));
        *(int *)target = (int)whole;
        break;
    case OPTION_INTEGER:
        return integer_parse(row, text, INT64_MAX, target);
    case OPTION_REAL:
        return real_parse(row, text, target);
    case OPTION_FLAG:
        *(bool *)target = true;
        break;
    }
    return QS_OK;
}

/* ---- Tables ---- */

void options_start(int rows, const option_row *row, void *base) {
    for (int i = 0; i < rows; i++) {
        if (!row[i].standard) continue;
        const qs_status status = value_set(&row[i], row[i].standard, (char *)base + row[i].at);
        assert(status == QS_OK);
        (void)status;
    }
}

void options_add(option_table *table, int rows, const option_row *row, void *base) {
    assert(table->rows + rows <= MOST_OPTIONS);
    options_start(rows, row, base);
    for (int i = 0; i < rows; i++) {
        table->option[table->rows].row = &row[i];
        table->option[table->rows].target = (char *)base + row[i].at;
        table->option[table->rows++].given = false;
    }
}

static int option_find(const option_table *table, const char *name, size_t length) {
    for (int i = 0; i < table->rows; i++)
        if (strlen(table->option[i].row->name) == length && strncmp(table->option[i].row->name, name, length) == 0) return i;
    return -1;
}

bool option_given(const option_table *table, const char *name) {
    const int i = option_find(table, name, strlen(name));
    return i >= 0 && table->option[i].given;
}

/* ---- Help ---- */

typedef struct field_text {
    const option_row *row;
    char text[200], standard[64];
} field_text;

/* What the record says of a field; its marks of code are for another page. */
static void field_take(const qs_field_manual *field, void *context) {
    field_text *out = context;
    size_t length = 0;
    if (strcmp(field->name, out->row->field) != 0) return;
    snprintf(out->text, sizeof out->text, "%s", field->text);
    for (const char *at = field->standard; *at && length + 1 < sizeof out->standard; at++)
        if (*at != '`' && *at != '"') out->standard[length++] = *at;
}

static void help_print(const option_table *table, const verb_usage *usage) {
    printf("usage: %s %s [options]%s%s\n\n%s\n\noptions:\n", program_name(), usage->verb, usage->arguments[0] ? " " : "", usage->arguments,
           usage->purpose);
    for (int i = 0; i < table->rows; i++) {
        const option_row *row = table->option[i].row;
        char left[64];
        field_text field = {.row = row};
        if (row->field) (void)qs_record_describe("job", field_take, &field);
        const char *help = row->field ? field.text : row->describe ? row->describe() : row->help;
        const char *standard = row->usual ? row->usual : row->standard ? row->standard : row->field ? field.standard : NULL;
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
        printf("  %-26s ", left);
        if (row->needs) printf("with --%s: ", row->needs);
        printf("%s", help);
        if (standard) printf(" (%s)", standard);
        printf("\n");
    }
    printf("  %-26s %s\n", "--help", "this text");
    if (usage->examples) printf("\nexamples:\n%s", usage->examples);
}

/* ---- Parsing ---- */

/* Handles --name, --name=value or --name value at argv[*at]. */
static qs_status option_take(option_table *table, const verb_usage *usage, int argc, char **argv, int *at) {
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const int index = option_find(table, name, equals ? (size_t)(equals - name) : strlen(name));
    if (index < 0) return qs_fail(QS_USAGE, "unknown option %s; see %s %s --help", argv[*at], program_name(), usage->verb);
    const option_row *row = table->option[index].row;
    void *target = table->option[index].target;
    table->option[index].given = true;
    if (row->kind == OPTION_FLAG) {
        if (equals) return qs_fail(QS_USAGE, "--%s takes no value; see %s %s --help", row->name, program_name(), usage->verb);
        return value_set(row, "", target);
    }
    if (equals) return value_set(row, equals + 1, target);
    if (*at + 1 >= argc) return qs_fail(QS_USAGE, "--%s needs a value; see %s %s --help", row->name, program_name(), usage->verb);
    return value_set(row, argv[++*at], target);
}

/* What the rows and the usage say of options and arguments together. */
static qs_status rules_check(const option_table *table, const verb_usage *usage, int plain, char **arguments) {
    if (plain > usage->most)
        return qs_fail(QS_USAGE, "unexpected argument %s; see %s %s --help", arguments[usage->most], program_name(), usage->verb);
    if (plain < usage->least)
        return qs_fail(QS_USAGE, "%s needs %s; see %s %s --help", usage->verb, usage->arguments, program_name(), usage->verb);
    for (int i = 0; i < table->rows; i++) {
        const option_row *row = table->option[i].row;
        if (!table->option[i].given) continue;
        if (row->needs && !option_given(table, row->needs)) {
            const option_row *other = table->option[option_find(table, row->needs, strlen(row->needs))].row;
            return qs_fail(QS_USAGE, "--%s needs --%s%s%s beside it", row->name, other->name, other->argument ? " " : "",
                           other->argument ? other->argument : "");
        }
        for (const char *name = row->excludes; name && *name; name += strspn(name, ",")) {
            const size_t length = strcspn(name, ",");
            const int other = option_find(table, name, length);
            if (other >= 0 && table->option[other].given)
                return qs_fail(QS_USAGE, "--%s and --%.*s do not go together: leave one out", row->name, (int)length, name);
            name += length;
        }
    }
    return QS_OK;
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
    QS_GOTO(rules_check(table, usage, plain, kept));
    *first = argc - plain;
    memcpy(&argv[*first], kept, (size_t)plain * sizeof *kept);
done:
    free(kept);
    return status;
}

qs_status options_refuse(const option_table *table, int count, const char *const *name, const char *where) {
    for (int i = 0; i < count; i++)
        if (option_given(table, name[i])) return qs_fail(QS_USAGE, "--%s belongs to %s", name[i], where);
    return QS_OK;
}

qs_status options_require(const option_table *table, const verb_usage *usage, int count, const char *const *name) {
    bool all = true;
    char list[160] = "";
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        all = all && option_given(table, name[i]);
        snprintf(list + used, sizeof list - used, "%s--%s", i == 0 ? "" : i == count - 1 ? " and " : ", ", name[i]);
    }
    return all ? QS_OK : qs_fail(QS_USAGE, "%s needs %s; see %s %s --help", usage->verb, list, program_name(), usage->verb);
}

/* ---- Values that many verbs take ---- */

/* Whether the piece behind a comma is one more option of the name before it, as in bert:mini,length=128. */
static bool is_option_of(const char *name, const char *piece) {
    const size_t length = strcspn(piece, ",");
    return strchr(name, ':') && memchr(piece, '=', length) && !memchr(piece, ':', length);
}

qs_status names_each(const char *list, qs_status (*visit)(void *context, const char *name), void *context) {
    char *copy = NULL;
    qs_status status = qs_format_text(&copy, "%s", list);
    for (char *rest = copy, *name; status == QS_OK && (name = strsep(&rest, ",")) != NULL;) {
        while (rest && is_option_of(name, rest)) {
            rest[-1] = ',';
            strsep(&rest, ",");
        }
        status = visit(context, name);
    }
    free(copy);
    return status;
}

qs_status model_samples_parse(const char *text, int classes, const char *model, qs_samples *out) {
    int channels, height, width;
    char rest = 0;
    qs_graph *graph = NULL;
    qs_model_input exact;
    QS_TRY(qs_model_open(model, NULL, &graph));
    *out = graph->samples;
    qs_graph_release(graph);
    if (text && (sscanf(text, "%9dx%9dx%9d%c", &channels, &height, &width, &rest) != 3 || channels < 1 || height < 1 || width < 1))
        return qs_fail(QS_USAGE, "--input %s: channels, height and width as in 3x32x32", text);
    if (text) out->input[0] = qs_input_image(height, width, channels);
    if (classes > 0) out->target.classes = classes;
    if (!text || qs_model_input_of(model, &exact) != QS_OK) return QS_OK;
    exact = (qs_model_input){channels, height, width, (int)out->target.classes}; /* this very size, without padding */
    QS_TRY(qs_model_build(model, &exact, &graph));
    qs_graph_release(graph);
    return QS_OK;
}
