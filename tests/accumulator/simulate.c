// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Monte Carlo: the loops over many sums have the bits of the scalar adders; figures do not hang on threads or on company; the law of the
 * addends; agreement with first measurements that were made independently. */
#include "kit/kit.h"
#include "qsync/accumulator.h"

/* ---- Against the scalar adders --------------------------------------------------------------------------------------------- */

static double scalar_sum(const qs_narrow *narrow, int64_t length, const double *addends, uint64_t key) {
    const int64_t chunk = narrow->chunk ? narrow->chunk : length;
    double total = 0;
    for (int64_t first = 0; first < length; first += chunk) {
        double sum = 0;
        for (int64_t i = first; i < length && i < first + chunk; i++)
            sum = qs_narrow_add(narrow, sum, addends[i], qs_random_bits(key, (uint64_t)i));
        total = chunk < length ? qs_narrow_add(narrow, total, sum, qs_random_bits(key, (uint64_t)(length + first / chunk))) : sum;
    }
    return total;
}

static qs_retention scalar_retention(const qs_simulation *what, const qs_simulated *one) {
    const qs_narrow narrow = {one->adder, 8, one->accumulator_bits, 0, one->chunk};
    double addends[400], narrow_squares = 0, exact_squares = 0, errors = 0;
    assert_true(what->length <= 400);
    for (int64_t t = 0; t < what->trials; t++) {
        double exact = 0;
        qs_simulation_addends(what, t, 0, what->length, addends, 1);
        for (int64_t i = 0; i < what->length; i++)
            exact += addends[i];
        const double sum = scalar_sum(&narrow, what->length, addends, qs_simulation_key(what, t));
        narrow_squares += sum * sum;
        exact_squares += exact * exact;
        errors += (sum - exact) * (sum - exact);
    }
    return (qs_retention){narrow_squares / exact_squares, 0, errors / exact_squares};
}

/* One addition of one trial that is rounded otherwise moves the figures by far more than the order in which doubles are summed. */
TEST(lanes_have_the_scalar_bits) {
    static const int widths[] = {1, 3, 7, 12, 19, 20, 21, 25, 30}, products[] = {1, 5, 10, 30};
    static const int64_t chunks[] = {0, 64, 7, 400};
    const int64_t trials = 66; /* a block of lanes and a piece of one */
    for (size_t a = 0; a < qs_adder_count(); a++)
        for (size_t w = 0; w < COUNT_OF(widths); w++) {
            const qs_addends addends = w % 2 ? QS_ADDENDS_NORMAL : QS_ADDENDS_PRODUCTS;
            const qs_simulation what = {addends, products[(w + a) % 4], 301, trials, 5 + w, 0};
            const qs_simulated one = {qs_adder_at(a), widths[w], chunks[w % 4]};
            qs_retention got, expected = scalar_retention(&what, &one);
            assert_ok(qs_accumulation_simulate(&what, 1, &one, &got));
            /* Errors of 2^-30 of the sum are differences of doubles: 2^-52 of the sum in each. */
            if (fabs(got.ratio - expected.ratio) > 1e-13 * expected.ratio ||
                fabs(got.error - expected.error) > 1e-13 * expected.error + 1e-16 * sqrt(expected.error))
                fail_msg("%s, %d bits: %.17g %.17g, scalar %.17g %.17g", qs_adder_name(one.adder), widths[w], got.ratio, got.error,
                         expected.ratio, expected.error);
        }
}

TEST(figures_hang_on_the_seed_alone) {
    const qs_simulation what = {QS_ADDENDS_PRODUCTS, 5, 300, 1000, 3, 0}, other = {QS_ADDENDS_PRODUCTS, 5, 300, 1000, 4, 0};
    const qs_simulated two[] = {{qs_adder_at(0), 6, 0}, {qs_adder_at(3), 6, 64}};
    qs_retention alone, both[2], threaded[2], reseeded;
    assert_ok(qs_accumulation_simulate(&what, 1, &two[1], &alone));
    assert_ok(qs_accumulation_simulate(&what, 2, two, both));
    assert_ok(qs_threads_set(3));
    assert_ok(qs_accumulation_simulate(&what, 2, two, threaded));
    assert_ok(qs_threads_set(1));
    assert_ok(qs_accumulation_simulate(&other, 1, &two[1], &reseeded));
    assert_memory_equal(&alone, &both[1], sizeof alone);
    assert_memory_equal(both, threaded, sizeof both);
    assert_true(alone.ratio != reseeded.ratio);
    assert_true(fabs(alone.ratio - reseeded.ratio) < 2 * (alone.interval + reseeded.interval));
}

/* ---- The law of the addends ------------------------------------------------------------------------------------------------- */

/* Moments 2 and 4 are 1 and 9 of a product of normals, 1 and 3 of one normal; their standard errors follow from moments 4 and 8 (11025 and
 * 105). Five of them; rounding to 10 bits moves a square by 2^-11 of itself at most, on average by far less. */
TEST(moments_of_addends) {
    enum { COUNT = 200000 };
    double *addends = malloc(COUNT * sizeof *addends);
    assert_non_null(addends);
    for (int kind = 0; kind < 2; kind++) {
        const qs_simulation what = {kind ? QS_ADDENDS_NORMAL : QS_ADDENDS_PRODUCTS, 10, COUNT, 2, 11, 0};
        const double fourth = kind ? 3 : 9, eighth = kind ? 105 : 11025;
        double m1 = 0, m2 = 0, m4 = 0;
        qs_simulation_addends(&what, 1, 0, COUNT, addends, 1);
        for (int i = 0; i < COUNT; i++) {
            assert_true(qs_product_round(addends[i], 10) == addends[i]);
            m1 += addends[i] / COUNT, m2 += pow(addends[i], 2) / COUNT, m4 += pow(addends[i], 4) / COUNT;
        }
        assert_true(fabs(m1) < 5 / sqrt(COUNT));
        assert_true(fabs(m2 - 1) < 5 * sqrt((fourth - 1) / COUNT) + 0x1p-11);
        assert_true(fabs(m4 - fourth) < 5 * sqrt((eighth - fourth * fourth) / COUNT) + fourth * 0x1p-10);
    }
    free(addends);
}

/* ---- Measurements ------------------------------------------------------------------------------------------------------------ */

/* Exactly representable sums lose nothing. */
TEST(wide_accumulators_retain_all) {
    const qs_simulation what = {QS_ADDENDS_NORMAL, 5, 16, 500, 1, 0};
    for (size_t a = 0; a < qs_adder_count(); a++) {
        qs_retention got;
        assert_ok(qs_accumulation_simulate(&what, 1, &(qs_simulated){qs_adder_at(a), 30, 0}, &got));
        assert_true(fabs(got.ratio - 1) < 1e-6 && got.error < 1e-14);
    }
}

/* Single normals, m_p 5, n 1024, m_acc 4 .. 7, as another program measured them once with three digits and no interval: taken as those of
 * 4000 trials. Allowed: three standard errors of either side and half a last digit. Products of normals would fail here. */
TEST(first_measurements_are_met) {
    static const struct {
        const char *adder;
        double ratio[4];
    } first[] = {{"align-truncate", {0.596, 0.725, 0.834, 0.914}},
                 {"nearest-even", {0.823, 0.963, 0.997, 0.997}},
                 {"toward-zero", {0.023, 0.049, 0.101, 0.212}}};
    const qs_simulation what = {QS_ADDENDS_NORMAL, 5, 1024, 20000, 1, 0};
    for (int a = 0; a < 3; a++) {
        qs_simulated one[4];
        qs_retention got[4];
        for (int b = 0; b < 4; b++) {
            one[b] = (qs_simulated){NULL, 4 + b, 0};
            assert_ok(qs_adder_find(first[a].adder, &one[b].adder));
        }
        assert_ok(qs_accumulation_simulate(&what, 4, one, got));
        for (int b = 0; b < 4; b++) {
            const double error = got[b].interval / 1.96, theirs = error * sqrt(20000.0 / 4000);
            if (fabs(got[b].ratio - first[a].ratio[b]) > 3 * hypot(error, theirs) + 0.0005)
                fail_msg("%s, %d bits: %.4f +- %.4f, first measured %.3f", first[a].adder, 4 + b, got[b].ratio, got[b].interval,
                         first[a].ratio[b]);
        }
    }
}

/* Of a hundred intervals of 95 % that seeds give about one truth (measured by all of them together), 87 and more hold it: fewer have a
 * chance of one in a thousand. */
TEST(intervals_hold_the_truth) {
    enum { SEEDS = 100 };
    qs_retention got[SEEDS];
    double mean = 0;
    int inside = 0;
    for (int s = 0; s < SEEDS; s++) {
        const qs_simulation what = {QS_ADDENDS_NORMAL, 5, 128, 600, (uint64_t)s, 0};
        assert_ok(qs_accumulation_simulate(&what, 1, &(qs_simulated){qs_adder_at(0), 5, 0}, &got[s]));
        mean += got[s].ratio / SEEDS;
    }
    for (int s = 0; s < SEEDS; s++)
        inside += fabs(got[s].ratio - mean) <= got[s].interval;
    assert_true(inside >= 87);
}

TEST(what_is_wrong_is_refused) {
    const qs_simulated good = {qs_adder_at(0), 7, 0};
    const qs_simulation wrong[] = {{0, 0, 10, 10, 1, 0},  {0, 31, 10, 10, 1, 0},
                                   {0, 5, 1, 10, 1, 0},   {0, 5, QS_LONGEST_SIMULATION + 1, 2, 1, 0},
                                   {0, 5, 1024, 1, 1, 0}, {0, 5, 1024, (int64_t)1 << 40, 1, 0}};
    const qs_simulated bad[] = {{NULL, 7, 0}, {qs_adder_at(0), 0, 0}, {qs_adder_at(0), 31, 0}, {qs_adder_at(0), 7, 1}};
    const qs_simulation right = {0, 5, 10, 10, 1, 0};
    qs_retention out = {-1, -1, -1};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(qs_accumulation_simulate(&wrong[i], 1, &good, &out), QS_USAGE);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(qs_accumulation_simulate(&right, 1, &bad[i], &out), QS_USAGE);
    assert_true(out.ratio == -1);
}

TEST_MAIN(lanes_have_the_scalar_bits, figures_hang_on_the_seed_alone, moments_of_addends, wide_accumulators_retain_all,
          first_measurements_are_met, intervals_hold_the_truth, what_is_wrong_is_refused)
