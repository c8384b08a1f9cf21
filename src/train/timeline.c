// SPDX-License-Identifier: Apache-2.0
/* What one run of a schedule took, step by step, and the same by phases. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

qs_status qs_timeline_create(const qs_schedule *schedule, qs_timeline *out) {
    qs_timeline timeline = {.steps = schedule->steps, .buckets = schedule->buckets};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *timeline.end, &timeline.end));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *timeline.polled, &timeline.polled));
    QS_GOTO(qs_allocate((size_t)schedule->buckets, sizeof *timeline.complete, &timeline.complete));
    *out = timeline;
    return QS_OK;
done:
    qs_timeline_release(&timeline);
    return status;
}

void qs_timeline_release(qs_timeline *timeline) {
    free(timeline->end);
    free(timeline->polled);
    free(timeline->complete);
    *timeline = (qs_timeline){0};
}

void qs__timeline_start(qs_timeline *timeline) {
    memset(timeline->polled, 0, (size_t)timeline->steps * sizeof *timeline->polled);
    memset(timeline->complete, 0, (size_t)timeline->buckets * sizeof *timeline->complete);
    timeline->begin = qs_clock();
}

double qs__timeline_start_of(const qs_timeline *timeline, int step) {
    return step > 0 ? timeline->end[step - 1] : timeline->begin;
}

static double *phase_of(const qs_step *step, qs_phase_times *sum) {
    if (step->kind == QS_STEP_REDUCE_START) return &sum->communication_us;
    if (step->kind == QS_STEP_REDUCE_WAIT) return &sum->waiting_us;
    if (step->conversion) return &sum->cast_us;
    if (step->phase == QS_FORWARD) return &sum->forward_us;
    return step->phase == QS_BACKWARD ? &sum->backward_us : &sum->optimizer_us;
}

void qs_timeline_phases(const qs_timeline *timeline, const qs_schedule *schedule, qs_phase_times *sum) {
    for (int s = 0; s < timeline->steps; s++) {
        const double seconds = timeline->end[s] - qs__timeline_start_of(timeline, s);
        *phase_of(&schedule->step[s], sum) += 1e6 * (seconds - timeline->polled[s]);
        sum->communication_us += 1e6 * timeline->polled[s];
    }
}
