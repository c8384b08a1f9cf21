// SPDX-License-Identifier: Apache-2.0
/* What is kept of a measurement under way (resume.c). */
#ifndef QSYNC_PROFILER_RESUME_H
#define QSYNC_PROFILER_RESUME_H

#include "profiler_internal.h"

/* Finished stages, in order. */
typedef enum qs__stage { QS__STAGE_NONE, QS__STAGE_PLANS, QS__STAGE_CONVERSIONS, QS__STAGE_COLLECTIVES, QS__STAGE_STATISTICS } qs__stage;

/* Takes over what an interrupted measurement of the same options left: into profiler, and conversions, all-reduces and statistics into
 * `mine` and `all`. *stage receives the last stage that all ranks have finished. Collective. */
qs_status qs__resume_load(qs__profiler *profiler, qs_profile *mine, qs_profile *all, qs__stage *stage);
/* Keeps what is there; a file that cannot be written is a warning, the measurement goes on. Not collective. */
void qs__resume_save(const qs__profiler *profiler, qs__stage stage);

#endif
