// SPDX-License-Identifier: Apache-2.0
/* What a record owns, by its table: texts, rows, series. Nothing else in a struct of this room points to memory of its own. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

static bool is_part(const qs__field *field) {
    return field->type == QS__OBJECT && field->many == QS__ONE && !field->hook;
}

static bool owns_array(const qs__field *field) {
    return field->many == QS__ROWS || field->many == QS__MEMBERS;
}

/* A name that its element owns stands in front of it, as a pointer. */
static bool owns_names(const qs__field *field) {
    return field->many == QS__MEMBERS && field->of->key == 0;
}

void qs__record_release(const qs__record *record, void *object) {
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        char *at = (char *)object + field->offset, *owned;
        if (is_part(field)) qs__record_release(field->of, at);
        if (!owns_array(field) && field->many != QS__SERIES && field->type != QS__STRING) continue;
        memcpy(&owned, at, sizeof owned);
        const int rows = owns_array(field) ? *(const int *)((char *)object + field->count) : 0;
        for (int i = 0; i < rows; i++) {
            char *row = owned + (size_t)i * field->size;
            if (field->of) qs__record_release(field->of, row);
            if (owns_names(field)) free(*(char **)(void *)row);
        }
        free(owned);
    }
    if (record->kind) memset(object, 0, record->size);
}

/* A struct that was copied byte by byte lets go of what is the original's. */
static void disown(const qs__record *record, char *object) {
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        char *at = object + field->offset;
        if (is_part(field)) disown(field->of, at);
        if (owns_array(field)) *(int *)(object + field->count) = 0;
        if (owns_array(field) || field->many == QS__SERIES || field->type == QS__STRING) memset(at, 0, sizeof(void *));
    }
}

/* Gives a struct that lets go of its original memory of its own; what it has got when that fails is for qs__record_release. */
static qs_status own(const qs__record *record, const char *from, char *to, int series) {
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        const char *original = from + field->offset, *first;
        char *at = to + field->offset, *rows;
        if (is_part(field)) QS_TRY(own(field->of, original, at, series));
        if (!owns_array(field) && field->many != QS__SERIES && field->type != QS__STRING) continue;
        memcpy(&first, original, sizeof first);
        if (field->type == QS__STRING) QS_TRY(qs_format_text((char **)(void *)at, "%s", first));
        if (field->many == QS__SERIES) {
            const size_t values = (size_t)(field->most ? field->most : series);
            QS_TRY(qs_allocate(values, sizeof(double), at));
            memcpy(*(double **)(void *)at, first, values * sizeof(double));
        }
        if (!owns_array(field)) continue;
        const int count = *(const int *)(from + field->count);
        const int within = field->related ? *(const int *)(from + field->related) : series;
        QS_TRY(qs_allocate((size_t)count, field->size, at));
        memcpy(&rows, at, sizeof rows);
        for (int i = 0; i < count; i++, first += field->size, rows += field->size) {
            memcpy(rows, first, field->size);
            if (field->of) disown(field->of, rows);
            if (owns_names(field)) *(char **)(void *)rows = NULL;
            *(int *)(to + field->count) = i + 1;
            if (owns_names(field)) QS_TRY(qs_format_text((char **)(void *)rows, "%s", *(char *const *)(const void *)first));
            if (field->of) QS_TRY(own(field->of, first, rows, within));
        }
    }
    return QS_OK;
}

qs_status qs__record_copy(const qs__record *record, const void *from, void *out) {
    char *copy;
    QS_TRY(qs_allocate(1, record->size, &copy));
    memcpy(copy, from, record->size);
    disown(record, copy);
    const qs_status status = own(record, from, copy, 0);
    if (status == QS_OK)
        memcpy(out, copy, record->size);
    else
        qs__record_release(record, copy);
    free(copy);
    return status;
}
