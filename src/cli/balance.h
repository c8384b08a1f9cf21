// SPDX-License-Identifier: Apache-2.0
/* What ranks of one host take of each other when all of them compute all the while. */
#ifndef QSYNC_CLI_BALANCE_H
#define QSYNC_CLI_BALANCE_H

#include "cli.h"

/* Times plans of balanced ranks, all together, and has the profile's times beside busy ranks such that these are predicted right
 * (`beside` of a class). Rank 0 has the profile, as it was measured by these options; collective. Nothing is done where no two ranks
 * share a host, for several lengths, and where no assignment of formats gives the ranks about as much to do. */
qs_status profile_balance(const job_options *job, const worker *here, const qs_profile_options *options, qs_profile *profile);

#endif
