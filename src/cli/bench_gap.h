// SPDX-License-Identifier: Apache-2.0
/* qsync bench --gap: how far planners are from the optimum. */
#ifndef QSYNC_CLI_BENCH_GAP_H
#define QSYNC_CLI_BENCH_GAP_H

#include "cli.h"

/* Random models of up to 12 adjustable operators with made-up costs, with and without a memory limit: ΣΩ of planner qsync above that of
 * planner exact, which the tests hold to asking for every plan, in per cent. */
qs_status bench_gap(bool json);

#endif
