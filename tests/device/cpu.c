// SPDX-License-Identifier: Apache-2.0
/* The device cpu on every operator's case list, at every ceiling: equal to the reference within derived tolerances, guards intact, equal
 * bits when run twice or in other scratch, close with other threads; and what it must refuse. */
// labels: short
#include "device_support.h"
#include "larger_cases.h"
#include "special_values.h"
#include "kit/integer_cases.h"

typedef void (*check_case)(qs_device *device, const qs_case *one, const char *text);

static int others_seen; /* candidates behind the first ones */

static bool offers(const qs_device_info *info, const char *format) {
    for (int i = 0; info->formats[i]; i++) {
        if (!strcmp(info->formats[i], format)) return true;
    }
    return false;
}

/* Calls `check` for each case of each operator that the device takes; the others must be products in a format it does not have. */
static void one_case(qs_device *device, const char *text, check_case check) {
    qs_device_info info;
    qs_kernel_fact fact;
    qs_case one;
    qs_device_describe(device, &info);
    assert_ok(qs_case_parse(text, &one));
    qs_status status = qs_device_fact(device, &one, &fact);
    if (status == QS_OK) {
        check(device, &one, text);
        return;
    }
    assert_int_equal(status, QS_UNSUPPORTED);
    assert_int_equal(one.op->kind, QS_ADJUSTABLE);
    bool missing = strstr(text, "=fp16") || strstr(text, "=tf32") || (strstr(text, "=bf16") && !offers(&info, "bf16"));
    if (!missing) fail_msg("refused: %s", qs_message());
}

static void every_case(qs_device *device, check_case check) {
    const qs_op *op;
    for (size_t i = 0; (op = qs_op_at(i)); i++) {
        for (const char *const *text = op->cases; *text; text++)
            one_case(device, *text, check);
    }
    for (const char *const *text = larger_cases; *text; text++)
        one_case(device, *text, check);
    for (const char *const *text = integer_cases; *text; text++)
        one_case(device, *text, check);
}

/* Hashes of the results of our own kernels since they were set to 0. Products, and what is made of them, stand apart: their bits may depend
 * on the ceiling. */
static uint64_t own_bits, product_bits;

static bool has_products(const qs_op *op) {
    return (op->kind == QS_ADJUSTABLE && !op->inner) || strcmp(op->name, "attention") == 0;
}

static void note_own_bits(const bound_kernel *kernel, const bound *got) {
    if (strncmp(kernel->fact.kernel, "own:", 4)) return;
    uint64_t *bits = has_products(got->one.op) ? &product_bits : &own_bits;
    for (int i = 0; i < got->one.operands; i++) {
        if (got->one.operand[i].format) *bits = qs_hash(got->operands[i].data, tensor_bytes(&got->operands[i]), *bits);
    }
}

static void check_values(qs_device *device, const qs_case *one, const char *text) {
    bound fresh, expected, got, again;
    bound_kernel kernel, other;
    bound_make(&fresh, one, 11);
    smooth(&fresh);
    bound_copy(&expected, one, &fresh);
    bound_copy(&got, one, &fresh);
    bound_copy(&again, one, &fresh);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    note_own_bits(&kernel, &got);
    /* a second kernel, whose scratch is used twice, on fresh operands each time, and which outlives a trim */
    kernel_make(&other, device, &again);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1) qs_device_trim(device);
        bound_share(&again, &fresh);
        assert_ok(kernel_run(&other, &again.run));
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
    bound_release(&fresh);
}

/* Two threads: close to the reference; our own kernels bit for bit as with one. */
static void check_threads(qs_device *device, const qs_case *one, const char *text) {
    bound expected, got;
    bound_kernel kernel;
    bound_make(&expected, one, 11);
    smooth(&expected);
    bound_copy(&got, one, &expected);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    note_own_bits(&kernel, &got);
    kernel_release(&kernel);
    bound_release(&expected);
    bound_release(&got);
}

/* Both passes over all cases; our own kernels must not show threads in a single bit, nor, but for products, the ceiling. */
TEST(test_cases) {
    uint64_t bits[2], products[2];
    for (int threads = 1; threads <= 2; threads++) {
        qs_device *device = open_device("cpu", test_ceiling, threads, 1);
        own_bits = product_bits = 0;
        every_case(device, threads == 1 ? check_values : check_threads);
        bits[threads - 1] = own_bits;
        products[threads - 1] = product_bits;
        qs_device_close(device);
    }
    assert_true(bits[0] == bits[1] && products[0] == products[1]);
    if (*shared_bits == 0) *shared_bits = bits[0];
    assert_true(*shared_bits == bits[0]);
}

/* Every candidate, not only the one that is taken: the names tell them apart, facts by name are those of the list, none is out of its
 * scratch, and all agree with the reference. */
static void check_candidates(qs_device *device, const qs_case *one, const char *text) {
    qs_kernel_fact all[QS_MOST_CANDIDATES], own;
    int count = 0;
    assert_ok(qs_device_candidates(device, one, all, &count));
    assert_ok(qs_device_fact(device, one, &own));
    assert_true(count >= 1 && count <= QS_MOST_CANDIDATES);
    assert_string_equal(all[0].kernel, own.kernel);
    for (int i = 1; i < count; i++) {
        bound expected, got;
        bound_kernel kernel;
        char what[QS_CASE_TEXT + 80];
        snprintf(what, sizeof what, "%s by %s", text, all[i].kernel);
        for (int k = 0; k < i; k++)
            if (!strcmp(all[i].kernel, all[k].kernel)) fail_msg("%s: two candidates have this name", what);
        bound_make(&expected, one, 11);
        bound_copy(&got, one, &expected);
        bound_run(&expected);
        kernel_make_named(&kernel, device, all[i].kernel, &got);
        assert_string_equal(kernel.fact.kernel, all[i].kernel);
        assert_true(kernel.fact.scratch_bytes == all[i].scratch_bytes && kernel.fact.allocates == all[i].allocates);
        assert_ok(kernel_run(&kernel, &got.run));
        compare_written(&got, &expected, kernel.fact.kernel, what);
        kernel_release(&kernel);
        bound_release(&expected);
        bound_release(&got);
        others_seen++;
    }
}

TEST(test_candidates) {
    for (int threads = 1; threads <= 2; threads++) {
        qs_device *device = open_device("cpu", test_ceiling, threads, 1);
        others_seen = 0;
        every_case(device, check_candidates);
        assert_true(others_seen > 20);
        qs_device_close(device);
    }
}

/* A preferred kernel is taken where it is a candidate of its case, and only there. */
TEST(test_preference) {
    char convolution[] = "conv2d/forward src=fp32[4,16,8,8] weights=fp32[32,16,3,3] dst=fp32[4,32,8,8] kernel=3x3 padding=1x1",
         linear[] = "linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10]", text[QS_CASE_TEXT];
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_kernel_fact all[QS_MOST_CANDIDATES], fact;
    qs_kernel_choice choice[2] = {{.case_text = linear, .kernel = "a kernel of another day"}, {.case_text = text}};
    qs_case one, other;
    qs_device_info info;
    int count = 0;
    assert_ok(qs_case_parse(convolution, &one));
    assert_ok(qs_case_parse(linear, &other));
    qs_case_text(&one, text);
    assert_ok(qs_device_candidates(device, &one, all, &count));
    qs_device_describe(device, &info);
    if (count == 1 && !strcmp(info.library, "own kernels")) { /* built without oneDNN: nothing to prefer */
        qs_device_close(device);
        skip();
    }
    assert_true(count >= 2 && !all[0].tuned);
    memcpy(choice[1].kernel, all[count - 1].kernel, sizeof choice[1].kernel);
    assert_ok(qs_device_prefer(device, 2, choice));
    assert_ok(qs_device_fact(device, &one, &fact));
    assert_string_equal(fact.kernel, all[count - 1].kernel);
    assert_true(fact.tuned);
    bound expected, got;
    bound_kernel kernel;
    bound_make(&expected, &one, 11);
    bound_copy(&got, &one, &expected);
    bound_run(&expected);
    kernel_make(&kernel, device, &got); /* fact and prepared form are of one kernel: the scratch is guarded */
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    kernel_release(&kernel);
    bound_release(&expected);
    bound_release(&got);
    assert_ok(qs_device_fact(device, &other, &fact));
    assert_false(fact.tuned);
    assert_ok(qs_device_fact_of(device, &one, all[0].kernel, &fact)); /* a name goes before what is preferred */
    assert_string_equal(fact.kernel, all[0].kernel);
    assert_false(fact.tuned);
    assert_refused(qs_device_fact_of(device, &one, "a kernel of another day", &fact), QS_MISMATCH, all[0].kernel);
    assert_ok(qs_device_prefer(device, 0, NULL));
    assert_ok(qs_device_fact(device, &one, &fact));
    assert_string_equal(fact.kernel, all[0].kernel);
    assert_false(fact.tuned);
    qs_device_close(device);
}

TEST(test_special_values) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t t = 0; t < COUNT_OF(special_value_cases); t++)
        check_special_values(device, special_value_cases[t], NULL);
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

TEST(test_facts) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    every_case(device, check_fact);
    qs_device_close(device);
}

/* What a kernel takes does not depend on what was run before it: here on matrices of one head, which differ in its stride alone. */
TEST(test_facts_after_others) {
    static const char before[] = "matmul/weight_gradient src=fp32[8,16,16] diff_dst=fp32[8,8,1,16] diff_src2=fp32[8,8,16] heads=1",
                      text[] =
                          "matmul/weight_gradient src=fp32[8,8,16] diff_dst=fp32[8,16,1,16] diff_src2=fp32[8,8,16] heads=1 transposed=1";
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_kernel_fact fresh, again;
    qs_case one;
    bound other;
    bound_kernel kernel;
    assert_ok(qs_case_parse(text, &one));
    assert_ok(qs_device_fact(device, &one, &fresh));
    bound_parse(&other, before, 1);
    kernel_make(&kernel, device, &other);
    assert_ok(qs_device_fact(device, &one, &again));
    assert_string_equal(fresh.kernel, again.kernel);
    assert_int_equal(fresh.scratch_bytes, again.scratch_bytes);
    kernel_release(&kernel);
    bound_release(&other);
    qs_device_close(device);
}

/* 64 products of ±127: a kernel that saturates pairs of products at 16 bits is off by far. */
TEST(test_integer_extremes) {
    static const char *const texts[] = {
        "conv2d/forward src=int8[1,64,4,4] src_step=fp32[1] weights=int8[32,64,2,2] weights_step=fp32[1] dst=fp32[1,32,3,3] kernel=2x2",
        "conv2d/forward src=int8[2,16,4,4] src_step=fp32[1] weights=int8[16,16,1,1] weights_step=fp32[16] dst=fp32[2,16,4,4] kernel=1x1",
        ("conv2d/forward src=int8[2,40,5,5] src_step=fp32[1] weights=int8[40,1,3,3] weights_step=fp32[40] dst=fp32[2,40,5,5] kernel=3x3 "
         "padding=1x1 groups=40"),
        "linear/forward src=int8[8,64] src_step=fp32[1] weights=int8[10,64] weights_step=fp32[1] dst=fp32[8,10]"};
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_device_info info;
    qs_device_describe(device, &info);
    /* Offered where it pays, there for all. */
    if (!strcmp(test_ceiling, "avx2") || !strcmp(test_ceiling, "avx512_core")) assert_false(offers(&info, "int8"));
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        for (int signs = 0; signs < 4; signs++) {
            bound b;
            bound_parse(&b, texts[t], 1);
            memset(bound_tensor(&b, QS_SRC)->data, signs & 1 ? -127 : 127, tensor_bytes(bound_tensor(&b, QS_SRC)));
            memset(bound_tensor(&b, QS_WEIGHTS)->data, signs & 2 ? -127 : 127, tensor_bytes(bound_tensor(&b, QS_WEIGHTS)));
            bound_fp32(&b, QS_SRC_STEP)[0] = 1;
            for (int64_t i = 0; i < bound_count(&b, QS_WEIGHTS_STEP); i++)
                bound_fp32(&b, QS_WEIGHTS_STEP)[i] = 0.5f;
            check_dst(device, &b); /* sums below 2^24, powers of two as steps: no rounding anywhere */
            bound_release(&b);
        }
    }
    qs_device_close(device);
}

TEST(test_refusals) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1), *other = NULL;
    qs_case one;
    qs_kernel_fact fact;
    assert_ok(qs_case_parse("linear/forward src=fp16[8,64] weights=fp16[10,64] dst=fp16[8,10]", &one));
    assert_refused(qs_device_fact(device, &one, &fact), QS_UNSUPPORTED, "fp16");
    /* What a processor does not multiply is the reason, not what one of the kernels is not for. */
    assert_ok(qs_case_parse("conv2d/forward src=bf16[2,16,8,8] weights=bf16[16,16,3,3] dst=bf16[2,16,8,8] kernel=3x3 padding=1x1", &one));
    if (qs_device_fact(device, &one, &fact) != QS_OK)
        assert_refused(qs_device_fact(device, &one, &fact), QS_UNSUPPORTED, "bf16 products need avx512_core_bf16");
    assert_ok(qs_case_parse("linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10]", &one));
    one.operand[0].shape.dim[1] = 65;
    assert_int_equal(qs_device_fact(device, &one, &fact), QS_USAGE);
    if (!memory_is_elsewhere()) { /* one process, one ceiling */
        const char *another = strcmp(test_ceiling, "avx2") ? "avx2" : "all";
        assert_int_equal(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = another, .speed = 1}, &other),
                         QS_USAGE);
    }
    assert_refused(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = "sse9", .speed = 1}, &other), QS_USAGE,
                   "avx2_vnni");
    assert_null(other);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_facts_after_others),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_preference),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_integer_extremes),
    };
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}
