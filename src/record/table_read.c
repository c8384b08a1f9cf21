// SPDX-License-Identifier: Apache-2.0
/* Strict reading by a table: every field has its type and its range, none is missing, none is unknown. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* Far above any profile (tens of MB); keeps a wrong path (a disk image) from filling the memory. */
static const size_t file_limit = (size_t)1 << 28;

/* Of one record: its struct, and how many values its series have. */
typedef struct reading {
    void *root;
    int series;
} reading;

/* ---- One value ----------------------------------------------------------------------------------------------------------------- */

qs_status qs__number_take(const qs__place *place, const qs__field *field, double *out) {
    const double high = field->high == 0 ? INFINITY : field->high;
    if (!json_is_number(place->value)) return qs__refuse_type(place, "a number");
    const double value = json_number_value(place->value);
    if (value >= field->low && value <= high) {
        *out = value;
        return QS_OK;
    }
    if (high == INFINITY) return qs__refuse_value(place, "%.9g must be at least %.9g", value, field->low);
    return qs__refuse_value(place, "%.9g is outside %.9g .. %.9g", value, field->low, high);
}

static qs_status integer_take(const qs__place *place, const qs__field *field, int64_t *out) {
    const int64_t most = field->type == QS__COUNT ? INT32_MAX : INT64_MAX;
    const int64_t low = field->low == -INFINITY ? INT64_MIN : (int64_t)field->low, high = field->high == 0 ? most : (int64_t)field->high;
    if (!json_is_integer(place->value)) return qs__refuse_type(place, "an integer");
    const int64_t value = json_integer_value(place->value);
    if (value >= low && value <= high) {
        *out = value;
        return QS_OK;
    }
    if (high == INT64_MAX) return qs__refuse_value(place, "%lld must be at least %lld", (long long)value, (long long)low);
    return qs__refuse_value(place, "%lld is outside %lld .. %lld", (long long)value, (long long)low, (long long)high);
}

/* A plain decimal number at the start of text; -1 for anything else (signs, infinities, hexadecimal). */
static double decimal_at(const char *text, char **rest) {
    if (*text < '0' || *text > '9' || strspn(text, "0123456789.eE") < strspn(text, "0123456789.eExX")) return -1;
    return strtod(text, rest);
}

/* Bytes: an integer, "644MiB", or "30%" of `whole` where that is a size. */
static qs_status size_take(const qs__place *place, const qs__field *field, int64_t whole, int64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                 {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},     {"TB", 1e12}};
    if (!json_is_string(place->value)) return integer_take(place, field, out);
    const char *text = json_string_value(place->value);
    char *rest = NULL;
    double number = decimal_at(text, &rest), bytes = -1;
    if (number >= 0 && strcmp(rest, "%") == 0) {
        if (whole <= 0) return qs__refuse_value(place, "\"%.40s\" needs a capacity to refer to", text);
        if (number > 100) return qs__refuse_value(place, "\"%.40s\" is above 100%%", text);
        bytes = (double)whole * number / 100;
    } else if (number >= 0) {
        rest += strspn(rest, " ");
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(rest, units[i].name) == 0) bytes = number * units[i].bytes;
    }
    if (bytes < 0) return qs__refuse_value(place, "\"%.40s\" is no size: bytes, or text like \"644MiB\", \"2GiB\", (limit) \"30%%\"", text);
    if (bytes < 1 || bytes > 9e18) return qs__refuse_value(place, "\"%.40s\" is outside 1 .. 9e18 bytes", text);
    *out = (int64_t)bytes;
    return QS_OK;
}

qs_status qs__part_take(const qs__place *place, double *out) {
    static const qs__field part = {.low = 1e-3, .high = 1};
    if (!json_is_string(place->value)) return qs__number_take(place, &part, out);
    char *rest = NULL;
    const char *text = json_string_value(place->value);
    const double percent = decimal_at(text, &rest), value = percent / 100;
    if (percent < 0 || strcmp(rest, "%") != 0) return qs__refuse_value(place, "\"%.40s\" is no part: 0.3, or text like \"30%%\"", text);
    if (value < part.low || value > part.high) return qs__refuse_value(place, "\"%.40s\" is outside %g%% .. 100%%", text, 100 * part.low);
    *out = value;
    return QS_OK;
}

/* One of the field's names; the list of them for a message. */
static qs_status choice_take(const qs__place *place, const qs__field *field, void *out) {
    char text[64], list[256] = "";
    int count = 0, chosen = -1;
    QS_TRY(qs__text_take(place, text, sizeof text));
    for (; field->names[count]; count++)
        if (strcmp(field->names[count], text) == 0) chosen = count;
    if (chosen >= 0) {
        if (field->size == sizeof(bool))
            *(bool *)out = chosen;
        else
            memcpy(out, &chosen, sizeof chosen);
        return QS_OK;
    }
    for (int i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : field->noun || i < count - 1 ? ", " : " or ", *quote = field->noun ? "" : "\"";
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s%s%s", between, quote, field->names[i], quote);
    }
    if (field->noun) return qs__refuse_value(place, "\"%s\" is no %s: %s", text, field->noun, list);
    return qs__refuse_value(place, "must be %s, is \"%s\"", list, text);
}

qs_status qs__accumulator_take(const qs__place *place, const qs_format *operand, qs_narrow *out) {
    static const char of_integers[] = "int32";
    char text[QS_NARROW_TEXT];
    QS_TRY(qs__text_take(place, text, sizeof text));
    if (operand && operand->kind == QS_KIND_INTEGER) {
        if (strcmp(text, of_integers) == 0) return QS_OK;
        return qs__refuse_value(place, "must be \"%s\", is \"%s\": products of %s are summed exactly", of_integers, text, operand->name);
    }
    return qs_narrow_find(text, out) == QS_OK ? QS_OK : qs__refuse_value(place, "%s", qs_message());
}

/* What number's room has a text for. */
static qs_status named_take(const qs__place *place, const qs__field *field, void *out) {
    char text[96];
    QS_TRY(qs__text_take(place, text, sizeof text));
    if (field->standard_text && strcmp(text, field->standard_text) == 0) return QS_OK; /* stays NULL */
    const size_t length = strlen(text), mark = field->suffix ? strlen(field->suffix) : 0;
    if (mark > 0 && (length <= mark || strcmp(text + length - mark, field->suffix) != 0))
        return qs__refuse_value(place, "\"%s\" must end in \"%s\": it is made from what forward saved", text, field->suffix);
    text[length - mark] = '\0';
    const qs_status status = field->type == QS__FORMAT     ? qs_format_find(text, out)
                             : field->type == QS__ROUNDING ? qs_rounding_find(text, out)
                                                           : qs_quantizer_find(text, out);
    return status == QS_OK ? QS_OK : qs__refuse_value(place, "%s", qs_message());
}

static qs_status object_read(const reading *from, const qs__place *place, const qs__record *record, char *object);

static qs_status value_read(const reading *from, const qs__place *place, const qs__field *field, char *object, void *out) {
    int64_t integer = 0;
    const qs_quantizer *operand;
    char text[2048];
    switch (field->type) {
    case QS__NAME:
    case QS__STRING:
        if (json_is_string(place->value) && json_string_length(place->value) == 0) return qs__refuse_value(place, "must not be empty");
        if (field->type == QS__NAME) return qs__text_take(place, out, field->size);
        QS_TRY(qs__text_take(place, text, sizeof text));
        return qs_format_text(out, "%s", text);
    case QS__TEXT:
        return qs__text_take(place, out, field->size);
    case QS__FLAG:
        if (!json_is_boolean(place->value)) return qs__refuse_type(place, "true or false");
        *(bool *)out = json_is_true(place->value);
        return QS_OK;
    case QS__COUNT:
        QS_TRY(integer_take(place, field, &integer));
        *(int *)out = (int)integer;
        return QS_OK;
    case QS__INTEGER:
        return integer_take(place, field, out);
    case QS__SEED:
        QS_TRY(integer_take(place, field, &integer));
        *(uint64_t *)out = (uint64_t)integer;
        return QS_OK;
    case QS__NUMBER:
        return qs__number_take(place, field, out);
    case QS__SIZE:
        return size_take(place, field, field->related ? *(int64_t *)(object + field->related) : 0, out);
    case QS__PART:
        return qs__part_take(place, out);
    case QS__CHOICE:
        return choice_take(place, field, out);
    case QS__ROUNDING:
    case QS__FORMAT:
    case QS__QUANTIZER:
        return named_take(place, field, out);
    case QS__WORD:
        QS_TRY(qs__text_take(place, text, sizeof text));
        if (strcmp(text, field->standard_text) == 0) return QS_OK;
        return qs__refuse_value(place, "must be \"%s\", is \"%.80s\"", field->standard_text, text);
    case QS__ACCUMULATOR: /* the quantizer of its operands stands before it and has been read */
        operand = field->related ? (const qs_quantizer *)(object + field->related) : NULL;
        return qs__accumulator_take(place, operand ? operand->format : NULL, out);
    case QS__OBJECT:
        if (field->known) *(bool *)(object + field->known) = place->value != NULL;
        return object_read(from, place, field->of, out);
    }
    return QS_OK;
}

/* What its absence means. */
static qs_status standard_set(const reading *from, const qs__place *place, const qs__field *field, char *object, void *out) {
    const int integer = isnan(field->standard) ? 0 : (int)field->standard;
    if (field->presence == QS__DERIVED) return QS_OK;
    switch (field->type) {
    case QS__TEXT:
    case QS__NAME:
        if (field->standard_text) snprintf(out, field->size, "%s", field->standard_text);
        return QS_OK;
    case QS__FLAG:
        *(bool *)out = integer;
        return QS_OK;
    case QS__CHOICE:
        if (field->size == sizeof(bool))
            *(bool *)out = integer;
        else
            memcpy(out, &integer, sizeof integer);
        return QS_OK;
    case QS__COUNT:
        *(int *)out = integer;
        return QS_OK;
    case QS__INTEGER:
        *(int64_t *)out = (int64_t)field->standard;
        return QS_OK;
    case QS__SEED:
        *(uint64_t *)out = (uint64_t)field->standard;
        return QS_OK;
    case QS__NUMBER:
    case QS__PART:
        *(double *)out = field->standard;
        return QS_OK;
    case QS__OBJECT:
        return value_read(from, place, field, object, out);
    default: /* zeros say it */
        return QS_OK;
    }
}

/* ---- Many ---------------------------------------------------------------------------------------------------------------------- */

static qs_status length_check(const qs__place *place, size_t least, size_t most) {
    if (!json_is_array(place->value)) return qs__refuse_type(place, "an array");
    const size_t size = json_array_size(place->value);
    if (size >= least && size <= most) return QS_OK;
    if (least == most) return qs__refuse_value(place, "has %zu elements, must have %zu", size, least);
    return qs__refuse_value(place, "has %zu elements, must have %zu to %zu", size, least, most);
}

static qs_status list_read(const reading *from, const qs__place *place, const qs__field *field, char *object) {
    char *first = object + field->offset;
    QS_TRY(length_check(place, (size_t)field->least, field->most ? (size_t)field->most : INT32_MAX));
    const size_t size = json_array_size(place->value);
    if (field->many == QS__ROWS) {
        QS_TRY(qs_allocate(size, field->size, &first));
        memcpy(object + field->offset, &first, sizeof first);
    }
    if (field->count != QS__FIXED) *(int *)(object + field->count) = (int)size;
    for (size_t i = 0; i < size; i++) {
        const qs__place element = qs__element(place, i);
        QS_TRY(value_read(from, &element, field, object, first + i * field->size));
    }
    if (!field->compare) return QS_OK;
    qsort(first, size, field->size, field->compare);
    for (size_t i = 1; i < size; i++) {
        const char *row = first + i * field->size, *text;
        if (field->compare(row - field->size, row) != 0) continue;
        memcpy(&text, row, sizeof text);
        return qs__refuse_value(place, "%s \"%.400s\" stands there twice", field->of->field->name, text);
    }
    return QS_OK;
}

/* Elements under their names: objects, or the values of their first fields alone. */
static qs_status members_read(const reading *from, const qs__place *place, const qs__field *field, char *object) {
    const reading within = {.root = from->root, .series = field->related ? *(int *)(object + field->related) : from->series};
    const qs__record *of = field->of;
    char *element;
    const char *key;
    json_t *value;
    if (!json_is_object(place->value)) return qs__refuse_type(place, "an object");
    const size_t size = json_object_size(place->value);
    if (size > INT32_MAX) return qs__refuse_value(place, "has %zu members, too many", size);
    if (size < (size_t)field->least) return qs__refuse_value(place, "must name at least one");
    QS_TRY(qs_allocate(size, field->size, &element));
    memcpy(object + field->offset, &element, sizeof element);
    *(int *)(object + field->count) = (int)size;
    json_object_foreach(place->value, key, value) {
        const qs__place member = {.parent = place, .source = place->source, .key = key, .value = value};
        const qs__place absent = {.parent = place, .source = place->source, .key = key};
        const bool alone = of->form == QS__ONLY_SHORT || (of->form == QS__SHORT && !json_is_object(value));
        const size_t length = strlen(key);
        if (length == 0) return qs__refuse_value(&member, "a name must not be empty");
        if (of->key > 0 && length >= of->key)
            return qs__refuse_value(&member, "name \"%.80s...\" has %zu bytes, may have %zu", key, length, of->key - 1);
        if (of->key > 0)
            memcpy(element, key, length + 1);
        else
            QS_TRY(qs_format_text((char **)(void *)element, "%s", key));
        QS_TRY(object_read(&within, alone ? &absent : &member, of, element));
        if (alone) QS_TRY(value_read(&within, &member, of->field, element, element + of->field->offset));
        if (alone && of->check) QS_TRY(of->check(&member, element, from->root));
        element += field->size;
    }
    return QS_OK;
}

static qs_status series_read(const reading *from, const qs__place *place, const qs__field *field, char *object) {
    const size_t count = (size_t)(field->most ? field->most : from->series);
    double *values;
    /* Before memory is taken: an absurd number of values is refused by the file itself, which has no such list. */
    if (place->value && !field->hook) QS_TRY(length_check(place, count, count));
    QS_TRY(qs_allocate(count, sizeof *values, &values));
    memcpy(object + field->offset, &values, sizeof values);
    if (field->hook) return place->value ? field->hook->read(place, object) : QS_OK;
    for (size_t i = 0; i < count; i++) {
        const qs__place element = qs__element(place, i);
        values[i] = field->standard;
        if (place->value) QS_TRY(qs__number_take(&element, field, &values[i]));
    }
    return QS_OK;
}

/* ---- Objects ------------------------------------------------------------------------------------------------------------------- */

/* Every field is known, and those that must be there are. A record by itself has its schema as well, which was checked. */
static qs_status fields_check(const qs__place *place, const qs__record *record) {
    size_t there = place->parent ? 0 : 1;
    const char *missing = NULL, *key;
    json_t *value;
    if (!json_is_object(place->value)) return qs__refuse_type(place, "an object");
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        const bool is_there = json_object_get(place->value, field->name) != NULL;
        there += is_there;
        if (!is_there && !missing && field->presence == QS__REQUIRED && !field->selector) missing = field->name;
    }
    json_object_foreach(place->value, key, value) {
        if (there == json_object_size(place->value)) break;
        char list[1024] = "";
        bool known = !place->parent && strcmp(key, "schema") == 0;
        for (const qs__field *field = record->field; field < record->field + record->fields && !known; field++) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, " %s", field->name);
            known = strcmp(field->name, key) == 0;
        }
        if (!known) return qs__refuse_value(place, "unknown field \"%.80s\"; fields are:%s%s", key, place->parent ? "" : " schema", list);
    }
    return missing ? qs__refuse_value(place, "field \"%s\" is missing", missing) : QS_OK;
}

/* An object of one kind of structs, where the struct is of another kind: refused, or passed over. */
static qs_status selector_check(const qs__place *place, const qs__field *field, const char *object, bool *selected) {
    const char *name = object + field->selector;
    *selected = strcmp(name, field->name) == 0;
    if (*selected && !place->value && field->presence == QS__REQUIRED && place->parent->value)
        return qs__refuse_value(place->parent, "field \"%s\" is missing", field->name);
    if (*selected || !place->value) return QS_OK;
    return qs__refuse_value(place, "fields of backend \"%s\", but this class has backend \"%s\"", field->name, name);
}

static qs_status object_read(const reading *from, const qs__place *place, const qs__record *record, char *object) {
    if (place->value) QS_TRY(fields_check(place, record));
    for (const qs__field *field = record->field; field < record->field + record->fields; field++) {
        const qs__place member = qs__member(place, field->name);
        bool selected = true;
        if (field->selector) QS_TRY(selector_check(&member, field, object, &selected));
        if (!selected) continue;
        if (field->many == QS__SERIES)
            QS_TRY(series_read(from, &member, field, object));
        else if (field->hook)
            QS_TRY(field->hook->read ? field->hook->read(&member, object) : QS_OK);
        else if (!member.value || (field->null_is_standard && json_is_null(member.value)))
            QS_TRY(field->many == QS__ONE ? standard_set(from, &member, field, object, object + field->offset) : QS_OK);
        else if (field->many == QS__ONE)
            QS_TRY(value_read(from, &member, field, object, object + field->offset));
        else if (field->many == QS__MEMBERS)
            QS_TRY(members_read(from, &member, field, object));
        else
            QS_TRY(list_read(from, &member, field, object));
    }
    return place->value && record->check ? record->check(place, object, from->root) : QS_OK;
}

qs_status qs__object_read(const qs__place *place, const qs__record *record, void *out) {
    const reading from = {.root = out};
    return object_read(&from, place, record, out);
}

qs_status qs__record_standard(const qs__record *record, int series, void *out) {
    const reading from = {.root = out, .series = series};
    return object_read(&from, &(const qs__place){0}, record, out);
}

/* ---- Records ------------------------------------------------------------------------------------------------------------------- */

qs_status qs__record_parse(const qs__record *record, const char *json, size_t bytes, const char *source, void *out) {
    void *read = NULL;
    qs__place root;
    qs_status status;
    QS_TRY(qs__json_parse(json, bytes, source, record->kind, &root));
    QS_GOTO(qs_allocate(1, record->size, &read));
    const reading from = {.root = read};
    QS_GOTO(object_read(&from, &root, record, read));
    memcpy(out, read, record->size);
    memset(read, 0, record->size);
done:
    if (read) qs__record_release(record, read);
    free(read);
    json_decref(root.value);
    return status;
}

qs_status qs__record_read(const qs__record *record, const char *path, void *out) {
    char *text;
    size_t bytes;
    QS_TRY(qs_file_read(path, file_limit, &text, &bytes));
    const qs_status status = qs__record_parse(record, text, bytes, path, out);
    free(text);
    return status;
}
