// SPDX-License-Identifier: Apache-2.0
/* What the families of our own kernels share. They work on fp32 and bf16; operands in other float formats are widened into fp32 scratch
 * before, and rounded back after. */
#ifndef QSYNC_DEVICE_CPU_STAGING_H
#define QSYNC_DEVICE_CPU_STAGING_H

#include "cpu/cpu.h"

/* Elements that one thread takes at least: a cache's worth; a multiple of 16, so that mask bytes are never shared. */
enum { QS__GRAIN = 16384 };

/* Makes the chain: steps that widen what is read, `call`, steps that round what is written, under the name "own:<family>:<isa>". */
qs_status qs__staged_build(qs__chain *chain, const char *family, qs__call call);
/* The same of a kernel that moves codes of 1, 2 or 4 bytes as they are, under the name "own:<operator>": it is the same at every
 * ceiling. */
qs_status qs__moving_build(qs__chain *chain, qs__call call);
/* An operand as the kernel sees it. */
qs__in qs__staged_in(const qs__chain *chain, qs_role role);
qs__out qs__staged_out(const qs__chain *chain, qs_role role);
qs__in qs__in_at(qs__in array, int64_t elements);
qs__out qs__out_at(qs__out array, int64_t elements);
/* Values of a native operand as fp32: where they lie, or read into `room`. */
const float *qs__staged_row(const qs__cpu_kernels *kernels, qs__in from, int64_t count, float *room);
/* The other way, rounded to the nearest where the operand is bf16; values may already lie where they belong. */
void qs__staged_row_write(int64_t count, const float *values, qs__out to);

/* The optional operand absmax, set to 0; NULL where it is absent, or where `written` goes through fp32 scratch: what is stored in the end
 * is looked at then. */
float *qs__staged_absmax(const qs__chain *chain, qs_role written);
/* Raises it, unless it is NULL, to the bits of a magnitude (vector/kernels.h: `largest`); whichever thread comes first, the end is one. */
void qs__staged_absmax_raise(float *absmax, uint32_t largest);

/* Rows × channels of an activation: channels-last storage. */
typedef struct qs__rows {
    int64_t rows, channels;
} qs__rows;
qs__rows qs__rows_of(const qs_case *one, qs_role role);

#endif
