// SPDX-License-Identifier: Apache-2.0
/* qsync bench --accum: how long the formula of variance retention takes. */
#ifndef QSYNC_CLI_BENCH_ACCUM_H
#define QSYNC_CLI_BENCH_ACCUM_H

#include "cli.h"

/* A sum of 10^9 products of 5 mantissa bits, one after the other: one evaluation at the width where it takes longest, and the search for
 * the width that is enough. */
qs_status bench_accum(bool json);

#endif
