// SPDX-License-Identifier: Apache-2.0
/* What indicators share: the question they answer. */
#ifndef QSYNC_INDICATOR_INTERNAL_H
#define QSYNC_INDICATOR_INTERNAL_H

#include "qsync/indicator.h"

typedef struct qs_question {
    qs_convention convention;
    const qs_graph *graph;
    const qs_profile *profile;
    int64_t batch, global_batch;
    int recipes;
    const qs_recipe *recipe;
    uint64_t seed;
} qs_question;

typedef qs_status (*qs_indicator)(const qs_question *question, double *omega);
#define QS_INDICATOR(name) qs_status qs__indicator_##name(const qs_question *question, double *omega);
#include "indicators.def"
#undef QS_INDICATOR

/* Sensitivity of a node to a recipe in one profiled iteration, rescaled to the job's batch; QS_MISMATCH when the profile lacks the
 * operator. */
qs_status qs__sensitivity(const qs_question *question, int node, int iteration, const int *depth, const qs_recipe *recipe,
                          qs_sensitivity *out);

#endif
