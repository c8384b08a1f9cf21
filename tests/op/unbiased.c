// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Unbiasedness (docs/method.md §3.5) of operators: with stochastic rounding of every operand, the expectation of an output, of an input
 * gradient and of a weight gradient is the fp32 one, for every adjustable operator and format. The mean over many draws must lie within
 * standard errors formed from the exact rounding variances, element by element and in the mean square, whose value also says that the
 * product's variance is E[Y]² Var[X] + E[X]² Var[Y] + Var[X] Var[Y]. Rounding to nearest, which is biased, must be caught by the very same
 * bounds. */
#include "kit/cases.h"

enum { TRIALS = 200, MOST_ROWS = 64, TEXT = 256 };

typedef struct layer {
    const char *op, *src, *weights, *dst, *with;
} layer;
static const layer layers[] = {
    {"linear", "[16,24]", "[20,24]", "[16,20]", ""},
    {"conv2d", "[2,6,5,5]", "[8,6,3,3]", "[2,8,5,5]", " kernel=3x3 padding=1x1"},
    {"conv2d", "[2,6,7,7]", "[8,6,3,3]", "[2,8,4,4]", " kernel=3x3 stride=2x2 padding=1x1"},
    {"conv2d", "[2,8,5,5]", "[12,4,3,3]", "[2,12,5,5]", " kernel=3x3 padding=1x1 groups=2"},
    {"conv2d", "[2,16,6,6]", "[16,1,3,3]", "[2,16,6,6]", " kernel=3x3 padding=1x1 groups=16"},
};

/* Every pass is linear in each of two operands. */
typedef struct bilinear {
    const char *pass;
    qs_role role[2], out;
} bilinear;
static const bilinear forward = {"forward", {QS_SRC, QS_WEIGHTS}, QS_DST};
static const bilinear input_gradient = {"input_gradient", {QS_WEIGHTS, QS_DIFF_DST}, QS_DIFF_SRC};
static const bilinear weight_gradient = {"weight_gradient", {QS_SRC, QS_DIFF_DST}, QS_DIFF_WEIGHTS};

static const char *shape_of(const layer *one, qs_role role) {
    if (role == QS_SRC || role == QS_DIFF_SRC) return one->src;
    return role == QS_WEIGHTS || role == QS_DIFF_WEIGHTS ? one->weights : one->dst;
}

static void pass_text(char *text, const layer *one, const bilinear *pass) {
    const qs_role a = pass->role[0], b = pass->role[1];
    snprintf(text, TEXT, "%s/%s %s=fp32%s %s=fp32%s %s=fp32%s%s", one->op, pass->pass, qs_role_name(a), shape_of(one, a), qs_role_name(b),
             shape_of(one, b), qs_role_name(pass->out), shape_of(one, pass->out), one->with);
}

/* ---- One operand ---- */

typedef struct noisy {
    qs_quantizer quantizer;
    int64_t count, rows, columns; /* rows > 1: a step for each; columns > 1: a step for each, or a shift group */
    bound op;                     /* quantize or cast, whose run draws */
    const float *real;
    float *values, *variance, *unit; /* what a draw gives; q² f (1 - f) and q of each element */
} noisy;

static void maxima_find(noisy *one) {
    float *absmax = bound_fp32(&one->op, QS_ABSMAX);
    if (one->columns > 1) {
        memset(absmax, 0, (size_t)one->columns * sizeof *absmax);
        for (int64_t i = 0; i < one->count; i++)
            absmax[i % one->columns] = fmaxf(absmax[i % one->columns], fabsf(one->real[i]));
        return;
    }
    *absmax = qs_absmax_array(one->count, one->real);
}

/* Activations in shift groups of channels, weights with a step per input channel: both along the fast axis. */
static void columns_text(char *text, const noisy *one, bool weights, const char *shape) {
    const char *rounding = qs_rounding_name(one->quantizer.rounding), *format = one->quantizer.format->name;
    const int columns = (int)one->columns;
    if (weights)
        snprintf(text, TEXT, "quantize/forward src=fp32%s absmax=fp32[%d] dst=%s%s dst_step=fp32[%d] axis=1 rounding=%s per_channel", shape,
                 columns, format, shape, columns, rounding);
    else
        snprintf(text, TEXT,
                 "quantize/forward src=fp32%s absmax=fp32[%d] dst=%s%s dst_step=fp32[1] dst_group=int8[%d] axis=1 shifts=%d rounding=%s "
                 "per_channel",
                 shape, columns, format, shape, columns, one->quantizer.shift_groups, rounding);
}

static void noisy_open(noisy *one, const char *quantizer, bool weights, const char *shape, const float *real, uint64_t stream) {
    char text[TEXT];
    assert_ok(qs_quantizer_find(quantizer, &one->quantizer));
    const bool integer = one->quantizer.format->kind == QS_KIND_INTEGER;
    const bool channels = weights && one->quantizer.granularity == QS_PER_CHANNEL;
    const char *rounding = qs_rounding_name(one->quantizer.rounding), *more = channels ? " per_channel" : "";
    one->rows = channels ? strtol(shape + 1, NULL, 10) : 1;
    one->columns = one->quantizer.granularity == QS_SHIFT_GROUPS ? strtol(strchr(shape, ',') + 1, NULL, 10) : 1;
    if (one->columns > 1)
        columns_text(text, one, weights, shape);
    else if (integer)
        snprintf(text, sizeof text, "quantize/forward src=fp32%s%s dst=%s%s dst_step=fp32[%d] rounding=%s%s", shape,
                 channels ? "" : " absmax=fp32[1]", one->quantizer.format->name, shape, (int)one->rows, rounding, more);
    else
        snprintf(text, sizeof text, "cast/forward src=fp32%s dst=%s%s rounding=%s", shape, one->quantizer.format->name, shape, rounding);
    bound_parse(&one->op, text, 1);
    one->op.run.stream = stream;
    one->count = bound_count(&one->op, QS_SRC);
    one->real = real;
    memcpy(bound_fp32(&one->op, QS_SRC), real, (size_t)one->count * sizeof *real);
    if (integer && !channels) maxima_find(one);
    one->values = malloc((size_t)one->count * 3 * sizeof *one->values);
    assert_non_null(one->values);
    one->variance = one->values + one->count;
    one->unit = one->variance + one->count;
}

static float row_step(const noisy *one, int64_t i) {
    const bound *op = &one->op;
    const float *steps = op->operands[qs_case_position(&op->one, QS_DST_STEP)].data;
    const int8_t *group = op->operands[qs_case_position(&op->one, QS_DST_GROUP)].data;
    if (one->columns == 1) return steps[i / (one->count / one->rows)];
    return group ? ldexpf(steps[0], -group[i % one->columns]) : steps[i % one->columns];
}

static void noisy_draw(noisy *one, uint64_t trial) {
    one->op.run.step = trial;
    bound_run(&one->op);
    float *values = tensor_values(bound_tensor(&one->op, QS_DST));
    for (int64_t i = 0; i < one->count; i++)
        one->values[i] = one->quantizer.format->kind == QS_KIND_INTEGER ? values[i] * row_step(one, i) : values[i];
    free(values);
}

/* After a draw, which sets the steps. */
static void noisy_describe(noisy *one) {
    const qs_format *format = one->quantizer.format;
    const bool integer = format->kind == QS_KIND_INTEGER;
    for (int64_t i = 0; i < one->count; i++) {
        const double x = fabs((double)one->real[i]);
        const double q = integer ? (double)row_step(one, i) : ldexp(format->epsilon, ilogb(fmax(x, format->min_normal)));
        const double f = x / q - floor(x / q);
        one->unit[i] = (float)q;
        one->variance[i] = (float)(q * q * f * (1 - f));
    }
}

static void noisy_close(noisy *one) {
    bound_release(&one->op);
    free(one->values);
}

/* ---- A pass ---- */

typedef struct verdict {
    double largest, mean_square; /* of the deviations, in standard errors */
} verdict;

/* sum += weight × the pass over a and b. */
static void pass_add(bound *scratch, const bilinear *pass, const float *a, const float *b, double weight, double *sum) {
    const float *const from[2] = {a, b};
    for (int i = 0; i < 2; i++)
        memcpy(bound_fp32(scratch, pass->role[i]), from[i], (size_t)bound_count(scratch, pass->role[i]) * sizeof *a);
    bound_run(scratch);
    const float *out = bound_fp32(scratch, pass->out);
    for (int64_t i = 0; i < bound_count(scratch, pass->out); i++)
        sum[i] += weight * (double)out[i];
}

static float *mapped(const noisy *one, float (*map)(const noisy *, int64_t)) {
    float *out = malloc((size_t)one->count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < one->count; i++)
        out[i] = map(one, i);
    return out;
}
static float square_of(const noisy *one, int64_t i) {
    return one->real[i] * one->real[i];
}
static float magnitude_of(const noisy *one, int64_t i) {
    return fabsf(one->real[i]);
}
/* Fixed point draws 16 bits: a rounding probability is off by 2^-16 at most; floats have as many or more. */
static float bias_of(const noisy *one, int64_t i) {
    return one->unit[i] * 0x1p-16f;
}

/* Var[Σ a b] = Σ (a² Var b + b² Var a + Var a Var b), by passes over squares and variances; and how far draws and fp32 results may be off
 * in the mean. */
static void expectations(bound *scratch, const bilinear *pass, noisy operand[2], double *variance, double *allowed) {
    float *squares[2], *magnitudes[2], *biases[2];
    for (int i = 0; i < 2; i++) {
        squares[i] = mapped(&operand[i], square_of);
        magnitudes[i] = mapped(&operand[i], magnitude_of);
        biases[i] = mapped(&operand[i], bias_of);
    }
    pass_add(scratch, pass, squares[0], operand[1].variance, 1, variance);
    pass_add(scratch, pass, operand[0].variance, squares[1], 1, variance);
    pass_add(scratch, pass, operand[0].variance, operand[1].variance, 1, variance);
    pass_add(scratch, pass, magnitudes[0], biases[1], 1, allowed);
    pass_add(scratch, pass, biases[0], magnitudes[1], 1, allowed);
    pass_add(scratch, pass, magnitudes[0], magnitudes[1], 0x1p-22, allowed);
    for (int i = 0; i < 2; i++)
        free(squares[i]), free(magnitudes[i]), free(biases[i]);
}

/* A gradient has mean 0; activations come out of a ReLU. */
static void real_fill(float *values, int64_t count, qs_role role) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = qs_random_normal(77 + (uint64_t)role, (uint64_t)i);
        if (role == QS_SRC && values[i] < 0) values[i] = 0;
    }
}

static verdict verdict_of(int64_t count, const double *mean, const double *expected, const double *variance, const double *allowed) {
    verdict out = {0, 0};
    int64_t noisy_ones = 0;
    for (int64_t i = 0; i < count; i++) {
        const double distance = fmax(fabs(mean[i] - expected[i]) - allowed[i], 0), error = sqrt(variance[i] / TRIALS);
        if (error <= 0 && distance <= 0) continue; /* outputs of zeros */
        out.largest = fmax(out.largest, distance / error);
        out.mean_square += distance / error * (distance / error);
        noisy_ones++;
    }
    out.mean_square /= (double)noisy_ones;
    return out;
}

static verdict judge(const layer *one, const bilinear *pass, const char *quantizer) {
    char text[TEXT];
    bound scratch;
    noisy operand[2];
    float *real[2];
    pass_text(text, one, pass);
    bound_parse(&scratch, text, 1);
    const int64_t count = bound_count(&scratch, pass->out);
    double *figures = calloc((size_t)count * 4, sizeof *figures), *mean = figures, *expected = figures + count;
    double *variance = expected + count, *allowed = variance + count;
    assert_non_null(figures);
    for (int i = 0; i < 2; i++) {
        const int64_t elements = bound_count(&scratch, pass->role[i]);
        real[i] = malloc((size_t)elements * sizeof *real[i]);
        assert_non_null(real[i]);
        real_fill(real[i], elements, pass->role[i]);
        noisy_open(&operand[i], quantizer, pass->role[i] == QS_WEIGHTS, shape_of(one, pass->role[i]), real[i], (uint64_t)i + 1);
    }
    pass_add(&scratch, pass, real[0], real[1], 1, expected);
    const int trials = operand[0].quantizer.rounding == QS_STOCHASTIC ? TRIALS : 1; /* others repeat themselves */
    for (int trial = 0; trial < trials; trial++) {
        noisy_draw(&operand[0], (uint64_t)trial);
        noisy_draw(&operand[1], (uint64_t)trial);
        pass_add(&scratch, pass, operand[0].values, operand[1].values, 1.0 / trials, mean);
    }
    noisy_describe(&operand[0]);
    noisy_describe(&operand[1]);
    expectations(&scratch, pass, operand, variance, allowed);
    const verdict out = verdict_of(count, mean, expected, variance, allowed);
    for (int i = 0; i < 2; i++) {
        noisy_close(&operand[i]);
        free(real[i]);
    }
    bound_release(&scratch);
    free(figures);
    return out;
}

/* The largest of a thousand deviations stays below 6 standard errors but for a chance of 2e-6 each pass (their sums are nearly normal at
 * 200 draws). Their mean square is 1 in expectation; outputs share operands, so that at least a dozen of them are independent of one
 * another (channels of the depthwise layer, samples of the linear one): its own deviation is below sqrt(2 / 12) = 0.4, and 1 + 5 × 0.4 = 3
 * bounds it. Rounding to nearest is off by q²/12 in the mean square where a standard error is q²/6 / TRIALS: about TRIALS / 2 = 100. */
static void expect_unbiased(const layer *one, const bilinear *pass, const char *format) {
    char quantizer[64];
    snprintf(quantizer, sizeof quantizer, "%s:stochastic", format);
    const verdict stochastic = judge(one, pass, quantizer);
    snprintf(quantizer, sizeof quantizer, "%s:nearest-even", format);
    const verdict nearest = judge(one, pass, quantizer);
    if (stochastic.largest > 6 || stochastic.mean_square > 3)
        fail_msg("%s/%s%s %s: the mean is %.1f standard errors off, mean square %.2f", one->op, pass->pass, one->with, format,
                 stochastic.largest, stochastic.mean_square);
    if (stochastic.mean_square < 0.3)
        fail_msg("%s/%s%s %s: mean square %.2f: the variance is overstated", one->op, pass->pass, one->with, format,
                 stochastic.mean_square);
    if (nearest.largest < 12 || nearest.mean_square < 20)
        fail_msg("%s/%s%s %s: to nearest only %.1f standard errors, mean square %.2f: the test cannot see a bias", one->op, pass->pass,
                 one->with, format, nearest.largest, nearest.mean_square);
}

static void expect_every_format(const bilinear *pass) {
    static const char *const formats[] = {"int8:tensor", "int8:channel(out)", "int4:shift4", "int6:shift3", "bf16", "fp16", "e4m3fn",
                                          "e5m2"};
    for (size_t l = 0; l < COUNT_OF(layers); l++)
        for (size_t f = 0; f < COUNT_OF(formats); f++)
            expect_unbiased(&layers[l], pass, formats[f]);
}

TEST(outputs) {
    expect_every_format(&forward);
}
TEST(input_gradients) {
    expect_every_format(&input_gradient);
}
TEST(weight_gradients) {
    expect_every_format(&weight_gradient);
}

TEST_MAIN(outputs, input_gradients, weight_gradients)
