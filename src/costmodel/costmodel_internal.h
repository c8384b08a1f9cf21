// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share. */
#ifndef QSYNC_COSTMODEL_INTERNAL_H
#define QSYNC_COSTMODEL_INTERNAL_H

#include "qsync/costmodel.h"

/* cache.c: corrects the mean times of a schedule's kernels for what they find in the caches; does nothing without the class's cache_bytes.
 * */
qs_status qs__cache_adjust(const qs_class_profile *profile, const qs_schedule *schedule, double *us);
/* The same for one step that finds `cold` bytes cold. */
void qs__step_adjust(const qs_class_profile *profile, const qs_step *step, int64_t cold, double *us);

#endif
