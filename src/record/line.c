// SPDX-License-Identifier: Apache-2.0
/* One line of a .jsonl file: a flat JSON object under construction. Failures stick until qs_line_finish reports them. */
#include "record_internal.h"

#include <stdlib.h>

struct qs_line {
    qs__writer writer;
};

qs_status qs_line_create(qs_line **out) {
    qs_line *line;
    QS_TRY(qs_allocate(1, sizeof *line, &line));
    line->writer.compact = true;
    qs__open_object(&line->writer, NULL, QS__ONE_LINE);
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
    qs_status status = qs__record_finish(&line->writer, "line", json);
    free(line);
    return status;
}
