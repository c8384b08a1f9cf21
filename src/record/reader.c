// SPDX-License-Identifier: Apache-2.0
/* Strict reading of JSON: typed fields that know their path. What is missing, unknown, of another type, out of range or not finite is
 * refused with source, path, value and rule; syntax errors with line and column. */
#include "record_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Far above any profile (tens of MB); keeps a wrong path (a disk image) from filling the memory. */
static const size_t file_limit = (size_t)1 << 28;

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------ */

enum { PATH_BYTES = 512 };

static bool is_plain(const char *key) {
    return *key && key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")] == '\0';
}

/* Appends to a path; what does not fit is cut. */
static void path_add(char *path, const char *format, ...) QS_PRINTF(2, 3);
static void path_add(char *path, const char *format, ...) {
    size_t used = strlen(path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + used, PATH_BYTES - used, format, arguments);
    va_end(arguments);
}

/* "classes.weak.kernels[3]"; keys with dots or blanks stand as ["stage1.block0.conv1"]. */
static void path_of(const qs__place *place, char *path) {
    if (!place->parent) return;
    path_of(place->parent, path);
    if (!place->key) {
        path_add(path, "[%zu]", place->index);
    } else if (is_plain(place->key)) {
        path_add(path, "%s%s", *path ? "." : "", place->key);
    } else {
        path_add(path, "[\"%s\"]", place->key);
    }
}

qs_status qs__refuse_field(const qs__place *place, const char *format, ...) {
    char path[PATH_BYTES] = "", text[1024];
    path_of(place, path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return qs_fail(QS_BAD_FILE, "%s: %s%s%s", place->source, path, *path ? ": " : "", text);
}

static const char *type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

static qs_status refuse_type(const qs__place *place, const char *wanted) {
    return qs__refuse_field(place, "must be %s, is %s", wanted, type_name(place->value));
}

/* ---- Records ------------------------------------------------------------------------------------------------------------------- */

static qs_status check_schema(const qs__place *root, const char *kind) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "qsync/%s/1", kind);
    qs__place schema = qs__field(root, "schema");
    if (!schema.value) return qs__refuse_field(root, "field \"schema\" is missing, must be \"%s\"", wanted);
    if (!json_is_string(schema.value)) return refuse_type(&schema, "a text");
    const char *text = json_string_value(schema.value);
    return strcmp(text, wanted) == 0 ? QS_OK : qs__refuse_field(&schema, "must be \"%s\", is \"%.80s\"", wanted, text);
}

qs_status qs__record_parse(const char *json, size_t bytes, const char *source, const char *kind, qs__place *out) {
    json_error_t error;
    qs__place root = {.source = source, .value = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error)};
    if (!root.value) {
        if (json_error_code(&error) == json_error_out_of_memory) return qs_fail(QS_OUT_OF_MEMORY, "%s: no memory to parse it", source);
        return qs_fail(QS_BAD_FILE, "%s:%d:%d: %s", source, error.line, error.column, error.text);
    }
    qs_status status = qs__expect_object(&root);
    if (status == QS_OK) status = check_schema(&root, kind);
    if (status == QS_OK) {
        *out = root;
    } else {
        json_decref(root.value);
    }
    return status;
}

qs_status qs__record_load(const char *path, const char *kind, qs__place *out) {
    char *text;
    size_t bytes;
    QS_TRY(qs_file_read(path, file_limit, &text, &bytes));
    qs_status status = qs__record_parse(text, bytes, path, kind, out);
    free(text);
    return status;
}

/* ---- Containers ---------------------------------------------------------------------------------------------------------------- */

qs__place qs__field(const qs__place *object, const char *key) {
    return (qs__place){.parent = object, .source = object->source, .key = key, .value = json_object_get(object->value, key)};
}

qs__place qs__element(const qs__place *array, size_t index) {
    return (qs__place){.parent = array, .source = array->source, .index = index, .value = json_array_get(array->value, index)};
}

qs_status qs__expect_object(const qs__place *place) {
    return json_is_object(place->value) ? QS_OK : refuse_type(place, "an object");
}

qs_status qs__expect_array(const qs__place *place, size_t least, size_t most) {
    if (!json_is_array(place->value)) return refuse_type(place, "an array");
    size_t size = json_array_size(place->value);
    if (size >= least && size <= most) return QS_OK;
    if (least == most) return qs__refuse_field(place, "has %zu elements, must have %zu", size, least);
    return qs__refuse_field(place, "has %zu elements, must have %zu to %zu", size, least, most);
}

/* True when `key` is one of the words. */
static bool is_listed(const char *words, const char *key) {
    size_t length = strlen(key);
    for (const char *at = words; *at; at += *at == ' ') {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, key, length) == 0) return true;
        at += word;
    }
    return false;
}

static qs_status check_required(const qs__place *object, const char *required) {
    char word[64];
    for (const char *at = required; *at; at += *at == ' ') {
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!json_object_get(object->value, word)) return qs__refuse_field(object, "field \"%s\" is missing", word);
        at += length;
    }
    return QS_OK;
}

qs_status qs__expect_fields(const qs__place *object, const char *required, const char *optional) {
    QS_TRY(qs__expect_object(object));
    const char *key;
    json_t *value;
    json_object_foreach(object->value, key, value) {
        if (!is_listed(required, key) && !is_listed(optional, key)) {
            return qs__refuse_field(object, "unknown field \"%.80s\"; fields are: %s%s%s", key, required, *required && *optional ? " " : "",
                                    optional);
        }
    }
    return check_required(object, required);
}

qs_status qs__members_create(const qs__place *place, size_t size, void *out) {
    size_t members = json_is_array(place->value) ? json_array_size(place->value) : json_object_size(place->value);
    if (members > INT32_MAX) return qs__refuse_field(place, "has %zu members, too many", members);
    return qs_allocate(members, size, out);
}

qs_status qs__each_member(const qs__place *object, qs__member_reader read, void *context) {
    int index = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object->value, key, value) {
        qs__place member = {.parent = object, .source = object->source, .key = key, .value = value};
        QS_TRY(read(&member, index++, context));
    }
    return QS_OK;
}

/* ---- Scalars ------------------------------------------------------------------------------------------------------------------- */

static qs_status copy_text(const qs__place *place, const char *what, const char *text, char *out, size_t capacity) {
    size_t length = strlen(text);
    if (length >= capacity) return qs__refuse_field(place, "%s\"%.80s...\" has %zu bytes, may have %zu", what, text, length, capacity - 1);
    memcpy(out, text, length + 1);
    return QS_OK;
}

qs_status qs__take_text(const qs__place *place, char *out, size_t capacity) {
    if (!json_is_string(place->value)) return refuse_type(place, "a text");
    return copy_text(place, "", json_string_value(place->value), out, capacity);
}

qs_status qs__take_key(const qs__place *place, char *out, size_t capacity) {
    if (!*place->key) return qs__refuse_field(place, "a name must not be empty");
    return copy_text(place, "name ", place->key, out, capacity);
}

qs_status qs__take_format(const qs__place *place, const qs_format **out) {
    char name[64];
    QS_TRY(qs__take_text(place, name, sizeof name));
    const qs_format *format;
    if (qs_format_find(name, &format) != QS_OK) return qs__refuse_field(place, "%s", qs_message());
    *out = format;
    return QS_OK;
}

qs_status qs__get_text(const qs__place *object, const char *key, char *out, size_t capacity) {
    qs__place field = qs__field(object, key);
    return field.value ? qs__take_text(&field, out, capacity) : QS_OK;
}

qs_status qs__get_name(const qs__place *object, const char *key, char *out, size_t capacity) {
    qs__place field = qs__field(object, key);
    if (!field.value) return QS_OK;
    if (json_is_string(field.value) && json_string_length(field.value) == 0) return qs__refuse_field(&field, "must not be empty");
    return qs__take_text(&field, out, capacity);
}

qs_status qs__get_flag(const qs__place *object, const char *key, bool *out) {
    qs__place field = qs__field(object, key);
    if (!field.value) return QS_OK;
    if (!json_is_boolean(field.value)) return refuse_type(&field, "true or false");
    *out = json_is_true(field.value);
    return QS_OK;
}

static qs_status refuse_range(const qs__place *field, double value, double low, double high) {
    if (high == INFINITY) return qs__refuse_field(field, "%.9g must be at least %.9g", value, low);
    return qs__refuse_field(field, "%.9g is outside %.9g .. %.9g", value, low, high);
}

qs_status qs__take_number(const qs__place *field, double low, double high, double *out) {
    if (!json_is_number(field->value)) return refuse_type(field, "a number");
    double value = json_number_value(field->value);
    if (!(value >= low && value <= high)) return refuse_range(field, value, low, high);
    *out = value;
    return QS_OK;
}

qs_status qs__get_number(const qs__place *object, const char *key, double low, double high, double *out) {
    qs__place field = qs__field(object, key);
    return field.value ? qs__take_number(&field, low, high, out) : QS_OK;
}

qs_status qs__get_integer(const qs__place *object, const char *key, int64_t low, int64_t high, int64_t *out) {
    qs__place field = qs__field(object, key);
    if (!field.value) return QS_OK;
    if (!json_is_integer(field.value)) return refuse_type(&field, "an integer");
    int64_t value = json_integer_value(field.value);
    if (value < low || value > high) {
        if (high == INT64_MAX) return qs__refuse_field(&field, "%lld must be at least %lld", (long long)value, (long long)low);
        return qs__refuse_field(&field, "%lld is outside %lld .. %lld", (long long)value, (long long)low, (long long)high);
    }
    *out = value;
    return QS_OK;
}

qs_status qs__get_count(const qs__place *object, const char *key, int low, int high, int *out) {
    int64_t value = *out;
    QS_TRY(qs__get_integer(object, key, low, high, &value));
    *out = (int)value;
    return QS_OK;
}

qs_status qs__get_format(const qs__place *object, const char *key, const qs_format **out) {
    qs__place field = qs__field(object, key);
    return field.value ? qs__take_format(&field, out) : QS_OK;
}

qs_status qs__get_numbers(const qs__place *object, const char *key, int count, double low, double *out) {
    qs__place field = qs__field(object, key);
    if (!field.value) return QS_OK;
    QS_TRY(qs__expect_array(&field, (size_t)count, (size_t)count));
    for (int i = 0; i < count; i++) {
        qs__place element = qs__element(&field, (size_t)i);
        QS_TRY(qs__take_number(&element, low, INFINITY, &out[i]));
    }
    return QS_OK;
}
