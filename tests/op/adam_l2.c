// SPDX-License-Identifier: Apache-2.0
// labels: short
/* adam_l2: known values, agreement with adam where nothing decays, decay that passes through the moments, loss scale, skipped steps. */
#include "optimizer_support.h"

TEST(cases) {
    check_cases("adam_l2");
}

static const char with_flag[] = "adam_l2/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] flag=fp32[1] "
                                "beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01";

/* Without decay it is adam, to the bit. */
TEST(is_adam_without_decay) {
    bound mine, other;
    const char *settings =
        "forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] beta1=0.9 beta2=0.999 epsilon=1e-08";
    char text[256];
    snprintf(text, sizeof text, "adam_l2/%s", settings);
    bound_parse(&mine, text, 201);
    snprintf(text, sizeof text, "adam/%s", settings);
    bound_parse(&other, text, 201);
    for (int t = 0; t < 5; t++) {
        mine.run.updates = other.run.updates = t;
        bound_run(&mine);
        bound_run(&other);
        check_same_results(&mine, &other);
    }
    bound_release(&mine);
    bound_release(&other);
}

/* And with decay it is adam without one on the gradient of the loss with the penalty, which fp32 forms here in the kernel's order. */
TEST(decay_is_part_of_the_gradient) {
    bound mine, other;
    bound_parse(&mine, with_flag, 202);
    bound_parse(&other,
                "adam/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] flag=fp32[1] beta1=0.9 beta2=0.999 "
                "epsilon=1e-08",
                202);
    for (int t = 0; t < 5; t++) {
        for (int i = 0; i < 77; i++) {
            volatile float decay = 0.01f * bound_fp32(&mine, QS_WEIGHTS)[i];
            bound_fp32(&other, QS_SRC)[i] = bound_fp32(&mine, QS_SRC)[i] + decay;
        }
        mine.run.updates = other.run.updates = t;
        bound_run(&mine);
        bound_run(&other);
        check_same_results(&mine, &other);
    }
    bound_release(&mine);
    bound_release(&other);
}

/* The rule in double, from its equations: g = g + d w; m, v; w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps). Steps of weights
 * below 4 round them once, 2^-23; what precedes is at most 20 roundings of a step of at most 3 rates. */
TEST(known_values) {
    static const float gradient[4][3] = {{0.5f, -1, 0.001f}, {0.25f, 3, 0.002f}, {-1.5f, 0.125f, 0}, {0.75f, -0.5f, -0.004f}};
    double w[3] = {1, -2, 0.5}, m[3] = {0}, v[3] = {0};
    bound b;
    bound_parse(&b,
                "adam_l2/forward src=fp32[3] weights=fp32[3] momentum=fp32[3] second_moment=fp32[3] beta1=0.9 beta2=0.999 epsilon=1e-08 "
                "weight_decay=0.1",
                203);
    float *weights = bound_fp32(&b, QS_WEIGHTS);
    for (int i = 0; i < 3; i++) {
        bound_fp32(&b, QS_MOMENTUM)[i] = bound_fp32(&b, QS_SECOND_MOMENT)[i] = 0;
        weights[i] = (float)w[i];
    }
    b.run.learning_rate = 0.01;
    for (int t = 0; t < 4; t++) {
        memcpy(bound_fp32(&b, QS_SRC), gradient[t], sizeof gradient[t]);
        b.run.updates = t;
        bound_run(&b);
        for (int i = 0; i < 3; i++) {
            const double g = (double)gradient[t][i] + 0.1 * w[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= 0.01 * (m[i] / (1 - pow(0.9, t + 1))) / (sqrt(v[i] / (1 - pow(0.999, t + 1))) + 1e-8);
            assert_true(fabs((double)weights[i] - w[i]) < (t + 1) * (0x1p-23 + 0.01 * 3 * 20 * 0x1p-24));
        }
    }
    bound_release(&b);
}

TEST(loss_scale_divides_out) {
    check_loss_scale_divides_out(with_flag, 204);
}

TEST(flag_zero_skips) {
    check_flag_zero_skips(with_flag, 205);
}

TEST_MAIN(cases, is_adam_without_decay, decay_is_part_of_the_gradient, known_values, loss_scale_divides_out, flag_zero_skips)
