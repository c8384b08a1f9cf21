// SPDX-License-Identifier: Apache-2.0
/* What qsync inspect answers in files of their own: --memory, the arena of a training step, before anything is profiled; --blocks, the
 * model's repeating parts; --groups, the tensors that assignments of formats change together. */
#ifndef QSYNC_CLI_INSPECT_H
#define QSYNC_CLI_INSPECT_H

#include "cli.h"

typedef struct memory_question {
    const qs_graph *graph;
    bool own_input;                /* its input was asked for, or is a file's; else a plan's data set decides */
    int64_t batch;                 /* 0: the plan's, or 1 */
    const char *recipe;            /* of every adjustable operator, unless there is a plan */
    const char *recompute;         /* blocks that are computed again, unless there is a plan */
    const char *plan, *class_name; /* file and class; NULL: none, its first */
    const char *optimizer, *wire;  /* unless there is a plan */
    const char *backend;           /* NULL: the best of this build */
} memory_question;

qs_status memory_inspect(const memory_question *question, bool json);
qs_status blocks_inspect(const qs_graph *graph, bool json);
qs_status groups_inspect(const qs_graph *graph, int64_t batch, bool json);

/* The tensors of a weights file (inspect_weights.c), which its name tells. */
bool is_weights_file(const char *path);
qs_status weights_inspect(const char *path, bool json);

#endif
