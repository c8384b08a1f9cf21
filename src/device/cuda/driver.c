// SPDX-License-Identifier: Apache-2.0
/* Libraries found at run time. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* From the folders that QSYNC_CUDA_LIBRARIES lists, in their order, else as the system finds it; it stays open. */
static qs_status library_find(const char *file, void **library) {
    const char *folders = getenv("QSYNC_CUDA_LIBRARIES");
    *library = NULL;
    for (const char *at = folders; at && *at && !*library; at += strcspn(at, ":"), at += *at == ':') {
        char path[4096];
        const int length = (int)strcspn(at, ":");
        if (length > 0 && snprintf(path, sizeof path, "%.*s/%s", length, at, file) < (int)sizeof path)
            *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!*library) *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (*library) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "%s; name its folder in QSYNC_CUDA_LIBRARIES", dlerror());
}

qs_status qs__functions_find(const char *file, int count, const char *const *symbol, void *functions) {
    void *library;
    QS_TRY(library_find(file, &library));
    for (int i = 0; i < count; i++) {
        void *found = dlsym(library, symbol[i]);
        if (!found) return qs_fail(QS_UNSUPPORTED, "%s has no function %s: a newer version is needed", file, symbol[i]);
        memcpy((char *)functions + (size_t)i * sizeof found, &found, sizeof found);
    }
    return QS_OK;
}

static const char driver_file[] = "libcuda.so.1";

qs_status qs__driver_check(const qs__driver *driver, CUresult result, const char *what) {
    const char *text = NULL;
    if (result == CUDA_SUCCESS) return QS_OK;
    if (driver->error_string(result, &text) != CUDA_SUCCESS || !text) text = "an unknown error";
    return qs_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? QS_OUT_OF_MEMORY : QS_FAILED, "%s: the CUDA driver says %s (%d)", what, text,
                   (int)result);
}

qs_status qs__driver_open(const qs__driver **out) {
    static const char *const symbols[] = {
#define QS__DRIVER_SYMBOL(member, symbol, parameters) #symbol,
        QS__DRIVER_LIST(QS__DRIVER_SYMBOL)
#undef QS__DRIVER_SYMBOL
    };
    static qs__driver driver;
    static bool opened;
    *out = &driver;
    if (opened) return QS_OK;
    QS_TRY(qs__functions_find(driver_file, sizeof symbols / sizeof symbols[0], symbols, &driver));
    const CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
        (void)qs__driver_check(&driver, result, "no GPU can be used");
        return qs_fail_within(QS_UNSUPPORTED, "%s", driver_file);
    }
    opened = true;
    return QS_OK;
}
