// SPDX-License-Identifier: Apache-2.0
/* Where the cache of kernels is, and what becomes of a bad one. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

qs_status qs_tuning_path(char **out) {
    const char *chosen = getenv("QSYNC_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *out = NULL;
    if (chosen && strcmp(chosen, "off") == 0) return QS_OK;
    if (chosen && chosen[0]) return qs_format_text(out, "%s", chosen);
    if (caches && caches[0] == '/') return qs_format_text(out, "%s/qsync/tuning.sqlite", caches); /* relative ones do not count */
    if (home && home[0]) return qs_format_text(out, "%s/.cache/qsync/tuning.sqlite", home);
    return QS_OK;
}

qs_status qs_tuning_read(const char *path, const qs_device_info *device, qs_tuning *out) {
    *out = (qs_tuning){0};
    if (!path || !device->kernels[0]) return QS_OK;
    const qs_status status = qs__store_read(path, device, out);
    if (status == QS_OK || status == QS_OUT_OF_MEMORY) return status;
    if (status != QS_UNSUPPORTED)
        qs_log(QS_LOG_WARNING, "%s: the cache of kernels is left aside, kernels come in the usual order", qs_message());
    return QS_OK;
}

qs_status qs_timings_read(const char *path, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out) {
    *out = (qs_timings){0};
    if (!path || !device->kernels[0]) return QS_OK;
    const qs_status status = qs__timings_read(path, device, circumstances, since, out);
    if (status == QS_OK || status == QS_OUT_OF_MEMORY) return status;
    if (status != QS_UNSUPPORTED) qs_log(QS_LOG_WARNING, "%s: the cache of kernels is left aside, every case is measured", qs_message());
    return QS_OK;
}

static qs_status folder_make(const char *path) {
    char *folder = NULL;
    QS_TRY(qs_format_text(&folder, "%s", path));
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    const qs_status status = slash && slash != folder ? qs_folder_make(folder) : QS_OK;
    free(folder);
    return status;
}

qs_status qs_tuning_write(const char *path, const qs_device_info *device, const qs_tuning *tuning) {
    QS_TRY(folder_make(path));
    return qs__store_write(path, device, tuning);
}

qs_status qs_timings_write(const char *path, const qs_device_info *device, const char *circumstances, const qs_timings *timings) {
    if (!device->kernels[0]) return QS_OK;
    QS_TRY(folder_make(path));
    return qs__timings_write(path, device, circumstances, timings);
}
