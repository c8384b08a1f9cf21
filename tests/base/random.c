// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Draws: a pure function of key and counter, uniform in every byte, without correlation between neighbours, keys or streams.
 *
 * Draws are fixed, so the statistical tests always give the same answer; bounds are five standard deviations of the statistic under the
 * null hypothesis (a fair generator exceeds one of them with a probability below 1e-6). */
#include "kit/kit.h"

enum { DRAWS = 1 << 20 };

/* A chi-square statistic with f degrees of freedom has mean f and variance 2f. */
static bool is_fair(double chi_square, double freedom) {
    return fabs(chi_square - freedom) < 5 * sqrt(2 * freedom);
}

static double chi_square(const int64_t *observed, int cells, double expected) {
    double sum = 0;
    for (int i = 0; i < cells; i++) {
        double off = (double)observed[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

TEST(draws_are_the_inline_hash) {
    uint64_t key = qs_random_key(1, 2, 3, 4);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t counter = i * 4294967 % 0x100000000u;
        assert_int_equal(qs_random_bits(key, counter), qs_random_hash((uint32_t)key, (uint32_t)(key >> 32), (uint32_t)counter));
    }
    const uint64_t large[] = {0x100000000u, 0x123456789ABCu, UINT64_MAX};
    assert_true(qs_random_key_for(key, 0xFFFFFFFFu) == key);
    for (int i = 0; i < 3; i++) {
        uint64_t folded = qs_random_key_for(key, large[i]);
        assert_true(folded != key);
        assert_int_equal(qs_random_bits(key, large[i]), qs_random_hash((uint32_t)folded, (uint32_t)(folded >> 32), (uint32_t)large[i]));
    }
    /* Frozen values: a change breaks the reproducibility of every run made before. */
    assert_true(key == 0x336C3255CBCC01FEu);
    assert_int_equal(qs_random_bits(key, 0), 0x1A3740FDu);
    assert_int_equal(qs_random_bits(key, 0x123456789ABCu), 0xD86A2F67u);
}

TEST(uniform_in_every_byte) {
    static int64_t cells[4][256];
    for (uint64_t stream = 0; stream < 4; stream++) {
        uint64_t key = qs_random_key(7, stream, 0, 0);
        memset(cells, 0, sizeof cells);
        for (uint64_t i = 0; i < DRAWS; i++) {
            uint32_t bits = qs_random_bits(key, i);
            for (int byte = 0; byte < 4; byte++) {
                cells[byte][bits >> (8 * byte) & 255]++;
            }
        }
        for (int byte = 0; byte < 4; byte++) {
            assert_true(is_fair(chi_square(cells[byte], 256, DRAWS / 256.0), 255));
        }
    }
}

/* Pairs (draw i, draw i + lag) in 16 × 16 cells of their top or low bits of each 16-bit half: the halves are used as separate draws. */
TEST(neighbours_are_independent) {
    static int64_t cells[4][256];
    const uint64_t lags[] = {1, 2, 3, 16, 64, 1024, 32768, 65536};
    for (size_t l = 0; l < COUNT_OF(lags); l++) {
        uint64_t key = qs_random_key(11, l, 5, 9);
        memset(cells, 0, sizeof cells);
        for (uint64_t i = 0; i < DRAWS; i++) {
            uint32_t a = qs_random_bits(key, i), b = qs_random_bits(key, i + lags[l]);
            cells[0][a >> 28 << 4 | b >> 28]++;
            cells[1][(a >> 12 & 15) << 4 | (b >> 12 & 15)]++;
            cells[2][(a & 15) << 4 | (b & 15)]++;
            cells[3][a >> 28 << 4 | (a >> 12 & 15)]++;
        }
        for (int kind = 0; kind < 4; kind++) {
            assert_true(is_fair(chi_square(cells[kind], 256, DRAWS / 256.0), 255));
        }
    }
}

static double correlation(uint64_t key_a, uint64_t key_b, uint64_t lag, int64_t draws) {
    double sum = 0;
    for (uint64_t i = 0; i < (uint64_t)draws; i++) {
        sum += (qs_random_uniform(key_a, i) - 0.5) * (qs_random_uniform(key_b, i + lag) - 0.5);
    }
    return sum / (double)draws * 12; /* the variance of a uniform draw is 1/12 */
}

TEST(no_serial_correlation) {
    for (uint64_t lag = 1; lag <= 16; lag++) {
        uint64_t key = qs_random_key(3, lag, 0, 0);
        assert_true(fabs(correlation(key, key, lag, DRAWS / 8)) < 5 / sqrt(DRAWS / 8));
    }
}

/* Keys that differ in one word by one (the next step, operator, stream) give unrelated draws at equal counters. */
TEST(keys_are_independent) {
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t key = qs_random_key(i, i, i, i);
        const uint64_t others[] = {qs_random_key(i + 1, i, i, i), qs_random_key(i, i + 1, i, i), qs_random_key(i, i, i + 1, i),
                                   qs_random_key(i, i, i, i + 1)};
        for (int j = 0; j < 4; j++) {
            assert_true(key != others[j]);
            assert_true(fabs(correlation(key, others[j], 0, DRAWS / 16)) < 5 / sqrt(DRAWS / 16));
        }
    }
    assert_true(qs_random_key(1, 0, 0, 0) != qs_random_key(0, 1, 0, 0));
    assert_true(qs_random_key(0, 0, 0, 0) != 0);
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(keys_do_not_collide) {
    static uint64_t keys[8 * 8 * 64 * 16];
    size_t count = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        for (uint64_t step = 0; step < 8; step++) {
            for (uint64_t operator_id = 0; operator_id < 64; operator_id++) {
                for (uint64_t stream = 0; stream < 16; stream++) {
                    keys[count++] = qs_random_key(seed, step, operator_id, stream);
                }
            }
        }
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count; i++) {
        assert_true(keys[i] != keys[i - 1]);
    }
}

/* Draws at the first counter of consecutive keys: dropout and augmentation use few counters and many keys. */
TEST(uniform_across_keys) {
    static int64_t cells[256];
    memset(cells, 0, sizeof cells);
    for (uint64_t step = 0; step < DRAWS / 4; step++) {
        cells[qs_random_bits(qs_random_key(1, step, 2, 3), 0) >> 24]++;
    }
    assert_true(is_fair(chi_square(cells, 256, DRAWS / 4 / 256.0), 255));
}

TEST(high_counters_are_other_draws) {
    uint64_t key = qs_random_key(5, 0, 0, 0);
    int64_t equal = 0;
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS / 8; i++) {
        uint32_t low = qs_random_bits(key, i), high = qs_random_bits(key, i + 0x300000000u);
        equal += low == high;
        sum += ((double)low * 0x1p-32 - 0.5) * ((double)high * 0x1p-32 - 0.5) * 12;
    }
    assert_true(equal < 3);
    assert_true(fabs(sum / (DRAWS / 8)) < 5 / sqrt(DRAWS / 8));
}

TEST(uniform_and_normal_moments) {
    uint64_t key = qs_random_key(9, 9, 9, 9);
    double mean = 0, normal_mean = 0, normal_square = 0, normal_fourth = 0;
    const int draws = DRAWS / 4;
    for (uint64_t i = 0; i < (uint64_t)draws; i++) {
        float u = qs_random_uniform(key, i), z = qs_random_normal(key, i);
        assert_true(u >= 0 && u < 1 && isfinite(z));
        mean += u;
        normal_mean += z;
        normal_square += (double)z * z;
        normal_fourth += (double)z * z * z * z;
    }
    /* Variances of the estimators: 1/12, 1, 2 and 96 over the number of draws. */
    assert_true(fabs(mean / draws - 0.5) < 5 * sqrt(1.0 / 12 / draws));
    assert_true(fabs(normal_mean / draws) < 5 * sqrt(1.0 / draws));
    assert_true(fabs(normal_square / draws - 1) < 5 * sqrt(2.0 / draws));
    assert_true(fabs(normal_fourth / draws - 3) < 5 * sqrt(96.0 / draws));
}

TEST(permutation_holds_every_index) {
    const int64_t counts[] = {0, 1, 2, 3, 10, 1000, 60000};
    static int64_t permutation[60000];
    static bool seen[60000];
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        memset(seen, 0, sizeof seen);
        qs_random_permutation(qs_random_key(c, 0, 0, 0), counts[c], permutation);
        for (int64_t i = 0; i < counts[c]; i++) {
            assert_in_range(permutation[i], 0, counts[c] - 1);
            assert_false(seen[permutation[i]]);
            seen[permutation[i]] = true;
        }
    }
}

/* All 24 orders of four elements, equally often. */
TEST(permutations_are_uniform) {
    int64_t cells[256] = {0}, used[24];
    const int trials = 48000;
    for (int trial = 0; trial < trials; trial++) {
        int64_t p[4];
        qs_random_permutation(qs_random_key(2, (uint64_t)trial, 0, 0), 4, p);
        cells[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
    }
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        if (cells[i] && orders < 24) used[orders++] = cells[i];
    }
    assert_int_equal(orders, 24);
    assert_true(is_fair(chi_square(used, 24, trials / 24.0), 23));
}

/* Where element i of a long permutation lands does not depend on i: fixed points are Poisson with mean 1. */
TEST(long_permutations_mix) {
    static int64_t permutation[5000];
    int64_t fixed = 0;
    double displaced = 0;
    for (uint64_t trial = 0; trial < 100; trial++) {
        qs_random_permutation(qs_random_key(4, trial, 0, 0), 5000, permutation);
        for (int64_t i = 0; i < 5000; i++) {
            fixed += permutation[i] == i;
            displaced += fabs((double)(permutation[i] - i));
        }
    }
    assert_true(fabs((double)fixed - 100) < 5 * sqrt(100));
    /* Mean distance n/3; its standard deviation per element is n/sqrt(18), elements nearly independent. */
    assert_true(fabs(displaced / 500000 - 5000 / 3.0) < 5 * 5000 / sqrt(18) / sqrt(500000));
}

TEST_MAIN(draws_are_the_inline_hash, uniform_in_every_byte, neighbours_are_independent, no_serial_correlation, keys_are_independent,
          keys_do_not_collide, uniform_across_keys, high_counters_are_other_draws, uniform_and_normal_moments,
          permutation_holds_every_index, permutations_are_uniform, long_permutations_mix)
