// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What is derived for each adder beside measurements, limits that are known exactly, and the widths that follow. */
#include "kit/kit.h"
#include "qsync/accumulator.h"

static const qs_adder *adder_named(const char *name) {
    const qs_adder *adder = NULL;
    assert_ok(qs_adder_find(name, &adder));
    return adder;
}

static double retention(const qs_adder *adder, qs_addends addends, qs_accumulation sum, int bits) {
    double ratio = NAN;
    assert_ok(qs_adder_retention(adder, addends, &sum, bits, &ratio));
    return ratio;
}

/* Beyond the measurement's own interval the derivation's error is bounded by what docs/accumulators.md states: where much is lost the sum
 * is no longer normal, as is assumed (0.03 and a tenth of what is lost); where little is, 0.006. */
static void beside(const qs_adder *adder, qs_simulation what, int bits, int64_t chunk) {
    const qs_simulated one = {adder, bits, chunk};
    const qs_accumulation sum = {what.product_bits, what.length, chunk, 1 - what.zeros};
    qs_retention measured;
    assert_ok(qs_accumulation_simulate(&what, 1, &one, &measured));
    const double derived = retention(adder, what.addends, sum, bits), lost = fabs(1 - measured.ratio);
    const double bound = 0.006 + (lost > 0.05 ? 0.03 : 0) + 0.1 * lost + 1.5 * measured.interval;
    if (fabs(derived - measured.ratio) > bound)
        fail_msg("%s, %d bits, %lld products, chunks of %lld: %.4f derived, %.4f +- %.4f measured", qs_adder_name(adder), bits,
                 (long long)what.length, (long long)chunk, derived, measured.ratio, measured.interval);
}

TEST(as_measured) {
    for (size_t a = 0; a < qs_adder_count(); a++)
        for (int bits = 5; bits <= 11; bits += 3) {
            beside(qs_adder_at(a), (qs_simulation){QS_ADDENDS_PRODUCTS, 5, 512, 3000, 1, 0}, bits, 0);
            beside(qs_adder_at(a), (qs_simulation){QS_ADDENDS_NORMAL, 7, 300, 3000, 2, 0}, bits, 0);
            beside(qs_adder_at(a), (qs_simulation){QS_ADDENDS_PRODUCTS, 5, 1024, 1500, 3, 0.5}, bits, 64);
        }
}

/* A cut-off loses half a place of |s| every time, in relative terms 2^-m / (4 ln 2) where |s| is anywhere within a power of two: the sum
 * decays by that, and many additions leave 1 / (2 n) of the variance over that. The decay is a little more or less where s is in fact. */
TEST(cutting_off_decays) {
    for (int bits = 8; bits <= 14; bits += 2) {
        const double n = 1048576, expected = 2 * log(2) * ldexp(1, bits) / n;
        const double derived = retention(adder_named("toward-zero"), QS_ADDENDS_NORMAL, (qs_accumulation){20, (int64_t)n, 0, 1}, bits);
        assert_true(fabs(derived / expected - 1) < 0.02);
    }
}

/* Rounding by chance adds a variance of f (1 - f), 1/6, places² of sums with many digits, and nothing else. With |s| anywhere within a
 * power of two a place² is 3 / (8 ln 2) 4^-m s², and the mean of s² is half of n: n 4^-m / (32 ln 2) in all. */
TEST(chance_adds) {
    for (int bits = 8; bits <= 14; bits += 2) {
        const double n = 4096, expected = n * ldexp(1, -2 * bits) / (32 * log(2));
        const double derived = retention(adder_named("stochastic"), QS_ADDENDS_NORMAL, (qs_accumulation){24, (int64_t)n, 0, 1}, bits) - 1;
        assert_true(fabs(derived / expected - 1) < 0.02);
    }
}

/* Sums far longer than any measurement: retention falls with the length and rises with the width, and answers come at once. */
TEST(long_sums) {
    for (size_t a = 0; a < qs_adder_count(); a++) {
        double before = 0;
        if (qs_adder_at(a) == adder_named("stochastic")) continue; /* it retains all, and more */
        for (int bits = 6; bits <= 20; bits += 7) {
            const double shorter = retention(qs_adder_at(a), QS_ADDENDS_PRODUCTS, (qs_accumulation){5, (int64_t)1 << 24, 0, 1}, bits);
            const double longer = retention(qs_adder_at(a), QS_ADDENDS_PRODUCTS, (qs_accumulation){5, (int64_t)1 << 40, 0, 1}, bits);
            assert_true(longer >= 0 && longer < shorter && shorter < 1);
            assert_true(longer > before);
            before = longer;
        }
    }
}

TEST(wide_ones_lose_nothing) {
    for (size_t a = 0; a < qs_adder_count(); a++) {
        assert_true(fabs(1 - retention(qs_adder_at(a), QS_ADDENDS_PRODUCTS, (qs_accumulation){5, 1024, 0, 1}, 45)) < 1e-9);
        assert_true(fabs(1 - retention(qs_adder_at(a), QS_ADDENDS_PRODUCTS, (qs_accumulation){5, 1, 0, 1}, 5)) < 1e-12);
    }
}

/* Of 1024 products of 5 bits: as measured, where the formula says 7 for all. */
TEST(widths) {
    static const struct {
        const char *name;
        int bits;
    } needed[] = {{"align-truncate", 11}, {"nearest-even", 7}, {"toward-zero", 14}};
    const qs_accumulation sum = {5, 1024, 0, 1};
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        int bits = 0;
        double exponent;
        assert_ok(qs_adder_bits(adder_named(needed[i].name), QS_ADDENDS_PRODUCTS, &sum, &bits));
        assert_int_equal(bits, needed[i].bits);
        assert_ok(qs_adder_exponent(adder_named(needed[i].name), QS_ADDENDS_PRODUCTS, &sum, bits, &exponent));
        assert_true(fabs(exponent) < QS_ACCUMULATION_EXPONENT);
        assert_ok(qs_adder_exponent(adder_named(needed[i].name), QS_ADDENDS_PRODUCTS, &sum, bits - 1, &exponent));
        assert_true(fabs(exponent) >= QS_ACCUMULATION_EXPONENT);
    }
}

TEST(refusals) {
    double ratio;
    const qs_accumulation wrong[] = {{0, 10, 0, 1}, {31, 10, 0, 1}, {5, 0, 0, 1}, {5, 10, 1, 1}, {5, 10, 0, 0}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(qs_adder_retention(qs_adder_at(0), QS_ADDENDS_NORMAL, &wrong[i], 8, &ratio), QS_USAGE);
}

TEST_MAIN(as_measured, cutting_off_decays, chance_adds, long_sums, wide_ones_lose_nothing, widths, refusals)
