// SPDX-License-Identifier: Apache-2.0
/* What prices of whole schedules and those of changes share (cost.c). */
#ifndef QSYNC_COSTMODEL_INTERNAL_H
#define QSYNC_COSTMODEL_INTERNAL_H

#include "qsync/costmodel.h"

/* Of a kernel that takes `us` where it is started by itself: in a recording of the device. profile->recorded is not 0. */
double qs__step_recorded(const qs_class_profile *profile, const qs_step *step, double us);
/* Whether a step whose kernels take so long all together, either way, is started as recordings. */
bool qs__is_recorded(const qs_class_profile *profile, qs_start start, double one_by_one_us, double recorded_us);

#endif
