// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Array functions against the single values, on every instruction set and thread count: equal bits, whatever the length and alignment. */
#include "number_test.h"

enum { COUNT = 3001, LARGE = 200000, GUARD = 0x5A };

static const float specials[] = {0.0f,      -0.0f,           1.0f, -1.0f, INFINITY, -INFINITY, NAN, -NAN, 0x1p-149f, -0x1.fffffep127f,
                                 0x1p-126f, 0x1.fffffcp-127f};

static void fill(const qs_format *format, float *src, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        src[i] = i % 3 == 0 ? any_float(21, (uint64_t)i) : near_format(format, 22, (uint64_t)i);
        if (i % 101 == 100) src[i] = specials[i / 101 % (int64_t)COUNT_OF(specials)];
    }
}

/* Blocks of ordinary values take the kernels' short way, mixed ones the long way: both ways in one array. */
static void fill_ordinary(float *src, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        src[i] = i % 7 ? qs_random_normal(23, (uint64_t)i) : 0.0f;
    }
}

/* Rounded values, packed codes and counts of one pass. */
static void check_rounding(const qs_format *format, qs_rounding rounding, qs_overflow overflow, const float *src, qs_random_stream stream) {
    static float dst[COUNT + 1], again[COUNT];
    static unsigned char packed[COUNT * 4 + 1], expected_packed[COUNT * 4];
    memset(dst, GUARD, sizeof dst);
    memset(packed, GUARD, sizeof packed);
    qs_rounding_counts counts = qs_round_array(format, rounding, overflow, stream, COUNT, src, dst);
    qs_rounding_counts expected = {0};
    for (size_t i = 0; i < COUNT; i++) {
        bool overflowed = false;
        float value = qs_round_value(format, rounding, overflow, src[i], qs_random_bits(stream.key, stream.first + i), &overflowed);
        expected.overflows += overflowed;
        expected.underflows += value == 0.0f && src[i] != 0.0f;
        if (bits_of(value) != bits_of(dst[i])) {
            fail_msg("%s %s %s %s: element %zu, %a, gives %a, not %a", qs_number_isa(), format->name, qs_rounding_name(rounding),
                     qs_overflow_name(overflow), i, (double)src[i], (double)dst[i], (double)value);
        }
    }
    assert_memory_equal(&counts, &expected, sizeof counts);
    assert_int_equal(((unsigned char *)dst)[COUNT * sizeof(float)], GUARD);
    counts = qs_round_pack_array(format, rounding, overflow, stream, COUNT, src, again, packed);
    assert_memory_equal(&counts, &expected, sizeof counts);
    assert_memory_equal(again, dst, sizeof again);
    size_t bytes = qs_format_bytes(format, COUNT);
    assert_int_equal(packed[bytes], GUARD);
    qs_convert_from_fp32(format, rounding, overflow, stream, COUNT, src, expected_packed);
    if (format->bits != 32) assert_memory_equal(packed, expected_packed, bytes);
}

TEST(arrays_round_as_values_do) {
    static float src[COUNT], ordinary[COUNT];
    fill_ordinary(ordinary, COUNT);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
            const qs_format *format = format_named(float_formats[f]);
            fill(format, src, COUNT);
            for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
                for (int o = 0; o < QS_OVERFLOW_COUNT; o++) {
                    check_rounding(format, (qs_rounding)r, (qs_overflow)o, src, (qs_random_stream){5, 12345});
                    check_rounding(format, (qs_rounding)r, (qs_overflow)o, ordinary, (qs_random_stream){6, 3});
                }
            }
        }
    }
}

/* The draws of a stream do not stumble where the counter leaves 32 bits. */
TEST(counters_pass_32_bits) {
    static float src[COUNT];
    static int8_t codes[COUNT];
    fill_ordinary(src, COUNT);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        check_rounding(format_named("fp(4,3,4)"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, src,
                       (qs_random_stream){7, (UINT64_C(5) << 32) - 1001});
        qs_random_stream stream = {8, (UINT64_C(6) << 32) - 1002};
        qs_quantize_array(format_named("int8"), QS_STOCHASTIC, stream, 0.03f, COUNT, src, codes);
        float inverse = 1.0f / 0.03f;
        for (uint64_t i = 0; i < COUNT; i++) {
            uint32_t half = qs_random_bits(8, (stream.first + i) / 2) >> (i & 1 ? 16 : 0) & 0xFFFF;
            float expected = qs_round_value(format_named("int8"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, src[i] * inverse, half << 16, NULL);
            assert_int_equal(codes[i], (int)expected);
        }
    }
}

TEST(conversions_pass_32_bits) {
    static const char *const names[] = {"bf16", "fp(4,3,4)", "fp(3,2,0)", "fp(8,23,0)"};
    static float src[COUNT], rounded[COUNT], back[COUNT];
    static unsigned char packed[COUNT * 4];
    fill_ordinary(src, COUNT);
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        qs_random_stream stream = {11, (UINT64_C(7) << 32) - 1003};
        qs_convert_from_fp32(format_named(names[n]), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, src, packed);
        qs_convert_to_fp32(format_named(names[n]), COUNT, packed, back);
        qs_round_array(format_named(names[n]), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, src, rounded);
        assert_memory_equal(back, rounded, sizeof back);
    }
}

/* Conversions of bf16 and fp16 have kernels of their own: the same codes as one by one, for every rounding, and back. */
TEST(conversions_equal_values) {
    static const char *const names[] = {"bf16", "fp16", "e5m2", "e4m3fn", "fp(4,3,4)", "fp(8,7,0)", "fp32"};
    static float src[COUNT], back[COUNT];
    static unsigned char packed[COUNT * 4 + 3];
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t n = 0; n < COUNT_OF(names); n++) {
            const qs_format *format = format_named(names[n]);
            size_t width = (size_t)format->bits / 8;
            fill(format, src, COUNT);
            for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
                unsigned char *dst = packed + 1; /* unaligned */
                memset(packed, GUARD, sizeof packed);
                qs_convert_from_fp32(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, (qs_random_stream){9, 77}, COUNT, src, dst);
                qs_convert_to_fp32(format, COUNT, dst, back);
                assert_int_equal(packed[0], GUARD);
                assert_int_equal(dst[COUNT * width], GUARD);
                for (size_t i = 0; i < COUNT; i++) {
                    float value = qs_round_value(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, src[i], qs_random_bits(9, 77 + i), NULL);
                    uint32_t code = 0;
                    memcpy(&code, dst + i * width, width);
                    if (!isnan(value) || width < 4) assert_int_equal(code, qs_encode_value(format, value));
                    assert_true(isnan(value) ? isnan(back[i]) : bits_of(back[i]) == bits_of(value));
                }
            }
        }
    }
}

TEST(short_arrays_leave_the_rest_alone) {
    float src[40];
    fill_ordinary(src, 40);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (int64_t count = 0; count < 40; count++) {
            unsigned char dst[200], codes[48];
            memset(dst, GUARD, sizeof dst);
            memset(codes, GUARD, sizeof codes);
            qs_convert_from_fp32(format_named("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0, 0}, count, src, dst);
            assert_int_equal(dst[2 * count], GUARD);
            qs_round_array(format_named("bf16"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, (qs_random_stream){0, 0}, count, src,
                           (float *)(void *)(dst));
            assert_int_equal(dst[4 * count], GUARD);
            qs_quantize_array(format_named("int8"), QS_STOCHASTIC, (qs_random_stream){0, 0}, 0.01f, count, src, (int8_t *)codes);
            assert_int_equal(codes[count], GUARD);
            memset(dst, GUARD, sizeof dst);
            qs_dequantize_array(0.01f, count, (int8_t *)codes, (float *)(void *)dst);
            assert_int_equal(dst[4 * count], GUARD);
        }
    }
}

/* Everything at once on a large array: results of every instruction set with 1 and 3 threads against the first. */
typedef struct outcome {
    float rounded[LARGE], wide[LARGE];
    uint16_t bfloats[LARGE], halves[LARGE];
    uint8_t packed[LARGE];
    int8_t codes[5][LARGE], bfloat_codes[LARGE];
    uint16_t restored[LARGE];
    qs_rounding_counts counts;
    double norm2, fixed, floating;
    float absmax, absmax_bf16, minimum, maximum;
} outcome;

static void compute(const float *src, outcome *out) {
    const qs_format *low = format_named("fp(4,3,4)");
    const qs_format *int8 = format_named("int8");
    qs_random_stream stream = {31, 1000};
    memset(out, 0, sizeof *out);
    out->counts = qs_round_array(low, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, LARGE, src, out->rounded);
    qs_convert_from_fp32(format_named("bf16"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, LARGE, src, out->bfloats);
    qs_convert_from_fp32(format_named("fp16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, stream, LARGE, src, out->halves);
    qs_convert_from_fp32(format_named("fp(3,2)"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, stream, LARGE, src, out->packed);
    qs_convert_to_fp32(format_named("fp(3,2)"), LARGE, out->packed, out->wide);
    for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
        qs_quantize_array(int8, (qs_rounding)r, stream, 0.02f, LARGE, src, out->codes[r]);
    }
    qs_quantize_bf16_array(int8, QS_STOCHASTIC, stream, 0.02f, LARGE, out->bfloats, out->bfloat_codes);
    qs_dequantize_bf16_array(0.02f, LARGE, out->bfloat_codes, out->restored);
    out->norm2 = qs_norm2_array(LARGE, src);
    out->fixed = qs_stochastic_variance_array(int8, 0.02f, LARGE, src);
    out->floating = qs_stochastic_variance_array(low, 1.0f, LARGE, src);
    out->absmax = qs_absmax_array(LARGE, src);
    out->absmax_bf16 = qs_absmax_bf16_array(LARGE, out->bfloats);
    qs_minmax_array(LARGE, src, &out->minimum, &out->maximum);
}

TEST(variants_and_threads_give_equal_bits) {
    static float src[LARGE];
    static outcome first, other;
    for (int64_t i = 0; i < LARGE; i++) {
        src[i] = i % 5 ? qs_random_normal(32, (uint64_t)i) : near_format(format_named("fp(4,3,4)"), 33, (uint64_t)i);
    }
    assert_ok(qs_number_isa_set("portable"));
    assert_string_equal(qs_number_isa(), "portable");
    compute(src, &first);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            assert_ok(qs_number_isa_set(isa_names[isa]));
            assert_ok(qs_threads_set(threads));
            compute(src, &other);
            assert_memory_equal(&first, &other, sizeof first);
        }
    }
    assert_ok(qs_threads_set(1));
}

/* A ceiling caps, whatever the CPU has. */
TEST(ceilings_cap) {
    assert_ok(qs_number_isa_set("avx2_vnni"));
    assert_string_not_equal(qs_number_isa(), "avx512");
    assert_ok(qs_number_isa_set("portable"));
    assert_string_equal(qs_number_isa(), "portable");
    assert_ok(qs_number_isa_set("all"));
}

/* dst may be src. */
TEST(rounding_in_place) {
    static float src[COUNT], dst[COUNT], packing[COUNT];
    static uint8_t packed[COUNT];
    fill_ordinary(src, COUNT);
    qs_random_stream stream = {40, 0};
    qs_round_array(format_named("fp(5,2,0)"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, src, dst);
    qs_round_array(format_named("fp(5,2,0)"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, src, src);
    assert_memory_equal(src, dst, sizeof src);
    fill_ordinary(packing, COUNT);
    qs_round_pack_array(format_named("fp(5,2,0)"), QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, packing, packing, packed);
    assert_memory_equal(packing, dst, sizeof src);
}

/* Arrays of one value, normal or below the normal range: the share that goes up is the fraction f, and neighbours are independent. Counted
 * over n elements, the share has standard deviation sqrt(f (1 - f) / n), the mean product of neighbours' deviations f (1 - f) / sqrt(n).
 * With 4.5 of them a fair generator fails one of 2 × 20 tests with probability 40 × 7e-6 < 3e-4; draws are keyed, so that the outcome is
 * fixed. */
TEST(stochastic_arrays_are_fair) {
    static const char *const names[] = {"bf16", "fp16", "e4m3fn", "fp(4,3,4)", "fp(3,2,0)"};
    static const double fractions[] = {0.03125, 0.25, 0.5, 0.84375};
    static float src[LARGE], dst[LARGE];
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        for (size_t t = 0; t < COUNT_OF(fractions); t++) {
            double f = fractions[t], q = format->min_subnormal * (t % 2 ? 1.0 : 4.0), below = t % 2 ? q : format->min_normal * 4.0;
            for (int64_t i = 0; i < LARGE; i++) {
                src[i] = (float)(below + f * q);
            }
            qs_random_stream stream = {qs_random_key(50, n, t, 0), 99};
            qs_round_array(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, LARGE, src, dst);
            double share = 0.0, product = 0.0, before = 0.0;
            for (int64_t i = 0; i < LARGE; i++) {
                bool up = (double)dst[i] > below;
                assert_true((double)dst[i] == (up ? below + q : below));
                product += i > 0 ? before * (up - f) / LARGE : 0.0;
                before = up - f;
                share += (double)up / LARGE;
            }
            assert_true(fabs(share - f) <= 4.5 * sqrt(f * (1.0 - f) / LARGE));
            assert_true(fabs(product) <= 4.5 * f * (1.0 - f) / sqrt(LARGE));
        }
    }
}

TEST_MAIN(arrays_round_as_values_do, counters_pass_32_bits, conversions_pass_32_bits, conversions_equal_values,
          short_arrays_leave_the_rest_alone, variants_and_threads_give_equal_bits, ceilings_cap, rounding_in_place,
          stochastic_arrays_are_fair)
