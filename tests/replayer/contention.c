// SPDX-License-Identifier: Apache-2.0
/* Ranks of one host: faster while others wait, as fast as measured while all work. Ranks that behave alike are replayed once, which changes
 * nothing but the time it takes. Stragglers, and who waits for whom. */
#include "replay_support.h"

static const double us_a[HAND_STEPS] = {100, 0, 0, 0, 10}, alone_a[HAND_STEPS] = {50, 0, 0, 0, 5};
static const double us_b[HAND_STEPS] = {200, 0, 0, 0, 10}, alone_b[HAND_STEPS] = {100, 0, 0, 0, 5};
static const double us_c[HAND_STEPS] = {150, 0, 0, 0, 10}, alone_c[HAND_STEPS] = {75, 0, 0, 0, 5};
#define RANK(letter, on)                                                                                              \
    (qs_replay_rank) {                                                                                                \
        .class_name = #letter, .schedule = &hand, .step_us = us_##letter, .step_alone_us = alone_##letter, .host = on \
    }

TEST(a_waiting_neighbour_helps) {
    const qs_replay_rank rank[2] = {RANK(a, 0), RANK(b, 0)};
    /* a works until 100; b then has 100 left at twice the speed: 150. All-reduce until 190; both update. */
    qs_replay_result result = replay_with(2, rank, 40, 0);
    near(result.iteration_us, 200);
    near(result.compute_us[0], 110);
    near(result.compute_us[1], 160);
    near(result.waiting_us[0], 90);
    near(result.group[0].reducing_us, 40);
    near(result.late_us[0 * 2 + 1], 50);
    near(result.late_us[1 * 2 + 0], 0);
    qs_replay_release(&result);
}

TEST(another_host_does_not) {
    const qs_replay_rank rank[2] = {RANK(a, 0), RANK(b, 1)};
    /* Each is alone on its host from the start. */
    qs_replay_result result = replay_with(2, rank, 40, 0);
    near(result.compute_us[0], 55);
    near(result.compute_us[1], 105);
    near(result.iteration_us, 145);
    qs_replay_release(&result);
}

TEST(help_grows_with_the_share_that_waits) {
    const qs_replay_rank rank[3] = {RANK(a, 0), RANK(b, 0), RANK(c, 0)};
    /* From 100 on one of two others waits: speed 1/2 + 1/2 * 2. c is done at 100 + 50/1.5, b has 50 left then, at speed 2. */
    qs_replay_result result = replay_with(3, rank, 40, 0);
    near(result.iteration_us, 100 + 50 / 1.5 + 25 + 40 + 10);
    qs_replay_release(&result);
}

TEST(progress_and_slowdown_multiply) {
    /* b starts the all-reduce at once and then computes: half of its thread is the library's from 0 to 100. a only waits. */
    const double none[HAND_STEPS] = {0, 0, 0, 0, 0}, late[HAND_STEPS] = {0, 0, 200, 0, 0}, late_alone[HAND_STEPS] = {0, 0, 100, 0, 0};
    const qs_replay_rank rank[2] = {
        {.class_name = "a", .schedule = &hand, .step_us = none},
        {.class_name = "b", .schedule = &hand, .step_us = late, .step_alone_us = late_alone},
    };
    qs_replay_result result = replay_with(2, rank, 100, 0.5);
    /* Speed 2 * 1/2 = 1 in the window: 100 of 200 done at its end, the rest at speed 2. */
    near(result.iteration_us, 150);
    near(result.group[1].phases.backward_us, 100);
    near(result.group[1].phases.communication_us, 50);
    qs_replay_release(&result);
}

/* A sum that is the ranks' own work: kernels stand still for it, who waits has nothing to stand still. */
TEST(sums_are_work) {
    const double early[HAND_STEPS] = {100, 0, 50, 0, 10}, late[HAND_STEPS] = {200, 0, 30, 0, 10};
    const qs_replay_rank rank[2] = {{.class_name = "a", .schedule = &hand, .step_us = early},
                                    {.class_name = "b", .schedule = &hand, .step_us = late}};
    qs_replay_result result = replay_with(2, rank, 40, 1);
    /* Both are ready at 200. b sums until 240 and computes until 270; a has waited since 150, and updates from 240 on. */
    near(result.iteration_us, 280);
    near(result.group[1].phases.communication_us, 40);
    near(result.group[1].phases.backward_us, 30);
    near(result.waiting_us[1], 0);
    near(result.group[0].phases.communication_us, 0);
    near(result.group[0].reducing_us, 40);
    near(result.waiting_us[0], 90 + 30);
    qs_replay_release(&result);
    /* Nobody waits: the work of both, one after the other. */
    const qs_replay_rank alike[2] = {rank[0], rank[0]};
    result = replay_with(2, alike, 40, 1);
    near(result.iteration_us, 100 + 40 + 50 + 10);
    near(result.waiting_us[0], 0);
    qs_replay_release(&result);
}

TEST(equal_times_are_no_times) {
    qs_replay_rank with[2] = {RANK(a, 0), RANK(b, 0)}, without[2] = {RANK(a, 0), RANK(b, 0)};
    with[0].step_alone_us = us_a;
    with[1].step_alone_us = us_b;
    without[0].step_alone_us = without[1].step_alone_us = NULL;
    qs_replay_result left = replay_with(2, with, 37.7, 0.3), right = replay_with(2, without, 37.7, 0.3);
    assert_true(left.iteration_us == right.iteration_us);
    assert_true(left.compute_us[0] == right.compute_us[0] && left.compute_us[1] == right.compute_us[1]);
    qs_replay_release(&left);
    qs_replay_release(&right);
}

/* ---- Many ranks ------------------------------------------------------------------------------------------------------------------ */

#define MANY 32
static double own_us[MANY][HAND_STEPS], own_alone[MANY][HAND_STEPS];

/* Two kinds of ranks dealt over hosts; with `apart` every rank has costs of its own that say the same, so that none are alike. */
static void many_fill(uint64_t seed, bool apart, qs_replay_rank *rank) {
    const double jitter = seed % 3 == 0 ? 0.03 : 0;
    for (int r = 0; r < MANY; r++) {
        const int kind = r % 2;
        const uint64_t key = qs_random_key(seed, (uint64_t)kind, 0, 0);
        double *us = own_us[apart ? r : kind], *alone = own_alone[apart ? r : kind];
        for (int s = 0; s < HAND_STEPS; s++) {
            us[s] = 50 + 100 * (double)qs_random_uniform(key, (uint64_t)s);
            alone[s] = us[s] * (0.5 + 0.5 * (double)qs_random_uniform(key, (uint64_t)s + 10));
        }
        rank[r] = (qs_replay_rank){.class_name = kind ? "b" : "a",
                                   .schedule = &hand,
                                   .step_us = us,
                                   .step_alone_us = alone,
                                   .data_us = 3,
                                   .jitter = jitter,
                                   .host = r / (seed % 2 ? 4 : 32)};
    }
}

TEST(alike_ranks_are_replayed_once) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        qs_replay_rank rank[MANY];
        many_fill(seed, false, rank);
        qs_replay_result alike = replay_with(MANY, rank, 40, 0.4);
        many_fill(seed, true, rank);
        qs_replay_result apart = replay_with(MANY, rank, 40, 0.4);
        assert_int_equal(alike.groups, 2);
        assert_int_equal(apart.groups, MANY);
        assert_int_equal(alike.group[0].ranks + alike.group[1].ranks, MANY);
        assert_int_equal(alike.events, apart.events);
        /* With noise maxima are taken in another order, which Clark's formula is not free of: a thousandth of a deviation of some 10 us. */
        const double tolerance = rank[0].jitter > 0 ? 0.01 : 1e-6;
        near_within(alike.iteration_us, apart.iteration_us, tolerance);
        for (int r = 0; r < MANY; r++) {
            near_within(alike.compute_us[r], apart.compute_us[r], tolerance);
            near_within(alike.waiting_us[r], apart.waiting_us[r], tolerance);
        }
        qs_replay_release(&alike);
        qs_replay_release(&apart);
    }
}

/* Waiting is for somebody, or for an all-reduce; phases are the iteration. */
TEST(nothing_is_lost) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        qs_replay_rank rank[MANY];
        many_fill(seed, false, rank);
        rank[5].slow = 3;
        qs_replay_result result = replay_with(MANY, rank, 40, 0.4);
        /* On hosts of four, the ranks beside the straggler are not those beside the others. */
        assert_int_equal(result.groups, seed % 2 ? 5 : 3);
        for (int g = 0; g < result.groups; g++) {
            const qs_replay_group *one = &result.group[g];
            const qs_phase_times *phases = &one->phases;
            double waiting = one->reducing_us;
            for (int other = 0; other < result.groups; other++)
                waiting += result.late_us[g * result.groups + other];
            near(waiting, one->waiting_us);
            near(phases->forward_us + phases->backward_us + phases->cast_us + phases->communication_us + phases->waiting_us +
                     phases->optimizer_us + phases->data_us,
                 result.iteration_us);
        }
        qs_replay_release(&result);
    }
}

TEST(all_wait_for_a_straggler) {
    qs_replay_rank rank[4] = {RANK(a, 0), RANK(a, 0), RANK(a, 0), RANK(a, 0)};
    for (int r = 0; r < 4; r++)
        rank[r].step_alone_us = NULL;
    rank[2].slow = 2.5;
    qs_replay_result result = replay_with(4, rank, 40, 0);
    near(result.iteration_us, 250 + 40 + 25);
    assert_int_equal(result.groups, 2);
    assert_int_equal(result.group_of[2], 1);
    assert_int_equal(result.group[1].first, 2);
    near(result.late_us[0 * 2 + 1], 150 + 15);
    near(result.late_us[1 * 2 + 0], 0);
    qs_replay_release(&result);
}

TEST_MAIN(a_waiting_neighbour_helps, another_host_does_not, help_grows_with_the_share_that_waits, progress_and_slowdown_multiply,
          sums_are_work, equal_times_are_no_times, alike_ranks_are_replayed_once, nothing_is_lost, all_wait_for_a_straggler)
