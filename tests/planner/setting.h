// SPDX-License-Identifier: Apache-2.0
/* What a planner is asked about, as tests make it up: devices, their cluster, the job, the profile and options. Include after cmocka.h. */
#ifndef QSYNC_TESTS_PLANNER_SETTING_H
#define QSYNC_TESTS_PLANNER_SETTING_H

#include "kit/synthetic.h"
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

static inline void setting_refused(const setting *one, const char *planner, qs_status status, const char *part) {
    qs_plan plan;
    assert_refused(qs_plan_make(planner, one->graph, &one->cluster, &one->profile, &one->job, &one->options, &plan), status, part);
}

/* Two plans are the same, as the records have them. */
static inline void plans_equal_check(const qs_plan *left, const qs_plan *right) {
    char *one = NULL, *other = NULL;
    assert_ok(qs_plan_text(left, &one));
    assert_ok(qs_plan_text(right, &other));
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* The plan is the same when it comes back from its record. */
static inline void plan_round_trip_check(const qs_plan *plan) {
    char *text = NULL;
    qs_plan copy;
    assert_ok(qs_plan_text(plan, &text));
    assert_ok(qs_plan_parse(text, "plan", &copy));
    plans_equal_check(plan, &copy);
    free(text);
    qs_plan_release(&copy);
}

#endif
