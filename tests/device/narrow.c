// SPDX-License-Identifier: Apache-2.0
/* Products in narrow accumulators on the device cpu: the bits of the scalar reference, for every adder, kind of lanes and pass, whatever
 * the instruction set and the number of threads; what is not finite; and sums that can be told in advance. */
// labels: short
#include "narrow_support.h"

/* Every adder, with and without chunks that fit the lengths below and that do not, rounded products, subnormal sums (few exponents),
 * saturated ones, and both sides of what floats can carry. */
static const char *const accumulators[] = {
    "fp(6,9)/nearest-even",
    "fp(6,9)/chunk8/nearest-even",
    "fp(6,4)/chunk7/nearest-even",
    "fp(8,23)/nearest-even",
    "fp(4,12)/product(3)/nearest-even",
    "fp(6,9)/toward-zero",
    "fp(4,5)/chunk16/toward-zero",
    "fp(6,9)/chunk8/align-truncate",
    "fp(7,3)/align-truncate",
    "fp(7,2)/align-truncate",
    "fp(7,1)/align-truncate",
    "fp(3,6)/product(5)/align-truncate",
    "fp(6,9)/chunk8/stochastic",
    "fp(9,5)/stochastic",
    "fp(4,11)/chunk7/stochastic",
    "fp(8,16)/chunk16/product(5)/stochastic",
};

#define FORMATS 4
static const char *const formats[FORMATS] = {"e5m2", "fp32", "bf16", "e4m3fn"};

/* F stands for the format. Odd extents, groups, strides that leave pixels without a product, one sample and several. */
static const char *const shapes[] = {
    "conv2d/forward src=F[2,3,5,6] weights=F[18,3,3,3] bias=fp32[18] dst=fp32[2,18,5,6] kernel=3x3 padding=1x1",
    "conv2d/forward src=F[1,6,7,5] weights=F[20,3,3,2] dst=F[1,20,4,3] kernel=3x2 stride=2x2 padding=1x1 groups=2",
    "conv2d/input_gradient weights=F[5,17,3,3] diff_dst=F[2,5,4,3] diff_src=fp32[2,17,7,6] kernel=3x3 stride=2x2 padding=1x1",
    "conv2d/input_gradient weights=F[6,3,2,2] diff_dst=F[1,6,3,3] diff_src=bf16[1,6,8,6] kernel=2x2 stride=3x3 padding=0x1 groups=2",
    "conv2d/forward src=F[2,3,7,6] weights=F[18,3,3,2] dst=F[2,18,3,5] kernel=3x2 stride=2x1 dilation=2x3 padding=1x0 padding_more=1x2",
    ("conv2d/input_gradient weights=F[5,17,3,3] diff_dst=F[2,5,4,3] diff_src=fp32[2,17,9,7] kernel=3x3 stride=2x2 dilation=2x1 "
     "padding=1x1 padding_more=0x-1"),
    ("conv2d/input_gradient weights=F[6,3,3,2] diff_dst=F[1,6,3,4] diff_src=bf16[1,6,8,9] kernel=3x2 stride=2x2 dilation=3x1 padding=1x0 "
     "padding_more=1x0 groups=2"),
    "conv2d/weight_gradient src=F[2,3,7,6] diff_dst=F[2,17,3,5] diff_weights=fp32[17,3,3,2] kernel=3x2 stride=2x1 dilation=2x3 padding=1x0 "
    "padding_more=1x2",
    "conv2d/input_gradient weights=F[3,4,3,3] diff_dst=F[2,3,5,5] diff_src=fp32[2,4,5,5] kernel=3x3 padding=1x1",
    ("conv2d/weight_gradient src=F[3,3,7,6] diff_dst=F[3,17,4,3] diff_weights=fp32[17,3,3,3] diff_bias=fp32[17] kernel=3x3 stride=2x2 "
     "padding=1x1"),
    "conv2d/weight_gradient src=F[2,4,3,3] diff_dst=F[2,6,3,3] diff_weights=fp32[6,2,1,1] kernel=1x1 groups=2",
    "linear/forward src=F[9,33] weights=F[18,33] bias=fp32[18] dst=bf16[9,18]",
    "linear/input_gradient weights=F[21,5] diff_dst=F[11,21] diff_src=F[11,5]",
    "linear/weight_gradient src=F[25,3] diff_dst=F[25,18] diff_weights=fp32[18,3] diff_bias=fp32[18]",
    "linear/forward src=F[3,33,3] weights=F[18,33] bias=fp32[18] dst=bf16[3,18,3]",
    "linear/input_gradient weights=F[21,5] diff_dst=F[3,21,4] diff_src=F[3,5,4]",
    "linear/weight_gradient src=F[5,3,5] diff_dst=F[5,18,5] diff_weights=fp32[18,3] diff_bias=fp32[18]",
    "matmul/forward src=F[2,34,14] src2=F[2,34,18] dst=fp32[2,18,2,14] heads=2 transposed=1",
    "matmul/forward src=F[2,33,2,5] src2=F[2,17,33] dst=bf16[2,34,5] heads=2 key_heads=1 merged=1",
    "matmul/input_gradient src2=F[1,33,9] diff_dst=F[1,9,3,13] diff_src=F[1,33,13] heads=3 transposed=1",
    "matmul/weight_gradient src=F[2,24,25] diff_dst=F[2,18,4,25] diff_src2=fp32[2,12,18] heads=4 key_heads=2 transposed=1",
    "matmul/weight_gradient src=F[2,19,2,26] diff_dst=F[2,34,26] diff_src2=F[2,34,19] heads=2 merged=1",
};

static const char *case_of(size_t shape, size_t format, size_t accumulator, char text[QS_CASE_TEXT]) {
    size_t used = 0;
    for (const char *at = shapes[shape]; *at; at++) {
        const bool placeholder = *at == 'F';
        used += (size_t)snprintf(text + used, QS_CASE_TEXT - used, "%.*s", placeholder ? 8 : 1, placeholder ? formats[format] : at);
    }
    snprintf(text + used, QS_CASE_TEXT - used, " accumulator=%s", accumulators[accumulator]);
    return text;
}

/* Values of very unlike sizes, so that operands of additions are far apart as well as near. */
static void spread_values(bound *b) {
    for (int i = 0; i < b->one.operands; i++) {
        if (!b->one.operand[i].format || qs_pass_writes(b->one.pass, i)) continue;
        float *values = tensor_values(&b->operands[i]);
        for (int64_t k = 0; k < qs_shape_count(&b->operands[i].shape); k++)
            values[k] = ldexpf(values[k], (int)(qs_random_bits(7, (uint64_t)(k + i)) % 9) - 4);
        tensor_store(&b->operands[i], values);
        free(values);
    }
}

static void put_value(bound *b, int64_t every, const float *values, int64_t count) {
    for (int i = 0; i < b->one.operands; i++) {
        if (!b->one.operand[i].format || qs_pass_writes(b->one.pass, i)) continue;
        float *mixed = tensor_values(&b->operands[i]);
        for (int64_t k = i; k < qs_shape_count(&b->operands[i].shape); k += every)
            mixed[k] = values[k / every % count];
        tensor_store(&b->operands[i], mixed);
        free(mixed);
    }
}

TEST(test_bits) {
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 0x1p-140f, 57344.0f, -57344.0f};
    int floats = 0, doubles = 0;
    for (int threads = 1; threads <= 3; threads += 2) {
        qs_device *device = open_device("cpu", test_ceiling, threads, 1);
        for (size_t a = 0; a < COUNT_OF(accumulators); a++)
            for (size_t s = 0; s < COUNT_OF(shapes); s++) {
                const size_t format = (a + s + (size_t)threads / 2) % FORMATS;
                char text[QS_CASE_TEXT];
                bound expected;
                qs_kernel_fact fact;
                bound_parse(&expected, case_of(s, format, a, text), 5 + a);
                expected.run.first_sample = 12345;
                spread_values(&expected);
                if ((a + s) % 5 == 0) put_value(&expected, 11, special, COUNT_OF(special));
                bound_run(&expected);
                check_bits(device, &expected, text);
                assert_ok(qs_device_fact(device, &expected.one, &fact));
                *(strncmp(fact.kernel, "own:narrow:", 11) == 0 ? &floats : &doubles) += 1;
                bound_release(&expected);
            }
        qs_device_close(device);
    }
    if (floats < 20 || doubles < 20) fail_msg("%d cases in floats, %d in doubles", floats, doubles);
}

/* Sums of integers below 2^10 are exact in 9 mantissa bits and more, whatever the adder: they equal those of the kernel library. */
TEST(test_exact_sums) {
    static const char *const plain[] = {
        "conv2d/forward src=fp32[2,8,9,9] weights=fp32[24,8,3,3] dst=fp32[2,24,9,9] kernel=3x3 padding=1x1",
        "conv2d/input_gradient weights=fp32[24,8,3,3] diff_dst=fp32[2,24,5,5] diff_src=fp32[2,8,9,9] kernel=3x3 stride=2x2 padding=1x1",
        "conv2d/weight_gradient src=fp32[2,8,9,9] diff_dst=fp32[2,24,9,9] diff_weights=fp32[24,8,3,3] kernel=3x3 padding=1x1",
        "linear/forward src=fp32[8,100] weights=fp32[40,100] dst=fp32[8,40]"};
    static const char *const wide[] = {"fp(6,10)/align-truncate", "fp(8,10)/chunk64/nearest-even", "fp(6,9)/toward-zero",
                                       "fp(7,10)/chunk16/stochastic"};
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t p = 0; p < COUNT_OF(plain); p++)
        for (size_t w = 0; w < COUNT_OF(wide); w++) {
            bound exact, narrow;
            bound_kernel left, right;
            bound_parse(&exact, plain[p], 3);
            for (int i = 0; i < exact.one.operands; i++) {
                if (!exact.one.operand[i].format) continue;
                float *values = exact.operands[i].data;
                for (int64_t k = 0; k < qs_shape_count(&exact.operands[i].shape); k++)
                    values[k] = (float)(qs_random_bits(11, (uint64_t)(k + 1000 * i)) % 5) - 2;
            }
            qs_case one = exact.one;
            assert_ok(qs_narrow_find(wide[w], &one.attributes.accumulator));
            bound_copy(&narrow, &one, &exact);
            kernel_make(&left, device, &exact);
            kernel_make(&right, device, &narrow);
            assert_ok(kernel_run(&left, &exact.run));
            assert_ok(kernel_run(&right, &narrow.run));
            const int result = exact.one.pass->operands - 1 - (strcmp(one.pass->name, "weight_gradient") == 0);
            const float *a = exact.operands[result].data, *b = narrow.operands[result].data;
            for (int64_t k = 0; k < qs_shape_count(&exact.operands[result].shape); k++)
                if (fabsf(a[k]) >= 1024 || a[k] != b[k])
                    fail_msg("%s in %s: %g, exactly %g", plain[p], wide[w], (double)b[k], (double)a[k]);
            kernel_release(&left);
            kernel_release(&right);
            bound_release(&exact);
            bound_release(&narrow);
        }
    qs_device_close(device);
}

/* 256 products of 1 in 4 mantissa bits. To nearest the sum stays at 32 (32 + 1 is a tie, and even); cut off, it stays there too; chunks of
 * 32 reach 32 each and, added in turn, 256; by chance it is 256 in the mean. */
TEST(test_swamping) {
    static const struct {
        const char *accumulator;
        float sum;
    } by_hand[] = {{"fp(8,4)/nearest-even", 32},           {"fp(8,4)/toward-zero", 32},          {"fp(8,4)/align-truncate", 32},
                   {"fp(8,4)/chunk32/nearest-even", 256},  {"fp(8,4)/chunk32/toward-zero", 256}, {"fp(8,7)/nearest-even", 256},
                   {"fp(5,4)/chunk64/align-truncate", 128}};
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t h = 0; h < COUNT_OF(by_hand); h++)
        for (size_t f = 0; f < FORMATS; f++) {
            char text[QS_CASE_TEXT];
            bound b;
            bound_kernel kernel;
            snprintf(text, sizeof text, "linear/forward src=%s[3,256] weights=%s[5,256] dst=fp32[3,5] accumulator=%s", formats[f],
                     formats[f], by_hand[h].accumulator);
            bound_parse(&b, text, 1);
            float ones[1280];
            for (int i = 0; i < 1280; i++)
                ones[i] = 1;
            tensor_store(bound_tensor(&b, QS_SRC), ones);
            tensor_store(bound_tensor(&b, QS_WEIGHTS), ones);
            kernel_make(&kernel, device, &b);
            assert_ok(kernel_run(&kernel, &b.run));
            for (int i = 0; i < 15; i++)
                if (bound_fp32(&b, QS_DST)[i] != by_hand[h].sum) fail_msg("%s: %g", text, (double)bound_fp32(&b, QS_DST)[i]);
            kernel_release(&kernel);
            bound_release(&b);
        }
    qs_device_close(device);
}

/* The mean over many sums. An addition of 1 where places are P rounds with variance P - 1, 31 at most: a sum has a standard deviation of at
 * most sqrt(256 · 31) = 89, the mean of 4096 of them 1.4; 5 of these are allowed. */
TEST(test_chance) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (int lanes = 0; lanes < 2; lanes++) {
        char text[QS_CASE_TEXT];
        bound b;
        bound_kernel kernel;
        const char *format = lanes ? "fp32" : "e5m2";
        snprintf(text, sizeof text, "linear/forward src=%s[64,256] weights=%s[64,256] dst=fp32[64,64] accumulator=fp(8,4)/stochastic",
                 format, format);
        bound_parse(&b, text, 1);
        static float ones[64 * 256];
        for (int i = 0; i < 64 * 256; i++)
            ones[i] = 1;
        tensor_store(bound_tensor(&b, QS_SRC), ones);
        tensor_store(bound_tensor(&b, QS_WEIGHTS), ones);
        kernel_make(&kernel, device, &b);
        assert_ok(kernel_run(&kernel, &b.run));
        double mean = 0;
        for (int i = 0; i < 4096; i++)
            mean += (double)bound_fp32(&b, QS_DST)[i] / 4096;
        if (fabs(mean - 256) > 7) fail_msg("%s: mean %g", text, mean);
        kernel_release(&kernel);
        bound_release(&b);
    }
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_exact_sums),
        cmocka_unit_test(test_swamping),
        cmocka_unit_test(test_chance),
    };
    if (!backend_exists("cpu")) return 77;
    static const char *const vectors[] = {"all", "avx2", "portable"};
    return run_under(vectors, COUNT_OF(vectors), tests, COUNT_OF(tests));
}
