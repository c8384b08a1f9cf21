// SPDX-License-Identifier: Apache-2.0
/* Ranks with whole schedules of a small model, whose steps a test prices. Include after cmocka.h; the model is there from ranks_setup to
 * ranks_teardown, a test group's. */
#ifndef QSYNC_TESTS_RANKS_SUPPORT_H
#define QSYNC_TESTS_RANKS_SUPPORT_H

#include "replay_support.h"
#include "kit/synthetic.h"

enum { RANKS = 3 };

static qs_graph *ranks_graph;

static inline int ranks_setup(void **state) {
    (void)state;
    return qs_model_build("resnet8:width=0.5", NULL, &ranks_graph) != QS_OK;
}

static inline int ranks_teardown(void **state) {
    (void)state;
    qs_graph_release(ranks_graph);
    return 0;
}

typedef struct ranks {
    qs_schedule *schedule[RANKS];
    double *us[RANKS]; /* of each step; rank[r].step_us is the same memory */
    qs_replay_rank rank[RANKS];
} ranks;

/* One recipe for each rank, which is its class's name too; every step takes no time. */
static inline ranks ranks_make(const qs_job *job, const char *const recipe[RANKS]) {
    ranks all = {{0}, {0}, {{0}}};
    for (int r = 0; r < RANKS; r++) {
        all.schedule[r] = lower_uniform(ranks_graph, job, QS_MODE_TRAIN, recipe[r]);
        all.us[r] = calloc((size_t)all.schedule[r]->steps, sizeof(double));
        assert_non_null(all.us[r]);
        all.rank[r] = (qs_replay_rank){.class_name = recipe[r], .schedule = all.schedule[r], .step_us = all.us[r]};
    }
    return all;
}

static inline void ranks_end(ranks *all) {
    for (int r = 0; r < RANKS; r++) {
        qs_schedule_release(all->schedule[r]);
        free(all->us[r]);
    }
}

#endif
