// SPDX-License-Identifier: Apache-2.0
// labels: short
/* adam: the update bit for bit and against arithmetic in double, known values, what decay does, loss scale, skipped steps. */
#include "kit/kit.h"

#include <float.h>

#include "optimizer_support.h"

enum { COUNT = 77, STEPS = 50 };

static const char with_flag[] = "adam/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] flag=fp32[1] "
                                "beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01";

TEST(cases) {
    check_cases("adam");
}

static void states_clear(bound *b) {
    memset(bound_fp32(b, QS_MOMENTUM), 0, (size_t)bound_count(b, QS_SRC) * 4);
    memset(bound_fp32(b, QS_SECOND_MOMENT), 0, (size_t)bound_count(b, QS_SRC) * 4);
}

/* The door's order of operations, each rounded to fp32 (volatile: nothing is contracted or kept wider). */
static void update(float g, float *w, float *m, float *v, const qs_run *run) {
    const double t = (double)run->updates + 1;
    const float a = (float)(run->learning_rate / (1 - pow(0.9, t))), r = (float)(1 / sqrt(1 - pow(0.999, t)));
    const float k = (float)(run->learning_rate * 0.01);
    volatile float scaled = g * (float)(1 / run->loss_scale), kept = 0.9f * *m, added = (float)(1 - 0.9) * scaled;
    volatile float first = kept + added;
    kept = 0.999f * *v;
    added = (float)(1 - 0.999) * scaled;
    added = added * scaled;
    volatile float second = kept + added, root = sqrtf(second);
    root = root * r;
    root = root + 1e-8f;
    volatile float step = first / root, shrink = k * *w;
    step = a * step;
    step = step + shrink;
    *m = first;
    *v = second;
    *w = *w - step;
}

TEST(bit_for_bit) {
    bound b;
    bound_parse(&b, with_flag, 181);
    float w[COUNT], m[COUNT], v[COUNT];
    memcpy(w, bound_fp32(&b, QS_WEIGHTS), sizeof w);
    memcpy(m, bound_fp32(&b, QS_MOMENTUM), sizeof m);
    memcpy(v, bound_fp32(&b, QS_SECOND_MOMENT), sizeof v);
    b.run.loss_scale = 3;
    b.run.updates = 6;
    for (int i = 0; i < COUNT; i++)
        update(bound_fp32(&b, QS_SRC)[i], &w[i], &m[i], &v[i], &b.run);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_WEIGHTS), w, sizeof w);
    assert_memory_equal(bound_fp32(&b, QS_MOMENTUM), m, sizeof m);
    assert_memory_equal(bound_fp32(&b, QS_SECOND_MOMENT), v, sizeof v);
    bound_release(&b);
}

/* Algorithm 2 of Loshchilov and Hutter in double. */
static void exact_update(double g, double *w, double *m, double *v, int t) {
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.999 * *v + 0.001 * g * g;
    *w -= 0.01 * (*m / (1 - pow(0.9, t)) / (sqrt(*v / (1 - pow(0.999, t))) + 1e-8) + 0.01 * *w);
}

/* Gradients of size 0.5 to 1.5. Each step adds at most 5 roundings, of u = 2^-24, to m and 6 to v, those of their factors among them, and
 * shrinks those before: m is off by 50 u max|g|, v by 6 t u of itself. With max|g| / sqrt(v) <= 3 and 8 roundings behind, a step
 * m / sqrt(v) of at most 3 is off by 3 (50 + 3 t + 8) u, and weights, below 8, by four roundings of it besides. */
TEST(close_to_double) {
    const double u = 0x1p-24, bound_of_step = 0.01 * 3 * (50 + 3 * STEPS + 8) * u + 4 * 8 * u;
    double w[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
    bound b;
    bound_parse(&b, with_flag, 182);
    states_clear(&b);
    b.run.learning_rate = 0.01;
    float *weights = bound_fp32(&b, QS_WEIGHTS), *gradient = bound_fp32(&b, QS_SRC);
    for (int i = 0; i < COUNT; i++)
        w[i] = (double)weights[i];
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < COUNT; i++) {
            const float draw = 2 * qs_random_uniform(9, (uint64_t)(t * COUNT + i)) - 1;
            gradient[i] = draw < 0 ? draw - 0.5f : draw + 0.5f;
            exact_update((double)gradient[i], &w[i], &m[i], &v[i], t);
        }
        b.run.updates = t - 1;
        bound_run(&b);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabs((double)weights[i] - w[i]) <= t * bound_of_step);
    }
    bound_release(&b);
}

/* Weights after four steps at rate 0.01 with weight decay 0.1, by torch.optim.AdamW of PyTorch in double. Each step rounds weights below 2
 * once, by 2^-24 of it. */
TEST(known_values) {
    static const float gradient[4][3] = {{0.5f, -1, 0.001f}, {0.25f, 3, 0.002f}, {-1.5f, 0.125f, 0}, {0.75f, -0.5f, -0.004f}};
    static const double expected[4][3] = {{0.9890000002, -1.9880000001, 0.489500099999},
                                          {0.978689204047546, -1.99095389841077, 0.47935884067471},
                                          {0.981182749875571, -1.99303251684523, 0.471418654597557},
                                          {0.980310104221168, -1.99342429655828, 0.473041451128694}};
    bound b;
    bound_parse(&b,
                "adam/forward src=fp32[3] weights=fp32[3] momentum=fp32[3] second_moment=fp32[3] beta1=0.9 beta2=0.999 epsilon=1e-08 "
                "weight_decay=0.1",
                183);
    float *weights = bound_fp32(&b, QS_WEIGHTS);
    states_clear(&b);
    memcpy(weights, (const float[3]){1, -2, 0.5f}, 3 * sizeof *weights);
    b.run.learning_rate = 0.01;
    for (int t = 0; t < 4; t++) {
        memcpy(bound_fp32(&b, QS_SRC), gradient[t], sizeof gradient[t]);
        b.run.updates = t;
        bound_run(&b);
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)weights[i] - expected[t][i]) < 1e-6);
    }
    bound_release(&b);
}

/* The first step is the rate whatever the gradient's size, because the moments are corrected for their start at 0; of a gradient of 0 only
 * the decay is left, which never passes through the moments. */
TEST(first_step) {
    bound b;
    bound_parse(&b, with_flag, 184);
    float *weights = bound_fp32(&b, QS_WEIGHTS), *gradient = bound_fp32(&b, QS_SRC);
    states_clear(&b);
    for (int i = 0; i < COUNT; i++) {
        weights[i] = i % 2 == 0 ? 0 : 1;
        gradient[i] = i % 2 == 0 ? ldexpf(i % 4 == 0 ? 1 : -1, i / 4 - 10) : 0;
    }
    bound_run(&b);
    for (int i = 0; i < COUNT; i++) {
        const double expected = i % 2 == 1 ? 1 - 0.1 * 0.01 : i % 4 == 0 ? -0.1 : 0.1;
        /* ten roundings; epsilon beside the least gradient, 2^-10 */
        assert_true(fabs((double)weights[i] - expected) < 0.1 * (10 * 0x1p-24 + 1e-8 * 0x1p10) + 0x1p-24);
    }
    bound_release(&b);
}

TEST(loss_scale_divides_out) {
    check_loss_scale_divides_out(with_flag, 185);
}

TEST(flag_zero_skips) {
    check_flag_zero_skips(with_flag, 186);
}

/* Without gradients moments go to 0 and never stay subnormal; weights stay finite. A run of 10^18 steps takes no longer than one. */
TEST(moments_vanish) {
    bound b;
    bound_parse(&b, with_flag, 187);
    float *first = bound_fp32(&b, QS_MOMENTUM), *second = bound_fp32(&b, QS_SECOND_MOMENT);
    memset(bound_fp32(&b, QS_SRC), 0, COUNT * 4);
    for (int i = 0; i < COUNT; i++) {
        first[i] = i % 2 == 0 ? FLT_MIN * 1.1f : -FLT_MIN * 1.1f;
        second[i] = FLT_MIN;
    }
    b.run.updates = INT64_C(1000000000000000000);
    bound_run(&b);
    for (int i = 0; i < COUNT; i++)
        assert_true(first[i] == 0 && second[i] == 0 && isfinite(bound_fp32(&b, QS_WEIGHTS)[i]));
    bound_release(&b);
}

/* Bytes moved in memory: 4 of the gradient, read; 8 of weights and of each moment, read and written. The flag is 4 more. */
TEST(bytes_are_moved) {
    qs_case one;
    assert_ok(qs_case_parse(with_flag, &one));
    assert_true(qs_case_bytes(&one) == 28 * COUNT + 4);
}

TEST(settings_tell_cases_apart) {
    const qs_op *op = qs_op_of("adam");
    const double standard[QS_MOST_SETTINGS] = {0.9, 0.999, 1e-8, 0.01};
    const qs_attributes attributes = qs_op_attributes(op, standard);
    const qs_case one = qs_case_make("adam", "forward", &attributes);
    const int settings = qs_op_settings(op);
    assert_int_equal(settings, 4);
    assert_int_equal(qs_op_setting(op, "momentum"), -1);
    for (int i = 0; i < settings; i++) {
        double other[QS_MOST_SETTINGS];
        memcpy(other, standard, sizeof other);
        other[i] /= 2;
        const qs_attributes changed = qs_op_attributes(op, other);
        const qs_case another = qs_case_make("adam", "forward", &changed);
        assert_true(op->setting[i].standard == standard[i] && qs_op_setting(op, op->setting[i].name) == i);
        assert_true(!qs_case_equal(&one, &another) && qs_case_hash(&one) != qs_case_hash(&another));
    }
}

TEST_MAIN(cases, bit_for_bit, close_to_double, known_values, first_step, loss_scale_divides_out, flag_zero_skips, moments_vanish,
          bytes_are_moved, settings_tell_cases_apart)
