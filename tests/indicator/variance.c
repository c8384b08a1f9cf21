// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What a quantizer adds to one tensor: steps by their definition; exact sums, measured and estimated, against the array itself. */
#include "indicator_support.h"

enum { COUNT = 65536 };

static double variance_of(const qs_spread *tensor, const char *quantizer, bool asymmetric, bool exact) {
    qs_quantizer parsed;
    double out = -1;
    assert_ok(qs_quantizer_find(quantizer, &parsed));
    assert_ok(qs_rounding_variance(tensor, &parsed, asymmetric, exact, "tensor", &out));
    return out;
}

static const qs_spread by_hand = {.count = 600,
                                  .norm2 = 1e3,
                                  .absmax = 6,
                                  .minimum = -4,
                                  .maximum = 6,
                                  .channel_absmax2 = 1e4,
                                  .channel_range2 = 3e4,
                                  .variance_int8 = 0.5,
                                  .variance_int8_channel = 0.25,
                                  .variance_bf16 = 0.125,
                                  .variance_fp16 = 0.0625};

TEST(steps_by_definition) {
    close_to(variance_of(&by_hand, "int8", false, false), 36.0 / (127 * 127) * 100);
    close_to(variance_of(&by_hand, "int8", true, false), 100.0 / (255 * 255) * 100);
    close_to(variance_of(&by_hand, "int4", false, false), 36.0 / 49 * 100);
    close_to(variance_of(&by_hand, "int8:channel(out)", false, false), 1e4 / (127 * 127) / 6);
    close_to(variance_of(&by_hand, "int4:channel(out)", true, false), 3e4 / (15 * 15) / 6);
    close_to(variance_of(&by_hand, "int8:channel(in)", false, false), 36.0 / (127 * 127) * 100);
    close_to(variance_of(&by_hand, "fp(4,3,4):stochastic", false, false), 16 * 0x1p-6 * 100); /* the exponent of 6 is 2 */
    close_to(variance_of(&by_hand, "fp32:stochastic", false, false), 16 * 0x1p-46 * 100);
}

/* What is rounded there nobody measured. */
TEST(transformed_values_are_refused) {
    qs_quantizer quantizer;
    double out = -1;
    assert_ok(qs_quantizer_find("int4:hadamard", &quantizer));
    assert_int_equal(qs_rounding_variance(&by_hand, &quantizer, false, true, "weights", &out), QS_UNSUPPORTED);
    assert_true(strstr(qs_message(), "weights") && strstr(qs_message(), "Hadamard") && strstr(qs_message(), "int4:shift4"));
    assert_true(out == -1);
}

/* Nearest has half of it; floor and toward-zero q²/12 and the square of a bias of q/2: 1/3 in place of 1/6. */
TEST(roundings) {
    const double unit = 36.0 / (127 * 127) * 600;
    close_to(variance_of(&by_hand, "int8:nearest-even", false, false), unit / 12);
    close_to(variance_of(&by_hand, "int8:nearest-away", false, false), unit / 12);
    close_to(variance_of(&by_hand, "int8:floor", false, false), unit / 3);
    close_to(variance_of(&by_hand, "int8:toward-zero", false, false), unit / 3);
    close_to(variance_of(&by_hand, "bf16", false, true), 0.0625);
}

TEST(measured_sums_are_taken) {
    close_to(variance_of(&by_hand, "int8", false, true), 0.5);
    close_to(variance_of(&by_hand, "int8:channel(out)", false, true), 0.25);
    close_to(variance_of(&by_hand, "bf16:stochastic", false, true), 0.125);
    close_to(variance_of(&by_hand, "fp16:stochastic", false, true), 0.0625);
    /* Others have no histogram here: as plain. */
    close_to(variance_of(&by_hand, "int4", false, true), variance_of(&by_hand, "int4", false, false));
    close_to(variance_of(&by_hand, "int8", true, true), variance_of(&by_hand, "int8", true, false));
    close_to(variance_of(&by_hand, "e5m2:stochastic", false, true), variance_of(&by_hand, "e5m2:stochastic", false, false));
}

/* Against groups that were really formed, of channels whose ranges spread over five binades: a channel counts by the larger of two
 * bounds, their sum is at most twice that. */
TEST(shift_groups) {
    enum { CHANNELS = 4096 };
    static float range[CHANNELS];
    static uint8_t group[CHANNELS];
    qs_spread tensor = {.count = CHANNELS};
    for (uint64_t c = 0; c < CHANNELS; c++) {
        range[c] = exp2f(-5 * qs_random_uniform(9, c));
        tensor.absmax = fmax(tensor.absmax, (double)range[c]);
        tensor.channel_absmax2 += (double)range[c] * (double)range[c];
    }
    double before = INFINITY;
    for (int groups = 1; groups <= 8; groups++) {
        char name[32];
        double expected = 0;
        const float step = qs_shift_groups(qs_format_of("int4"), false, groups, CHANNELS, range, group);
        for (int c = 0; c < CHANNELS; c++)
            expected += ldexp((double)step * (double)step, -2 * group[c]) / 6;
        snprintf(name, sizeof name, "int4:shift%d", groups);
        const double got = variance_of(&tensor, name, false, true);
        if (groups == 1) close_to(got, variance_of(&tensor, "int4", false, true));
        if (!(got <= 2 * expected && got >= 0.95 * expected && got <= before))
            fail_msg("%s: %g, of the groups %g, of one less %g", name, got, expected, before);
        before = got;
    }
    assert_true(variance_of(&tensor, "int8:shift4", false, true) < variance_of(&tensor, "int4:shift4", false, true) / 300);
}

TEST(missing_ranges_are_refused) {
    qs_spread tensor = by_hand;
    qs_quantizer quantizer;
    double out;
    tensor.channel_range2 = NAN;
    assert_ok(qs_quantizer_find("int8:channel(out)", &quantizer));
    assert_refused(qs_rounding_variance(&tensor, &quantizer, true, false, "weights", &out), QS_MISMATCH, "profile this model again");
}

/* ---- Against arrays ---- */

typedef struct sample {
    float values[COUNT];
    double histogram[QS_EXPONENTS];
    qs_spread spread;
} sample;

static void sample_fill(sample *out, double scale, bool relu) {
    qs_summary summary;
    for (uint64_t i = 0; i < COUNT; i++) {
        const float value = qs_random_normal(11, i) * (float)scale;
        out->values[i] = relu && value < 0 ? 0 : value;
    }
    qs_summary_array(COUNT, out->values, &summary);
    for (int i = 0; i < QS_EXPONENTS; i++)
        out->histogram[i] = (double)summary.exponents[i];
    out->spread = (qs_spread){.count = COUNT,
                              .norm2 = summary.norm2,
                              .absmax = fmax(-(double)summary.minimum, (double)summary.maximum),
                              .minimum = (double)summary.minimum,
                              .maximum = (double)summary.maximum,
                              .variance_int8 = NAN,
                              .variance_int8_channel = NAN,
                              .variance_bf16 = NAN,
                              .variance_fp16 = NAN,
                              .range_histogram = out->histogram,
                              .histogram_factor = 1};
}

/* Within a binary exponent the density of a normal distribution falls, which the estimate takes as even: at most by 1/e^(3/2 · 4^e) from
 * one end to the other, of which only sums over remainders of more than one step feel anything. A tenth is far above what is left
 * (coarsest: int4, whose step spans several exponents) and far below the factors at stake: 2 after ReLU, 7 and more for floats. */
static void estimate_check(const sample *one, const char *name) {
    char text[64];
    const qs_format *format = qs_format_of(name);
    const bool integer = format->kind == QS_KIND_INTEGER;
    const float step = integer ? qs_step_of_absmax(format, (float)one->spread.absmax) : 0;
    snprintf(text, sizeof text, "%s:stochastic", name);
    const double exact = qs_stochastic_variance_array(format, step, COUNT, one->values);
    const double estimate = variance_of(&one->spread, text, false, true), plain = variance_of(&one->spread, text, false, false);
    if (fabs(estimate - exact) > 0.1 * exact) fail_msg("%s: estimated %.4g, exact %.4g, plain %.4g", name, estimate, exact, plain);
    /* Eq. (3.2) is a bound for floats; of a fixed-point remainder it is the mean, from which few and wide steps stray. */
    assert_true(estimate <= plain * (integer ? 1.1 : 1));
}

TEST(estimates_follow_the_array) {
    static const char *const names[] = {"int8", "int6", "int4", "bf16", "fp16", "e4m3fn", "e5m2", "fp(4,3,4)", "fp(5,10,0)", "fp(6,9,0)"};
    static sample one;
    for (int relu = 0; relu < 2; relu++) {
        sample_fill(&one, 1.5, relu);
        for (size_t i = 0; i < COUNT_OF(names); i++)
            estimate_check(&one, names[i]);
    }
}

/* Powers of two: by all 65536 draws of a value the mean of its squared error is (t - a)(b - t), a and b the codes around it; here by that
 * product itself. The density within a binade is taken as even, as above, and steps are whole binades. */
TEST(powers_of_two_follow_the_array) {
    static sample one;
    for (int relu = 0; relu < 2; relu++) {
        for (int bits = 2; bits <= 4; bits++) {
            char name[24];
            double exact = 0;
            snprintf(name, sizeof name, "log%d:stochastic", bits);
            sample_fill(&one, 1.5, relu);
            const double step = one.spread.absmax / qs_format_of(bits == 4 ? "log4" : bits == 3 ? "log3" : "log2")->max;
            for (int i = 0; i < COUNT; i++) {
                const double t = fabs((double)one.values[i]) / step, a = t < 1 ? 0 : ldexp(1, ilogb(t)), b = t < 1 ? 1 : 2 * a;
                exact += step * step * (t - a) * (b - t);
            }
            const double estimate = variance_of(&one.spread, name, false, true), bound = variance_of(&one.spread, name, false, false);
            if (fabs(estimate - exact) > 0.1 * exact || bound < exact)
                fail_msg("%s: estimated %.4g, exact %.4g, without a histogram %.4g", name, estimate, exact, bound);
        }
    }
}

/* What clipping takes off the error of codes to nearest: found by the same search over the values themselves. The estimate knows a tail by
 * its binades only, in which it is even: the last one counts most, so it may be off by a fifth. */
TEST(clipped_ranges_follow_the_array) {
    static const char *const names[] = {"int8", "int6", "int4", "int3"};
    static sample one;
    static int8_t codes[COUNT];
    sample_fill(&one, 1.5, false);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const qs_format *format = qs_format_of(names[i]);
        const qs_clip_values values = {.format = format, .src = one.values, .count = COUNT, .stride = 1, .channels = 1};
        const float ratio = qs_clip_find(&values, (float)one.spread.absmax),
                    step = ratio * qs_step_of_absmax(format, (float)one.spread.absmax);
        char text[64];
        double exact = 0;
        qs_quantize_array(format, QS_NEAREST_EVEN, (qs_random_stream){0}, step, COUNT, one.values, codes);
        for (int k = 0; k < COUNT; k++)
            exact += pow((double)one.values[k] - (double)step * codes[k], 2);
        snprintf(text, sizeof text, "%s:mse", names[i]);
        const double estimate = variance_of(&one.spread, text, false, true);
        snprintf(text, sizeof text, "%s:nearest-even", names[i]);
        const double whole = variance_of(&one.spread, text, false, true);
        if (fabs(estimate - exact) > 0.2 * exact || estimate > whole)
            fail_msg("%s: estimated %.4g, exact %.4g at %.3g of the range, unclipped %.4g", names[i], estimate, exact, (double)ratio,
                     whole);
        if (format->bits == 4) assert_true(ratio < 1 && exact < 0.8 * whole);
    }
    close_to(variance_of(&by_hand, "int8:mse", false, true), variance_of(&by_hand, "int8:nearest-even", false, true));
}

/* A gradient far below e5m2's least value: almost every draw gives zero, and q² D / 6 of the least step would be off by orders. */
TEST(values_below_the_step) {
    static sample one;
    sample_fill(&one, 1e-7, false);
    const double exact = qs_stochastic_variance_array(qs_format_of("e5m2"), 0, COUNT, one.values);
    const double estimate = variance_of(&one.spread, "e5m2:stochastic", false, true);
    const double q = qs_format_of("e5m2")->min_subnormal;
    assert_true(fabs(estimate - exact) < 0.1 * exact);
    assert_true(exact < 0.1 * q * q * COUNT / 6);
}

/* Twice the values: the histogram moves by one exponent; half of the batch again: by its counts. */
TEST(histograms_are_rescaled) {
    static sample one, twice;
    sample_fill(&one, 1, false);
    sample_fill(&twice, 2, false);
    qs_spread moved = twice.spread;
    moved.range_histogram = one.histogram;
    moved.histogram_shift = 1;
    moved.histogram_factor = 3;
    close_to(variance_of(&moved, "e5m2:stochastic", false, true), 3 * variance_of(&twice.spread, "e5m2:stochastic", false, true));
}

TEST(overflow_is_counted) {
    static sample one;
    sample_fill(&one, 300, false);
    const qs_format *format = qs_format_of("e4m3fn");
    qs_quantizer quantizer;
    double beyond = 0, out;
    for (int i = 0; i < COUNT; i++)
        beyond += fabs((double)one.values[i]) > format->max;
    const double share = qs_overflow_share(&one.spread, format);
    /* 448 is 1.5 deviations: the density halves from there to 512, the end of its exponent, and is three times as high at 256. */
    assert_true(beyond > 0 && fabs(share - beyond / COUNT) < 0.3 * beyond / COUNT);
    assert_ok(qs_quantizer_find("e4m3fn", &quantizer));
    assert_refused(qs_rounding_variance(&one.spread, &quantizer, false, true, "weights", &out), QS_INFEASIBLE, "% of its elements");
    assert_true(qs_overflow_share(&one.spread, qs_format_of("fp32")) == 0);
    one.spread.range_histogram = NULL;
    assert_true(qs_overflow_share(&one.spread, format) == 0);
}

TEST_MAIN(steps_by_definition, transformed_values_are_refused, roundings, measured_sums_are_taken, missing_ranges_are_refused,
          estimates_follow_the_array, powers_of_two_follow_the_array, clipped_ranges_follow_the_array, values_below_the_step,
          histograms_are_rescaled, overflow_is_counted, shift_groups)
