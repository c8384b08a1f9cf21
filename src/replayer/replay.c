// SPDX-License-Identifier: Apache-2.0
/* Replay of whole schedules, from event to event: the end of a step or of a wait of some actor, the begin or the end of an all-reduce.
 * Between events every actor works at a constant speed: slower while an all-reduce takes part of its compute thread (cpu_share), faster
 * while other ranks of its host wait. A speed that stays 1 leaves times to plain sums, so that eq. (4.6) comes out to the last bit. */
#include <math.h>
#include <stdlib.h>

#include "replayer_internal.h"

/* ---- Speed ------------------------------------------------------------------------------------------------------------------- */

/* Work a microsecond where 1 is the speed that was measured, with all ranks of the host at work. */
static double pace(const qs__replay *one, const qs__actor *actor) {
    const double *alone_us = actor->what->step_alone_us;
    if (!alone_us || actor->step < 0) return 1;
    const double together = actor->what->step_us[actor->step], alone = alone_us[actor->step];
    const int others = one->present[actor->node] - 1, active = one->active[actor->node] - 1;
    if (!(alone > 0) || alone == together || (others > 0 && active == others)) return 1;
    const double share = others > 0 ? (double)active / others : 0;
    return share + (1 - share) * together / alone;
}

static void actor_settle(const qs__replay *one, qs__actor *actor) {
    const double elapsed = one->now - actor->since;
    actor->left = fmax(actor->left - elapsed * actor->speed, 0);
    actor->stolen += elapsed * actor->taken;
    actor->since = one->now;
}

static void speed_set(const qs__replay *one, qs__actor *actor) {
    actor->taken = one->communication == QS__UNDER_WAY ? one->window[one->placed - 1].cpu_share : 0;
    actor->speed = pace(one, actor) * (1 - actor->taken);
    actor->until = actor->speed > 0 ? actor->since + actor->left / actor->speed : INFINITY;
}

/* Something that speeds depend on has changed; node < 0: for all. */
static void speeds_refresh(const qs__replay *one, int node) {
    const double taken = one->communication == QS__UNDER_WAY ? one->window[one->placed - 1].cpu_share : 0;
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        if (actor->activity != QS__BUSY || (node >= 0 && actor->node != node)) continue;
        if (actor->taken == taken && actor->speed == pace(one, actor) * (1 - taken)) continue;
        actor_settle(one, actor);
        speed_set(one, actor);
    }
}

static void activity_set(qs__replay *one, qs__actor *actor, qs__activity activity) {
    const int change = (activity == QS__BUSY) - (actor->activity == QS__BUSY);
    actor->activity = activity;
    if (change == 0) return;
    one->active[actor->node] += change * actor->here;
    speeds_refresh(one, actor->node);
}

/* ---- All-reduces --------------------------------------------------------------------------------------------------------------- */

/* Where an actor waits for the bucket that has just been placed, its wait has an end now. */
static void waits_end(qs__replay *one, int bucket) {
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        if (actor->activity != QS__WAITING || actor->what->schedule->step[actor->step].bucket != bucket) continue;
        const double now = one->now;
        one->now = actor->begin;
        actor->until = fmax(qs__expected_release(one, a, bucket), now);
        one->now = now;
    }
}

static qs_status window_events(qs__replay *one, int bucket, const qs__window *window) {
    for (int a = 0; a < one->actors; a++) {
        const int step = one->actor[a].what->schedule->bucket[bucket].ready_step;
        QS_TRY(qs__event_add(one, (qs_replay_event){a, step, bucket, window->start, window->end, 'r'}));
    }
    return QS_OK;
}

/* Places the next bucket when all are ready and the one before has ended. */
static qs_status bucket_place(qs__replay *one) {
    const int bucket = one->placed;
    if (one->communication != QS__NOTHING || bucket >= one->buckets || one->waited[bucket] < one->actors) return QS_OK;
    qs__window *window = &one->window[bucket];
    const qs_all_reduce_cost *cost = &one->reduce[bucket];
    *window = (qs__window){.start = one->now, .cpu_share = cost->cpu_share};
    if (one->noisy) window->start = fmax(one->now, qs__expected_start(one, bucket, cost->us, &window->deviation));
    window->end = window->start + cost->us;
    for (int a = 1; a < one->actors; a++)
        if (*qs__ready_of(one, a, bucket) > *qs__ready_of(one, window->last, bucket)) window->last = a;
    one->communication = QS__PLANNED;
    one->placed++;
    waits_end(one, bucket);
    return window_events(one, bucket, window);
}

static double communication_next(const qs__replay *one) {
    if (one->communication == QS__NOTHING) return INFINITY;
    const qs__window *window = &one->window[one->placed - 1];
    return one->communication == QS__PLANNED ? window->start : window->end;
}

static qs_status communication_event(qs__replay *one) {
    one->communication = one->communication == QS__PLANNED ? QS__UNDER_WAY : QS__NOTHING;
    speeds_refresh(one, -1);
    return bucket_place(one);
}

/* ---- Actors ---------------------------------------------------------------------------------------------------------------------- */

static double *phase_of(qs__actor *actor) {
    qs_phase_times *phases = &actor->phases;
    if (actor->step < 0) return &phases->data_us;
    const qs_step *step = &actor->what->schedule->step[actor->step];
    if (step->conversion) return &phases->cast_us;
    if (step->phase == QS_UPDATE) return &phases->optimizer_us;
    return step->phase == QS_FORWARD ? &phases->forward_us : &phases->backward_us;
}

static void work_begin(const qs__replay *one, qs__actor *actor, double us) {
    actor->begin = actor->since = one->now;
    actor->left = us;
    actor->stolen = 0;
    speed_set(one, actor);
}

static qs_status work_end(qs__replay *one, int index) {
    qs__actor *actor = &one->actor[index];
    actor_settle(one, actor);
    const double elapsed = one->now - actor->begin;
    const char track = actor->step < 0 ? 'd' : actor->what->schedule->step[actor->step].conversion ? 'v' : 'c';
    actor->busy += elapsed;
    *phase_of(actor) += elapsed - actor->stolen;
    actor->phases.communication_us += actor->stolen;
    return qs__event_add(one, (qs_replay_event){index, actor->step, -1, actor->begin, one->now, track});
}

static qs_status bucket_start(qs__replay *one, int index, int bucket) {
    *qs__ready_of(one, index, bucket) = one->now;
    if (one->noisy) qs__bucket_ready(one, index, bucket);
    one->waited[bucket]++;
    return bucket_place(one);
}

/* False: there is nothing to wait for. */
static bool wait_begin(qs__replay *one, int index, int bucket) {
    qs__actor *actor = &one->actor[index];
    const double until = bucket < one->placed ? qs__expected_release(one, index, bucket) : INFINITY;
    if (until <= one->now) return false;
    actor->begin = one->now;
    actor->until = until;
    activity_set(one, actor, QS__WAITING);
    return true;
}

/* From actor->step on, until something takes time. */
static qs_status actor_go(qs__replay *one, int index) {
    qs__actor *actor = &one->actor[index];
    const qs_schedule *schedule = actor->what->schedule;
    for (; actor->step < schedule->steps; actor->step++) {
        const qs_step *step = &schedule->step[actor->step];
        if (step->kind == QS_STEP_KERNEL) {
            const double us = actor->what->step_us[actor->step] * (actor->what->slow > 0 ? actor->what->slow : 1);
            if (us <= 0) continue;
            work_begin(one, actor, us);
            return QS_OK;
        }
        if (step->kind == QS_STEP_REDUCE_START)
            QS_TRY(bucket_start(one, index, step->bucket));
        else if (wait_begin(one, index, step->bucket))
            return QS_OK;
    }
    actor->begin = one->now;
    actor->until = INFINITY;
    activity_set(one, actor, QS__DONE);
    return QS_OK;
}

static qs_status actor_event(qs__replay *one, int index) {
    qs__actor *actor = &one->actor[index];
    if (actor->activity == QS__BUSY) {
        QS_TRY(work_end(one, index));
        actor->step++;
        return actor_go(one, index);
    }
    qs__wait_account(one, index, actor->begin, one->now);
    const int bucket = actor->what->schedule->step[actor->step].bucket;
    QS_TRY(qs__event_add(one, (qs_replay_event){index, actor->step, bucket, actor->begin, one->now, 'i'}));
    actor->step++;
    actor->left = 0;
    actor->since = one->now;
    activity_set(one, actor, QS__BUSY);
    return actor_go(one, index);
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

/* Noise of a whole step is spread over its busy time. */
static double noise_rate(const qs_replay_rank *what) {
    double busy = what->data_us + what->overhead_us;
    for (int s = 0; s < what->schedule->steps; s++)
        busy += what->step_us[s] * (what->slow > 0 ? what->slow : 1);
    return what->jitter * what->jitter * busy;
}

static qs_status arrays_make(qs__replay *one) {
    const size_t actors = (size_t)one->actors, buckets = (size_t)one->buckets;
    QS_TRY(qs_allocate(actors * buckets, sizeof *one->ready, &one->ready));
    QS_TRY(qs_allocate(buckets, sizeof *one->waited, &one->waited));
    QS_TRY(qs_allocate(buckets, sizeof *one->window, &one->window));
    QS_TRY(qs_allocate(actors + 1, sizeof *one->normal, &one->normal));
    QS_TRY(qs_allocate(actors + 1, sizeof *one->times, &one->times));
    if (one->noisy) QS_TRY(qs_allocate(actors * (actors + 1), sizeof *one->clock, &one->clock));
    if (one->noisy) QS_TRY(qs_allocate(actors * buckets, sizeof *one->source_end, &one->source_end));
    return qs_allocate(actors * actors, sizeof *one->late, &one->late);
}

static qs_status replay_start(qs__replay *one) {
    QS_TRY(qs__actors_make(one));
    for (int a = 0; a < one->actors; a++)
        one->noisy = one->noisy || one->actor[a].what->jitter > 0;
    QS_TRY(arrays_make(one));
    for (int i = 0; i < one->actors * one->buckets; i++)
        one->ready[i] = -1;
    if (one->noisy) qs__meeting_start(one);
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        actor->step = -1;
        work_begin(one, actor, actor->what->data_us + actor->what->overhead_us);
        if (one->noisy) actor->rate = noise_rate(actor->what);
    }
    return QS_OK;
}

static qs_status replay_run(qs__replay *one) {
    for (;;) {
        int next = -1;
        one->now = communication_next(one);
        for (int a = 0; a < one->actors; a++)
            if (one->actor[a].until < one->now) {
                next = a;
                one->now = one->actor[a].until;
            }
        if (one->now == INFINITY) return QS_OK;
        QS_TRY(next < 0 ? communication_event(one) : actor_event(one, next));
    }
}

/* Ranks reduce the same buckets, whatever their plans. */
static qs_status buckets_check(int ranks, const qs_replay_rank *rank) {
    const qs_schedule *first = rank[0].schedule;
    for (int r = 1; r < ranks; r++) {
        const qs_schedule *other = rank[r].schedule;
        if (other == rank[r - 1].schedule) continue;
        if (other->buckets != first->buckets)
            return qs_fail(QS_MISMATCH, "replay: rank %d has %d buckets, rank 0 has %d", r, other->buckets, first->buckets);
        for (int b = 0; b < first->buckets; b++)
            if (other->bucket[b].count != first->bucket[b].count)
                return qs_fail(QS_MISMATCH, "replay: bucket %d has %lld elements on rank %d and %lld on rank 0", b,
                               (long long)other->bucket[b].count, r, (long long)first->bucket[b].count);
    }
    return QS_OK;
}

qs_status qs__reduces_price(const qs_profile *profile, const qs_all_reduce *what, const qs_schedule *schedule, qs_all_reduce_cost **out) {
    qs_all_reduce_cost *reduce = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof *reduce, &reduce));
    for (int b = 0; b < schedule->buckets; b++)
        QS_GOTO(qs_cost_all_reduce_on(profile, what, schedule->bucket[b].count * (int64_t)sizeof(float), &reduce[b]));
    *out = reduce;
    reduce = NULL;
done:
    free(reduce);
    return status;
}

static qs_status own_price(const qs_replay_case *in, qs_all_reduce_cost **out) {
    int *host = NULL;
    QS_TRY(qs_allocate((size_t)in->ranks, sizeof *host, &host));
    for (int r = 0; r < in->ranks; r++)
        host[r] = in->rank[r].host;
    const qs_all_reduce what = {in->algorithm, in->ranks, host, in->network, in->rank[0].schedule->wire};
    const qs_status status = qs__reduces_price(in->profile, &what, in->rank[0].schedule, out);
    free(host);
    return status;
}

qs_status qs_replay(const qs_replay_case *in, qs_replay_result *out) {
    qs_replay_result result = {.ranks = in->ranks};
    qs__replay one = {.in = in, .buckets = in->rank[0].schedule->buckets, .reduce = in->reduce, .result = &result};
    qs_all_reduce_cost *priced = NULL;
    qs_status status = QS_OK;
    QS_TRY(buckets_check(in->ranks, in->rank));
    if (!in->reduce) QS_GOTO(own_price(in, &priced));
    if (!in->reduce) one.reduce = priced;
    QS_GOTO(replay_start(&one));
    QS_GOTO(replay_run(&one));
    QS_GOTO(qs__result_fill(&one));
    *out = result;
    result = (qs_replay_result){0};
done:
    qs_replay_release(&result);
    free(priced);
    free(one.actor);
    free(one.actor_of);
    free(one.present);
    free(one.active);
    free(one.ready);
    free(one.waited);
    free(one.window);
    free(one.normal);
    free(one.times);
    free(one.clock);
    free(one.source_end);
    free(one.late);
    return status;
}
