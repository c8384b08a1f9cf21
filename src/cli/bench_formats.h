// SPDX-License-Identifier: Apache-2.0
/* qsync bench --formats: how fast arrays are rounded, packed, unpacked and quantized, beside a plain copy. */
#ifndef QSYNC_CLI_BENCH_FORMATS_H
#define QSYNC_CLI_BENCH_FORMATS_H

#include "cli.h"

/* 64 MiB of fp32 values, `rounds` times each: rounding in place (per format and rounding), rounding in place with packing, unpacking (per
 * format), and stochastic codes of int8 in one step, from those values and from as many of bf16. Gigabytes moved a second at best, and
 * their fraction of what a copy of the same array moves at best: the copy that refills the array before every measurement. One thread is
 * timed by its processor time. */
qs_status bench_formats(int threads, const char *isa, int rounds, bool json);

#endif
