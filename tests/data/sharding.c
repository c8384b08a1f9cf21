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
    {1, 1, {1}},      {10, 1, {10}},       {11, 1, {10}},         {100, 2, {8, 8}},         {101, 2, {8, 8}},
    {97, 2, {24, 8}}, {97, 3, {5, 1, 11}}, {3, 4, {4, 4, 4, 4}},  {1000, 4, {1, 2, 3, 64}}, {513, 4, {7, 7, 9, 9}},
    {5, 2, {100, 1}}, {640, 2, {64, 256}}, {103, 3, {0, 20, 12}}, /* idle */
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

/* ---- Several lengths ---- */

static const qs_lengths three = {3, {4, 9, 16}};

/* Lengths 1 .. 16, unevenly: few of 5 .. 9. */
static void lengths_draw(int64_t count, int32_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t one = 1 + (int32_t)(qs_random_bits(5, (uint64_t)i) % 16);
        out[i] = one > 4 && one < 9 && i % 3 ? 16 : one;
    }
}

/* Every sample once an epoch; a step has one length on all ranks, full or what is left of it; ranks have consecutive pieces. */
TEST(steps_of_one_length) {
    enum { MOST = 1000 };
    int32_t length[MOST];
    lengths_draw(MOST, length);
    for (size_t i = 0; i < COUNT_OF(divisions); i++) {
        const division *of = &divisions[i];
        const int64_t sum = batch_sum(of);
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            qs_sharding sharding;
            int64_t there[3] = {0}, steps = 0;
            for (int64_t n = 0; n < of->count; n++)
                there[length[n] <= 4 ? 0 : length[n] <= 9 ? 1 : 2]++;
            for (int k = 0; k < 3; k++)
                steps += (there[k] + sum - 1) / sum;
            assert_ok(qs_sharding_create(of->count, of->ranks, of->batch, 7, shuffle, &sharding));
            assert_ok(qs_sharding_lengths(&sharding, &three, length));
            assert_int_equal(qs_sharding_steps(&sharding), steps);
            for (int64_t epoch = 0; epoch < 3; epoch++) {
                int *used = calloc((size_t)of->count, sizeof *used), partial[3] = {0};
                int64_t dealt[3] = {0};
                for (int64_t step = 0; step < steps; step++) {
                    int place;
                    int64_t samples, begin = 0;
                    assert_ok(qs_sharding_size(&sharding, epoch, step, &place, &samples));
                    for (int rank = 0; rank < of->ranks; rank++) {
                        const int64_t *indices;
                        int64_t count, first, global;
                        assert_ok(qs_sharding_step(&sharding, epoch, step, rank, &indices, &count, &first, &global));
                        if (rank == 0) begin = first;
                        assert_int_equal(first, begin);
                        assert_int_equal(global, samples);
                        for (int64_t n = 0; n < count; n++) {
                            used[indices[n]]++;
                            assert_int_equal(qs_lengths_find(&three, length[indices[n]]), place);
                        }
                        begin += count;
                        dealt[place] += count;
                    }
                    partial[place] += samples < sum;
                }
                for (int k = 0; k < 3; k++) {
                    assert_int_equal(dealt[k], there[k]);
                    assert_int_equal(partial[k], there[k] % sum != 0);
                }
                for (int64_t n = 0; n < of->count; n++)
                    assert_int_equal(used[n], 1);
                free(used);
            }
            qs_sharding_release(&sharding);
        }
    }
}

/* Steps of all lengths are mixed, another way in every epoch; whoever computes how many samples changes neither them nor their order. */
TEST(steps_are_mixed_alike_everywhere) {
    enum { COUNT = 600 };
    int32_t length[COUNT];
    qs_sharding one, two;
    const int64_t whole[] = {20}, parts[] = {13, 1, 6};
    int place[2], changes = 0, before = -1, differ = 0;
    int64_t samples, count, first, all;
    const int64_t *alone, *piece;
    lengths_draw(COUNT, length);
    assert_ok(qs_sharding_create(COUNT, 1, whole, 3, true, &one));
    assert_ok(qs_sharding_lengths(&one, &three, length));
    assert_ok(qs_sharding_create(COUNT, 3, parts, 3, true, &two));
    assert_ok(qs_sharding_lengths(&two, &three, length));
    for (int64_t step = 0; step < qs_sharding_steps(&one); step++) {
        assert_ok(qs_sharding_size(&one, 6, step, &place[1], &samples));
        assert_ok(qs_sharding_size(&one, 5, step, &place[0], &samples));
        differ += place[0] != place[1];
        changes += place[0] != before;
        before = place[0];
        assert_ok(qs_sharding_step(&one, 5, step, 0, &alone, &count, &first, &all));
        for (int rank = 0; rank < 3; rank++) {
            int64_t mine, at, global;
            assert_ok(qs_sharding_step(&two, 5, step, rank, &piece, &mine, &at, &global));
            assert_int_equal(global, all);
            assert_memory_equal(piece, alone + (at - first), (size_t)mine * sizeof *piece);
        }
    }
    assert_true(changes > 6 && differ > 3);
    qs_sharding_release(&one);
    qs_sharding_release(&two);
}

TEST(wrong_lengths_are_refused) {
    const int64_t batch[] = {3};
    const int32_t length[] = {1, 2, 3};
    qs_sharding sharding;
    assert_ok(qs_sharding_create(3, 1, batch, 1, false, &sharding));
    assert_refused(qs_sharding_lengths(&sharding, &three, NULL), QS_USAGE, "lengths 4,9,16: the samples all have one length");
    assert_refused(qs_sharding_lengths(&sharding, &(qs_lengths){2, {4, 4}}, length), QS_USAGE, "length 4 stands behind 4");
    assert_refused(qs_sharding_lengths(&sharding, &(qs_lengths){2, {0, 4}}, length), QS_USAGE, "length 0: at least 1");
    assert_refused(qs_sharding_lengths(&sharding, &(qs_lengths){9, {0}}, length), QS_USAGE, "9 lengths: at most 8");
    qs_sharding_release(&sharding);
}

TEST(refuses_wrong_figures) {
    qs_sharding sharding;
    const int64_t batch[] = {3, 2}, none[] = {0, 0}, negative[] = {3, -1}, huge[] = {INT64_MAX, INT64_MAX}, *indices;
    int64_t count, first, global;
    assert_int_equal(qs_sharding_create(0, 2, batch, 1, false, &sharding), QS_USAGE);
    assert_int_equal(qs_sharding_create(23, 0, batch, 1, false, &sharding), QS_USAGE);
    assert_refused(qs_sharding_create(23, 2, negative, 1, false, &sharding), QS_USAGE, "rank 1");
    assert_refused(qs_sharding_create(23, 2, none, 1, false, &sharding), QS_USAGE, "one must be at least 1");
    assert_int_equal(qs_sharding_create(23, 2, huge, 1, false, &sharding), QS_USAGE);
    assert_ok(qs_sharding_create(23, 2, batch, 1, false, &sharding));
    assert_int_equal(qs_sharding_step(&sharding, 0, 5, 0, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, 0, -1, 0, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, 0, 0, 2, &indices, &count, &first, &global), QS_USAGE);
    assert_int_equal(qs_sharding_step(&sharding, -1, 0, 0, &indices, &count, &first, &global), QS_USAGE);
    qs_sharding_release(&sharding);
}

TEST_MAIN(every_sample_once, order_is_keyed_by_seed_and_epoch, unshuffled_keeps_the_order, steps_of_one_length,
          steps_are_mixed_alike_everywhere, wrong_lengths_are_refused, refuses_wrong_figures)
