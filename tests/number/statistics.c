// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Reductions against plain loops in long double, at lengths around every seam: lanes, pieces, slots. */
#include "number_test.h"

enum { LARGEST = 3 * 1024 * 1024 + 5 };

static const int64_t counts[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 256 * 4096 + 1, LARGEST};

static float *fresh(uint64_t key) {
    float *src = malloc(LARGEST * sizeof *src);
    assert_non_null(src);
    for (uint64_t i = 0; i < LARGEST; i++) {
        src[i] = (qs_random_uniform(key, i) - 0.4f) * 8.0f;
    }
    return src;
}

TEST(extremes_are_exact) {
    float *src = fresh(1);
    uint16_t *bfloats = malloc(LARGEST * sizeof *bfloats);
    assert_non_null(bfloats);
    qs_convert_from_fp32(format_named("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0, 0}, LARGEST, src, bfloats);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        float low = INFINITY, high = -INFINITY, absolute = 0.0f, rounded = 0.0f;
        int64_t done = 0;
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            for (; done < counts[c]; done++) {
                float wide = float_of((uint32_t)bfloats[done] << 16);
                low = fminf(low, src[done]);
                high = fmaxf(high, src[done]);
                absolute = fmaxf(absolute, fabsf(src[done]));
                rounded = fmaxf(rounded, fabsf(wide));
            }
            float minimum = 0.0f, maximum = 0.0f;
            qs_minmax_array(counts[c], src, &minimum, &maximum);
            assert_true(minimum == low && maximum == high);
            assert_true(qs_absmax_array(counts[c], src) == absolute);
            assert_true(qs_absmax_bf16_array(counts[c], bfloats) == rounded);
        }
    }
    free(bfloats);
    free(src);
}

/* Wherever the largest element or a bad one stands, it is seen. */
TEST(no_element_is_missed) {
    enum { COUNT = 200 };
    float src[COUNT];
    uint16_t bfloats[COUNT];
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (int count = 1; count <= COUNT; count += 7) {
            for (int place = 0; place < count; place++) {
                const float odd[] = {-5.0f, 7.0f, NAN, -NAN, INFINITY, -INFINITY};
                for (size_t o = 0; o < COUNT_OF(odd); o++) {
                    for (int i = 0; i < count; i++) {
                        src[i] = i == place ? odd[o] : 1.5f;
                        bfloats[i] = (uint16_t)(bits_of(src[i]) >> 16);
                    }
                    float minimum = 0.0f, maximum = 0.0f;
                    qs_minmax_array(count, src, &minimum, &maximum);
                    float absolute = qs_absmax_array(count, src);
                    float bfloat = qs_absmax_bf16_array(count, bfloats);
                    if (isfinite(odd[o])) {
                        assert_true(minimum == (count > 1 ? fminf(odd[o], 1.5f) : odd[o]));
                        assert_true(maximum == (count > 1 ? fmaxf(odd[o], 1.5f) : odd[o]));
                        assert_true(absolute == fabsf(odd[o]) && bfloat == absolute);
                    } else {
                        assert_true(!isfinite(minimum) || !isfinite(maximum));
                        assert_true(!isfinite(absolute) && !isfinite(bfloat));
                    }
                }
            }
        }
    }
}

TEST(nothing_gives_zero) {
    float minimum = 1.0f, maximum = 1.0f;
    qs_minmax_array(0, NULL, &minimum, &maximum);
    assert_true(minimum == 0.0f && maximum == 0.0f);
    assert_true(qs_absmax_array(0, NULL) == 0.0f);
    assert_true(qs_absmax_bf16_array(0, NULL) == 0.0f);
    assert_true(qs_norm2_array(0, NULL) == 0.0);
    assert_true(qs_stochastic_variance_array(format_named("int8"), 1.0f, 0, NULL) == 0.0);
}

/* Squares are exact in double; an element passes at most 4096 / 32 additions in its lane, 5 in the tree, 3072 / 256 + 1 pieces of a slot
 * and 256 slots: fewer than 512 roundings of 2^-53, all terms positive. */
TEST(squares_add_up) {
    float *src = fresh(2);
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        long double exact = 0.0L;
        for (int64_t i = 0; i < counts[c]; i++) {
            exact += (long double)src[i] * (long double)src[i];
        }
        assert_true(fabsl((long double)qs_norm2_array(counts[c], src) - exact) <= 512.0L * 0x1p-53L * exact);
    }
    free(src);
}

static long double spread(long double units) {
    long double f = units - floorl(units);
    return f * (1.0L - f);
}

/* Σ q² f (1 - f) by its definition. Fixed point: x/q comes from one product by the inverse, both rounded to double: f is off by 128 × 2^-52
 * at most. Elements that the clamp catches are counted as 0. Sums: as above. */
TEST(variance_is_the_definition) {
    static const char *const names[] = {"int8", "int4", "bf16", "fp16", "fp(4,3,4)", "fp(5,2,0)", "e4m3fn"};
    enum { COUNT = 70001 };
    float *src = fresh(3);
    for (int64_t i = 0; i < COUNT; i += 5) {
        src[i] *= exp2f(-20.0f * qs_random_uniform(4, (uint64_t)i));
    }
    src[10] = 1e30f;
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        bool fixed = format->kind == QS_KIND_INTEGER;
        const float step = 0.05f;
        double limit = fixed ? (double)((float)format->max * step) : format->max;
        long double exact = 0.0L;
        for (int64_t i = 0; i < COUNT; i++) {
            double x = fabs((double)src[i]);
            double q = fixed ? (double)step : ldexp(format->epsilon, ilogb(fmax(x, format->min_normal)));
            if (x < limit) exact += (long double)q * q * spread((long double)x / q);
        }
        long double slack = fixed ? COUNT * (long double)step * step * 128.0L * 0x1p-52L : 0.0L;
        long double sum = (long double)qs_stochastic_variance_array(format, step, COUNT, src);
        assert_true(fabsl(sum - exact) <= 512.0L * 0x1p-53L * exact + slack);
    }
    free(src);
}

/* The formula against the rounding itself: the squared error of many stochastic roundings. One array of n elements with m draws each
 * estimates the sum with a deviation of at most q² sqrt(n / m) / 4 (a draw's squared error lies in [0, q²] around its mean with variance
 * below q⁴ / 16). */
TEST(variance_is_what_rounding_does) {
    enum { COUNT = 4096, DRAWS = 200 };
    static float src[COUNT];
    static int8_t codes[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        src[i] = qs_random_normal(5, i) * 20.0f;
    }
    double measured = 0.0;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        qs_quantize_array(format_named("int8"), QS_STOCHASTIC, (qs_random_stream){qs_random_key(6, draw, 0, 0), 0}, 1.0f, COUNT, src,
                          codes);
        for (size_t i = 0; i < COUNT; i++) {
            measured += (codes[i] - (double)src[i]) * (codes[i] - (double)src[i]) / DRAWS;
        }
    }
    double expected = qs_stochastic_variance_array(format_named("int8"), 1.0f, COUNT, src);
    assert_true(fabs(measured - expected) <= 5.0 * sqrt((double)COUNT / DRAWS) / 4.0);
}

/* The summary has the bits of the single functions, on every instruction set, and counts by ilogb. */
TEST(summary_is_the_single_functions) {
    float *src = fresh(7);
    static qs_summary summary;
    for (int64_t i = 0; i < LARGEST; i += 3) {
        src[i] = i % 2 ? 0.0f : ldexpf(src[i], -(int)(i % 150)); /* every binade down to subnormal values, zeros of both signs */
        if (i % 7 == 0) src[i] = -src[i];
    }
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            int64_t expected[QS_EXPONENTS] = {0};
            float minimum = 0.0f, maximum = 0.0f;
            for (int64_t i = 0; i < counts[c]; i++) {
                if (src[i] != 0.0f) expected[ilogbf(src[i]) < -126 ? 0 : ilogbf(src[i]) - QS_LOWEST_EXPONENT]++;
            }
            qs_minmax_array(counts[c], src, &minimum, &maximum);
            qs_summary_array(counts[c], src, &summary);
            assert_true(summary.minimum == minimum && summary.maximum == maximum);
            assert_true(summary.norm2 == qs_norm2_array(counts[c], src));
            assert_true(summary.variance_bf16 == qs_stochastic_variance_array(format_named("bf16"), 0, counts[c], src));
            assert_true(summary.variance_fp16 == qs_stochastic_variance_array(format_named("fp16"), 0, counts[c], src));
            assert_memory_equal(summary.exponents, expected, sizeof expected);
        }
    }
    qs_summary_array(0, NULL, &summary);
    assert_true(summary.norm2 == 0.0 && summary.exponents[127] == 0);
    src[1] = INFINITY, src[2] = NAN;
    qs_summary_array(3, src, &summary);
    assert_true(!isfinite(summary.maximum) && summary.exponents[QS_EXPONENTS - 1] == 0);
    free(src);
}

TEST(exponents) {
    assert_int_equal(qs_effective_exponent(0.0f), 0);
    assert_int_equal(qs_effective_exponent(1.0f), 0);
    assert_int_equal(qs_effective_exponent(1.99f), 0);
    assert_int_equal(qs_effective_exponent(2.0f), 1);
    assert_int_equal(qs_effective_exponent(0.49f), -2);
    assert_int_equal(qs_effective_exponent(0x1p-149f), -149);
    assert_int_equal(qs_effective_exponent(INFINITY), 128);
}

TEST_MAIN(extremes_are_exact, no_element_is_missed, nothing_gives_zero, squares_add_up, variance_is_the_definition,
          variance_is_what_rounding_does, summary_is_the_single_functions, exponents)
