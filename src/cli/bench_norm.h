// SPDX-License-Identifier: Apache-2.0
/* qsync bench --norm: how fast the normalisations are beside batch_norm. */
#ifndef QSYNC_CLI_BENCH_NORM_H
#define QSYNC_CLI_BENCH_NORM_H

#include "cli.h"

/* Forward and backward passes of the normalisations that models take, over shapes of built-in models in fp32 and bf16, run in turn for so
 * many rounds; of each the least time counts. l1_over_l2 is the speed of l1bn over that of l2bn, l1q_over_l2 that of l1bnq, whose codes are
 * there; l1q_with_codes_over_l2 counts finding the maximum of the values and making codes of them as well; ln_over_l2 and l1ln_over_l2
 * are those of layer norms. The fraction of the roofline is the time that the bytes of the pass, each operand once, take to be copied, over
 * the pass's time. */
qs_status bench_norm(qs_device *device, int rounds, bool json);

#endif
