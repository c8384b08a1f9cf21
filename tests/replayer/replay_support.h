// SPDX-License-Identifier: Apache-2.0
/* Small schedules by hand for tests of the replayer. Include after cmocka.h. */
#ifndef QSYNC_TESTS_REPLAY_SUPPORT_H
#define QSYNC_TESTS_REPLAY_SUPPORT_H

#include "kit/kit.h"
#include "qsync/replayer.h"

/* Kernel, start, kernel, wait, update: one bucket of 10 elements. */
enum { HAND_STEPS = 5 };
static qs_step hand_step[HAND_STEPS] = {{.kind = QS_STEP_KERNEL, .phase = QS_FORWARD},
                                        {.kind = QS_STEP_REDUCE_START, .phase = QS_BACKWARD},
                                        {.kind = QS_STEP_KERNEL, .phase = QS_BACKWARD},
                                        {.kind = QS_STEP_REDUCE_WAIT, .phase = QS_UPDATE},
                                        {.kind = QS_STEP_KERNEL, .phase = QS_UPDATE}};
static qs_bucket hand_bucket = {0, 10, 1, 3};
static const qs_schedule hand = {.steps = HAND_STEPS, .step = hand_step, .buckets = 1, .bucket = &hand_bucket, .wire = "fp32"};

static inline void near_within(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance)) fail_msg("got %.12g, expected %.12g within %g", got, expected, tolerance);
}

/* Sums of some hundred figures, in another order: a few thousand roundings of 1e-16. */
static inline void near(double got, double expected) {
    near_within(got, expected, 1e-9 * (1 + fabs(expected)));
}

/* Replays ranks whose all-reduce takes `us` and `cpu_share` of the compute thread; the caller releases. */
static inline qs_replay_result replay_with(int ranks, const qs_replay_rank *rank, double us, double cpu_share) {
    const qs_all_reduce_cost reduce = {.us = us, .cpu_share = cpu_share};
    qs_replay_result result;
    if (qs_replay(&(qs_replay_case){.reduce = &reduce, .ranks = ranks, .rank = rank, .with_events = true}, &result) != QS_OK)
        fail_msg("%s", qs_message());
    return result;
}

#endif
