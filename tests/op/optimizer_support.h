// SPDX-License-Identifier: Apache-2.0
/* What every optimiser must keep, on a case with a flag. */
#ifndef QSYNC_TESTS_OPTIMIZER_SUPPORT_H
#define QSYNC_TESTS_OPTIMIZER_SUPPORT_H

#include "kit/cases.h"

/* The weights and states of two runs of one case have equal bits. */
static inline void check_same_results(const bound *left, const bound *right) {
    int compared = 0;
    for (int i = 0; i < left->one.operands; i++) {
        if (!qs_pass_writes(left->one.pass, i) || !left->one.operand[i].format) continue;
        assert_memory_equal(left->operands[i].data, right->operands[i].data, tensor_bytes(&left->operands[i]));
        compared++;
    }
    assert_true(compared >= 2); /* weights, and a state at least */
}

/* A gradient times a power of two, with the loss scale that says so, updates to the same bits. */
static inline void check_loss_scale_divides_out(const char *text, uint64_t seed) {
    bound plain, scaled;
    bound_parse(&plain, text, seed);
    bound_parse(&scaled, text, seed);
    for (int64_t i = 0; i < bound_count(&scaled, QS_SRC); i++)
        bound_fp32(&scaled, QS_SRC)[i] *= 1024;
    scaled.run.loss_scale = 1024;
    bound_run(&plain);
    bound_run(&scaled);
    check_same_results(&plain, &scaled);
    bound_release(&plain);
    bound_release(&scaled);
}

/* A flag of 0 leaves weights and states as they are, whatever the gradient. */
static inline void check_flag_zero_skips(const char *text, uint64_t seed) {
    bound b, before;
    bound_parse(&b, text, seed);
    bound_parse(&before, text, seed);
    bound_fp32(&b, QS_FLAG)[0] = 0;
    bound_fp32(&b, QS_SRC)[0] = NAN;
    bound_run(&b);
    check_same_results(&b, &before);
    bound_release(&b);
    bound_release(&before);
}

#endif
