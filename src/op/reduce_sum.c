// SPDX-License-Identifier: Apache-2.0
/* reduce_sum: sums over the positions of each channel, the channels of each position, or all of a sample, in double, rounded once. */
#include "reduce.h"

#define EVERY(F, S, D, A) "reduce_sum/forward src=" F S " dst=" F D A, "reduce_sum/backward diff_dst=" F D " diff_src=" F S A

QS__REDUCE_SUMS(reduce_sum, false);
