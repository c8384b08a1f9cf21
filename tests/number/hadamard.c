// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Hadamard transforms: the definition, in equal bits on every instruction set and along either axis; the inverse; which blocks fit. */
#include "number_test.h"

#include "kit/hadamard.h"

enum { MOST = 64 * 37 };

static float first[MOST], values[MOST], across[MOST], expected[MOST];

static void fill(int64_t count) {
    for (int64_t i = 0; i < count; i++)
        first[i] = qs_random_normal(3, (uint64_t)i) * (i % 7 ? 1.0f : 100.0f);
}

/* Counts from one block on, whole vectors and not. */
TEST(sums_by_definition) {
    for (int block = 2; block <= QS_MOST_HADAMARD; block *= 2) {
        for (int64_t blocks = 1; blocks <= 37; blocks += 4) {
            const int64_t count = block * blocks;
            fill(count);
            memcpy(expected, first, (size_t)count * sizeof *first);
            const double allowed = hadamard_by_definition(block, 1, count, expected);
            memcpy(values, first, (size_t)count * sizeof *first);
            qs_hadamard_array(block, count, values);
            for (int64_t i = 0; i < count; i++)
                assert_true(fabs((double)values[i] - (double)expected[i]) <= allowed);
        }
    }
}

TEST(bits_are_the_same_everywhere) {
    for (int block = 2; block <= QS_MOST_HADAMARD; block *= 2) {
        const int64_t columns = 37, count = block * columns;
        fill(count);
        for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
            assert_ok(qs_number_isa_set(isa_names[isa]));
            memcpy(values, first, (size_t)count * sizeof *first);
            qs_hadamard_array(block, count, values);
            for (int64_t i = 0; i < count; i++)
                across[i % block * columns + i / block] = first[i]; /* one block a column */
            qs_hadamard_rows(block, columns, across);
            for (int64_t i = 0; i < count; i++)
                assert_true(bits_of(values[i]) == bits_of(across[i % block * columns + i / block]));
            if (isa == 0) memcpy(expected, values, (size_t)count * sizeof *values);
            assert_memory_equal(values, expected, (size_t)count * sizeof *values);
        }
    }
}

/* Twice is nothing but roundings; one large value among zeros is spread evenly, and its square sum stays. */
TEST(orthogonal) {
    for (int block = 2; block <= QS_MOST_HADAMARD; block *= 2) {
        fill(block);
        memcpy(values, first, (size_t)block * sizeof *first);
        memcpy(expected, first, (size_t)block * sizeof *first);
        const double there = hadamard_by_definition(block, 1, block, expected), back = hadamard_by_definition(block, 1, block, expected);
        qs_hadamard_array(block, block, values);
        qs_hadamard_array(block, block, values);
        for (int i = 0; i < block; i++) /* what was off there, by as much in every value, comes back up to sqrt(block) times as large */
            assert_true(fabs((double)values[i] - (double)first[i]) <= 2 * (sqrt(block) * there + back));
        memset(values, 0, (size_t)block * sizeof *values);
        values[block - 1] = 4;
        qs_hadamard_array(block, block, values);
        for (int i = 0; i < block; i++)
            assert_true(fabsf(values[i]) == 4 * (float)(1 / sqrt(block)));
    }
}

TEST(blocks_that_fit) {
    assert_int_equal(qs_hadamard_block(16, 64), 16);
    assert_int_equal(qs_hadamard_block(64, 64), 64);
    assert_int_equal(qs_hadamard_block(16, 24), 8);
    assert_int_equal(qs_hadamard_block(16, 10), 2);
    assert_int_equal(qs_hadamard_block(16, 3), 1);
    assert_int_equal(qs_hadamard_block(16, 1), 1);
    assert_int_equal(qs_hadamard_block(2, 16), 2);
}

TEST(what_is_not_finite_shows) {
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        fill(32);
        first[20] = NAN;
        qs_hadamard_array(16, 32, first);
        for (int i = 0; i < 32; i++)
            assert_int_equal(isnan(first[i]) != 0, i >= 16);
    }
}

TEST_MAIN(sums_by_definition, bits_are_the_same_everywhere, orthogonal, blocks_that_fit, what_is_not_finite_shows)
