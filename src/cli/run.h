// SPDX-License-Identifier: Apache-2.0
/* qsync run: what its stages share, and the stage that verifies a plan. */
#ifndef QSYNC_CLI_RUN_H
#define QSYNC_CLI_RUN_H

#include "cli.h"

/* In the run's folder (docs/running.md). */
typedef enum run_file {
    COMMAND,
    PROFILE_FILE,
    PLAN_FILE,
    VERIFIED,
    CORRECTED,
    TRAINING,
    RESULT,
    WEIGHTS,
    STATE,
    STATE_ASIDE,
    EVALUATION,
    FILES
} run_file;

typedef struct run_work {
    job_options job;
    worker_options where;
    qs_plan_options options;
    qs_profile_options profiling; /* as asked for; profile_options_begin says the rest */
    const char *planner, *folder, *last, *wires;
    char *path[FILES];
    int rounds;
    int64_t training_limit, test_limit;
    bool json, fresh, accept_noise;
    const worker *here;
    qs_graph *graph; /* rank 0 alone has these three */
    qs_profile profile;
    qs_plan plan;
    const char *profile_from; /* where the profile came from, for the summary */
} run_work;

/* Rank 0's plan on all ranks; release with qs_plan_release. */
qs_status run_plan_share(qs_comm *comm, const qs_plan *mine, qs_plan *out);
/* Times work->plan in turn with the uniform plan. While it does not keep that one's pace, corrects the profile by what was found and plans
 * again, work->rounds at most; then the uniform plan is the plan. Collective, options being those of profiling; rank 0's plan ends with its
 * verification, the profile with its corrections: *corrected tells whether there are any. */
qs_status run_verify(run_work *work, const qs_profile_options *options, bool *corrected);

#endif
