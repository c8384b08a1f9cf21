// SPDX-License-Identifier: Apache-2.0
/* What single kernels take in the steps of an executor (kernel_times.c), for `qsync bench`. */
#ifndef QSYNC_PROFILER_KERNEL_TIMES_H
#define QSYNC_PROFILER_KERNEL_TIMES_H

#include "profiler_internal.h"

/* Times of the kernels of one schedule in so many runs. */
typedef struct qs__kernel_times {
    const qs_schedule *schedule;
    int runs, run; /* room for, and the one at hand */
    double *us;    /* (schedule->steps × runs) */
} qs__kernel_times;
qs_status qs__kernel_times_create(const qs_schedule *schedule, int runs, qs__kernel_times *out);
void qs__kernel_times_release(qs__kernel_times *times);
/* A qs_step_observer whose context is a qs__kernel_times. */
void qs__kernel_times_add(void *times, const qs_schedule *schedule, int step, double seconds);
/* The median of a step of the schedule over the runs. */
double qs__kernel_times_median(const qs__kernel_times *times, int step);

/* Passes that would dequantize the results of integer products, run behind each of them and timed. */
typedef struct qs__dequantizing {
    qs_kernel **kernel; /* (schedule->steps) NULL behind all else */
    size_t *bytes;      /* (schedule->steps) of the sums */
    qs_arena arena;     /* sums, then values */
    qs__kernel_times times;
    qs_status status; /* the first failure of a pass */
} qs__dequantizing;
qs_status qs__dequantizing_create(const qs_schedule *schedule, int runs, qs_device *device, qs__dequantizing *out);
void qs__dequantizing_release(qs__dequantizing *passes);
/* A qs_step_observer whose context is a qs__dequantizing. */
void qs__dequantizing_kernel(void *passes, const qs_schedule *schedule, int step, double seconds);

/* The product that a step of a schedule is: its operands' format; NULL: it is none. */
const qs_format *qs__product_format(const qs_step *step);

#endif
