// SPDX-License-Identifier: Apache-2.0
/* Running kernels that the shim made functions of. */
#ifndef QSYNC_TESTS_SHIM_H
#define QSYNC_TESTS_SHIM_H

#include <cstddef>

struct qs_shim_kernel;

/* NULL: no kernel has this name. */
const qs_shim_kernel *qs_shim_find(const char *name);
size_t qs_shim_job_bytes(const qs_shim_kernel *kernel);
/* Runs every block of the grid, one after the other. */
void qs_shim_run(const qs_shim_kernel *kernel, const void *job, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes);
/* Ends the process with a message on stderr; also for the doubles of other libraries. */
[[noreturn]] __attribute__((visibility("default"))) void qs_shim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
