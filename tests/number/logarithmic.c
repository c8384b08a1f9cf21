// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Powers of two: nearest ones by enumeration, stochastic ones exactly unbiased over all draws, groups of channels, storage. */
#include "number_test.h"

static const char *const names[] = {"log4", "log3", "log2"};

/* Values in steps: all sizes up to beyond the largest power, its powers and their middles among them. */
static float value_at(const qs_format *format, uint64_t i) {
    const double most = 1.1 * format->max, u = qs_random_uniform(1, i);
    const float power = ldexpf(1, (int)(i / 4 % 8) - 1);
    const float value = i % 4 == 0 ? power : i % 4 == 1 ? 1.5f * power : i % 4 == 2 ? (float)(most * u) : (float)(most * pow(u, 6));
    return i / 32 % 2 ? -value : value;
}

TEST(nearest_is_nearest) {
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        for (uint64_t i = 0; i < 4096; i++) {
            const float x = value_at(format, i);
            const float got = qs_round_value(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, x, 0, NULL);
            double best = fabs((double)x);
            for (double power = 1; power <= format->max; power *= 2)
                best = fmin(best, fabs(fabs((double)x) - power));
            assert_true(fabs((double)x - (double)got) == best);
            assert_true(got == 0 || signbit(got) == signbit(x));
            const uint32_t code = qs_encode_value(format, got);
            assert_true(code < 1u << format->bits);
            assert_true(qs_decode_value(format, code) == got);
        }
    }
}

/* Over all 65536 draws the sum is that of the 16 fractional bits that are kept of value / spacing: half of the last one is the bias. */
TEST(stochastic_is_unbiased) {
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_format *format = format_named(names[n]);
        for (uint64_t i = 0; i < 96; i++) {
            const float x = value_at(format, i);
            const double held = fmax(fmin((double)x, format->max), -format->max);
            const double spacing = fmax(1, exp2(floor(log2(fmax(fabs(held), 1)))));
            double sum = 0;
            for (uint32_t half = 0; half < 65536; half++) {
                const double code = (double)qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, x, half << 16, NULL);
                assert_true(fabs(code - held) < spacing || code == held);
                sum += code;
            }
            assert_true(fabs(sum / 65536 - held) <= spacing * 0x1p-17);
        }
    }
}

/* Arrays, with one step and in groups, are single values, which double arithmetic rounds: from fp32 and bf16, whatever the rounding, the
 * length and the first draw. */
TEST(arrays_are_single_values) {
    enum { ROWS = 300, CHANNELS = 7, COUNT = ROWS * CHANNELS };
    static const qs_rounding roundings[] = {QS_STOCHASTIC, QS_NEAREST_EVEN, QS_NEAREST_AWAY, QS_FLOOR, QS_TOWARD_ZERO};
    static float src[COUNT], wide[COUNT];
    static uint16_t bfloats[COUNT];
    static int8_t codes[COUNT], bfloat_codes[COUNT];
    const qs_format *format = format_named("log4"), *bf16 = format_named("bf16");
    const uint8_t group[CHANNELS] = {0, 3, 1, 2, 0, 0, 1};
    const qs_channel_layout layout = {ROWS, CHANNELS, 1};
    const float step = 0.25f; /* powers and ties stay what they are */
    for (uint64_t i = 0; i < COUNT; i++)
        src[i] = value_at(format, i) * step;
    src[COUNT - 1] = NAN;
    src[COUNT - 2] = -INFINITY;
    qs_convert_from_fp32(bf16, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, COUNT, src, bfloats);
    qs_convert_to_fp32(bf16, COUNT, bfloats, wide);
    for (size_t n = 0; n < 2 * COUNT_OF(isa_names) * COUNT_OF(roundings); n++) {
        const bool grouped = n % 2;
        const qs_rounding rounding = roundings[n / 2 / COUNT_OF(isa_names)];
        const qs_random_stream stream = {5, grouped ? 9 : 8};
        const qs_shift_codes how = {.format = format, .step = step, .group = group};
        assert_ok(qs_number_isa_set(isa_names[n / 2 % COUNT_OF(isa_names)]));
        if (grouped) {
            qs_shift_quantize(&how, rounding, stream, layout, src, codes);
            qs_shift_quantize_bf16(&how, rounding, stream, layout, bfloats, bfloat_codes);
        } else {
            qs_quantize_array(format, rounding, stream, step, COUNT, src, codes);
            qs_quantize_bf16_array(format, rounding, stream, step, COUNT, bfloats, bfloat_codes);
        }
        for (uint64_t i = 0; i < COUNT; i++) {
            const uint64_t position = stream.first + i;
            const uint32_t draw = qs_random_bits(5, position / 2) >> (position & 1 ? 16 : 0) << 16;
            const float inverse = 1.0f / ldexpf(step, grouped ? -group[i % CHANNELS] : 0);
            assert_int_equal(codes[i], (int)qs_round_value(format, rounding, QS_OVERFLOW_DEFAULT, src[i] * inverse, draw, NULL));
            assert_int_equal(bfloat_codes[i], (int)qs_round_value(format, rounding, QS_OVERFLOW_DEFAULT, wide[i] * inverse, draw, NULL));
        }
    }
    assert_true(qs_step_of_absmax(format, 32) == 0.5f);
}

TEST_MAIN(nearest_is_nearest, stochastic_is_unbiased, arrays_are_single_values)
