// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Hadamard transforms of both factors along the inner dimension of a product: the product stays as it was, in every pass; codes drawn of
 * the transformed factors leave it unbiased; gradients of biases; and which cases are refused. */
#include "kit/cases.h"

enum { TRIALS = 200, TEXT = 320 };

/* batch, input channels and output channels of a group: their blocks follow */
typedef struct layer {
    const char *op, *src, *weights, *dst, *with;
    int samples, inputs, outputs;
} layer;
static const layer layers[] = {
    {"linear", "[16,24]", "[20,24]", "[16,20]", "", 16, 24, 20},
    {"linear", "[6,7]", "[32,7]", "[6,32]", "", 6, 7, 32},
    {"conv2d", "[2,16,5,5]", "[8,16,3,3]", "[2,8,5,5]", " kernel=3x3 padding=1x1", 2, 16, 8},
    {"conv2d", "[4,6,7,7]", "[12,6,3,3]", "[4,12,4,4]", " kernel=3x3 stride=2x2 padding=1x1", 4, 6, 12},
    {"conv2d", "[2,8,5,5]", "[12,4,3,3]", "[2,12,5,5]", " kernel=3x3 padding=1x1 groups=2", 2, 4, 6},
    {"conv2d", "[8,4,6,6]", "[4,1,3,3]", "[8,4,6,6]", " kernel=3x3 padding=1x1 groups=4", 8, 1, 1},
};
enum { LAYERS = COUNT_OF(layers) };

/* Every pass, its factors, and along which of their axes its sums run. */
typedef struct bilinear {
    const char *pass;
    qs_role role[2], out;
    int axis[2];
} bilinear;
static const bilinear passes[] = {{"forward", {QS_SRC, QS_WEIGHTS}, QS_DST, {1, 1}},
                                  {"input_gradient", {QS_WEIGHTS, QS_DIFF_DST}, QS_DIFF_SRC, {0, 1}},
                                  {"weight_gradient", {QS_SRC, QS_DIFF_DST}, QS_DIFF_WEIGHTS, {0, 0}}};
enum { PASSES = 3 };

static int block_of(const layer *one, int pass) {
    return qs_hadamard_block(16, pass == 0 ? one->inputs : pass == 1 ? one->outputs : one->samples);
}

static const char *shape_of(const layer *one, qs_role role) {
    if (role == QS_SRC || role == QS_DIFF_SRC) return one->src;
    return role == QS_WEIGHTS || role == QS_DIFF_WEIGHTS ? one->weights : one->dst;
}

static void pass_open(bound *b, const layer *one, const bilinear *pass) {
    char text[TEXT];
    const qs_role left = pass->role[0], right = pass->role[1];
    snprintf(text, sizeof text, "%s/%s %s=fp32%s %s=fp32%s %s=fp32%s%s", one->op, pass->pass, qs_role_name(left), shape_of(one, left),
             qs_role_name(right), shape_of(one, right), qs_role_name(pass->out), shape_of(one, pass->out), one->with);
    bound_parse(b, text, 51);
}

/* The factors of a pass and its result, in plain arrays. */
typedef struct problem {
    bound b;
    const bilinear *pass;
    int64_t count[2], results;
    float *factor[2], *mixed[2], *codes[2];
    double *plain, *got;
} problem;

static float *floats(int64_t count) {
    float *out = calloc((size_t)count, sizeof *out);
    assert_non_null(out);
    return out;
}

static void product(problem *p, const float *left, const float *right, double *out) {
    const float *from[2] = {left, right};
    for (int f = 0; f < 2; f++)
        memcpy(bound_fp32(&p->b, p->pass->role[f]), from[f], (size_t)p->count[f] * sizeof *left);
    bound_run(&p->b);
    for (int64_t i = 0; i < p->results; i++)
        out[i] = (double)bound_fp32(&p->b, p->pass->out)[i];
}

static void problem_open(problem *p, const layer *one, int pass) {
    *p = (problem){.pass = &passes[pass]};
    pass_open(&p->b, one, p->pass);
    p->results = bound_count(&p->b, p->pass->out);
    p->plain = calloc((size_t)p->results * 2, sizeof *p->plain);
    assert_non_null(p->plain);
    p->got = p->plain + p->results;
    for (int f = 0; f < 2; f++) {
        const qs_shape *shape = &bound_tensor(&p->b, p->pass->role[f])->shape;
        p->count[f] = bound_count(&p->b, p->pass->role[f]);
        p->factor[f] = floats(p->count[f]);
        p->mixed[f] = floats(p->count[f]);
        p->codes[f] = floats(p->count[f]);
        memcpy(p->factor[f], bound_fp32(&p->b, p->pass->role[f]), (size_t)p->count[f] * sizeof(float));
        memcpy(p->mixed[f], p->factor[f], (size_t)p->count[f] * sizeof(float));
        if (block_of(one, pass) == 1) continue;
        hadamard_by_definition(block_of(one, pass), p->pass->axis[f] == 1 ? 1 : p->count[f] / shape->dim[0], p->count[f], p->mixed[f]);
    }
    product(p, p->factor[0], p->factor[1], p->plain);
}

static void problem_close(problem *p) {
    for (int f = 0; f < 2; f++)
        free(p->factor[f]), free(p->mixed[f]), free(p->codes[f]);
    free(p->plain);
    bound_release(&p->b);
}

static double *magnitudes(problem *p) {
    double *out = calloc((size_t)p->results, sizeof *out);
    assert_non_null(out);
    for (int f = 0; f < 2; f++)
        for (int64_t i = 0; i < p->count[f]; i++)
            p->codes[f][i] = fabsf(p->mixed[f][i]);
    product(p, p->codes[0], p->codes[1], out);
    return out;
}

/* Sums are double: each transformed factor is off by 2^-24 of itself, each result by 2^-24 of what magnitudes add up to. */
TEST(products_stay) {
    for (int l = 0; l < LAYERS; l++)
        for (int pass = 0; pass < PASSES; pass++) {
            problem p;
            problem_open(&p, &layers[l], pass);
            double *magnitude = magnitudes(&p), worst = 0;
            product(&p, p.mixed[0], p.mixed[1], p.got);
            for (int64_t i = 0; i < p.results; i++)
                if (!(fabs(p.got[i] - p.plain[i]) <= 0x1p-22 * magnitude[i]))
                    fail_msg("%s/%s %s: %g became %g", layers[l].op, passes[pass].pass, layers[l].src, p.plain[i], p.got[i]);
            product(&p, p.mixed[0], p.factor[1], p.got);
            for (int64_t i = 0; i < p.results; i++)
                worst = fmax(worst, fabs(p.got[i] - p.plain[i]) / magnitude[i]);
            assert_true(block_of(&layers[l], pass) == 1 || worst > 0.1); /* one factor alone is another product */
            free(magnitude);
            problem_close(&p);
        }
}

/* ---- Draws ---- */

typedef struct drawn {
    bound absmax, quantize;
} drawn;

static void drawn_open(drawn *one, const layer *of, int pass, int f, const char *rounding, const float *values) {
    char text[TEXT], how[64] = "";
    const char *shape = shape_of(of, passes[pass].role[f]);
    const int block = block_of(of, pass);
    if (block > 1) snprintf(how, sizeof how, "%s hadamard=%d", passes[pass].axis[f] == 1 ? " axis=1" : "", block);
    snprintf(text, sizeof text, "absmax/forward src=fp32%s absmax=fp32[1]%s", shape, how);
    bound_parse(&one->absmax, text, 52);
    snprintf(text, sizeof text, "quantize/forward src=fp32%s absmax=fp32[1] dst=int4%s dst_step=fp32[1]%s%s", shape, shape, how, rounding);
    bound_parse(&one->quantize, text, 52);
    one->quantize.run.stream = (uint64_t)f;
    const size_t bytes = (size_t)bound_count(&one->absmax, QS_SRC) * sizeof *values;
    memcpy(bound_fp32(&one->absmax, QS_SRC), values, bytes);
    memcpy(bound_fp32(&one->quantize, QS_SRC), values, bytes);
    bound_run(&one->absmax);
    bound_fp32(&one->quantize, QS_ABSMAX)[0] = bound_fp32(&one->absmax, QS_ABSMAX)[0];
}

static void draw(drawn *one, uint64_t trial, float *values) {
    one->quantize.run.step = trial;
    bound_run(&one->quantize);
    const int8_t *codes = bound_tensor(&one->quantize, QS_DST)->data;
    for (int64_t i = 0; i < bound_count(&one->quantize, QS_DST); i++)
        values[i] = (float)codes[i] * bound_fp32(&one->quantize, QS_DST_STEP)[0];
}

/* Mean of the products of `trials` draws, and the mean of their squares. */
static void draws_multiply(problem *p, const layer *one, int pass, const char *rounding, int trials, double *mean, double *square) {
    drawn factor[2];
    for (int f = 0; f < 2; f++)
        drawn_open(&factor[f], one, pass, f, rounding, p->factor[f]);
    for (int trial = 0; trial < trials; trial++) {
        for (int f = 0; f < 2; f++)
            draw(&factor[f], (uint64_t)trial, p->codes[f]);
        product(p, p->codes[0], p->codes[1], p->got);
        for (int64_t i = 0; i < p->results; i++) {
            mean[i] += p->got[i] / trials;
            square[i] += p->got[i] * p->got[i] / trials;
        }
    }
    for (int f = 0; f < 2; f++)
        bound_release(&factor[f].absmax), bound_release(&factor[f].quantize);
}

/* Mean square of (mean - plain) in standard errors of TRIALS draws, whose variance the draws tell. Draws have 16 bits, which shifts a mean
 * by far less than such an error (2^-17 of a step against a tenth of one). 1 in expectation, with outputs that share factors in at least a
 * dozen independent parts: 3 is five deviations of sqrt(2 / 12) above. Rounding to nearest misses by about TRIALS / 2, see op.unbiased. */
TEST(draws_are_unbiased) {
    for (int l = 0; l < LAYERS; l++)
        for (int pass = 0; pass < PASSES; pass++) {
            problem p;
            problem_open(&p, &layers[l], pass);
            double *mean = calloc((size_t)p.results * 4, sizeof *mean), *square = mean + p.results, *nearest = square + p.results;
            assert_non_null(mean);
            draws_multiply(&p, &layers[l], pass, " rounding=stochastic", TRIALS, mean, square);
            draws_multiply(&p, &layers[l], pass, "", 1, nearest, nearest + p.results);
            double stochastic = 0, biased = 0;
            int64_t noisy = 0;
            for (int64_t i = 0; i < p.results; i++) {
                const double variance = (square[i] - mean[i] * mean[i]) / (TRIALS - 1);
                if (!(variance > 0)) continue;
                stochastic += (mean[i] - p.plain[i]) * (mean[i] - p.plain[i]) / variance;
                biased += (nearest[i] - p.plain[i]) * (nearest[i] - p.plain[i]) / variance;
                noisy++;
            }
            assert_true(noisy > 0);
            if (!(stochastic / (double)noisy < 3 && stochastic / (double)noisy > 0.3 && biased / (double)noisy > 20))
                fail_msg("%s/%s %s: mean square %.2f of draws, %.1f of the nearest", layers[l].op, passes[pass].pass, layers[l].src,
                         stochastic / (double)noisy, biased / (double)noisy);
            free(mean);
            problem_close(&p);
        }
}

/* ---- Gradients of biases ---- */

/* The same pass in fp32 on what the codes stand for: dequantized, transformed back. Sums of codes are exact; by definition and in fp32 the
 * way back errs by what hadamard_by_definition says of one value, 2^-24 of it in the result. */
static void bias_case(const char *text, const char *real_text) {
    bound integer, real;
    bound_parse(&integer, text, 53);
    bound_parse(&real, real_text, 53);
    const int block = integer.one.attributes.hadamard;
    const qs_role factor[2] = {QS_SRC, QS_DIFF_DST}, step[2] = {QS_SRC_STEP, QS_DIFF_DST_STEP};
    for (int f = 0; f < 2; f++) {
        float *values = tensor_values(bound_tensor(&integer, factor[f]));
        const int64_t count = bound_count(&integer, factor[f]);
        for (int64_t i = 0; i < count; i++)
            values[i] *= bound_fp32(&integer, step[f])[0];
        hadamard_by_definition(block, count / bound_tensor(&integer, factor[f])->shape.dim[0], count, values);
        memcpy(bound_fp32(&real, factor[f]), values, (size_t)count * sizeof *values);
        free(values);
    }
    bound_run(&integer);
    bound_run(&real);
    const qs_role results[2] = {QS_DIFF_WEIGHTS, QS_DIFF_BIAS};
    for (int r = 0; r < 2; r++) {
        const float *got = bound_fp32(&integer, results[r]), *expected = bound_fp32(&real, results[r]);
        float largest = qs_absmax_array(bound_count(&real, results[r]), expected);
        for (int64_t i = 0; i < bound_count(&real, results[r]); i++)
            if (!(fabsf(got[i] - expected[i]) <= 0x1p-18f * largest))
                fail_msg("%s: %s[%d] is %g, not %g", text, qs_role_name(results[r]), (int)i, (double)got[i], (double)expected[i]);
    }
    bound_release(&integer);
    bound_release(&real);
}

TEST(biases) {
    bias_case("linear/weight_gradient src=int4[32,20] src_step=fp32[1] diff_dst=int4[32,12] diff_dst_step=fp32[1] diff_weights=fp32[12,20] "
              "diff_bias=fp32[12] hadamard=16",
              "linear/weight_gradient src=fp32[32,20] diff_dst=fp32[32,12] diff_weights=fp32[12,20] diff_bias=fp32[12]");
    bias_case("conv2d/weight_gradient src=int4[4,16,6,6] src_step=fp32[1] diff_dst=int4[4,8,3,3] diff_dst_step=fp32[1] "
              "diff_weights=fp32[8,16,3,3] diff_bias=fp32[8] kernel=3x3 stride=2x2 padding=1x1 hadamard=2",
              "conv2d/weight_gradient src=fp32[4,16,6,6] diff_dst=fp32[4,8,3,3] diff_weights=fp32[8,16,3,3] diff_bias=fp32[8] kernel=3x3 "
              "stride=2x2 padding=1x1");
}

TEST(unfit_cases_are_refused) {
    expect_refused("absmax/forward src=fp32[4,20] absmax=fp32[1] axis=1 hadamard=8", "do not divide the 20 of axis 1");
    expect_refused("absmax/forward src=fp32[6,16] absmax=fp32[1] hadamard=4", "do not divide the 6 of axis 0");
    expect_refused("absmax/forward src=fp32[4,24] absmax=fp32[1] axis=1 hadamard=6", "2, 4, 8 ... 64");
    expect_refused("absmax/forward src=fp32[4,128] absmax=fp32[1] axis=1 hadamard=128", "2, 4, 8 ... 64");
    expect_refused("absmax/forward src=fp32[4,16] absmax=fp32[16] axis=1 hadamard=4 per_channel", "one step for all");
    expect_refused("quantize/forward src=fp32[4,16] absmax=fp32[1] dst=uint4[4,16] dst_step=fp32[1] axis=1 hadamard=4", "unsigned");
    expect_refused("linear/forward src=int4[4,16] src_step=fp32[1] weights=int4[8,16] weights_step=fp32[1] dst=fp32[4,8] hadamard=4",
                   "know transforms");
    expect_refused("linear/weight_gradient src=fp32[4,16] diff_dst=fp32[4,8] diff_weights=fp32[8,16] diff_bias=fp32[8] hadamard=4",
                   "of integers");
    expect_refused("linear/weight_gradient src=int4[6,16] src_step=fp32[1] diff_dst=int4[6,8] diff_dst_step=fp32[1] "
                   "diff_weights=fp32[8,16] diff_bias=fp32[8] hadamard=4",
                   "6 samples");
}

TEST_MAIN(products_stay, draws_are_unbiased, biases, unfit_cases_are_refused)
