// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Exact sharding: every sample once an epoch whatever the ranks and batches, the same order everywhere, fair last steps. */
#include "kit/kit.h"
#include "qsync/data.h"

typedef struct division {
    int64_t count;
    int ranks;
    int64_t batch[4];
} division;

static const division divisions[] = {
    {1, 1, {1}},      {10, 1, {10}},       {11, 1, {10}},        {100, 2, {8, 8}},         {101, 2, {8, 8}},
    {97, 2, {24, 8}}, {97, 3, {5, 1, 11}}, {3, 4, {4, 4, 4, 4}}, {1000, 4, {1, 2, 3, 64}}, {513, 4, {7, 7, 9, 9}},
    {5, 2, {100, 1}}, {640, 2, {64, 256}},
};

static int64_t batch_sum(const division *of) {
    int64_t sum = 0;
    for (int rank = 0; rank < of->ranks; rank++)
        sum += of->batch[rank];
    return sum;
}

/* One step over all ranks: pieces lie one after the other, full steps are full, and the last deals within one sample of the share. */
static int64_t check_step(const division *of, qs_sharding *sharding, int64_t epoch, int64_t step, int64_t begin, int *used) {
    int64_t sum = batch_sum(of), samples = of->count - begin < sum ? of->count - begin : sum;
    for (int rank = 0; rank < of->ranks; rank++) {
        const int64_t *indices;
        int64_t count, first, global;
        assert_ok(qs_sharding_step(sharding, epoch, step, rank, &indices, &count, &first, &global));
        assert_int_equal(global, samples);
        assert_int_equal(first, begin);
        double share = (double)samples * (double)of->batch[rank] / (double)sum;
        assert_true((double)count > share - 1 && (double)count < share + 1);
        assert_true(count <= of->batch[rank]);
        for (int64_t i = 0; i < count; i++) {
            assert_in_range(indices[i], 0, of->count - 1);
            used[indices[i]]++;
        }
        begin += count;
    }
    return begin;
}

TEST(every_sample_once) {
    for (size_t i = 0; i < COUNT_OF(divisions); i++) {
        const division *of = &divisions[i];
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            qs_sharding sharding;
            assert_ok(qs_sharding_create(of->count, of->ranks, of->batch, 7, shuffle, &sharding));
            for (int64_t epoch = 0; epoch < 3; epoch++) {
                int *used = calloc((size_t)of->count, sizeof *used);
                int64_t begin = 0;
                for (int64_t step = 0; step < qs_sharding_steps(&sharding); step++) {
                    begin = check_step(of, &sharding, epoch, step, begin, used);
                }
                assert_int_equal(begin, of->count);
                for (int64_t sample = 0; sample < of->count; sample++)
                    assert_int_equal(used[sample], 1);
                free(used);
            }
            qs_sharding_release(&sharding);
        }
    }
}

/* The samples of a whole epoch in global order, as one process would see them. */
static void epoch_order(int64_t count, int ranks, const int64_t *batch, uint64_t seed, int64_t epoch, int64_t *order) {
    qs_sharding sharding;
    assert_ok(qs_sharding_create(count, ranks, batch, seed, true, &sharding));
    for (int64_t step = 0; step < qs_sharding_steps(&sharding); step++) {
        for (int rank = 0; rank < ranks; rank++) {
            const int64_t *indices;
            int64_t mine, first, global;
            assert_ok(qs_sharding_step(&sharding, epoch, step, rank, &indices, &mine, &first, &global));
            memcpy(order + first, indices, (size_t)mine * sizeof *order);
        }
    }
    qs_sharding_release(&sharding);
}

/* The order depends on seed and epoch only: not on ranks, batches, the rank that asks or the epochs asked for before. */
TEST(order_is_keyed_by_seed_and_epoch) {
    int64_t one[500], two[500], other[500];
    epoch_order(500, 1, (const int64_t[]){64}, 3, 5, one);
    epoch_order(500, 3, (const int64_t[]){10, 1, 30}, 3, 5, two);
    assert_memory_equal(one, two, sizeof one);
    epoch_order(500, 1, (const int64_t[]){64}, 3, 6, other);
    assert_memory_not_equal(one, other, sizeof one);
    epoch_order(500, 1, (const int64_t[]){64}, 4, 5, other);
    assert_memory_not_equal(one, other, sizeof one);

    qs_sharding sharding;
    const int64_t batch[] = {20, 30}, *indices;
    int64_t count, first, global;
    assert_ok(qs_sharding_create(500, 2, batch, 3, true, &sharding));
    for (int64_t epoch = 9; epoch >= 5; epoch--) {
        assert_ok(qs_sharding_step(&sharding, epoch, 4, 1, &indices, &count, &first, &global));
    }
    assert_memory_equal(indices, one + first, (size_t)count * sizeof *one);
    qs_sharding_release(&sharding);
}

TEST(unshuffled_keeps_the_order) {
    qs_sharding sharding;
    const int64_t batch[] = {3, 2}, *indices;
    int64_t count, first, global;
    assert_ok(qs_sharding_create(23, 2, batch, 1, false, &sharding));
    assert_int_equal(qs_sharding_steps(&sharding), 5);
    assert_ok(qs_sharding_step(&sharding, 2, 1, 1, &indices, &count, &first, &global));
    assert_int_equal(first, 8);
    assert_int_equal(count, 2);
    assert_int_equal(indices[0], 8);
    assert_int_equal(indices[1], 9);
    qs_sharding_release(&sharding);
}

TEST(refuses_wrong_figures) {
    qs_sharding sharding;
    const int64_t batch[] = {3, 2}, none[] = {3, 0}, huge[] = {INT64_MAX, INT64_MAX}, *indices;
    int64_t count, first, global;
    assert_int_equal(qs_sharding_create(0, 2, batch, 1, false, &sharding), QS_USAGE);
    assert_int_equal(qs_sharding_create(23, 0, batch, 1, false, &sharding), QS_USAGE);
    assert_refused(qs_sharding_create(23, 2, none, 1, false, &sharding), QS_USAGE, "rank 1");
    assert_int_equal(qs_sharding_create(23, 2, huge, 1, false, &sharding), QS_USAGE);
    assert_ok(qs_sharding_create(23, 2, batch, 1, false, &sharding));
    assert_int_equal(qs_sharding_step(&sharding, 0, 5, 0, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, 0, -1, 0, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, 0, 0, 2, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, -1, 0, 0, &indices, &count, &first, &global), QS_USAGE);
    qs_sharding_release(&sharding);
}

TEST_MAIN(every_sample_once, order_is_keyed_by_seed_and_epoch, unshuffled_keeps_the_order, refuses_wrong_figures)
