// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* l1_batch_norm: reference values, gradients by differences, running statistics, the relu behind; what it refuses. */
#include "norm_support.h"

TEST(cases) {
    check_cases("l1_batch_norm");
}

TEST(gradients) {
    check_gradients("l1_batch_norm");
}

TEST(relu_behind) {
    check_relu_behind("l1_batch_norm");
}

/* x = 1, 2, 3, 6: mean 3, mean distance 1.5; running values move a tenth of the way, from 0 and 1, the deviation as it is. */
TEST(running_statistics) {
    bound b;
    bound_parse(&b,
                "l1_batch_norm/forward src=fp32[4,1] scale=fp32[1] shift=fp32[1] mean=fp32[1] deviation=fp32[1] running_mean=fp32[1] "
                "running_deviation=fp32[1] dst=fp32[4,1] epsilon=1e-05 momentum=0.1",
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

TEST(reference_values) {
    check_l1_vectors(vector_bound);
}

TEST(refusals) {
    qs_case one;
    assert_ok(qs_case_parse("l1_batch_norm/inference src=int8[4,2] src_step=fp32[1] scale=fp32[2] shift=fp32[2] running_mean=fp32[2] "
                            "running_deviation=fp32[2] dst=fp32[4,2]",
                            &one));
    assert_refused(qs_case_check(&one), QS_USAGE, "without src_step");
    assert_ok(qs_case_parse("multiply/forward src=fp32[4] src2=fp32[4] dst=fp32[4] relu", &one));
    assert_refused(qs_case_check(&one), QS_USAGE, "only normalisations");
}

TEST_MAIN(cases, gradients, running_statistics, relu_behind, reference_values, refusals)
