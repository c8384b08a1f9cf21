// SPDX-License-Identifier: Apache-2.0
/* Which devices this build has. */
#ifndef QSYNC_TESTS_KIT_DEVICE_H
#define QSYNC_TESTS_KIT_DEVICE_H

#include "kit.h"
#include "qsync/device.h"

/* Whether this build has the backend. */
static inline bool backend_exists(const char *backend) {
    for (size_t i = 0; qs_device_backend_at(i); i++)
        if (strcmp(qs_device_backend_at(i), backend) == 0) return true;
    return false;
}

/* cpu, or ref in builds without it. */
static inline const char *fast_backend(void) {
    return backend_exists("cpu") ? "cpu" : "ref";
}

#endif
