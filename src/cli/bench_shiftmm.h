// SPDX-License-Identifier: Apache-2.0
/* qsync bench --shiftmm: products of 4 and 6 bits in shift groups beside int8, bf16 and fp32. */
#ifndef QSYNC_CLI_BENCH_SHIFTMM_H
#define QSYNC_CLI_BENCH_SHIFTMM_H

#include "cli.h"
#include "qsync/device.h"

/* Linear layers of 256 to 4096 and convolutions of resnets and a vision transformer, all kinds of one shape in turn, medians. */
qs_status bench_shiftmm(qs_device *device, int threads, bool json);

#endif
