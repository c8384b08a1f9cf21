// SPDX-License-Identifier: Apache-2.0
// labels: short
/* dequantize: code times step, and the way back from quantize. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("dequantize");
}

TEST(products) {
    for (const char *const *text = qs_op_of("dequantize")->cases; *text; text++) {
        bound b;
        bound_parse(&b, *text, 141);
        bound_run(&b);
        float *x = factor_values(&b, QS_SRC, QS_SRC_GROUP), *y = tensor_values(bound_tensor(&b, QS_DST));
        int64_t rows = bound_count(&b, QS_SRC_STEP), count = bound_count(&b, QS_SRC);
        for (int64_t i = 0; i < count; i++) {
            float product = x[i] * bound_fp32(&b, QS_SRC_STEP)[i / (count / rows)];
            assert_true(y[i] == qs_round_value(bound_tensor(&b, QS_DST)->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, product, 0, NULL));
        }
        free(x), free(y);
        bound_release(&b);
    }
}

/* Codes survive dequantization and a second quantization with nearest-even: the values stand on the grid. */
TEST(codes_come_back) {
    bound back, again;
    bound_parse(&back, "dequantize/forward src=int8[7,33] src_step=fp32[7] dst=fp32[7,33] per_channel", 142);
    bound_parse(&again, "quantize/forward src=fp32[7,33] dst=int8[7,33] dst_step=fp32[7] per_channel", 142);
    for (int i = 0; i < 7; i++) {
        bound_fp32(&back, QS_SRC_STEP)[i] = ldexpf(1, -i);
        ((int8_t *)bound_tensor(&back, QS_SRC)->data)[i * 33] = 127; /* so that each row finds its step again */
    }
    bound_run(&back);
    memcpy(bound_fp32(&again, QS_SRC), bound_fp32(&back, QS_DST), 7 * 33 * 4);
    bound_run(&again);
    assert_memory_equal(bound_tensor(&again, QS_DST)->data, bound_tensor(&back, QS_SRC)->data, 7 * 33);
    bound_release(&back);
    bound_release(&again);
}

TEST_MAIN(cases, products, codes_come_back)
