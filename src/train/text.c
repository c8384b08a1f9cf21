// SPDX-License-Identifier: Apache-2.0
/* Nested JSON that is written as it comes; what is flat is made by qs_line of record. */
#include "train_internal.h"

#include <stdlib.h>

qs_status qs__text_start(qs__text *out) {
    *out = (qs__text){0};
    out->stream = open_memstream(&out->text, &out->bytes);
    return out->stream ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "a text of this run");
}

void qs__text_quote(qs__text *text, const char *string) {
    putc('"', text->stream);
    for (; *string; string++) {
        const unsigned char letter = (unsigned char)*string;
        if (letter == '"' || letter == '\\')
            fprintf(text->stream, "\\%c", letter);
        else if (letter < 0x20)
            fprintf(text->stream, "\\u%04x", letter);
        else
            putc(letter, text->stream);
    }
    putc('"', text->stream);
}

qs_status qs__text_finish(qs__text *text, char **out) {
    if (!text->stream) return QS_OK;
    const bool failed = ferror(text->stream) != 0, closed = fclose(text->stream) == 0;
    text->stream = NULL;
    if (!failed && closed) {
        *out = text->text;
        return QS_OK;
    }
    free(text->text);
    return qs_fail(QS_OUT_OF_MEMORY, "a text of this run");
}
