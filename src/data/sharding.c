// SPDX-License-Identifier: Apache-2.0
/* Exact sharding: one permutation an epoch, the same on every rank without a word exchanged, cut into steps and those into consecutive
 * pieces in rank order. */
#include "qsync/data.h"

#include <stdlib.h>

/* Tells the draws of the shuffle apart from all others under the same seed. */
enum { shuffle_stream = 0x73687566 };
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
        if (batch[rank] < 1) return qs_fail(QS_USAGE, "the batch of rank %d is %lld, must be at least 1", rank, (long long)batch[rank]);
        if (batch[rank] > global_batch_most - sum) {
            return qs_fail(QS_USAGE, "the batches of all ranks sum to more than %lld; take smaller ones", (long long)global_batch_most);
        }
        sum += batch[rank];
    }
    return QS_OK;
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
    *sharding = (qs_sharding){0};
}

int64_t qs_sharding_steps(const qs_sharding *sharding) {
    int64_t batch = global_batch(sharding);
    return sharding->count / batch + (sharding->count % batch != 0);
}

static void order_epoch(qs_sharding *sharding, int64_t epoch) {
    if (sharding->epoch == epoch) return;
    if (sharding->shuffle) {
        qs_random_permutation(qs_random_key(sharding->seed, (uint64_t)epoch, 0, shuffle_stream), sharding->count, sharding->order);
    } else {
        for (int64_t i = 0; i < sharding->count; i++)
            sharding->order[i] = i;
    }
    sharding->epoch = epoch;
}

qs_status qs_sharding_step(qs_sharding *sharding, int64_t epoch, int64_t step, int rank, const int64_t **indices, int64_t *count,
                           int64_t *first, int64_t *global_count) {
    int64_t steps = qs_sharding_steps(sharding);
    if (epoch < 0) return qs_fail(QS_USAGE, "epoch is %lld, must not be negative", (long long)epoch);
    if (step < 0 || step >= steps) return qs_fail(QS_USAGE, "step is %lld, must be within 0..%lld", (long long)step, (long long)steps - 1);
    if (rank < 0 || rank >= sharding->ranks) return qs_fail(QS_USAGE, "rank is %d, must be within 0..%d", rank, sharding->ranks - 1);
    order_epoch(sharding, epoch);
    int64_t batch = global_batch(sharding), begin = step * batch, before = 0;
    for (int i = 0; i < rank; i++)
        before += sharding->batch[i];
    int64_t samples = sharding->count - begin < batch ? sharding->count - begin : batch;
    /* Cutting at floor(samples × cumulated share) gives each rank its share within one sample, and a full step exactly its batch. */
    int64_t low = samples * before / batch, high = samples * (before + sharding->batch[rank]) / batch;
    *indices = sharding->order + begin + low;
    *count = high - low;
    *first = begin + low;
    *global_count = samples;
    return QS_OK;
}
