// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The functions of one number of the device cpu far from the middle, at every ceiling: within a few roundings of what they are, not of the
 * largest value. The reference says what they are; what a rounding of the exponent's argument does to an exponential grows with it. */
#include "device_support.h"

typedef struct curve {
    const char *forward, *backward;
    double roundings;             /* of a value, beside those of the exponent */
    double (*exponent)(double x); /* the largest argument of an exponential, times the roundings it went through */
} curve;

static double half_square(double x) {
    return x * x;
}

static double linear(double x) {
    return fabs(x);
}

static double cubic(double x) {
    return 4 * fabs(1.6 * x + 0.0714 * x * x * x);
}

static double none(double x) {
    (void)x;
    return 0;
}

static double twice(double x) {
    return 2 * fabs(x);
}

/* Of powers up to the third. */
static double logarithms(double x) {
    return 3 * 4 * fabs(log(fabs(x)));
}

#define SHAPE "fp32[1,40013]"
#define CURVE(name, with) \
    name "/forward src=" SHAPE " dst=" SHAPE with, name "/backward src=" SHAPE " diff_dst=" SHAPE " diff_src=" SHAPE with
enum { VALUES = 40013 };
static const curve curves[] = {{CURVE("gelu", ""), 20, half_square},
                               {CURVE("gelu", " approximate=1"), 20, cubic},
                               {CURVE("silu", ""), 16, linear},
                               {CURVE("tanh", ""), 16, linear},
                               {CURVE("sigmoid", ""), 16, linear},
                               {CURVE("hard_sigmoid", " alpha=0.125 beta=0.5"), 2, none},
                               {CURVE("hard_swish", ""), 8, none},
                               {CURVE("leaky_relu", " alpha=0.01"), 2, none},
                               {CURVE("elu", " alpha=0.7"), 16, linear},
                               {CURVE("celu", " alpha=0.7"), 16, twice},
                               {CURVE("selu", " alpha=1.6732632423543772 gamma=1.0507009873554805"), 16, linear},
                               {CURVE("softplus", ""), 16, linear},
                               {CURVE("softsign", ""), 6, none},
                               {CURVE("mish", ""), 20, linear},
                               {CURVE("exp", ""), 4, linear},
                               {CURVE("log", ""), 4, none},
                               {CURVE("sqrt", ""), 2, none},
                               {CURVE("abs", ""), 0, none},
                               {CURVE("erf", ""), 8, half_square},
                               {CURVE("reciprocal", ""), 4, none},
                               {CURVE("power", " exponent=3"), 4, none},
                               {CURVE("power", " exponent=-2"), 8, logarithms},
                               {CURVE("power", " exponent=1.5"), 8, logarithms},
                               {CURVE("clip", " least=-0.25 most=2"), 0, none}};

/* Powers of two and what is between them, 2^-30 to 2^6, and both signs; at the end what is beyond all tails. */
static void fill(float *x) {
    for (int i = 0; i < VALUES; i++)
        x[i] = (i % 2 ? -1.0f : 1.0f) * exp2f(-30 + 36 * (float)(i / 2) / (VALUES / 2));
    x[VALUES - 1] = 1e30f;
    x[VALUES - 2] = -1e30f;
}

/* Largest error in units of 2^-24 of the value: of a derivative, whose terms cancel where it is 0, of 1 at least up to there. Values below
 * the smallest normal number may be 0, those beyond the largest infinite. */
static void check_curve(qs_device *device, const curve *one, bool backward) {
    bound got, expected;
    bound_kernel kernel;
    bound_parse(&got, backward ? one->backward : one->forward, 3);
    bound_parse(&expected, backward ? one->backward : one->forward, 3);
    fill(bound_fp32(&got, QS_SRC));
    for (int i = 0; backward && i < VALUES; i++)
        bound_fp32(&got, QS_DIFF_DST)[i] = 1;
    bound_share(&expected, &got);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    const qs_role result = backward ? QS_DIFF_SRC : QS_DST;
    const float *x = bound_fp32(&got, QS_SRC), *y = bound_fp32(&got, result), *right = bound_fp32(&expected, result);
    for (int i = 0; i < VALUES; i++) {
        const double size = backward && fabsf(x[i]) < 4 ? fmax(0.125, fabs((double)right[i])) : fabs((double)right[i]);
        if (isnan(right[i]) && isnan(y[i])) continue; /* a logarithm of what is negative */
        if (isinf(right[i]) && y[i] == right[i]) continue;
        const double allowed = (one->roundings + one->exponent((double)x[i])) * 0x1p-24 * size + 0x1p-118;
        if (fabs((double)y[i] - (double)right[i]) <= allowed) continue;
        fail_msg("%s: at %.9g %.9g, expected %.9g (allowed %.3g)", backward ? one->backward : one->forward, (double)x[i], (double)y[i],
                 (double)right[i], allowed);
    }
    kernel_release(&kernel);
    bound_release(&got);
    bound_release(&expected);
}

TEST(far_and_near) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t c = 0; c < COUNT_OF(curves); c++) {
        check_curve(device, &curves[c], false);
        check_curve(device, &curves[c], true);
    }
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(far_and_near)};
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}
