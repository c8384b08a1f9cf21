// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Rounds in which a machine was slow are left out, but not the only one in which a plan was timed. */
#include "kit/kit.h"
#include "qsync/comm.h"
#include "../../src/profiler/timing/campaign.h"

enum { ROUNDS = 4, SLOW = 2, PLANS = 2 };

/* Plans of one step a round, the first SLOW of which took twice as long; each was timed in its first rounds only. */
typedef struct scene {
    qs_comm *comm;
    qs_schedule schedule; /* of no steps: only whole ones count */
    qs__setting setting;
    qs__samples scratch;
    qs__plan_run plan[PLANS];
    qs__campaign all;
    double whole[PLANS][ROUNDS], data[PLANS][ROUNDS], waited[PLANS][ROUNDS], value[PLANS * ROUNDS];
    int round[PLANS][ROUNDS];
} scene;

static void scene_open(scene *one, int first_timed) {
    *one = (scene){0};
    assert_ok(qs_comm_open("self", &one->comm));
    one->setting.comm = one->comm;
    one->scratch.value = one->value;
    for (int p = 0; p < PLANS; p++) {
        const int timed = p == 0 ? first_timed : ROUNDS;
        for (int r = 0; r < timed; r++) {
            one->round[p][r] = r;
            one->whole[p][r] = r < SLOW ? 200 : 100;
        }
        one->plan[p] = (qs__plan_run){.schedule = &one->schedule,
                                      .timed = timed,
                                      .capacity = ROUNDS,
                                      .whole = one->whole[p],
                                      .data = one->data[p],
                                      .waited = one->waited[p],
                                      .round = one->round[p],
                                      .median_us = p == 0 && first_timed == SLOW ? 200 : 150};
    }
    one->all = (qs__campaign){
        .setting = &one->setting, .scratch = &one->scratch, .plan = one->plan, .plans = PLANS, .visits = PLANS, .round = ROUNDS};
    assert_ok(qs__disturbed_rounds_drop(&one->all));
}

TEST(slow_rounds_are_left_out) {
    scene one;
    scene_open(&one, ROUNDS);
    assert_int_equal(one.all.dropped_rounds, SLOW);
    assert_int_equal(one.all.good_rounds, ROUNDS - SLOW);
    for (int p = 0; p < PLANS; p++) {
        assert_int_equal(one.plan[p].timed, ROUNDS - SLOW);
        for (int i = 0; i < one.plan[p].timed; i++)
            assert_true(one.plan[p].whole[i] == 100 && one.plan[p].round[i] == SLOW + i);
    }
    qs_comm_close(one.comm);
}

TEST(every_plan_keeps_a_round) {
    scene one;
    scene_open(&one, SLOW);
    assert_int_equal(one.all.dropped_rounds, SLOW - 1);
    assert_int_equal(one.all.good_rounds, ROUNDS - SLOW + 1);
    assert_int_equal(one.plan[0].timed, 1);
    assert_int_equal(one.plan[1].timed, ROUNDS - SLOW + 1);
    assert_true(one.all.drift > 0.05); /* what stays is told */
    qs_comm_close(one.comm);
}

TEST_MAIN(slow_rounds_are_left_out, every_plan_keeps_a_round)
