// SPDX-License-Identifier: Apache-2.0
/* The kinds of conversions that a class is fitted for (kinds.c). */
#ifndef QSYNC_PROFILER_KINDS_H
#define QSYNC_PROFILER_KINDS_H

#include "timing/timing.h"

typedef struct qs__kinds {
    qs_case *kind; /* each stands for all cases that the cost model prices by the same fit; shapes mean nothing */
    int count;
    size_t capacity;
} qs__kinds;
/* `cases`: of the plans of the class. Caller frees out->kind. */
qs_status qs__kinds_list(const qs_class *class_, const qs__cases *cases, qs__kinds *out);

#endif
