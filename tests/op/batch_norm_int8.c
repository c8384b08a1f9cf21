// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: l1_batch_norm_int8 l2_batch_norm_int8 l2_batch_norm_int8_std
/* The batch norms in 8 bits: whole numbers' arithmetic, straight-through gradients, the relu behind; what they refuse. */
#include "norm_support.h"

static const struct {
    const char *op;
    bool absolute;
    qs_role spread;
    bool keeps_narrow; /* channels that spread a sixteenth of the widest */
} norms[] = {{"l1_batch_norm_int8", true, QS_DEVIATION, true},
             {"l2_batch_norm_int8", false, QS_VARIANCE, false},
             {"l2_batch_norm_int8_std", false, QS_DEVIATION, true}};
enum { NORMS = COUNT_OF(norms), TEXT = QS_CASE_TEXT };

static void forward_text(int n, const char *shape, int channels, char *text) {
    const char *spread = qs_role_name(norms[n].spread);
    snprintf(text, TEXT,
             "%s/forward src=int8[%s] src_step=fp32[1] scale=fp32[%d] shift=fp32[%d] mean=fp32[%d] %s=fp32[%d] running_mean=fp32[%d] "
             "running_%s=fp32[%d] dst=fp32[%s] epsilon=1e-05 momentum=0.1",
             norms[n].op, shape, channels, channels, channels, spread, channels, channels, spread, channels, shape);
}

static void backward_text(int n, char *text) {
    snprintf(text, TEXT,
             "%s/backward src=int8[4,5,5,5] src_step=fp32[1] scale=fp32[5] mean=fp32[5] %s=fp32[5] diff_dst=fp32[4,5,5,5] "
             "diff_src=fp32[4,5,5,5] diff_scale=fp32[5] diff_shift=fp32[5] epsilon=1e-05 momentum=0.1",
             norms[n].op, qs_role_name(norms[n].spread));
}

TEST(cases) {
    for (int n = 0; n < NORMS; n++)
        check_cases(norms[n].op);
}

TEST(whole_numbers) {
    for (int n = 0; n < NORMS; n++) {
        char forward[TEXT];
        forward_text(n, "4,5,5,5", 5, forward);
        check_quantized_forward(forward, norms[n].absolute, norms[n].spread);
    }
}

TEST(straight_through) {
    for (int n = 0; n < NORMS; n++) {
        char forward[TEXT], backward[TEXT];
        forward_text(n, "4,5,5,5", 5, forward);
        backward_text(n, backward);
        check_straight_through(forward, backward, norms[n].absolute, norms[n].spread);
    }
}

TEST(relu_behind) {
    for (int n = 0; n < NORMS; n++)
        check_relu_behind(norms[n].op);
}

/* Channel 1 spreads a sixteenth of channel 0: its variance, 1/256 of the other's, is below half a step of max/127 and rounds to 0; a
 * deviation of 1/16 does not. */
TEST(narrow_channels) {
    for (int n = 0; n < NORMS; n++) {
        char forward[TEXT];
        bound b;
        forward_text(n, "8,2", 2, forward);
        bound_parse(&b, forward, 5);
        for (int i = 0; i < 8; i++) {
            ((int8_t *)bound_tensor(&b, QS_SRC)->data)[2 * i] = i % 2 ? 112 : -112;
            ((int8_t *)bound_tensor(&b, QS_SRC)->data)[2 * i + 1] = i % 2 ? 7 : -7;
        }
        bound_run(&b);
        assert_true(bound_fp32(&b, norms[n].spread)[0] > 0);
        assert_int_equal(bound_fp32(&b, norms[n].spread)[1] > 0, norms[n].keeps_narrow);
        bound_release(&b);
    }
}

/* ---- The gap of the normalised values ---- */

enum { ROWS = 64, CHANNELS = 3 };

/* x̂ of one channel by its definition; both vectors have a stride of CHANNELS. */
static void normalize_exactly(int n, const double *x, double *out) {
    double mean = 0, spread = 0;
    for (int i = 0; i < ROWS; i++)
        mean += x[i * CHANNELS] / ROWS;
    for (int i = 0; i < ROWS; i++)
        spread += (norms[n].absolute ? fabs(x[i * CHANNELS] - mean) : pow(x[i * CHANNELS] - mean, 2)) / ROWS;
    if (!norms[n].absolute && norms[n].spread == QS_DEVIATION) spread = sqrt(spread);
    for (int i = 0; i < ROWS; i++)
        out[i * CHANNELS] = (x[i * CHANNELS] - mean) / (norms[n].spread == QS_VARIANCE ? sqrt(spread + 1e-5) : spread + 1e-5);
}

/* A pass over codes made from normal x whose channels spread as 1 : 1/4 : 1/32. x̂ of the rounded pass is read off its output: with scale 1
 * and shift 0 it is that, up to the rounding of the scale's step. */
static void gap_run(int n, bound *b, float *x) {
    static const int exponent[CHANNELS] = {0, -2, -5};
    char forward[TEXT];
    double absmax = 0;
    forward_text(n, "64,3", CHANNELS, forward);
    bound_parse(b, forward, 9);
    for (int i = 0; i < ROWS * CHANNELS; i++) {
        x[i] = ldexpf(qs_random_normal(17, (uint64_t)i), exponent[i % CHANNELS]);
        absmax = fmax(absmax, fabs((double)x[i]));
    }
    const float step = bound_fp32(b, QS_SRC_STEP)[0] = qs_step_of_absmax(qs_format_of("int8"), (float)absmax);
    for (int i = 0; i < ROWS * CHANNELS; i++)
        ((int8_t *)bound_tensor(b, QS_SRC)->data)[i] = (int8_t)rintf(x[i] / step);
    for (int c = 0; c < CHANNELS; c++) {
        bound_fp32(b, QS_SCALE)[c] = 1;
        bound_fp32(b, QS_SHIFT)[c] = 0;
    }
    bound_run(b);
}

TEST(gaps) {
    double apart[NORMS];
    for (int n = 0; n < NORMS; n++) {
        static float x[ROWS * CHANNELS];
        double given[ROWS * CHANNELS], rounded[ROWS * CHANNELS], exact[ROWS * CHANNELS], of_rounded[ROWS * CHANNELS];
        qs_norm_gap expected = {0}, got = {0};
        bound b;
        gap_run(n, &b, x);
        for (int i = 0; i < ROWS * CHANNELS; i++) {
            given[i] = (double)x[i];
            rounded[i] = (double)bound_fp32(&b, QS_SRC_STEP)[0] * ((const int8_t *)bound_tensor(&b, QS_SRC)->data)[i];
        }
        for (int c = 0; c < CHANNELS; c++) {
            normalize_exactly(n, given + c, exact + c);
            normalize_exactly(n, rounded + c, of_rounded + c);
        }
        for (int i = 0; i < ROWS * CHANNELS; i++) {
            const double y = (double)bound_fp32(&b, QS_DST)[i];
            expected.distance2 += pow(y - exact[i], 2);
            expected.statistics2 += pow(y - of_rounded[i], 2);
            expected.norm2 += pow(exact[i], 2);
        }
        assert_ok(qs_norm_gap_add(&b.one, b.operands, x, &got));
        /* y is off by 2^-22 |y| at most: fp32 of y, of the saved spread, and of the step in 127 · (1/127). */
        const double slack = 0x1p-22 * (sqrt(expected.distance2) + sqrt(expected.norm2));
        assert_true(fabs(sqrt(got.distance2) - sqrt(expected.distance2)) <= slack);
        assert_true(fabs(sqrt(got.statistics2) - sqrt(expected.statistics2)) <= slack);
        assert_true(fabs(got.norm2 - expected.norm2) <= 1e-12 * expected.norm2);
        assert_true(got.distance2 > 0 && got.statistics2 > 0);
        apart[n] = got.statistics2 / got.norm2;
        qs_norm_gap twice = got;
        assert_ok(qs_norm_gap_add(&b.one, b.operands, x, &twice));
        assert_true(fabs(twice.distance2 - 2 * got.distance2) <= 1e-12 * got.distance2);
        bound_release(&b);
    }
    /* The third variance, a thousandth of the first, rounds to 0: x̂ is blown up. A deviation is off by a 254th of the largest at most:
     * here by an eighth, in one of three channels. */
    assert_true(apart[1] > 1 && apart[0] < 0.02 && apart[2] < 0.02);
}

TEST(refusals) {
    for (int n = 0; n < NORMS; n++) {
        char forward[TEXT];
        qs_case one;
        forward_text(n, "4,5,5,5", 5, forward);
        assert_ok(qs_case_parse(forward, &one));
        qs_case_bind(&one, QS_SRC, one.operand[0].shape, qs_format_of("fp32"));
        assert_refused(qs_case_check(&one), QS_USAGE, "int8 with its src_step");
    }
}

TEST_MAIN(cases, whole_numbers, straight_through, relu_behind, narrow_channels, gaps, refusals)
