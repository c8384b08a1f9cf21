// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Proposition 1 (qsync.md §3) on operators: with stochastic rounding of every operand, the expectation of int8 outputs and of weight
 * gradients is the fp32 value. The mean over many draws must lie within standard errors formed from the exact rounding variances; rounding
 * to nearest, which is biased, must be caught by the very same bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

enum { TRIALS = 400 };

/* The draws are independent, so each output's mean has the standard error sqrt(variance / TRIALS); over a few thousand outputs the largest
 * deviation stays below 6 of them but for a chance of 2e-9 each. 16-bit draws and fp32 scaling add a bias of at most 2^-16 of a step per
 * operand: `floor` of them. */
static double largest_deviation(int64_t count, const double *sum, const float *expected, const double *variance, const double *floor_of) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double distance = fabs(sum[i] / TRIALS - (double)expected[i]) - floor_of[i];
        double error = sqrt(variance[i] / TRIALS);
        if (distance > largest * error) largest = distance / error;
    }
    return largest;
}

/* Quantizes `real` into an int8 operand of a GEMM and writes its step(s). */
static void quantize_into(qs_tensor *codes, float *steps, bool per_channel, const qs_tensor *real, qs_rounding rounding, uint64_t step,
                          uint64_t stream) {
    qs_attributes with = {.rounding = rounding, .per_channel = per_channel, .batched = !per_channel};
    qs_case one = qs_case_make("quantize", "forward", &with), scan = qs_case_make("absmax", "forward", &with);
    qs_shape scales = qs_shape_of(1, per_channel ? real->shape.dim[0] : 1);
    float absmax[64];
    assert_true(scales.dim[0] <= 64);
    const qs_format *fp32 = qs_format_of("fp32");
    scan.attributes.batched = false;
    qs_case_bind(&scan, QS_SRC, real->shape, fp32);
    qs_case_bind(&scan, QS_ABSMAX, scales, fp32);
    qs_case_bind(&one, QS_SRC, real->shape, fp32);
    qs_case_bind(&one, QS_ABSMAX, scales, fp32);
    qs_case_bind(&one, QS_DST, real->shape, codes->format);
    qs_case_bind(&one, QS_DST_STEP, scales, fp32);
    assert_ok(qs_case_check(&scan));
    assert_ok(qs_case_check(&one));
    qs_run run = usual_run(real->shape.dim[0]);
    run.step = step;
    run.stream = stream;
    qs_tensor maxima = {scales, fp32, absmax}, step_tensor = {scales, fp32, steps};
    assert_ok(qs_case_reference(&scan, (qs_tensor[]){*real, maxima}, &run));
    assert_ok(qs_case_reference(&one, (qs_tensor[]){*real, maxima, *codes, step_tensor}, &run));
}

/* q² f(1 - f) of each element, q the step of its row. */
static float *rounding_variances(const qs_tensor *real, const float *steps, int64_t rows) {
    int64_t count = qs_shape_count(&real->shape);
    float *out = malloc((size_t)count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++) {
        double q = (double)steps[i / (count / rows)], f = fabs((double)((float *)real->data)[i]) / q;
        f -= floor(f);
        out[i] = (float)(q * q * f * (1 - f));
    }
    return out;
}

/* A fp32 forward pass on given operands, without bias. */
static void forward_into(const bound *like, const float *x, const float *w, double *sum, double weight) {
    bound b = *like;
    float *src = bound_fp32(&b, QS_SRC), *weights = bound_fp32(&b, QS_WEIGHTS);
    memcpy(src, x, (size_t)bound_count(&b, QS_SRC) * sizeof *x);
    memcpy(weights, w, (size_t)bound_count(&b, QS_WEIGHTS) * sizeof *w);
    bound_run(&b);
    for (int64_t i = 0; i < bound_count(&b, QS_DST); i++)
        sum[i] += weight * (double)bound_fp32(&b, QS_DST)[i];
}

/* Var[Σ x w] = Σ (x² Var w + w² Var x + Var x Var w), formed by forward passes over squares and variances. */
static void output_variances(const bound *like, const float *x, const float *w, const float *var_x, const float *var_w, double *variance) {
    bound b = *like;
    int64_t n = bound_count(&b, QS_SRC), m = bound_count(&b, QS_WEIGHTS);
    float *x2 = malloc((size_t)n * sizeof *x2), *w2 = malloc((size_t)m * sizeof *w2);
    assert_true(x2 && w2);
    for (int64_t i = 0; i < n; i++)
        x2[i] = x[i] * x[i];
    for (int64_t i = 0; i < m; i++)
        w2[i] = w[i] * w[i];
    forward_into(like, x2, var_w, variance, 1);
    forward_into(like, var_x, w2, variance, 1);
    forward_into(like, var_x, var_w, variance, 1);
    free(x2), free(w2);
}

static void absolute(int64_t count, const float *from, float *to, float scale) {
    for (int64_t i = 0; i < count; i++)
        to[i] = fabsf(from[i]) * scale;
}

/* Largest deviation, in standard errors, of the mean int8 output of a layer from its fp32 output. */
static double forward_deviation(const char *real_text, const char *integer_text, qs_rounding rounding) {
    bound real, integer, scratch;
    bound_parse(&real, real_text, 181);
    bound_parse(&scratch, real_text, 181);
    bound_parse(&integer, integer_text, 181);
    bound_run(&real);
    int64_t count = bound_count(&real, QS_DST), n = bound_count(&real, QS_SRC), m = bound_count(&real, QS_WEIGHTS);
    double *sum = calloc((size_t)count, sizeof *sum), *variance = calloc((size_t)count, sizeof *sum), *bias = calloc((size_t)count, 8);
    assert_true(sum && variance && bias);
    const qs_tensor *x = bound_tensor(&real, QS_SRC), *w = bound_tensor(&real, QS_WEIGHTS);
    float *src_step = bound_fp32(&integer, QS_SRC_STEP), *weights_step = bound_fp32(&integer, QS_WEIGHTS_STEP);
    int64_t rows = bound_count(&integer, QS_WEIGHTS_STEP);
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        quantize_into(bound_tensor(&integer, QS_SRC), src_step, false, x, rounding, trial, 1);
        quantize_into(bound_tensor(&integer, QS_WEIGHTS), weights_step, rows > 1, w, rounding, trial, 2);
        bound_run(&integer);
        for (int64_t i = 0; i < count; i++)
            sum[i] += (double)bound_fp32(&integer, QS_DST)[i];
    }
    float *var_x = rounding_variances(x, src_step, 1), *var_w = rounding_variances(w, weights_step, rows);
    output_variances(&scratch, x->data, w->data, var_x, var_w, variance);
    float largest_step = 0;
    for (int64_t i = 0; i < rows; i++)
        largest_step = fmaxf(largest_step, weights_step[i]);
    for (int64_t i = 0; i < n; i++)
        var_x[i] = src_step[0] * 0x1p-16f;
    for (int64_t i = 0; i < m; i++)
        var_w[i] = largest_step * 0x1p-16f;
    float *abs_x = malloc((size_t)n * sizeof *abs_x), *abs_w = malloc((size_t)m * sizeof *abs_w);
    assert_true(abs_x && abs_w);
    absolute(n, x->data, abs_x, 1);
    absolute(m, w->data, abs_w, 1);
    forward_into(&scratch, var_x, abs_w, bias, 1);
    forward_into(&scratch, abs_x, var_w, bias, 1);
    double deviation = largest_deviation(count, sum, bound_fp32(&real, QS_DST), variance, bias);
    free(abs_x), free(abs_w), free(var_x), free(var_w), free(sum), free(variance), free(bias);
    bound_release(&real);
    bound_release(&integer);
    bound_release(&scratch);
    return deviation;
}

#define CONV(F, STEPS) "conv2d/forward src=" F "[2,8,6,6] " STEPS " dst=fp32[2,12,6,6] kernel=3x3 padding=1x1"
#define LINEAR(F, STEPS) "linear/forward src=" F "[16,48] " STEPS " dst=fp32[16,20]"
static const char conv_real[] = CONV("fp32", "weights=fp32[12,8,3,3]");
static const char conv_tensor[] = CONV("int8", "src_step=fp32[1] weights=int8[12,8,3,3] weights_step=fp32[1]");
static const char conv_channel[] = CONV("int8", "src_step=fp32[1] weights=int8[12,8,3,3] weights_step=fp32[12]");
static const char linear_real[] = LINEAR("fp32", "weights=fp32[20,48]");
static const char linear_channel[] = LINEAR("int8", "src_step=fp32[1] weights=int8[20,48] weights_step=fp32[20]");

static void expect_unbiased(const char *real, const char *integer) {
    double stochastic = forward_deviation(real, integer, QS_STOCHASTIC), nearest = forward_deviation(real, integer, QS_NEAREST_EVEN);
    if (stochastic > 6) fail_msg("%s: the mean lies %.1f standard errors off", integer, stochastic);
    if (nearest < 12) fail_msg("%s: rounding to nearest shows only %.1f standard errors: the test cannot see a bias", integer, nearest);
}

static void outputs(void **state) {
    (void)state;
    expect_unbiased(conv_real, conv_tensor);
    expect_unbiased(conv_real, conv_channel);
    expect_unbiased(linear_real, linear_channel);
}

/* Weight gradient of the recipe int8/bf16: the saved input is int8 (dequantized), the output gradient bf16, both stochastic. */
static double gradient_deviation(qs_rounding rounding) {
    bound real, noisy, to_bf16;
    const char shape[] = "linear/weight_gradient src=fp32[16,48] diff_dst=fp32[16,20] diff_weights=fp32[20,48]";
    bound_parse(&real, shape, 182);
    bound_parse(&noisy, "linear/weight_gradient src=fp32[16,48] diff_dst=bf16[16,20] diff_weights=fp32[20,48]", 182);
    bound_parse(&to_bf16,
                rounding == QS_STOCHASTIC ? "cast/forward src=fp32[16,20] dst=bf16[16,20] rounding=stochastic batched"
                                          : "cast/forward src=fp32[16,20] dst=bf16[16,20]",
                182);
    memcpy(bound_fp32(&to_bf16, QS_SRC), bound_fp32(&real, QS_DIFF_DST), 16 * 20 * sizeof(float));
    bound_run(&real);
    const float *x = bound_fp32(&real, QS_SRC), *g = bound_fp32(&real, QS_DIFF_DST);
    static int8_t codes[16 * 48];
    static double sum[20 * 48], variance[20 * 48], bias[20 * 48];
    memset(sum, 0, sizeof sum);
    float step;
    qs_tensor code_tensor = {qs_shape_of(2, 16, 48), qs_format_of("int8"), codes};
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        quantize_into(&code_tensor, &step, false, bound_tensor(&real, QS_SRC), rounding, trial, 1);
        qs_dequantize_array(step, 16 * 48, codes, bound_fp32(&noisy, QS_SRC));
        to_bf16.run.step = trial;
        bound_run(&to_bf16);
        memcpy(bound_tensor(&noisy, QS_DIFF_DST)->data, bound_tensor(&to_bf16, QS_DST)->data, 16 * 20 * 2);
        bound_run(&noisy);
        for (int i = 0; i < 20 * 48; i++)
            sum[i] += (double)bound_fp32(&noisy, QS_DIFF_WEIGHTS)[i];
    }
    for (int o = 0; o < 20; o++) {
        for (int i = 0; i < 48; i++) {
            double *v = &variance[o * 48 + i];
            *v = bias[o * 48 + i] = 0;
            for (int n = 0; n < 16; n++) {
                double xn = (double)x[n * 48 + i], gn = (double)g[n * 20 + o];
                double var_x = qs_stochastic_variance_array(code_tensor.format, step, 1, &x[n * 48 + i]);
                double var_g = qs_stochastic_variance_array(qs_format_of("bf16"), 0, 1, &g[n * 20 + o]);
                *v += xn * xn * var_g + gn * gn * var_x + var_x * var_g;
                bias[o * 48 + i] += 0x1p-16 * ((double)step * fabs(gn) + 0x1p-7 * fabs(gn) * fabs(xn));
            }
        }
    }
    double deviation = largest_deviation(20 * 48, sum, bound_fp32(&real, QS_DIFF_WEIGHTS), variance, bias);
    bound_release(&real);
    bound_release(&noisy);
    bound_release(&to_bf16);
    return deviation;
}

static void weight_gradients(void **state) {
    (void)state;
    double stochastic = gradient_deviation(QS_STOCHASTIC), nearest = gradient_deviation(QS_NEAREST_EVEN);
    if (stochastic > 6) fail_msg("the mean lies %.1f standard errors off", stochastic);
    if (nearest < 12) fail_msg("rounding to nearest shows only %.1f standard errors: the test cannot see a bias", nearest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs), cmocka_unit_test(weight_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
