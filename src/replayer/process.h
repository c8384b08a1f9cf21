// SPDX-License-Identifier: Apache-2.0
/* What the kernels of a schedule hold of a process, by a profile (docs/method.md §4.7). */
#ifndef QSYNC_REPLAYER_PROCESS_H
#define QSYNC_REPLAYER_PROCESS_H

#include "qsync/costmodel.h"

typedef struct qs__process {
    const qs_class_profile *profile;
    int *first_of_kernel; /* (kernels of the profile) the first row with the same kernel: its code is there once */
    bool *met;            /* (kernels of the profile) by the schedule at hand */
    bool *counted;        /* (kernels of the profile) at a kernel's first row: its code is in the sum */
} qs__process;

qs_status qs__process_create(const qs_class_profile *profile, qs__process *out);
void qs__process_release(qs__process *process);
/* Of the schedule's own (`program`): each kernel, and once each case. `shared` with other programs of the process: pages of code. */
void qs__process_bytes(qs__process *process, const qs_schedule *schedule, int64_t *program, int64_t *shared);

#endif
