// SPDX-License-Identifier: Apache-2.0
/* Files of text, plain or gzipped, read whole: lines, comma-separated values, JSON. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

static const size_t most_bytes = (size_t)1 << 31;

qs_status qs__text_file_open_path(const char *path, qs__text_file *out) {
    qs__stream stream = {0};
    size_t room = 0, got = 1;
    qs_status status = QS_OK;
    *out = (qs__text_file){.next_line = 1};
    QS_GOTO(qs__stream_open(path, &stream));
    QS_GOTO(qs_format_text(&out->path, "%s", path));
    while (got > 0) {
        QS_GOTO(qs_grow(&out->data, &room, out->bytes + (1 << 16) + 1, 1));
        QS_GOTO(qs__stream_read(&stream, out->data + out->bytes, room - out->bytes - 1, &got));
        out->bytes += got;
        if (out->bytes > most_bytes) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: more than %zu bytes of text", path, most_bytes));
    }
    out->data[out->bytes] = '\0';
done:
    qs__stream_close(&stream);
    if (status != QS_OK) qs__text_file_close(out);
    return status;
}

qs_status qs__text_file_open(const qs__source *source, const char *folder, const char *names, qs__text_file *out) {
    char *path = NULL;
    QS_TRY(qs__file_find(source, folder, names, &path));
    if (!path) return qs__file_missing(source, folder, names);
    qs_status status = qs__text_file_open_path(path, out);
    free(path);
    return status;
}

void qs__text_file_close(qs__text_file *file) {
    free(file->path);
    free(file->data);
    *file = (qs__text_file){0};
}

qs_status qs__text_fail(const qs__text_file *file, const char *format, ...) {
    char rule[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return qs_fail(QS_BAD_FILE, "%s: line %lld: %s", file->path, (long long)file->line, rule);
}

bool qs__text_line(qs__text_file *file, char **line, size_t *bytes) {
    if (file->at >= file->bytes) return false;
    char *begin = file->data + file->at, *end = memchr(begin, '\n', file->bytes - file->at);
    file->at = end ? (size_t)(end - file->data) + 1 : file->bytes;
    if (!end) end = file->data + file->bytes;
    if (end > begin && end[-1] == '\r') end--;
    *end = '\0';
    *line = begin;
    *bytes = (size_t)(end - begin);
    file->line = file->next_line++;
    return true;
}

/* One field, unquoted in place; *ended says that the row ends behind it. */
static qs_status field_take(qs__text_file *file, char **field, bool *ended) {
    char *data = file->data;
    size_t at = file->at, to = at;
    *field = data + at;
    if (data[at] == '"') {
        for (at++; data[at] != '"' || data[at + 1] == '"'; at++) {
            if (at >= file->bytes) return qs__text_fail(file, "a quote is opened and not closed");
            file->next_line += data[at] == '\n';
            if (data[at] == '"') at++;
            data[to++] = data[at];
        }
        at++;
        if (at < file->bytes && !strchr(",\r\n", data[at]))
            return qs__text_fail(file, "'%c' behind a closing quote, must be a comma", data[at]);
    } else {
        at += strcspn(data + at, ",\r\n");
        to = at;
    }
    if (at < file->bytes && !data[at]) return qs__text_fail(file, "a NUL byte, must be text");
    *ended = data[at] != ',';
    if (data[at] == '\r' && data[at + 1] == '\n') at++;
    file->next_line += *ended && at < file->bytes;
    file->at = at + 1;
    data[to] = '\0';
    return QS_OK;
}

qs_status qs__text_row(qs__text_file *file, char **field, size_t most, size_t *count) {
    *count = 0;
    file->line = file->next_line;
    for (bool ended = file->at >= file->bytes; !ended;) {
        if (*count == most) return qs__text_fail(file, "more than %zu fields", most);
        QS_TRY(field_take(file, &field[*count], &ended));
        ++*count;
    }
    return QS_OK;
}

qs_status qs__text_json(const qs__text_file *file, json_t **out) {
    json_error_t error;
    *out = json_loadb(file->data, file->bytes, 0, &error);
    if (*out) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: line %d, column %d: %s", file->path, error.line, error.column, error.text);
}
