// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* l1_batch_norm: reference values, gradients by differences, running statistics, the relu behind; what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "norm_support.h"
#include "kit/vectors.h"

static void cases(void **state) {
    (void)state;
    check_cases("l1_batch_norm");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("l1_batch_norm");
}

static void relu_behind(void **state) {
    (void)state;
    check_relu_behind("l1_batch_norm");
}

/* x = 1, 2, 3, 6: mean 3, mean distance 1.5; running values move a tenth of the way, from 0 and 1, the deviation as it is. */
static void running_statistics(void **state) {
    (void)state;
    bound b;
    bound_parse(&b,
                "l1_batch_norm/forward src=fp32[4,1] scale=fp32[1] shift=fp32[1] mean=fp32[1] deviation=fp32[1] running_mean=fp32[1] "
                "running_deviation=fp32[1] dst=fp32[4,1] value=1e-05 value2=0.1",
                32);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 6}, 4 * sizeof(float));
    bound_fp32(&b, QS_RUNNING_MEAN)[0] = 0;
    bound_fp32(&b, QS_RUNNING_DEVIATION)[0] = 1;
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_MEAN)[0] == 3);
    assert_true(bound_fp32(&b, QS_DEVIATION)[0] == 1.5f);
    assert_true(fabs((double)bound_fp32(&b, QS_RUNNING_MEAN)[0] - 0.3) < 0x1p-24);
    assert_true(fabs((double)bound_fp32(&b, QS_RUNNING_DEVIATION)[0] - 1.05) < 0x1p-23);
    bound_release(&b);
}

/* ---- Reference values ---- */

static void column(const json_t *entry, const char *key, float *out) {
    const json_t *list = json_object_get(entry, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

static void one_operand(qs_case *one, qs_role role, int64_t rows) {
    bool values = role == QS_SRC || role == QS_DST || role == QS_DIFF_SRC || role == QS_DIFF_DST;
    qs_case_bind(one, role, values ? qs_shape_of(2, rows, (int64_t)1) : qs_shape_of(1, (int64_t)1), qs_format_of("fp32"));
}

static void vector_bound(bound *b, const char *pass, int64_t rows) {
    qs_case one = qs_case_make("l1_batch_norm", pass, NULL);
    for (int i = 0; i < one.operands; i++)
        if (!one.pass->operand[i].optional) one_operand(&one, one.operand[i].role, rows);
    bound_make(b, &one, 9);
}

/* dx_numeric comes from central differences in double: good to about 1e-9 of values of order 1; fp32 operands cost 2^-22. */
static void check_vector(const json_t *entry) {
    const int64_t rows = (int64_t)json_array_size(json_object_get(entry, "x"));
    float expected[64];
    bound forward, backward;
    assert_true(rows <= 64 && vectors_number(entry, "eps") == 1e-5);
    vector_bound(&forward, "forward", rows);
    vector_bound(&backward, "backward", rows);
    column(entry, "x", bound_fp32(&forward, QS_SRC));
    column(entry, "dy", bound_fp32(&backward, QS_DIFF_DST));
    bound_fp32(&forward, QS_SCALE)[0] = (float)vectors_number(entry, "gamma");
    bound_fp32(&forward, QS_SHIFT)[0] = (float)vectors_number(entry, "beta");
    bound_run(&forward);
    bound_share(&backward, &forward);
    bound_run(&backward);
    assert_true(fabs((double)bound_fp32(&forward, QS_MEAN)[0] - vectors_number(entry, "mean")) < 0x1p-21);
    assert_true(fabs((double)bound_fp32(&forward, QS_DEVIATION)[0] - vectors_number(entry, "mean_abs_dev")) < 0x1p-21);
    column(entry, "y", expected);
    assert_close(rows, bound_fp32(&forward, QS_DST), expected, 0x1p-20, 0x1p-20, "y");
    column(entry, "dx_numeric", expected);
    assert_close(rows, bound_fp32(&backward, QS_DIFF_SRC), expected, 0x1p-20, 0x1p-20, "dx");
    assert_true(fabs((double)bound_fp32(&backward, QS_DIFF_SCALE)[0] - vectors_number(entry, "dgamma")) < 0x1p-18);
    assert_true(fabs((double)bound_fp32(&backward, QS_DIFF_SHIFT)[0] - vectors_number(entry, "dbeta")) < 0x1p-18);
    bound_release(&forward);
    bound_release(&backward);
}

static void reference_values(void **state) {
    (void)state;
    json_t *root = vectors_load("l1bn.json"), *entry;
    size_t index;
    if (!root) skip();
    assert_true(json_array_size(root) > 0);
    json_array_foreach(root, index, entry) check_vector(entry);
    json_decref(root);
}

static void refusals(void **state) {
    (void)state;
    qs_case one;
    assert_ok(qs_case_parse("l1_batch_norm/inference src=int8[4,2] src_step=fp32[1] scale=fp32[2] shift=fp32[2] running_mean=fp32[2] "
                            "running_deviation=fp32[2] dst=fp32[4,2]",
                            &one));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
    assert_non_null(strstr(qs_message(), "without src_step"));
    assert_ok(qs_case_parse("add/forward src=fp32[4] src2=fp32[4] dst=fp32[4] relu", &one));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
    assert_non_null(strstr(qs_message(), "only normalisations"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),       cmocka_unit_test(gradients),        cmocka_unit_test(running_statistics),
        cmocka_unit_test(relu_behind), cmocka_unit_test(reference_values), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
