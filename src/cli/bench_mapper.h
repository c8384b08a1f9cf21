// SPDX-License-Identifier: Apache-2.0
/* qsync bench --mapper: how long a change of one operator takes in the cost mapper. */
#ifndef QSYNC_CLI_BENCH_MAPPER_H
#define QSYNC_CLI_BENCH_MAPPER_H

#include "cli.h"

/* A chain of residual blocks of at least so many operators, made-up costs, random changes. */
qs_status bench_mapper(int operators, bool json);

#endif
