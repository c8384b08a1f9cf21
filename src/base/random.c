// SPDX-License-Identifier: Apache-2.0
/* Counter-based random numbers: keys, scalar draws and permutations on top of the door's inline hash.
 *
 * For counters below 2^32 a draw is qs_random_hash of the key's halves, which is what vector kernels compute in place; the high half of
 * a larger counter goes through a 64-bit mixer into the key. */
#include "qsync/base.h"

#include <assert.h>
#include <math.h>

/* The 64-bit finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that keeps 0. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x;
}

static const uint64_t golden = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */

uint64_t qs_random_key(uint64_t seed, uint64_t step, uint64_t operator_id, uint64_t stream) {
    uint64_t key = mix(seed + golden);
    key = mix(key + golden + step);
    key = mix(key + golden + operator_id);
    return mix(key + golden + stream);
}

uint64_t qs_random_key_for(uint64_t key, uint64_t counter) {
    return key ^ mix(counter >> 32);
}

uint32_t qs_random_bits(uint64_t key, uint64_t counter) {
    key = qs_random_key_for(key, counter);
    return qs_random_hash((uint32_t)key, (uint32_t)(key >> 32), (uint32_t)counter);
}

float qs_random_uniform(uint64_t key, uint64_t counter) {
    return (float)(qs_random_bits(key, counter) >> 8) * 0x1p-24f;
}

float qs_random_normal(uint64_t key, uint64_t counter) {
    static const double two_pi = 6.283185307179586;
    /* (0, 1] keeps the logarithm finite: at most sqrt(-2 ln 2^-33) = 6.8 standard deviations. */
    double radius = ((double)qs_random_bits(key, counter) + 0.5) * 0x1p-32;
    double angle = (double)qs_random_bits(mix(key + golden), counter) * 0x1p-32;
    return (float)(sqrt(-2.0 * log(radius)) * cos(two_pi * angle));
}

void qs_random_permutation(uint64_t key, int64_t count, int64_t *permutation) {
    assert(count >= 0);
    for (int64_t i = 0; i < count; i++) {
        permutation[i] = i;
    }
    /* Fisher-Yates; 64 bits modulo i + 1 leave a bias below 2^-32 for any array that fits in memory. */
    for (int64_t i = count - 1; i > 0; i--) {
        uint64_t counter = 2 * (uint64_t)i;
        uint64_t draw = (uint64_t)qs_random_bits(key, counter) << 32 | qs_random_bits(key, counter + 1);
        int64_t j = (int64_t)(draw % ((uint64_t)i + 1));
        int64_t other = permutation[j];
        permutation[j] = permutation[i];
        permutation[i] = other;
    }
}
