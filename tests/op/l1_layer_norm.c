// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* l1_layer_norm: reference values, gradients by differences, one position at a time, the relu behind; what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "norm_support.h"
#include "kit/vectors.h"

static void cases(void **state) {
    (void)state;
    check_cases("l1_layer_norm");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("l1_layer_norm");
}

static void relu_behind(void **state) {
    (void)state;
    check_relu_behind("l1_layer_norm");
}

static void positions_apart(void **state) {
    (void)state;
    check_positions_apart("l1_layer_norm");
}

/* ---- Reference values: a channel of l1_batch_norm is a position here, whose channels share scale and shift ---- */

enum { LONGEST = 64 };

static void row(const json_t *entry, const char *key, float *out) {
    const json_t *list = json_object_get(entry, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

static double sum_of(bound *b, qs_role role) {
    double sum = 0;
    for (int64_t i = 0; i < bound_count(b, role); i++)
        sum += (double)bound_fp32(b, role)[i];
    return sum;
}

/* dx_numeric comes from central differences in double: good to about 1e-9 of values of order 1; fp32 operands cost 2^-22. */
static void check_vector(const json_t *entry) {
    const int64_t channels = (int64_t)json_array_size(json_object_get(entry, "x"));
    float expected[LONGEST];
    bound forward, backward;
    assert_true(channels <= LONGEST && vectors_number(entry, "eps") == 1e-5);
    layer_bound(&forward, "l1_layer_norm", "forward", 1, channels, 9);
    layer_bound(&backward, "l1_layer_norm", "backward", 1, channels, 9);
    row(entry, "x", bound_fp32(&forward, QS_SRC));
    row(entry, "dy", bound_fp32(&backward, QS_DIFF_DST));
    for (int64_t c = 0; c < channels; c++) {
        bound_fp32(&forward, QS_SCALE)[c] = (float)vectors_number(entry, "gamma");
        bound_fp32(&forward, QS_SHIFT)[c] = (float)vectors_number(entry, "beta");
    }
    bound_run(&forward);
    bound_share(&backward, &forward);
    bound_run(&backward);
    assert_true(fabs((double)bound_fp32(&forward, QS_MEAN)[0] - vectors_number(entry, "mean")) < 0x1p-21);
    assert_true(fabs((double)bound_fp32(&forward, QS_DEVIATION)[0] - vectors_number(entry, "mean_abs_dev")) < 0x1p-21);
    row(entry, "y", expected);
    assert_close(channels, bound_fp32(&forward, QS_DST), expected, 0x1p-20, 0x1p-20, "y");
    row(entry, "dx_numeric", expected);
    assert_close(channels, bound_fp32(&backward, QS_DIFF_SRC), expected, 0x1p-20, 0x1p-20, "dx");
    assert_true(fabs(sum_of(&backward, QS_DIFF_SCALE) - vectors_number(entry, "dgamma")) < 0x1p-18);
    assert_true(fabs(sum_of(&backward, QS_DIFF_SHIFT) - vectors_number(entry, "dbeta")) < 0x1p-18);
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
    check_layer_refused("l1_layer_norm/inference src=fp32[4,1] scale=fp32[1] shift=fp32[1] dst=fp32[4,1]", "one channel");
    check_layer_refused("l1_layer_norm/inference src=fp32[4,2] scale=fp32[4] shift=fp32[2] dst=fp32[4,2]", "scale is [4]");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases),           cmocka_unit_test(gradients),        cmocka_unit_test(relu_behind),
                                       cmocka_unit_test(positions_apart), cmocka_unit_test(reference_values), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
