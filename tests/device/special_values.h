// SPDX-License-Identifier: Apache-2.0
/* What elementwise kernels do with values that are no ordinary numbers: as the reference, bit for bit. */
#ifndef QSYNC_TESTS_DEVICE_SPECIAL_VALUES_H
#define QSYNC_TESTS_DEVICE_SPECIAL_VALUES_H

#include "device_support.h"

static const char *const special_value_cases[] = {
    "relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13]",
    "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13]",
    "relu/forward src=fp32[5,13] mask=int8[9] dst=bf16[5,13]",
    "relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13] ceiling=1",
    "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] ceiling=1",
    "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] ceiling=6",
    "relu/forward src=bf16[5,13] mask=int8[9] dst=fp32[5,13] ceiling=1.01171875",
    "relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13] absmax=fp32[1]",
    "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] absmax=fp32[1] ceiling=1",
    "relu/forward src=fp32[5,13] mask=int8[9] dst=fp16[5,13] absmax=fp32[1]",
    "add/forward src=bf16[5,13] src2=bf16[5,13] dst=bf16[5,13] absmax=fp32[1]",
    "add/forward src=bf16[5,13] src2=bf16[5,13] mask=int8[9] dst=bf16[5,13] ceiling=1 relu",
    "add/forward src=bf16[64,65] src2=bf16[64,65] mask=int8[520] dst=bf16[64,65] absmax=fp32[1] relu",
    "relu/backward mask=int8[9] diff_dst=bf16[5,13] diff_dst2=bf16[5,13] diff_src=bf16[5,13]",
    "relu/backward mask=int8[520] diff_dst=bf16[64,65] diff_dst2=bf16[64,65] diff_src=bf16[64,65] absmax=fp32[1]",
    "gate/forward src=bf16[5,13] src2=bf16[5,1] dst=bf16[5,13] absmax=fp32[1]",
    "prelu/forward src=bf16[5,13] scale=fp32[13] dst=bf16[5,13]",
    "permute/forward src=fp32[5,13,3] dst=fp32[5,3,13] extent1=3 extent2=13 order=21",
    "expand/forward src=fp32[5,13] dst=fp32[5,13,3] height=3",
    "reduce_max/forward src=fp32[5,13,3] dst=fp32[5,13,1]",
    "reduce_max/forward src=bf16[5,13] dst=bf16[5,1] over=1",
    "reduce_max/backward src=fp32[5,13,3] diff_dst=fp32[5,13,1] diff_src=fp32[5,13,3]",
    "reduce_max/backward src=bf16[5,13] diff_dst=bf16[5,1] diff_src=bf16[5,13] over=1",
    "pad/forward src=fp32[2,13,3] dst=fp32[2,13,6] padding=1x0 padding_more=1x0 value=-3",
    "cast/forward src=fp32[5,13] dst=bf16[5,13]",
    "cast/forward src=bf16[5,13] dst=fp32[5,13]",
    "max_pool/forward src=fp32[1,5,4,4] mask=int8[1,5,2,2] dst=fp32[1,5,2,2] kernel=2x2 stride=2x2",
    "max_pool/forward src=bf16[1,17,4,4] mask=int8[1,17,2,2] dst=bf16[1,17,2,2] kernel=2x2 stride=2x2",
    "max_pool/forward src=bf16[2,32,6,6] mask=int8[2,32,3,3] dst=bf16[2,32,3,3] kernel=2x2 stride=2x2",
    ("max_pool/backward mask=int8[2,32,3,3] diff_dst=bf16[2,32,3,3] diff_src=bf16[2,32,6,6] kernel=2x2 "
     "stride=2x2"),
    "quantize/forward src=fp32[5,13] absmax=fp32[1] dst=int8[5,13] dst_step=fp32[1]",
    "absmax/forward src=fp32[5,13] absmax=fp32[1]",
    "finite_check/forward src=bf16[5,13] flag=fp32[1]",
    "finite_check/forward src=fp32[5,13] flag=fp32[1]",
    "clip_norm/forward src=fp32[65] clip_norm=0.5"};

/* kernel NULL: the device's own choice. */
static inline void check_special_values(qs_device *device, const char *text, const char *name) {
    static const float values[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 0x1p-140f, -0x1p-140f, 0x1.fffffep127f, -0x1.ff7ffep127f, 1, -1};
    enum { VALUES = COUNT_OF(values) };
    for (size_t skipped = 0; skipped < 3; skipped++) { /* with NaN, with infinities, with finite values only */
        bound expected, got;
        bound_kernel kernel;
        bound_parse(&expected, text, 31);
        bound_parse(&got, text, 31);
        const qs_role role = qs_case_position(&expected.one, QS_SRC) < 0 ? QS_DIFF_DST : QS_SRC;
        float *mixed = tensor_values(bound_tensor(&expected, role));
        size_t first = skipped == 2 ? 3 : skipped;
        for (int64_t i = 0; i < bound_count(&expected, role); i++) {
            if (i % 3 == 0) mixed[i] = values[first + (size_t)(i / 3) % (VALUES - first)];
        }
        tensor_store(bound_tensor(&expected, role), mixed);
        tensor_store(bound_tensor(&got, role), mixed);
        free(mixed);
        bound_run(&expected);
        kernel_make_named(&kernel, device, name, &got);
        assert_ok(kernel_run(&kernel, &got.run));
        for (int i = 0; i < got.one.operands; i++) {
            if (!got.one.operand[i].format) continue;
            if (memcmp(got.operands[i].data, expected.operands[i].data, tensor_bytes(&got.operands[i])))
                fail_msg("%s by %s: %s differs from the reference on special values", text, kernel.fact.kernel,
                         qs_role_name(got.one.operand[i].role));
        }
        kernel_release(&kernel);
        bound_release(&expected);
        bound_release(&got);
    }
}

#endif
