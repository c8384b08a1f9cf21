// SPDX-License-Identifier: Apache-2.0
/* Ground truth for the verb indicator: measured noise beside every indicator's. */
#ifndef QSYNC_CLI_GROUND_TRUTH_H
#define QSYNC_CLI_GROUND_TRUTH_H

#include "cli.h"

typedef struct ground_truth_options {
    job_options job;
    worker_options where;
    const char *class_name; /* of --cluster; NULL: its only class */
    int seeds, batches, warm_up;
    bool stochastic_floats;
    const char *out; /* NULL: nothing is written */
} ground_truth_options;

void ground_truth_options_add(ground_truth_options *options, option_table *table);
/* QS_USAGE when one of them was given without --ground-truth. */
qs_status ground_truth_options_refuse(const option_table *table);

/* Measures on this process and prints. recipes 0: those of the class. Indicators are evaluated at the batch of the truth; those for which
 * the profile lacks something are left out with a warning. */
qs_status ground_truth_run(ground_truth_options *options, const option_table *table, const qs_profile *profile, int recipes,
                           const qs_recipe *recipe, bool json);

#endif
