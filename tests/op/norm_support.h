// SPDX-License-Identifier: Apache-2.0
/* What every normalisation must keep, for tests of operators: a relu behind it does what the operator relu does; the quantized ones do
 * the arithmetic of whole numbers and differentiate straight through. Include after cmocka.h. */
#ifndef QSYNC_TESTS_NORM_SUPPORT_H
#define QSYNC_TESTS_NORM_SUPPORT_H

#include "kit/cases.h"
#include "kit/vectors.h"
#include "qsync/norm.h"

/* ---- The relu behind ---- */

/* The case without its relu; its output in a bound of its own, with the same inputs. */
static inline void without_relu(bound *plain, bound *fused) {
    qs_case one = fused->one;
    int mask = qs_case_position(&one, QS_MASK);
    one.attributes.relu = false;
    one.attributes.ceiling = 0;
    if (mask >= 0) one.operand[mask].format = NULL;
    bound_make(plain, &one, 1);
    bound_share(plain, fused);
}

static inline void relu_bound(bound *relu, const char *pass, bound *norm, qs_role from, double ceiling) {
    const qs_tensor *src = bound_tensor(norm, from);
    qs_case one = qs_case_make("relu", pass, &(qs_attributes){.ceiling = ceiling});
    for (int i = 0; i < one.operands; i++) {
        bool mask = one.operand[i].role == QS_MASK;
        if (one.operand[i].role == QS_ABSMAX || one.operand[i].role == QS_DIFF_DST2) continue;
        qs_shape bits = qs_shape_of(1, (qs_shape_count(&src->shape) + 7) / 8);
        qs_case_bind(&one, one.operand[i].role, mask ? bits : src->shape, mask ? qs_format_of("int8") : src->format);
    }
    bound_make(relu, &one, 2);
}

static inline void same_operand(bound *a, qs_role of_a, bound *b, qs_role of_b, const char *text) {
    const qs_tensor *left = bound_tensor(a, of_a), *right = bound_tensor(b, of_b);
    if (memcmp(left->data, right->data, tensor_bytes(left))) fail_msg("%s: %s differs", text, qs_role_name(of_a));
}

static inline void copy_operand(bound *to, qs_role of_to, bound *from, qs_role of_from) {
    memcpy(bound_tensor(to, of_to)->data, bound_tensor(from, of_from)->data, tensor_bytes(bound_tensor(to, of_to)));
}

static inline void check_relu_forward(const char *text) {
    bound fused, plain, relu;
    bound_parse(&fused, text, 3);
    without_relu(&plain, &fused);
    bound_run(&fused);
    bound_run(&plain);
    relu_bound(&relu, "forward", &plain, QS_DST, fused.one.attributes.ceiling);
    copy_operand(&relu, QS_SRC, &plain, QS_DST);
    bound_run(&relu);
    same_operand(&fused, QS_DST, &relu, QS_DST, text);
    if (bound_tensor(&fused, QS_MASK)) same_operand(&fused, QS_MASK, &relu, QS_MASK, text);
    bound_release(&fused);
    bound_release(&plain);
    bound_release(&relu);
}

static inline void check_relu_backward(const char *text) {
    bound fused, plain, relu;
    bound_parse(&fused, text, 4);
    without_relu(&plain, &fused);
    relu_bound(&relu, "backward", &plain, QS_DIFF_DST, fused.one.attributes.ceiling);
    copy_operand(&relu, QS_MASK, &fused, QS_MASK);
    copy_operand(&relu, QS_DIFF_DST, &fused, QS_DIFF_DST);
    bound_run(&relu);
    copy_operand(&plain, QS_DIFF_DST, &relu, QS_DIFF_SRC);
    bound_run(&fused);
    bound_run(&plain);
    same_operand(&fused, QS_DIFF_SRC, &plain, QS_DIFF_SRC, text);
    same_operand(&fused, QS_DIFF_SCALE, &plain, QS_DIFF_SCALE, text);
    same_operand(&fused, QS_DIFF_SHIFT, &plain, QS_DIFF_SHIFT, text);
    bound_release(&fused);
    bound_release(&plain);
    bound_release(&relu);
}

/* Bit for bit the operator followed by relu, over the cases of the list that have one; mask and attribute come together. */
static inline void check_relu_behind(const char *name) {
    int checked = 0;
    for (const char *const *text = qs_op_of(name)->cases; *text; text++) {
        if (!strstr(*text, " relu")) continue;
        if (strstr(*text, "/backward"))
            check_relu_backward(*text);
        else
            check_relu_forward(*text);
        checked++;
        qs_case one;
        assert_ok(qs_case_parse(*text, &one));
        one.attributes.relu = false;
        assert_int_equal(qs_case_check(&one), one.attributes.ceiling > 0 || qs_case_position(&one, QS_MASK) >= 0 ? QS_USAGE : QS_OK);
    }
    assert_true(checked >= 3);
}

/* ---- Quantized ones, evaluated again ---- */

/* a/b to the nearest whole number, ties to even; b > 0. */
static inline int64_t nearest(int64_t a, int64_t b) {
    int64_t floor_ = a / b - (a % b < 0), twice = 2 * (a - floor_ * b);
    return floor_ + (twice > b || (twice == b && floor_ % 2 != 0));
}

static inline float vector_step(int64_t count, const float *values) {
    return qs_step_of_absmax(qs_format_of("int8"), (float)qs_absmax_array(count, values));
}

/* The mean of a channel's codes in units of 2^-shift, by whole numbers; the largest of all channels fits 127. */
static inline int mean_shift(int64_t rows, int64_t channels, const int8_t *codes, int64_t *sums) {
    int shift = 8;
    for (int64_t c = 0; c < channels; c++) {
        sums[c] = 0;
        for (int64_t row = 0; row < rows; row++)
            sums[c] += codes[row * channels + c];
    }
    for (int64_t c = 0; c < channels; c++)
        while (llabs(nearest(sums[c] * (INT64_C(1) << shift), rows)) > 127)
            shift--;
    return shift;
}

/* Forward: mean exactly as whole numbers have it; spread within half a step of 8 bits; dst what the rounded vectors give. */
static inline void check_quantized_forward(const char *text, bool absolute, qs_role spread_role) {
    bound b;
    bound_parse(&b, text, 21);
    bound_run(&b);
    const qs_shape *shape = &bound_tensor(&b, QS_SRC)->shape;
    const int64_t channels = shape->dim[1], rows = qs_shape_count(shape) / channels;
    const int8_t *codes = bound_tensor(&b, QS_SRC)->data;
    const float *y = bound_fp32(&b, QS_DST), *mean = bound_fp32(&b, QS_MEAN), *spread = bound_fp32(&b, spread_role);
    const float *scale = bound_fp32(&b, QS_SCALE), *shift = bound_fp32(&b, QS_SHIFT);
    const double step = (double)bound_fp32(&b, QS_SRC_STEP)[0], scale_step = (double)vector_step(channels, scale),
                 shift_step = (double)vector_step(channels, shift), spread_step = (double)vector_step(channels, spread);
    int64_t sums[64];
    assert_true(channels <= 64);
    const int p = mean_shift(rows, channels, codes, sums);
    for (int64_t c = 0; c < channels; c++) {
        const int64_t m = nearest(sums[c] * (INT64_C(1) << p), rows);
        assert_true(mean[c] == (float)((double)m * ldexp(step, -p)));
        int64_t distances = 0, squares = 0;
        for (int64_t row = 0; row < rows; row++) {
            distances += llabs(codes[row * channels + c] * (INT64_C(1) << p) - m);
            squares += (int64_t)codes[row * channels + c] * codes[row * channels + c];
        }
        double exact = absolute ? ldexp(step, -p) * (double)distances / (double)rows
                                : step * step * (double)(rows * squares - sums[c] * sums[c]) / (double)(rows * rows);
        if (!absolute && spread_role == QS_DEVIATION) exact = sqrt(exact);
        assert_true(fabs((double)spread[c] - exact) <= spread_step * (0.5 + 1e-5));
        assert_true(fabs(remainder((double)spread[c], spread_step)) <= 1e-5 * spread_step);
        const double below = spread_role == QS_VARIANCE ? sqrt((double)spread[c] + 1e-5) : (double)spread[c] + 1e-5;
        const double factor = scale_step * rint((double)(scale[c] / (float)scale_step)) / below;
        for (int64_t row = 0; row < rows; row++) {
            const double n = ldexp(step, -p) * (double)(codes[row * channels + c] * (INT64_C(1) << p) - m);
            const double expected = n * factor + shift_step * rint((double)(shift[c] / (float)shift_step));
            assert_true(fabs((double)y[row * channels + c] - expected) <= 0x1p-20 * (fabs(n * factor) + 1));
        }
    }
    bound_release(&b);
}

/* Σ g_i ∂n_i/∂x_k over a channel, by the partial derivatives themselves: n_i = (x_i - mean)/below. */
static inline double through(int64_t rows, const double *x, const double *g, double mean, double below, bool absolute, int64_t k) {
    double sum = 0, signs = 0, count = (double)rows;
    for (int64_t i = 0; i < rows; i++)
        signs += (x[i] > mean) - (x[i] < mean);
    for (int64_t i = 0; i < rows; i++) {
        const double n = (x[i] - mean) / below, own = (x[k] > mean) - (x[k] < mean);
        const double slope = absolute ? (own - signs / count) / count : (x[k] - mean) / below / count;
        sum += g[i] * ((i == k) - 1 / count - n * slope) / below;
    }
    return sum;
}

/* Backward against the partial derivatives at the rounded x, mean, spread and scale. */
static inline void check_straight_through(const char *forward_text, const char *backward_text, bool absolute, qs_role spread_role) {
    bound f, b;
    bound_parse(&f, forward_text, 22);
    bound_parse(&b, backward_text, 23);
    bound_share(&b, &f);
    bound_run(&f);
    bound_share(&b, &f);
    bound_run(&b);
    const qs_shape *shape = &bound_tensor(&b, QS_SRC)->shape;
    const int64_t channels = shape->dim[1], rows = qs_shape_count(shape) / channels;
    const int8_t *codes = bound_tensor(&b, QS_SRC)->data;
    const float *scale = bound_fp32(&b, QS_SCALE), *dy = bound_fp32(&b, QS_DIFF_DST), *dx = bound_fp32(&b, QS_DIFF_SRC);
    const double step = (double)bound_fp32(&b, QS_SRC_STEP)[0], scale_step = (double)vector_step(channels, scale);
    double *x = calloc((size_t)rows, sizeof *x), *g = calloc((size_t)rows, sizeof *g);
    assert_true(x && g);
    for (int64_t c = 0; c < channels; c++) {
        const double spread = (double)bound_fp32(&b, spread_role)[c], mean = (double)bound_fp32(&b, QS_MEAN)[c] / step;
        const double below = (spread_role == QS_VARIANCE ? sqrt(spread + 1e-5) : spread + 1e-5) / step;
        double sums[2] = {0, 0}, largest = 0;
        for (int64_t row = 0; row < rows; row++) {
            x[row] = codes[row * channels + c];
            g[row] = (double)dy[row * channels + c] * scale_step * rint((double)(scale[c] / (float)scale_step)) / step;
            sums[0] += (double)dy[row * channels + c] * (x[row] - rint(mean * 256) / 256) / below;
            sums[1] += (double)dy[row * channels + c];
            largest = fmax(largest, fabs(g[row]) / below);
        }
        for (int64_t k = 0; k < rows; k++)
            assert_true(fabs((double)dx[k * channels + c] - through(rows, x, g, rint(mean * 256) / 256, below, absolute, k)) <=
                        0x1p-18 * largest);
        assert_true(fabs((double)bound_fp32(&b, QS_DIFF_SCALE)[c] - sums[0]) <= 0x1p-20 * (fabs(sums[0]) + (double)rows));
        assert_true(fabs((double)bound_fp32(&b, QS_DIFF_SHIFT)[c] - sums[1]) <= 0x1p-20 * (fabs(sums[1]) + (double)rows));
    }
    free(x);
    free(g);
    bound_release(&f);
    bound_release(&b);
}

/* ---- Layer norms ---- */

enum { LAYER_POSITIONS = 6, LAYER_CHANNELS = 7 };

/* A pass without relu. */
static inline void layer_bound(bound *b, const char *name, const char *pass, int64_t positions, int64_t channels, uint64_t seed) {
    qs_case one = qs_case_make(name, pass, NULL);
    for (int i = 0; i < one.operands; i++) {
        const qs_role role = one.operand[i].role;
        const bool values = role == QS_SRC || role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_SRC;
        const bool of_position = role == QS_MEAN || role == one.op->norm->spread;
        if (role == QS_MASK || role == QS_SRC_STEP || role == QS_ABSMAX) continue;
        qs_case_bind(&one, role, values ? qs_shape_of(2, positions, channels) : qs_shape_of(1, of_position ? positions : channels),
                     qs_format_of("fp32"));
    }
    assert_ok(qs_case_check(&one));
    bound_make(b, &one, seed);
}

/* Operand `role` of the batch of one is that of position `at`. */
static inline void position_same(bound *single, bound *all, qs_role role, int64_t at) {
    const int64_t count = bound_count(single, role);
    assert_memory_equal(bound_fp32(single, role), bound_fp32(all, role) + at * count, (size_t)count * sizeof(float));
}

static inline void position_copy(bound *single, bound *all, qs_role role, int64_t at) {
    const int64_t count = bound_count(single, role);
    memcpy(bound_fp32(single, role), bound_fp32(all, role) + at * count, (size_t)count * sizeof(float));
}

/* What a position gives depends on that position alone, bit for bit, in training, its backward pass and evaluation; the gradients of the
 * parameters are sums over positions: each term and the total are rounded to fp32 once. */
static inline void check_positions_apart(const char *name) {
    bound forward, backward, inference, one_forward, one_backward;
    double sums[2][LAYER_CHANNELS] = {{0}}, terms[2][LAYER_CHANNELS] = {{0}};
    const qs_role gradient[2] = {QS_DIFF_SCALE, QS_DIFF_SHIFT};
    layer_bound(&forward, name, "forward", LAYER_POSITIONS, LAYER_CHANNELS, 41);
    layer_bound(&backward, name, "backward", LAYER_POSITIONS, LAYER_CHANNELS, 42);
    layer_bound(&inference, name, "inference", LAYER_POSITIONS, LAYER_CHANNELS, 43);
    layer_bound(&one_forward, name, "forward", 1, LAYER_CHANNELS, 41);
    layer_bound(&one_backward, name, "backward", 1, LAYER_CHANNELS, 42);
    bound_run(&forward);
    bound_share(&backward, &forward);
    bound_run(&backward);
    bound_share(&inference, &forward);
    bound_run(&inference);
    same_operand(&inference, QS_DST, &forward, QS_DST, name);
    for (int64_t at = 0; at < LAYER_POSITIONS; at++) {
        copy_operand(&one_forward, QS_SCALE, &forward, QS_SCALE);
        copy_operand(&one_forward, QS_SHIFT, &forward, QS_SHIFT);
        position_copy(&one_forward, &forward, QS_SRC, at);
        position_copy(&one_backward, &backward, QS_DIFF_DST, at);
        bound_run(&one_forward);
        bound_share(&one_backward, &one_forward);
        bound_run(&one_backward);
        position_same(&one_forward, &forward, QS_DST, at);
        position_same(&one_forward, &forward, QS_MEAN, at);
        position_same(&one_forward, &forward, forward.one.op->norm->spread, at);
        position_same(&one_backward, &backward, QS_DIFF_SRC, at);
        for (int k = 0; k < 2 * LAYER_CHANNELS; k++) {
            const double term = (double)bound_fp32(&one_backward, gradient[k / LAYER_CHANNELS])[k % LAYER_CHANNELS];
            sums[k / LAYER_CHANNELS][k % LAYER_CHANNELS] += term;
            terms[k / LAYER_CHANNELS][k % LAYER_CHANNELS] += fabs(term);
        }
    }
    for (int k = 0; k < 2 * LAYER_CHANNELS; k++) {
        const int which = k / LAYER_CHANNELS, c = k % LAYER_CHANNELS;
        assert_true(fabs((double)bound_fp32(&backward, gradient[which])[c] - sums[which][c]) <= 0x1p-23 * terms[which][c]);
    }
    bound_release(&forward);
    bound_release(&backward);
    bound_release(&inference);
    bound_release(&one_forward);
    bound_release(&one_backward);
}

static inline void check_layer_refused(const char *text, const char *reason) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    assert_refused(qs_case_check(&one), QS_USAGE, reason);
}

/* ---- Reference values of L1 normalisations ---- */

static inline void operand_set(bound *b, qs_role role, double value) {
    for (int64_t i = 0; i < bound_count(b, role); i++)
        bound_fp32(b, role)[i] = (float)value;
}

static inline double operand_sum(bound *b, qs_role role) {
    double sum = 0;
    for (int64_t i = 0; i < bound_count(b, role); i++)
        sum += (double)bound_fp32(b, role)[i];
    return sum;
}

/* One entry of l1bn.json: a set of values that are normalised together, which `make` binds to a pass: a channel of a batch norm, a position
 * of a layer norm. dx_numeric comes from central differences in double: good to about 1e-9 of values of order 1; fp32 operands cost
 * 2^-22. */
static inline void check_l1_vector(const json_t *entry, void (*make)(bound *b, const char *pass, int64_t count)) {
    enum { LONGEST = 64 };
    const int64_t count = (int64_t)json_array_size(json_object_get(entry, "x"));
    float expected[LONGEST];
    bound forward, backward;
    assert_true(count <= LONGEST && vectors_number(entry, "eps") == 1e-5);
    make(&forward, "forward", count);
    make(&backward, "backward", count);
    vectors_list(entry, "x", bound_fp32(&forward, QS_SRC));
    vectors_list(entry, "dy", bound_fp32(&backward, QS_DIFF_DST));
    operand_set(&forward, QS_SCALE, vectors_number(entry, "gamma"));
    operand_set(&forward, QS_SHIFT, vectors_number(entry, "beta"));
    bound_run(&forward);
    bound_share(&backward, &forward);
    bound_run(&backward);
    assert_within((double)bound_fp32(&forward, QS_MEAN)[0], vectors_number(entry, "mean"), 0x1p-21);
    assert_within((double)bound_fp32(&forward, QS_DEVIATION)[0], vectors_number(entry, "mean_abs_dev"), 0x1p-21);
    vectors_list(entry, "y", expected);
    assert_close(count, bound_fp32(&forward, QS_DST), expected, 0x1p-20, 0x1p-20, "y");
    vectors_list(entry, "dx_numeric", expected);
    assert_close(count, bound_fp32(&backward, QS_DIFF_SRC), expected, 0x1p-20, 0x1p-20, "dx");
    assert_within(operand_sum(&backward, QS_DIFF_SCALE), vectors_number(entry, "dgamma"), 0x1p-18);
    assert_within(operand_sum(&backward, QS_DIFF_SHIFT), vectors_number(entry, "dbeta"), 0x1p-18);
    bound_release(&forward);
    bound_release(&backward);
}

/* All entries; skips where no vectors are at hand. */
static inline void check_l1_vectors(void (*make)(bound *b, const char *pass, int64_t count)) {
    json_t *root = vectors_load("l1bn.json"), *entry;
    size_t index;
    if (!root) skip();
    assert_true(json_array_size(root) > 0);
    json_array_foreach(root, index, entry) check_l1_vector(entry, make);
    json_decref(root);
}

#endif
