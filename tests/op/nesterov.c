// SPDX-License-Identifier: Apache-2.0
// labels: short
/* nesterov: the update bit for bit, known values, what looking ahead amounts to, loss scale, skipped steps. */
#include "optimizer_support.h"

TEST(cases) {
    check_cases("nesterov");
}

static const char with_flag[] =
    "nesterov/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] momentum=0.9 weight_decay=0.0005";

/* The file's order of operations, each rounded to fp32 (volatile: nothing is contracted or kept wider). */
static void update(float g, float *w, float *v, double scale, float rate) {
    volatile float t = g * (float)(1 / scale), decay = 0.0005f * *w;
    t = t + decay;
    volatile float moved = 0.9f * *v;
    moved = moved + t;
    volatile float ahead = 0.9f * moved;
    ahead = t + ahead;
    volatile float step = rate * ahead;
    *v = moved;
    *w = *w - step;
}

TEST(bit_for_bit) {
    bound b;
    bound_parse(&b, with_flag, 191);
    float w[77], v[77];
    memcpy(w, bound_fp32(&b, QS_WEIGHTS), sizeof w);
    memcpy(v, bound_fp32(&b, QS_MOMENTUM), sizeof v);
    b.run.loss_scale = 3;
    for (int i = 0; i < 77; i++)
        update(bound_fp32(&b, QS_SRC)[i], &w[i], &v[i], 3, (float)b.run.learning_rate);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_WEIGHTS), w, sizeof w);
    assert_memory_equal(bound_fp32(&b, QS_MOMENTUM), v, sizeof v);
    bound_release(&b);
}

TEST(loss_scale_divides_out) {
    check_loss_scale_divides_out(with_flag, 192);
}

TEST(flag_zero_skips) {
    check_flag_zero_skips(with_flag, 193);
}

/* The form that needs weights further on: y = x + m v moves ahead, the gradient is taken there (Nesterov 1983; Sutskever et al. 2013,
 * equations 3 and 4: v = m v - lr g(x + m v), x = x + v). With y as the weights at hand it is this update. On the loss a y²/2 both go on
 * for 20 steps in double and fp32; roundings of weights below 2 shrink with the steps: 20 of 2^-24, four an update. */
TEST(equals_looking_ahead) {
    const double rate = 0.1, momentum = 0.9, curvature = 0.7;
    double x = 1.5, v = 0;
    bound b;
    bound_parse(&b, "nesterov/forward src=fp32[1] weights=fp32[1] momentum=fp32[1] momentum=0.9", 194);
    float *weight = bound_fp32(&b, QS_WEIGHTS);
    *weight = 1.5f;
    bound_fp32(&b, QS_MOMENTUM)[0] = 0;
    b.run.learning_rate = rate;
    for (int n = 0; n < 20; n++) {
        bound_fp32(&b, QS_SRC)[0] = (float)curvature * *weight;
        bound_run(&b);
        v = momentum * v - rate * curvature * (x + momentum * v);
        x += v;
        assert_true(fabs((double)*weight - (x + momentum * v)) < 4 * 20 * 2 * 0x1p-24);
    }
    bound_release(&b);
}

/* Bytes moved in memory: as sgd. */
TEST(bytes_are_moved) {
    qs_case one;
    assert_ok(qs_case_parse(with_flag, &one));
    assert_true(qs_case_bytes(&one) == 20 * 77 + 4);
}

TEST_MAIN(cases, bit_for_bit, loss_scale_divides_out, flag_zero_skips, equals_looking_ahead, bytes_are_moved)
