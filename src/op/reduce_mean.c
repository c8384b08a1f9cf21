// SPDX-License-Identifier: Apache-2.0
/* reduce_mean: means over the positions of each channel, the channels of each position, or all of a sample: sums in double, divided and
 * rounded once. */
#include "reduce.h"

#define EVERY(F, S, D, A) "reduce_mean/forward src=" F S " dst=" F D A, "reduce_mean/backward diff_dst=" F D " diff_src=" F S A

QS__REDUCE_SUMS(reduce_mean, true);
