// SPDX-License-Identifier: Apache-2.0
/* record: what a plan says of paces beside its own prediction: those without a class, and those that were measured. Part of record.h. */
#ifndef QSYNC_VERIFICATION_H
#define QSYNC_VERIFICATION_H

#include <stdbool.h>

#include "qsync/raw_statistics.h"

/* A prediction for a cluster with or without one class. Every rank keeps its local batch, so more ranks are a larger global batch. */
typedef struct qs_class_pace {
    char class_name[QS_NAME];
    double samples_per_second; /* of all ranks together; 0: no plan fits */
} qs_class_pace;

/* A round of a verification: the plan of that round, timed in turn with the uniform one, all ranks together. Microseconds of an iteration,
 * medians of steps in which no rank was disturbed. */
typedef struct qs_verification {
    double measured_us, uniform_us, predicted_us;
    double confidence; /* half the 95 % interval of measured_us / uniform_us, as a share */
    bool kept;         /* it keeps the uniform plan's pace, less the tolerance and what is not known */
} qs_verification;

#endif
