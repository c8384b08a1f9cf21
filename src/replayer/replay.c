// SPDX-License-Identifier: Apache-2.0
/* Event-driven replay of whole schedules: every rank advances until it waits for an all-reduce; an all-reduce is placed once all ranks have
 * reached its start. A library that progresses on the compute thread takes cpu_share of the duration from the kernels it overlaps. */
#include <stdlib.h>

#include "qsync/replayer.h"

typedef struct rank_state {
    int step;
    double now, busy, stolen; /* stolen: progress work not yet charged to this rank's kernels */
    double ready;             /* of the bucket it reached last */
} rank_state;

typedef struct replay {
    const qs_profile *profile;
    int ranks;
    const qs_replay_rank *rank;
    rank_state *state;
    double *ready, *end; /* (ranks × buckets), (buckets); end < 0: not placed yet */
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

static qs_status kernel_run(replay *one, int rank, const qs_step *step, double us) {
    rank_state *state = &one->state[rank];
    const double start = state->now;
    state->now += us;
    state->busy += us;
    return event_add(one, (qs_replay_event){rank, state->step, -1, start, state->now, step->conversion ? 'v' : 'c'});
}

/* Waits for a bucket that is already placed; the progress it cost is charged first, as far as it overlapped with kernels. */
static qs_status bucket_wait(replay *one, int rank, int bucket) {
    rank_state *state = &one->state[rank];
    const double start = state->now;
    state->now = larger(state->now, one->end[bucket]);
    return event_add(one, (qs_replay_event){rank, -1, -1, start, state->now, 'i'});
}

/* Runs a rank until it ends or waits for a bucket that is not placed. True when it moved. */
static qs_status rank_advance(replay *one, int rank, bool *moved) {
    const qs_replay_rank *what = &one->rank[rank];
    rank_state *state = &one->state[rank];
    for (; state->step < what->schedule->steps; state->step++, *moved = true) {
        const qs_step *step = &what->schedule->step[state->step];
        if (step->kind == QS_STEP_KERNEL) {
            QS_TRY(kernel_run(one, rank, step, what->step_us[state->step]));
        } else if (step->kind == QS_STEP_REDUCE_START) {
            one->ready[rank * one->buckets + step->bucket] = state->now;
        } else {
            if (one->end[step->bucket] < 0) return QS_OK;
            QS_TRY(bucket_wait(one, rank, step->bucket));
        }
    }
    return QS_OK;
}

/* Work that progress takes from a rank while its kernels still run behind the all-reduce. */
static void progress_charge(replay *one, double start, double duration, double cpu_share) {
    for (int r = 0; r < one->ranks; r++) {
        rank_state *state = &one->state[r];
        const double overlap = state->now - start < duration ? state->now - start : duration;
        if (overlap <= 0) continue;
        state->now += cpu_share * overlap;
        state->busy += cpu_share * overlap;
    }
}

/* Places the next all-reduce in bucket order of readiness if all ranks have reached it. */
static qs_status bucket_place(replay *one, bool *moved) {
    const int bucket = one->placed;
    const qs_bucket *what = &one->rank[0].schedule->bucket[bucket];
    double start = one->communication_end, duration = 0, cpu_share = 0;
    for (int r = 0; r < one->ranks; r++) {
        const double ready = one->ready[r * one->buckets + bucket];
        if (ready < 0) return QS_OK;
        start = larger(start, ready);
    }
    QS_TRY(qs_cost_all_reduce(one->profile, one->ranks, what->count * (int64_t)sizeof(float), &duration, &cpu_share));
    progress_charge(one, start, duration, cpu_share);
    one->end[bucket] = one->communication_end = start + duration;
    one->placed++;
    *moved = true;
    for (int r = 0; r < one->ranks; r++)
        QS_TRY(event_add(one, (qs_replay_event){r, what->ready_step, bucket, start, start + duration, 'r'}));
    return QS_OK;
}

static qs_status replay_start(replay *one) {
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->state, &one->state));
    QS_TRY(qs_allocate((size_t)one->ranks * (size_t)one->buckets, sizeof *one->ready, &one->ready));
    QS_TRY(qs_allocate((size_t)one->buckets, sizeof *one->end, &one->end));
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->result->compute_us, &one->result->compute_us));
    QS_TRY(qs_allocate((size_t)one->ranks, sizeof *one->result->waiting_us, &one->result->waiting_us));
    for (int i = 0; i < one->ranks * one->buckets; i++) one->ready[i] = -1;
    for (int b = 0; b < one->buckets; b++) one->end[b] = -1;
    for (int r = 0; r < one->ranks; r++) {
        const double lead = one->rank[r].data_us + one->rank[r].overhead_us;
        one->state[r].now = one->state[r].busy = lead;
        QS_TRY(event_add(one, (qs_replay_event){r, -1, -1, 0, lead, 'd'}));
    }
    return QS_OK;
}

static qs_status replay_finish(replay *one) {
    qs_replay_result *result = one->result;
    for (int r = 0; r < one->ranks; r++) {
        if (one->state[r].step < one->rank[r].schedule->steps)
            return qs_fail(QS_FAILED, "replay: rank %d waits for an all-reduce that never starts", r);
        result->iteration_us = larger(result->iteration_us, one->state[r].now);
    }
    for (int r = 0; r < one->ranks; r++) {
        result->compute_us[r] = one->state[r].busy;
        result->waiting_us[r] = result->iteration_us - one->state[r].busy;
        QS_TRY(event_add(one, (qs_replay_event){r, -1, -1, one->state[r].now, result->iteration_us, 'i'}));
    }
    return QS_OK;
}

qs_status qs_replay(const qs_profile *profile, int ranks, const qs_replay_rank *rank, bool with_events, qs_replay_result *out) {
    qs_replay_result result = {.ranks = ranks};
    replay one = {.profile = profile, .ranks = ranks, .rank = rank, .buckets = rank[0].schedule->buckets, .result = &result, .with_events = with_events};
    qs_status status = QS_OK;
    for (int r = 1; r < ranks; r++)
        if (rank[r].schedule->buckets != one.buckets)
            return qs_fail(QS_MISMATCH, "replay: rank %d has %d buckets, rank 0 has %d", r, rank[r].schedule->buckets, one.buckets);
    QS_GOTO(replay_start(&one));
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < ranks; r++) QS_GOTO(rank_advance(&one, r, &moved));
        if (one.placed < one.buckets) QS_GOTO(bucket_place(&one, &moved));
    }
    QS_GOTO(replay_finish(&one));
    *out = result;
    result = (qs_replay_result){0};
done:
    qs_replay_release(&result);
    free(one.state);
    free(one.ready);
    free(one.end);
    return status;
}

void qs_replay_release(qs_replay_result *result) {
    free(result->compute_us);
    free(result->waiting_us);
    free(result->event);
    *result = (qs_replay_result){0};
}
