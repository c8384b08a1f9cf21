// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* ShiftQuant: ranges, groups, codes against single values on every instruction set, reference values, fairness, variance, optimal
 * groups. */
#include "number_test.h"

#include <jansson.h>

enum { MOST = 6600, CHANNELS = 2200 };

static const qs_channel_layout layouts[] = {{37, 1, 1},   {50, 3, 1},   {9, 16, 1}, {100, 33, 1}, {2, 1000, 1},
                                            {3, 1030, 1}, {3, 2200, 1}, {1, 7, 9},  {4, 5, 1024}, {2, 3, 1100}};

static float src[MOST * 4], other[MOST * 4];
static uint16_t bfloats[MOST * 4];
static float range[CHANNELS], offset[CHANNELS];
static uint8_t group[CHANNELS], lift[CHANNELS];

static int64_t count_of(qs_channel_layout l) {
    return l.outer * l.channels * l.inner;
}

static int64_t channel_at(qs_channel_layout l, int64_t i) {
    return i / l.inner % l.channels;
}

/* Channels whose ranges differ by up to 2^10. */
static void fill(qs_channel_layout l, uint64_t key, bool positive) {
    for (int64_t i = 0; i < count_of(l); i++) {
        float scale = exp2f(-10.0f * (float)qs_random_uniform(key + 1, (uint64_t)channel_at(l, i)));
        src[i] = scale * qs_random_normal(key, (uint64_t)i) + (positive ? 0.0f : 0.1f * scale);
        if (positive) src[i] = fabsf(src[i]);
    }
}

static void ranges_are_extremes(void **state) {
    (void)state;
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_int_equal(qs_number_isa_set(isa_names[isa]), QS_OK);
        for (size_t n = 0; n < COUNT_OF(layouts) * 4; n++) {
            qs_channel_layout l = layouts[n / 4];
            const qs_format *format = format_named(n & 1 ? "uint4" : "int8");
            bool zero_point = n & 2;
            static float low[CHANNELS], high[CHANNELS];
            fill(l, n, false);
            qs_convert_from_fp32(format_named("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0, 0}, count_of(l), src,
                                 bfloats);
            for (int half = 0; half < 2; half++) {
                if (half) qs_convert_to_fp32(format_named("bf16"), count_of(l), bfloats, src);
                for (int64_t c = 0; c < l.channels; c++)
                    low[c] = INFINITY, high[c] = -INFINITY;
                for (int64_t i = 0; i < count_of(l); i++) {
                    int64_t c = channel_at(l, i);
                    low[c] = fminf(low[c], src[i]);
                    high[c] = fmaxf(high[c], src[i]);
                }
                if (half) {
                    qs_channel_ranges_bf16(format, l, bfloats, range, zero_point ? offset : NULL);
                } else {
                    qs_channel_ranges(format, l, src, range, zero_point ? offset : NULL);
                }
                for (int64_t c = 0; c < l.channels; c++) {
                    if (!zero_point) {
                        assert_true(range[c] == fmaxf(-low[c], high[c]));
                        continue;
                    }
                    bool least = offset[c] == low[c] && range[c] == high[c] - low[c];
                    float roundings = (fabsf(low[c]) + fabsf(high[c])) * 0x1p-23f;
                    bool middle = fabsf(offset[c] - (low[c] / 2 + high[c] / 2)) <= roundings &&
                                  offset[c] + range[c] / 2 >= high[c] - roundings && offset[c] - range[c] / 2 <= low[c] + roundings;
                    assert_true(format->is_unsigned ? least : middle);
                }
            }
        }
    }
}

static void what_is_not_finite_shows(void **state) {
    (void)state;
    const float strange[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < COUNT_OF(layouts) * COUNT_OF(strange) * 2; n++) {
        qs_channel_layout l = layouts[n / 2 / COUNT_OF(strange)];
        fill(l, 1, false);
        int64_t place = count_of(l) / 2;
        src[place] = strange[n / 2 % COUNT_OF(strange)];
        qs_channel_ranges(format_named("int4"), l, src, range, n & 1 ? offset : NULL);
        for (int64_t c = 0; c < l.channels; c++)
            assert_int_equal(isfinite(range[c]) != 0, c != channel_at(l, place));
        assert_true(qs_shift_groups(format_named("int4"), n & 1, 4, l.channels, range, group) == 1.0f);
        for (int64_t c = 0; c < l.channels; c++)
            assert_int_equal(group[c], 0);
    }
    float zeros[3] = {0};
    assert_true(qs_shift_groups(format_named("int4"), false, 4, 3, zeros, group) == 1.0f);
    const float tiny[] = {0x1p-140f, 0x1p-149f};
    assert_true(qs_shift_groups(format_named("int4"), false, 4, 2, tiny, group) == 0x1p-97f);
}

/* r_max 2^-(g+1) < r_j <= r_max 2^-g, at the thresholds too. */
static void groups_follow_the_rule(void **state) {
    (void)state;
    for (int groups = 1; groups <= QS_MOST_SHIFT_GROUPS; groups++) {
        for (int64_t c = 0; c < CHANNELS; c++) {
            float at_threshold = ldexpf(3.0f, -(int)(c % 12));
            float steps[] = {at_threshold, nextafterf(at_threshold, 0.0f), c ? nextafterf(at_threshold, 9.0f) : 3.0f, 0.0f};
            range[c] = fminf(steps[c / 12 % 4], 3.0f);
        }
        float step = qs_shift_groups(format_named("int6"), false, groups, CHANNELS, range, group);
        assert_true(step == 3.0f / 31.0f);
        for (int64_t c = 0; c < CHANNELS; c++) {
            double r = (double)range[c];
            assert_true(r <= ldexp(3.0, -group[c]));
            assert_true(group[c] == groups - 1 || r > ldexp(3.0, -group[c] - 1));
        }
    }
}

static qs_shift_codes codes_of(const char *format, qs_channel_layout l, bool zero_point, int groups) {
    qs_shift_codes codes = {.format = format_named(format), .group = group, .offset = zero_point ? offset : NULL};
    qs_channel_ranges(codes.format, l, src, range, zero_point ? offset : NULL);
    codes.step = qs_shift_groups(codes.format, zero_point, groups, l.channels, range, group);
    return codes;
}

static void compare_codes(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream stream, qs_channel_layout l,
                          const float *values, const int8_t *dst) {
    for (int64_t i = 0; i < count_of(l); i++) {
        int64_t c = channel_at(l, i);
        uint64_t position = stream.first + (uint64_t)i;
        uint32_t draw = qs_random_bits(stream.key, position / 2) >> (position & 1 ? 16 : 0) << 16;
        float x = (values[i] - (codes->offset ? codes->offset[c] : 0.0f)) * (1.0f / ldexpf(codes->step, -codes->group[c]));
        int expected =
            (int)qs_round_value(codes->format, rounding, QS_OVERFLOW_DEFAULT, x, draw, NULL) * (codes->lift ? 1 << codes->lift[c] : 1);
        if (dst[i] != expected)
            fail_msg("%s %s %s: element %d, %a, gives %d, not %d", qs_number_isa(), codes->format->name, qs_rounding_name(rounding), (int)i,
                     (double)values[i], dst[i], expected);
    }
}

static void codes_equal_single_values(void **state) {
    (void)state;
    static int8_t dst[MOST * 4];
    static const char *const formats[] = {"int8", "int4", "uint7", "uint4", "int2"};
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_int_equal(qs_number_isa_set(isa_names[isa]), QS_OK);
        for (size_t n = 0; n < COUNT_OF(layouts) * 40; n++) {
            qs_channel_layout l = layouts[n % COUNT_OF(layouts)];
            qs_rounding rounding = (qs_rounding)(n / 10 % QS_ROUNDING_COUNT);
            qs_random_stream stream = {n, n % 3 == 2 ? (UINT64_C(1) << 33) - 7 : n};
            bool zero_point = n / 200 % 2;
            fill(l, n, false);
            qs_shift_codes codes = codes_of(formats[n / 50 % COUNT_OF(formats)], l, zero_point, 4);
            if (codes.format->bits == 4 && !codes.format->is_unsigned) {
                codes.lift = lift;
                for (int64_t c = 0; c < l.channels; c++)
                    lift[c] = (uint8_t)(3 - codes.group[c]);
            }
            src[0] = NAN;
            qs_shift_quantize(&codes, rounding, stream, l, src, dst);
            compare_codes(&codes, rounding, stream, l, src, dst);
            qs_convert_from_fp32(format_named("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, stream, count_of(l), src, bfloats);
            qs_convert_to_fp32(format_named("bf16"), count_of(l), bfloats, other);
            qs_shift_quantize_bf16(&codes, rounding, stream, l, bfloats, dst);
            compare_codes(&codes, rounding, stream, l, other, dst);
        }
    }
}

static void one_group_is_the_whole_tensor(void **state) {
    (void)state;
    static int8_t dst[MOST * 4], whole[MOST * 4];
    for (size_t n = 0; n < COUNT_OF(layouts); n++) {
        qs_channel_layout l = layouts[n];
        fill(l, n, false);
        qs_shift_codes codes = codes_of("int6", l, false, 1);
        float absmax = qs_absmax_array(count_of(l), src), step = qs_step_of_absmax(codes.format, absmax);
        assert_true(codes.step == step);
        qs_shift_quantize(&codes, QS_STOCHASTIC, (qs_random_stream){5, 10}, l, src, dst);
        qs_quantize_array(codes.format, QS_STOCHASTIC, (qs_random_stream){5, 10}, step, count_of(l), src, whole);
        assert_memory_equal(dst, whole, (size_t)count_of(l));
        for (int64_t c = 0; c < l.channels; c++)
            range[c] = step;
        qs_quantize_channels(codes.format, QS_STOCHASTIC, (qs_random_stream){5, 10}, l, range, src, dst);
        assert_memory_equal(dst, whole, (size_t)count_of(l));
    }
}

/* Threads split large arrays: nothing may change. */
static void threads_change_nothing(void **state) {
    (void)state;
    enum { ROWS = 3001, COLUMNS = 77 };
    static float large[ROWS * COLUMNS];
    static int8_t dst[2][ROWS * COLUMNS];
    static float ranges[2][COLUMNS], offsets[2][COLUMNS];
    qs_channel_layout l = {ROWS, COLUMNS, 1};
    for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
        large[i] = qs_random_normal(1, i) * (float)(i % COLUMNS);
    qs_shift_codes codes = {.format = format_named("int4"), .group = group};
    for (int t = 0; t < 2; t++) {
        assert_int_equal(qs_threads_set(t ? 3 : 1), QS_OK);
        qs_channel_ranges(codes.format, l, large, ranges[t], offsets[t]);
        codes.offset = offsets[t];
        codes.step = qs_shift_groups(codes.format, true, 4, COLUMNS, ranges[t], group);
        qs_shift_quantize(&codes, QS_STOCHASTIC, (qs_random_stream){2, 1}, l, large, dst[t]);
    }
    assert_int_equal(qs_threads_set(1), QS_OK);
    assert_memory_equal(ranges[0], ranges[1], sizeof ranges[0]);
    assert_memory_equal(offsets[0], offsets[1], sizeof offsets[0]);
    assert_memory_equal(dst[0], dst[1], sizeof dst[0]);
}

/* The mean of n draws of an element has the variance v_i / n and is nearly normal, so that n × the sum of squared means has the expectation
 * Σ v_i and the variance 2 Σ v_i²: six deviations are allowed. The draws' variance is the one that is predicted. */
static void stochastic_codes_are_fair(void **state) {
    (void)state;
    enum { DRAWS = 400 };
    static const char *const formats[] = {"int4", "int6", "int8", "uint4"};
    qs_channel_layout l = {20, 33, 1};
    int64_t count = count_of(l);
    for (size_t n = 0; n < COUNT_OF(formats) * 2; n++) {
        static float back[660], steps[33];
        static double sum[660], square[660];
        static int8_t dst[660];
        fill(l, n, n / 2 == 3);
        qs_shift_codes codes = codes_of(formats[n / 2], l, n & 1, 4);
        memset(sum, 0, sizeof sum);
        memset(square, 0, sizeof square);
        for (uint64_t d = 0; d < DRAWS; d++) {
            qs_shift_quantize(&codes, QS_STOCHASTIC, (qs_random_stream){100 + d, 0}, l, src, dst);
            qs_shift_dequantize(&codes, l, dst, back);
            for (int64_t i = 0; i < count; i++) {
                double error = (double)back[i] - (double)src[i];
                sum[i] += error;
                square[i] += error * error / DRAWS;
            }
        }
        for (int64_t c = 0; c < l.channels; c++)
            steps[c] = ldexpf(codes.step, -group[c]);
        double variance = qs_channel_variance(codes.format, l, steps, codes.offset, src), means = 0.0;
        double squares = 0, fourths = 0;
        for (int64_t i = 0; i < count; i++) {
            squares += square[i];
            fourths += square[i] * square[i];
            means += sum[i] * sum[i] / DRAWS;
        }
        assert_true(fabs(squares / variance - 1.0) < 0.03);
        assert_true(fabs(means - variance) < 6 * sqrt(2 * fourths));
    }
}

/* The bound of an element's variance is s²/4. By channel it is the smallest; groups at most double a step, and the last group has the step
 * s_0 2^-(G-1) (docs/method.md eq. (9.6)): fine <= shift <= 4 fine + 4^-(G-1) coarse, and shift <= coarse. The paper's shift <= (1 - λ)
 * fine + λ coarse, with a λ that depends on the ranges, holds for λ = (shift - fine) / (coarse - fine), wherever shift lies between the
 * two; the bound here says how large this λ can be. The exact variance lies between them too. */
static void variance_lies_between(void **state) {
    (void)state;
    qs_channel_layout l = {200, 33, 1};
    for (int bits = 2; bits <= 8; bits++) {
        for (int groups = 1; groups <= QS_MOST_SHIFT_GROUPS; groups++) {
            char name[8];
            float fine[33], coarse[33], shift[33];
            double fine_bound = 0, coarse_bound = 0, bound = 0;
            snprintf(name, sizeof name, "int%d", bits);
            fill(l, (uint64_t)bits, false);
            qs_shift_codes codes = codes_of(name, l, false, groups);
            for (int64_t c = 0; c < l.channels; c++) {
                fine[c] = range[c] / (float)codes.format->max;
                coarse[c] = codes.step;
                shift[c] = ldexpf(codes.step, -group[c]);
                fine_bound += (double)fine[c] * (double)fine[c];
                coarse_bound += (double)coarse[c] * (double)coarse[c];
                bound += (double)shift[c] * (double)shift[c];
            }
            double lambda = pow(0.25, groups - 1), rounding = 1 + 1e-5;
            assert_true(fine_bound <= bound * rounding && bound <= coarse_bound);
            assert_true(bound <= (4 * fine_bound + lambda * coarse_bound) * rounding);
            double exact = qs_channel_variance(codes.format, l, shift, NULL, src);
            double lowest = qs_channel_variance(codes.format, l, fine, NULL, src) * 0.9;
            assert_true(exact >= lowest && exact <= qs_channel_variance(codes.format, l, coarse, NULL, src) * 1.1);
        }
    }
}

static double objective_of(qs_group_objective objective, int64_t channels, const uint8_t *groups, const float *threshold) {
    double sum = 0;
    for (int64_t c = 0; c < channels; c++) {
        double t = (double)threshold[groups[c]], r = (double)range[c];
        sum += objective == QS_SQUARED_RANGES ? t * t : r > 0 ? t / r : 0;
    }
    return sum;
}

/* Every assignment of seven channels to three groups. */
static double least_objective(qs_group_objective objective, int64_t channels, int groups) {
    double least = INFINITY;
    for (int code = 0; code < 2187; code++) {
        uint8_t one[7];
        float threshold[QS_MOST_SHIFT_GROUPS] = {0};
        bool within = true;
        for (int64_t c = 0, rest = code; c < channels; c++, rest /= 3) {
            one[c] = (uint8_t)(rest % 3);
            within = within && one[c] < groups;
            threshold[one[c]] = fmaxf(threshold[one[c]], range[c]);
        }
        if (within) least = fmin(least, objective_of(objective, channels, one, threshold));
    }
    return least;
}

static void optimal_groups_are_optimal(void **state) {
    (void)state;
    for (uint64_t n = 0; n < 200; n++) {
        qs_group_objective objective = n & 1 ? QS_SQUARED_RANGES : QS_RATIO_OF_RANGES;
        int groups = (int)(n / 2 % 3) + 1;
        float threshold[QS_MOST_SHIFT_GROUPS];
        for (uint64_t c = 0; c < 7; c++)
            range[c] = n % 7 == c ? 0.0f : exp2f(-6.0f * (float)qs_random_uniform(n, c));
        if (n % 5 == 0) range[3] = range[4];
        assert_int_equal(qs_optimal_groups(objective, groups, 7, range, group, threshold), QS_OK);
        for (int64_t c = 0; c < 7; c++)
            assert_true(group[c] < groups && range[c] <= threshold[group[c]]);
        double best = least_objective(objective, 7, groups), found = objective_of(objective, 7, group, threshold);
        assert_true(fabs(found - best) <= 1e-12 * best);
    }
    range[0] = INFINITY;
    float threshold[1];
    assert_int_equal(qs_optimal_groups(QS_SQUARED_RANGES, 1, 7, range, group, threshold), QS_USAGE);
}

static void check_vector(const json_t *entry) {
    size_t rows = (size_t)json_integer_value(json_object_get(entry, "rows"));
    size_t columns = (size_t)json_integer_value(json_object_get(entry, "cols"));
    int groups = (int)json_integer_value(json_object_get(entry, "groups"));
    char name[8];
    snprintf(name, sizeof name, "int%d", (int)json_integer_value(json_object_get(entry, "bits")));
    for (size_t i = 0; i < rows * columns; i++)
        src[i] = (float)json_real_value(json_array_get(json_array_get(json_object_get(entry, "a"), i / columns), i % columns));
    qs_channel_layout l = {(int64_t)rows, (int64_t)columns, 1};
    qs_shift_codes codes = codes_of(name, l, false, groups);
    int8_t dst[MOST];
    assert_true(fabs((double)codes.step / json_real_value(json_object_get(entry, "step0")) - 1) < 0x1p-22);
    qs_shift_quantize(&codes, QS_NEAREST_EVEN, (qs_random_stream){0, 0}, l, src, dst);
    for (size_t c = 0; c < columns; c++) {
        assert_true(range[c] == (float)json_real_value(json_array_get(json_object_get(entry, "range"), c)));
        assert_int_equal(group[c], json_integer_value(json_array_get(json_object_get(entry, "group"), c)));
    }
    for (size_t i = 0; i < rows * columns; i++)
        assert_int_equal(dst[i],
                         json_integer_value(json_array_get(json_array_get(json_object_get(entry, "nearest"), i / columns), i % columns)));
}

static void reference_values(void **state) {
    (void)state;
    const char *shared = getenv("QS_TEST_SHARED");
    char path[4096];
    if (!shared) skip();
    snprintf(path, sizeof path, "%s/vectors/shiftquant.json", shared);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root) skip();
    assert_true(json_array_size(root) > 0);
    for (size_t i = 0; i < json_array_size(root); i++)
        check_vector(json_array_get(root, i));
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_extremes),           cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(groups_follow_the_rule),        cmocka_unit_test(codes_equal_single_values),
        cmocka_unit_test(one_group_is_the_whole_tensor), cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(stochastic_codes_are_fair),     cmocka_unit_test(variance_lies_between),
        cmocka_unit_test(optimal_groups_are_optimal),    cmocka_unit_test(reference_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
