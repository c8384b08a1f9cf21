// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_CLI_ACCUM_H
#define QSYNC_CLI_ACCUM_H

#include "qsync/accumulator.h"
#include "cli.h"

/* accum_curve.c: the exponent n (1 - VRR) over the width, plain and in chunks, as a self-contained SVG file. */
qs_status accum_curve_write(const char *path, const qs_accumulation *sum, int normal_bits);

#endif
