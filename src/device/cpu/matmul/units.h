// SPDX-License-Identifier: Apache-2.0
/* Products of two activations by our own kernels: every matrix of the result is a unit, which one thread forms in a scratch of its own. */
#ifndef QSYNC_DEVICE_CPU_MATMUL_UNITS_H
#define QSYNC_DEVICE_CPU_MATMUL_UNITS_H

#include "cpu/cpu.h"
#include "qsync/matmul.h"

/* Shares of the scratch. */
int64_t qs__matmul_slots(const qs_matmul *of);
/* Where the matrix of a head begins in an operand. */
static inline int64_t qs__matrix_at(const qs_matrices *of, int64_t sample, int64_t head) {
    return sample * of->sample + head / of->shared * of->head;
}
typedef void (*qs__matmul_unit)(const void *context, int64_t sample, int64_t head, char *scratch);
/* All units, by the threads; `scratch` has slot_bytes for each slot. */
void qs__matmul_units(const qs_matmul *of, char *scratch, size_t slot_bytes, qs__matmul_unit unit, const void *context);

#endif
