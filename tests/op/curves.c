// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: sigmoid hard_sigmoid hard_swish leaky_relu elu celu selu softplus softsign mish exp log sqrt abs erf reciprocal power clip affine
/* Functions of one number: known values, corners, far tails, gradients; rules of their constants. */
#include "kit/cases.h"

enum { POINTS = 6 };

typedef struct curve {
    const char *name, *with;
    float x[POINTS];
    double y[POINTS];
} curve;

/* Values of tables and by hand, seven digits. */
static const curve curves[] = {
    {"sigmoid", "", {0, 1, -1, 4, -20, 200}, {0.5, 0.7310586, 0.2689414, 0.9820138, 2.061154e-9, 1}},
    {"hard_sigmoid", "", {0, 1, -3, 3, -200, 1.5f}, {0.5, 0.6666667, 0, 1, 0, 0.75}},
    {"hard_sigmoid", " alpha=0.2 beta=0.5", {0, 1, -2.5f, 2.5f, 2, -2}, {0.5, 0.7, 0, 1, 0.9, 0.1}},
    {"hard_swish", "", {0, 1, -1, 3, -3, 5}, {0, 0.6666667, -0.3333333, 3, 0, 5}},
    {"leaky_relu", "", {0, 1, -1, 3, -100, 1e30f}, {0, 1, -0.01, 3, -1, 1e30}},
    {"leaky_relu", " alpha=-2", {0, 1, -1, 3, -4, 2}, {0, 1, 2, 3, 8, 2}},
    {"elu", "", {0, 1, -1, 3, -100, -1e-4f}, {0, 1, -0.6321206, 3, -1, -9.9995e-5}},
    {"celu", " alpha=2", {0, 1, -1, 3, -100, -2}, {0, 1, -0.7869387, 3, -2, -1.2642411}},
    {"selu", "", {0, 1, -1, 3, -100, 2}, {0, 1.0507010, -1.1113307, 3.1521030, -1.7580993, 2.1014020}},
    {"softplus", "", {0, 1, -1, 100, -20, 4}, {0.6931472, 1.3132617, 0.3132617, 100, 2.061154e-9, 4.0181499}},
    {"softsign", "", {0, 1, -1, 3, -4, 1e10f}, {0, 0.5, -0.5, 0.75, -0.8, 1}},
    {"mish", "", {0, 1, -1, 20, -20, 2}, {0, 0.8650984, -0.3034015, 20, -4.122307e-8, 1.9439590}},
    {"exp", "", {0, 1, -1, 10, -10, 0.5f}, {1, 2.7182818, 0.3678794, 22026.466, 4.539993e-5, 1.6487213}},
    {"log", "", {1, 2, 0.5f, 10, 1e-10f, 1e10f}, {0, 0.6931472, -0.6931472, 2.3025851, -23.0258509, 23.0258509}},
    {"sqrt", "", {0, 1, 2, 4, 1e-20f, 0.25f}, {0, 1, 1.4142136, 2, 1e-10, 0.5}},
    {"abs", "", {0, 1, -1, 1e30f, -1e-30f, -3}, {0, 1, 1, 1e30, 1e-30, 3}},
    {"erf", "", {0, 1, -1, 0.01f, 5, -5}, {0, 0.8427008, -0.8427008, 0.0112834156, 1, -1}},
    {"reciprocal", "", {1, 2, -4, 0.1f, 8, -1}, {1, 0.5, -0.25, 10, 0.125, -1}},
    {"power", "", {0, 1, -3, 0.5f, 2, 4}, {0, 1, 9, 0.25, 4, 16}},
    {"power", " exponent=3", {0, 1, -3, 0.5f, 2, -1}, {0, 1, -27, 0.125, 8, -1}},
    {"power", " exponent=-0.5", {1, 4, 16, 0.25f, 2, 9}, {1, 0.5, 0.25, 2, 0.7071068, 0.3333333}},
    {"clip", " least=-0.5 most=1", {0, 1, -1, 3, -0.5f, 0.75f}, {0, 1, -0.5, 1, -0.5, 0.75}},
    {"affine", "", {0, 1, -1, 3, -4, 2}, {0, 1, -1, 3, -4, 2}},
    {"affine", " factor=-2 term=1", {0, 1, -1, 3, -4, 2}, {1, -1, 3, -5, 9, -3}},
};

TEST(cases) {
    for (size_t c = 0; c < COUNT_OF(curves); c++)
        check_cases(curves[c].name);
}

TEST(gradients) {
    for (size_t c = 0; c < COUNT_OF(curves); c++)
        check_gradients(curves[c].name);
}

TEST(values) {
    for (size_t c = 0; c < COUNT_OF(curves); c++) {
        const curve *one = &curves[c];
        char text[QS_CASE_TEXT];
        bound b;
        snprintf(text, sizeof text, "%s/forward src=fp32[1,%d] dst=fp32[1,%d]%s", one->name, POINTS, POINTS, one->with);
        bound_parse(&b, text, 41);
        memcpy(bound_fp32(&b, QS_SRC), one->x, sizeof one->x);
        bound_run(&b);
        for (int i = 0; i < POINTS; i++) {
            const double y = (double)bound_fp32(&b, QS_DST)[i];
            if (fabs(y - one->y[i]) > 2e-7 * fabs(one->y[i]))
                fail_msg("%s of %g: %.9g, expected %.9g", text, (double)one->x[i], y, one->y[i]);
        }
        bound_release(&b);
    }
}

/* Derivatives at the corners, as the heads of the files say, and far out, where nothing may become a NaN. */
static const struct {
    const char *text;
    float x[4], slope[4];
} corners[] = {
    {"hard_sigmoid/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4] alpha=0.25 beta=0.5", {-2, 2, 0, 1e30f}, {0, 0, 0.25f, 0}},
    {"hard_swish/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {-3, 3, 0, -1e30f}, {0, 1, 0.5f, 0}},
    {"leaky_relu/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4] alpha=0.25", {0, 1, -1, -1e30f}, {0.25f, 1, 0.25f, 0.25f}},
    {"elu/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4] alpha=2", {0, 1, 1e30f, -1e30f}, {2, 1, 1, 0}},
    {"abs/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {0, 1, -1, -1e30f}, {0, 1, -1, -1}},
    {"clip/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4] least=-1 most=2", {-1, 2, 0, 3}, {0, 0, 1, 0}},
    {"sigmoid/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {0, 1e30f, -1e30f, 2000}, {0.25f, 0, 0, 0}},
    {"softplus/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {0, 1e30f, -1e30f, 2000}, {0.5f, 1, 0, 1}},
    {"mish/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {0, 1e30f, -1e30f, 2000}, {0.6f, 1, 0, 1}},
    {"erf/backward src=fp32[1,4] diff_dst=fp32[1,4] diff_src=fp32[1,4]", {0, 1e30f, -1e30f, 20}, {1.12837917f, 0, 0, 0}},
};

TEST(at_corners) {
    static const float ones[4] = {1, 1, 1, 1};
    for (size_t c = 0; c < COUNT_OF(corners); c++) {
        bound b;
        bound_parse(&b, corners[c].text, 42);
        memcpy(bound_fp32(&b, QS_SRC), corners[c].x, sizeof corners[c].x);
        memcpy(bound_fp32(&b, QS_DIFF_DST), ones, sizeof ones);
        bound_run(&b);
        for (int i = 0; i < 4; i++)
            if (bound_fp32(&b, QS_DIFF_SRC)[i] != corners[c].slope[i])
                fail_msg("%s: at %g %.9g, expected %.9g", corners[c].text, (double)corners[c].x[i], (double)bound_fp32(&b, QS_DIFF_SRC)[i],
                         (double)corners[c].slope[i]);
        bound_release(&b);
    }
}

TEST(outside) {
    bound b;
    static const float x[3] = {-1, 0, NAN};
    bound_parse(&b, "log/forward src=fp32[1,3] dst=fp32[1,3]", 43);
    memcpy(bound_fp32(&b, QS_SRC), x, sizeof x);
    bound_run(&b);
    assert_true(isnan(bound_fp32(&b, QS_DST)[0]) && bound_fp32(&b, QS_DST)[1] == -INFINITY && isnan(bound_fp32(&b, QS_DST)[2]));
    bound_release(&b);
}

/* The gradient of an affine function needs no input: nothing is kept for it. */
TEST(affine_keeps_nothing) {
    assert_false(qs_op_saves(qs_op_of("affine"), 0));
    assert_true(qs_op_saves(qs_op_of("clip"), 0));
}

TEST(refusals) {
    expect_refused("clip/forward src=fp32[1,8] dst=fp32[1,8] least=1", "from 1 to 0: the least must be below the most");
    expect_refused("clip/forward src=fp32[1,8] dst=fp32[1,8]", "from 0 to 0");
    expect_refused("affine/forward src=fp32[1,8] dst=fp32[2,4]", "dst");
}

TEST_MAIN(cases, gradients, values, at_corners, outside, affine_keeps_nothing, refusals)
