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

/* A device of a test. With QSYNC_TEST_DEVICE=far it is one whose child process runs the backend that was asked for: the same bits, in
 * memory that this process does not see. */
static inline qs_device_options device_options(const char *backend, const char *isa, int threads, double speed) {
    const char *far = getenv("QSYNC_TEST_DEVICE");
    qs_device_options options = {.backend = backend, .isa = isa, .threads = threads, .speed = speed};
    if (far && strcmp(far, "far") == 0) {
        options.backend = "far";
        options.far = (qs_far_options){.runs = backend, .bytes_per_second = 4e9, .latency_us = 20};
    }
    return options;
}

/* Whether devices of tests keep their memory in another process. */
static inline bool memory_is_elsewhere(void) {
    return strcmp(device_options("ref", NULL, 1, 1).backend, "far") == 0;
}

/* cpu, or ref in builds without it. */
static inline const char *fast_backend(void) {
    return backend_exists("cpu") ? "cpu" : "ref";
}

#endif
