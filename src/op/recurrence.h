// SPDX-License-Identifier: Apache-2.0
/* recurrence: its reference kernels. */
#ifndef QSYNC_OP_RECURRENCE_H
#define QSYNC_OP_RECURRENCE_H

#include "internal.h"
#include "qsync/recurrence.h"

qs_status qs__recurrence_forward(const qs_case *one, const qs_tensor *operands, const qs_run *run);
qs_status qs__recurrence_backward(const qs_case *one, const qs_tensor *operands, const qs_run *run);

#endif
