// SPDX-License-Identifier: Apache-2.0
/* Plans that `profile` times beside its own, and what it then predicts for them. */
#ifndef QSYNC_CLI_PROFILE_CHECK_H
#define QSYNC_CLI_PROFILE_CHECK_H

#include "cli.h"

enum { MOST_CHECKS = 64 };

typedef struct profile_checks {
    int count;
    qs_plan plan[MOST_CHECKS];
    char *file[MOST_CHECKS];
} profile_checks;

/* Reads the files of a list with commas; NULL: none. */
qs_status profile_checks_read(const char *list, profile_checks *out);
void profile_checks_release(profile_checks *checks);
/* Fills the predictions of the checks that the profile has. */
qs_status profile_checks_predict(const profile_checks *checks, const qs_cluster *cluster, const qs_job *job, qs_profile *profile);
/* The mean and the worst error; nothing where the profile has none. */
void profile_checks_print(const qs_profile *profile);

#endif
