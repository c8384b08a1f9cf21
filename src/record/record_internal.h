// SPDX-License-Identifier: Apache-2.0
/* Inside the room: strict reading (reader.c) and canonical writing (writer.c), which every record kind is made of. */
#ifndef QSYNC_RECORD_INTERNAL_H
#define QSYNC_RECORD_INTERNAL_H

#include <jansson.h>
#include <math.h>

#include "qsync/record.h"

/* ---- Reading ---------------------------------------------------------------------------------------------------------------- */
/* A place in a record: a JSON value and how it was reached. Places stand on the stack of the readers and point to their parents, so a
 * refusal can name the whole path and a reading that succeeds pays nothing for it. */
typedef struct qs__place {
    const struct qs__place *parent; /* NULL: the record itself */
    const char *source;             /* file name for messages */
    const char *key;                /* in an object; NULL in an array */
    size_t index;
    json_t *value; /* NULL: an optional field that is absent */
} qs__place;

/* Parses and checks "schema": "qsync/<kind>/1". QS_BAD_FILE with source:line:column on syntax errors. Release with json_decref(out->value).
 */
qs_status qs__record_parse(const char *json, size_t bytes, const char *source, const char *kind, qs__place *out);
/* The same for a file. */
qs_status qs__record_load(const char *path, const char *kind, qs__place *out);

/* QS_BAD_FILE "<source>: <path>: <text>". */
qs_status qs__refuse_field(const qs__place *place, const char *format, ...) QS_PRINTF(2, 3);

/* The value is an object that has every field of `required` and none beyond those and `optional` (names separated by blanks). */
qs_status qs__expect_fields(const qs__place *object, const char *required, const char *optional);
qs_status qs__expect_object(const qs__place *place);
qs_status qs__expect_array(const qs__place *place, size_t least, size_t most);
/* The field of an object (value NULL when absent), the element of an array. */
qs__place qs__field(const qs__place *object, const char *key);
qs__place qs__element(const qs__place *array, size_t index);

/* Typed fields of an object. Absent fields leave *out alone: what must be there is checked by qs__expect_fields. */
qs_status qs__get_text(const qs__place *object, const char *key, char *out, size_t capacity);
qs_status qs__get_name(const qs__place *object, const char *key, char *out, size_t capacity); /* text that is not empty */
qs_status qs__get_flag(const qs__place *object, const char *key, bool *out);
qs_status qs__get_number(const qs__place *object, const char *key, double low, double high, double *out);
qs_status qs__get_integer(const qs__place *object, const char *key, int64_t low, int64_t high, int64_t *out);
qs_status qs__get_count(const qs__place *object, const char *key, int low, int high, int *out);
qs_status qs__get_format(const qs__place *object, const char *key, const qs_format **out);
/* Exactly `count` numbers, none below `low`. */
qs_status qs__get_numbers(const qs__place *object, const char *key, int count, double low, double *out);

/* The text or number of a place itself, of an object's key. */
qs_status qs__take_text(const qs__place *place, char *out, size_t capacity);
qs_status qs__take_number(const qs__place *place, double low, double high, double *out);
qs_status qs__take_key(const qs__place *place, char *out, size_t capacity); /* not empty */
qs_status qs__take_format(const qs__place *place, const qs_format **out);

/* Allocates one element per member of the object or array; *count stays 0 so that a release in the middle is right. */
qs_status qs__members_create(const qs__place *place, size_t size, void *out);

/* Calls `read` for each member of an object, in the file's order, with `index` counting from 0. */
typedef qs_status (*qs__member_reader)(const qs__place *member, int index, void *context);
qs_status qs__each_member(const qs__place *object, qs__member_reader read, void *context);

/* ---- Writing ---------------------------------------------------------------------------------------------------------------- */
/* Writes one JSON text. Failures stick: all further calls do nothing and qs__writer_finish reports the first one. */
enum { QS__WRITER_DEPTH = 12 };
typedef struct qs__writer {
    char *text;
    size_t used, capacity;
    int depth;
    bool compact; /* no blanks, non-finite numbers as text, %.9g: lines of metrics */
    qs_status status;
    struct {
        const char *key; /* of the container, for messages */
        char close;
        bool one_line, empty;
    } level[QS__WRITER_DEPTH];
} qs__writer;

typedef enum qs__layout { QS__LINES, QS__ONE_LINE } qs__layout; /* QS__ONE_LINE holds for everything inside */

/* key NULL: an array's element or the record itself. Keys must live until the container is closed. */
void qs__open_object(qs__writer *writer, const char *key, qs__layout layout);
void qs__open_array(qs__writer *writer, const char *key, qs__layout layout);
void qs__close(qs__writer *writer);
void qs__put_text(qs__writer *writer, const char *key, const char *value);
void qs__put_integer(qs__writer *writer, const char *key, int64_t value);
void qs__put_number(qs__writer *writer, const char *key, double value); /* shortest text that reads back equal */
void qs__put_flag(qs__writer *writer, const char *key, bool value);
void qs__put_null(qs__writer *writer, const char *key);
void qs__put_numbers(qs__writer *writer, const char *key, int count, const double *values);
void qs__put_names(qs__writer *writer, const char *key, int count, const qs_format *const *formats);
/* Begins a record: opens its object and writes the schema. */
void qs__record_begin(qs__writer *writer, const char *kind);
/* Closes the record's object and hands the text over, or releases everything and returns the first failure, "<kind>: <path>: ..." . */
qs_status qs__record_finish(qs__writer *writer, const char *kind, char **json);
void qs__writer_fail(qs__writer *writer, qs_status status);

/* ---- Shared between kinds --------------------------------------------------------------------------------------------------- */

/* "xxh64:%016x" of a canonical text into buffer[32]; "" when json is NULL. Frees json. */
const char *qs__sign(char *json, char *buffer);
/* Writes a record's text to a file and frees it. */
qs_status qs__record_save(const char *path, char *json);

/* True for links between hosts. */
bool qs__link_is_network(const qs_link *link);

/* The fields of a job inside an object. */
qs_status qs__job_read(const qs__place *object, bool with_schema, qs_job *out);
void qs__job_write(qs__writer *writer, const qs_job *job);
/* A quantizer by its text, as a field of an object: absent leaves *out alone. */
qs_status qs__get_quantizer(const qs__place *object, const char *key, qs_quantizer *out);
void qs__put_quantizer(qs__writer *writer, const char *key, const qs_quantizer *quantizer);
/* The members of "tensors" into a class's plan, and back. */
qs_status qs__tensor_read(const qs__place *member, qs_class_plan *out);
void qs__tensors_write(qs__writer *writer, const qs_class_plan *one);
qs_status qs__assignment_read(const qs__place *class_plan, qs_assignment *out);
void qs__assignment_write(qs__writer *writer, const qs_assignment *one);
/* accumulator.c: the accumulator of a GEMM of such operands, "int32" where they are integers; absent leaves *out alone. */
qs_status qs__accumulator_read(const qs__place *gemm, const qs_format *operand, qs_narrow *out);
void qs__accumulator_write(qs__writer *writer, const qs_format *operand, const qs_narrow *narrow);
/* The object "accumulator" of an operator: GEMM -> accumulator; and back. */
qs_status qs__accumulators_read(const qs__place *choice, const qs_recipe *recipe, qs_operator_choice *out);
void qs__accumulators_write(qs__writer *writer, const qs_operator_choice *choice);
/* One recipe, under its name. */
qs_status qs__recipe_read(const qs__place *member, qs_recipe *out);
void qs__recipe_write(qs__writer *writer, const qs_recipe *recipe);
/* Names of the built-in recipes for messages. */
extern const char *const qs__recipe_names;

#endif
