// SPDX-License-Identifier: Apache-2.0
// labels: short
/* block_round: on every device as by reference; draws follow the global sample; what it has no meaning for is refused. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("block_round");
}

TEST(ranks_draw_alike) {
    bound whole, half;
    bound_parse(&whole, "block_round/forward src=fp32[4,40,3,3] dst=bf16[4,40,3,3] axis=1 rounding=stochastic blocks=mxfp4 batched", 112);
    bound_parse(&half, "block_round/forward src=fp32[2,40,3,3] dst=bf16[2,40,3,3] axis=1 rounding=stochastic blocks=mxfp4 batched", 112);
    memcpy(half.operands[0].data, (char *)whole.operands[0].data + 2 * 360 * 4, 2 * 360 * 4);
    half.run.first_sample = 2;
    bound_run(&whole);
    bound_run(&half);
    assert_memory_equal(half.operands[1].data, (char *)whole.operands[1].data + 2 * 360 * 2, 2 * 360 * 2);
    bound_release(&whole);
    bound_release(&half);
}

static void refuse(const char *text, const char *message) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    assert_refused(qs_case_check(&one), QS_USAGE, message);
}

TEST(refusals) {
    qs_case one;
    refuse("block_round/forward src=fp32[4,32] dst=bf16[4,32] axis=1", "blocks=FORMAT is missing");
    refuse("block_round/forward src=fp32[4,32] dst=bf16[4,32] axis=1 blocks=nvfp4", "dst is in fp32");
    refuse("block_round/forward src=fp32[4,32] dst=fp16[4,32] axis=1 blocks=mxfp8", "dst is in fp32 or, of mxfp8, in bf16");
    refuse("cast/forward src=fp32[4,32] dst=bf16[4,32] blocks=mxfp8", "block_round knows them");
    assert_refused(qs_case_parse("block_round/forward src=fp32[4,32] dst=bf16[4,32] blocks=mx(e4m3,33)", &one), QS_USAGE, "block '33'");
}

TEST_MAIN(cases, ranks_draw_alike, refusals)
