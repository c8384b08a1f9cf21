// SPDX-License-Identifier: Apache-2.0
/* Canonical writing of JSON: fields in the order of the calls, two blanks an indent, rows of tables on one line each, numbers as the
 * shortest text that reads back equal. So a record is stable under reading and writing, and a table can be read by eye. */
#include "record_internal.h"

#include <stdlib.h>
#include <string.h>

/* Keeps the first failure. */
void qs__writer_fail(qs__writer *writer, qs_status status) {
    if (writer->status == QS_OK) writer->status = status;
}

static void add(qs__writer *writer, const char *text, size_t bytes) {
    if (writer->status != QS_OK) return;
    qs_status status = qs_grow(&writer->text, &writer->capacity, writer->used + bytes + 1, 1);
    if (status != QS_OK) {
        qs__writer_fail(writer, status);
        return;
    }
    memcpy(writer->text + writer->used, text, bytes);
    writer->used += bytes;
    writer->text[writer->used] = '\0';
}

static void add_text(qs__writer *writer, const char *text) {
    add(writer, text, strlen(text));
}

/* "classes.weak.base_bytes: " for a refusal. */
static qs_status refuse(qs__writer *writer, const char *key, qs_status reason, const char *text) {
    char path[512] = "";
    for (int i = 1; i < writer->depth; i++) {
        if (!writer->level[i].key) continue;
        size_t used = strlen(path);
        snprintf(path + used, sizeof path - used, "%s.", writer->level[i].key);
    }
    return qs_fail(reason, "%s%s: %s", path, key ? key : "element", text);
}

static void add_quoted(qs__writer *writer, const char *key, const char *text) {
    if (writer->status != QS_OK) return;
    json_t *value = json_string(text);
    if (!value) {
        qs__writer_fail(writer, refuse(writer, key, QS_USAGE, "the text is not UTF-8"));
        return;
    }
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    if (quoted) {
        add_text(writer, quoted);
    } else {
        qs__writer_fail(writer, qs_fail(QS_OUT_OF_MEMORY, "cannot allocate a text of %zu bytes", strlen(text)));
    }
    free(quoted);
    json_decref(value);
}

static void break_line(qs__writer *writer) {
    static const char blanks[] = "\n                                ";
    add(writer, blanks, 1 + 2 * (size_t)writer->depth);
}

/* What stands before a value: comma, new line or blank, key. */
static void begin_value(qs__writer *writer, const char *key) {
    if (writer->depth == 0) return;
    bool first = writer->level[writer->depth - 1].empty;
    writer->level[writer->depth - 1].empty = false;
    if (!first) add(writer, ",", 1);
    if (!writer->level[writer->depth - 1].one_line) {
        break_line(writer);
    } else if (!first && !writer->compact) {
        add(writer, " ", 1);
    }
    if (!key) return;
    add_quoted(writer, key, key);
    add(writer, ": ", writer->compact ? 1 : 2);
}

static void open_container(qs__writer *writer, const char *key, const char *open, char close, qs__layout layout) {
    begin_value(writer, key);
    add(writer, open, 1);
    if (writer->depth == QS__WRITER_DEPTH) {
        qs__writer_fail(writer, refuse(writer, key, QS_FAILED, "nested too deeply"));
        return;
    }
    bool within = writer->depth > 0 && writer->level[writer->depth - 1].one_line;
    writer->level[writer->depth].key = key;
    writer->level[writer->depth].close = close;
    writer->level[writer->depth].one_line = within || layout == QS__ONE_LINE;
    writer->level[writer->depth].empty = true;
    writer->depth++;
}

void qs__open_object(qs__writer *writer, const char *key, qs__layout layout) {
    open_container(writer, key, "{", '}', layout);
}

void qs__open_array(qs__writer *writer, const char *key, qs__layout layout) {
    open_container(writer, key, "[", ']', layout);
}

void qs__close(qs__writer *writer) {
    if (writer->depth == 0) return; /* only after a failure */
    writer->depth--;
    if (!writer->level[writer->depth].one_line && !writer->level[writer->depth].empty) break_line(writer);
    add(writer, &writer->level[writer->depth].close, 1);
}

void qs__put_text(qs__writer *writer, const char *key, const char *value) {
    begin_value(writer, key);
    add_quoted(writer, key, value);
}

void qs__put_integer(qs__writer *writer, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    begin_value(writer, key);
    add_text(writer, text);
}

static void format_number(double value, int digits, char *text, size_t capacity) {
    snprintf(text, capacity, "%.*g", digits, value);
    char *comma = strchr(text, ','); /* a program around us may have set a locale; JSON knows the point only */
    if (comma) *comma = '.';
}

static void shortest_number(double value, char *text, size_t capacity) {
    if (value == 0) value = 0; /* "-0" would be read back as the integer 0 */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, capacity, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            format_number(value, digits, text, capacity);
            return;
        }
    }
}

void qs__put_number(qs__writer *writer, const char *key, double value) {
    char text[40];
    if (isfinite(value) && writer->compact) {
        format_number(value, 9, text, sizeof text);
    } else if (isfinite(value)) {
        shortest_number(value, text, sizeof text);
    } else if (writer->compact) {
        snprintf(text, sizeof text, "%s", isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    } else {
        snprintf(text, sizeof text, "%g is not finite", value);
        if (writer->status == QS_OK) qs__writer_fail(writer, refuse(writer, key, QS_NUMERIC, text));
        return;
    }
    begin_value(writer, key);
    add_text(writer, text);
}

void qs__put_flag(qs__writer *writer, const char *key, bool value) {
    begin_value(writer, key);
    add_text(writer, value ? "true" : "false");
}

void qs__put_null(qs__writer *writer, const char *key) {
    begin_value(writer, key);
    add_text(writer, "null");
}

void qs__put_numbers(qs__writer *writer, const char *key, int count, const double *values) {
    qs__open_array(writer, key, QS__ONE_LINE);
    for (int i = 0; i < count; i++)
        qs__put_number(writer, NULL, values[i]);
    qs__close(writer);
}

void qs__put_names(qs__writer *writer, const char *key, int count, const qs_format *const *formats) {
    qs__open_array(writer, key, QS__ONE_LINE);
    for (int i = 0; i < count; i++)
        qs__put_text(writer, NULL, formats[i]->name);
    qs__close(writer);
}

void qs__record_begin(qs__writer *writer, const char *kind) {
    char schema[64];
    snprintf(schema, sizeof schema, "qsync/%s/1", kind);
    qs__open_object(writer, NULL, QS__LINES);
    qs__put_text(writer, "schema", schema);
}

qs_status qs__record_finish(qs__writer *writer, const char *kind, char **json) {
    qs__close(writer);
    if (!writer->compact) add(writer, "\n", 1);
    if (writer->status != QS_OK) {
        free(writer->text);
        return qs_fail_within(writer->status, "%s", kind);
    }
    *json = writer->text;
    return QS_OK;
}

const char *qs__sign(char *json, char *buffer) {
    *buffer = '\0';
    if (json) snprintf(buffer, 32, "xxh64:%016llx", (unsigned long long)qs_hash(json, strlen(json), 0));
    free(json);
    return buffer;
}

qs_status qs__record_save(const char *path, char *json) {
    qs_status status = qs_file_write(path, json, strlen(json));
    free(json);
    return status;
}
