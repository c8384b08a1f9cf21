// SPDX-License-Identifier: Apache-2.0
/* A case at work on a device, for benchmarks of kernels: bound to memory of its own, which holds ordinary values, and timed. */
#ifndef QSYNC_BENCH_TIMED_H
#define QSYNC_BENCH_TIMED_H

#include "qsync/device.h"

typedef struct timed {
    qs_case one;
    qs_kernel_fact fact;
    qs_kernel *kernel;
    qs_memory *memory;
    qs_location data[QS_MAX_OPERANDS];
    double us; /* the least of all runs; INFINITY before the first */
} timed;

/* Checks the case and binds its kernel (a candidate's name; NULL: the device's own). Values are normal ones in activations, codes all over
 * their range, positive ones elsewhere. Release it also after a failure; fact and time stay. */
qs_status timed_make(qs_device *device, const qs_case *one, const char *kernel, timed *out);
void timed_release(timed *one);
/* Runs it once, by the device's clock. */
qs_status timed_run(timed *one);
/* The least time of `rounds` copies from one place to another, behind one that does not count. */
qs_status timed_copy(qs_device *device, qs_location from, qs_location to, size_t bytes, int rounds, double *us);

#endif
