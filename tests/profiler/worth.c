// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Which plans are worth more steps: those with long cases that are little known, and those whose candidates lie close; and that time spent
 * by it leaves less error in what a planner is told than time spent evenly. */
#include "kit/kit.h"
#include "../../src/profiler/timing/timing.h"
#include "../../src/profiler/timing/campaign.h"

enum { CASES = 4, PLANS = 2 };

/* Two plans of two cases each, alike but for what a test changes. */
typedef struct scene {
    qs__share share[PLANS][2];
    qs__known plan[PLANS];
    qs__rival rival[CASES];
    qs__rivals rivals;
    qs__case_known known[CASES];
    double worth[PLANS];
} scene;

static void scene_make(scene *one) {
    *one = (scene){.rivals = {.rival = one->rival}};
    for (int p = 0; p < PLANS; p++) {
        for (int i = 0; i < 2; i++)
            one->share[p][i] = (qs__share){.entry = 2 * p + i, .places = 2, .us = 200, .half_us = 4};
        one->plan[p] = (qs__known){.shares = 2, .share = one->share[p], .timed = 6, .more = 2, .visit_us = 1000};
    }
}

static void ask(scene *one) {
    qs__worth_find(PLANS, one->plan, &one->rivals, CASES, one->known, one->worth);
}

TEST(equal_plans_are_worth_the_same) {
    scene one;
    scene_make(&one);
    ask(&one);
    assert_true(one.worth[0] == one.worth[1] && one.worth[0] > 0);
    for (int c = 0; c < CASES; c++)
        assert_true(one.known[c].us == 100 && one.known[c].half_us == 2 && one.known[c].open == 0);
}

/* Two more steps beside six make an error sqrt(6/8) of what it was; each case stands at two places of a plan, for 4 us of error in all. */
TEST(worth_is_what_a_later_plan_is_known_better) {
    scene one;
    scene_make(&one);
    ask(&one);
    const double gained = 2 * (2 - 2 * sqrt(6.0 / 8)); /* places, half width before and after */
    assert_true(fabs(one.worth[0] - 2 * gained / 1000) < 1e-12);
}

TEST(errors_costs_and_steps_count) {
    scene one;
    scene_make(&one);
    one.share[1][0].half_us = 8;
    ask(&one);
    assert_true(one.worth[1] > one.worth[0]);
    scene_make(&one);
    one.plan[1].visit_us = 2000;
    ask(&one);
    assert_true(fabs(one.worth[1] - one.worth[0] / 2) < 1e-15);
    scene_make(&one);
    one.plan[1].timed = 60;
    ask(&one);
    assert_true(one.worth[1] < one.worth[0] / 5);
    scene_make(&one);
    one.share[1][0].half_us = one.share[1][1].half_us = 0;
    ask(&one);
    assert_true(one.worth[1] == 0);
}

/* Cases 0 and 2 may take each other's place, and so may 1 and 3. */
TEST(open_orders_count_up_to_twice) {
    static const int pass[2];
    double worth[3];
    static const double apart_us[3] = {0, 4, 400};
    for (int i = 0; i < 3; i++) {
        scene one;
        scene_make(&one);
        for (int c = 0; c < CASES; c++)
            one.rival[one.rivals.count++] = (qs__rival){.node = 3, .pass = &pass[c % 2], .entry = c};
        one.share[1][0].us += apart_us[i];
        one.share[1][1].us += apart_us[i];
        qs__rivals_sort(&one.rivals);
        assert_int_equal(one.rivals.count, CASES);
        ask(&one);
        worth[i] = one.worth[0];
        assert_true(one.known[0].open == one.known[2].open && one.known[0].open <= 0.5);
        if (i == 0) assert_true(one.known[0].open == 0.5);
        if (i == 2) assert_true(one.known[0].open < 1e-6);
    }
    assert_true(fabs(worth[0] - 2 * worth[2]) < 1e-6 * worth[2]);
    assert_true(worth[1] < worth[0] && worth[1] > worth[2]);
}

/* The same case of one pass, met in several plans, is no rival of itself. */
TEST(a_case_is_listed_once) {
    static const int pass;
    scene one;
    scene_make(&one);
    for (int i = 0; i < CASES; i++)
        one.rival[one.rivals.count++] = (qs__rival){.node = i / 2, .pass = &pass, .entry = 1};
    qs__rivals_sort(&one.rivals);
    assert_int_equal(one.rivals.count, 2);
}

/* As steps.c asks: by the steps that were timed, of plans of one kernel each. */
TEST(the_noisy_plan_comes_first) {
    enum { ASKED = 4, TIMED = QS__LEAST_STEPS };
    qs_schedule schedule = {.steps = 1};
    qs__cases cases = {.count = ASKED};
    double step[ASKED][TIMED], value[TIMED], worth[ASKED];
    int round[TIMED], place = 0, order[ASKED];
    qs__share share[ASKED];
    qs__known known[ASKED];
    qs__case_known case_known[ASKED];
    qs__plan_run plan[ASKED];
    qs__samples scratch = {.value = value};
    qs__campaign all = {.plans = ASKED,
                        .plan = plan,
                        .known = known,
                        .case_known = case_known,
                        .worth = worth,
                        .order = order,
                        .cases = &cases,
                        .scratch = &scratch};
    for (int noisy = 0; noisy < ASKED; noisy++) {
        for (int p = 0; p < ASKED; p++) {
            for (int i = 0; i < TIMED; i++) {
                step[p][i] = 100 + i % 2 + (p == noisy ? 5 * i : 0);
                round[i] = i;
            }
            share[p] = (qs__share){.entry = p, .places = 1};
            known[p] = (qs__known){.shares = 1, .share = &share[p]};
            plan[p] =
                (qs__plan_run){.schedule = &schedule, .timed = TIMED, .step = step[p], .round = round, .median_us = 100, .share = &place};
        }
        qs__plans_order(&all);
        assert_int_equal(order[0], noisy);
        assert_true(worth[noisy] > 2 * worth[(noisy + 1) % ASKED] && worth[(noisy + 1) % ASKED] > 0);
    }
}

/* ---- What it is good for ---- */

enum { MANY = 8, ROUNDS = 48, TRIALS = 40, STEPS = 256 };

/* Eight plans of one case each, four of which hold long ones whose steps spread by 4 %; the others are short and spread by 1 %. Returns the
 * error of the sum of all cases by their medians, squared, over trials. */
static double error_of(bool evenly) {
    double error2 = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        const uint64_t key = qs_random_key(11, trial, 0, 0);
        double value[MANY][STEPS], sorted[STEPS], sum = 0, truth = 0, worth[MANY];
        qs__share share[MANY];
        qs__known plan[MANY];
        qs__case_known known[MANY];
        const qs__rivals none = {0};
        int timed[MANY] = {0};
        uint64_t draw = 0;
        for (int round = 0; round < ROUNDS; round++) {
            int at = round % MANY;
            for (int p = 0; p < MANY && !evenly && round >= 3 * MANY; p++)
                if (worth[p] > worth[at]) at = p;
            for (int i = 0; i < 2; i++) {
                const double us = at % 2 ? 1000 : 100, spread = at % 2 ? 0.04 : 0.01;
                value[at][timed[at]++] = us * (1 + spread * (2 * (double)qs_random_uniform(key, draw++) - 1));
            }
            for (int p = 0; p < MANY; p++) {
                memcpy(sorted, value[p], (size_t)timed[p] * sizeof *sorted);
                const double half = timed[p] > 1 ? qs__half_width_of(timed[p], sorted) : 1e6;
                share[p] = (qs__share){.entry = p, .places = 1, .us = qs__quartiles_of(timed[p], sorted).median, .half_us = half};
                plan[p] = (qs__known){.shares = 1, .share = &share[p], .timed = timed[p] + 1e-9, .more = 2, .visit_us = 1000};
            }
            qs__worth_find(MANY, plan, &none, MANY, known, worth);
        }
        for (int p = 0; p < MANY; p++) {
            sum += share[p].us;
            truth += p % 2 ? 1000 : 100;
        }
        error2 += (sum - truth) * (sum - truth) / TRIALS;
    }
    return error2;
}

/* With all of what is left on the four long ones, these have 2 (3 + 6) steps instead of 12: variance falls to two thirds. That it falls at
 * all is asked: of 40 trials the quotient of two such means has a deviation of sqrt(2 * 2 / 40) = 0.3. */
TEST(time_goes_where_errors_are) {
    const double evenly = error_of(true), chosen = error_of(false);
    print_message("mean squared error of the sum: %.1f evenly, %.1f by worth\n", evenly, chosen);
    assert_true(chosen < evenly);
}

TEST(half_widths_are_order_statistics) {
    double six[] = {6, 1, 5, 2, 4, 3}, five[] = {1, 2, 3, 4, 5}, ten[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
    assert_true(qs__half_width_of(6, six) == 2.5);
    assert_true(qs__half_width_of(5, five) == 4);   /* no interval of five holds the median with 95 % */
    assert_true(qs__half_width_of(10, ten) == 3.5); /* from the second to the ninth: 1 - 2 (1 + 10)/1024 */
    assert_true(isinf(qs__half_width_of(1, five)));
}

TEST_MAIN(equal_plans_are_worth_the_same, worth_is_what_a_later_plan_is_known_better, errors_costs_and_steps_count,
          open_orders_count_up_to_twice, a_case_is_listed_once, the_noisy_plan_comes_first, time_goes_where_errors_are,
          half_widths_are_order_statistics)
