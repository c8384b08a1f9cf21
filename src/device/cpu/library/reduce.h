// SPDX-License-Identifier: Apache-2.0
/* Sums whose order depends on shapes only, never on threads or instruction sets. */
#ifndef QSYNC_DEVICE_CPU_REDUCE_H
#define QSYNC_DEVICE_CPU_REDUCE_H

#include "cpu/cpu.h"

/* sum[c] = Σ_r src[r, c] for a rows × columns matrix of a float format; every column is summed from the first row to the last in double. */
void qs__sum_columns(const qs__cpu *cpu, const qs_format *format, int64_t rows, int64_t columns, const void *src, float *sum);

#endif
