// SPDX-License-Identifier: Apache-2.0
/* What `train --adapt` plans with. */
#ifndef QSYNC_CLI_ADAPT_H
#define QSYNC_CLI_ADAPT_H

#include "cli.h"

typedef struct adapt_session {
    const qs_cluster *cluster;
    const qs_job *job;
    const char *class_name; /* of this rank */
    qs_graph *graph;        /* rank 0: what is planned for */
    qs_profile profile;
    const char *planner;
    qs_plan_options options;
} adapt_session;

/* The profile, which must be the one that `plan` was made from; refuses plans that planning again would not give: assignments of formats
 * to tensors, accumulators of operators. Every rank by itself, before any of them opens a device. */
qs_status adapt_read(const char *profile_file, const qs_plan *plan, adapt_session *out);
/* The functions that train calls, every `every` steps; the session outlives them. Every rank by itself. */
qs_status adapt_begin(adapt_session *session, const worker *here, const qs_job *job, int64_t every, qs_adaptation *out);
void adapt_release(adapt_session *session);

#endif
