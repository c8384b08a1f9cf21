// SPDX-License-Identifier: Apache-2.0
/* What a planner is asked about, as tests make it up: devices, their cluster, the job, the profile and options. Include after cmocka.h. */
#ifndef QSYNC_TESTS_PLANNER_SETTING_H
#define QSYNC_TESTS_PLANNER_SETTING_H

#include "../synthetic.h"
#include "qsync/planner.h"

enum { SETTING_MOST = 3 };

typedef struct setting {
    qs_graph *graph;
    int classes;
    synthetic_device device[SETTING_MOST]; /* not used by settings whose profile is estimated */
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
} setting;

static inline void setting_end(setting *one) {
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
    qs_graph_release(one->graph);
}

static inline qs_plan setting_plan(const setting *one, const char *planner) {
    qs_plan plan;
    assert_ok(qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan));
    return plan;
}

#endif
