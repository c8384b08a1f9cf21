// SPDX-License-Identifier: Apache-2.0
/* Replay of whole schedules, bucket by bucket: all ranks advance to the start of the next bucket, its all-reduce is placed, and so on. A
 * window begins only after every rank has reached its start, so the windows that a rank can meet are known when it advances. A library that
 * progresses on the compute thread takes cpu_share of the time from the kernels it overlaps. */
#include <stdlib.h>

#include "qsync/replayer.h"

typedef struct rank_state {
    int step;
    double now, busy;
    int window; /* first all-reduce that does not lie wholly before `now` */
} rank_state;

typedef struct all_reduce {
    double start, end; /* end < 0: not placed yet */
    double cpu_share;
} all_reduce;

typedef struct replay {
    const qs_profile *profile;
    int ranks;
    const qs_replay_rank *rank;
    rank_state *state;
    double *ready;      /* (ranks × buckets); < 0: not reached yet */
    all_reduce *window; /* (buckets) in the order in which they are placed: by bucket */
    int buckets, placed;
    double communication_end;
    qs_replay_result *result;
    bool with_events;
    size_t capacity;
} replay;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static qs_status event_add(replay *one, qs_replay_event event) {
    qs_replay_result *result = one->result;
    if (!one->with_events || event.end <= event.start) return QS_OK;
    QS_TRY(qs_grow(&result->event, &one->capacity, (size_t)result->events + 1, sizeof *result->event));
    result->event[result->events++] = event;
    return QS_OK;
}

/* When `us` of kernel time are over that begin at state->now: inside an all-reduce only 1 - cpu_share of the time is the kernel's. */
static double kernel_end(const replay *one, rank_state *state, double us) {
    double now = state->now;
    for (; us > 0 && state->window < one->placed; state->window++) {
        const all_reduce *window = &one->window[state->window];
        if (window->end <= now) continue;
        const double before = window->start > now ? window->start - now : 0;
        if (us <= before) break;
        us -= before;
        now += before;
        const double own = 1 - window->cpu_share, room = (window->end - now) * own;
        if (us < room) return now + us / own;
        us -= room;
        now = window->end;
    }
    return now + us;
}

static qs_status kernel_run(replay *one, int rank, const qs_step *step, double us) {
    rank_state *state = &one->state[rank];
    const double start = state->now;
    state->now = kernel_end(one, state, us);
    state->busy += state->now - start;
    return event_add(one, (qs_replay_event){rank, state->step, -1, start, state->now, step->conversion ? 'v' : 'c'});
}

static qs_status bucket_wait(replay *one, int rank, int bucket) {
    rank_state *state = &one->state[rank];
    const double start = state->now;
    if (one->window[bucket].end < 0)
        return qs_fail(QS_FAILED, "replay: rank %d waits for bucket %d before all buckets up to it have started", rank, bucket);
    state->now = larger(state->now, one->window[bucket].end);
    return event_add(one, (qs_replay_event){rank, -1, -1, start, state->now, 'i'});
}

/* Runs a rank until it has started the bucket to be placed next, or to its end when all are placed. */
static qs_status rank_advance(replay *one, int rank) {
    const qs_replay_rank *what = &one->rank[rank];
    rank_state *state = &one->state[rank];
    double *ready = &one->ready[rank * one->buckets];
    for (; state->step < what->schedule->steps; state->step++) {
        const qs_step *step = &what->schedule->step[state->step];
        if (one->placed < one->buckets && ready[one->placed] >= 0) return QS_OK;
        if (step->kind == QS_STEP_KERNEL)
            QS_TRY(kernel_run(one, rank, step, what->step_us[state->step]));
        else if (step->kind == QS_STEP_REDUCE_START)
            ready[step->bucket] = state->now;
        else
            QS_TRY(bucket_wait(one, rank, step->bucket));
    }
    return QS_OK;
}

static qs_status bucket_place(replay *one) {
    const int bucket = one->placed;
    const qs_bucket *what = &one->rank[0].schedule->bucket[bucket];
    double start = one->communication_end, duration = 0, cpu_share = 0;
    for (int r = 0; r < one->ranks; r++) {
        const double ready = one->ready[r * one->buckets + bucket];
        if (ready < 0) return qs_fail(QS_FAILED, "replay: rank %d never starts the all-reduce of bucket %d", r, bucket);
        start = larger(start, ready);
    }
    QS_TRY(qs_cost_all_reduce(one->profile, one->ranks, what->count * (int64_t)sizeof(float), &duration, &cpu_share));
    one->window[bucket] = (all_reduce){start, start + duration, cpu_share};
    one->communication_end = start + duration;
    one->placed++;
    for (int r = 0; r < one->ranks; r++)
        QS_TRY(
            event_add(one, (qs_replay_event){r, one->rank[r].schedule->bucket[bucket].ready_step, bucket, start, start + duration, 'r'}));
    return QS_OK;
}

static qs_status replay_start(replay *one) {
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->state, &one->state));
    QS_TRY(qs_allocate((size_t)one->ranks * (size_t)one->buckets, sizeof *one->ready, &one->ready));
    QS_TRY(qs_allocate((size_t)one->buckets, sizeof *one->window, &one->window));
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->result->compute_us, &one->result->compute_us));
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->result->waiting_us, &one->result->waiting_us));
    for (int i = 0; i < one->ranks * one->buckets; i++)
        one->ready[i] = -1;
    for (int b = 0; b < one->buckets; b++)
        one->window[b].end = -1;
    for (int r = 0; r < one->ranks; r++) {
        const double lead = one->rank[r].data_us + one->rank[r].overhead_us;
        one->state[r].now = one->state[r].busy = lead;
        QS_TRY(event_add(one, (qs_replay_event){r, -1, -1, 0, lead, 'd'}));
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

static qs_status replay_finish(replay *one) {
    qs_replay_result *result = one->result;
    for (int r = 0; r < one->ranks; r++)
        result->iteration_us = larger(result->iteration_us, one->state[r].now);
    for (int r = 0; r < one->ranks; r++) {
        result->compute_us[r] = one->state[r].busy;
        result->waiting_us[r] = result->iteration_us - one->state[r].busy;
        QS_TRY(event_add(one, (qs_replay_event){r, -1, -1, one->state[r].now, result->iteration_us, 'i'}));
    }
    if (result->events > 0) qsort(result->event, (size_t)result->events, sizeof *result->event, earlier);
    return QS_OK;
}

/* Ranks reduce the same buckets, whatever their plans. */
static qs_status buckets_check(int ranks, const qs_replay_rank *rank) {
    const qs_schedule *first = rank[0].schedule;
    for (int r = 1; r < ranks; r++) {
        const qs_schedule *other = rank[r].schedule;
        if (other->buckets != first->buckets)
            return qs_fail(QS_MISMATCH, "replay: rank %d has %d buckets, rank 0 has %d", r, other->buckets, first->buckets);
        for (int b = 0; b < first->buckets; b++)
            if (other->bucket[b].count != first->bucket[b].count)
                return qs_fail(QS_MISMATCH, "replay: bucket %d has %lld elements on rank %d and %lld on rank 0", b,
                               (long long)other->bucket[b].count, r, (long long)first->bucket[b].count);
    }
    return QS_OK;
}

qs_status qs_replay(const qs_profile *profile, int ranks, const qs_replay_rank *rank, bool with_events, qs_replay_result *out) {
    qs_replay_result result = {.ranks = ranks};
    replay one = {.profile = profile,
                  .ranks = ranks,
                  .rank = rank,
                  .buckets = rank[0].schedule->buckets,
                  .result = &result,
                  .with_events = with_events};
    qs_status status = QS_OK;
    QS_TRY(buckets_check(ranks, rank));
    QS_GOTO(replay_start(&one));
    for (int b = 0; b <= one.buckets; b++) {
        for (int r = 0; r < ranks; r++)
            QS_GOTO(rank_advance(&one, r));
        if (b < one.buckets) QS_GOTO(bucket_place(&one));
    }
    QS_GOTO(replay_finish(&one));
    *out = result;
    result = (qs_replay_result){0};
done:
    qs_replay_release(&result);
    free(one.state);
    free(one.ready);
    free(one.window);
    return status;
}

void qs_replay_release(qs_replay_result *result) {
    free(result->compute_us);
    free(result->waiting_us);
    free(result->event);
    *result = (qs_replay_result){0};
}
