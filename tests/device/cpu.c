// SPDX-License-Identifier: Apache-2.0
/* The device cpu on every operator's case list, at every ceiling: equal to the reference within derived tolerances, guards intact, equal
 * bits when run twice or in other scratch, close with other threads; and what it must refuse. */
// labels: short
#include "device_support.h"

typedef void (*check_case)(qs_device *device, const qs_case *one, const char *text);

static bool offers(const qs_device_info *info, const char *format) {
    for (int i = 0; info->formats[i]; i++) {
        if (!strcmp(info->formats[i], format)) return true;
    }
    return false;
}

/* Calls `check` for each case of each operator that the device takes; the others must be products in a format it does not have. */
static void every_case(qs_device *device, check_case check) {
    qs_device_info info;
    const qs_op *op;
    qs_device_describe(device, &info);
    for (size_t i = 0; (op = qs_op_at(i)); i++) {
        for (const char *const *text = op->cases; *text; text++) {
            qs_case one;
            qs_kernel_fact fact;
            assert_ok(qs_case_parse(*text, &one));
            qs_status status = qs_device_fact(device, &one, &fact);
            if (status == QS_OK) {
                check(device, &one, *text);
                continue;
            }
            assert_int_equal(status, QS_UNSUPPORTED);
            assert_int_equal(op->kind, QS_ADJUSTABLE);
            bool missing = strstr(*text, "=fp16") || (strstr(*text, "=int8") && !offers(&info, "int8")) ||
                           (strstr(*text, "=bf16") && !offers(&info, "bf16"));
            if (!missing) fail_msg("refused: %s", qs_message());
        }
    }
}

static void check_values(qs_device *device, const qs_case *one, const char *text) {
    bound expected, got, again;
    bound_kernel kernel, other;
    bound_make(&expected, one, 11);
    bound_make(&got, one, 11);
    bound_make(&again, one, 11);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(qs_kernel_run(kernel.kernel, &got.run));
    compare_written(&got, &expected, text);
    /* a second kernel, whose scratch is used twice, on fresh operands each time */
    kernel_make(&other, device, &again);
    for (int turn = 0; turn < 2; turn++) {
        bound_fill(&again, 11);
        assert_ok(qs_kernel_run(other.kernel, &again.run));
        for (int i = 0; i < one->operands; i++) {
            if (!one->operand[i].format) continue;
            if (memcmp(got.operands[i].data, again.operands[i].data, tensor_bytes(&got.operands[i]))) {
                fail_msg("%s: %s differs between runs", text, qs_role_name(one->operand[i].role));
            }
        }
    }
    kernel_release(&kernel);
    kernel_release(&other);
    bound_release(&expected);
    bound_release(&got);
    bound_release(&again);
}

static void test_cases(void **state) {
    (void)state;
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    every_case(device, check_values);
    qs_device_close(device);
}

static void check_threads(qs_device *device, const qs_case *one, const char *text) {
    bound expected, got;
    bound_kernel kernel;
    bound_make(&expected, one, 12);
    bound_make(&got, one, 12);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(qs_kernel_run(kernel.kernel, &got.run));
    compare_written(&got, &expected, text);
    kernel_release(&kernel);
    bound_release(&expected);
    bound_release(&got);
}

static void test_two_threads(void **state) {
    (void)state;
    qs_device *device = open_device("cpu", test_ceiling, 2, 1);
    every_case(device, check_threads);
    qs_device_close(device);
}

/* Facts say the same each time they are asked for. */
static void check_fact(qs_device *device, const qs_case *one, const char *text) {
    qs_kernel_fact first, second;
    (void)text;
    assert_ok(qs_device_fact(device, one, &first));
    assert_ok(qs_device_fact(device, one, &second));
    assert_string_equal(first.kernel, second.kernel);
    assert_int_equal(first.scratch_bytes, second.scratch_bytes);
    assert_int_equal(first.allocates, second.allocates);
}

static void test_facts(void **state) {
    (void)state;
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    every_case(device, check_fact);
    qs_device_close(device);
}

/* 64 products of ±127: a kernel that saturates pairs of products at 16 bits is off by far. */
static void test_integer_extremes(void **state) {
    (void)state;
    static const char *const texts[] = {
        "conv2d/forward src=int8[1,64,4,4] src_step=fp32[1] weights=int8[32,64,3,3] weights_step=fp32[1] dst=fp32[1,32,4,4] kernel=3x3 padding=1x1",
        "conv2d/forward src=int8[2,16,4,4] src_step=fp32[1] weights=int8[16,16,1,1] weights_step=fp32[16] dst=fp32[2,16,4,4] kernel=1x1",
        "linear/forward src=int8[8,64] src_step=fp32[1] weights=int8[10,64] weights_step=fp32[1] dst=fp32[8,10]"};
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    bool exact = strcmp(test_ceiling, "avx2") && strcmp(test_ceiling, "avx512_core");
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        for (int signs = 0; signs < 4; signs++) {
            bound expected, got;
            bound_kernel kernel;
            qs_kernel_fact fact;
            bound_parse(&expected, texts[t], 1);
            if (!exact) assert_int_equal(qs_device_fact(device, &expected.one, &fact), QS_UNSUPPORTED);
            memset(bound_tensor(&expected, QS_SRC)->data, signs & 1 ? -127 : 127, tensor_bytes(bound_tensor(&expected, QS_SRC)));
            memset(bound_tensor(&expected, QS_WEIGHTS)->data, signs & 2 ? -127 : 127, tensor_bytes(bound_tensor(&expected, QS_WEIGHTS)));
            bound_fp32(&expected, QS_SRC_STEP)[0] = 1;
            for (int64_t i = 0; i < bound_count(&expected, QS_WEIGHTS_STEP); i++) bound_fp32(&expected, QS_WEIGHTS_STEP)[i] = 0.5f;
            bound_parse(&got, texts[t], 1);
            bound_share(&got, &expected);
            bound_run(&expected);
            if (exact) {
                kernel_make(&kernel, device, &got);
                assert_ok(qs_kernel_run(kernel.kernel, &got.run));
                /* sums below 2^24, powers of two as steps: no rounding anywhere */
                assert_memory_equal(bound_fp32(&got, QS_DST), bound_fp32(&expected, QS_DST), tensor_bytes(bound_tensor(&got, QS_DST)));
                kernel_release(&kernel);
            }
            bound_release(&expected);
            bound_release(&got);
        }
    }
    qs_device_close(device);
}

static void test_refusals(void **state) {
    (void)state;
    qs_device *device = open_device("cpu", test_ceiling, 1, 1), *other = NULL;
    qs_case one;
    qs_kernel_fact fact;
    assert_ok(qs_case_parse("linear/forward src=fp16[8,64] weights=fp16[10,64] dst=fp16[8,10]", &one));
    assert_int_equal(qs_device_fact(device, &one, &fact), QS_UNSUPPORTED);
    assert_non_null(strstr(qs_message(), "fp16"));
    assert_ok(qs_case_parse("linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10]", &one));
    one.operand[0].shape.dim[1] = 65;
    assert_int_equal(qs_device_fact(device, &one, &fact), QS_USAGE);
    /* one process, one ceiling */
    const char *another = strcmp(test_ceiling, "avx2") ? "avx2" : "all";
    assert_int_equal(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = another, .speed = 1}, &other), QS_USAGE);
    assert_int_equal(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = "sse9", .speed = 1}, &other), QS_USAGE);
    assert_non_null(strstr(qs_message(), "avx2_vnni"));
    assert_null(other);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_two_threads),     cmocka_unit_test(test_facts),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_integer_extremes),
    };
    if (!built("cpu")) return 77;
    return run_per_ceiling(tests, sizeof tests / sizeof tests[0]);
}
