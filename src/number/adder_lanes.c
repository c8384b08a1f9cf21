// SPDX-License-Identifier: Apache-2.0
/* The adders over many independent sums at a time: the same bits as adder.c, without branches, so that the compiler makes vector code of
 * the inner loops. Exponents are taken as unlimited below and above: addends between 2^-66 and 2^6 in magnitude, and sums of up to 2^31 of
 * them, stay far within those of 8 bits. */
#include "number_room.h"

#include <math.h>

static inline int64_t bits_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double of_bits(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* a + b, rounded to odd: a step of the magnitude towards what is left over, where the last bit is not set. */
static inline int64_t sum_to_odd(double a, double b) {
    const double sum = a + b, of_b = sum - a, rest = (a - (sum - of_b)) + (b - of_b);
    const int64_t bits = bits_of(sum), away = 1 | ((bits ^ bits_of(rest)) >> 63);
    return bits + ((rest != 0) & ~bits & 1) * away;
}

/* In the bits of a double the magnitude stands below the sign, and a carry out of the mantissa makes the next exponent. */
static inline double nearest_even(double a, double b, int dropped, uint32_t random) {
    (void)random;
    const int64_t bits = sum_to_odd(a, b), one = (int64_t)1 << dropped;
    return of_bits((bits + (one / 2 - 1) + ((bits >> dropped) & 1)) & -one);
}

static inline double toward_zero(double a, double b, int dropped, uint32_t random) {
    (void)random;
    return of_bits(sum_to_odd(a, b) & -((int64_t)1 << dropped));
}

/* floats have the guarded places. */
static inline double stochastic(double a, double b, int dropped, uint32_t random) {
    const int64_t odd = sum_to_odd(a, b), near = bits_of((double)(float)of_bits(odd));
    const int64_t bits = dropped >= 52 - QS_WIDEST_GUARDED ? near : odd, half = (int64_t)(random >> 16) * 2 + 1;
    return of_bits((bits + (half << (dropped - 17))) & -((int64_t)1 << dropped));
}

/* The smaller operand in last places of the larger is below 2^(m + 1): an integer of 32 bits. */
static inline double align_truncate(double a, double b, int dropped, uint32_t random) {
    (void)random;
    const bool first = fabs(a) >= fabs(b);
    const double large = first ? a : b, small = first ? b : a;
    const int64_t bias = 1023, mantissa = 52 - dropped, lowest = bias - 126;
    const int64_t field = (bits_of(large) >> 52) & 2047, exponent = field > lowest ? field : lowest;
    const double place = of_bits((exponent - mantissa) << 52), inverse = of_bits((2 * bias - exponent + mantissa) << 52);
    return of_bits(bits_of(large + (double)(int32_t)(small * inverse) * place) & -((int64_t)1 << dropped));
}

#define QS_ADDER(name, text, summary)                                                                                                   \
    void qs__adder_lanes_##name(int bits, int64_t count, const double *addends, double *sums, const uint64_t *keys, uint32_t counter) { \
        const int dropped = 52 - bits;                                                                                                  \
        for (int64_t i = 0; i < count; i++, addends += QS_NARROW_LANES, counter++)                                                      \
            for (int l = 0; l < QS_NARROW_LANES; l++)                                                                                   \
                sums[l] = name(sums[l], addends[l], dropped, qs_random_hash((uint32_t)keys[l], (uint32_t)(keys[l] >> 32), counter));    \
    }
#include "adders.def"
#undef QS_ADDER
