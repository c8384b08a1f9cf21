// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Attention from its parts (matmul, softmax, matmul) gives what the operator attention gives, forward and backward: the same up to what
 * storing scores, probabilities and their gradients in fp32 costs. */
#include "kit/cases.h"

enum { POSITIONS = 11, HEADS = 6, KEY_HEADS = 2, WIDTH = 8 };

static const char query[] = "fp32[3,48,11]", key[] = "fp32[3,16,11]", pair[] = "fp32[3,11,6,11]";

/* Case texts from a pattern: Q, K and P stand for the shapes of queries, of keys and values, and of scores. */
static void part_make(bound *b, const char *pattern, const char *with) {
    char text[QS_CASE_TEXT];
    size_t used = 0;
    for (const char *at = pattern; *at; at++) {
        const char *shape = *at == 'Q' ? query : *at == 'K' ? key : *at == 'P' ? pair : NULL;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", shape ? 32 : 1, shape ? shape : at);
    }
    snprintf(text + used, sizeof text - used, "%s", with);
    bound_parse(b, text, 41);
}

static void copy_values(bound *to, qs_role role, bound *from, qs_role as) {
    memcpy(bound_tensor(to, role)->data, bound_tensor(from, as)->data, tensor_bytes(bound_tensor(to, role)));
}

static double largest(bound *b, qs_role role) {
    double most = 0;
    for (int64_t i = 0; i < bound_count(b, role); i++)
        most = fmax(most, fabs((double)bound_fp32(b, role)[i]));
    return most;
}

static void expect_same(bound *a, qs_role role, bound *b, qs_role as, double allowed, const char *what) {
    const double size = largest(b, as);
    if (!(allowed < 0.01 * size)) fail_msg("%s: a tolerance of %g for values up to %g tells nothing", what, allowed, size);
    assert_close(bound_count(a, role), bound_fp32(a, role), bound_fp32(b, as), allowed, 0, what);
}

static const char of_scores[] = " heads=6 key_heads=2 transposed=1", of_context[] = " heads=6 key_heads=2 merged=1";

static void compare(bool causal, bool keeps) {
    char of_softmax[96], of_attention[96], fused_forward[96], fused_backward[160], soft_forward[64], soft_backward[96];
    const char *keep = keeps ? " keep=fp32[3,11]" : "", *with_causal = causal ? " causal=1" : "";
    bound scores, soft, context, fused, back, first[2], second[2], middle;
    snprintf(of_softmax, sizeof of_softmax, " scale=%.17g%s", 1 / sqrt(WIDTH), with_causal);
    snprintf(of_attention, sizeof of_attention, " heads=6 key_heads=2%s", with_causal);
    snprintf(fused_forward, sizeof fused_forward, "attention/forward src=Q src2=K src3=K%s dst=Q", keep);
    snprintf(fused_backward, sizeof fused_backward,
             "attention/backward src=Q src2=K src3=K%s diff_dst=Q diff_src=Q diff_src2=K diff_src3=K", keep);
    snprintf(soft_forward, sizeof soft_forward, "softmax/forward src=P%s dst=P", keep);
    snprintf(soft_backward, sizeof soft_backward, "softmax/backward src=P%s diff_dst=P diff_src=P", keep);
    part_make(&fused, fused_forward, of_attention);
    part_make(&back, fused_backward, of_attention);
    part_make(&scores, "matmul/forward src=Q src2=K dst=P", of_scores);
    part_make(&soft, soft_forward, of_softmax);
    part_make(&context, "matmul/forward src=P src2=K dst=Q", of_context);
    part_make(&first[0], "matmul/input_gradient src2=K diff_dst=Q diff_src=P", of_context);
    part_make(&first[1], "matmul/weight_gradient src=P diff_dst=Q diff_src2=K", of_context);
    part_make(&middle, soft_backward, of_softmax);
    part_make(&second[0], "matmul/input_gradient src2=K diff_dst=P diff_src=Q", of_scores);
    part_make(&second[1], "matmul/weight_gradient src=Q diff_dst=P diff_src2=K", of_scores);
    bound_run(&fused);
    bound_share(&back, &fused);
    bound_run(&back);

    copy_values(&scores, QS_SRC, &fused, QS_SRC);
    copy_values(&scores, QS_SRC2, &fused, QS_SRC2);
    bound_run(&scores);
    copy_values(&soft, QS_SRC, &scores, QS_DST);
    if (keeps) copy_values(&soft, QS_KEEP, &fused, QS_KEEP);
    bound_run(&soft);
    copy_values(&context, QS_SRC, &soft, QS_DST);
    copy_values(&context, QS_SRC2, &fused, QS_SRC3);
    bound_run(&context);

    copy_values(&first[0], QS_SRC2, &fused, QS_SRC3);
    copy_values(&first[0], QS_DIFF_DST, &back, QS_DIFF_DST);
    bound_run(&first[0]);
    copy_values(&first[1], QS_SRC, &soft, QS_DST);
    copy_values(&first[1], QS_DIFF_DST, &back, QS_DIFF_DST);
    bound_run(&first[1]);
    copy_values(&middle, QS_SRC, &scores, QS_DST);
    if (keeps) copy_values(&middle, QS_KEEP, &fused, QS_KEEP);
    copy_values(&middle, QS_DIFF_DST, &first[0], QS_DIFF_SRC);
    bound_run(&middle);
    copy_values(&second[0], QS_SRC2, &fused, QS_SRC2);
    copy_values(&second[0], QS_DIFF_DST, &middle, QS_DIFF_SRC);
    bound_run(&second[0]);
    copy_values(&second[1], QS_SRC, &fused, QS_SRC);
    copy_values(&second[1], QS_DIFF_DST, &middle, QS_DIFF_SRC);
    bound_run(&second[1]);

    /* A stored score is off by half a unit of 2^-23, which moves a probability by as much of itself as 1 / sqrt(WIDTH) of that, once by
     * itself and once by the sum; the probability is stored with half a unit. Rows of probabilities add up to 1, so that errors of sums
     * over keys are within that share of the largest term. */
    const double share = 0x1p-24 * (1 + 2 * largest(&scores, QS_DST) / sqrt(WIDTH)) * 2, v = largest(&fused, QS_SRC3),
                 k = largest(&fused, QS_SRC2), q = largest(&fused, QS_SRC), dy = largest(&back, QS_DIFF_DST),
                 dp = largest(&first[0], QS_DIFF_SRC), met = POSITIONS * (HEADS / KEY_HEADS);
    expect_same(&context, QS_DST, &fused, QS_DST, share * v, "results");
    expect_same(&first[1], QS_DIFF_SRC2, &back, QS_DIFF_SRC3, share * dy * met, "gradients of values");
    /* The gradient of a score is scale · p (dp - Σ p dp), with two terms up to dp, each off by `share` twice: in p and in what it meets. */
    const double of_score = 4 * share * dp / sqrt(WIDTH);
    expect_same(&second[0], QS_DIFF_SRC, &back, QS_DIFF_SRC, of_score * k, "gradients of queries");
    expect_same(&second[1], QS_DIFF_SRC2, &back, QS_DIFF_SRC2, of_score * q * met, "gradients of keys");
    bound *const all[] = {&scores, &soft, &context, &fused, &back, &first[0], &first[1], &middle, &second[0], &second[1]};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        bound_release(all[i]);
}

TEST(plain) {
    compare(false, false);
}
TEST(causal) {
    compare(true, false);
}
TEST(padded) {
    compare(false, true);
}
TEST(causal_and_padded) {
    compare(true, true);
}

TEST_MAIN(plain, causal, padded, causal_and_padded)
