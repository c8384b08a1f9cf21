// SPDX-License-Identifier: Apache-2.0
/* qsync bench --narrow: products in narrow accumulators beside the same ones in fp32. */
#ifndef QSYNC_CLI_BENCH_NARROW_H
#define QSYNC_CLI_BENCH_NARROW_H

#include "cli.h"

/* Convolutions of resnet20 and resnet18, and two linear layers, in all three passes, by every adder, in chunks and not, from FP8 (e5m2) and
 * from fp32 operands: the time of the device's fp32 kernel over that of the narrow one, each the least of `rounds` taken in turn. */
qs_status bench_narrow(int threads, const char *isa, int rounds, bool json);

#endif
