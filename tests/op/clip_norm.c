// SPDX-License-Identifier: Apache-2.0
// labels: short
/* clip_norm: arithmetic in double, loss scale, what stays as it is. */
#include "kit/cases.h"

static const char with_flag[] = "clip_norm/forward src=fp32[20011] flag=fp32[1] clip_norm=2";
enum { COUNT = 20011 };

TEST(cases) {
    check_cases("clip_norm");
}

static double norm_of(int64_t count, const float *values) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* One rounding of the factor and one of the product; sums in double of 20011 terms err far below both. */
TEST(arithmetic_in_double) {
    for (int scale = 1; scale <= 24; scale += 23) {
        bound b, before;
        bound_parse(&b, with_flag, 161);
        bound_parse(&before, with_flag, 161);
        b.run.loss_scale = scale;
        const float *was = bound_fp32(&before, QS_SRC), *is = bound_fp32(&b, QS_SRC);
        const double norm = norm_of(COUNT, was) / scale;
        assert_true(norm > 2);
        bound_run(&b);
        for (int i = 0; i < COUNT; i++) {
            const double expected = (double)was[i] * 2 / norm;
            if (fabs((double)is[i] - expected) > 0x1p-22 * fabs(expected)) fail_msg("%d: %.9g, expected %.9g", i, (double)is[i], expected);
        }
        assert_true(fabs(norm_of(COUNT, is) / scale - 2) < 0x1p-22);
        bound_release(&b);
        bound_release(&before);
    }
}

/* Whether a run with this loss scale and flag, and this value at a place, leaves every element as it was. */
static bool stays(double loss_scale, float flag, int place, float value) {
    bound b, before;
    bound_parse(&b, with_flag, 162);
    bound_parse(&before, with_flag, 162);
    b.run.loss_scale = loss_scale;
    bound_fp32(&b, QS_FLAG)[0] = flag;
    bound_fp32(&b, QS_SRC)[place] = bound_fp32(&before, QS_SRC)[place] = value;
    bound_run(&b);
    const bool same = memcmp(bound_fp32(&b, QS_SRC), bound_fp32(&before, QS_SRC), COUNT * sizeof(float)) == 0;
    bound_release(&b);
    bound_release(&before);
    return same;
}

/* The norm of 20011 normal values is about 141: below the bound once a loss scale of 100 is divided out. */
TEST(what_stays_as_it_is) {
    assert_false(stays(1, 1, 7, 1));
    assert_true(stays(100, 1, 7, 1));
    assert_true(stays(1, 0, 7, 1));
    for (int place = 0; place < COUNT; place += COUNT - 1) {
        assert_true(stays(1, 1, place, NAN));
        assert_true(stays(1, 1, place, INFINITY));
        assert_false(stays(1, 1, place, 3e38f)); /* its square is no fp32 number */
    }
}

/* Norms a thousandth below and above the bound of 2. */
TEST(bound_is_sharp) {
    bound b;
    bound_parse(&b, with_flag, 162);
    bound_fp32(&b, QS_SRC)[7] = 1;
    const double norm = norm_of(COUNT, bound_fp32(&b, QS_SRC));
    assert_true(stays(norm / 1.998, 1, 7, 1));
    assert_false(stays(norm / 2.002, 1, 7, 1));
    bound_release(&b);
}

TEST(loss_scale_divides_out) {
    bound plain, scaled;
    bound_parse(&plain, with_flag, 163);
    bound_parse(&scaled, with_flag, 163);
    for (int i = 0; i < COUNT; i++)
        bound_fp32(&scaled, QS_SRC)[i] *= 1024;
    scaled.run.loss_scale = 1024;
    bound_run(&plain);
    bound_run(&scaled);
    for (int i = 0; i < COUNT; i++)
        assert_true(bound_fp32(&scaled, QS_SRC)[i] == 1024 * bound_fp32(&plain, QS_SRC)[i]);
    bound_release(&plain);
    bound_release(&scaled);
}

TEST(refused) {
    expect_refused("clip_norm/forward src=bf16[77] clip_norm=1", "gradients are fp32");
    expect_refused("clip_norm/forward src=fp32[7,11] clip_norm=1", "src");
    expect_refused("clip_norm/forward src=fp32[77] clip_norm=-1", "-1");
}

/* 4 bytes of every element read, 4 written, and the flag. */
TEST(bytes_are_moved) {
    qs_case one;
    assert_ok(qs_case_parse(with_flag, &one));
    assert_true(qs_case_bytes(&one) == 8 * COUNT + 4);
}

TEST_MAIN(cases, arithmetic_in_double, what_stays_as_it_is, bound_is_sharp, loss_scale_divides_out, refused, bytes_are_moved)
