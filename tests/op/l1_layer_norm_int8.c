// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The layer norm in 8 bits: whole numbers' arithmetic, straight-through gradients, positions by themselves, the relu behind; what it
 * refuses. */
#include "norm_support.h"

enum { POSITIONS = 40, CHANNELS = 11, TEXT = QS_CASE_TEXT };

static void text_of(const char *pass, int positions, char *text) {
    const bool backward = strcmp(pass, "backward") == 0;
    char shape[32];
    snprintf(shape, sizeof shape, "[%d,%d]", positions, CHANNELS);
    int used = snprintf(text, TEXT, "l1_layer_norm_int8/%s src=int8%s src_step=fp32[1] scale=fp32[%d]", pass, shape, CHANNELS);
    if (!backward) used += snprintf(text + used, TEXT - (size_t)used, " shift=fp32[%d]", CHANNELS);
    if (strcmp(pass, "inference"))
        used += snprintf(text + used, TEXT - (size_t)used, " mean=fp32[%d] deviation=fp32[%d]", positions, positions);
    if (backward) {
        snprintf(text + used, TEXT - (size_t)used, " diff_dst=fp32%s diff_src=fp32%s diff_scale=fp32[%d] diff_shift=fp32[%d] epsilon=1e-05",
                 shape, shape, CHANNELS, CHANNELS);
    } else {
        snprintf(text + used, TEXT - (size_t)used, " dst=fp32%s epsilon=1e-05", shape);
    }
}

static void parsed(const char *pass, int positions, uint64_t seed, bound *out) {
    char text[TEXT];
    text_of(pass, positions, text);
    bound_parse(out, text, seed);
}

/* Positions whose codes are far from 0, close together, all over, all the same. */
static void fill_codes(bound *b) {
    static const int middle[] = {0, 100, -3, 1, -120, 40}, width[] = {127, 20, 2, 1, 7, 0};
    int8_t *codes = bound_tensor(b, QS_SRC)->data;
    for (int r = 0; r < POSITIONS; r++)
        for (int c = 0; c < CHANNELS; c++) {
            const int spread = width[r % 6], draw = (int)lrint((2 * qs_random_uniform(5, (uint64_t)(r * CHANNELS + c)) - 1) * spread);
            const int code = middle[r % 6] + draw;
            codes[r * CHANNELS + c] = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
        }
}

/* sum / (count 2^q) rounded to code / 2^p with the largest p up to 8 for which the code fits 127; returns the code. */
static int64_t rounded(int64_t sum, int64_t count, int q, int *p) {
    for (*p = 8;; --*p) {
        const int up = *p - q;
        const int64_t code = up >= 0 ? nearest(sum * (INT64_C(1) << up), count) : nearest(sum, count * (INT64_C(1) << -up));
        if (llabs(code) <= 127) return code;
    }
}

static double vector_value(const float *vector, int c) {
    const float step = vector_step(CHANNELS, vector);
    return (double)step * rint((double)(vector[c] / step));
}

/* One position by whole numbers: mean m / 2^p, deviation d / 2^q, in codes. */
static void check_position(bound *b, int r) {
    const int8_t *codes = (const int8_t *)bound_tensor(b, QS_SRC)->data + (size_t)r * CHANNELS;
    const double step = (double)bound_fp32(b, QS_SRC_STEP)[0];
    int64_t sum = 0, distances = 0;
    int p, q;
    for (int c = 0; c < CHANNELS; c++)
        sum += codes[c];
    const int64_t m = rounded(sum, CHANNELS, 0, &p);
    const double mean = ldexp((double)m, -p);
    for (int c = 0; c < CHANNELS; c++)
        distances += llabs((int64_t)ldexp(codes[c] - mean, 8));
    const int64_t d = rounded(distances, CHANNELS, 8, &q);
    const double deviation = fmax(ldexp((double)d, -q), 0.25) * step, below = deviation + 1e-5;
    assert_true(bound_fp32(b, QS_MEAN)[r] == (float)(mean * step));
    assert_true(bound_fp32(b, QS_DEVIATION)[r] == (float)deviation);
    for (int c = 0; c < CHANNELS; c++) {
        const double n = (codes[c] - mean) * step / below * vector_value(bound_fp32(b, QS_SCALE), c);
        const double y = (double)bound_fp32(b, QS_DST)[r * CHANNELS + c];
        assert_true(fabs(y - n - vector_value(bound_fp32(b, QS_SHIFT), c)) <= 0x1p-20 * (fabs(n) + 1));
    }
}

TEST(whole_numbers) {
    bound b;
    parsed("forward", POSITIONS, 3, &b);
    fill_codes(&b);
    bound_run(&b);
    for (int r = 0; r < POSITIONS; r++)
        check_position(&b, r);
    bound_release(&b);
}

/* What the rounding of a mean keeps: every code / 2^p with p up to 8, and what lies between them to the nearest, ties to even. */
TEST(rounding) {
    for (int64_t eighth = -8 * 256 * 128; eighth <= 8 * 256 * 128; eighth += eighth % 64 ? 1 : 3) {
        float value = ldexpf((float)eighth, -11);
        int p;
        const int64_t code = rounded(eighth, 1, 11, &p);
        qs_norm_round_each(1, &value);
        assert_true((double)value == ldexp((double)code, -p));
    }
}

TEST(straight_through) {
    bound f, b;
    parsed("forward", POSITIONS, 22, &f);
    parsed("backward", POSITIONS, 23, &b);
    fill_codes(&f);
    bound_run(&f);
    bound_share(&b, &f);
    bound_run(&b);
    const int8_t *codes = bound_tensor(&b, QS_SRC)->data;
    const float *dy = bound_fp32(&b, QS_DIFF_DST), *dx = bound_fp32(&b, QS_DIFF_SRC);
    const double step = (double)bound_fp32(&b, QS_SRC_STEP)[0];
    double sums[CHANNELS] = {0}, terms[CHANNELS] = {0};
    for (int r = 0; r < POSITIONS; r++) {
        const double mean = rint((double)bound_fp32(&f, QS_MEAN)[r] / step * 256) / 256;
        const double below = ((double)bound_fp32(&f, QS_DEVIATION)[r] + 1e-5) / step;
        double x[CHANNELS], g[CHANNELS], largest = 0;
        for (int c = 0; c < CHANNELS; c++) {
            const int at = r * CHANNELS + c;
            x[c] = codes[at];
            g[c] = (double)dy[at] * vector_value(bound_fp32(&b, QS_SCALE), c) / step;
            largest = fmax(largest, fabs(g[c]) / below * (1 + fabs(x[c] - mean) / below));
            sums[c] += (double)dy[at] * (x[c] - mean) / below;
            terms[c] += fabs((double)dy[at] * (x[c] - mean) / below);
        }
        for (int c = 0; c < CHANNELS; c++)
            assert_true(fabs((double)dx[r * CHANNELS + c] - through(CHANNELS, x, g, mean, below, true, c)) <= 0x1p-18 * largest);
    }
    for (int c = 0; c < CHANNELS; c++)
        assert_true(fabs((double)bound_fp32(&b, QS_DIFF_SCALE)[c] - sums[c]) <= 0x1p-20 * terms[c]);
    bound_release(&f);
    bound_release(&b);
}

/* Bit for bit, in training and evaluation: with the step given, a position is all that its results depend on. */
TEST(positions_apart) {
    bound all, one, inference;
    parsed("forward", POSITIONS, 7, &all);
    parsed("forward", 1, 7, &one);
    parsed("inference", POSITIONS, 8, &inference);
    fill_codes(&all);
    bound_run(&all);
    bound_share(&inference, &all);
    bound_run(&inference);
    same_operand(&inference, QS_DST, &all, QS_DST, "inference");
    copy_operand(&one, QS_SRC_STEP, &all, QS_SRC_STEP);
    copy_operand(&one, QS_SCALE, &all, QS_SCALE);
    copy_operand(&one, QS_SHIFT, &all, QS_SHIFT);
    for (int r = 0; r < POSITIONS; r++) {
        memcpy(bound_tensor(&one, QS_SRC)->data, (const int8_t *)bound_tensor(&all, QS_SRC)->data + (size_t)r * CHANNELS, CHANNELS);
        bound_run(&one);
        position_same(&one, &all, QS_DST, r);
        position_same(&one, &all, QS_MEAN, r);
        position_same(&one, &all, QS_DEVIATION, r);
    }
    bound_release(&all);
    bound_release(&one);
    bound_release(&inference);
}

TEST(cases) {
    check_cases("l1_layer_norm_int8");
}

TEST(relu_behind) {
    check_relu_behind("l1_layer_norm_int8");
}

TEST(refusals) {
    check_layer_refused("l1_layer_norm_int8/inference src=fp32[4,2] scale=fp32[2] shift=fp32[2] dst=fp32[4,2]", "int8 with its src_step");
    check_layer_refused("l1_layer_norm/inference src=int8[4,2] src_step=fp32[1] scale=fp32[2] shift=fp32[2] dst=fp32[4,2]", "as a float");
    check_layer_refused("l1_layer_norm_int8/inference src=int8[4,1] src_step=fp32[1] scale=fp32[1] shift=fp32[1] dst=fp32[4,1]",
                        "one channel");
}

TEST_MAIN(cases, whole_numbers, rounding, straight_through, positions_apart, relu_behind, refusals)
