// SPDX-License-Identifier: Apache-2.0
/* What the doubles of CUDA's libraries ask of the double of its driver (driver.cpp): their work goes into its streams. */
#ifndef QSYNC_TESTS_DOUBLE_H
#define QSYNC_TESTS_DOUBLE_H

#include "shim.h"

#include <cuda.h>
#include <functional>

#define QS_DOUBLE_API __attribute__((visibility("default")))

/* Puts work at the end of a stream; it runs when somebody waits for it. `what` names it in messages. */
QS_DOUBLE_API void qs_double_put(CUstream stream, const char *what, std::function<void()> work);
/* Ends the process unless [at, at + bytes) is memory of the device, or of the host that the device sees. For work that runs. */
QS_DOUBLE_API void qs_double_check_memory(const char *what, CUdeviceptr at, size_t bytes);
/* The same of a stream, and of a context that is current in this thread. */
QS_DOUBLE_API void qs_double_check_stream(const char *what, CUstream stream);
QS_DOUBLE_API void qs_double_check_current(const char *what);
/* The same unless kernels that fill so many multiprocessors (0: all) are for as many as the current context has. */
QS_DOUBLE_API void qs_double_check_multiprocessors(const char *what, int fill);
/* Whether the current context has a part of its GPU's multiprocessors. */
QS_DOUBLE_API bool qs_double_on_a_part();
/* 90: 9.0 */
QS_DOUBLE_API int qs_double_capability();

#endif
