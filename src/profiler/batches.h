// SPDX-License-Identifier: Apache-2.0
/* Kernels at other local batches than the job's: steps timed at some (batches.c), rows for all between them (grid.c). */
#ifndef QSYNC_PROFILER_BATCHES_H
#define QSYNC_PROFILER_BATCHES_H

#include "profiler_internal.h"

/* The class at one more batch: a measurement of its own that shares model, data and device with the first. */
typedef struct qs__batch {
    qs_job job; /* the job with this batch */
    qs_profile_options options;
    qs__profiler profiler;
    qs_class_profile rows; /* of its kernels; conversions are borrowed from the class */
} qs__batch;

typedef struct qs__batches {
    int count;
    qs__batch *at; /* (count) ascending */
} qs__batches;

qs_status qs__batches_check(const qs_profile_options *options);
/* Collective; nothing where no batches are asked for. Release also after a failure. */
qs_status qs__batches_measure(qs__profiler *profiler, qs__batches *out);
/* Adds the rows of all batches to the finished class, and their list to the profile. */
qs_status qs__batches_fill(qs__profiler *profiler, qs__batches *batches, qs_class_profile *out, qs_profile *all);
void qs__batches_release(qs__batches *batches);

/* grid.c: rows of the batches in all->batch_row, whose measured ones have theirs in `batches` or, the job's own, in *out. */
qs_status qs__grid_fill(qs__profiler *profiler, const qs__batches *batches, const qs_profile *all, qs_class_profile *out);

#endif
