// SPDX-License-Identifier: Apache-2.0
/* Plans that cuDNN itself makes, without a GPU, for one that a file describes (tests/cuda_double/described_cudnn.c): which cases it has
 * kernels for, how they are named, and that a fact repeats. Engines whose kernels are
 * compiled when they are planned need a driver, and are not among them here. */
// labels: long
#include "device_support.h"

/* Skips where nothing is described. */
static qs_device *described(void) {
    qs_device *device = NULL;
    const qs_device_options options = {.backend = "cuda", .threads = 1, .speed = 1, .family = "cudnn_conv2d"};
    if (!backend_exists("cuda") || !getenv("QSYNC_DESCRIBED_DEVICE")) skip();
    assert_ok(qs_device_open(&options, &device));
    return device;
}

static qs_status candidates(qs_device *device, const char *text, qs_kernel_fact *out, int *count) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    return qs_device_candidates(device, &one, out, count);
}

/* All but integers, whose engines are compiled, and padding that is not alike on both sides have a plan, which stands first where its
 * family is asked for; names are a kernel's own. */
static void every_case_has_plans(void **state) {
    (void)state;
    qs_device *device = described();
    for (const char *const *text = qs_op_of("conv2d")->cases; *text; text++) {
        qs_kernel_fact all[QS_MOST_CANDIDATES];
        int count = 0;
        qs_case one;
        assert_ok(qs_case_parse(*text, &one));
        if (has_integers(&one) || one.attributes.padding_more[0] || one.attributes.padding_more[1]) continue;
        if (candidates(device, *text, all, &count) != QS_OK) fail_msg("%s: %s", *text, qs_message());
        if (strncmp(all[0].kernel, "cudnn:", 6) != 0) fail_msg("%s: the first kernel is %s", *text, all[0].kernel);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < i; k++)
                assert_string_not_equal(all[i].kernel, all[k].kernel);
    }
    qs_device_close(device);
}

/* How the library is asked: the first kernel's name begins so. */
static void ways(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
    } expected[] = {
        {"conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] bias=fp32[16] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "cudnn:eng"},
        {"conv2d/forward src=tf32[2,16,8,8] weights=tf32[16,16,3,3] bias=fp32[16] dst=tf32[2,16,8,8] kernel=3x3 padding=1x1", "cudnn:eng"},
        {"conv2d/forward src=bf16[2,16,8,8] weights=bf16[16,16,3,3] dst=bf16[2,16,8,8] kernel=3x3 padding=1x1", "cudnn:eng"},
        {"conv2d/weight_gradient src=bf16[2,16,8,8] diff_dst=bf16[2,16,8,8] diff_weights=fp32[16,16,3,3] kernel=3x3 padding=1x1",
         "cudnn:short:eng"},
        {"conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] dst=bf16[2,16,8,8] kernel=3x3 padding=1x1", "cudnn:wide:eng"},
        {"conv2d/forward src=fp(4,3,4)[2,16,8,8] weights=fp(4,3,4)[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "cudnn:wide:eng"},
    };
    qs_device *device = described();
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        qs_kernel_fact all[QS_MOST_CANDIDATES];
        int count = 0;
        assert_ok(candidates(device, expected[i].text, all, &count));
        if (strncmp(all[0].kernel, expected[i].name, strlen(expected[i].name)) != 0)
            fail_msg("%s: the first kernel is %s", expected[i].text, all[0].kernel);
    }
    qs_device_close(device);
}

/* A short weight gradient has a wide one behind it, which is exact. */
static void short_has_wide_behind_it(void **state) {
    (void)state;
    qs_device *device = described();
    qs_kernel_fact all[QS_MOST_CANDIDATES];
    int count = 0;
    assert_ok(candidates(device,
                         "conv2d/weight_gradient src=bf16[8,64,28,28] diff_dst=bf16[8,64,28,28] diff_weights=fp32[64,64,3,3] kernel=3x3 "
                         "padding=1x1",
                         all, &count));
    int wide = 0;
    while (wide < count && strncmp(all[wide].kernel, "cudnn:wide:", 11) != 0)
        wide++;
    assert_true(wide > 0 && wide < count);
    assert_true(all[wide].scratch_bytes >= 2 * 4 * 8 * 64 * 28 * 28);
    qs_device_close(device);
}

/* What was planned once is not asked of the library again; behind a trim it is, and gives the same. */
static void facts_repeat(void **state) {
    (void)state;
    const char *text =
        "conv2d/input_gradient weights=fp16[32,16,3,3] diff_dst=fp16[2,32,4,4] diff_src=fp16[2,16,8,8] kernel=3x3 stride=2x2 "
        "padding=1x1";
    qs_device *device = described();
    qs_kernel_fact fact[3];
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    for (int i = 0; i < 3; i++) {
        if (i == 2) qs_device_trim(device);
        assert_ok(qs_device_fact(device, &one, &fact[i]));
        assert_string_equal(fact[i].kernel, fact[0].kernel);
        assert_true(fact[i].scratch_bytes == fact[0].scratch_bytes);
    }
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_has_plans), cmocka_unit_test(ways),
                                       cmocka_unit_test(short_has_wide_behind_it), cmocka_unit_test(facts_repeat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
