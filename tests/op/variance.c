// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The variance of the operators that round (docs/method.md eqs. (3.1) and (3.2)): the squared error of stochastic rounding, measured over
 * many draws. It is q² D / 6 where remainders are uniform; on real tensors it is the exact sum Σ q² f (1 - f), as the statistics operator
 * has it for what it measures, and q² D / 6 with the step of the largest element is a bound: far above it for floats, twice as much after
 * ReLU. */
#include "kit/cases.h"

enum { COUNT = 4096, ROWS = 16, DRAWS = 64, TEXT = 256 };
#define SHAPE "[16,16,4,4]"

static const char *const formats[] = {"int8:tensor", "int8:channel(out)", "bf16", "fp16", "e4m3fn", "e5m2"};
enum { FORMATS = COUNT_OF(formats) };

typedef struct rounding {
    qs_quantizer quantizer;
    bound op;
    double measured, exact, bound; /* Σ squared error, mean over draws; Σ q² f (1 - f); Σ q² / 6 with the step of the largest */
} rounding;

static double step_of(const rounding *one, int64_t i) {
    const int64_t rows = one->quantizer.granularity == QS_PER_CHANNEL ? ROWS : 1;
    return (double)((const float *)one->op.operands[3].data)[i / (COUNT / rows)];
}

static void rounding_open(rounding *one, const char *format, const float *values) {
    char quantizer[64], text[TEXT];
    snprintf(quantizer, sizeof quantizer, "%s:stochastic", format);
    assert_ok(qs_quantizer_find(quantizer, &one->quantizer));
    const bool integer = one->quantizer.format->kind == QS_KIND_INTEGER, channels = one->quantizer.granularity == QS_PER_CHANNEL;
    const int rows = channels ? ROWS : 1;
    if (integer)
        snprintf(text, sizeof text, "quantize/forward src=fp32" SHAPE "%s dst=%s" SHAPE " dst_step=fp32[%d] rounding=stochastic%s",
                 channels ? "" : " absmax=fp32[1]", one->quantizer.format->name, rows, channels ? " per_channel" : "");
    else
        snprintf(text, sizeof text, "cast/forward src=fp32" SHAPE " dst=%s" SHAPE " rounding=stochastic", one->quantizer.format->name);
    bound_parse(&one->op, text, 1);
    memcpy(bound_fp32(&one->op, QS_SRC), values, COUNT * sizeof *values);
    if (integer && !channels) *bound_fp32(&one->op, QS_ABSMAX) = qs_absmax_array(COUNT, values);
}

/* `error`: Σ of what each element's squared error varies by between draws; its mean over draws is as precise. */
static void sums_form(rounding *one, const float *values, double *error) {
    const qs_format *format = one->quantizer.format;
    const double absmax = (double)qs_absmax_array(COUNT, values), largest = ldexp(format->epsilon, qs_effective_exponent((float)absmax));
    *error = one->exact = one->bound = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        const double x = fabs((double)values[i]);
        const bool integer = format->kind == QS_KIND_INTEGER;
        const double q = integer ? step_of(one, i) : ldexp(format->epsilon, ilogb(fmax(x, format->min_normal)));
        const double f = x / q - floor(x / q), spread = f * (1 - f);
        one->exact += q * q * spread;
        one->bound += (integer ? q * q : largest * largest) / 6;
        /* Errors are (1-f) q with probability f and f q with 1 - f: Var of the square = q⁴ f (1-f) (1-2f)². */
        *error += q * q * q * q * spread * (1 - 2 * f) * (1 - 2 * f);
    }
    *error = sqrt(*error / DRAWS);
}

static void measure(rounding *one, const float *values) {
    one->measured = 0;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        one->op.run.step = draw;
        bound_run(&one->op);
        float *rounded = tensor_values(bound_tensor(&one->op, QS_DST));
        for (int64_t i = 0; i < COUNT; i++) {
            const double step = one->quantizer.format->kind == QS_KIND_INTEGER ? step_of(one, i) : 1;
            const double error = step * (double)rounded[i] - (double)values[i];
            one->measured += error * error / DRAWS;
        }
        free(rounded);
    }
}

/* Measured against exact: within 5 standard errors, and the 2^-16 by which probabilities of 16 bits are off. */
static rounding judge(const char *format, const float *values) {
    rounding one;
    double error;
    rounding_open(&one, format, values);
    measure(&one, values);
    sums_form(&one, values, &error);
    if (fabs(one.measured - one.exact) > 5 * error + 0x1p-15 * one.exact)
        fail_msg("%s: measured %.6g, exact %.6g (± %.2g)", format, one.measured, one.exact, error);
    bound_release(&one.op);
    return one;
}

/* Remainders uniform: f (1 - f) has mean 1/6 and deviation sqrt(1/180), so that the sum over D elements lies within 5 × 0.45 / sqrt(D) of
 * q² D / 6. Every value lies in [1, 2), where floats have one step; the first is the largest, so that a channel's step is the tensor's. */
TEST(uniform_remainders) {
    static float values[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        values[i] = 1 + qs_random_uniform(21, i);
    for (int r = 0; r < ROWS; r++)
        values[r * (COUNT / ROWS)] = 1.9999f;
    for (int f = 0; f < FORMATS; f++) {
        const rounding one = judge(formats[f], values);
        if (fabs(one.exact / one.bound - 1) > 5 * 0.45 / sqrt(COUNT)) fail_msg("%s: %.4f of q² D / 6", formats[f], one.exact / one.bound);
    }
}

static void normal_fill(float *values, bool relu) {
    for (uint64_t i = 0; i < COUNT; i++) {
        values[i] = qs_random_normal(22, i);
        if (relu && values[i] < 0) values[i] = 0;
    }
}

/* How much the bound overstates: int8's remainders of normal values are as good as uniform; a float's steps follow its elements: with the
 * largest between 2 and 4, E q_i² / q_max² = (0.0455 · 4 + 0.2718 · 1 + 0.2998 / 4 + 0.1855 / 16 + 0.0994 / 64 + ...) / 4 by the normal
 * distribution, 0.1355. After ReLU half of the elements are zeros. A tenth: 186 elements make up a third of that sum. */
TEST(real_tensors) {
    static float values[COUNT];
    for (int relu = 0; relu < 2; relu++) {
        normal_fill(values, relu);
        assert_int_equal(qs_effective_exponent(qs_absmax_array(COUNT, values)), 1); /* the largest is below 4 */
        for (int f = 0; f < FORMATS; f++) {
            const rounding one = judge(formats[f], values);
            const bool integer = one.quantizer.format->kind == QS_KIND_INTEGER;
            const double over = one.bound / one.exact, expected = (integer ? 1 : 1 / 0.1355) * (relu ? 2 : 1);
            if (fabs(over / expected - 1) > 0.1)
                fail_msg("%s: the bound is %.2f times the exact sum, not about %.1f", formats[f], over, expected);
        }
    }
}

/* What the statistics operator measures is this exact sum. */
TEST(statistics_agree) {
    static float values[COUNT];
    static double room[(sizeof(qs_statistics_head) + 2 * ROWS * sizeof(double)) / sizeof(double)];
    normal_fill(values, true);
    qs_statistics_measure(COUNT, ROWS, true, values, room);
    const qs_statistics_head *head = (const qs_statistics_head *)room;
    const double got[] = {head->variance_int8, head->variance_int8_channel, head->variance_bf16, head->variance_fp16};
    for (int f = 0; f < 4; f++) {
        const rounding one = judge(formats[f], values);
        assert_true(fabs(got[f] / one.exact - 1) < 1e-6); /* x/q once divided, once times an inverse */
    }
}

TEST_MAIN(uniform_remainders, real_tensors, statistics_agree)
