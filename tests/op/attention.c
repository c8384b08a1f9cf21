// SPDX-License-Identifier: Apache-2.0
// labels: short
/* attention: values by hand, gradients by differences, masks, grouped heads, dropout that knows no ranks; what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("attention");
}

TEST(gradients) {
    check_gradients("attention");
}

/* One head of width 1: scores of the query 1 are the keys 0 and ln 3, so the probabilities are 1/4 and 3/4. Query 0 gives halves. */
TEST(by_hand) {
    bound b;
    bound_parse(&b, "attention/forward src=fp32[1,1,2] src2=fp32[1,1,2] src3=fp32[1,2,2] dst=fp32[1,2,2] heads=1", 51);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 0}, 2 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SRC2), (float[]){0, logf(3)}, 2 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SRC3), (float[]){4, 8, -4, 16}, 4 * sizeof(float)); /* by position */
    bound_run(&b);
    const double expected[] = {4.0 / 4 - 4 * 3.0 / 4, 8.0 / 4 + 16 * 3.0 / 4, 0, 12};
    for (int i = 0; i < 4; i++) /* ln 3 is known to half a unit: 2^-24 of it moves a probability by less */
        assert_within((double)bound_fp32(&b, QS_DST)[i], expected[i], 16 * 0x1p-23);
    bound_release(&b);
}

/* A key that is left out, or lies beyond what is seen, may hold any number: the bits of the result stay. */
TEST(what_is_not_seen) {
    bound b, other;
    const char *text =
        "attention/forward src=fp32[1,4,3] src2=fp32[1,4,3] src3=fp32[1,4,3] keep=fp32[1,3] dst=fp32[1,4,3] heads=2 causal=1";
    bound_parse(&b, text, 52);
    bound_parse(&other, text, 52);
    memcpy(bound_tensor(&b, QS_KEEP)->data, (int32_t[]){0, 1, 1}, 3 * sizeof(int32_t));
    memcpy(bound_tensor(&other, QS_KEEP)->data, (int32_t[]){0, 1, 1}, 3 * sizeof(int32_t));
    for (int i = 0; i < 4; i++) {
        bound_fp32(&other, QS_SRC2)[i] = bound_fp32(&other, QS_SRC3)[i] = 1e6f;          /* position 0: left out */
        bound_fp32(&other, QS_SRC2)[8 + i] = bound_fp32(&other, QS_SRC3)[8 + i] = -1e6f; /* position 2: seen by the last query alone */
    }
    bound_run(&b);
    bound_run(&other);
    const float *dst = bound_fp32(&b, QS_DST), *changed = bound_fp32(&other, QS_DST);
    for (int i = 0; i < 4; i++)
        assert_true(dst[i] == 0); /* it sees itself alone, which is left out */
    assert_memory_equal(dst, changed, 8 * sizeof(float));
    assert_memory_equal(dst + 4, bound_fp32(&b, QS_SRC3) + 4, 4 * sizeof(float)); /* one key: its value */
    assert_memory_not_equal(dst + 8, changed + 8, 4 * sizeof(float));
    bound_release(&b);
    bound_release(&other);
}

/* Grouped queries are those of a case whose key heads are written out. */
TEST(grouped_heads) {
    bound grouped, plain;
    bound_parse(&grouped, "attention/forward src=fp32[2,8,3] src2=fp32[2,4,5] src3=fp32[2,4,5] dst=fp32[2,8,3] heads=4 key_heads=2", 53);
    bound_parse(&plain, "attention/forward src=fp32[2,8,3] src2=fp32[2,8,5] src3=fp32[2,8,5] dst=fp32[2,8,3] heads=4", 54);
    memcpy(bound_fp32(&plain, QS_SRC), bound_fp32(&grouped, QS_SRC), 48 * sizeof(float));
    for (int64_t position = 0; position < 10; position++)
        for (int64_t c = 0; c < 8; c++) {
            const int64_t from = position * 4 + c / 4 * 2 + c % 2, to = position * 8 + c;
            bound_fp32(&plain, QS_SRC2)[to] = bound_fp32(&grouped, QS_SRC2)[from];
            bound_fp32(&plain, QS_SRC3)[to] = bound_fp32(&grouped, QS_SRC3)[from];
        }
    bound_run(&grouped);
    bound_run(&plain);
    assert_memory_equal(bound_fp32(&grouped, QS_DST), bound_fp32(&plain, QS_DST), 48 * sizeof(float));
    bound_release(&grouped);
    bound_release(&plain);
}

/* With queries of 0 every probability is 1/64, and with values of 1 the result counts those kept: binomial, within 5 deviations. Two ranks
 * draw what one draws; another step draws anew; inference drops nothing. */
static void dropped(const char *pass, int64_t samples, int64_t first, uint64_t step, float *out) {
    char text[QS_CASE_TEXT];
    bound b;
    snprintf(text, sizeof text,
             "attention/%s src=fp32[%d,2,50] src2=fp32[%d,2,64] src3=fp32[%d,2,64] dst=fp32[%d,2,50] heads=2 probability=0.25", pass,
             (int)samples, (int)samples, (int)samples, (int)samples);
    bound_parse(&b, text, 55);
    memset(bound_fp32(&b, QS_SRC), 0, (size_t)bound_count(&b, QS_SRC) * sizeof(float));
    for (int64_t i = 0; i < bound_count(&b, QS_SRC3); i++)
        bound_fp32(&b, QS_SRC3)[i] = 1;
    b.run.first_sample = first;
    b.run.step = step;
    bound_run(&b);
    memcpy(out, bound_fp32(&b, QS_DST), (size_t)bound_count(&b, QS_DST) * sizeof(float));
    bound_release(&b);
}

TEST(dropout) {
    float whole[400], halves[400], later[400], none[400];
    double kept = 0;
    dropped("forward", 4, 6, 1, whole);
    dropped("forward", 2, 6, 1, halves);
    dropped("forward", 2, 8, 1, halves + 200);
    dropped("forward", 4, 6, 2, later);
    dropped("inference", 4, 6, 1, none);
    assert_memory_equal(whole, halves, sizeof whole);
    assert_memory_not_equal(whole, later, sizeof whole);
    for (int i = 0; i < 400; i++) {
        kept += (double)whole[i] * 64 * 0.75;
        assert_true(none[i] == 1);
    }
    assert_within(kept, 400 * 64 * 0.75, 5 * sqrt(400 * 64 * 0.75 * 0.25));
}

/* Sequences one behind the other are samples: the same bits, draws of dropout included, on whatever rank. */
TEST(sequences_are_as_samples) {
    const char *const keep[] = {" keep=fp32[2,10]", " keep=fp32[4,5]"};
    bound b[2];
    for (int i = 0; i < 2; i++) {
        char text[QS_CASE_TEXT];
        const char *shape = i == 0 ? "[2,4,10]" : "[4,4,5]";
        snprintf(text, sizeof text, "attention/forward src=fp32%s src2=fp32%s src3=fp32%s%s dst=fp32%s heads=2 probability=0.3%s", shape,
                 shape, shape, keep[i], shape, i == 0 ? " sequences=2" : "");
        bound_parse(&b[i], text, 56);
        b[i].run.first_sample = i == 0 ? 3 : 6;
        if (i == 0) continue;
        for (qs_role role = QS_SRC; role <= QS_SRC3; role++)
            memcpy(bound_fp32(&b[1], role), bound_fp32(&b[0], role), 80 * sizeof(float));
        memcpy(bound_tensor(&b[1], QS_KEEP)->data, bound_tensor(&b[0], QS_KEEP)->data, 20 * sizeof(int32_t));
    }
    for (int i = 0; i < 2; i++)
        bound_run(&b[i]);
    assert_memory_equal(bound_fp32(&b[0], QS_DST), bound_fp32(&b[1], QS_DST), 80 * sizeof(float));
    for (int i = 0; i < 2; i++)
        bound_release(&b[i]);
}

/* Values that name their positions, and queries of 0: a result is the mean of the positions that are seen. */
TEST(windows) {
    static const float causal[] = {0, 0.5f, 1, 2, 3}, both[] = {1, 1.5f, 2, 2.5f, 3};
    static const char *const setting[] = {"causal=1 window=3", "window=3"};
    for (int i = 0; i < 2; i++) {
        char text[QS_CASE_TEXT];
        bound b;
        snprintf(text, sizeof text, "attention/forward src=fp32[1,1,5] src2=fp32[1,1,5] src3=fp32[1,1,5] dst=fp32[1,1,5] heads=1 %s",
                 setting[i]);
        bound_parse(&b, text, 57);
        memset(bound_fp32(&b, QS_SRC), 0, 5 * sizeof(float));
        for (int k = 0; k < 5; k++)
            bound_fp32(&b, QS_SRC3)[k] = (float)k;
        bound_run(&b);
        for (int k = 0; k < 5; k++)
            assert_within((double)bound_fp32(&b, QS_DST)[k], (double)(i == 0 ? causal : both)[k], 4 * 0x1p-23);
        bound_release(&b);
    }
}

/* A mask of each query: the lower triangle is what `causal` says, with the same bits. */
TEST(masks_of_queries) {
    bound masked, causal;
    bound_parse(&masked, "attention/forward src=fp32[2,4,6] src2=fp32[2,4,6] src3=fp32[2,4,6] keep=fp32[2,36] dst=fp32[2,4,6] heads=2", 58);
    bound_parse(&causal, "attention/forward src=fp32[2,4,6] src2=fp32[2,4,6] src3=fp32[2,4,6] dst=fp32[2,4,6] heads=2 causal=1", 59);
    for (int i = 0; i < 72; i++)
        ((int32_t *)bound_tensor(&masked, QS_KEEP)->data)[i] = i % 6 <= i / 6 % 6;
    for (qs_role role = QS_SRC; role <= QS_SRC3; role++)
        memcpy(bound_fp32(&causal, role), bound_fp32(&masked, role), 48 * sizeof(float));
    bound_run(&masked);
    bound_run(&causal);
    assert_memory_equal(bound_fp32(&masked, QS_DST), bound_fp32(&causal, QS_DST), 48 * sizeof(float));
    bound_release(&masked);
    bound_release(&causal);
}

TEST(refusals) {
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,3] src3=fp32[1,8,3] dst=fp32[1,8,3] sequences=2",
                   "2 sequences do not divide 3 queries");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,3] src3=fp32[1,8,3] dst=fp32[1,8,3] window=1.5", "whole numbers");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,3] src3=fp32[1,8,3] dst=fp32[1,8,3] heads=3", "do not divide");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,3] src3=fp32[1,8,3] dst=fp32[1,8,3] heads=4 key_heads=3",
                   "which divides the first");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,4,3] src3=fp32[1,8,3] dst=fp32[1,8,3] heads=2", "as many are needed");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,4] src3=fp32[1,8,3] dst=fp32[1,8,3] heads=2", "as many are needed");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,4] src3=fp32[1,8,4] keep=fp32[1,3] dst=fp32[1,8,3] heads=2",
                   "keep is [1,3]");
    expect_refused("attention/forward src=fp32[1,8,3] src2=fp32[1,8,3] src3=fp32[1,4,3] dst=fp32[1,8,3] heads=2", "dst is");
    expect_refused("attention/forward src=fp32[1,8] src2=fp32[1,8,3] src3=fp32[1,8,3] dst=fp32[1,8,3] heads=2", "need the axes N,C,L");
}

TEST_MAIN(cases, gradients, by_hand, what_is_not_seen, grouped_heads, dropout, sequences_are_as_samples, windows, masks_of_queries,
          refusals)
