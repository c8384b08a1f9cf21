// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Draws of ids: how often each comes against its exact probability, the fewest that have a probability together, what is equal and what
 * is not, refusals. */
#include "kit/kit.h"

#include "qsync/generate.h"

enum { IDS = 8, DRAWS = 40000 };
static const float logits[IDS] = {0.5f, 2, -1, 1.25f, 2, -3, 0, 1.5f};
static const int order[IDS] = {1, 4, 7, 3, 0, 6, 2, 5}; /* by probability, of equal ones the first */

/* Probabilities by definition; returns how many ids have one. */
static int exact(double temperature, double top_p, double probability[IDS]) {
    double sum = 0, reached = 0, kept = 0;
    int taken = 0;
    for (int i = 0; i < IDS; i++)
        sum += exp((double)logits[i] / temperature);
    for (; taken < IDS && reached < top_p; taken++)
        reached += exp((double)logits[order[taken]] / temperature) / sum;
    for (int i = 0; i < IDS; i++)
        probability[i] = 0;
    for (int k = 0; k < taken; k++)
        kept += probability[order[k]] = exp((double)logits[order[k]] / temperature);
    for (int i = 0; i < IDS; i++)
        probability[i] /= kept;
    return taken;
}

static void count_draws(qs_sampling sampling, int64_t count[IDS]) {
    qs_sampler *sampler = NULL;
    assert_ok(qs_sampler_create(&sampling, IDS, &sampler));
    for (int i = 0; i < IDS; i++)
        count[i] = 0;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        int32_t id = -1;
        assert_ok(qs_sampler_draw(sampler, logits, draw, &id));
        assert_true(id >= 0 && id < IDS);
        count[id]++;
    }
    qs_sampler_release(sampler);
}

/* Pearson's statistic of k ids is chi-square with k - 1 degrees of freedom: at most 7 here, above 35 once in 10^5 times. Ids that are not
 * among the fewest never come. */
TEST(draws_follow_the_probabilities) {
    static const qs_sampling settings[] = {{1, 1, 1},    {0.7, 1, 2},  {2.5, 1, 3},   {1, 0.9, 4}, {0.7, 0.8, 5},
                                           {1, 0.65, 6}, {3, 0.95, 7}, {0.7, 0.5, 8}, {1, 0.3, 9}};
    for (size_t s = 0; s < COUNT_OF(settings); s++) {
        int64_t count[IDS];
        double probability[IDS], statistic = 0;
        const int taken = exact(settings[s].temperature, settings[s].top_p, probability);
        count_draws(settings[s], count);
        for (int i = 0; i < IDS; i++) {
            const double expected = probability[i] * DRAWS, off = (double)count[i] - expected;
            if (probability[i] == 0 && count[i] > 0) fail_msg("setting %zu: id %d came, and is none of %d", s, i, taken);
            if (probability[i] > 0) statistic += off * off / expected;
        }
        if (!(statistic < 35)) fail_msg("setting %zu: chi-square %g of %d ids", s, statistic, taken);
    }
}

TEST(fewest_ids) {
    double probability[IDS];
    assert_int_equal(exact(1, 0.28, probability), 1); /* id 1 has 0.286, and comes before its equal */
    int64_t count[IDS];
    count_draws((qs_sampling){1, 0.28, 1}, count);
    assert_int_equal(count[1], DRAWS);
    count_draws((qs_sampling){1, 1e-9, 1}, count);
    assert_int_equal(count[1], DRAWS);
    count_draws((qs_sampling){0, 1, 1}, count); /* the largest, of equal ones the first */
    assert_int_equal(count[1], DRAWS);
    count_draws((qs_sampling){1e-4, 1, 1}, count); /* the two largest alike, the others e^-5000 of them */
    assert_int_equal(count[1] + count[4], DRAWS);
}

TEST(seeds) {
    int32_t first[64], again[64], other[64];
    int unlike = 0;
    for (int run = 0; run < 3; run++) {
        qs_sampler *sampler = NULL;
        assert_ok(qs_sampler_create(&(qs_sampling){1, 1, run < 2 ? 11 : 12}, IDS, &sampler));
        for (int i = 63; i >= 0; i--) /* in any order */
            assert_ok(qs_sampler_draw(sampler, logits, (uint64_t)(run ? 63 - i : i),
                                      run == 0   ? &first[i]
                                      : run == 1 ? &again[63 - i]
                                                 : &other[63 - i]));
        qs_sampler_release(sampler);
    }
    assert_memory_equal(first, again, sizeof first);
    for (int i = 0; i < 64; i++)
        unlike += first[i] != other[i];
    assert_true(unlike > 20);
}

TEST(refusals) {
    static const float bad[2] = {1, NAN}, infinite[2] = {INFINITY, 1};
    qs_sampler *sampler = NULL;
    int32_t id;
    assert_refused(qs_sampler_create(&(qs_sampling){-0.1, 1, 1}, 2, &sampler), QS_USAGE, "temperature -0.1: from 0");
    assert_refused(qs_sampler_create(&(qs_sampling){(double)NAN, 1, 1}, 2, &sampler), QS_USAGE, "temperature nan");
    assert_refused(qs_sampler_create(&(qs_sampling){1, 0, 1}, 2, &sampler), QS_USAGE, "top-p 0: above 0");
    assert_refused(qs_sampler_create(&(qs_sampling){1, 1.01, 1}, 2, &sampler), QS_USAGE, "top-p 1.01");
    assert_refused(qs_sampler_create(&(qs_sampling){1, 1, 1}, 0, &sampler), QS_USAGE, "0 ids");
    assert_ok(qs_sampler_create(&(qs_sampling){1, 1, 1}, 2, &sampler));
    assert_refused(qs_sampler_draw(sampler, bad, 0, &id), QS_NUMERIC, "the logit of id 1 is");
    assert_refused(qs_sampler_draw(sampler, infinite, 0, &id), QS_NUMERIC, "the logit of id 0 is inf");
    qs_sampler_release(sampler);
}

TEST_MAIN(draws_follow_the_probabilities, fewest_ids, seeds, refusals)
