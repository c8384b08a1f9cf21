// SPDX-License-Identifier: Apache-2.0
/* Timelines: when each step of a run ended, which the executor notes, and what that comes to by phases. */
#include "train_internal.h"

#include <stdlib.h>

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

double qs__timeline_start_of(const qs_timeline *timeline, int step) {
    return step > 0 ? timeline->end[step - 1] : timeline->begin;
}

double qs_timeline_seconds(const qs_timeline *timeline, int step) {
    return timeline->end[step] - qs__timeline_start_of(timeline, step);
}

static const char *const phase_names[QS_PHASE_TIMES] = {"forward", "backward", "cast", "communication", "waiting", "optimizer", "data"};

const char *qs_phase_times_name(int index) {
    return phase_names[index];
}

double qs_phase_times_at(const qs_phase_times *times, int index) {
    const double all[QS_PHASE_TIMES] = {times->forward_us, times->backward_us,  times->cast_us, times->communication_us,
                                        times->waiting_us, times->optimizer_us, times->data_us};
    return all[index];
}

void qs_timeline_phases(const qs_timeline *timeline, const qs_schedule *schedule, qs_phase_times *sum) {
    for (int s = 0; s < timeline->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const double us = 1e6 * (timeline->end[s] - qs__timeline_start_of(timeline, s) - timeline->polled[s]);
        sum->communication_us += 1e6 * timeline->polled[s];
        if (step->kind == QS_STEP_REDUCE_START)
            sum->communication_us += us;
        else if (step->kind == QS_STEP_REDUCE_WAIT)
            sum->waiting_us += us;
        else if (step->conversion)
            sum->cast_us += us;
        else if (step->phase == QS_FORWARD)
            sum->forward_us += us;
        else if (step->phase == QS_BACKWARD)
            sum->backward_us += us;
        else
            sum->optimizer_us += us;
    }
}
