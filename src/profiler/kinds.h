// SPDX-License-Identifier: Apache-2.0
/* The kinds of conversions that a class is fitted for (kinds.c). */
#ifndef QSYNC_PROFILER_KINDS_H
#define QSYNC_PROFILER_KINDS_H

#include "profiler_internal.h"

#include "qsync/costmodel.h"

typedef struct qs__kinds {
    qs_case *kind;   /* each stands for all cases that the cost model prices by the same fit; shapes mean nothing */
    int count, seen; /* the first `seen` ones are placed by schedules of the model */
    size_t capacity;
} qs__kinds;
/* Caller frees out->kind. */
qs_status qs__kinds_list(qs__profiler *profiler, qs__kinds *out);

/* Adds the kind of a case unless it is there; nothing where the device has no kernel for it, or one that wants scratch. */
qs_status qs__kind_wish(qs__profiler *profiler, const qs_case *one, qs__kinds *kinds);

/* The class stores float formats that it does not compute in: tensors may be assigned to them, which is simulated in fp32. */
bool qs__class_simulates(const qs_class *one);
/* simulated.c, for classes that store float formats which they do not compute in: the kinds of rounding to them, and the cases of any size
 * (qs_case_of_any_size) that assigning tensors to them needs, which join the profiler's as conversions. */
qs_status qs__simulated_kinds(qs__profiler *profiler, qs__kinds *kinds);
qs_status qs__simulated_cases(qs__profiler *profiler);

#endif
