// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Codes: every code of up to 16 bits there and back, alone and in packed arrays. */
#include "number_test.h"

static void check_codes(const qs_format *format) {
    uint32_t codes = 1u << format->bits;
    uint32_t sign = codes >> 1;
    double before = -1.0;
    for (uint32_t code = 0; code < codes; code++) {
        float value = qs_decode_value(format, code);
        if (isnan(value)) {
            uint32_t back = qs_encode_value(format, value);
            assert_int_equal(back & sign, code & sign);
            assert_true(isnan(qs_decode_value(format, back)));
            continue;
        }
        if (isinf(value)) {
            assert_true(format->specials == QS_SPECIALS_IEEE || format->exponent_bits == 8);
            if (format->specials != QS_SPECIALS_IEEE) continue; /* above what fp32 carries */
        } else {
            assert_true(fabs((double)value) <= format->max);
            assert_true(qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, value, UINT32_MAX, NULL) == value);
        }
        if (qs_encode_value(format, value) != code) fail_msg("%s: code %x is %a", format->name, code, (double)value);
        assert_int_equal(signbit(value) != 0, (code & sign) != 0);
        /* Magnitudes grow with their codes. */
        double magnitude = fabs((double)value);
        if (code != 0 && code != sign) assert_true(magnitude > before);
        before = magnitude;
    }
}

TEST(float_codes_round_trip) {
    for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
        const qs_format *format = format_named(float_formats[f]);
        if (format->bits <= 17) check_codes(format);
    }
}

TEST(integer_codes_round_trip) {
    static const char *const names[] = {"int2", "int3", "int4", "int5", "int6", "int7", "int8", "uint2", "uint4", "uint7"};
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        for (int value = (int)qs_format_lowest(format); value <= (int)format->max; value++) {
            uint32_t code = qs_encode_value(format, (float)value);
            assert_true(code < 1u << format->bits);
            assert_true(qs_decode_value(format, code) == (float)value);
        }
        assert_int_equal(qs_encode_value(format, format->is_unsigned ? (float)format->max : -1.0f), (1u << format->bits) - 1);
    }
}

/* fp32's own codes are its bits; the others are known from their standards. */
TEST(known_codes) {
    assert_int_equal(qs_encode_value(format_named("fp32"), 1.5f), 0x3FC00000);
    assert_int_equal(qs_encode_value(format_named("tf32"), -0x1.ffcp0f), 0xBFFFE000);
    assert_int_equal(qs_encode_value(format_named("bf16"), -1.5f), 0xBFC0);
    assert_int_equal(qs_encode_value(format_named("fp16"), 65504.0f), 0x7BFF);
    assert_int_equal(qs_encode_value(format_named("fp16"), INFINITY), 0x7C00);
    assert_int_equal(qs_encode_value(format_named("fp16"), NAN), 0x7E00);
    assert_int_equal(qs_encode_value(format_named("fp16"), 0x1p-24f), 0x0001);
    assert_int_equal(qs_encode_value(format_named("e4m3fn"), 448.0f), 0x7E);
    assert_int_equal(qs_encode_value(format_named("e4m3fn"), -NAN), 0xFF);
    assert_int_equal(qs_encode_value(format_named("e5m2"), -INFINITY), 0xFC);
    assert_int_equal(qs_encode_value(format_named("fp(4,3,4)"), 30.0f), 0x7F);
    assert_true(isnan(qs_decode_value(format_named("e4m3fn"), 0x7F)));
    for (uint64_t i = 0; i < 10000; i++) {
        float x = any_float(1, i);
        assert_int_equal(qs_encode_value(format_named("fp32"), x), bits_of(x));
        assert_int_equal(bits_of(qs_decode_value(format_named("fp32"), bits_of(x))), bits_of(x));
    }
}

/* The arrays hold what the single codes say, as one little-endian string of bits, and write not a byte more. */
TEST(arrays_hold_the_codes) {
    enum { COUNT = 2501, GUARD = 0x5A };
    static float src[COUNT], back[COUNT];
    static uint8_t packed[COUNT * 4 + 1];
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
            const qs_format *format = format_named(float_formats[f]);
            for (uint64_t i = 0; i < COUNT; i++) {
                src[i] = near_format(format, 2, i);
            }
            memset(packed, GUARD, sizeof packed);
            qs_random_stream stream = {77, 1000};
            qs_convert_from_fp32(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, stream, COUNT, src, packed);
            size_t bytes = qs_format_bytes(format, COUNT);
            assert_int_equal(packed[bytes], GUARD);
            qs_convert_to_fp32(format, COUNT, packed, back);
            for (size_t i = 0; i < COUNT; i++) {
                uint64_t code = 0;
                for (int bit = 0; bit < format->bits; bit++) {
                    size_t place = i * (size_t)format->bits + (size_t)bit;
                    code |= (uint64_t)(packed[place / 8] >> place % 8 & 1) << bit;
                }
                float rounded = qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, src[i], qs_random_bits(77, 1000 + i), NULL);
                assert_int_equal(code, qs_encode_value(format, rounded));
                assert_int_equal(bits_of(back[i]), bits_of(rounded));
            }
        }
    }
}

/* Every code decoded by arrays, NaN payloads included. */
TEST(arrays_decode_every_code) {
    static uint16_t words[65536];
    static uint8_t bytes[256];
    static float out[65536];
    for (size_t i = 0; i < 65536; i++) {
        words[i] = (uint16_t)i;
        bytes[i % 256] = (uint8_t)i;
    }
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t f = 0; f < COUNT_OF(float_formats); f++) {
            const qs_format *format = format_named(float_formats[f]);
            if (format->bits != 8 && format->bits != 16) continue;
            qs_convert_to_fp32(format, 1 << format->bits, format->bits == 8 ? (void *)bytes : (void *)words, out);
            for (uint32_t code = 0; code < 1u << format->bits; code++) {
                assert_int_equal(bits_of(out[code]), bits_of(qs_decode_value(format, code)));
            }
        }
    }
}

TEST_MAIN(float_codes_round_trip, integer_codes_round_trip, known_codes, arrays_hold_the_codes, arrays_decode_every_code)
