// SPDX-License-Identifier: Apache-2.0
/* Fits recover the lines and bent lines that points were made from, through noise, and never promise negative time. */
#include "kit/kit.h"
#include "qsync/costmodel.h"

#define POINTS 15 /* 2^10 .. 2^24 */

typedef struct curve {
    int pieces;
    double to[3], slope[3], intercept[3];
} curve;

static double curve_at(const curve *one, double x) {
    int p = 0;
    while (p + 1 < one->pieces && x > one->to[p])
        p++;
    return one->slope[p] * x + one->intercept[p];
}

static void points_make(const curve *one, double noise, uint64_t seed, double *x, double *y) {
    const uint64_t key = qs_random_key(seed, 0, 0, 0);
    for (int i = 0; i < POINTS; i++) {
        x[i] = ldexp(1, 10 + i);
        y[i] = curve_at(one, x[i]) * (1 + noise * (2 * (double)qs_random_uniform(key, (uint64_t)i) - 1));
    }
}

static void fits(const curve *one, double noise, double allowed) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        double x[POINTS], y[POINTS];
        qs_fit fit;
        points_make(one, noise, seed, x, y);
        assert_ok(qs_fit_make(POINTS, x, y, &fit));
        for (int i = 0; i < POINTS; i++) {
            const double got = qs_fit_value(fit.pieces, fit.piece, x[i]), expected = curve_at(one, x[i]);
            if (!(fabs(got - expected) <= allowed * expected))
                fail_msg("%d pieces (of %d), noise %g, seed %d: %g elements take %g us, fit says %g", fit.pieces, one->pieces, noise,
                         (int)seed, x[i], expected, got);
        }
    }
}

static const curve line = {1, {0}, {2e-4}, {3}};
/* Caches bend the line: 0.5 ns an element inside, 2 ns outside. */
static const curve bent = {2, {65536, 0}, {5e-5, 4e-4}, {1.5, 1.5}};
static const curve twice = {3, {16384, 1048576, 0}, {2e-5, 1e-4, 5e-4}, {1, 1, 20}};

/* A line is one line, whatever the noise would like: pieces must pay. */
TEST(a_line_stays_one_piece) {
    double x[POINTS], y[POINTS];
    qs_fit fit;
    int more = 0;
    points_make(&line, 0, 0, x, y);
    assert_ok(qs_fit_make(POINTS, x, y, &fit));
    assert_int_equal(fit.pieces, 1);
    assert_true(fabs(fit.piece[0].us_per_element - 2e-4) < 1e-12 && fabs(fit.piece[0].us - 3) < 1e-8);
    assert_true(fit.piece[0].r2 > 0.999999 && fit.piece[0].worst_residual < 1e-9);
    for (uint64_t seed = 0; seed < 50; seed++) {
        points_make(&line, 0.02, seed, x, y);
        assert_ok(qs_fit_make(POINTS, x, y, &fit));
        more += fit.pieces > 1;
    }
    assert_in_range(more, 0, 10); /* by chance now and then */
}

TEST(curves_are_recovered) {
    fits(&line, 0, 1e-9);
    fits(&bent, 0, 2e-3);
    fits(&twice, 0, 2e-3);
    /* A piece has at least three points, each off by at most the noise: the fit is off by no more than twice that within it. */
    fits(&line, 0.02, 0.04);
    fits(&bent, 0.02, 0.04);
    fits(&twice, 0.02, 0.04);
}

TEST(bends_are_found) {
    double x[POINTS], y[POINTS];
    qs_fit fit;
    points_make(&bent, 0.01, 3, x, y);
    assert_ok(qs_fit_make(POINTS, x, y, &fit));
    assert_true(fit.pieces >= 2);
    points_make(&twice, 0.01, 3, x, y);
    assert_ok(qs_fit_make(POINTS, x, y, &fit));
    assert_int_equal(fit.pieces, 3);
}

/* Beyond the measured sizes the outer pieces go on. */
TEST(sizes_beyond_are_extrapolated) {
    const qs_fit_piece piece[2] = {{.to_elements = 100, .us_per_element = 1, .us = 2}, {.to_elements = 200, .us_per_element = 3, .us = 4}};
    const double at[] = {0, 100, 101, 200, 1000}, expected[] = {2, 102, 307, 604, 3004};
    for (int i = 0; i < 5; i++)
        assert_true(qs_fit_value(2, piece, at[i]) == expected[i]);
}

/* Least squares would take a negative intercept or slope here; times are not negative. */
TEST(nothing_is_negative) {
    const double x[] = {1000, 2000, 3000, 4000}, steep[] = {1, 3, 5, 7}, falling[] = {9, 8, 7, 6};
    qs_fit fit;
    assert_ok(qs_fit_make(4, x, steep, &fit));
    for (int p = 0; p < fit.pieces; p++)
        assert_true(fit.piece[p].us >= 0 && fit.piece[p].us_per_element >= 0);
    assert_true(qs_fit_value(fit.pieces, fit.piece, 1) >= 0);
    assert_ok(qs_fit_make(4, x, falling, &fit));
    for (int p = 0; p < fit.pieces; p++)
        assert_true(fit.piece[p].us >= 0 && fit.piece[p].us_per_element >= 0);
}

/* Refitted without the intercept, the slope alone carries the points: (Σ x/y) / (Σ x²/y²), the least squares of relative errors. */
static void refitted_without_intercept(void **state) {
    const double x[] = {1000, 2000, 3000, 4000}, y[] = {1, 3, 5, 7};
    double above = 0, below = 0, mean = 0, worst = 0;
    qs_fit_piece piece;
    (void)state;
    for (int i = 0; i < 4; i++) {
        above += x[i] / y[i];
        below += x[i] * x[i] / (y[i] * y[i]);
    }
    assert_ok(qs_fit_line(4, x, y, &piece));
    assert_true(piece.us == 0);
    assert_true(fabs(piece.us_per_element - above / below) < 1e-12);
    for (int i = 0; i < 4; i++) {
        const double residual = fabs(piece.us_per_element * x[i] - y[i]) / y[i];
        mean += residual / 4;
        worst = fmax(worst, residual);
    }
    assert_true(fabs(piece.mean_residual - mean) < 1e-12 && fabs(piece.worst_residual - worst) < 1e-12);
}

/* Nothing was measured between the last size of a piece and the first of the next: a bend there is continuous where the lines cross. */
static void pieces_meet_between_sizes(void **state) {
    double x[POINTS], y[POINTS];
    qs_fit fit;
    (void)state;
    for (int i = 0; i < POINTS; i++) {
        x[i] = ldexp(1, 10 + i);
        y[i] = x[i] < 90000 ? 10 + 1e-4 * x[i] : 13.6 + 6e-5 * x[i];
    }
    assert_ok(qs_fit_make(POINTS, x, y, &fit));
    assert_int_equal(fit.pieces, 2);
    assert_true(llabs((long long)fit.piece[0].to_elements - 90000) <= 1);
}

TEST(bad_points_are_refused) {
    const double x[] = {1, 2, 3}, back[] = {1, 3, 2}, y[] = {1, 2, 3}, zero[] = {1, 0, 3}, infinite[] = {1, INFINITY, 3},
                 nan[] = {1, NAN, 3};
    qs_fit fit;
    assert_int_equal(qs_fit_make(2, x, y, &fit), QS_USAGE);
    assert_int_equal(qs_fit_make(3, back, y, &fit), QS_USAGE);
    assert_int_equal(qs_fit_make(3, x, zero, &fit), QS_USAGE);
    assert_int_equal(qs_fit_make(3, x, infinite, &fit), QS_USAGE);
    assert_int_equal(qs_fit_make(3, x, nan, &fit), QS_USAGE);
    assert_ok(qs_fit_make(3, x, y, &fit));
}

static void line_is_found_again(void **state) {
    double x[12], y[12];
    qs_fit_piece piece;
    (void)state;
    for (int i = 0; i < 12; i++) {
        x[i] = ldexp(1024, i);
        y[i] = 9.5 + 2.5e-5 * x[i];
    }
    assert_ok(qs_fit_line(12, x, y, &piece));
    assert_true(fabs(piece.us - 9.5) < 1e-9 && fabs(piece.us_per_element - 2.5e-5) < 1e-15 && piece.r2 > 1 - 1e-12);
    for (int i = 0; i < 12; i++)
        y[i] = 1e-5 * x[i] * x[i] + 1e-3; /* a negative intercept is refused */
    assert_ok(qs_fit_line(12, x, y, &piece));
    assert_true(piece.us >= 0 && piece.us_per_element >= 0);
    assert_int_equal(qs_fit_line(1, x, y, &piece), QS_USAGE);
}

TEST_MAIN(a_line_stays_one_piece, curves_are_recovered, bends_are_found, sizes_beyond_are_extrapolated, nothing_is_negative,
          refitted_without_intercept, pieces_meet_between_sizes, bad_points_are_refused, line_is_found_again)
