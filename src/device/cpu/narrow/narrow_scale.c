// SPDX-License-Identifier: Apache-2.0
/* See narrow_scale.h. Sums are scaled by 2^s, so that the accumulator's least normal value 2^(1 - bias) becomes 2^-126; factors by 2^a and
 * 2^b with a + b = s. Products are exact inside of a fused multiply-add, whatever their size: only factors must stay what they are.
 *
 * Tiny products. Below 2^-150 as scaled, which is half the least place of fp32 and far less than that of the accumulator, a product acts by
 * its sign alone. A sum is a multiple of the least place, and any such product leaves it (to nearest; by chance, where fp32's places are
 * kept; aligned), or takes it to its neighbour where it has the other sign (toward zero), the same one for all. So factors that make
 * tiny products with every other factor may be moved away from 0 as long as they go on doing so, to where fp32 holds them. */
#include "narrow_scale.h"

#include <math.h>
#include <string.h>

enum {
    LEAST = -126, /* exponent of fp32's least normal value */
    MOST = 128,   /* all its values are below 2^MOST */
    TINY = -151,  /* products below 2^TINY stay tiny where they are rounded */
    STEP = 126,   /* powers of two up to 2^STEP, and down to 2^-STEP, are normal */
    WIDEST = 20   /* mantissa bits of sums and of rounded products: the power of two that finds a place is then larger than what it meets */
};

static int least_of(int a, int b) {
    return a < b ? a : b;
}

static int most_of(int a, int b) {
    return a > b ? a : b;
}

/* floor(log2 magnitude) */
static int exponent_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return ilogbf(value);
}

qs__narrow_range qs__narrow_range_of(uint32_t largest, uint32_t least) {
    const bool finite = largest < UINT32_C(0x7F800000);
    if (!finite || least == 0) return (qs__narrow_range){.finite = finite, .least = 0, .most = 1};
    return (qs__narrow_range){.finite = true, .least = exponent_of(least), .most = exponent_of(largest) + 1};
}

static int bias_of(const qs_narrow *narrow) {
    return (1 << (narrow->exponent_bits - 1)) - 1;
}

static bool draws(const qs_narrow *narrow) {
    return strcmp(qs_adder_name(narrow->adder), "stochastic") == 0;
}

bool qs__narrow_fuses(const qs_narrow *narrow, bool rounds) {
    return narrow->exponent_bits <= 8 && narrow->mantissa_bits <= (draws(narrow) ? QS_WIDEST_GUARDED : WIDEST) &&
           (!rounds || narrow->product_bits <= WIDEST);
}

/* Powers of two for the factors, and the exponents of their magnitudes, from the tiniest that need be told apart. */
typedef struct scaling {
    int power[2], least[2], most[2];
} scaling;

/* Products as they are scaled lie below 2^products. */
static int products_most(const scaling *s) {
    return s->most[0] + s->most[1] + s->power[0] + s->power[1];
}

/* Least power that leaves all values of factor i as they are: up is always exact, down as far as they stay normal. */
static int least_power(const scaling *s, int i) {
    return most_of(-STEP, least_of(0, LEAST - s->least[i]));
}

static int most_power(const scaling *s, int i) {
    return least_of(STEP, MOST - s->most[i]);
}

/* Powers whose sum is `sum`, in the middle of what is possible. */
static bool share(scaling *s, int sum) {
    const int low = most_of(least_power(s, 0), sum - most_power(s, 1)), high = least_of(most_power(s, 0), sum - least_power(s, 1));
    s->power[0] = low + (high - low) / 2;
    s->power[1] = sum - s->power[0];
    return low <= high;
}

/* Rounded products are formed by themselves: the least of them are normal, the power of two that finds the place of the largest is finite;
 * a second power takes them to the scale of sums. */
static bool share_rounding(scaling *s, int sum) {
    const int low = most_of(LEAST - s->least[0] - s->least[1], sum - STEP);
    const int high = least_of(MOST - 24 - s->most[0] - s->most[1], sum + STEP);
    return low <= high && share(s, low + (high - low) / 2);
}

/* Sums stay below 2^sums as scaled. One addition adds at most twice a product: a rounded sum is no further from the exact one than the
 * sum before is. Chunks do that twice, rounded products are up to twice as large. By chance a sum may grow further. */
static int sums_most(int64_t length, int product_most) {
    return product_most + ilogb((double)length) + 1 + 3;
}

bool qs__narrow_saturates(const qs_narrow *narrow, int64_t length, const qs__narrow_range range[2]) {
    return draws(narrow) || !range[0].finite || !range[1].finite || sums_most(length, range[0].most + range[1].most) > bias_of(narrow);
}

bool qs__narrow_fit(const qs_narrow *narrow, int64_t length, const qs__narrow_range range[2], qs__narrow_rule *rule) {
    const int top = bias_of(narrow) + 1, scale = LEAST - (1 - bias_of(narrow));
    if (!range[0].finite || !range[1].finite) return false;
    scaling s = {.most = {range[0].most, range[1].most}};
    for (int i = 0; i < 2; i++)
        s.least[i] = least_of(most_of(range[i].least, TINY - scale - range[1 - i].most), range[i].most - 1);
    if (!(rule->variant.rounds ? share_rounding(&s, scale) : share(&s, scale))) return false;
    const int unit = scale - s.power[0] - s.power[1], product = products_most(&s) + unit, sum = sums_most(length, product);
    /* Aligning adds a power of two whose last place is the accumulator's; else what is too large becomes the largest value in the end. */
    if (rule->adder == QS__NARROW_ALIGN_TRUNCATE && most_of(product, least_of(sum, top + scale)) + 24 - narrow->mantissa_bits > MOST)
        return false;
    for (int i = 0; i < 2; i++)
        rule->scale[i] = (qs__narrow_scale){.factor = ldexpf(1, s.power[i]),
                                            .least = s.least[i] > range[i].least ? ldexpf(1, s.least[i] + s.power[i]) : 0};
    rule->unit = ldexpf(1, unit);
    rule->result = ldexpf(1, -scale);
    rule->largest = ldexp(qs_narrow_largest(narrow), scale);
    rule->variant.saturates = qs__narrow_saturates(narrow, length, range);
    return true;
}
