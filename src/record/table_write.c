// SPDX-License-Identifier: Apache-2.0
/* Canonical writing by a table: fields in its order, what says no more than its absence left out. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- What need not be written ---------------------------------------------------------------------------------------------------- */

static bool is_standard(const qs__field *field, const char *object, int series);

static bool all_standard(const qs__record *record, const char *object, int series) {
    for (int i = 0; i < record->fields; i++)
        if (!is_standard(&record->field[i], object, series)) return false;
    return true;
}

/* Numbers that cannot be below their standard value stand for it there as well, as what is not finite does where nothing is said. */
static bool number_is_standard(const qs__field *field, double value) {
    if (isnan(field->standard)) return !isfinite(value);
    return field->low < 0 ? value == field->standard : !(value > field->standard);
}

/* True where the member has the value that its absence means. */
static bool is_standard(const qs__field *field, const char *object, int series) {
    const char *at = object + field->offset;
    if (field->left_out) return field->left_out(object);
    if (field->hook) return field->hook->is_standard && field->hook->is_standard(object);
    if (field->many == QS__SERIES) return series == 0 || isnan(**(double *const *)(const void *)at);
    if (field->many != QS__ONE) return field->count != QS__FIXED && *(const int *)(object + field->count) == 0;
    switch (field->type) {
    case QS__TEXT:
    case QS__NAME:
        return strcmp(at, field->standard_text ? field->standard_text : "") == 0;
    case QS__FLAG:
        return *(const bool *)at == (field->standard != 0);
    case QS__COUNT:
        return number_is_standard(field, *(const int *)at);
    case QS__INTEGER:
    case QS__SIZE:
        return number_is_standard(field, (double)*(const int64_t *)at);
    case QS__NUMBER:
    case QS__PART:
        return number_is_standard(field, *(const double *)at);
    case QS__FORMAT:
        return *(const qs_format *const *)at == NULL;
    case QS__QUANTIZER:
        return ((const qs_quantizer *)at)->format == NULL;
    case QS__ACCUMULATOR:
        return ((const qs_narrow *)at)->adder == NULL;
    case QS__OBJECT:
        return field->known ? !*(const bool *)(object + field->known) : all_standard(field->of, at, series);
    default: /* strings, seeds, choices and roundings say something always */
        return false;
    }
}

/* ---- Writing ----------------------------------------------------------------------------------------------------------------------- */

static void value_write(qs__writer *writer, const char *key, const qs__field *field, const char *object, const char *at) {
    char text[96];
    int chosen = 0;
    const qs_quantizer *operand;
    const qs__record *of = field->of;
    switch (field->type) {
    case QS__TEXT:
    case QS__NAME:
        qs__put_text(writer, key, at);
        return;
    case QS__STRING:
        qs__put_text(writer, key, *(char *const *)(const void *)at);
        return;
    case QS__FLAG:
        qs__put_word(writer, key, *(const bool *)at ? "true" : "false");
        return;
    case QS__COUNT:
        qs__put_integer(writer, key, *(const int *)at);
        return;
    case QS__INTEGER:
    case QS__SIZE:
        qs__put_integer(writer, key, *(const int64_t *)at);
        return;
    case QS__SEED:
        if (*(const uint64_t *)at > INT64_MAX)
            qs__writer_fail(writer, qs_fail(QS_USAGE, "%s: %llu is outside 0 .. 2^63 - 1", key, (unsigned long long)*(const uint64_t *)at));
        qs__put_integer(writer, key, (int64_t) * (const uint64_t *)at);
        return;
    case QS__NUMBER:
    case QS__PART:
        qs__put_number(writer, key, *(const double *)at);
        return;
    case QS__CHOICE:
        if (field->size == sizeof(bool))
            chosen = *(const bool *)at;
        else
            memcpy(&chosen, at, sizeof chosen);
        qs__put_text(writer, key, field->names[chosen]);
        return;
    case QS__ROUNDING:
        qs__put_text(writer, key, qs_rounding_name(*(const qs_rounding *)at));
        return;
    case QS__FORMAT:
        qs__put_text(writer, key, *(const qs_format *const *)at ? (*(const qs_format *const *)at)->name : field->standard_text);
        return;
    case QS__WORD:
        qs__put_text(writer, key, field->standard_text);
        return;
    case QS__QUANTIZER:
        qs_quantizer_text((const qs_quantizer *)at, text);
        if (field->suffix) strcat(text, field->suffix);
        qs__put_text(writer, key, text);
        return;
    case QS__ACCUMULATOR:
        operand = field->related ? (const qs_quantizer *)(object + field->related) : NULL;
        qs__put_text(writer, key,
                     operand && operand->format->kind == QS_KIND_INTEGER ? "int32" : qs_narrow_text((const qs_narrow *)at, text));
        return;
    case QS__OBJECT:
        for (int i = 1; i < of->fields && of->form == QS__SHORT && chosen == 0; i++)
            chosen = !is_standard(&of->field[i], at, writer->series);
        if (of->form == QS__FULL || chosen)
            qs__object_write(writer, key, of, at);
        else
            value_write(writer, key, of->field, at, at + of->field->offset);
        return;
    }
}

/* The elements of an array in the struct or of one that the record owns, sorted where the table says so. */
static void list_write(qs__writer *writer, const qs__field *field, const char *object) {
    const char *start = object + field->offset, *first = start, *at;
    const bool named = field->many == QS__MEMBERS, in_struct = field->many == QS__LIST;
    const int count = field->count == QS__FIXED ? field->most : *(const int *)(object + field->count), series = writer->series;
    char *sorted = NULL;
    if (!in_struct) memcpy(&first, start, sizeof first);
    if (field->compare && count > 0) {
        qs__writer_fail(writer, qs_allocate((size_t)count, field->size, &sorted));
        if (!sorted) return;
        memcpy(sorted, first, (size_t)count * field->size);
        qsort(sorted, (size_t)count, field->size, field->compare);
        first = sorted;
    }
    if (named && field->related) writer->series = *(const int *)(object + field->related);
    qs__open(writer, field->name, named ? "{}" : "[]",
             in_struct || (named && field->of->form == QS__ONLY_SHORT) ? QS__ONE_LINE : QS__LINES);
    for (int i = 0; i < count; i++) {
        const char *name = NULL;
        at = first + (size_t)i * field->size;
        if (named) name = at;
        if (named && field->of->key == 0) memcpy(&name, at, sizeof name);
        value_write(writer, name, field, object, at);
    }
    qs__close(writer);
    writer->series = series;
    free(sorted);
}

static const qs__field *sibling(const qs__record *record, const char *name) {
    const qs__field *field = record->field;
    while (strcmp(field->name, name) != 0)
        field++;
    return field;
}

void qs__object_write(qs__writer *writer, const char *key, const qs__record *record, const void *object) {
    if (key || !record->kind) qs__open(writer, key, "{}", record->layout);
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        const qs__field *decides = field->with ? sibling(record, field->with) : field;
        if (field->presence == QS__INPUT || (field->presence == QS__LEFT_OUT && is_standard(decides, object, writer->series))) continue;
        if (field->selector && strcmp((const char *)object + field->selector, field->name) != 0) continue;
        const char *at = (const char *)object + field->offset;
        if (field->hook)
            field->hook->write(writer, field->name, object);
        else if (field->null_is_standard && is_standard(field, object, writer->series))
            qs__put_word(writer, field->name, "null");
        else if (field->many == QS__ONE)
            value_write(writer, field->name, field, object, at);
        else if (field->many != QS__SERIES)
            list_write(writer, field, object);
        else {
            const double *values = *(double *const *)(const void *)at;
            qs__open(writer, field->name, "[]", QS__ONE_LINE);
            for (int i = 0; i < writer->series; i++)
                qs__put_number(writer, NULL, values[i]);
            qs__close(writer);
        }
    }
    if (key || !record->kind) qs__close(writer);
}

/* ---- Records ------------------------------------------------------------------------------------------------------------------------ */

qs_status qs__record_text(const qs__record *record, const void *object, char **json) {
    qs__writer writer = {0};
    char schema[64];
    snprintf(schema, sizeof schema, QS_SCHEMA("%s"), record->kind);
    qs__open(&writer, NULL, "{}", QS__LINES);
    qs__put_text(&writer, "schema", schema);
    qs__object_write(&writer, NULL, record, object);
    return qs__writer_finish(&writer, record->kind, json);
}

qs_status qs__text_save(char *json, const char *path) {
    const qs_status status = qs_file_write(path, json, strlen(json));
    free(json);
    return status;
}

const char *qs__record_signature(const qs__record *record, const void *object, char *buffer) {
    char *json = NULL;
    *buffer = '\0';
    if (qs__record_text(record, object, &json) != QS_OK) return buffer;
    snprintf(buffer, 32, "xxh64:%016llx", (unsigned long long)qs_hash(json, strlen(json), 0));
    free(json);
    return buffer;
}
