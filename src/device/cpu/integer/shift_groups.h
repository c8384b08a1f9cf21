// SPDX-License-Identifier: Apache-2.0
/* Codes with shift groups as factors of one plain integer product of the kernel library: forward and input gradient. Without groups these
 * are the operands themselves. */
#ifndef QSYNC_DEVICE_CPU_SHIFT_GROUPS_H
#define QSYNC_DEVICE_CPU_SHIFT_GROUPS_H

#include "cpu/cpu.h"

/* QS_UNSUPPORTED where the shifts do not fit into the codes' bytes, or sums into 32 bits. */
qs_status qs__shift_groups_check(const qs__chain *chain);
/* Slot of src or diff_dst, and of weights, as the product takes them; adds the calls that write them. */
int qs__shift_groups_left(qs__chain *chain, const qs__layout *layout);
int qs__shift_groups_right(qs__chain *chain, const qs__layout *layout);
/* Slot of the weights turned for the input gradient as a forward convolution: [I, O, kh, kw], taps in reverse. */
int qs__shift_groups_turned(qs__chain *chain, const qs__layout *layout);

#endif
