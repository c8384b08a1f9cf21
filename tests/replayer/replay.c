// SPDX-License-Identifier: Apache-2.0
/* Replay of whole schedules: equal to docs/method.md eqs. (4.6) and (4.7), time adds up on every rank, the timeline is one, and
 * communication that takes compute time is charged to the kernels it meets. */
#include "kit/kit.h"

#include <jansson.h>

#include "ranks_support.h"

#define MOST_BUCKETS 64

static qs_collective_cost collective = {.ranks = RANKS, .alpha_us = 15, .us_per_byte = 2e-3};
static const qs_profile profile = {.collectives = 1, .collective = &collective};

static qs_status replayed(const qs_profile *costs, int count, const qs_replay_rank *rank, bool with_events, qs_replay_result *out) {
    return qs_replay(&(qs_replay_case){.profile = costs, .ranks = count, .rank = rank, .with_events = with_events}, out);
}

/* Ranks with plans and random costs of their own. */
static ranks ranks_draw(uint64_t seed, bool scaling) {
    static const char *const recipes[RANKS] = {"fp32", "bf16", "int8/bf16"};
    qs_job job = stub_job(4);
    job.dynamic_loss_scaling = scaling;
    job.bucket_bytes = 1000 + (int64_t)(seed % 5) * 4000;
    ranks all = ranks_make(&job, recipes);
    for (int r = 0; r < RANKS; r++) {
        const uint64_t key = qs_random_key(seed, (uint64_t)r, 0, 0);
        for (int s = 0; s < all.schedule[r]->steps; s++)
            if (all.schedule[r]->step[s].kind == QS_STEP_KERNEL) all.us[r][s] = 30 * (double)qs_random_uniform(key, (uint64_t)s);
        all.rank[r].data_us = 5.0 * r + 2;
    }
    return all;
}

/* What eqs. (4.6) and (4.7) ask of a rank: when each bucket is ready, how long its part of the update takes, when compute ends. */
static void device_fill(const qs_replay_rank *rank, double ready[], double duration[], double optimizer[], qs_replay_device *out) {
    const qs_schedule *schedule = rank->schedule;
    double now = rank->data_us, share;
    int bucket = -1;
    assert_in_range(schedule->buckets, 1, MOST_BUCKETS);
    for (int b = 0; b < schedule->buckets; b++) {
        optimizer[b] = 0;
        assert_ok(qs_cost_all_reduce(&profile, RANKS, schedule->bucket[b].count * 4, &duration[b], &share));
    }
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind == QS_STEP_REDUCE_START) ready[step->bucket] = now;
        if (step->kind == QS_STEP_REDUCE_WAIT) bucket = step->bucket;
        if (step->phase == QS_UPDATE)
            optimizer[bucket] += rank->step_us[s];
        else
            now += rank->step_us[s];
    }
    *out = (qs_replay_device){ready, duration, optimizer, now};
}

TEST(replay_is_equation_6) {
    static double ready[RANKS][MOST_BUCKETS], duration[RANKS][MOST_BUCKETS], optimizer[RANKS][MOST_BUCKETS], start[MOST_BUCKETS],
        end[MOST_BUCKETS];
    for (uint64_t seed = 0; seed < 20; seed++) {
        ranks all = ranks_draw(seed, seed % 2 == 1);
        qs_replay_device device[RANKS];
        qs_replay_result result;
        double iteration = 0;
        for (int r = 0; r < RANKS; r++)
            device_fill(&all.rank[r], ready[r], duration[r], optimizer[r], &device[r]);
        qs_replay_buckets(RANKS, device, all.schedule[0]->buckets, start, end, &iteration);
        assert_ok(replayed(&profile, RANKS, all.rank, true, &result));
        near(result.iteration_us, iteration);
        for (int e = 0; e < result.events; e++) {
            if (result.event[e].track != 'r') continue;
            near(result.event[e].start, start[result.event[e].bucket]);
            near(result.event[e].end, end[result.event[e].bucket]);
        }
        qs_replay_release(&result);
        ranks_end(&all);
    }
}

TEST(time_adds_up) {
    ranks all = ranks_draw(3, false);
    qs_replay_result result;
    assert_ok(replayed(&profile, RANKS, all.rank, false, &result));
    assert_int_equal(result.events, 0);
    assert_int_equal(result.ranks, RANKS);
    for (int r = 0; r < RANKS; r++) {
        double busy = all.rank[r].data_us;
        for (int s = 0; s < all.schedule[r]->steps; s++)
            busy += all.us[r][s];
        near(result.compute_us[r], busy);
        near(result.compute_us[r] + result.waiting_us[r], result.iteration_us);
        assert_true(result.waiting_us[r] >= -1e-9);
    }
    qs_replay_release(&result);
    ranks_end(&all);
}

/* Data, compute, conversion and idle fill the iteration without gap or overlap; so do all-reduces without overlap. */
static void timeline_check(const qs_replay_result *result) {
    double filled[RANKS] = {0};
    for (int e = 0; e < result->events; e++) {
        const qs_replay_event *one = &result->event[e], *before = e ? &result->event[e - 1] : NULL;
        assert_true(one->start < one->end && one->start >= 0 && one->end <= result->iteration_us + 1e-9);
        if (one->track != 'r') filled[one->rank] += one->end - one->start;
        if (!before || before->rank != one->rank || before->track != one->track) continue;
        assert_true(before->end <= one->start + 1e-9);
    }
    for (int r = 0; r < RANKS; r++)
        near(filled[r], result->iteration_us);
}

TEST(the_timeline_is_one) {
    ranks all = ranks_draw(4, true);
    qs_replay_result result;
    for (int share = 0; share < 3; share++) {
        collective.cpu_share = share * 0.5;
        assert_ok(replayed(&profile, RANKS, all.rank, true, &result));
        timeline_check(&result);
        qs_replay_release(&result);
    }
    collective.cpu_share = 0;
    ranks_end(&all);
}

TEST(the_trace_is_json) {
    ranks all = ranks_draw(5, false);
    qs_replay_result result;
    char *text = NULL;
    json_error_t error;
    assert_ok(replayed(&profile, RANKS, all.rank, true, &result));
    assert_ok(qs_replay_trace(&result, all.rank, &text));
    json_t *root = json_loads(text, 0, &error), *list = json_object_get(root, "traceEvents"), *one;
    if (!root) fail_msg("%d:%d: %s", error.line, error.column, error.text);
    size_t i;
    int complete = 0, reduces = 0;
    json_array_foreach(list, i, one) {
        if (strcmp(json_string_value(json_object_get(one, "ph")), "X") != 0) continue;
        assert_true(json_number_value(json_object_get(one, "dur")) >= 0);
        assert_in_range(json_integer_value(json_object_get(one, "pid")), 0, RANKS - 1);
        reduces += strstr(json_string_value(json_object_get(one, "name")), "all-reduce") != NULL;
        complete++;
    }
    assert_int_equal(complete, result.events);
    assert_int_equal(reduces, RANKS * all.schedule[0]->buckets);
    json_decref(root);
    free(text);
    qs_replay_release(&result);
    ranks_end(&all);
}

TEST(one_rank_does_not_communicate) {
    ranks all = ranks_draw(6, false);
    const qs_profile none = {0};
    qs_replay_result result;
    assert_ok(replayed(&none, 1, &all.rank[1], true, &result));
    near(result.iteration_us, result.compute_us[0]);
    near(result.waiting_us[0], 0);
    for (int e = 0; e < result.events; e++)
        assert_true(result.event[e].track != 'r' && result.event[e].track != 'i');
    qs_replay_release(&result);
    /* Several ranks need the profile's all-reduce. */
    assert_int_equal(replayed(&none, 2, all.rank, false, &result), QS_MISMATCH);
    ranks_end(&all);
}

/* ---- By hand: kernel 100, start, kernel 100, wait, kernel 10 ---- */

static double hand_replay(double second_us, double cpu_share, double duration, double *busy) {
    const double us[HAND_STEPS] = {100, 0, second_us, 0, 10}, late[HAND_STEPS] = {150, 0, 0, 0, 0};
    const qs_replay_rank rank[2] = {{.class_name = "a", .schedule = &hand, .step_us = us},
                                    {.class_name = "b", .schedule = &hand, .step_us = late}};
    qs_collective_cost cost = {.ranks = 2, .alpha_us = duration, .cpu_share = cpu_share};
    const qs_profile own = {.collectives = 1, .collective = &cost};
    qs_replay_result result;
    assert_ok(replayed(&own, 2, rank, false, &result));
    const double iteration = result.iteration_us;
    *busy = result.compute_us[0];
    qs_replay_release(&result);
    return iteration;
}

TEST(progress_is_charged_to_kernels) {
    double busy;
    /* Rank b is late: the all-reduce runs from 150 to 190, beside the second half of rank a's second kernel. */
    near(hand_replay(100, 0, 40, &busy), 210);
    near(busy, 210);
    /* Half of these 40 are the library's: 20 more for the kernel. */
    near(hand_replay(100, 0.5, 40, &busy), 230);
    near(busy, 230);
    /* All of them. */
    near(hand_replay(100, 1, 40, &busy), 250);
    /* The kernel ends inside the all-reduce: 60 of own time, 50 before it, 10 inside at half speed. Then it waits. */
    near(hand_replay(60, 0.5, 40, &busy), 200);
    near(busy, 180);
    /* Nothing runs beside it. */
    near(hand_replay(50, 0.5, 40, &busy), 200);
    near(busy, 160);
}

TEST(impossible_schedules_are_refused) {
    const double us[HAND_STEPS] = {0};
    qs_bucket other_bucket = {0, 11, 1, 3};
    qs_schedule other = hand;
    qs_replay_rank rank[2] = {{.class_name = "a", .schedule = &hand, .step_us = us},
                              {.class_name = "b", .schedule = &other, .step_us = us}};
    qs_replay_result result;
    other.bucket = &other_bucket;
    assert_int_equal(replayed(&profile, 2, rank, false, &result), QS_MISMATCH);
    other.buckets = 0;
    assert_int_equal(replayed(&profile, 2, rank, false, &result), QS_MISMATCH);
    qs_step turned[HAND_STEPS];
    memcpy(turned, hand_step, sizeof turned);
    turned[1].kind = QS_STEP_REDUCE_WAIT;
    turned[3].kind = QS_STEP_REDUCE_START;
    other = hand;
    other.step = turned;
    assert_int_equal(replayed(&profile, 2, rank, false, &result), QS_FAILED);
}

TEST_MAIN_WITH(ranks_setup, ranks_teardown, replay_is_equation_6, time_adds_up, the_timeline_is_one, the_trace_is_json,
               one_rank_does_not_communicate, progress_is_charged_to_kernels, impossible_schedules_are_refused)
