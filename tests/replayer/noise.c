// SPDX-License-Identifier: Apache-2.0
/* Noise: the expected iteration against known maxima of normals and against Monte Carlo of whole replays without noise. */
#include "ranks_support.h"

static double equal_ranks(int count, double jitter) {
    const double us[HAND_STEPS] = {1000, 0, 0, 0, 0};
    qs_replay_rank rank[32];
    for (int r = 0; r < count; r++)
        rank[r] = (qs_replay_rank){.class_name = "a", .schedule = &hand, .step_us = us, .jitter = jitter};
    qs_replay_result result = replay_with(count, rank, 50, 0);
    const double iteration = result.iteration_us;
    qs_replay_release(&result);
    return iteration;
}

/* Expected maxima of n standard normals, to the five digits given by tables (Teichroew 1956); integrated with 64 points. */
TEST(equal_ranks_wait_for_the_greatest) {
    static const struct {
        int ranks;
        double greatest;
    } known[] = {{1, 0}, {2, 0.56419}, {3, 0.84628}, {4, 1.02938}, {10, 1.53875}, {16, 1.76599}, {32, 2.06967}};
    for (size_t i = 0; i < COUNT_OF(known); i++)
        near_within(equal_ranks(known[i].ranks, 0.02), 1050 + 20 * known[i].greatest, 20 * 2e-4);
    assert_true(equal_ranks(16, 0) == 1050);
}

/* A straggler far behind is alone with its noise: the others' does not matter. */
TEST(a_straggler_hides_the_others) {
    const double us[HAND_STEPS] = {1000, 0, 0, 0, 0}, late[HAND_STEPS] = {2000, 0, 0, 0, 0};
    qs_replay_rank rank[4];
    for (int r = 0; r < 4; r++)
        rank[r] = (qs_replay_rank){.class_name = "a", .schedule = &hand, .step_us = r == 3 ? late : us, .jitter = 0.02};
    qs_replay_result result = replay_with(4, rank, 50, 0);
    near(result.iteration_us, 2050);
    qs_replay_release(&result);
}

/* ---- Monte Carlo -------------------------------------------------------------------------------------------------------------------- */

/* Every step takes a whole number of parts, each exponential with mean PART: a sum over a stretch of `us` has variance PART * us, which is
 * what noise that accumulates over busy time means. */
#define PART 2.0
#define SAMPLES 1500

typedef struct trial {
    ranks all;
    double *drawn[RANKS];
    qs_all_reduce_cost reduce[64];
    double deviation; /* of the slowest rank's step */
} trial;

static trial trial_make(uint64_t seed) {
    static const char *const recipes[RANKS] = {"bf16", "bf16", "bf16"};
    qs_job job = stub_job(4);
    job.bucket_bytes = 1000 + (int64_t)(seed % 5) * 8000;
    job.dynamic_loss_scaling = seed % 2;
    trial one = {.all = ranks_make(&job, recipes)};
    for (int r = 0; r < RANKS; r++) {
        const qs_schedule *schedule = one.all.schedule[r];
        double sum = 0;
        one.drawn[r] = calloc((size_t)schedule->steps, sizeof(double));
        for (int s = 0; s < schedule->steps; s++) {
            /* The second rank differs from the others by about a deviation. */
            const uint64_t key = qs_random_key(seed, r == 1 && s % 8 == 0, 0, 0);
            if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
            one.all.us[r][s] = PART * floor(16 * (double)qs_random_uniform(key, (uint64_t)s));
            sum += one.all.us[r][s];
        }
        one.all.rank[r].jitter = sqrt(PART / sum);
        one.deviation = fmax(one.deviation, sqrt(PART * sum));
    }
    const qs_schedule *any = one.all.schedule[0];
    assert_in_range(any->buckets, 1, 64);
    for (int b = 0; b < any->buckets; b++)
        one.reduce[b].us = 5 + 2e-3 * (double)any->bucket[b].count * (double)(1 + seed % 4);
    return one;
}

static void trial_end(trial *one) {
    for (int r = 0; r < RANKS; r++)
        free(one->drawn[r]);
    ranks_end(&one->all);
}

static double trial_replay(const trial *one, const qs_replay_rank *rank) {
    qs_replay_result result;
    assert_ok(qs_replay(&(qs_replay_case){.reduce = one->reduce, .ranks = RANKS, .rank = rank}, &result));
    const double iteration = result.iteration_us;
    qs_replay_release(&result);
    return iteration;
}

static void draw(const trial *one, uint64_t sample) {
    for (int r = 0; r < RANKS; r++) {
        const uint64_t key = qs_random_key(sample, (uint64_t)r, 7, 0);
        uint64_t at = 0;
        for (int s = 0; s < one->all.schedule[r]->steps; s++) {
            double product = 1;
            for (int part = 0; part < (int)(one->all.us[r][s] / PART); part++)
                product *= fmax(1 - (double)qs_random_uniform(key, at++), 1e-9);
            one->drawn[r][s] = -PART * log(product);
        }
    }
}

TEST(expectation_is_monte_carlo) {
    for (uint64_t seed = 0; seed < 6; seed++) {
        trial one = trial_make(seed);
        qs_replay_rank quiet[RANKS];
        double sum = 0, squares = 0;
        for (int r = 0; r < RANKS; r++) {
            quiet[r] = one.all.rank[r];
            quiet[r].jitter = 0;
        }
        const double predicted = trial_replay(&one, one.all.rank), silent = trial_replay(&one, quiet);
        for (int r = 0; r < RANKS; r++)
            quiet[r].step_us = one.drawn[r];
        for (uint64_t i = 0; i < SAMPLES; i++) {
            draw(&one, i);
            const double us = trial_replay(&one, quiet);
            sum += us - silent;
            squares += (us - silent) * (us - silent);
        }
        const double mean = sum / SAMPLES, error = sqrt((squares / SAMPLES - mean * mean) / SAMPLES);
        /* Four standard errors of the sample, and a twentieth of a deviation: maxima of normals are taken for normal again (Clark), and
         * what a rank does after a wait counts in its own copy alone. */
        near_within(predicted - silent, mean, 4 * error + one.deviation / 20);
        assert_true(predicted >= silent);
        trial_end(&one);
    }
}

TEST_MAIN_WITH(ranks_setup, ranks_teardown, equal_ranks_wait_for_the_greatest, a_straggler_hides_the_others, expectation_is_monte_carlo)
