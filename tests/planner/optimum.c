// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync` beside the true optimum on random models of up to twelve operators: half of its plans and more are optimal, none is far
 * above, none noisier than uniform; next to it also where host slowdown decides. The optimum: by asking for every plan of small models,
 * by planner `exact` for larger ones, which is held against asking up to eight operators (planner.exact). */
#include "scene.h"

enum { SCENES = 40, LEAST = 4, BRUTE = 6, MOST = 12, LATE_SCENES = 10 };

/* Sums of a few numbers in other orders. */
static const double rounding = 1e-12;

static double optimum_of(scene *one) {
    return one->nodes <= BRUTE ? scene_optimum(one) : scene_planned(one, "exact");
}

/* The optimum is no uniform plan. */
static bool is_mixed(scene *one, double optimum) {
    bool mixed = true;
    for (int r = 0; r < one->weak->recipes; r++) {
        qs_prediction prediction;
        double omega;
        scene_ask_uniform(one, r, &omega, &prediction);
        mixed = mixed && fabs(omega - optimum) > rounding * optimum;
        qs_prediction_release(&prediction);
    }
    return mixed;
}

static int number_compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double gap_of(double omega, double optimum) {
    assert_true(isfinite(optimum) && optimum <= omega * (1 + rounding));
    return omega <= optimum * (1 + rounding) ? 0 : omega / optimum - 1;
}

TEST(near_the_optimum) {
    uint64_t number = 0;
    double gap[SCENES];
    int mixed = 0, large = 0;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, LEAST, MOST, 0);
        if (s % 2) scene_limit(&one, 0.1 + 0.8 * scene_dice(one.number, 4));
        const double optimum = optimum_of(&one), qsync = scene_planned(&one, "qsync");
        assert_true(qsync <= scene_planned(&one, "uniform") * (1 + rounding));
        gap[s] = gap_of(qsync, optimum);
        mixed += is_mixed(&one, optimum);
        large += one.nodes > BRUTE;
        scene_end(&one);
    }
    qsort(gap, SCENES, sizeof *gap, number_compare);
    print_message("%d plans, %d of models beyond brute force, %d with a mixed optimum: above it by %.3f %% (median), %.3f %% (worst)\n",
                  SCENES, large, mixed, 100 * gap[SCENES / 2], 100 * gap[SCENES - 1]);
    assert_true(4 * mixed > SCENES && 4 * large > SCENES);
    assert_true(gap[SCENES / 2] == 0 && gap[SCENES - 1] <= 0.05);
}

/* No operator can be raised for nothing, though its class waits for long. */
TEST(a_late_neighbour_is_slowed_down) {
    uint64_t number = 100;
    double left = 0, most = 0;
    int seen = 0;
    while (seen < LATE_SCENES) {
        scene one;
        scene_next(&one, &number, LEAST, BRUTE, SCENE_LATE);
        const double optimum = scene_optimum(&one), qsync = scene_planned(&one, "qsync"), uniform = scene_planned(&one, "uniform");
        const double gap = gap_of(qsync, optimum);
        if (is_mixed(&one, optimum)) {
            seen++;
            left += (qsync - optimum) / (uniform - optimum);
            most = fmax(most, gap);
        }
        scene_end(&one);
    }
    print_message("beside a late neighbour: of what uniform leaves, %.2f %% are left on average; at worst %.1f %% above the optimum\n",
                  100 * left / seen, 100 * most);
    assert_true(left / seen <= 0.01 && most <= 0.05);
}

TEST_MAIN(near_the_optimum, a_late_neighbour_is_slowed_down)
