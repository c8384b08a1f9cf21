// SPDX-License-Identifier: Apache-2.0
/* What is kept of a measurement under way (resume.c). */
#ifndef QSYNC_PROFILER_RESUME_H
#define QSYNC_PROFILER_RESUME_H

#include "timing/timing.h"

/* Finished stages, in order. */
typedef enum qs__stage { QS__STAGE_NONE, QS__STAGE_PLANS, QS__STAGE_CONVERSIONS, QS__STAGE_COLLECTIVES, QS__STAGE_STATISTICS } qs__stage;

/* Where a measurement has what it found. */
typedef struct qs__found {
    const qs__setting *setting;
    qs__cases *cases;
    qs__step_figures *figures;
    int kinds_done;         /* of conversions */
    qs_profile *mine, *all; /* this rank's class; all-reduces and statistics */
} qs__found;

/* Takes over what an interrupted measurement of the same options left. *stage receives the last stage that all ranks have finished.
 * Collective. */
qs_status qs__resume_load(qs__found *found, qs__stage *stage);
/* Keeps what is there; a file that cannot be written is a warning, the measurement goes on. Not collective. */
void qs__resume_save(const qs__found *found, qs__stage stage);

#endif
