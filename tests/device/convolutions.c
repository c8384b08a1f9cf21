// SPDX-License-Identifier: Apache-2.0
/* Convolutions by our own tiles, direct ones of floats and weight gradients by taps, of codes as well: beside the scalar reference for
 * shapes that fill neither lanes nor words nor tiles, and for those that take several parts; bits for any threads; codes bit for bit as by
 * the other products of ours. */
// labels: short
#include "device_support.h"

typedef struct size {
    int batch, channels, height, width, outputs, kernel[2], stride, padding;
} size;

static const size sizes[] = {
    {5, 16, 9, 7, 8, {3, 3}, 1, 1},    {3, 3, 11, 10, 16, {3, 3}, 1, 1},  {2, 3, 17, 19, 20, {7, 7}, 2, 3}, {6, 24, 6, 5, 40, {3, 3}, 2, 1},
    {4, 64, 4, 4, 10, {1, 1}, 1, 0},   {7, 40, 5, 8, 33, {1, 1}, 2, 0},   {1, 17, 8, 8, 1, {5, 5}, 1, 2},   {9, 48, 3, 3, 12, {3, 3}, 1, 0},
    {2, 1, 9, 9, 3, {3, 2}, 1, 1},     {3, 128, 2, 2, 24, {3, 3}, 1, 1},  {2, 16, 7, 7, 16, {1, 3}, 3, 0},  {4, 5, 6, 6, 9, {2, 4}, 2, 2},
    {3, 16, 64, 60, 16, {3, 3}, 1, 1}, {1, 20, 130, 70, 8, {3, 3}, 1, 1}, {1, 4, 140, 90, 9, {5, 5}, 2, 2},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int out_of(int extent, int kernel, const size *s) {
    return (extent + 2 * s->padding - kernel) / s->stride + 1;
}

/* Passes, and the family of kernels that has each. */
static const struct {
    const char *family;
    qs_role result;
} passes[] = {{"direct", QS_DST}, {"direct", QS_DIFF_SRC}, {"taps", QS_DIFF_WEIGHTS}};
enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PASSES };

/* Codes with a step for all, or with as many as there can be; shapes in four numbers. */
static int put_codes(const char *role, const char *format, const int shape[4], const char *steps, char *text) {
    int used = sprintf(text, " %s=%s[%d,%d,%d,%d]", role, format, shape[0], shape[1], shape[2], shape[3]);
    if (strstr(format, "int")) used += sprintf(text + used, " %s_step=fp32%s", role, steps);
    return used;
}

/* many: steps of each channel of the weights; in weight gradients channels whose steps differ by powers of two. result: of the other
 * passes, whose bias is there with bf16. */
static void make_case(const size *s, int pass, const char *format, bool many, const char *result, uint64_t seed, bound *out) {
    const int src[4] = {s->batch, s->channels, s->height, s->width}, weights[4] = {s->outputs, s->channels, s->kernel[0], s->kernel[1]};
    const int dst[4] = {s->batch, s->outputs, out_of(s->height, s->kernel[0], s), out_of(s->width, s->kernel[1], s)};
    char text[QS_CASE_TEXT], steps[2][40] = {"[1]", "[1]"}, *at = text;
    if (many && pass != WEIGHT_GRADIENT) snprintf(steps[0], sizeof steps[0], "[%d]", pass == FORWARD ? s->outputs : s->channels);
    if (many && pass == WEIGHT_GRADIENT) snprintf(steps[0], sizeof steps[0], "[1] src_group=int8[%d]", s->channels);
    if (many && pass == WEIGHT_GRADIENT) snprintf(steps[1], sizeof steps[1], "[1] diff_dst_group=int8[%d]", s->outputs);
    if (pass == FORWARD) {
        at += sprintf(at, "conv2d/forward");
        at += put_codes("src", format, src, "[1]", at);
        at += put_codes("weights", format, weights, steps[0], at);
        if (strcmp(result, "fp32")) at += sprintf(at, " bias=fp32[%d]", s->outputs);
        at += put_codes("dst", result, dst, "", at);
    } else if (pass == INPUT_GRADIENT) {
        at += sprintf(at, "conv2d/input_gradient");
        at += put_codes("weights", format, weights, steps[0], at);
        at += put_codes("diff_dst", format, dst, "[1]", at);
        at += put_codes("diff_src", result, src, "", at);
    } else {
        at += sprintf(at, "conv2d/weight_gradient");
        at += put_codes("src", format, src, steps[0], at);
        at += put_codes("diff_dst", format, dst, steps[1], at);
        at += put_codes("diff_weights", "fp32", weights, "", at);
    }
    sprintf(at, " kernel=%dx%d stride=%dx%d padding=%dx%d", s->kernel[0], s->kernel[1], s->stride, s->stride, s->padding, s->padding);
    bound_parse(out, text, seed);
}

static qs_device *open_family(const char *family, int threads) {
    qs_device *device = NULL;
    assert_ok(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = threads, .isa = test_ceiling, .speed = 1, .family = family},
                             &device));
    return device;
}

static qs_tensor *result_of(bound *b) {
    for (int pass = 0; pass < PASSES; pass++)
        if (bound_tensor(b, passes[pass].result)) return bound_tensor(b, passes[pass].result);
    return NULL;
}

static const char *family_of(bound *b) {
    return bound_tensor(b, QS_DIFF_WEIGHTS) ? "taps" : "direct";
}

/* Twice in the same scratch: nothing is left over. False where the device has no such kernel. */
static bool run_by(qs_device *device, const char *family, bound *from, bound *out) {
    bound_kernel kernel;
    const qs_tensor *result = NULL;
    bound_copy(out, &from->one, from);
    kernel_make(&kernel, device, out);
    result = result_of(out);
    const bool ours = strstr(kernel.fact.kernel, family) != NULL;
    for (int turn = 0; turn < 2; turn++) {
        memset(result->data, 0x55, tensor_bytes(result));
        assert_ok(qs_kernel_run(kernel.kernel, &out->run));
    }
    kernel_release(&kernel);
    return ours;
}

static void expect_bits(bound *got, bound *expected, const char *what) {
    const qs_tensor *a = result_of(got), *b = result_of(expected);
    char text[QS_CASE_TEXT];
    if (memcmp(a->data, b->data, tensor_bytes(a))) fail_msg("%s: %s: other bits", qs_case_text(&got->one, text), what);
}

/* Every size in every pass and format; what is found is for `look`. */
static int every_size(void (*look)(bound *from)) {
    static const char *const formats[] = {"fp32", "bf16", "int8", "int4"};
    int seen = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        qs_device *device = open_family(passes[pass].family, 1);
        for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
            for (size_t s = 0; s < SIZES; s++) {
                bound from, out;
                make_case(&sizes[s], pass, formats[f], s % 2, s % 3 ? "fp32" : "bf16", 90 + s, &from);
                qs_kernel_fact fact;
                if (qs_device_fact(device, &from.one, &fact) == QS_OK) {
                    const bool ours = run_by(device, passes[pass].family, &from, &out);
                    bound_release(&out);
                    if (ours) look(&from);
                    seen += ours;
                }
                bound_release(&from);
            }
        qs_device_close(device);
    }
    return seen;
}

static void against_reference(bound *from) {
    bound got, expected;
    char text[QS_CASE_TEXT];
    qs_device *device = open_family(family_of(from), 1);
    assert_true(run_by(device, family_of(from), from, &got));
    bound_copy(&expected, &from->one, from);
    bound_run(&expected);
    compare_written(&got, &expected, qs_case_text(&from->one, text));
    bound_release(&got);
    bound_release(&expected);
    qs_device_close(device);
}

static void with_threads(bound *from) {
    bound one, many;
    for (int threads = 2; threads <= 3; threads++) {
        qs_device *single = open_family(family_of(from), 1);
        assert_true(run_by(single, family_of(from), from, &one));
        qs_device_close(single);
        qs_device *device = open_family(family_of(from), threads);
        assert_true(run_by(device, family_of(from), from, &many));
        expect_bits(&many, &one, "more threads");
        bound_release(&one);
        bound_release(&many);
        qs_device_close(device);
    }
}

static void as_other_products(bound *from) {
    bound got, expected;
    const qs_tensor *factor = bound_tensor(from, QS_SRC) ? bound_tensor(from, QS_SRC) : bound_tensor(from, QS_DIFF_DST);
    if (!strstr(factor->format->name, "int")) return;
    qs_device *device = open_family(family_of(from), 1), *other = open_family("integer", 1);
    assert_true(run_by(device, family_of(from), from, &got) && run_by(other, "integer", from, &expected));
    expect_bits(&got, &expected, "beside the other products of codes");
    bound_release(&got);
    bound_release(&expected);
    qs_device_close(device);
    qs_device_close(other);
}

/* Formats whose tiles there may be at each ceiling; a processor may have fewer. */
static void expect_seen(int seen) {
    static const int formats[CEILINGS] = {8, 5, 3, 0, 0}; /* of all passes */
    int ceiling = 0;
    while (strcmp(ceilings[ceiling], test_ceiling))
        ceiling++;
    if (seen % SIZES || seen > formats[ceiling] * SIZES)
        fail_msg("%s: %d cases, expected %d", test_ceiling, seen, formats[ceiling] * SIZES);
}

static void test_reference(void **state) {
    (void)state;
    expect_seen(every_size(against_reference));
}

static void test_threads(void **state) {
    (void)state;
    expect_seen(every_size(with_threads));
}

static void test_codes(void **state) {
    (void)state;
    expect_seen(every_size(as_other_products));
}

/* The largest codes: sums just within 32 bits, though 128 too many of each source code are far outside; sums beyond are left to others. */
static void test_headroom(void **state) {
    (void)state;
    static const struct {
        int pixels;
        bool fits;
    } cases[] = {{133143, true}, {133145, false}};
    qs_device *device = open_family("taps", 1);
    for (int c = 0; c < 2; c++)
        for (int sign = -1; sign <= 1; sign += 2) {
            bound from, got, expected;
            make_case(
                &(size){.batch = 1, .channels = 2, .height = 1, .width = cases[c].pixels, .outputs = 2, .kernel = {1, 1}, .stride = 1},
                WEIGHT_GRADIENT, "int8", false, "fp32", 4, &from);
            memset(bound_tensor(&from, QS_SRC)->data, sign * 127, (size_t)(2 * cases[c].pixels));
            memset(bound_tensor(&from, QS_DIFF_DST)->data, 127, (size_t)(2 * cases[c].pixels));
            const bool ours = run_by(device, "taps", &from, &got);
            assert_true(!ours || cases[c].fits);
            bound_copy(&expected, &from.one, &from);
            bound_run(&expected);
            compare_written(&got, &expected, "the largest codes");
            bound_release(&got);
            bound_release(&from);
            bound_release(&expected);
        }
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_threads), cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_headroom)};
    if (!built("cpu")) return 77;
    return run_per_ceiling(tests, sizeof tests / sizeof tests[0]);
}
