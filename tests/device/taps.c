// SPDX-License-Identifier: Apache-2.0
/* Weight gradients by tiles of taps, of fp32, bf16 and codes: beside the scalar reference for shapes that fill neither lanes nor tiles nor
 * images side by side, and for those that take several parts; bits for any threads; codes bit for bit as by the other products of ours. */
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

/* grouped: channels whose steps differ by powers of two. */
static void make_case(const size *s, const char *format, bool grouped, uint64_t seed, bound *out) {
    char text[QS_CASE_TEXT], codes[2][80] = {"", ""};
    const bool integers = strstr(format, "int") != NULL;
    if (integers && !grouped) snprintf(codes[0], sizeof codes[0], " src_step=fp32[1]");
    if (integers && !grouped) snprintf(codes[1], sizeof codes[1], " diff_dst_step=fp32[1]");
    if (grouped) snprintf(codes[0], sizeof codes[0], " src_step=fp32[1] src_group=int8[%d]", s->channels);
    if (grouped) snprintf(codes[1], sizeof codes[1], " diff_dst_step=fp32[1] diff_dst_group=int8[%d]", s->outputs);
    snprintf(text, sizeof text,
             "conv2d/weight_gradient src=%s[%d,%d,%d,%d]%s diff_dst=%s[%d,%d,%d,%d]%s diff_weights=fp32[%d,%d,%d,%d] kernel=%dx%d "
             "stride=%dx%d padding=%dx%d",
             format, s->batch, s->channels, s->height, s->width, codes[0], format, s->batch, s->outputs, out_of(s->height, s->kernel[0], s),
             out_of(s->width, s->kernel[1], s), codes[1], s->outputs, s->channels, s->kernel[0], s->kernel[1], s->kernel[0], s->kernel[1],
             s->stride, s->stride, s->padding, s->padding);
    bound_parse(out, text, seed);
}

static qs_device *open_family(const char *family, int threads) {
    qs_device *device = NULL;
    assert_ok(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = threads, .isa = test_ceiling, .speed = 1, .family = family},
                             &device));
    return device;
}

/* Twice in the same scratch: nothing is left over. False where the device has no such kernel. */
static bool run_by(qs_device *device, const char *family, bound *from, bound *out) {
    bound_kernel kernel;
    bound_copy(out, &from->one, from);
    kernel_make(&kernel, device, out);
    const bool ours = strstr(kernel.fact.kernel, family) != NULL;
    for (int turn = 0; turn < 2; turn++) {
        memset(bound_tensor(out, QS_DIFF_WEIGHTS)->data, 0x55, tensor_bytes(bound_tensor(out, QS_DIFF_WEIGHTS)));
        assert_ok(qs_kernel_run(kernel.kernel, &out->run));
    }
    kernel_release(&kernel);
    return ours;
}

static void expect_bits(bound *got, bound *expected, const char *what) {
    const qs_tensor *a = bound_tensor(got, QS_DIFF_WEIGHTS), *b = bound_tensor(expected, QS_DIFF_WEIGHTS);
    char text[QS_CASE_TEXT];
    if (memcmp(a->data, b->data, tensor_bytes(a))) fail_msg("%s: %s: other bits", qs_case_text(&got->one, text), what);
}

/* Every size in every format; what is found is for `look`. */
static int every_size(void (*look)(bound *from)) {
    static const char *const formats[] = {"fp32", "bf16", "int8", "int4"};
    int seen = 0;
    qs_device *device = open_family("taps", 1);
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
        for (size_t s = 0; s < SIZES; s++) {
            bound from, out;
            make_case(&sizes[s], formats[f], f == 3, 90 + s, &from);
            qs_kernel_fact fact;
            if (qs_device_fact(device, &from.one, &fact) == QS_OK && run_by(device, "taps", &from, &out)) {
                bound_release(&out);
                look(&from);
                seen++;
            }
            bound_release(&from);
        }
    qs_device_close(device);
    return seen;
}

static void against_reference(bound *from) {
    bound got, expected;
    char text[QS_CASE_TEXT];
    qs_device *device = open_family("taps", 1);
    assert_true(run_by(device, "taps", from, &got));
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
        qs_device *single = open_family("taps", 1);
        assert_true(run_by(single, "taps", from, &one));
        qs_device_close(single);
        qs_device *device = open_family("taps", threads);
        assert_true(run_by(device, "taps", from, &many));
        expect_bits(&many, &one, "more threads");
        bound_release(&one);
        bound_release(&many);
        qs_device_close(device);
    }
}

static void as_other_products(bound *from) {
    bound got, expected;
    if (!strstr(bound_tensor(from, QS_SRC)->format->name, "int")) return;
    qs_device *device = open_family("taps", 1), *other = open_family("integer", 1);
    assert_true(run_by(device, "taps", from, &got) && run_by(other, "integer", from, &expected));
    expect_bits(&got, &expected, "beside the other products of codes");
    bound_release(&got);
    bound_release(&expected);
    qs_device_close(device);
    qs_device_close(other);
}

/* Formats whose tiles there may be at each ceiling; a processor may have fewer. */
static void expect_seen(int seen) {
    static const int formats[CEILINGS] = {4, 3, 1, 0, 0};
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
                "int8", false, 4, &from);
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
