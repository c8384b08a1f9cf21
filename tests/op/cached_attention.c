// SPDX-License-Identifier: Apache-2.0
// labels: short
/* cached_attention: that positions one by one give what causal attention gives of the whole sequence, that rows behind a place mean
 * nothing, places that are not there; what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("cached_attention");
}

enum { POSITIONS = 7, HEADS = 4, KEY_HEADS = 2, WIDTH = 3, KEYS = KEY_HEADS * WIDTH };

/* The positions of `whole` from `place` on, as many as `part` has, through the caches that `part` holds. */
static void part_run(bound *part, bound *whole, int32_t place, int64_t positions, float *dst) {
    static const qs_role roles[] = {QS_SRC, QS_SRC2, QS_SRC3};
    for (int i = 0; i < 3; i++) {
        const int64_t channels = i == 0 ? HEADS * WIDTH : KEYS;
        memcpy(bound_fp32(part, roles[i]), bound_fp32(whole, roles[i]) + place * channels, (size_t)(positions * channels) * sizeof(float));
    }
    *(int32_t *)bound_tensor(part, QS_PLACE)->data = place;
    bound_run(part);
    memcpy(dst + place * HEADS * WIDTH, bound_fp32(part, QS_DST), (size_t)(positions * HEADS * WIDTH) * sizeof(float));
}

/* Sums are double in both, over the same numbers in the same order: results are those of causal attention rounded once, however the
 * sequence is cut, up to the order of one division: an ulp. What the caches held before does not matter. */
static void check_causal(const char *window) {
    bound whole, one, three;
    float dst[POSITIONS * HEADS * WIDTH];
    char text[3][QS_CASE_TEXT];
    snprintf(text[0], sizeof text[0],
             "attention/forward src=fp32[1,12,7] src2=fp32[1,6,7] src3=fp32[1,6,7] dst=fp32[1,12,7] heads=4 key_heads=2 causal=1%s",
             window);
    for (int i = 1; i < 3; i++)
        snprintf(text[i], sizeof text[i],
                 "cached_attention/forward src=fp32[1,12,%d] src2=fp32[1,6,%d] src3=fp32[1,6,%d] place=fp32[1,1] key_cache=fp32[9,6] "
                 "value_cache=fp32[9,6] dst=fp32[1,12,%d] heads=4 key_heads=2%s context=9",
                 2 * i - 1, 2 * i - 1, 2 * i - 1, 2 * i - 1, window);
    bound_parse(&whole, text[0], 21);
    bound_parse(&one, text[1], 22);
    bound_parse(&three, text[2], 23);
    bound_run(&whole);
    for (int32_t place = 0; place < POSITIONS; place++)
        part_run(&one, &whole, place, 1, dst);
    assert_close(POSITIONS * HEADS * WIDTH, dst, bound_fp32(&whole, QS_DST), 0x1p-22, 0, "one by one");
    memset(dst, 0, sizeof dst);
    part_run(&three, &whole, 0, 3, dst);
    part_run(&three, &whole, 3, 3, dst);
    part_run(&three, &whole, 4, 3, dst); /* two of them again */
    assert_close(POSITIONS * HEADS * WIDTH, dst, bound_fp32(&whole, QS_DST), 0x1p-22, 0, "three by three");
    assert_memory_equal(bound_fp32(&three, QS_KEY_CACHE), bound_fp32(&whole, QS_SRC2), POSITIONS * KEYS * sizeof(float));
    bound_release(&whole);
    bound_release(&one);
    bound_release(&three);
}

TEST(is_causal_attention) {
    check_causal("");
    check_causal(" window=3");
    check_causal(" window=1"); /* itself alone */
}

TEST(places) {
    static const int32_t none[] = {-1, 8, INT32_MAX, INT32_MIN};
    bound b;
    bound_parse(&b,
                "cached_attention/forward src=fp32[1,12,2] src2=fp32[1,6,2] src3=fp32[1,6,2] place=fp32[1,1] key_cache=fp32[9,6] "
                "value_cache=fp32[9,6] dst=fp32[1,12,2] heads=4 key_heads=2 context=9",
                24);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        *(int32_t *)bound_tensor(&b, QS_PLACE)->data = none[i];
        assert_refused(qs_case_reference(&b.one, b.operands, &b.run), QS_USAGE, "there are places 0 to 8");
    }
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("cached_attention/forward src=fp32[2,4,1] src2=fp32[2,4,1] src3=fp32[2,4,1] place=fp32[1,1] key_cache=fp32[9,4] "
                   "value_cache=fp32[9,4] dst=fp32[2,4,1] heads=2 context=9",
                   "those of one sample");
    expect_refused("cached_attention/forward src=fp32[1,4,3] src2=fp32[1,4,3] src3=fp32[1,4,3] place=fp32[1,1] key_cache=fp32[2,4] "
                   "value_cache=fp32[2,4] dst=fp32[1,4,3] heads=2 context=2",
                   "caches of 2 places for 3 positions");
    expect_refused("cached_attention/forward src=fp32[1,4,3] src2=fp32[1,4,2] src3=fp32[1,4,2] place=fp32[1,1] key_cache=fp32[9,4] "
                   "value_cache=fp32[9,4] dst=fp32[1,4,3] heads=2 context=9",
                   "3 queries and 2 keys");
    expect_refused("cached_attention/forward src=fp32[1,4,1] src2=fp32[1,4,1] src3=fp32[1,4,1] place=fp32[1,1] key_cache=fp32[8,4] "
                   "value_cache=fp32[9,4] dst=fp32[1,4,1] heads=2 context=9",
                   "key_cache");
    expect_refused("cached_attention/forward src=fp32[1,4,1] src2=fp32[1,4,1] src3=fp32[1,4,1] place=fp32[1,2] key_cache=fp32[9,4] "
                   "value_cache=fp32[9,4] dst=fp32[1,4,1] heads=2 context=9",
                   "place");
    expect_refused("cached_attention/forward src=fp32[1,4,1] src2=fp32[1,4,1] src3=fp32[1,4,1] place=fp32[1,1] key_cache=fp32[9,4] "
                   "value_cache=fp32[9,4] dst=fp32[1,4,1] heads=3 context=9",
                   "do not divide the 4 channels");
}

TEST_MAIN(cases, is_causal_attention, places, refusals)
