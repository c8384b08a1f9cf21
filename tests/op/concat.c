// SPDX-License-Identifier: Apache-2.0
// labels: short
/* concat: channels in place, gradients handed back, shape and format rules. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("concat");
}

TEST(gradients) {
    check_gradients("concat");
}

/* By hand: two positions of 2 and 3 channels; and back. Agrees with torch.cat((a, b), 1) and its gradient. */
TEST(channels) {
    static const float left[] = {1, 2, 6, 7}, right[] = {3, 4, 5, 8, 9, 10};
    bound b, back;
    bound_parse(&b, "concat/forward src=fp32[1,2,1,2] src2=fp32[1,3,1,2] dst=fp32[1,5,1,2]", 61);
    memcpy(bound_fp32(&b, QS_SRC), left, sizeof left);
    memcpy(bound_fp32(&b, QS_SRC2), right, sizeof right);
    bound_run(&b);
    for (int i = 0; i < 10; i++)
        assert_true(bound_fp32(&b, QS_DST)[i] == (float)(i + 1));
    bound_parse(&back, "concat/backward diff_dst=fp32[1,5,1,2] diff_src=fp32[1,2,1,2] diff_src2=fp32[1,3,1,2]", 62);
    memcpy(bound_fp32(&back, QS_DIFF_DST), bound_fp32(&b, QS_DST), 10 * sizeof(float));
    bound_run(&back);
    assert_memory_equal(bound_fp32(&back, QS_DIFF_SRC), left, sizeof left);
    assert_memory_equal(bound_fp32(&back, QS_DIFF_SRC2), right, sizeof right);
    bound_release(&b);
    bound_release(&back);
}

static void refused(const char *text, const char *part) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    assert_refused(qs_case_check(&one), QS_USAGE, part);
}

TEST(rules) {
    const qs_shape src[2] = {qs_shape_of(4, 4, 10, 3, 3), qs_shape_of(4, 4, 10, 3, 2)}, vector = qs_shape_of(1, 4);
    qs_shape dst;
    assert_refused(qs_op_infer(qs_op_of("concat"), &(qs_attributes){0}, src, 0, &dst), QS_USAGE, "[4,10,3,2]");
    assert_int_equal(qs_op_infer(qs_op_of("concat"), &(qs_attributes){0}, (qs_shape[]){vector, vector}, 0, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(qs_op_of("concat"), &(qs_attributes){0}, (qs_shape[]){src[0], vector}, 0, &dst), QS_USAGE);
    refused("concat/forward src=fp32[2,3,4,4] src2=fp32[2,3,4,4] dst=fp32[2,5,4,4]", "[2,6,4,4]");
    refused("concat/forward src=fp32[2,3,4,4] src2=bf16[2,3,4,4] dst=fp32[2,6,4,4]", "src2 is bf16");
    refused("concat/backward diff_dst=fp32[2,6,4,4] diff_src=fp32[2,3,4,4] diff_src2=fp32[2,4,4,4]", "[2,7,4,4]");
    refused("concat/forward src=int8[2,3,4,4] src2=int8[2,3,4,4] dst=int8[2,6,4,4]", "float format");
}

/* Of each sample the positions of one sequence, then those of the other. */
TEST(positions) {
    static const float first[] = {1, 2, 3, 4}, second[] = {5, 6, 7, 8, 9, 10, 11, 12}, both[] = {1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12};
    bound b;
    bound_parse(&b, "concat/forward src=fp32[2,2,1] src2=fp32[2,2,2] dst=fp32[2,2,3] along=1", 31);
    memcpy(bound_fp32(&b, QS_SRC), first, sizeof first);
    memcpy(bound_fp32(&b, QS_SRC2), second, sizeof second);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), both, sizeof both);
    bound_release(&b);
    bound_parse(&b, "concat/backward diff_dst=fp32[2,2,3] diff_src=fp32[2,2,1] diff_src2=fp32[2,2,2] along=1", 32);
    memcpy(bound_fp32(&b, QS_DIFF_DST), both, sizeof both);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), first, sizeof first);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC2), second, sizeof second);
    bound_release(&b);
    expect_refused("concat/forward src=fp32[2,3,1] src2=fp32[2,2,2] dst=fp32[2,2,3] along=1", "differ in their positions only");
}

TEST_MAIN(cases, positions, gradients, channels, rules)
