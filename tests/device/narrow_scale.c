// SPDX-License-Identifier: Apache-2.0
/* Scales of narrow accumulators' factors: which operands fused lanes take, and that they find their values there. */
// labels: short
#include "kit/kit.h"

#include <float.h>

/* By itself: builds without the device cpu have none of it. */
#include "../../src/device/cpu/narrow/narrow_scale.c"

static qs_narrow narrow_of(const char *text) {
    qs_narrow narrow;
    assert_ok(qs_narrow_find(text, &narrow));
    return narrow;
}

static bool fits(const char *text, const qs__narrow_range range[2], qs__narrow_rule *rule) {
    const qs_narrow narrow = narrow_of(text);
    *rule = (qs__narrow_rule){.adder = strstr(text, "align") ? QS__NARROW_ALIGN_TRUNCATE : QS__NARROW_TOWARD_ZERO,
                              .variant.rounds = narrow.product_bits != 0};
    return qs__narrow_fit(&narrow, 4096, range, rule);
}

TEST(test_ranges) {
    const qs__narrow_range ordinary = qs__narrow_range_of(bits_of(4.5f), bits_of(0x1.8p-20f));
    assert_true(ordinary.finite && ordinary.least == -20 && ordinary.most == 3);
    const qs__narrow_range least = qs__narrow_range_of(1, 1), zeros = qs__narrow_range_of(0, 0);
    assert_true(least.least == -149 && least.most == -148 && zeros.finite && zeros.least < zeros.most);
    assert_false(qs__narrow_range_of(bits_of(INFINITY), 1).finite);
    assert_false(qs__narrow_range_of(bits_of(NAN), 1).finite);
}

TEST(test_accumulators) {
    static const struct {
        const char *text;
        bool fuses;
    } known[] = {{"fp(6,9)/toward-zero", true},
                 {"fp(8,20)/nearest-even", true},
                 {"fp(8,21)/nearest-even", false},
                 {"fp(9,5)/nearest-even", false},
                 {"fp(6,11)/stochastic", true},
                 {"fp(6,12)/stochastic", false},
                 {"fp(6,9)/product(20)/align-truncate", true},
                 {"fp(6,9)/product(21)/align-truncate", false}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const qs_narrow narrow = narrow_of(known[i].text);
        if (qs__narrow_fuses(&narrow, narrow.product_bits != 0) != known[i].fuses) fail_msg("%s", known[i].text);
    }
}

/* Operands of training fit, and what they come to in most accumulators cannot saturate; what lies too far apart does not fit. */
TEST(test_operands) {
    static const struct {
        const char *text;
        qs__narrow_range range[2];
        bool fits, saturates;
    } known[] = {
        {"fp(6,9)/toward-zero", {{true, -30, 3}, {true, -30, 3}}, true, false},
        {"fp(6,9)/align-truncate", {{true, -149, 3}, {true, -149, 10}}, true, false},
        {"fp(6,9)/toward-zero", {{true, -149, 20}, {true, -149, 10}}, true, true},
        {"fp(6,9)/toward-zero", {{true, -149, 128}, {true, -149, 128}}, false, false},
        {"fp(6,9)/toward-zero", {{false, -30, 3}, {true, -30, 3}}, false, false},
        {"fp(8,7)/toward-zero", {{true, -149, 128}, {true, -149, 128}}, true, true},
        {"fp(8,7)/align-truncate", {{true, -149, 128}, {true, -149, 128}}, false, false},
        {"fp(8,7)/align-truncate", {{true, -149, 40}, {true, -149, 40}}, true, false},
        {"fp(6,9)/product(5)/nearest-even", {{true, -149, 3}, {true, -149, 10}}, true, false},
        {"fp(8,9)/product(5)/nearest-even", {{true, -60, 3}, {true, -60, 10}}, true, false},
        {"fp(8,9)/product(5)/nearest-even", {{true, -149, 3}, {true, -149, 10}}, false, false},
        {"fp(6,9)/stochastic", {{true, -30, 3}, {true, -30, 3}}, true, true},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        qs__narrow_rule rule;
        if (fits(known[i].text, known[i].range, &rule) != known[i].fits) fail_msg("%zu: %s", i, known[i].text);
        if (known[i].fits) assert_true(rule.variant.saturates == known[i].saturates);
    }
}

/* A factor either keeps its value, scaled, or makes only products below half of fp32's least place, and so does what it is moved to. */
static void check_factor(const qs__narrow_rule *rule, int i, float value, double largest_other) {
    const double scaled = (double)value * (double)rule->scale[i].factor, products = largest_other * (double)rule->scale[1 - i].factor;
    if (scaled >= (double)rule->scale[i].least) {
        assert_true((double)(value * rule->scale[i].factor) == scaled);
    } else {
        assert_true((double)rule->scale[i].least * products * (double)rule->unit < 0x1p-150);
    }
    assert_true(scaled <= (double)FLT_MAX);
}

static void check_rule(const qs_narrow *narrow, const qs__narrow_range range[2], const qs__narrow_rule *rule) {
    const int bias = (1 << (narrow->exponent_bits - 1)) - 1;
    double least_product = 1, largest_product = 1;
    assert_true(log2((double)rule->scale[0].factor) + log2((double)rule->scale[1].factor) + log2((double)rule->unit) == bias - 127);
    assert_true(rule->result == ldexpf(1, 127 - bias) && rule->largest == qs_narrow_largest(narrow) / (double)rule->result);
    for (int i = 0; i < 2; i++) {
        const double least = ldexp(1, range[i].least) * (double)rule->scale[i].factor;
        for (int e = range[i].least; e < range[i].most; e++)
            check_factor(rule, i, e < -126 ? ldexpf(1, e) : ldexpf(2 - 0x1p-23f, e), ldexp(1, range[1 - i].most));
        least_product *= fmax(least, (double)rule->scale[i].least);
        largest_product *= ldexp(1, range[i].most) * (double)rule->scale[i].factor;
    }
    if (rule->variant.rounds) assert_true(least_product >= (double)FLT_MIN && largest_product * 0x1p23 <= (double)FLT_MAX);
}

TEST(test_scales) {
    static const char *const texts[] = {"fp(6,9)/toward-zero",     "fp(2,3)/nearest-even",           "fp(5,10)/toward-zero",
                                        "fp(7,20)/align-truncate", "fp(8,1)/nearest-even",           "fp(6,9)/product(20)/toward-zero",
                                        "fp(8,7)/align-truncate",  "fp(8,3)/product(1)/nearest-even"};
    static const int ends[] = {-149, -140, -126, -100, -60, -30, -10, 0, 1, 5, 20, 60, 100, 127, 128};
    enum { ENDS = COUNT_OF(ends) };
    int found = 0, tried = 0;
    for (size_t t = 0; t < COUNT_OF(texts); t++)
        for (int pair = 0; pair < ENDS * ENDS * ENDS * ENDS; pair++) {
            const int end[] = {pair % ENDS, pair / ENDS % ENDS, pair / ENDS / ENDS % ENDS, pair / ENDS / ENDS / ENDS};
            const qs__narrow_range range[] = {{true, ends[end[0]], ends[end[1]]}, {true, ends[end[2]], ends[end[3]]}};
            qs__narrow_rule rule;
            if (end[0] >= end[1] || end[2] >= end[3]) continue;
            tried++;
            if (!fits(texts[t], range, &rule)) continue;
            const qs_narrow narrow = narrow_of(texts[t]);
            check_rule(&narrow, range, &rule);
            found++;
        }
    if (found < tried / 4 || found == tried) fail_msg("%d of %d fit", found, tried);
}

TEST_MAIN(test_ranges, test_accumulators, test_operands, test_scales)
