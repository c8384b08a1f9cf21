// SPDX-License-Identifier: Apache-2.0
/* Products on the device `cuda`: every way to compute a case, against the reference, twice with the same bits, scratch guarded; integer
 * sums exact where they are longest; and what must be refused. */
// labels: short
#include "device_support.h"

/* Beyond the operators' lists: a bias in narrow results, split over rows that divide and that do not; more pieces than int32 holds; codes
 * of shift groups beside 8 bits; formats of 8 bits with extents that need filling up; results in formats that no library writes. */
static const char *const extra[] = {
    "linear/forward src=bf16[256,24] weights=bf16[40,24] bias=fp32[40] dst=bf16[256,40]",
    "linear/forward src=bf16[2,24,96] weights=bf16[40,24] bias=fp32[40] dst=bf16[2,40,96]",
    "linear/forward src=fp16[33,24] weights=fp16[40,24] bias=fp32[40] dst=fp16[33,40]",
    "linear/forward src=bf16[33,24] weights=bf16[40,24] bias=fp32[40] dst=fp32[33,40]",
    "linear/forward src=fp32[33,24] weights=fp32[40,24] bias=fp32[40] dst=bf16[33,40]",
    "linear/forward src=bf16[33,24] weights=bf16[41,24] bias=fp32[41] dst=fp(4,3,4)[33,41]",
    "linear/forward src=bf16[32,24] weights=bf16[40,24] dst=fp(5,4,0)[32,40]",
    "linear/weight_gradient src=bf16[1111,24] diff_dst=bf16[1111,300] diff_weights=fp32[300,24] diff_bias=fp32[300]",
    "linear/weight_gradient src=bf16[64,24,128] diff_dst=bf16[64,40,128] diff_weights=fp32[40,24] diff_bias=fp32[40]",
    "linear/weight_gradient src=fp16[4104,24] diff_dst=fp16[4104,12] diff_weights=fp32[12,24]",
    "linear/weight_gradient src=fp32[97,24] diff_dst=fp32[97,33] diff_weights=fp32[33,24] diff_bias=fp32[33]",
    "linear/forward src=int8[3,5000] src_step=fp32[1] weights=int8[5,5000] weights_step=fp32[5] bias=fp32[5] dst=fp32[3,5]",
    "linear/forward src=int8[32,8192] src_step=fp32[1] weights=int8[16,8192] weights_step=fp32[1] dst=bf16[32,16]",
    "linear/forward src=int8[48,64] src_step=fp32[1] src_group=int8[64] weights=int8[32,64] weights_step=fp32[32] bias=fp32[32] "
    "dst=bf16[48,32] shifts=8",
    "linear/forward src=uint5[48,64] src_step=fp32[1] src_group=int8[64] weights=int8[33,64] weights_step=fp32[33] dst=fp32[48,33] "
    "shifts=3",
    "linear/input_gradient weights=int8[30,64] weights_step=fp32[64] diff_dst=int8[7,30,9] diff_dst_step=fp32[1] diff_src=bf16[7,64,9]",
    "linear/weight_gradient src=int8[70,64,3] src_step=fp32[1] diff_dst=int8[70,30,3] diff_dst_step=fp32[1] diff_weights=fp32[30,64] "
    "diff_bias=fp32[30]",
    "linear/forward src=tf32[32,48] weights=tf32[64,48] bias=fp32[64] dst=fp32[32,64]",
    "linear/forward src=tf32[7,33] weights=tf32[10,33] bias=fp32[10] dst=tf32[7,10]",
    "linear/input_gradient weights=tf32[64,48] diff_dst=tf32[32,64] diff_src=tf32[32,48]",
    "linear/weight_gradient src=tf32[37,48] diff_dst=tf32[37,64] diff_weights=fp32[64,48] diff_bias=fp32[64]",
    "matmul/forward src=tf32[2,32,9] src2=tf32[2,32,7] dst=tf32[2,7,4,9] heads=4 transposed=1",
    "linear/forward src=e4m3fn[32,48] weights=e4m3fn[64,48] dst=bf16[32,64]",
    "linear/forward src=e4m3fn[7,33] weights=e4m3fn[10,33] bias=fp32[10] dst=fp32[7,10]",
    "linear/forward src=e5m2[32,48] weights=e4m3fn[64,48] bias=fp32[64] dst=e4m3fn[32,64]",
    "linear/input_gradient weights=e4m3fn[64,48] diff_dst=e5m2[32,64] diff_src=bf16[32,48]",
    "linear/weight_gradient src=e4m3fn[37,48] diff_dst=e5m2[37,64] diff_weights=fp32[64,48] diff_bias=fp32[64]",
    "linear/forward src=fp(4,3,4)[32,48] weights=fp(4,3,4)[64,48] bias=fp32[64] dst=bf16[32,64]",
    "linear/forward src=bf16[7,33] weights=fp16[10,33] bias=fp32[10] dst=fp16[7,10]",
    "linear/input_gradient weights=fp32[64,48] diff_dst=bf16[9,64,5] diff_src=tf32[9,48,5]",
    "linear/weight_gradient src=bf16[37,48] diff_dst=fp32[37,64] diff_weights=fp32[64,48] diff_bias=fp32[64]",
    "linear/weight_gradient src=e5m2[37,33] diff_dst=fp(6,9,0)[37,10] diff_weights=fp32[10,33] diff_bias=fp32[10]",
    "matmul/forward src=bf16[5,64,40] src2=bf16[5,64,40] dst=bf16[5,40,2,40] heads=2 transposed=1",
    "matmul/weight_gradient src=bf16[3,60,40] diff_dst=bf16[3,40,6,40] diff_src2=bf16[3,20,40] heads=6 key_heads=2 transposed=1",
    "matmul/weight_gradient src=e4m3fn[2,48,17] diff_dst=e5m2[2,17,6,17] diff_src2=bf16[2,16,17] heads=6 key_heads=2 transposed=1",
    "matmul/forward src=e4m3fn[2,32,9] src2=e5m2[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1",
    "conv2d/forward src=e4m3fn[2,32,5,5] weights=e4m3fn[32,16,3,3] bias=fp32[32] dst=bf16[2,32,5,5] kernel=3x3 padding=1x1 groups=2",
    "conv2d/input_gradient weights=e4m3fn[32,16,3,3] diff_dst=e5m2[2,32,3,3] diff_src=fp32[2,32,5,5] kernel=3x3 stride=2x2 padding=1x1 "
    "groups=2",
    "conv2d/weight_gradient src=fp32[4,6,14,14] diff_dst=fp32[4,16,10,10] diff_weights=fp32[16,6,5,5] diff_bias=fp32[16] kernel=5x5",
    "conv2d/weight_gradient src=fp32[4,6,9,9] diff_dst=fp32[4,16,9,9] diff_weights=fp32[16,6,3,3] kernel=3x3 padding=1x1",
    "conv2d/input_gradient weights=fp32[16,6,5,5] diff_dst=fp32[4,16,10,10] diff_src=fp32[4,6,14,14] kernel=5x5",
    "conv2d/forward src=tf32[4,6,14,14] weights=tf32[16,6,5,5] bias=fp32[16] dst=tf32[4,16,10,10] kernel=5x5",
    "matmul/forward src=int8[1,2048,8] src_step=fp32[1] src2=int8[1,2048,40] src2_step=fp32[1] dst=fp32[1,40,1,8] heads=1 transposed=1",
};

static const struct {
    const char *text, *reason;
} refused[] = {
    {"linear/forward src=e5m2[32,48] weights=e5m2[64,48] dst=bf16[32,64]", "e4m3fn"},
    {"matmul/forward src=fp(4,3,4)[2,32,9] src2=fp(4,3,4)[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1", "fp(4,3,4)"},
    {"matmul/forward src=bf16[2,32,9] src2=fp16[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1", "bf16 by fp16"},
    {"linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10] accumulator=fp(6,9)/chunk16/nearest-even", "accumulator"},
};

/* NULL: this machine, or this build, has none. */
static qs_device *gpu(void) {
    const qs_device_options options = device_options("cuda", NULL, 1, 1);
    qs_device *device = NULL;
    if (!backend_exists("cuda")) return NULL;
    return qs_device_open(&options, &device) == QS_OK ? device : NULL;
}

static void check_all(qs_device *device, const char *text) {
    qs_kernel_fact fact[QS_MOST_CANDIDATES];
    int count = 0;
    bound expected;
    bound_parse(&expected, text, 11);
    if (qs_device_candidates(device, &expected.one, fact, &count) != QS_OK) fail_msg("%s: %s", text, qs_message());
    bound_run(&expected);
    for (int i = 0; i < count; i++) {
        bound got, again;
        bound_kernel kernel;
        if (strncmp(fact[i].kernel, "cublaslt", 8) != 0) continue;
        bound_copy(&got, &expected.one, &expected);
        bound_copy(&again, &expected.one, &expected);
        kernel_make_named(&kernel, device, fact[i].kernel, &got);
        assert_ok(kernel_run(&kernel, &got.run));
        kernel.data = &again;
        assert_ok(kernel_run(&kernel, &again.run));
        compare_written(&got, &expected, fact[i].kernel, text);
        for (int k = 0; k < got.one.operands; k++)
            if (got.one.operand[k].format && memcmp(got.operands[k].data, again.operands[k].data, tensor_bytes(&got.operands[k])) != 0)
                fail_msg("%s: %s has other bits the second time in %s", text, fact[i].kernel, qs_role_name(got.one.operand[k].role));
        kernel_release(&kernel);
        bound_release(&got);
        bound_release(&again);
    }
    bound_release(&expected);
}

TEST(test_products) {
    static const char *const names[] = {"linear", "matmul", "attention"};
    qs_device *device = gpu();
    if (!device) skip();
    for (size_t o = 0; o < COUNT_OF(names); o++)
        for (const char *const *text = qs_op_of(names[o])->cases; *text; text++)
            check_all(device, *text);
    for (size_t t = 0; t < COUNT_OF(extra); t++)
        check_all(device, extra[t]);
    qs_device_close(device);
}

/* All codes at the ends of their range: the longest sums that int32 holds, and longer ones. */
TEST(test_longest_sums) {
    static const int64_t lengths[] = {64, 133136, 133152};
    qs_device *device = gpu();
    if (!device) skip();
    for (size_t l = 0; l < COUNT_OF(lengths); l++) {
        char text[QS_CASE_TEXT];
        bound b;
        snprintf(text, sizeof text,
                 "linear/forward src=int8[2,%" PRId64 "] src_step=fp32[1] weights=int8[3,%" PRId64 "] weights_step=fp32[1] dst=fp32[2,3]",
                 lengths[l], lengths[l]);
        bound_parse(&b, text, 1);
        memset(bound_tensor(&b, QS_SRC)->data, 127, tensor_bytes(bound_tensor(&b, QS_SRC)));
        memset(bound_tensor(&b, QS_WEIGHTS)->data, 127, tensor_bytes(bound_tensor(&b, QS_WEIGHTS)));
        bound_fp32(&b, QS_SRC_STEP)[0] = 1;
        bound_fp32(&b, QS_WEIGHTS_STEP)[0] = 0.5f;
        check_dst(device, &b);
        bound_release(&b);
    }
    qs_device_close(device);
}

/* Windows of more bytes than are written at a time: parts of a batch, which add up or lie behind one another. */
TEST(test_parts) {
    static const char *const texts[] = {
        "conv2d/weight_gradient src=bf16[4,8,220,220] diff_dst=bf16[4,2,220,220] diff_weights=fp32[2,8,3,3] diff_bias=fp32[2] kernel=3x3 "
        "padding=1x1",
        "conv2d/weight_gradient src=int8[2,16,310,300] src_step=fp32[1] diff_dst=int8[2,1,310,300] diff_dst_step=fp32[1] "
        "diff_weights=fp32[1,16,3,3] kernel=3x3 padding=1x1",
        "conv2d/forward src=e4m3fn[2,16,310,300] weights=e4m3fn[2,16,3,3] dst=bf16[2,2,310,300] kernel=3x3 padding=1x1"};
    qs_device *device = gpu();
    if (!device) skip();
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        qs_kernel_fact fact[QS_MOST_CANDIDATES];
        int count = 0, i = 0;
        bound expected, got;
        bound_kernel kernel;
        bound_parse(&expected, texts[t], 11);
        assert_ok(qs_device_candidates(device, &expected.one, fact, &count));
        while (i < count && !strstr(fact[i].kernel, ":unfolded"))
            i++;
        assert_true(i < count && fact[i].scratch_bytes < (size_t)(70 << 20));
        bound_copy(&got, &expected.one, &expected);
        bound_run(&expected);
        kernel_make_named(&kernel, device, fact[i].kernel, &got);
        assert_ok(kernel_run(&kernel, &got.run));
        compare_written(&got, &expected, fact[i].kernel, texts[t]);
        kernel_release(&kernel);
        bound_release(&got);
        bound_release(&expected);
    }
    qs_device_close(device);
}

/* What is taken where nobody names a kernel: integers by cuDNN, which scales their sums where they are, and by cuBLASLt where it cannot;
 * pieces of long sums where results are few. */
TEST(test_firsts) {
    static const struct {
        const char *text, *part;
    } expected[] = {
        {"conv2d/forward src=int8[2,32,5,5] src_step=fp32[1] weights=int8[16,32,1,1] weights_step=fp32[16] dst=bf16[2,16,5,5] kernel=1x1",
         "cudnn:eng"},
        {"conv2d/forward src=int8[2,32,5,5] src_step=fp32[1] weights=int8[16,32,3,3] weights_step=fp32[16] dst=bf16[2,16,3,3] kernel=3x3",
         "cudnn:eng"},
        {"conv2d/forward src=int8[2,3,5,5] src_step=fp32[1] weights=int8[16,3,3,3] weights_step=fp32[16] dst=bf16[2,16,3,3] kernel=3x3",
         "cudnn:padded:eng"},
        {"linear/forward src=int8[2,32,5] src_step=fp32[1] weights=int8[16,32] weights_step=fp32[16] bias=fp32[16] dst=bf16[2,16,5]",
         "cudnn:eng"},
        {"linear/forward src=int8[2,32] src_step=fp32[1] src_group=int8[32] weights=int8[16,32] weights_step=fp32[16] dst=fp32[2,16] "
         "shifts=3",
         "cublaslt:"},
        {"linear/input_gradient weights=int8[32,16] weights_step=fp32[16] diff_dst=int8[7,32] diff_dst_step=fp32[1] diff_src=bf16[7,16]",
         "cublaslt:"},
        {"linear/weight_gradient src=bf16[64,24,128] diff_dst=bf16[64,40,128] diff_weights=fp32[40,24] diff_bias=fp32[40]", ":pieces"},
        {"linear/weight_gradient src=bf16[64,24,16] diff_dst=bf16[64,40,16] diff_weights=fp32[40,24] diff_bias=fp32[40]", "cublaslt:"},
    };
    qs_device *device = gpu();
    if (!device) skip();
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        qs_kernel_fact fact;
        qs_case one;
        assert_ok(qs_case_parse(expected[i].text, &one));
        assert_ok(qs_device_fact(device, &one, &fact));
        if (!strstr(fact.kernel, expected[i].part)) fail_msg("%s: the first kernel is %s", expected[i].text, fact.kernel);
        if (strcmp(expected[i].part, ":pieces") != 0) assert_null(strstr(fact.kernel, ":pieces"));
    }
    qs_device_close(device);
}

TEST(test_refusals) {
    qs_device *device = gpu();
    qs_kernel_fact fact;
    if (!device) skip();
    for (size_t t = 0; t < COUNT_OF(refused); t++) {
        qs_case one;
        assert_ok(qs_case_parse(refused[t].text, &one));
        assert_refused(qs_device_fact(device, &one, &fact), QS_UNSUPPORTED, refused[t].reason);
    }
    qs_device_close(device);
}

/* Narrower formats have the higher roofs. */
TEST(test_roof) {
    static const char *const names[] = {"fp32", "bf16", "int8"};
    qs_device *device = gpu();
    if (!device) skip();
    for (size_t i = 1; i < COUNT_OF(names); i++)
        assert_true(qs_device_peak(device, qs_format_of(names[i])) > qs_device_peak(device, qs_format_of(names[i - 1])));
    assert_true(qs_device_peak(device, qs_format_of("int4")) == qs_device_peak(device, qs_format_of("int8")));
    assert_true(qs_device_peak(device, qs_format_of("fp(4,3,4)")) == 0);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_roof),  cmocka_unit_test(test_products), cmocka_unit_test(test_longest_sums),
                                       cmocka_unit_test(test_parts), cmocka_unit_test(test_firsts),   cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
