// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Rounding of single values, by its properties: results are values of the format, neighbours of x, in order, and fair. */
#include "number_test.h"

enum { SAMPLES = 4000 };

static double spacing_at(const qs_format *format, double x) {
    return ldexp(format->epsilon, ilogb(fmax(fabs(x), format->min_normal)));
}

static const qs_format *format_number(size_t i) {
    return format_named(float_formats[i]);
}

TEST(results_stay_when_rounded_again) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
            for (uint64_t i = 0; i < SAMPLES; i++) {
                float x = near_format(format_number(f), 1, i);
                float once = qs_round_value(format_number(f), (qs_rounding)r, QS_OVERFLOW_DEFAULT, x, qs_random_bits(2, i), NULL);
                for (int again = 0; again < QS_ROUNDING_COUNT; again++) {
                    float twice =
                        qs_round_value(format_number(f), (qs_rounding)again, QS_OVERFLOW_DEFAULT, once, qs_random_bits(3, i), NULL);
                    if (twice != once) fail_msg("%s: %a becomes %a, then %a", float_formats[f], (double)x, (double)once, (double)twice);
                }
            }
        }
    }
}

TEST(errors_are_bounded) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        const qs_format *format = format_number(f);
        for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
            bool nearest = r == QS_NEAREST_EVEN || r == QS_NEAREST_AWAY;
            for (uint64_t i = 0; i < SAMPLES; i++) {
                float x = near_format(format, 4, i);
                bool overflow = true;
                float y = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, x, qs_random_bits(5, i), &overflow);
                if (overflow) {
                    assert_true(fabs((double)x) > format->max - spacing_at(format, format->max));
                    assert_true(fabs((double)y) >= format->max);
                    continue;
                }
                double error = (double)y - (double)x;
                double q = spacing_at(format, x);
                assert_true(nearest ? fabs(error) <= q / 2 : fabs(error) < q);
                if (r == QS_FLOOR) assert_true(error <= 0.0);
                if (r == QS_TOWARD_ZERO) assert_true(fabs((double)y) <= fabs((double)x));
                assert_true(y == 0.0f || signbit(y) == signbit(x));
                assert_true(fabs((double)y) <= format->max);
            }
        }
    }
}

/* Also with the same random bits: a larger fraction carries whenever a smaller one does. */
TEST(order_is_kept) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        const qs_format *format = format_number(f);
        for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
            for (uint64_t i = 0; i < SAMPLES; i++) {
                float x = near_format(format, 6, i);
                float y = qs_random_bits(7, i) & 1 ? nextafterf(x, INFINITY) : near_format(format, 8, i);
                if (r == QS_STOCHASTIC) {
                    x = fabsf(x);
                    y = fabsf(y);
                }
                uint32_t random = qs_random_bits(9, i);
                float low = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, x < y ? x : y, random, NULL);
                float high = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, x < y ? y : x, random, NULL);
                if (low > high) fail_msg("%s: %a and %a change places", format->name, (double)x, (double)y);
            }
        }
    }
}

TEST(ties_are_told_apart) {
    const qs_format *bf16 = format_named("bf16");
    assert_true(qs_round_value(bf16, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, 0x1.01p0f, 0, NULL) == 1.0f);
    assert_true(qs_round_value(bf16, QS_NEAREST_AWAY, QS_OVERFLOW_DEFAULT, 0x1.01p0f, 0, NULL) == 0x1.02p0f);
    assert_true(qs_round_value(bf16, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, 0x1.03p0f, 0, NULL) == 0x1.04p0f);
    assert_true(qs_round_value(bf16, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, -0x1.01p0f, 0, NULL) == -1.0f);
    assert_true(qs_round_value(bf16, QS_FLOOR, QS_OVERFLOW_DEFAULT, -0x1.01p0f, 0, NULL) == -0x1.02p0f);
    const qs_format *int8 = format_named("int8");
    assert_true(qs_round_value(int8, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, 2.5f, 0, NULL) == 2.0f);
    assert_true(qs_round_value(int8, QS_NEAREST_AWAY, QS_OVERFLOW_DEFAULT, -2.5f, 0, NULL) == -3.0f);
    assert_true(qs_round_value(int8, QS_FLOOR, QS_OVERFLOW_DEFAULT, -2.5f, 0, NULL) == -3.0f);
    assert_true(qs_round_value(int8, QS_TOWARD_ZERO, QS_OVERFLOW_DEFAULT, -2.5f, 0, NULL) == -2.0f);
}

TEST(specials_follow_their_rule) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        const qs_format *format = format_number(f);
        for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
            bool overflow = false;
            float infinite = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, -INFINITY, 1u << 31, &overflow);
            assert_true(overflow);
            assert_true((double)infinite == (format->specials == QS_SPECIALS_IEEE ? -INFINITY : -format->max));
            float nan = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, -NAN, 1u << 31, &overflow);
            assert_int_equal(overflow, format->specials == QS_SPECIALS_NONE);
            assert_true(signbit(nan));
            assert_true(format->specials == QS_SPECIALS_NONE ? (double)nan == -format->max : isnan(nan));
        }
    }
    bool overflow = false;
    assert_true(qs_round_value(format_named("int8"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, -INFINITY, 0, &overflow) == -127.0f && overflow);
    assert_true(qs_round_value(format_named("int4"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, 7.5f, 0, &overflow) == 7.0f && overflow);
    assert_true(qs_round_value(format_named("int4"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, 7.4f, 0, &overflow) == 7.0f && !overflow);
}

/* P(up) is the fraction's first 31 bits: exactly so many of the upper 31 bits of random words carry. Counted at the border word. */
TEST(stochastic_probability_is_exact) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        const qs_format *format = format_number(f);
        for (uint64_t i = 0; i < SAMPLES; i++) {
            float x = near_format(format, 10, i);
            double q = spacing_at(format, x);
            double units = fabs((double)x) / q;
            double fraction = 2.0 * floor((units - floor(units)) * 0x1p31);
            if (fabs((double)x) >= format->max || fraction == 0.0) continue;
            uint32_t first = (uint32_t)(0x1p32 - fraction);
            double below = fabs((double)qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, x, first - 1, NULL));
            double above = fabs((double)qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, x, first, NULL));
            assert_true(below == floor(units) * q);
            assert_true(above == (floor(units) + 1) * q || above > format->max || above == format->max);
        }
    }
}

/* Mean and variance of many draws: f q and q² f (1 - f). The mean of n draws has standard deviation q sqrt(f (1 - f) / n); the sample
 * variance of a two-valued variable has standard deviation q² sqrt(f (1 - f)) |1 - 2f| / sqrt(n) to first order, and second-order terms of
 * 1/n. With 4.5 standard deviations a fair generator fails one of 2 × 60 tests with probability 120 × 7e-6 < 1e-3; draws are keyed, so that
 * the outcome is fixed. */
TEST(stochastic_rounding_is_fair) {
    enum { DRAWS = 20000 };
    static const char *const names[] = {"bf16", "fp16", "fp(4,3,4)", "fp(5,2,0)", "int8", "int4"};
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        for (uint64_t i = 0; i < 10; i++) {
            float x = (float)((qs_random_uniform(11, i) - 0.5f) * (i < 5 ? 10.0f : 1e-3f));
            double q = format->kind == QS_KIND_FLOAT ? spacing_at(format, x) : 1.0;
            double f = fabs((double)x) / q - floor(fabs((double)x) / q);
            double mean = 0.0, square = 0.0;
            for (uint64_t draw = 0; draw < DRAWS; draw++) {
                uint32_t random = qs_random_bits(qs_random_key(12, n, i, 0), draw);
                double error = ((double)qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, x, random, NULL) - (double)x) / q;
                mean += error / DRAWS;
                square += error * error / DRAWS;
            }
            double deviation = sqrt(f * (1.0 - f) / DRAWS);
            assert_true(fabs(mean) <= 4.5 * deviation + 0x1p-24);
            assert_true(fabs(square - f * (1.0 - f)) <= 4.5 * deviation * fabs(1.0 - 2.0 * f) + 25.0 / DRAWS);
        }
    }
}

TEST_MAIN(results_stay_when_rounded_again, errors_are_bounded, order_is_kept, ties_are_told_apart, specials_follow_their_rule,
          stochastic_probability_is_exact, stochastic_rounding_is_fair)
