// SPDX-License-Identifier: Apache-2.0
/* From actors back to ranks: times, who waited for whom, the timeline. */
#include <math.h>
#include <stdlib.h>

#include "replayer_internal.h"

qs_status qs__event_add(qs__replay *one, qs_replay_event event) {
    qs_replay_result *result = one->result;
    if (!one->in->with_events || event.end <= event.start) return QS_OK;
    QS_TRY(qs_grow(&result->event, &one->capacity, (size_t)result->events + 1, sizeof *result->event));
    result->event[result->events++] = event;
    return QS_OK;
}

/* While an all-reduce is under way the wait is for it; before one, for the actor that was ready last. */
void qs__wait_account(qs__replay *one, int index, double begin, double end) {
    qs__actor *actor = &one->actor[index];
    while (actor->window < one->placed && one->window[actor->window].end <= begin)
        actor->window++;
    for (int w = actor->window; w < one->placed && begin < end; w++) {
        const qs__window *window = &one->window[w];
        const double late = fmax(fmin(window->start, end) - begin, 0);
        one->late[index * one->actors + window->last] += late;
        begin += late;
        const double inside = fmax(fmin(window->end, end) - begin, 0);
        actor->reducing += inside;
        begin += inside;
    }
    actor->reducing += fmax(end - begin, 0);
}

static qs_status actors_check(const qs__replay *one) {
    for (int a = 0; a < one->actors; a++) {
        const qs__actor *actor = &one->actor[a];
        if (actor->activity == QS__WAITING)
            return qs_fail(QS_FAILED, "replay: rank %d waits for bucket %d before all buckets up to it have started", actor->first,
                           actor->what->schedule->step[actor->step].bucket);
        if (actor->activity != QS__DONE) return qs_fail(QS_FAILED, "replay: rank %d never ends", actor->first);
    }
    return QS_OK;
}

/* All ranks begin the next iteration together: who ends early waits for the last. */
static qs_status ends_meet(qs__replay *one) {
    int last = 0;
    for (int a = 1; a < one->actors; a++)
        if (one->actor[a].begin > one->actor[last].begin) last = a;
    one->result->iteration_us = qs__expected_iteration(one);
    for (int a = 0; a < one->actors; a++) {
        const double end = one->actor[a].begin, iteration = one->result->iteration_us;
        one->late[a * one->actors + last] += iteration - end;
        QS_TRY(qs__event_add(one, (qs_replay_event){a, -1, -1, end, iteration, 'i'}));
    }
    return QS_OK;
}

static qs_status groups_fill(qs__replay *one) {
    qs_replay_result *result = one->result;
    QS_TRY(qs_allocate((size_t)one->actors, sizeof *result->group, &result->group));
    result->groups = one->actors;
    for (int a = 0; a < one->actors; a++) {
        const qs__actor *actor = &one->actor[a];
        qs_replay_group *group = &result->group[a];
        *group = (qs_replay_group){.first = actor->first,
                                   .ranks = actor->ranks,
                                   .compute_us = actor->busy,
                                   .waiting_us = result->iteration_us - actor->busy,
                                   .reducing_us = actor->reducing,
                                   .phases = actor->phases};
        group->phases.waiting_us = group->waiting_us;
    }
    result->late_us = one->late;
    one->late = NULL;
    return QS_OK;
}

static qs_status ranks_fill(const qs__replay *one) {
    qs_replay_result *result = one->result;
    const size_t ranks = (size_t)result->ranks;
    QS_TRY(qs_allocate(ranks, sizeof *result->group_of, &result->group_of));
    QS_TRY(qs_allocate(ranks, sizeof *result->compute_us, &result->compute_us));
    QS_TRY(qs_allocate(ranks, sizeof *result->waiting_us, &result->waiting_us));
    for (int r = 0; r < result->ranks; r++) {
        const int group = result->group_of[r] = one->actor_of[r];
        result->compute_us[r] = result->group[group].compute_us;
        result->waiting_us[r] = result->group[group].waiting_us;
    }
    return QS_OK;
}

/* By rank, track and time, as a reader of the timeline wants them. */
static int earlier(const void *left, const void *right) {
    const qs_replay_event *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Events of actors, once for every rank. */
static qs_status events_fill(qs__replay *one) {
    qs_replay_result *result = one->result;
    qs_replay_event *all = NULL;
    int events = 0;
    if (!one->in->with_events) return QS_OK;
    for (int e = 0; e < result->events; e++)
        if (one->actor[result->event[e].rank].ranks > INT32_MAX - events)
            return qs_fail(QS_OUT_OF_MEMORY, "timeline of %d ranks: too many events", result->ranks);
        else
            events += one->actor[result->event[e].rank].ranks;
    QS_TRY(qs_allocate((size_t)events, sizeof *all, &all));
    events = 0;
    for (int r = 0; r < result->ranks; r++)
        for (int e = 0; e < result->events; e++) {
            if (result->event[e].rank != one->actor_of[r]) continue;
            all[events] = result->event[e];
            all[events++].rank = r;
        }
    free(result->event);
    result->event = all;
    result->events = events;
    if (events > 0) qsort(all, (size_t)events, sizeof *all, earlier);
    return QS_OK;
}

qs_status qs__result_fill(qs__replay *one) {
    QS_TRY(actors_check(one));
    QS_TRY(ends_meet(one));
    QS_TRY(groups_fill(one));
    QS_TRY(ranks_fill(one));
    return events_fill(one);
}

void qs_replay_release(qs_replay_result *result) {
    free(result->compute_us);
    free(result->waiting_us);
    free(result->group_of);
    free(result->group);
    free(result->late_us);
    free(result->event);
    *result = (qs_replay_result){0};
}
