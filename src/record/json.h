// SPDX-License-Identifier: Apache-2.0
/* Inside the room: JSON texts. Reading keeps where a value stands, so that a refusal can name it (json_read.c); writing gives one canonical
 * layout (json_write.c). What records hold is the tables' (table.h). */
#ifndef QSYNC_RECORD_JSON_H
#define QSYNC_RECORD_JSON_H

#include <jansson.h>
#include <math.h>

#include "qsync/record.h"

/* ---- Reading ---------------------------------------------------------------------------------------------------------------- */

/* A value and how it was reached. Places stand on the stack of the readers and point to their parents: a refusal can name the whole path,
 * and a reading that succeeds pays nothing for it. */
typedef struct qs__place {
    const struct qs__place *parent; /* NULL: the record itself */
    const char *source;             /* file name for messages */
    const char *key;                /* in an object; NULL in an array */
    size_t index;                   /* in an array */
    json_t *value;                  /* NULL: a field that is absent */
} qs__place;

/* Parses a text and checks "schema": QS_SCHEMA(kind). QS_BAD_FILE with source:line:column on syntax errors. The caller gives
 * out->value back with json_decref. */
qs_status qs__json_parse(const char *json, size_t bytes, const char *source, const char *kind, qs__place *out);
/* The field of an object (value NULL when absent), the element of an array. */
qs__place qs__member(const qs__place *object, const char *key);
qs__place qs__element(const qs__place *array, size_t index);
/* QS_BAD_FILE "<source>: <path>: <text>"; with the text "must be <wanted>, is <what it is>". */
qs_status qs__refuse_value(const qs__place *place, const char *format, ...) QS_PRINTF(2, 3);
qs_status qs__refuse_type(const qs__place *place, const char *wanted);
/* The text of a place into out[capacity]. */
qs_status qs__text_take(const qs__place *place, char *out, size_t capacity);

/* ---- Writing ---------------------------------------------------------------------------------------------------------------- */

/* Writes one JSON text. Failures stick: all further calls do nothing, and qs__writer_finish reports the first one. */
enum { QS__WRITER_DEPTH = 12 };
typedef struct qs__writer {
    char *text;
    size_t used, capacity;
    int depth;
    bool compact; /* no blanks, non-finite numbers as text, %.9g: lines of metrics */
    int series;   /* values of each series below: the tables' */
    qs_status status;
    struct {
        const char *key; /* of the container, for messages */
        char close;
        bool one_line, empty;
    } level[QS__WRITER_DEPTH];
} qs__writer;

typedef enum qs__layout { QS__LINES, QS__ONE_LINE } qs__layout; /* QS__ONE_LINE holds for everything inside */

/* key NULL: an array's element or the record itself. Keys must live until the container is closed. */
void qs__open(qs__writer *writer, const char *key, const char *brackets, qs__layout layout); /* "{}" or "[]" */
void qs__close(qs__writer *writer);
void qs__put_text(qs__writer *writer, const char *key, const char *value);
void qs__put_integer(qs__writer *writer, const char *key, int64_t value);
void qs__put_number(qs__writer *writer, const char *key, double value);   /* shortest text that reads back equal */
void qs__put_word(qs__writer *writer, const char *key, const char *word); /* true, false, null */
void qs__writer_fail(qs__writer *writer, qs_status status);
/* Closes the record's object and hands the text over, or frees it and returns the first failure, "<kind>: <path>: ...". */
qs_status qs__writer_finish(qs__writer *writer, const char *kind, char **json);

#endif
