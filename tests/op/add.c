// SPDX-License-Identifier: Apache-2.0
// labels: short
/* add: sums in every storage, in place, with a relu behind, shape rule. */
#include "norm_support.h"

TEST(cases) {
    check_cases("add");
}

TEST(sums) {
    bound b;
    bound_parse(&b, "add/forward src=fp32[2,3,4,5] src2=fp32[2,3,4,5] dst=fp32[2,3,4,5]", 51);
    bound_run(&b);
    for (int i = 0; i < 120; i++) {
        assert_true(bound_fp32(&b, QS_DST)[i] == bound_fp32(&b, QS_SRC)[i] + bound_fp32(&b, QS_SRC2)[i]);
    }
    bound_release(&b);
}

/* dst may be the memory of src: gradients of shared values are summed so. */
TEST(in_place) {
    bound b, apart;
    const char text[] = "add/forward src=bf16[3,7] src2=fp32[3,7] dst=bf16[3,7]";
    bound_parse(&b, text, 52);
    bound_parse(&apart, text, 52);
    bound_run(&apart);
    qs_tensor operands[QS_MAX_OPERANDS];
    memcpy(operands, b.operands, sizeof operands);
    operands[qs_case_position(&b.one, QS_DST)].data = operands[0].data;
    assert_ok(qs_case_reference(&b.one, operands, &b.run));
    assert_memory_equal(operands[0].data, bound_tensor(&apart, QS_DST)->data, tensor_bytes(&operands[0]));
    bound_release(&b);
    bound_release(&apart);
}

/* Bit for bit add, then relu in the format of dst. */
TEST(relu_behind) {
    int checked = 0;
    for (const char *const *text = qs_op_of("add")->cases; *text; text++) {
        if (!strstr(*text, " relu")) continue;
        check_relu_forward(*text);
        checked++;
    }
    assert_true(checked >= 8);
}

/* What relu does to values that are no ordinary numbers, or become so, it does here. A sum is rounded before it is compared: one is
 * too small for bf16, the last one lies below the ceiling and rounds to it. */
TEST(values_and_mask) {
    const float x[9] = {1, -2, NAN, INFINITY, INFINITY, -0.0f, 0x1p-149f, 3, 0x1.fep0f},
                y[9] = {1, 1, 1, 1, -INFINITY, -0.0f, 0, 4, 0x1.8p-8f};
    const float expected[9] = {2, 0, NAN, 2, NAN, 0, 0, 2, 2};
    bound b;
    bound_parse(&b, "add/forward src=fp32[1,9] src2=fp32[1,9] mask=int8[2] dst=bf16[1,9] ceiling=2 relu", 53);
    memcpy(bound_fp32(&b, QS_SRC), x, sizeof x);
    memcpy(bound_fp32(&b, QS_SRC2), y, sizeof y);
    bound_run(&b);
    float *z = tensor_values(bound_tensor(&b, QS_DST));
    for (int i = 0; i < 9; i++)
        assert_true(isnan(expected[i]) ? isnan(z[i]) : z[i] == expected[i] && !signbit(z[i]));
    const uint8_t *mask = bound_tensor(&b, QS_MASK)->data;
    assert_int_equal(mask[0], 1 << 2 | 1 << 4);
    assert_int_equal(mask[1], 0);
    free(z);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("add/forward src=fp32[3,7] src2=fp32[3,7] mask=int8[3] dst=fp32[3,7]", "needs the attribute relu");
    expect_refused("add/forward src=fp32[3,7] src2=fp32[3,7] mask=int8[2] dst=fp32[3,7] relu", "mask is [2]");
    expect_refused("add/forward src=fp32[3,7] src2=fp32[3,7] dst=fp32[3,7] ceiling=6", "needs the attribute relu");
    expect_refused("multiply/forward src=fp32[3,7] src2=fp32[3,7] dst=fp32[3,7] relu", "only normalisations and add");
}

TEST(shapes) {
    const qs_shape src[2] = {qs_shape_of(2, 4, 10), qs_shape_of(2, 4, 11)};
    qs_shape dst;
    assert_refused(qs_op_infer(qs_op_of("add"), &(qs_attributes){0}, src, 0, &dst), QS_USAGE, "[4,11]");
}

TEST_MAIN(cases, sums, in_place, relu_behind, values_and_mask, refusals, shapes)
