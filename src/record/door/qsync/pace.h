// SPDX-License-Identifier: Apache-2.0
/* record: how fast classes are beside their profiles, and records of it over the steps of a run (docs/adapting.md). */
#ifndef QSYNC_PACE_H
#define QSYNC_PACE_H

#include "qsync/record.h"

/* How fast a class is beside its profile: 1 as profiled, 0.5 takes twice as long. */
typedef struct qs_pace {
    double compute; /* kernels of adjustable operators (QS_ADJUSTABLE) */
    double memory;  /* all others, conversions among them: they move data */
    double all_reduce;
} qs_pace;

/* A recorded pace: from its step on a class runs at that of a point, until its next one; before its first one, at 1. All-reduces: 1. */
typedef struct qs_pace_point {
    int64_t step; /* from 0; ascending */
    int class_index;
    qs_pace pace;
} qs_pace_point;
typedef struct qs_pace_trace {
    int points;
    size_t room;
    qs_pace_point *point;
} qs_pace_trace;
/* Text: a line a point, `STEP CLASS COMPUTE [MEMORY]` with blanks between, steps from 1 on and none before that of the line above, paces
 * from 0.01 to 1, MEMORY that of COMPUTE where it is left out; `#` and what is behind it is a comment. QS_BAD_FILE names source and line.
 * Release with qs_pace_trace_release. */
QS_API qs_status qs_pace_trace_read(const char *path, const qs_cluster *cluster, qs_pace_trace *out);
QS_API qs_status qs_pace_trace_parse(const char *text, const char *source, const qs_cluster *cluster, qs_pace_trace *out);
QS_API void qs_pace_trace_release(qs_pace_trace *trace);
QS_API qs_pace qs_pace_trace_at(const qs_pace_trace *trace, int class_index, int64_t step);

#endif
