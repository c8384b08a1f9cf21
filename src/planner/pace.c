// SPDX-License-Identifier: Apache-2.0
/* Eqs. (4.6) and (4.7) over bucket-ready times, in one pass over the buckets: an all-reduce slows the work that it overlaps, so every class
 * has a clock that turns work into time. */
#include "pace.h"

#include <math.h>

typedef struct qs__pace_clock pace_clock;

/* Up to `work` microseconds of work inside an all-reduce; returns what is left. */
static double within(const qs__pace *one, pace_clock *clock, double work) {
    const double speed = 1 - one->reduce[clock->window].cpu_share, room = (one->end[clock->window] - clock->now) * fmax(speed, 0);
    if (work <= room && speed > 0) {
        clock->now += work / speed;
        return 0;
    }
    clock->now = one->end[clock->window++];
    return work - room;
}

/* Of the all-reduces, `placed` are known. */
static void work_for(const qs__pace *one, pace_clock *clock, int placed, double work) {
    while (work > 0 && clock->window < placed) {
        const int window = clock->window;
        if (clock->now >= one->end[window]) {
            clock->window++;
        } else if (clock->now < one->start[window]) {
            const double gap = fmin(one->start[window] - clock->now, work);
            clock->now += gap;
            work -= gap;
        } else {
            work = within(one, clock, work);
        }
    }
    clock->now += work;
}

static void work_until(const qs__pace *one, pace_clock *clock, int placed, double done) {
    if (done <= clock->done) return;
    work_for(one, clock, placed, done - clock->done);
    clock->done = done;
}

static bool counts(const qs__pace *one, int c, int only) {
    return one->class_[c].present && (only < 0 || c == only);
}

static void bucket_place(qs__pace *one, int bucket, int only) {
    double start = bucket > 0 ? one->end[bucket - 1] : 0;
    for (int c = 0; c < one->classes; c++) {
        if (!counts(one, c, only)) continue;
        work_until(one, &one->clock[c], bucket, one->class_[c].ready[bucket]);
        start = fmax(start, one->clock[c].now);
    }
    one->start[bucket] = start;
    one->end[bucket] = start + one->reduce[bucket].us;
}

static double class_end(const qs__pace *one, int c) {
    const qs__pace_class *class_ = &one->class_[c];
    pace_clock *clock = &one->clock[c];
    work_until(one, clock, one->buckets, class_->rest_us);
    for (int i = 0; i < class_->items; i++) {
        const qs__update_item *item = &class_->item[i];
        if (item->bucket >= 0)
            clock->now = fmax(clock->now, one->end[item->bucket]);
        else
            work_for(one, clock, one->buckets, item->us);
    }
    return clock->now;
}

double qs__pace_iteration(qs__pace *one, int only) {
    double iteration = 0;
    for (int c = 0; c < one->classes; c++)
        one->clock[c] = (pace_clock){.now = one->class_[c].start_us};
    for (int b = 0; b < one->buckets; b++)
        bucket_place(one, b, only);
    for (int c = 0; c < one->classes; c++)
        if (counts(one, c, only)) iteration = fmax(iteration, class_end(one, c));
    return iteration;
}
