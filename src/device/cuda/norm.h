// SPDX-License-Identifier: Apache-2.0
/* What the families of normalisations share. */
#ifndef QSYNC_DEVICE_CUDA_NORM_H
#define QSYNC_DEVICE_CUDA_NORM_H

#include "cuda/columns.h"
#include "cuda/norm_jobs.h"

/* Blocks of a multiprocessor that walk columns: of sums as many as it holds, so that few are added up; of values more, for an even end. */
enum { QS__SUM_BLOCKS = QS__COLUMN_BLOCKS, QS__VALUE_BLOCKS = 4 * QS__COLUMN_BLOCKS };

/* What qs_norm of the case's operator says, once operands are known; rms_norm, which has none, goes by squares that are not centred. */
qs__norm_rule qs__norm_rule_of(const qs__cuda_kernel *kernel);
/* The relu behind that attributes ask for; mask and absmax where the pass has them. */
qs__norm_behind qs__norm_behind_of(const qs__cuda_kernel *kernel);
/* The address of an operand that the pass may lack, or the case. */
CUdeviceptr qs__cuda_at_optional(const qs__cuda_kernel *kernel, qs_role role);

#endif
