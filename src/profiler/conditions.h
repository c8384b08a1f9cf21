// SPDX-License-Identifier: Apache-2.0
/* Under which conditions a class is measured (conditions.c). */
#ifndef QSYNC_PROFILER_CONDITIONS_H
#define QSYNC_PROFILER_CONDITIONS_H

#include "profiler_internal.h"

/* Counters of process and machine when measuring began. */
typedef struct qs__conditions_start {
    double clock, load, waited, stolen, ticks; /* seconds; processes; seconds; ticks of all cores */
    long preemptions;
} qs__conditions_start;
void qs__conditions_begin(qs__conditions_start *out);
/* What came of it since. What the system does not tell stays 0. */
void qs__conditions_end(const qs__conditions_start *start, bool pinned, const char *communicator, qs_conditions *out);

#endif
