// SPDX-License-Identifier: Apache-2.0
/* Reference values for tests: the folder named by QSYNC_VECTORS, else vectors/ in the folder QS_TEST_SHARED. */
#ifndef QSYNC_TESTS_KIT_VECTORS
#define QSYNC_TESTS_KIT_VECTORS

#include "kit.h"

#include <jansson.h>

/* The parsed file, or NULL when no vectors are at hand; a file that is there but unreadable fails the test. */
static inline json_t *vectors_load(const char *name) {
    char path[4096];
    const char *folder = getenv("QSYNC_VECTORS"), *shared = getenv("QS_TEST_SHARED");
    if (folder)
        snprintf(path, sizeof path, "%s/%s", folder, name);
    else if (shared)
        snprintf(path, sizeof path, "%s/vectors/%s", shared, name);
    else
        return NULL;
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    json_error_t error;
    json_t *root = json_loadf(file, 0, &error);
    fclose(file);
    if (!root) fail_msg("%s:%d:%d: %s", path, error.line, error.column, error.text);
    return root;
}

static inline double vectors_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("vector without number %s", key);
    return json_number_value(value);
}

/* The numbers of a list; `out` has room for them. */
static inline void vectors_list(const json_t *object, const char *key, float *out) {
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list)) fail_msg("vector without list %s", key);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

#endif
