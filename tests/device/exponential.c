// SPDX-License-Identifier: Apache-2.0
// labels: short
/* e^x as our own vector kernels compute it: within the bound that its file derives, over all it may be asked for; and its ends. The lanes
 * are of the width that this file is compiled for: the same operations as in every other. */
#include "kit/kit.h"

#define LANES 4
#define INLINE static inline
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

INLINE floats spread(float value) {
    return value - (floats){0};
}

INLINE floats choose(ints condition, floats yes, floats no) {
    return (floats)((condition & (ints)yes) | (~condition & (ints)no));
}

#include "../../src/device/cpu/vector/exponential.inc"

static float one(float x) {
    return exponential(spread(x))[1];
}

/* 41 is prime: every last digit, and every neighbourhood of 2^-18 relative width, is met. */
TEST(within_its_bound) {
    double worst = 0;
    for (uint32_t bits = bits_of(0x1p-30f); bits < bits_of(88.7f); bits += 41)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = float_of(bits | sign << 31);
            const double exact = exp((double)x);
            int exponent;
            if (exact < 0x1p-126) continue;
            frexp(exact, &exponent);
            const double units = fabs((double)one(x) - exact) / ldexp(1, exponent - 24);
            if (units > worst) worst = units;
        }
    assert_true(worst < 1.5);
}

TEST(ends) {
    assert_true(one(0) == 1 && one(-0.0f) == 1 && one(0x1p-140f) == 1);
    assert_true(one(-INFINITY) == 0 && one(-88) == 0 && one(-1e30f) == 0);
    assert_true(one(INFINITY) == INFINITY && one(88.73f) == INFINITY && one(1e30f) == INFINITY);
    assert_true(isnan(one(NAN)));
}

TEST_MAIN(within_its_bound, ends)
