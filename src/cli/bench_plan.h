// SPDX-License-Identifier: Apache-2.0
/* qsync bench --plan: how long planning takes, from scratch and again for another memory budget or other devices. */
#ifndef QSYNC_CLI_BENCH_PLAN_H
#define QSYNC_CLI_BENCH_PLAN_H

#include "cli.h"

/* Graphs of the size of resnet50 and of BERT-base, made-up costs, 16 training and 16 inference devices. */
qs_status bench_plan(bool json);

#endif
