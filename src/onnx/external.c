// SPDX-License-Identifier: Apache-2.0
/* Data outside of a model's file: in a file of the model's folder or below it, and nowhere else, however the name is written. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

/* No absolute path, and no part that is "..". */
static qs_status location_check(const char *location) {
    if (location[0] == '\0') return qs_fail(QS_BAD_FILE, "external data without a location");
    if (location[0] == '/') return qs_fail(QS_BAD_FILE, "external data in %s: must be a path below the model's folder", location);
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t length = strcspn(part, "/");
        if (length == 2 && memcmp(part, "..", 2) == 0)
            return qs_fail(QS_BAD_FILE, "external data in %s: \"..\" leaves the model's folder", location);
    }
    return QS_OK;
}

/* Where the path leads once all links are followed must be below the folder. */
static qs_status links_check(const char *folder, const char *path, const char *location) {
    char *real_folder = realpath(folder, NULL), *real_path = realpath(path, NULL);
    const size_t length = real_folder ? strlen(real_folder) : 0;
    const bool there = real_folder && real_path;
    const bool inside = there && strncmp(real_folder, real_path, length) == 0 && (length == 1 || real_path[length] == '/');
    free(real_folder);
    free(real_path);
    if (!there) return qs_fail(QS_BAD_FILE, "external data in %s: there is no such file beside the model", location);
    if (!inside) return qs_fail(QS_BAD_FILE, "external data in %s: where its links lead is not below the model's folder", location);
    return QS_OK;
}

qs_status qs__external_read(const qs__place *place, const char *location, int64_t offset, int64_t bytes, const void **data, size_t *got) {
    QS_TRY(location_check(location));
    if (!place->folder) return qs_fail(QS_UNSUPPORTED, "external data in %s: this model has no folder", location);
    char *path;
    QS_TRY(qs_path_join(place->folder, location, &path));
    const void *file = NULL;
    size_t size = 0;
    qs_status status = QS_OK;
    QS_GOTO(links_check(place->folder, path, location));
    QS_GOTO(qs__onnx_map_file(place->memory, path, &file, &size));
    if (offset < 0 || (uint64_t)offset > size)
        QS_GOTO(qs_fail(QS_BAD_FILE, "external data from offset %" PRId64 " of %s, which has %zu bytes", offset, location, size));
    const size_t left = size - (size_t)offset;
    if (bytes >= 0 && (uint64_t)bytes > left)
        QS_GOTO(qs_fail(QS_BAD_FILE, "external data of %" PRId64 " bytes from offset %" PRId64 " of %s, which has %zu bytes", bytes, offset,
                        location, size));
    *data = (const char *)file + offset;
    *got = bytes < 0 ? left : (size_t)bytes;
done:
    free(path);
    return status;
}
