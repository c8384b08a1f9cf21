// SPDX-License-Identifier: Apache-2.0
/* Exact sharding: one permutation an epoch, the same on every rank without a word exchanged, cut into steps and those into consecutive
 * pieces in rank order. Of several lengths: the permutation is dealt to the lengths first, and the steps that they are cut into are
 * mixed. */
#include "qsync/data.h"

#include <stdlib.h>

/* Tell the draws of the shuffle, and of the order of steps of several lengths, apart from all others under the same seed. */
enum { shuffle_stream = 0x73687566, steps_stream = 0x73746570 };
/* Keeps samples × batch within 64 bits. */
static const int64_t global_batch_most = INT64_C(1) << 31;

static int64_t global_batch(const qs_sharding *sharding) {
    int64_t sum = 0;
    for (int rank = 0; rank < sharding->ranks; rank++)
        sum += sharding->batch[rank];
    return sum;
}

static qs_status check_batches(int ranks, const int64_t *batch) {
    int64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (batch[rank] < 0) return qs_fail(QS_USAGE, "the batch of rank %d is %lld, must be at least 0", rank, (long long)batch[rank]);
        if (batch[rank] > global_batch_most - sum) {
            return qs_fail(QS_USAGE, "the batches of all ranks sum to more than %lld; take smaller ones", (long long)global_batch_most);
        }
        sum += batch[rank];
    }
    return sum > 0 ? QS_OK : qs_fail(QS_USAGE, "the batches of all ranks are 0, one must be at least 1");
}

qs_status qs_sharding_create(int64_t count, int ranks, const int64_t *batch, uint64_t seed, bool shuffle, qs_sharding *out) {
    if (count < 1) return qs_fail(QS_USAGE, "cannot share out %lld samples, there must be at least 1", (long long)count);
    if (ranks < 1) return qs_fail(QS_USAGE, "cannot share samples over %d ranks, there must be at least 1", ranks);
    QS_TRY(check_batches(ranks, batch));
    qs_sharding sharding = {.count = count, .ranks = ranks, .batch = batch, .seed = seed, .shuffle = shuffle, .epoch = -1};
    QS_TRY(qs_allocate((size_t)count, sizeof *sharding.order, &sharding.order));
    *out = sharding;
    return QS_OK;
}

void qs_sharding_release(qs_sharding *sharding) {
    free(sharding->order);
    free(sharding->drawn);
    free(sharding->slot);
    *sharding = (qs_sharding){0};
}

qs_status qs_sharding_lengths(qs_sharding *sharding, const qs_lengths *lengths, const int32_t *length) {
    if (lengths->count == 0) return QS_OK;
    char text[QS_LENGTHS_TEXT];
    QS_TRY(qs_lengths_check(lengths));
    if (!length) return qs_fail(QS_USAGE, "lengths %s: the samples all have one length", qs_lengths_text(lengths, text));
    sharding->lengths = *lengths;
    sharding->length = length;
    sharding->epoch = -1;
    for (int64_t i = 0; i < sharding->count; i++)
        sharding->samples[qs_lengths_find(lengths, length[i])]++;
    QS_TRY(qs_allocate((size_t)sharding->count, sizeof *sharding->drawn, &sharding->drawn));
    return qs_allocate((size_t)qs_sharding_steps(sharding), sizeof *sharding->slot, &sharding->slot);
}

static int64_t steps_of(int64_t samples, int64_t batch) {
    return samples / batch + (samples % batch != 0);
}

int64_t qs_sharding_steps(const qs_sharding *sharding) {
    const int64_t batch = global_batch(sharding);
    int64_t steps = 0;
    if (sharding->lengths.count == 0) return steps_of(sharding->count, batch);
    for (int k = 0; k < sharding->lengths.count; k++)
        steps += steps_of(sharding->samples[k], batch);
    return steps;
}

/* The permutation of this count by a stream, or things as they stand. */
static void order_make(const qs_sharding *sharding, int64_t epoch, uint64_t stream, int64_t count, int64_t *order) {
    if (sharding->shuffle)
        qs_random_permutation(qs_random_key(sharding->seed, (uint64_t)epoch, 0, stream), count, order);
    else
        for (int64_t i = 0; i < count; i++)
            order[i] = i;
}

static void order_epoch(qs_sharding *sharding, int64_t epoch) {
    const qs_lengths *lengths = &sharding->lengths;
    if (sharding->epoch == epoch) return;
    sharding->epoch = epoch;
    if (lengths->count == 0) {
        order_make(sharding, epoch, shuffle_stream, sharding->count, sharding->order);
        return;
    }
    /* Shorter lengths before longer ones, those of one length as they were drawn. */
    int64_t at[QS_MOST_LENGTHS] = {0};
    order_make(sharding, epoch, shuffle_stream, sharding->count, sharding->drawn);
    order_make(sharding, epoch, steps_stream, qs_sharding_steps(sharding), sharding->slot);
    for (int k = 1; k < lengths->count; k++)
        at[k] = at[k - 1] + sharding->samples[k - 1];
    for (int64_t i = 0; i < sharding->count; i++)
        sharding->order[at[qs_lengths_find(lengths, sharding->length[sharding->drawn[i]])]++] = sharding->drawn[i];
}

/* Where a step's samples begin in the order, how many all ranks have of them, and the place of their length. */
typedef struct global_step {
    int64_t begin, samples;
    int length;
} global_step;

static global_step step_at(const qs_sharding *sharding, int64_t step) {
    const int64_t batch = global_batch(sharding);
    global_step out = {0};
    int64_t left = sharding->count;
    if (sharding->lengths.count > 0) {
        step = sharding->slot[step];
        left = sharding->samples[0];
        while (step >= steps_of(left, batch)) {
            step -= steps_of(left, batch);
            out.begin += left;
            left = sharding->samples[++out.length];
        }
    }
    out.begin += step * batch;
    out.samples = left - step * batch < batch ? left - step * batch : batch;
    return out;
}

static qs_status step_check(const qs_sharding *sharding, int64_t epoch, int64_t step) {
    const int64_t steps = qs_sharding_steps(sharding);
    if (epoch < 0) return qs_fail(QS_USAGE, "epoch is %lld, must not be negative", (long long)epoch);
    if (step < 0 || step >= steps) return qs_fail(QS_USAGE, "step is %lld, must be within 0..%lld", (long long)step, (long long)steps - 1);
    return QS_OK;
}

qs_status qs_sharding_size(qs_sharding *sharding, int64_t epoch, int64_t step, int *length, int64_t *samples) {
    QS_TRY(step_check(sharding, epoch, step));
    if (sharding->lengths.count > 0) order_epoch(sharding, epoch); /* else all epochs are alike */
    const global_step one = step_at(sharding, step);
    *length = one.length;
    *samples = one.samples;
    return QS_OK;
}

qs_status qs_sharding_step(qs_sharding *sharding, int64_t epoch, int64_t step, int rank, const int64_t **indices, int64_t *count,
                           int64_t *first, int64_t *global_count) {
    QS_TRY(step_check(sharding, epoch, step));
    if (rank < 0 || rank >= sharding->ranks) return qs_fail(QS_USAGE, "rank is %d, must be within 0..%d", rank, sharding->ranks - 1);
    order_epoch(sharding, epoch);
    const global_step one = step_at(sharding, step);
    const int64_t batch = global_batch(sharding);
    int64_t before = 0;
    for (int i = 0; i < rank; i++)
        before += sharding->batch[i];
    /* Cutting at floor(samples × cumulated share) gives each rank its share within one sample, and a full step exactly its batch. */
    const int64_t low = one.samples * before / batch, high = one.samples * (before + sharding->batch[rank]) / batch;
    *indices = sharding->order + one.begin + low;
    *count = high - low;
    *first = one.begin + low;
    *global_count = one.samples;
    return QS_OK;
}
