// SPDX-License-Identifier: Apache-2.0
/* qsync bench --wires: what all-reduces on narrow wires take beside fp32. */
#ifndef QSYNC_CLI_BENCH_WIRES_H
#define QSYNC_CLI_BENCH_WIRES_H

#include "cli.h"

/* Started by the launcher: sums of `bytes` of gradients (fp32, whatever the wire) among its ranks, on every wire, through the window and by
 * the library, `rounds` times each, by turns, from values and residuals that have left the caches. From the start of the last rank to the
 * end of the last; of each the least time counts. One rank moves nothing: QS_USAGE, as for bytes that are no multiple of 4. */
qs_status bench_wires(int64_t bytes, int rounds, bool json);

#endif
