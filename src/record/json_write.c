// SPDX-License-Identifier: Apache-2.0
/* Canonical JSON: fields in the order of the calls, two blanks an indent, rows of tables on one line each, numbers as the shortest text
 * that reads back equal. So a record is stable under reading and writing, and a table can be read by eye. Lines of metrics are compact. */
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* Keeps the first failure. */
void qs__writer_fail(qs__writer *writer, qs_status status) {
    if (writer->status == QS_OK) writer->status = status;
}

/* "classes.weak.base_bytes: " before the text. */
static void refuse(qs__writer *writer, const char *key, qs_status reason, const char *text) {
    char path[512] = "";
    if (writer->status != QS_OK) return;
    for (int i = 1; i < writer->depth; i++) {
        const size_t used = strlen(path);
        if (writer->level[i].key) snprintf(path + used, sizeof path - used, "%s.", writer->level[i].key);
    }
    writer->status = qs_fail(reason, "%s%s: %s", path, key ? key : "element", text);
}

static void add(qs__writer *writer, const char *text, size_t bytes) {
    if (writer->status != QS_OK) return;
    writer->status = qs_grow(&writer->text, &writer->capacity, writer->used + bytes + 1, 1);
    if (writer->status != QS_OK) return;
    memcpy(writer->text + writer->used, text, bytes);
    writer->used += bytes;
    writer->text[writer->used] = '\0';
}

/* In quotes; only what needs escapes goes the long way. */
static void add_quoted(qs__writer *writer, const char *key, const char *text) {
    size_t length = 0;
    while (text[length] >= ' ' && text[length] < 127 && text[length] != '"' && text[length] != '\\')
        length++;
    if (text[length] == '\0') {
        add(writer, "\"", 1);
        add(writer, text, length);
        add(writer, "\"", 1);
        return;
    }
    json_t *value = json_string(text);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        add(writer, quoted, strlen(quoted));
    else if (value)
        qs__writer_fail(writer, qs_fail(QS_OUT_OF_MEMORY, "cannot allocate a text of %zu bytes", strlen(text)));
    else
        refuse(writer, key, QS_USAGE, "the text is not UTF-8");
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
    const bool first = writer->level[writer->depth - 1].empty;
    writer->level[writer->depth - 1].empty = false;
    if (!first) add(writer, ",", 1);
    if (!writer->level[writer->depth - 1].one_line)
        break_line(writer);
    else if (!first && !writer->compact)
        add(writer, " ", 1);
    if (!key) return;
    add_quoted(writer, key, key);
    add(writer, ": ", writer->compact ? 1 : 2);
}

void qs__open(qs__writer *writer, const char *key, const char *brackets, qs__layout layout) {
    begin_value(writer, key);
    add(writer, brackets, 1);
    if (writer->depth == QS__WRITER_DEPTH) {
        refuse(writer, key, QS_FAILED, "nested too deeply");
        return;
    }
    const bool within = writer->depth > 0 && writer->level[writer->depth - 1].one_line;
    writer->level[writer->depth].key = key;
    writer->level[writer->depth].close = brackets[1];
    writer->level[writer->depth].one_line = within || layout == QS__ONE_LINE;
    writer->level[writer->depth].empty = true;
    writer->depth++;
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

void qs__put_word(qs__writer *writer, const char *key, const char *word) {
    begin_value(writer, key);
    add(writer, word, strlen(word));
}

void qs__put_integer(qs__writer *writer, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    qs__put_word(writer, key, text);
}

void qs__put_number(qs__writer *writer, const char *key, double value) {
    char text[40];
    if (!isfinite(value) && writer->compact) {
        snprintf(text, sizeof text, "%s", isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    } else if (!isfinite(value)) {
        snprintf(text, sizeof text, "%g is not finite", value);
        refuse(writer, key, QS_NUMERIC, text);
        return;
    } else {
        if (value == 0 && !writer->compact) value = 0; /* "-0" would be read back as the integer 0 */
        for (int digits = writer->compact ? 9 : 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (writer->compact || strtod(text, NULL) == value) break;
        }
        char *comma = strchr(text, ','); /* a program around us may have set a locale; JSON knows the point only */
        if (comma) *comma = '.';
    }
    qs__put_word(writer, key, text);
}

qs_status qs__writer_finish(qs__writer *writer, const char *kind, char **json) {
    qs__close(writer);
    if (!writer->compact) add(writer, "\n", 1);
    if (writer->status != QS_OK) {
        free(writer->text);
        return qs_fail_within(writer->status, "%s", kind);
    }
    *json = writer->text;
    return QS_OK;
}

/* ---- Lines of metrics ------------------------------------------------------------------------------------------------------------ */

struct qs_line {
    qs__writer writer;
};

qs_status qs_line_create(qs_line **out) {
    qs_line *line;
    QS_TRY(qs_allocate(1, sizeof *line, &line));
    line->writer.compact = true;
    qs__open(&line->writer, NULL, "{}", QS__ONE_LINE);
    *out = line;
    return QS_OK;
}

void qs_line_number(qs_line *line, const char *key, double value) {
    qs__put_number(&line->writer, key, value);
}

void qs_line_integer(qs_line *line, const char *key, int64_t value) {
    qs__put_integer(&line->writer, key, value);
}

void qs_line_text(qs_line *line, const char *key, const char *value) {
    qs__put_text(&line->writer, key, value);
}

qs_status qs_line_finish(qs_line *line, char **json) {
    const qs_status status = qs__writer_finish(&line->writer, "line", json);
    free(line);
    return status;
}
