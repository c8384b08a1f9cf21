// SPDX-License-Identifier: Apache-2.0
// labels: short
/* adagrad: the update bit for bit, closed form over many steps, loss scale, skipped steps. */
#include "optimizer_support.h"

TEST(cases) {
    check_cases("adagrad");
}

static const char with_flag[] =
    "adagrad/forward src=fp32[77] weights=fp32[77] second_moment=fp32[77] flag=fp32[1] epsilon=1e-10 weight_decay=0.01";

/* The file's order of operations, each rounded to fp32 (volatile: nothing is contracted or kept wider). */
static void update(float g, float *w, float *h, double scale, float rate) {
    volatile float t = g * (float)(1 / scale), decay = 0.01f * *w;
    t = t + decay;
    volatile float square = t * t, sum = *h + square, root = sqrtf(sum);
    root = root + 1e-10f;
    volatile float step = t / root;
    step = rate * step;
    *h = sum;
    *w = *w - step;
}

TEST(bit_for_bit) {
    bound b;
    bound_parse(&b, with_flag, 195);
    float w[77], h[77];
    memcpy(w, bound_fp32(&b, QS_WEIGHTS), sizeof w);
    memcpy(h, bound_fp32(&b, QS_SECOND_MOMENT), sizeof h);
    b.run.loss_scale = 3;
    for (int i = 0; i < 77; i++)
        update(bound_fp32(&b, QS_SRC)[i], &w[i], &h[i], 3, (float)b.run.learning_rate);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_WEIGHTS), w, sizeof w);
    assert_memory_equal(bound_fp32(&b, QS_SECOND_MOMENT), h, sizeof h);
    bound_release(&b);
}

TEST(loss_scale_divides_out) {
    check_loss_scale_divides_out(with_flag, 196);
}

TEST(flag_zero_skips) {
    check_flag_zero_skips(with_flag, 197);
}

/* A constant gradient of any size: step n has the length rate / sqrt(n), as g / sqrt(n g²). The sum of squares is rounded in each step, so
 * its root is off by n 2^-25 of itself; then a root, a quotient, a product, and the weight, below 2^1. */
TEST(steps_shrink_with_the_root_of_their_number) {
    static const float gradients[] = {1e-3f, -0.3f, 70};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        bound b;
        bound_parse(&b, "adagrad/forward src=fp32[1] weights=fp32[1] second_moment=fp32[1] epsilon=1e-10", 198);
        b.run.learning_rate = 0.01;
        bound_fp32(&b, QS_SRC)[0] = gradients[i];
        bound_fp32(&b, QS_SECOND_MOMENT)[0] = bound_fp32(&b, QS_WEIGHTS)[0] = 0;
        double expected = 0;
        for (int n = 1; n <= 50; n++) {
            bound_run(&b);
            expected -= copysign(0.01, (double)gradients[i]) / sqrt(n);
            /* epsilon beside the least root, 1e-3: 1e-7 of a step */
            assert_true(fabs((double)bound_fp32(&b, QS_WEIGHTS)[0] - expected) < n * (0.01 * ((n / 2 + 4) * 0x1p-24 + 1e-7) + 0x1p-24));
        }
        bound_release(&b);
    }
}

/* Without any gradient nothing moves: 0 over epsilon. */
TEST(nothing_is_learnt_from_nothing) {
    bound b;
    bound_parse(&b, "adagrad/forward src=fp32[1] weights=fp32[1] second_moment=fp32[1] epsilon=1e-10", 199);
    bound_fp32(&b, QS_SRC)[0] = bound_fp32(&b, QS_SECOND_MOMENT)[0] = 0;
    bound_fp32(&b, QS_WEIGHTS)[0] = 3;
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_WEIGHTS)[0] == 3);
    bound_release(&b);
}

TEST_MAIN(cases, bit_for_bit, loss_scale_divides_out, flag_zero_skips, steps_shrink_with_the_root_of_their_number,
          nothing_is_learnt_from_nothing)
