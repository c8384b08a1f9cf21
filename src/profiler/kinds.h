// SPDX-License-Identifier: Apache-2.0
/* The kinds of conversions that a class is fitted for (kinds.c). */
#ifndef QSYNC_PROFILER_KINDS_H
#define QSYNC_PROFILER_KINDS_H

#include "profiler_internal.h"

typedef struct qs__kinds {
    qs_case *kind;   /* each stands for all cases that the cost model prices by the same fit; shapes mean nothing */
    int count, seen; /* the first `seen` ones are placed by schedules of the model */
    size_t capacity;
} qs__kinds;
/* Caller frees out->kind. */
qs_status qs__kinds_list(qs__profiler *profiler, qs__kinds *out);

#endif
