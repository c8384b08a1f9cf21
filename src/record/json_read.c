// SPDX-License-Identifier: Apache-2.0
/* JSON texts and places in them: what is refused is named by its whole path, syntax errors by line and column. */
#include <stdarg.h>
#include <string.h>

#include "json.h"

enum { PATH_BYTES = 512 };

/* "classes.weak.kernels[3]" ; keys with dots or blanks stand as ["stage1.block0.conv1"]. What does not fit is cut. */
static void path_of(const qs__place *place, char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/";
    if (!place->parent) return;
    path_of(place->parent, path);
    const size_t used = strlen(path);
    if (!place->key)
        snprintf(path + used, PATH_BYTES - used, "[%zu]", place->index);
    else if (*place->key && place->key[strspn(place->key, plain)] == '\0')
        snprintf(path + used, PATH_BYTES - used, "%s%s", used > 0 ? "." : "", place->key);
    else
        snprintf(path + used, PATH_BYTES - used, "[\"%s\"]", place->key);
}

qs_status qs__refuse_value(const qs__place *place, const char *format, ...) {
    char path[PATH_BYTES] = "", text[1024];
    va_list arguments;
    path_of(place, path);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return qs_fail(QS_BAD_FILE, "%s: %s%s%s", place->source, path, *path ? ": " : "", text);
}

qs_status qs__refuse_type(const qs__place *place, const char *wanted) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a text",      [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a number",    [JSON_NULL] = "null",      [JSON_TRUE] = "true or false", [JSON_FALSE] = "true or false"};
    return qs__refuse_value(place, "must be %s, is %s", wanted, names[json_typeof(place->value)]);
}

qs__place qs__member(const qs__place *object, const char *key) {
    return (qs__place){.parent = object, .source = object->source, .key = key, .value = json_object_get(object->value, key)};
}

qs__place qs__element(const qs__place *array, size_t index) {
    return (qs__place){.parent = array, .source = array->source, .index = index, .value = json_array_get(array->value, index)};
}

qs_status qs__text_take(const qs__place *place, char *out, size_t capacity) {
    if (!json_is_string(place->value)) return qs__refuse_type(place, "a text");
    const char *text = json_string_value(place->value);
    const size_t length = strlen(text);
    if (length >= capacity) return qs__refuse_value(place, "\"%.80s...\" has %zu bytes, may have %zu", text, length, capacity - 1);
    memcpy(out, text, length + 1);
    return QS_OK;
}

qs_status qs__json_parse(const char *json, size_t bytes, const char *source, const char *kind, qs__place *out) {
    json_error_t error;
    const qs__place root = {.source = source, .value = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error)};
    if (!root.value) {
        if (json_error_code(&error) == json_error_out_of_memory) return qs_fail(QS_OUT_OF_MEMORY, "%s: no memory to parse it", source);
        return qs_fail(QS_BAD_FILE, "%s:%d:%d: %s", source, error.line, error.column, error.text);
    }
    const qs__place schema = qs__member(&root, "schema");
    const char *text = json_string_value(schema.value);
    const qs_status status = !json_is_object(root.value) ? qs__refuse_type(&root, "an object")
                             : !schema.value ? qs__refuse_value(&root, "field \"schema\" is missing, must be \"" QS_SCHEMA("%s") "\"", kind)
                             : !text         ? qs__refuse_type(&schema, "a text")
                                             : qs_schema_check(source, text, kind);
    if (status == QS_OK)
        *out = root;
    else
        json_decref(root.value);
    return status;
}
