// SPDX-License-Identifier: Apache-2.0
/* Replay of whole schedules, from event to event: the end of a step or of a wait of some actor, the begin or the end of an all-reduce.
 * Between events every actor works at a constant speed: slower while an all-reduce takes part of its compute thread (cpu_share), faster
 * while other ranks of its host wait. A speed that stays 1 leaves times to plain sums, so that eq. (4.6) of docs/method.md comes out to the
 * last bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer_internal.h"

/* ---- Actors ---------------------------------------------------------------------------------------------------------------------- */

/* Ranks that run the same schedule at the same costs, on hosts with the same ranks, behave alike: one actor stands for all of them, so that
 * the cost of a replay does not grow with the number of ranks. */
typedef struct grouping {
    int kinds, hosts;
    int *kind_of;  /* (ranks) */
    int *first_of; /* (kinds) lowest rank */
    int *count;    /* (hosts x kinds) ranks */
    int *node_of;  /* (hosts) hosts with equal counts are one node */
    int *actor_of; /* (nodes x kinds) -1: none yet */
} grouping;

static bool is_alike(const qs_replay_rank *a, const qs_replay_rank *b) {
    return a->schedule == b->schedule && a->step_us == b->step_us && a->step_alone_us == b->step_alone_us && a->data_us == b->data_us &&
           a->slow == b->slow && a->jitter == b->jitter && a->class_name == b->class_name;
}

static qs_status kinds_find(const qs_replay_case *in, grouping *all) {
    const qs_replay_rank *rank = in->rank;
    QS_TRY(qs_allocate((size_t)in->ranks, sizeof *all->kind_of, &all->kind_of));
    QS_TRY(qs_allocate((size_t)in->ranks, sizeof *all->first_of, &all->first_of));
    for (int r = 0; r < in->ranks; r++) {
        int kind = r > 0 && is_alike(&rank[r], &rank[r - 1]) ? all->kind_of[r - 1] : 0;
        while (kind < all->kinds && !is_alike(&rank[r], &rank[all->first_of[kind]]))
            kind++;
        if (kind == all->kinds) all->first_of[all->kinds++] = r;
        all->kind_of[r] = kind;
        if (rank[r].host < 0 || rank[r].host >= in->ranks)
            return qs_fail(QS_USAGE, "replay: rank %d is on host %d; hosts are counted from 0 to ranks - 1", r, rank[r].host);
        if (rank[r].host >= all->hosts) all->hosts = rank[r].host + 1;
    }
    return QS_OK;
}

static qs_status nodes_find(const qs_replay_case *in, grouping *all, qs__replay *one) {
    const size_t row = (size_t)all->kinds, hosts = (size_t)all->hosts;
    QS_TRY(qs_allocate(hosts * row, sizeof *all->count, &all->count));
    QS_TRY(qs_allocate(hosts, sizeof *all->node_of, &all->node_of));
    QS_TRY(qs_allocate(hosts, sizeof *one->present, &one->present));
    QS_TRY(qs_allocate(hosts, sizeof *one->active, &one->active));
    for (int r = 0; r < in->ranks; r++)
        all->count[(size_t)in->rank[r].host * row + (size_t)all->kind_of[r]]++;
    for (int h = 0; h < all->hosts; h++) {
        const int *counts = &all->count[(size_t)h * row];
        int like = 0;
        while (memcmp(counts, &all->count[(size_t)like * row], row * sizeof *counts) != 0)
            like++;
        all->node_of[h] = like < h ? all->node_of[like] : one->nodes++;
        if (like < h) continue;
        for (int k = 0; k < all->kinds; k++)
            one->present[all->node_of[h]] += counts[k];
    }
    memcpy(one->active, one->present, (size_t)one->nodes * sizeof *one->active);
    return QS_OK;
}

static qs_status actors_make(qs__replay *one) {
    const qs_replay_case *in = one->in;
    grouping all = {0};
    qs_status status = QS_OK;
    QS_GOTO(kinds_find(in, &all));
    QS_GOTO(nodes_find(in, &all, one));
    const size_t cells = (size_t)one->nodes * (size_t)all.kinds;
    QS_GOTO(qs_allocate(cells, sizeof *all.actor_of, &all.actor_of));
    QS_GOTO(qs_allocate((size_t)in->ranks, sizeof *one->actor_of, &one->actor_of));
    QS_GOTO(qs_allocate(cells < (size_t)in->ranks ? cells : (size_t)in->ranks, sizeof *one->actor, &one->actor));
    for (size_t i = 0; i < cells; i++)
        all.actor_of[i] = -1;
    for (int r = 0; r < in->ranks; r++) {
        const int host = in->rank[r].host, kind = all.kind_of[r], node = all.node_of[host];
        int *actor = &all.actor_of[(size_t)node * (size_t)all.kinds + (size_t)kind];
        if (*actor < 0) {
            *actor = one->actors++;
            one->actor[*actor] = (qs__actor){
                .what = &in->rank[r], .first = r, .node = node, .here = all.count[(size_t)host * (size_t)all.kinds + (size_t)kind]};
        }
        one->actor[*actor].ranks++;
        one->actor_of[r] = *actor;
    }
done:
    free(all.kind_of);
    free(all.first_of);
    free(all.count);
    free(all.node_of);
    free(all.actor_of);
    return status;
}

/* ---- Speed ------------------------------------------------------------------------------------------------------------------- */

/* Of an actor's present step, without what all-reduces take. */
static double step_speed(const qs__replay *one, const qs__actor *actor) {
    const double *alone_us = actor->what->step_alone_us;
    if (!alone_us || actor->step < 0) return 1;
    return qs__speed_beside(one->present[actor->node], one->active[actor->node], actor->what->step_us[actor->step], alone_us[actor->step]);
}

/* Up to one->now at the speed so far. */
static void work_advance(const qs__replay *one, qs__actor *actor) {
    const double elapsed = one->now - actor->since;
    actor->left = fmax(actor->left - elapsed * actor->speed, 0);
    actor->stolen += elapsed * actor->taken;
    actor->since = one->now;
}

static void speed_set(const qs__replay *one, qs__actor *actor) {
    actor->taken = one->communication == QS__UNDER_WAY ? one->window[one->placed - 1].cpu_share : 0;
    actor->speed = step_speed(one, actor) * (1 - actor->taken);
    actor->until = actor->speed > 0 ? actor->since + actor->left / actor->speed : INFINITY;
}

/* Something that speeds depend on has changed; node < 0: for all. */
static void speeds_refresh(const qs__replay *one, int node) {
    const double taken = one->communication == QS__UNDER_WAY ? one->window[one->placed - 1].cpu_share : 0;
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        if (actor->activity != QS__BUSY || (node >= 0 && actor->node != node)) continue;
        if (actor->taken == taken && actor->speed == step_speed(one, actor) * (1 - taken)) continue;
        work_advance(one, actor);
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

static qs_status event_add(qs__replay *one, qs_replay_event event) {
    qs_replay_result *result = one->result;
    if (!one->in->with_events || event.end <= event.start) return QS_OK;
    QS_TRY(qs_grow(&result->event, &one->capacity, (size_t)result->events + 1, sizeof *result->event));
    result->event[result->events++] = event;
    return QS_OK;
}

/* Places the next bucket when all are ready and the one before has ended; actors that wait for it know then until when. */
static qs_status bucket_place(qs__replay *one) {
    const int bucket = one->placed;
    if (one->communication != QS__NOTHING || bucket >= one->buckets || one->waited[bucket] < one->actors) return QS_OK;
    qs__window *window = &one->window[bucket];
    const qs_all_reduce_cost *cost = &one->reduce[bucket];
    *window = (qs__window){.start = one->now, .cpu_share = cost->cpu_share};
    if (one->noisy) window->start = fmax(one->now, qs__expected_start(one, bucket, cost->us, &window->deviation));
    window->end = window->start + cost->us;
    for (int a = 1; a < one->actors; a++)
        if (one->ready[a * one->buckets + bucket] > one->ready[window->last * one->buckets + bucket]) window->last = a;
    one->communication = QS__PLANNED;
    one->placed++;
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        if (actor->activity != QS__WAITING || actor->what->schedule->step[actor->step].bucket != bucket) continue;
        const double now = one->now;
        one->now = actor->begin;
        actor->until = fmax(qs__expected_release(one, a, bucket), now);
        one->now = now;
    }
    for (int a = 0; a < one->actors; a++) {
        const int step = one->actor[a].what->schedule->bucket[bucket].ready_step;
        QS_TRY(event_add(one, (qs_replay_event){a, step, bucket, window->start, window->end, 'r'}));
    }
    return QS_OK;
}

/* While an all-reduce is under way a wait is for it; before one, for the actor that was ready last. */
static void wait_account(qs__replay *one, int index, double begin, double end) {
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

/* ---- Steps ------------------------------------------------------------------------------------------------------------------------- */

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

/* From actor->step on, until something takes time: a kernel, or a wait for sums that are not there yet. */
static qs_status actor_go(qs__replay *one, int index) {
    qs__actor *actor = &one->actor[index];
    const qs_schedule *schedule = actor->what->schedule;
    for (; actor->step < schedule->steps; actor->step++) {
        const qs_step *step = &schedule->step[actor->step];
        const int bucket = step->bucket;
        if (step->kind == QS_STEP_KERNEL) {
            const double us = actor->what->step_us[actor->step] * (actor->what->slow > 0 ? actor->what->slow : 1);
            if (us <= 0) continue;
            work_begin(one, actor, us);
            return QS_OK;
        }
        if (step->kind == QS_STEP_REDUCE_START) {
            one->ready[index * one->buckets + bucket] = one->now;
            if (one->noisy) qs__bucket_ready(one, index, bucket);
            one->waited[bucket]++;
            QS_TRY(bucket_place(one));
            continue;
        }
        const double until = bucket < one->placed ? qs__expected_release(one, index, bucket) : INFINITY;
        if (until <= one->now) continue;
        actor->begin = one->now;
        actor->until = until;
        activity_set(one, actor, QS__WAITING);
        return QS_OK;
    }
    actor->begin = one->now;
    actor->until = INFINITY;
    activity_set(one, actor, QS__DONE);
    return QS_OK;
}

/* The end of an actor's step or wait. */
static qs_status actor_event(qs__replay *one, int index) {
    qs__actor *actor = &one->actor[index];
    const qs_step *step = actor->step >= 0 ? &actor->what->schedule->step[actor->step] : NULL;
    if (actor->activity == QS__BUSY) {
        work_advance(one, actor);
        const double elapsed = one->now - actor->begin;
        const char track = !step ? 'd' : step->conversion ? 'v' : 'c';
        actor->busy += elapsed;
        *phase_of(actor) += elapsed - actor->stolen;
        actor->phases.communication_us += actor->stolen;
        QS_TRY(event_add(one, (qs_replay_event){index, actor->step, -1, actor->begin, one->now, track}));
        actor->step++;
        return actor_go(one, index);
    }
    wait_account(one, index, actor->begin, one->now);
    QS_TRY(event_add(one, (qs_replay_event){index, actor->step, step->bucket, actor->begin, one->now, 'i'}));
    actor->step++;
    actor->left = 0;
    actor->since = one->now;
    activity_set(one, actor, QS__BUSY);
    return actor_go(one, index);
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

static qs_status replay_start(qs__replay *one) {
    QS_TRY(actors_make(one));
    const size_t actors = (size_t)one->actors, buckets = (size_t)one->buckets;
    for (int a = 0; a < one->actors; a++)
        one->noisy = one->noisy || one->actor[a].what->jitter > 0;
    QS_TRY(qs_allocate(actors * buckets, sizeof *one->ready, &one->ready));
    QS_TRY(qs_allocate(buckets, sizeof *one->waited, &one->waited));
    QS_TRY(qs_allocate(buckets, sizeof *one->window, &one->window));
    QS_TRY(qs_allocate(actors + 1, sizeof *one->normal, &one->normal));
    QS_TRY(qs_allocate(actors + 1, sizeof *one->times, &one->times));
    if (one->noisy) QS_TRY(qs_allocate(actors * (actors + 1), sizeof *one->clock, &one->clock));
    if (one->noisy) QS_TRY(qs_allocate(actors * buckets, sizeof *one->source_end, &one->source_end));
    QS_TRY(qs_allocate(actors * actors, sizeof *one->late, &one->late));
    for (int i = 0; i < one->actors * one->buckets; i++)
        one->ready[i] = -1;
    if (one->noisy) qs__noise_start(one);
    for (int a = 0; a < one->actors; a++) {
        qs__actor *actor = &one->actor[a];
        const qs_replay_rank *what = actor->what;
        actor->step = -1;
        work_begin(one, actor, what->data_us);
        if (!one->noisy) continue;
        /* Noise of a whole step is spread over its busy time. */
        double busy = what->data_us;
        for (int s = 0; s < what->schedule->steps; s++)
            busy += what->step_us[s] * (what->slow > 0 ? what->slow : 1);
        actor->rate = what->jitter * what->jitter * busy;
    }
    return QS_OK;
}

/* Events in the order of time, until nothing has an end any more; of equal times all-reduces come first, then lower actors. */
static qs_status replay_run(qs__replay *one) {
    for (;;) {
        int next = -1;
        one->now = INFINITY;
        if (one->communication == QS__PLANNED) one->now = one->window[one->placed - 1].start;
        if (one->communication == QS__UNDER_WAY) one->now = one->window[one->placed - 1].end;
        for (int a = 0; a < one->actors; a++)
            if (one->actor[a].until < one->now) {
                next = a;
                one->now = one->actor[a].until;
            }
        if (one->now == INFINITY) return QS_OK;
        if (next >= 0) {
            QS_TRY(actor_event(one, next));
        } else {
            one->communication = one->communication == QS__PLANNED ? QS__UNDER_WAY : QS__NOTHING;
            speeds_refresh(one, -1);
            QS_TRY(bucket_place(one));
        }
    }
}

/* ---- Results ------------------------------------------------------------------------------------------------------------------------ */

/* By rank, track and time, as a reader of the timeline wants them. */
static int earlier(const void *left, const void *right) {
    const qs_replay_event *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Events of actors, once for every rank. */
static qs_status events_fill(const qs__replay *one) {
    qs_replay_result *result = one->result;
    qs_replay_event *all = NULL;
    int events = 0;
    if (!one->in->with_events) return QS_OK;
    for (int e = 0; e < result->events; e++) {
        const int ranks = one->actor[result->event[e].rank].ranks;
        if (ranks > INT32_MAX - events) return qs_fail(QS_OUT_OF_MEMORY, "timeline of %d ranks: too many events", result->ranks);
        events += ranks;
    }
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

/* From actors back to ranks. All ranks begin the next iteration together: who ends early waits for the last. */
static qs_status result_fill(qs__replay *one) {
    qs_replay_result *result = one->result;
    const size_t ranks = (size_t)result->ranks;
    int last = 0;
    for (int a = 0; a < one->actors; a++) {
        const qs__actor *actor = &one->actor[a];
        if (actor->activity == QS__WAITING)
            return qs_fail(QS_FAILED, "replay: rank %d waits for bucket %d before all buckets up to it have started", actor->first,
                           actor->what->schedule->step[actor->step].bucket);
        if (actor->activity != QS__DONE) return qs_fail(QS_FAILED, "replay: rank %d never ends", actor->first);
        if (actor->begin > one->actor[last].begin) last = a;
    }
    result->iteration_us = qs__expected_iteration(one);
    QS_TRY(qs_allocate((size_t)one->actors, sizeof *result->group, &result->group));
    result->groups = one->actors;
    for (int a = 0; a < one->actors; a++) {
        const qs__actor *actor = &one->actor[a];
        qs_replay_group *group = &result->group[a];
        one->late[a * one->actors + last] += result->iteration_us - actor->begin;
        QS_TRY(event_add(one, (qs_replay_event){a, -1, -1, actor->begin, result->iteration_us, 'i'}));
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
    QS_TRY(qs_allocate(ranks, sizeof *result->group_of, &result->group_of));
    QS_TRY(qs_allocate(ranks, sizeof *result->compute_us, &result->compute_us));
    QS_TRY(qs_allocate(ranks, sizeof *result->waiting_us, &result->waiting_us));
    for (int r = 0; r < result->ranks; r++) {
        const int group = result->group_of[r] = one->actor_of[r];
        result->compute_us[r] = result->group[group].compute_us;
        result->waiting_us[r] = result->group[group].waiting_us;
    }
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

/* ---- The door ---------------------------------------------------------------------------------------------------------------------- */

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

/* The case's own all-reduces, by the cost model. */
static qs_status reduces_price(const qs_replay_case *in, qs_all_reduce_cost **out) {
    const qs_schedule *schedule = in->rank[0].schedule;
    int *host = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)in->ranks, sizeof *host, &host));
    QS_GOTO(qs_allocate((size_t)schedule->buckets, sizeof **out, out));
    for (int r = 0; r < in->ranks; r++)
        host[r] = in->rank[r].host;
    const qs_all_reduce what = {in->algorithm, in->ranks, host, in->network, schedule->wire};
    for (int b = 0; b < schedule->buckets; b++)
        QS_GOTO(qs_cost_all_reduce_on(in->profile, &what, schedule->bucket[b].count * (int64_t)sizeof(float), &(*out)[b]));
done:
    free(host);
    return status;
}

qs_status qs_replay(const qs_replay_case *in, qs_replay_result *out) {
    qs_replay_result result = {.ranks = in->ranks};
    qs__replay one = {.in = in, .buckets = in->rank[0].schedule->buckets, .reduce = in->reduce, .result = &result};
    qs_all_reduce_cost *priced = NULL;
    qs_status status = QS_OK;
    QS_TRY(buckets_check(in->ranks, in->rank));
    if (!in->reduce) QS_GOTO(reduces_price(in, &priced));
    if (!in->reduce) one.reduce = priced;
    QS_GOTO(replay_start(&one));
    QS_GOTO(replay_run(&one));
    QS_GOTO(result_fill(&one));
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
