// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The cache that explains how times differ from place to place is found again in constructed times, and what a cold byte costs with it. */
#include "profiler_support.h"

#include "../../src/profiler/timing/timing.h"

enum { PLACES = 12, TRUE_CACHE = 3 };
static const double us_per_byte = 1.25e-4;

/* Places whose cold bytes differ from cache to cache without order, and times that follow those of one cache alone. */
static void times_make(qs__entry *entry, double mean, double slope, uint64_t seed) {
    const uint64_t key = qs_random_key(seed, 0, 0, 0);
    for (int place = 0; place < PLACES; place++) {
        for (int c = 0; c < QS__CACHES; c++)
            assert_ok(qs__samples_add(&entry->cold[c], (double)qs_random_uniform(key, (uint64_t)(place * QS__CACHES + c)) * (2 << 20)));
        assert_ok(qs__samples_add(&entry->kernel_us, mean + slope * entry->cold[TRUE_CACHE].value[place]));
    }
}

static int entry_of(qs__cases *cases, const char *text) {
    qs_case one;
    qs_kernel_row row;
    char canonical[QS_CASE_TEXT];
    assert_ok(qs_case_parse(text, &one));
    assert_ok(qs__cases_lookup(cases, &one, qs_case_text(&one, canonical), &row));
    const int index = qs__cases_find(cases, canonical);
    cases->entry[index].as_kernel = true;
    return index;
}

static void cache_and_slope_are_found(void **state) {
    bench b;
    (void)state;
    if (!backend_exists("ref")) skip();
    bench_open(&b, NULL, "ref", "mlp:width=0.125", 4);
    qs__cases cases = {.device = b.device};
    const int steep = entry_of(&cases, "relu/forward src=fp32[2,9,3,3] dst=fp32[2,9,3,3]");
    const int flat = entry_of(&cases, "add/forward src=bf16[2,5,3,3] src2=bf16[2,5,3,3] dst=fp32[2,5,3,3]");
    times_make(&cases.entry[steep], 500, us_per_byte, 1);
    times_make(&cases.entry[flat], 300, 0, 2);
    assert_int_equal(qs__cache_choose(&cases), qs__cache_bytes[TRUE_CACHE]);
    qs_kernel_cost rows[] = {{.case_text = cases.entry[steep].text}, {.case_text = cases.entry[flat].text}};
    qs_class_profile profile = {.cache_bytes = qs__cache_bytes[TRUE_CACHE], .kernels = 2, .kernel = rows};
    qs__cold_fill(&cases, &profile);
    /* Times are exact, and the prior is the operator's own slope. */
    assert_true(fabs(rows[0].us_per_cold_byte - us_per_byte) < 1e-9);
    assert_true(rows[1].us_per_cold_byte < 1e-12);
    assert_true(rows[0].cold_bytes > 0 && rows[0].cold_bytes < 2 << 20);
    qs__cases_release(&cases);
    bench_close(&b);
}

TEST_MAIN(cache_and_slope_are_found)
