// SPDX-License-Identifier: Apache-2.0
// labels: short
/* sgd: the update bit for bit, loss scale, skipped steps, closed form over many steps. */
#include "optimizer_support.h"

TEST(cases) {
    check_cases("sgd");
}

static const char with_flag[] = "sgd/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] momentum=0.9 weight_decay=0.0005";

/* The door's order of operations, each rounded to fp32 (volatile: nothing is contracted or kept wider). */
static void update(float g, float *w, float *v, double scale, float rate) {
    volatile float t = g * (float)(1 / scale), decay = 0.0005f * *w;
    t = t + decay;
    volatile float moved = 0.9f * *v;
    moved = moved + t;
    volatile float step = rate * moved;
    *v = moved;
    *w = *w - step;
}

TEST(bit_for_bit) {
    bound b;
    bound_parse(&b, with_flag, 171);
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
    check_loss_scale_divides_out(with_flag, 172);
}

TEST(flag_zero_skips) {
    check_flag_zero_skips(with_flag, 173);
}

/* A constant gradient g with momentum m: after n steps v = g (1 - m^n)/(1 - m). n rounded sums of numbers below 10: n ulps of 8. */
TEST(momentum_sums_up) {
    bound b;
    bound_parse(&b, "sgd/forward src=fp32[1] weights=fp32[1] momentum=fp32[1] momentum=0.9", 174);
    bound_fp32(&b, QS_SRC)[0] = 1;
    bound_fp32(&b, QS_MOMENTUM)[0] = 0;
    for (int n = 0; n < 50; n++)
        bound_run(&b);
    assert_true(fabs((double)bound_fp32(&b, QS_MOMENTUM)[0] - 10 * (1 - pow(0.9, 50))) < 50 * 0x1p-20);
    bound_release(&b);
}

/* Bytes moved in memory: 4 of the gradient, read; 8 of weights and of momentum, read and written. The flag is 4 more. */
TEST(bytes_are_moved) {
    qs_case one;
    assert_ok(qs_case_parse(with_flag, &one));
    assert_true(qs_case_bytes(&one) == 20 * 77 + 4);
}

TEST_MAIN(cases, bit_for_bit, loss_scale_divides_out, flag_zero_skips, momentum_sums_up, bytes_are_moved)
