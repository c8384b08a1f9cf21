// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Steps whose parts are delayed now and then: the loop's own work is what it was, and what the delays add belongs to the parts. */
#include "kit/kit.h"
#include "../../src/profiler/timing/timing.h"

enum { COUNT = 41, PARTS = 60 };

typedef struct steps {
    double whole[COUNT], before[COUNT], part[COUNT * PARTS], scratch[COUNT];
} steps;

/* Every part takes 50 µs, and one in eight of them 40 more; loading takes 100 µs, the loop 7. */
static void steps_make(steps *out, bool delayed) {
    const uint64_t key = qs_random_key(5, 0, 0, 0);
    for (int i = 0; i < COUNT; i++) {
        out->before[i] = 100;
        out->whole[i] = 107;
        for (int p = 0; p < PARTS; p++) {
            const bool late = delayed && qs_random_uniform(key, (uint64_t)(i * PARTS + p)) < 0.125F;
            out->part[i * PARTS + p] = late ? 90 : 50;
            out->whole[i] += out->part[i * PARTS + p];
        }
    }
}

static qs__split split(steps *one) {
    return qs__split_of(COUNT, PARTS, one->whole, one->before, one->part, one->scratch);
}

TEST(without_delays_parts_are_their_medians) {
    static steps one;
    steps_make(&one, false);
    const qs__split found = split(&one);
    assert_true(found.before == 100 && fabs(found.loop - 7) < 1e-9);
    assert_true(fabs(found.stretch - 1) < 1e-12 && found.whole == 107 + 50 * PARTS);
}

TEST(delays_are_the_parts) {
    static steps one;
    steps_make(&one, true);
    const qs__split found = split(&one);
    /* Of 60 parts some 7.5 are late, 40 µs each: a tenth of 3000 µs. Medians of single parts know nothing of it. */
    assert_true(found.before == 100 && fabs(found.loop - 7) < 1e-9);
    assert_true(found.stretch > 1.06 && found.stretch < 1.14);
    assert_true(fabs(found.before + found.loop + found.stretch * 50 * PARTS - found.whole) < 1e-9 * found.whole);
}

TEST(without_steps_nothing_is_said) {
    static steps one;
    const qs__split found = qs__split_of(0, PARTS, one.whole, one.before, one.part, one.scratch);
    assert_true(found.stretch == 1 && found.whole == 0 && found.loop == 0);
}

TEST_MAIN(without_delays_parts_are_their_medians, delays_are_the_parts, without_steps_nothing_is_said)
