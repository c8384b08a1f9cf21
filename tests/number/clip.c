// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The range of least squared error: against codes that are made and read back, for ties, groups, strides, and any number of threads. */
#include "number_test.h"

enum { CHANNELS = 8, MOST = CHANNELS << 13 };
static float src[MOST], wide[MOST];
static uint16_t bfloats[MOST];

static void fill(uint64_t key, bool positive) {
    for (uint64_t i = 0; i < MOST; i++) {
        const float x = qs_random_normal(key, i) * ldexpf(1, -(int)(i % CHANNELS / 2));
        src[i] = positive ? fmaxf(x, 0) : x;
    }
}

/* Σ (x - value)² of codes that end at ratio · range. */
static double squared_error(const qs_format *format, const uint8_t *group, int64_t count, const float *values, float range, float ratio) {
    static int8_t codes[MOST];
    static float back[MOST];
    const uint8_t none[CHANNELS] = {0};
    const qs_shift_codes how = {.format = format, .step = range * ratio / (float)format->max, .group = group ? group : none};
    const qs_channel_layout layout = {count / CHANNELS, CHANNELS, 1};
    double sum = 0;
    qs_shift_quantize(&how, QS_NEAREST_EVEN, (qs_random_stream){0}, layout, values, codes);
    qs_shift_dequantize(&how, layout, codes, back);
    for (int64_t i = 0; i < count; i++)
        sum += ((double)values[i] - (double)back[i]) * ((double)values[i] - (double)back[i]);
    return sum;
}

static void expect_best(const qs_format *format, const uint8_t *group, int64_t count, const float *values, float range, float ratio) {
    const double chosen = squared_error(format, group, count, values, range, ratio);
    bool known = false;
    for (int k = 0; k < QS_CLIPS; k++) {
        known |= ratio == qs_clip_ratio(k);
        /* Each element's error is cut to 2^-31 of the squared range, and rounded a few times by 2^-24 of it. */
        const double slack = (double)count * (double)range * (double)range * 0x1p-31 + 0x1p-20 * chosen;
        assert_true(chosen <= squared_error(format, group, count, values, range, qs_clip_ratio(k)) + slack);
    }
    assert_true(known);
}

TEST(the_best_is_found) {
    static const char *const formats[] = {"int4", "uint4", "int3", "int2", "int8", "uint6"};
    const uint8_t group[CHANNELS] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        const qs_format *format = format_named(formats[f]);
        fill(f, format->is_unsigned);
        qs_convert_from_fp32(format_named("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, MOST, src, bfloats);
        qs_convert_to_fp32(format_named("bf16"), MOST, bfloats, wide);
        for (int64_t count = CHANNELS; count <= MOST; count *= 16)
            for (int grouped = 0; grouped < 2; grouped++) {
                const uint8_t *groups = grouped ? group : NULL;
                qs_clip_values values = {.format = format, .src = src, .count = count, .stride = 1, .group = groups, .channels = CHANNELS};
                float range = 0, range_bfloat = 0, ratio[2];
                for (int64_t i = 0; i < count; i++) {
                    range = fmaxf(range, ldexpf(fabsf(src[i]), grouped ? group[i % CHANNELS] : 0));
                    range_bfloat = fmaxf(range_bfloat, ldexpf(fabsf(wide[i]), grouped ? group[i % CHANNELS] : 0));
                }
                for (int threads = 1; threads <= 3; threads += 2) {
                    assert_ok(qs_threads_set(threads));
                    assert_ok(qs_number_isa_set(isa_names[threads == 1 ? 0 : 1 + f % 2]));
                    ratio[threads / 2] = qs_clip_find(&values, range);
                }
                assert_true(ratio[0] == ratio[1]);
                assert_ok(qs_number_isa_set("all"));
                expect_best(format, groups, count, src, range, ratio[0]);
                values.bfloat = true;
                values.src = bfloats;
                expect_best(format, groups, count, wide, range_bfloat, qs_clip_find(&values, range_bfloat));
            }
    }
    assert_ok(qs_threads_set(1));
}

/* Normal values in 4 bits: a range well below their maximum. What is uniform keeps its maximum, and so do ties: exact codes. */
TEST(tails_are_clipped) {
    const qs_format *format = format_named("int4");
    qs_clip_values values = {.format = format, .src = src, .count = MOST, .stride = 1};
    for (uint64_t i = 0; i < MOST; i++)
        src[i] = qs_random_normal(3, i);
    const float ratio = qs_clip_find(&values, qs_absmax_array(MOST, src));
    assert_true(ratio * qs_absmax_array(MOST, src) > 2.2f && ratio * qs_absmax_array(MOST, src) < 3.2f); /* best: 2.6 deviations */
    for (uint64_t i = 0; i < MOST; i++)
        src[i] = (float)(i % 15) - 7;
    assert_true(qs_clip_find(&values, 7) == 1);
    for (uint64_t i = 0; i < MOST; i++)
        src[i] = 0;
    assert_true(qs_clip_find(&values, 0) == 1);
    assert_true(qs_clip_find(&values, INFINITY) == 1 && qs_clip_find(&values, NAN) == 1 && qs_clip_find(&values, 0x1p-90f) == 1);
}

/* A column among others is an array of its own. */
TEST(strides) {
    fill(9, false);
    for (int c = 0; c < CHANNELS; c++) {
        float column[MOST / CHANNELS];
        for (int64_t i = 0; i < MOST / CHANNELS; i++)
            column[i] = src[i * CHANNELS + c];
        const qs_clip_values strided = {.format = format_named("int4"), .src = src + c, .count = MOST / CHANNELS, .stride = CHANNELS};
        const qs_clip_values plain = {.format = format_named("int4"), .src = column, .count = MOST / CHANNELS, .stride = 1};
        const float range = qs_absmax_array(MOST / CHANNELS, column);
        assert_true(qs_clip_find(&strided, range) == qs_clip_find(&plain, range));
    }
}

TEST_MAIN(the_best_is_found, tails_are_clipped, strides)
