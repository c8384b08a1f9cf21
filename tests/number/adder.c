// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: align_truncate nearest_even toward_zero stochastic
/* The adders against exact integers: every pair of operands of small formats, stochastic rounding over its draws, formats' ends, the order
 * of chunks; and the loops over many sums against the same. */
#include "kit/kit.h"
#include "qsync/number.h"

static qs_narrow narrow_of(const char *adder, int exponent_bits, int mantissa_bits) {
    qs_narrow out = {.exponent_bits = exponent_bits, .mantissa_bits = mantissa_bits};
    assert_ok(qs_adder_find(adder, &out.adder));
    assert_ok(qs_narrow_check(&out));
    return out;
}

/* ---- Exact integers ------------------------------------------------------------------------------------------------------ */

/* A format in units of a quarter of its least subnormal value: value = ± integer. */
typedef struct grid {
    int mantissa_bits;
    int64_t least, largest; /* units in the last place of subnormal values */
    double unit;
} grid;

static grid grid_of(const qs_narrow *narrow) {
    const double unit = ldexp(1, 2 - (1 << (narrow->exponent_bits - 1)) - narrow->mantissa_bits) / 4;
    return (grid){narrow->mantissa_bits, 4, (int64_t)(qs_narrow_largest(narrow) / unit), unit};
}

/* Units in a last place of integers as large as `magnitude`. */
static int64_t place_of(const grid *one, int64_t magnitude) {
    int64_t place = one->least;
    while (magnitude / place >= (int64_t)2 << one->mantissa_bits)
        place *= 2;
    return place;
}

static int64_t bounded(const grid *one, int64_t value) {
    return value > one->largest ? one->largest : value < -one->largest ? -one->largest : value;
}

/* Toward zero, and one place up where twice the rest says so. */
static int64_t rounded(const grid *one, int64_t sum, bool nearest) {
    const int64_t magnitude = llabs(sum), place = place_of(one, magnitude), whole = magnitude / place, rest = magnitude % place;
    const bool up = nearest && (2 * rest > place || (2 * rest == place && whole % 2 == 1));
    return bounded(one, (sum < 0 ? -1 : 1) * (whole + up) * place);
}

static int64_t expected_sum(const grid *one, const char *adder, int64_t a, int64_t b) {
    if (strcmp(adder, "align-truncate") != 0) return rounded(one, a + b, strcmp(adder, "nearest-even") == 0);
    const int64_t large = llabs(a) >= llabs(b) ? a : b, small = large == a ? b : a, place = place_of(one, llabs(large));
    return rounded(one, large + small / place * place, false);
}

static void check_pair(const qs_narrow *narrow, const grid *one, const char *adder, int64_t a, int64_t b) {
    const double got = qs_narrow_add(narrow, (double)a * one->unit, (double)b * one->unit, 0);
    const double expected = (double)expected_sum(one, adder, a, b) * one->unit;
    if (got != expected)
        fail_msg("%s fp(%d,%d): %g + %g is %g, expected %g", adder, narrow->exponent_bits, narrow->mantissa_bits, (double)a * one->unit,
                 (double)b * one->unit, got, expected);
}

/* a runs over the accumulator's values, b over those of a format with two bits more: a product that is finer. */
static void all_pairs(const char *adder, int exponent_bits, int mantissa_bits) {
    const qs_narrow narrow = narrow_of(adder, exponent_bits, mantissa_bits);
    const grid one = grid_of(&narrow), fine = {mantissa_bits + 2, 1, one.largest, one.unit};
    int64_t pairs = 0;
    for (int64_t a = 0; a <= one.largest; a += place_of(&one, a))
        for (int64_t b = 0; b <= fine.largest; b += place_of(&fine, b), pairs += 4) {
            check_pair(&narrow, &one, adder, a, b);
            check_pair(&narrow, &one, adder, a, -b);
            check_pair(&narrow, &one, adder, -a, b);
            check_pair(&narrow, &one, adder, -a, -b);
        }
    assert_true(pairs > 1000);
}

TEST(every_pair_of_small_formats) {
    static const char *const names[] = {"align-truncate", "nearest-even", "toward-zero"};
    for (int n = 0; n < 3; n++) {
        all_pairs(names[n], 3, 2);
        all_pairs(names[n], 4, 3);
        all_pairs(names[n], 4, 1);
        all_pairs(names[n], 3, 5);
    }
}

/* Operands so far apart that doubles cannot hold the sum: what lies below decides nonetheless. */
TEST(rounding_is_once) {
    const qs_narrow even = narrow_of("nearest-even", 10, 4), zero = narrow_of("toward-zero", 10, 4);
    const double tie = 0x1p-5, tiny = 0x1p-90;
    assert_true(qs_narrow_add(&even, 1 + tie, tiny, 0) == 1 + 2 * tie);
    assert_true(qs_narrow_add(&even, 1 + tie, -tiny, 0) == 1);
    assert_true(qs_narrow_add(&even, 1 + tie, 0, 0) == 1);
    assert_true(qs_narrow_add(&even, -1 - tie, -tiny, 0) == -1 - 2 * tie);
    assert_true(qs_narrow_add(&zero, 1, -tiny, 0) == 1 - tie);
    assert_true(qs_narrow_add(&zero, -1, tiny, 0) == tie - 1);
    assert_true(qs_narrow_add(&zero, 1, tiny, 0) == 1);
    /* Aligned to the larger operand, a tiny one is simply not there. */
    const qs_narrow align = narrow_of("align-truncate", 10, 4);
    assert_true(qs_narrow_add(&align, 1, -tiny, 0) == 1);
}

/* Over all draws the share of those rounded up is the part of a place at stake, to its first 16 bits. */
TEST(stochastic_rounding_is_unbiased) {
    const int draws = 1 << 16;
    for (int bits = 2; bits <= 28; bits += 13) {
        const qs_narrow narrow = narrow_of("stochastic", 8, bits);
        const double place = ldexp(1, -bits);
        for (int part = 1; part < 64; part += 31) {
            double sum = 0;
            for (int d = 0; d < draws; d++) {
                const double got = qs_narrow_add(&narrow, 1, part * place / 64, (uint32_t)d << 16);
                assert_true(got == 1 || got == 1 + place);
                sum += got - 1;
            }
            assert_true(sum == draws * part * place / 64);
        }
    }
}

/* Up to 11 bits, places behind those of fp32 are rounded off first, ties to even; beyond, the least rest of a sum decides. */
TEST(guarded_places) {
    const qs_narrow ten = narrow_of("stochastic", 10, 10), four = narrow_of("stochastic", 10, 4), twelve = narrow_of("stochastic", 10, 12);
    const uint32_t highest = UINT32_MAX;
    assert_true(qs_narrow_add(&ten, 1, 0x1p-24, highest) == 1);
    assert_true(qs_narrow_add(&ten, 1, 0x1.01p-24, highest) == 1 + 0x1p-10);
    assert_true(qs_narrow_add(&ten, 1, 0x1.01p-24, highest - 0x80000u) == 1);
    assert_true(qs_narrow_add(&four, 1, -0x1p-90, 0) == 1);
    assert_true(qs_narrow_add(&four, 0x1p-520, 0x1p-514, 0) == 0x1p-514);
    assert_true(qs_narrow_add(&twelve, 1, 0x1p-29, highest) == 1 + 0x1p-12);
    assert_true(qs_narrow_add(&twelve, 1, 0x1p-29 - 0x1p-60, highest) == 1);
}

TEST(ends_of_the_format) {
    for (size_t i = 0; i < qs_adder_count(); i++) {
        const qs_narrow narrow = narrow_of(qs_adder_name(qs_adder_at(i)), 5, 10);
        assert_true(qs_narrow_largest(&narrow) == 65504);
        assert_true(qs_narrow_add(&narrow, 65504, 65504, 0) == 65504);
        assert_true(qs_narrow_add(&narrow, -65504, -1e30, 0) == -65504);
        assert_true(isnan(qs_narrow_add(&narrow, NAN, 1, 0)) && isnan(qs_narrow_add(&narrow, 1, -INFINITY, 0)));
        assert_true(qs_narrow_add(&narrow, 0x1p-24, 0x1p-24, 0) == 0x1p-23);
        assert_true(qs_narrow_add(&narrow, 0, 0, 0) == 0);
        assert_true(qs_narrow_add(&narrow, 3, -3, 0) == 0);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------------------------------------ */

/* Sums by hand: where the order is another, they come out otherwise. */
TEST(order_of_chunks) {
    const qs_narrow_draws none = {0};
    qs_narrow narrow = narrow_of("toward-zero", 8, 2);
    const float x[] = {8, 1, 1, 1, 1, 1, 1}, one[] = {1};
    assert_true(qs_narrow_dot(&narrow, 7, x, 1, one, 0, &none) == 8); /* places of 2: every 1 is lost */
    narrow.chunk = 3;
    assert_true(qs_narrow_dot(&narrow, 7, x, 1, one, 0, &none) == 10); /* 8, then + 3 gives 11, cut to 10, then + 1 is lost */
    narrow.chunk = 7;
    assert_true(qs_narrow_dot(&narrow, 7, x, 1, one, 0, &none) == 8);
    narrow.chunk = 2;
    assert_true(qs_narrow_dot(&narrow, 7, x, 1, one, 0, &none) == 12); /* 8, + 2, + 2, + 1 lost */
    assert_true(qs_narrow_dot(&narrow, 0, x, 1, one, 0, &none) == 0);
    const float fine[] = {1.375f};
    narrow.chunk = 0;
    narrow.product_bits = 1; /* 1.375 becomes 1.5 */
    assert_true(qs_narrow_dot(&narrow, 1, fine, 1, one, 0, &none) == 1.5);
    assert_true(qs_product_round(-1.25, 1) == -1 && qs_product_round(0x1.8p-140, 1) == 0x1.8p-140 && qs_product_round(0.3, 0) == 0.3);
}

/* Two additions share 32 bits, the sums of chunks come behind the products. */
TEST(draws_are_keyed) {
    const qs_narrow_draws draws = {.key = 9, .first = 3, .stride = 7};
    qs_narrow narrow = narrow_of("stochastic", 8, 3);
    narrow.chunk = 5;
    float x[23], one[] = {1};
    for (int i = 0; i < 23; i++)
        x[i] = qs_random_normal(1, (uint64_t)i);
    double total = 0;
    for (int c = 0; c < 5; c++) {
        double sum = 0;
        for (int i = 5 * c; i < 5 * c + 5 && i < 23; i++) {
            const uint32_t pair = qs_random_bits(9, 3 + (uint64_t)i / 2 * 7);
            sum = qs_narrow_add(&narrow, sum, (double)x[i], i % 2 ? pair & 0xFFFF0000u : pair << 16);
        }
        const uint32_t pair = qs_random_bits(9, 3 + (uint64_t)(24 + c) / 2 * 7);
        total = qs_narrow_add(&narrow, total, sum, c % 2 ? pair & 0xFFFF0000u : pair << 16);
    }
    assert_true(qs_narrow_dot(&narrow, 23, x, 1, one, 0, &draws) == total);
}

TEST(what_is_wrong_is_refused) {
    const qs_adder *adder = NULL;
    assert_refused(qs_adder_find("nearest", &adder), QS_USAGE, "align-truncate, nearest-even");
    assert_null(adder);
    assert_ok(qs_adder_find("nearest-even", &adder));
    const qs_narrow wrong[] = {{NULL, 8, 7, 0, 0},   {adder, 8, 0, 0, 0},  {adder, 8, 31, 0, 0},
                               {adder, 1, 7, 0, 0},  {adder, 11, 7, 0, 0}, {adder, 8, 7, -1, 0},
                               {adder, 8, 7, 31, 0}, {adder, 8, 7, 0, 1},  {adder, 8, 7, 0, (1 << 30) + 1}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(qs_narrow_check(&wrong[i]), QS_USAGE);
}

/* ---- Texts ----------------------------------------------------------------------------------------------------------------- */

TEST(texts_and_back) {
    static const char *const texts[] = {"fp32", "fp(6,9)/nearest-even", "fp(6,9)/chunk64/align-truncate", "fp(8,10)/product(5)/stochastic",
                                        "fp(10,30)/chunk1073741824/product(30)/toward-zero"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        qs_narrow narrow, again;
        char text[QS_NARROW_TEXT];
        assert_ok(qs_narrow_find(texts[i], &narrow));
        assert_string_equal(qs_narrow_text(&narrow, text), texts[i]);
        for (size_t j = 0; j < COUNT_OF(texts); j++) {
            assert_ok(qs_narrow_find(texts[j], &again));
            assert_int_equal(qs_narrow_equal(&narrow, &again), i == j);
        }
    }
    qs_narrow paper;
    assert_ok(qs_narrow_find("fp(6,9)/chunk64/product(5)/align-truncate", &paper));
    assert_true(paper.exponent_bits == 6 && paper.mantissa_bits == 9 && paper.chunk == 64 && paper.product_bits == 5);
    assert_string_equal(qs_adder_name(paper.adder), "align-truncate");
}

TEST(wrong_texts_are_refused) {
    static const char *const wrong[][2] = {{"", "the form is"},
                                           {"fp64", "the form is"},
                                           {"fp(6,9)", "the form is"},
                                           {"fp(6,9)/", "no adder"},
                                           {"fp(6,9)/chunk/nearest-even", "the form is"},
                                           {"fp(6,9)/chunk0/nearest-even", "the form is"},
                                           {"fp(6,9)/product(0)/nearest-even", "the form is"},
                                           {"fp(6,9)/product(5)/chunk64/nearest-even", "no adder"},
                                           {"fp(6,9)/chunk064/nearest-even", "write it fp(6,9)/chunk64/nearest-even"},
                                           {"fp(6,9)/chunk1/nearest-even", "chunks of 1"},
                                           {"fp(6,9)/chunk999999999999/nearest-even", "chunks of"},
                                           {"fp(6,9)/chunk99999999999999999999/nearest-even", "the form is"},
                                           {"fp(6,99999999999)/nearest-even", "mantissa bits"},
                                           {"fp(11,9)/nearest-even", "exponent bits"},
                                           {"fp(6,9)/nearest-even ", "no adder"},
                                           {"fp(6,9)/nearest", "nearest-even"}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        qs_narrow narrow = {.chunk = 77};
        assert_refused(qs_narrow_find(wrong[i][0], &narrow), QS_USAGE, wrong[i][1]);
        assert_int_equal(narrow.chunk, 77);
    }
}

TEST_MAIN(every_pair_of_small_formats, rounding_is_once, stochastic_rounding_is_unbiased, guarded_places, ends_of_the_format,
          order_of_chunks, draws_are_keyed, what_is_wrong_is_refused, texts_and_back, wrong_texts_are_refused)
