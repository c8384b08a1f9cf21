// SPDX-License-Identifier: Apache-2.0
/* Quick answers beside whole replays: equal where no rank has noise or neighbours on its host, also with shares of the compute thread; and
 * when classes end that slow each other down on a host. */
#include "replay_support.h"

enum { CASES = 200, CLASSES = 3, BUCKETS = 3, KERNELS = 12, STEPS = KERNELS + 3 * BUCKETS };

static double draw(uint64_t number, uint64_t at) {
    return (double)qs_random_uniform(number, at);
}

/* Kernels, among which the all-reduces of the buckets start, in order; then for each bucket the wait and an update. */
typedef struct scene {
    qs_step step[STEPS];
    qs_bucket bucket[BUCKETS];
    qs_schedule schedule;
    qs_all_reduce_cost reduce[BUCKETS];
    double us[CLASSES][STEPS], alone_us[CLASSES][STEPS], data_us[CLASSES];
    double ready[CLASSES][BUCKETS], rest_us[CLASSES];
    qs_quick_item item[CLASSES][2 * BUCKETS];
} scene;

static void scene_make(scene *one, uint64_t number) {
    int steps = 0;
    *one = (scene){0};
    for (int k = 0, b = 0; k < KERNELS; k++) {
        one->step[steps++] = (qs_step){.kind = QS_STEP_KERNEL, .phase = k < KERNELS / 2 ? QS_FORWARD : QS_BACKWARD};
        if (b == BUCKETS || (draw(number, (uint64_t)k) < 0.6 && k < KERNELS - BUCKETS + b)) continue;
        one->bucket[b] = (qs_bucket){.count = 10, .ready_step = steps};
        one->step[steps++] = (qs_step){.kind = QS_STEP_REDUCE_START, .phase = QS_BACKWARD, .bucket = b++};
    }
    for (int b = 0; b < BUCKETS; b++) {
        one->step[steps++] = (qs_step){.kind = QS_STEP_REDUCE_WAIT, .phase = QS_UPDATE, .bucket = b};
        one->step[steps++] = (qs_step){.kind = QS_STEP_KERNEL, .phase = QS_UPDATE};
        one->reduce[b] = (qs_all_reduce_cost){.us = 100 * draw(number, 50 + (uint64_t)b), .cpu_share = number % 3 * 0.4};
    }
    assert_int_equal(steps, STEPS);
    one->schedule = (qs_schedule){.steps = STEPS, .step = one->step, .buckets = BUCKETS, .bucket = one->bucket, .wire = "fp32"};
    for (int c = 0; c < CLASSES; c++) {
        int items = 0;
        one->data_us[c] = 10 * draw(number, 90 + (uint64_t)c);
        for (int s = 0; s < STEPS; s++) {
            const qs_step *step = &one->step[s];
            const double us = 40 * draw(number, 100 + (uint64_t)(c * STEPS + s));
            if (step->kind == QS_STEP_KERNEL) one->us[c][s] = us;
            if (step->kind == QS_STEP_REDUCE_START) one->ready[c][step->bucket] = one->rest_us[c];
            if (step->phase != QS_UPDATE) one->rest_us[c] += one->us[c][s];
            if (step->phase == QS_UPDATE)
                one->item[c][items++] =
                    (qs_quick_item){step->kind == QS_STEP_REDUCE_WAIT ? step->bucket : -1, step->kind == QS_STEP_KERNEL ? us : 0};
        }
    }
}

static qs_quick_class class_of(scene *one, int c) {
    return (qs_quick_class){.present = true,
                            .start_us = one->data_us[c],
                            .ready = one->ready[c],
                            .rest_us = one->rest_us[c],
                            .items = 2 * BUCKETS,
                            .item = one->item[c]};
}

TEST(pace_is_that_of_a_replay) {
    for (uint64_t number = 1; number <= CASES; number++) {
        scene one;
        double start[BUCKETS], end[BUCKETS];
        struct qs_quick_clock clock[CLASSES];
        qs_quick_class class_[CLASSES];
        qs_replay_rank rank[CLASSES];
        qs_replay_result result;
        scene_make(&one, number);
        for (int c = 0; c < CLASSES; c++) {
            class_[c] = class_of(&one, c);
            rank[c] =
                (qs_replay_rank){.class_name = "a", .schedule = &one.schedule, .step_us = one.us[c], .data_us = one.data_us[c], .host = c};
        }
        qs_quick_pace pace = {
            .classes = CLASSES, .buckets = BUCKETS, .class_ = class_, .reduce = one.reduce, .start = start, .end = end, .clock = clock};
        if (qs_replay(&(qs_replay_case){.reduce = one.reduce, .ranks = CLASSES, .rank = rank}, &result) != QS_OK)
            fail_msg("%s", qs_message());
        near(qs_quick_iteration(&pace, -1), result.iteration_us);
        qs_replay_release(&result);
        for (int c = 0; c < CLASSES; c++) {
            if (qs_replay(&(qs_replay_case){.reduce = one.reduce,
                                            .ranks = 1,
                                            .rank = &(qs_replay_rank){.class_name = "a",
                                                                      .schedule = &one.schedule,
                                                                      .step_us = one.us[c],
                                                                      .data_us = one.data_us[c]}},
                          &result) != QS_OK)
                fail_msg("%s", qs_message());
            near(qs_quick_iteration(&pace, c), result.iteration_us);
            qs_replay_release(&result);
        }
    }
}

/* What is kept from one question to the next changes no bit of an answer: classes become slower and quicker, now one, now several, now
 * none; and one is asked for alone in between. */
TEST(answers_that_go_on_from_the_last_are_the_same) {
    int sooner[2] = {0}; /* turns in which a clock stood still: without a change, with one */
    for (uint64_t number = 1; number <= CASES; number++) {
        scene one;
        double start[2][BUCKETS], end[2][BUCKETS], reached[CLASSES * BUCKETS], finish[CLASSES];
        struct qs_quick_clock clock[2][CLASSES];
        qs_quick_class class_[CLASSES];
        scene_make(&one, number);
        for (int c = 0; c < CLASSES; c++)
            class_[c] = class_of(&one, c);
        qs_quick_pace anew = {.classes = CLASSES,
                              .buckets = BUCKETS,
                              .class_ = class_,
                              .reduce = one.reduce,
                              .start = start[0],
                              .end = end[0],
                              .clock = clock[0]};
        qs_quick_pace kept = anew;
        kept.start = start[1];
        kept.end = end[1];
        kept.clock = clock[1];
        kept.reached = reached;
        kept.finish = finish;
        for (int turn = 0; turn < 20; turn++) {
            int changes = 0, still = 0;
            for (int c = 0; c < CLASSES; c++) {
                const double dice = draw(number, 1000 + (uint64_t)(turn * CLASSES + c));
                const double factor = 0.8 + 0.5 * draw(number, 2000 + (uint64_t)(turn * CLASSES + c));
                if (dice < 0.6) continue;
                for (int b = 0; b < BUCKETS; b++)
                    one.ready[c][b] *= factor;
                class_[c].rest_us *= factor;
                class_[c].changed = true;
                changes++;
            }
            const double answer = qs_quick_iteration(&anew, -1);
            for (int c = 0; c < CLASSES && turn % 7 == 6; c++)
                assert_true(qs_quick_iteration(&kept, c) == qs_quick_iteration(&anew, c));
            for (int c = 0; c < CLASSES; c++)
                if (!class_[c].changed) clock[1][c].now = NAN;
            assert_true(qs_quick_iteration(&kept, -1) == answer);
            for (int c = 0; c < CLASSES; c++)
                still += isnan(clock[1][c].now);
            if (still > 0 && changes < 2) sooner[changes]++;
        }
    }
    assert_true(sooner[0] > CASES && sooner[1] > CASES); /* it did go on from them */
}

/* Every class has one speed beside busy ranks and one while the others wait, so what is known of classes is all there is to know. Work is
 * one kernel; all ranks stand on one host. */
TEST(classes_of_a_host_end_as_replayed) {
    for (uint64_t number = 1; number <= CASES; number++) {
        static const int most = 3;
        qs_class member[CLASSES] = {0};
        const qs_cluster cluster = {.classes = CLASSES, .class_ = member};
        double work_us[CLASSES], alone[CLASSES], ends_us[CLASSES], us[CLASSES][HAND_STEPS] = {{0}}, alone_us[CLASSES][HAND_STEPS] = {{0}};
        qs_replay_rank rank[CLASSES * 3];
        qs_host_slowdown slowdown;
        int ranks = 0, first[CLASSES];
        for (int c = 0; c < CLASSES; c++) {
            const uint64_t at = (uint64_t)c * 3;
            snprintf(member[c].name, sizeof member[c].name, "class-%d", c);
            member[c].count = 1 + (int)(draw(number, at) * most);
            work_us[c] = us[c][0] = 50 + 100 * draw(number, at + 1);
            alone[c] = 0.5 + 0.6 * draw(number, at + 2);
            alone_us[c][0] = alone[c] * us[c][0];
            first[c] = ranks;
            for (int r = 0; r < member[c].count; r++)
                rank[ranks++] =
                    (qs_replay_rank){.class_name = member[c].name, .schedule = &hand, .step_us = us[c], .step_alone_us = alone_us[c]};
        }
        assert_ok(qs_host_slowdown_make(&cluster, &slowdown));
        qs_host_slowdown_ends(&slowdown, work_us, alone, ends_us);
        qs_replay_result result = replay_with(ranks, rank, 0, 0);
        for (int c = 0; c < CLASSES; c++)
            near(ends_us[c], result.compute_us[first[c]]);
        qs_replay_release(&result);
        qs_host_slowdown_release(&slowdown);
    }
}

TEST_MAIN(pace_is_that_of_a_replay, answers_that_go_on_from_the_last_are_the_same, classes_of_a_host_end_as_replayed)
