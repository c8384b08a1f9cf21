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
    bool each; /* recipe[node × recipes + r]; else recipe[r] for all */
} qs_question;

static inline const qs_recipe *qs__recipe_of(const qs_question *question, int node, int recipe) {
    return &question->recipe[(question->each ? node * question->recipes : 0) + recipe];
}

typedef qs_status (*qs_indicator)(const qs_question *question, double *omega);
#define QS_INDICATOR(name) qs_status qs__indicator_##name(const qs_question *question, double *omega);
#include "indicators.def"
#undef QS_INDICATOR

/* QS_MISMATCH when the profile has no statistics at all, or none of this operator. */
qs_status qs__statistics_check(const qs_question *question);
qs_status qs__statistics_find(const qs_question *question, int node, const qs_operator_statistics **out);
/* Sensitivity of a node in one profiled iteration, rescaled to the job's batch; and of its weights alone, which have no batch. */
qs_status qs__sensitivity(const qs_question *question, int node, int iteration, const int *depth, qs_sensitivity *out);
qs_spread qs__weights_spread(const qs_operator_statistics *raw, int iteration);

#endif
