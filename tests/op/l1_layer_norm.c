// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* l1_layer_norm: reference values, gradients by differences, one position at a time, the relu behind; what it refuses. */
#include "norm_support.h"

TEST(cases) {
    check_cases("l1_layer_norm");
}

TEST(gradients) {
    check_gradients("l1_layer_norm");
}

TEST(relu_behind) {
    check_relu_behind("l1_layer_norm");
}

TEST(positions_apart) {
    check_positions_apart("l1_layer_norm");
}

/* ---- Reference values: a channel of l1_batch_norm is a position here, whose channels share scale and shift ---- */

static void position_bound(bound *b, const char *pass, int64_t channels) {
    layer_bound(b, "l1_layer_norm", pass, 1, channels, 9);
}

TEST(reference_values) {
    check_l1_vectors(position_bound);
}

TEST(refusals) {
    check_layer_refused("l1_layer_norm/inference src=fp32[4,1] scale=fp32[1] shift=fp32[1] dst=fp32[4,1]", "one channel");
    check_layer_refused("l1_layer_norm/inference src=fp32[4,2] scale=fp32[4] shift=fp32[2] dst=fp32[4,2]", "scale is [4]");
}

TEST_MAIN(cases, gradients, relu_behind, positions_apart, reference_values, refusals)
