// SPDX-License-Identifier: Apache-2.0
// labels: short
/* add: sums in every storage, in place, shape rule. */
#include "kit/cases.h"

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
    operands[2].data = operands[0].data;
    assert_ok(qs_case_reference(&b.one, operands, &b.run));
    assert_memory_equal(operands[0].data, apart.operands[2].data, tensor_bytes(&operands[0]));
    bound_release(&b);
    bound_release(&apart);
}

TEST(shapes) {
    const qs_shape src[2] = {qs_shape_of(2, 4, 10), qs_shape_of(2, 4, 11)};
    qs_shape dst;
    assert_refused(qs_op_infer(qs_op_of("add"), &(qs_attributes){0}, src, 0, &dst), QS_USAGE, "[4,11]");
}

TEST_MAIN(cases, sums, in_place, shapes)
