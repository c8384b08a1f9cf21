// SPDX-License-Identifier: Apache-2.0
// labels: short
/* instance_norm: the bits of a group norm whose channels are a group each, gradients, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("instance_norm");
}

TEST(gradients) {
    check_gradients("instance_norm");
}

static void expect_same(const char *instance, const char *group, qs_role written) {
    bound a, b;
    bound_parse(&a, instance, 95);
    bound_parse(&b, group, 95);
    bound_run(&a);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&a, written), bound_fp32(&b, written), (size_t)bound_count(&a, written) * sizeof(float));
    bound_release(&a);
    bound_release(&b);
}

#define FORWARD "/forward src=fp32[2,6,5,7] scale=fp32[6] shift=fp32[6] dst=fp32[2,6,5,7]"
#define BACKWARD \
    "/backward src=fp32[2,6,5,7] scale=fp32[6] diff_dst=fp32[2,6,5,7] diff_src=fp32[2,6,5,7] diff_scale=fp32[6] diff_shift=fp32[6]"

TEST(a_group_for_each_channel) {
    expect_same("instance_norm" FORWARD " epsilon=1e-05", "group_norm" FORWARD " groups=6 epsilon=1e-05", QS_DST);
    expect_same("instance_norm" BACKWARD " epsilon=1e-05", "group_norm" BACKWARD " groups=6 epsilon=1e-05", QS_DIFF_SRC);
}

TEST(refusals) {
    expect_refused("instance_norm/forward src=fp32[2,6] scale=fp32[6] shift=fp32[6] dst=fp32[2,6] epsilon=1e-05", "needs the axes");
    expect_refused("instance_norm/forward src=fp32[2,6,1] scale=fp32[6] shift=fp32[6] dst=fp32[2,6,1] epsilon=1e-05", "no variance");
}

TEST_MAIN(cases, gradients, a_group_for_each_channel, refusals)
