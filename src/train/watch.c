// SPDX-License-Identifier: Apache-2.0
/* The clock beside the steps of training. All memory is there before the first step; a step costs one reading of the clock per step of its
 * schedule and a sum over them. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

int64_t qs__warm_up(int64_t steps) {
    const int64_t tenth = steps / 10 < 5 ? 5 : steps / 10;
    return tenth > steps / 2 ? steps / 2 : tenth;
}

qs_status qs__watch_create(const qs__program *program, int64_t steps, bool trace, qs__watch *out) {
    qs_status status = QS_OK;
    *out = (qs__watch){.schedule = program->schedule, .executor = program->executor, .warm_up = qs__warm_up(steps)};
    out->places = trace ? QS__TRACED + 1 : 1; /* the last one is for the steps behind */
    QS_GOTO(qs_allocate(QS__WATCHED, sizeof *out->times, &out->times));
    QS_GOTO(qs_allocate((size_t)out->places, sizeof *out->traced_step, &out->traced_step));
    for (int i = 0; i < out->places; i++)
        QS_GOTO(qs_timeline_create(program->schedule, &out->traced_step[i].timeline));
    qs_executor_time(out->executor, &out->traced_step[0].timeline);
    return QS_OK;
done:
    qs__watch_release(out);
    return status;
}

void qs__watch_release(qs__watch *watch) {
    for (int i = 0; watch->traced_step && i < watch->places; i++)
        qs_timeline_release(&watch->traced_step[i].timeline);
    free(watch->traced_step);
    free(watch->times);
    *watch = (qs__watch){0};
}

void qs__watch_step(qs__watch *watch, int64_t step, double begin, double end) {
    qs__traced *traced = &watch->traced_step[watch->traced];
    const qs_timeline *timeline = &traced->timeline;
    if (watch->skipped < watch->warm_up) {
        watch->skipped++;
        return;
    }
    qs_phase_times sum = {0};
    qs_timeline_phases(timeline, watch->schedule, &sum);
    const double last = timeline->steps > 0 ? timeline->end[timeline->steps - 1] : timeline->begin;
    sum.data_us = 1e6 * ((end - begin) - (last - timeline->begin));
    double *row = watch->times[watch->seen++ % QS__WATCHED];
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        row[i] = qs_phase_times_at(&sum, i);
    row[QS_PHASE_TIMES] = 1e6 * (end - begin);
    traced->step = step;
    traced->begin = begin;
    traced->end = end;
    if (watch->traced + 1 < watch->places) watch->traced++;
    qs_executor_time(watch->executor, &watch->traced_step[watch->traced].timeline);
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double qs__median(double *value, int64_t count) {
    if (count <= 0) return 0;
    qsort(value, (size_t)count, sizeof *value, by_value);
    return count % 2 ? value[count / 2] : 0.5 * (value[count / 2 - 1] + value[count / 2]);
}

qs_status qs__watch_medians(const qs__watch *watch, double *medians, int64_t *steps) {
    double *column = NULL;
    const int64_t count = watch->seen < QS__WATCHED ? watch->seen : QS__WATCHED;
    QS_TRY(qs_allocate((size_t)count, sizeof *column, &column));
    for (int i = 0; i <= QS_PHASE_TIMES; i++) {
        for (int64_t s = 0; s < count; s++)
            column[s] = watch->times[s][i];
        medians[i] = qs__median(column, count);
    }
    free(column);
    *steps = count;
    return QS_OK;
}
