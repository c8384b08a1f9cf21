// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Every code of every float format of up to 16 bits: decoded by the formula of its definition, encoded back, and rounded to from all sides
 * (the value itself, its neighbours in fp32, the middle between it and the next, and the middle's neighbours), by arrays, on every
 * instruction set. What is expected comes from the table of decoded values alone. */
#include "number_test.h"

enum { MOST_CODES = 1 << 15, POINTS = 6, MOST_VALUES = MOST_CODES * POINTS, KEY = 41 };

/* Magnitudes of a format's codes: `numbers` of them are numbers that fp32 carries. */
static double magnitude[MOST_CODES];
static uint32_t numbers;

/* FP(e, m, b): ±2^(1 - bias) M/2^m for E = 0, else ±2^(E - bias) (1 + M/2^m), bias = 2^(e-1) - 1 + b. */
static double defined(const qs_format *format, uint32_t code) {
    int bias = (1 << (format->exponent_bits - 1)) - 1 + format->bias;
    int exponent = (int)(code >> format->mantissa_bits);
    double fraction = ldexp((double)(code & ((1u << format->mantissa_bits) - 1)), -format->mantissa_bits);
    return exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1.0 + fraction, exponent - bias);
}

static void magnitudes_take(const qs_format *format) {
    uint32_t codes = 1u << (format->bits - 1);
    numbers = codes;
    if (format->specials == QS_SPECIALS_IEEE) numbers -= 1u << format->mantissa_bits;
    if (format->specials == QS_SPECIALS_FN) numbers -= 1;
    while (defined(format, numbers - 1) > 0x1.fffffep127) {
        numbers--;
    }
    for (uint32_t code = 0; code < numbers; code++) {
        magnitude[code] = defined(format, code);
    }
    if (format->max != magnitude[numbers - 1]) fail_msg("%s: max %a, not %a", format->name, format->max, magnitude[numbers - 1]);
}

static void check_codes(const qs_format *format) {
    uint32_t sign = 1u << (format->bits - 1);
    for (uint32_t code = 0; code < numbers; code++) {
        float value = qs_decode_value(format, code);
        if ((double)value != magnitude[code]) fail_msg("%s: code %x is %a", format->name, code, (double)value);
        assert_true((double)qs_decode_value(format, code | sign) == -magnitude[code]);
        assert_int_equal(qs_encode_value(format, value), code);
        assert_int_equal(qs_encode_value(format, -value), code | sign);
    }
}

/* One value to round: between the magnitudes of codes `below` and below + 1, at `fraction` of their distance. */
typedef struct sample {
    float x;
    uint32_t below;
    double fraction;
} sample;
static sample samples[MOST_VALUES];
static float sources[MOST_VALUES], results[MOST_VALUES], decoded[MOST_VALUES];
static uint8_t packed[MOST_VALUES * 2];

/* The grid goes on behind max as if it had no end. */
static double next_magnitude(const qs_format *format, uint32_t code) {
    if (code + 1 < numbers) return magnitude[code + 1];
    return magnitude[code] + ldexp(format->epsilon, ilogb(fmax(magnitude[code], format->min_normal)));
}

static size_t samples_take(const qs_format *format) {
    size_t count = 0;
    for (uint32_t code = 0; code < numbers; code++) {
        double low = magnitude[code], distance = next_magnitude(format, code) - low;
        float middle = (float)(low + distance / 2);
        if (isinf(middle)) middle = 0x1.fffffep127f;
        const float points[POINTS] = {
            (float)low, nextafterf((float)low, INFINITY), nextafterf(middle, 0.0f),
            middle,     nextafterf(middle, INFINITY),     nextafterf((float)fmin(low + distance, 0x1.fffffep127), 0.0f)};
        for (int i = 0; i < POINTS; i++) {
            double fraction = ((double)points[i] - low) / distance;
            if (!(fraction >= 0.0 && fraction < 1.0)) continue; /* fp32 has nothing between, or nothing more */
            float x = (code + (uint32_t)i) % 2 ? -points[i] : points[i];
            samples[count] = (sample){.x = x, .below = code, .fraction = fraction};
            sources[count++] = x;
        }
    }
    return count;
}

/* Whether the significand of a code is odd: without mantissa bits that of every normal number is. */
static bool is_odd(const qs_format *format, uint32_t code) {
    return format->mantissa_bits > 0 ? code & 1 : code > 0;
}

static bool goes_up(const qs_format *format, qs_rounding rounding, const sample *one, uint32_t random) {
    bool negative = signbit(one->x);
    switch (rounding) {
    case QS_NEAREST_EVEN:
        return one->fraction > 0.5 || (one->fraction == 0.5 && is_odd(format, one->below));
    case QS_NEAREST_AWAY:
        return one->fraction >= 0.5;
    case QS_STOCHASTIC:
        return floor(one->fraction * 0x1p31) + (random >> 1) >= 0x1p31;
    case QS_FLOOR:
        return negative && one->fraction > 0.0;
    default:
        return false;
    }
}

/* What a magnitude past max becomes. */
static double past_max(const qs_format *format, qs_rounding rounding, qs_overflow overflow, bool negative) {
    bool inward = rounding == QS_TOWARD_ZERO || (rounding == QS_FLOOR && !negative);
    bool infinite = format->specials == QS_SPECIALS_IEEE && !inward;
    if (overflow != QS_OVERFLOW_DEFAULT) infinite = overflow == QS_OVERFLOW_INFINITY;
    return infinite ? INFINITY : format->max;
}

static uint32_t code_at(const qs_format *format, size_t i) {
    uint32_t code = 0;
    for (int bit = 0; bit < format->bits; bit++) {
        size_t place = i * (size_t)format->bits + (size_t)bit;
        code |= (uint32_t)(packed[place / 8] >> place % 8 & 1) << bit;
    }
    return code;
}

static void check_rounding(const qs_format *format, qs_rounding rounding, qs_overflow overflow, size_t count) {
    qs_random_stream stream = {KEY, 7};
    qs_rounding_counts expected = {0};
    qs_rounding_counts counts = qs_round_pack_array(format, rounding, overflow, stream, (int64_t)count, sources, results, packed);
    qs_convert_to_fp32(format, (int64_t)count, packed, decoded);
    for (size_t i = 0; i < count; i++) {
        const sample *one = &samples[i];
        uint32_t code = one->below + goes_up(format, rounding, one, qs_random_bits(KEY, 7 + i));
        bool past = code >= numbers;
        double value = past ? past_max(format, rounding, overflow, signbit(one->x)) : magnitude[code];
        expected.overflows += past;
        expected.underflows += one->x != 0.0f && code == 0;
        if ((double)results[i] != copysign(value, (double)one->x) || !signbit(results[i]) != !signbit(one->x)) {
            fail_msg("%s %s %s %s: %a becomes %a, not %a", qs_number_isa(), format->name, qs_rounding_name(rounding),
                     qs_overflow_name(overflow), (double)one->x, (double)results[i], value);
        }
        if (i % 61 == 0) assert_int_equal(code_at(format, i), qs_encode_value(format, results[i]));
        if (!isinf(results[i])) assert_int_equal(bits_of(decoded[i]), bits_of(results[i]));
    }
    if (counts.overflows != expected.overflows || counts.underflows != expected.underflows) {
        fail_msg("%s %s %s %s: %lld overflows and %lld underflows, not %lld and %lld", qs_number_isa(), format->name,
                 qs_rounding_name(rounding), qs_overflow_name(overflow), (long long)counts.overflows, (long long)counts.underflows,
                 (long long)expected.overflows, (long long)expected.underflows);
    }
}

static void check_format(const char *name) {
    const qs_format *format = format_named(name);
    magnitudes_take(format);
    check_codes(format);
    size_t count = samples_take(format);
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
            check_rounding(format, (qs_rounding)r, QS_OVERFLOW_DEFAULT, count);
            if (format->bits > 12) continue;
            check_rounding(format, (qs_rounding)r, QS_OVERFLOW_SATURATE, count);
            check_rounding(format, (qs_rounding)r, QS_OVERFLOW_INFINITY, count);
        }
    }
}

TEST(named_formats) {
    static const char *const names[] = {"fp16", "bf16", "e5m2", "e4m3fn"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        check_format(names[i]);
    }
}

/* Of every width: all pairs of e and m without added bias. */
TEST(family_without_bias) {
    for (int e = 1; e <= 8; e++) {
        for (int m = 0; m <= 15 - e; m++) {
            char name[24];
            snprintf(name, sizeof name, "fp(%d,%d,0)", e, m);
            check_format(name);
        }
    }
}

/* Up to 10 bits with the biases at both ends of what fp32 can carry, and some between. A lone binade of normal numbers must lie inside. */
TEST(family_with_bias) {
    for (int e = 1; e <= 7; e++) {
        for (int m = 0; m <= 9 - e; m += 3) {
            int half = (1 << (e - 1)) - 1;
            int most = 127 - half, least = (1 << e) - 1 - half - 128;
            const int biases[] = {most, most - 1, e == 1 ? least + 1 : least, least + 2, 4, -3};
            for (size_t b = 0; b < COUNT_OF(biases); b++) {
                char name[24];
                snprintf(name, sizeof name, "fp(%d,%d,%d)", e, m, biases[b]);
                check_format(name);
            }
        }
    }
}

TEST_MAIN(named_formats, family_without_bias, family_with_bias)
