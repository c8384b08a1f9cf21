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
 * memory that this process does not see. With QSYNC_TEST_DEVICE=cuda it is a GPU: a double of one (QSYNC_CUDA_LIBRARIES), or, with
 * QSYNC_TEST_CUDA_REAL=1, the one that is there; of its multiprocessors QSYNC_TEST_CUDA_PART (not said: all). */
static inline qs_device_options device_options(const char *backend, const char *isa, int threads, double speed) {
    const char *other = getenv("QSYNC_TEST_DEVICE"), *real = getenv("QSYNC_TEST_CUDA_REAL"), *part = getenv("QSYNC_TEST_CUDA_PART");
    qs_device_options options = {.backend = backend, .isa = isa, .threads = threads, .speed = speed};
    if (other && strcmp(other, "cuda") == 0) {
        options.backend = "cuda";
        options.cuda.multiprocessors = part ? atoi(part) : 0;
        if (real && strcmp(real, "1") == 0) unsetenv("QSYNC_CUDA_LIBRARIES");
    }
    if (other && strcmp(other, "far") == 0) {
        options.backend = "far";
        options.far = (qs_far_options){.runs = backend, .bytes_per_second = 4e9, .latency_us = 20};
    }
    return options;
}

/* Whether devices of tests keep their memory where this process does not see it. */
static inline bool memory_is_elsewhere(void) {
    return strcmp(device_options("ref", NULL, 1, 1).backend, "ref") != 0;
}

/* cpu, or ref in builds without it. */
static inline const char *fast_backend(void) {
    return backend_exists("cpu") ? "cpu" : "ref";
}

#endif
