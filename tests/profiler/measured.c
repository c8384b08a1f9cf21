// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The noise of single operators in a profile: measured within the runs that are allowed, the same every time, as the ground truth has it,
 * and anew on request. */
#include "profiler_support.h"
#include "qsync/indicator.h"

enum { BATCH = 16, OPERATORS = 10, RECIPES = 2, RUNS = 60 };

/* One profile serves all: the tests measure anew what they change. */
static bench shared;

static int profile_make(void **state) {
    (void)state;
    bench *b = &shared;
    bench_open(b, NULL, backend_exists("cpu") ? "cpu" : "ref", "resnet8:width=0.5", BATCH);
    if (!device_multiplies(b->device, "bf16") || !device_multiplies(b->device, "int8")) return 0;
    b->options.noise_runs = RUNS;
    assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
    return 0;
}

static int profile_drop(void **state) {
    (void)state;
    bench_close(&shared);
    return 0;
}

static const qs_noise_row *row_of(const qs_noise *noise, const char *name, const char *recipe) {
    for (int i = 0; i < noise->rows; i++)
        if (strcmp(noise->row[i].name, name) == 0 && strcmp(noise->row[i].recipe, recipe) == 0) return &noise->row[i];
    return NULL;
}

/* Its noise measured anew in so many runs, behind so many iterations; the rest of the profile is borrowed. */
static qs_noise noise_anew(int iterations, int runs) {
    bench *b = &shared;
    qs_profile_options options = b->options;
    qs_profile profile = b->profile;
    profile.statistics.noise = (qs_noise){0};
    options.statistics_iterations = iterations;
    options.noise_runs = runs;
    assert_ok(qs_profile_noise(&options, NULL, b->device, b->comm, &profile));
    return profile.statistics.noise;
}

/* What the profile says is what the ground truth at the same weights says, though it saw other samples and other draws: within a factor of
 * two, where operators differ by more than ten, and in nearly the same order. */
TEST(is_the_ground_truth_in_few_runs) {
    bench *b = &shared;
    const qs_noise *noise = &b->profile.statistics.noise;
    qs_truth_options options;
    qs_truth truth = {0};
    double measured[OPERATORS * RECIPES], expected[OPERATORS * RECIPES], least = INFINITY, most = 0;
    if (b->profile.classes == 0) skip();
    assert_int_equal(noise->rows, OPERATORS * RECIPES);
    assert_int_equal(noise->batch, BATCH / 2);
    assert_int_equal(noise->iteration, b->options.statistics_iterations);
    assert_true(noise->runs > OPERATORS * RECIPES && noise->runs <= RUNS && noise->gradient_norm2 > 0);
    qs_truth_options_default(&options);
    options.job = &b->job;
    options.class_ = &b->cluster.class_[0];
    options.warm_up = b->options.statistics_iterations;
    options.seeds = options.batches = 16;
    assert_ok(qs_truth_measure(&options, b->device, &truth));
    assert_int_equal(truth.rows, noise->rows);
    for (int i = 0; i < truth.rows; i++) {
        const qs_truth_row *one = &truth.row[i];
        const qs_noise_row *row = row_of(noise, one->name, one->recipe);
        assert_non_null(row);
        if (!(row->error2 > one->error2 / 2 && row->error2 < one->error2 * 2))
            fail_msg("%s in %s: %g +- %g in the profile, %g of the ground truth", row->name, row->recipe, row->error2, row->standard_error,
                     one->error2);
        assert_true(row->standard_error > 0 && row->standard_error < row->error2);
        assert_true(fabs((one->half[0] + one->half[1]) / 2 - one->error2) < 1e-12 * one->error2);
        measured[i] = row->error2;
        expected[i] = one->error2;
        least = fmin(least, row->error2);
        most = fmax(most, row->error2);
    }
    assert_true(most > 10 * least);
    assert_true(qs_spearman(truth.rows, measured, expected) > 0.9);
    qs_truth_release(&truth);
}

/* All operators together, and halves of them, in one run each: there is noise, and not much more than alone. It may well be less:
 * neighbours round the tensor between them once. */
TEST(together_is_no_more_than_alone) {
    bench *b = &shared;
    const qs_noise *noise = &b->profile.statistics.noise;
    if (b->profile.classes == 0) skip();
    assert_int_equal(noise->groups, 4 * RECIPES);
    for (int g = 0; g < noise->groups; g++) {
        const qs_noise_group *one = &noise->group[g];
        assert_int_equal(one->operators, g % 4 == 0 ? OPERATORS : 5 + (g % 4 == 2));
        if (!(one->error2 > one->sum / 20 && one->error2 < one->sum * 3))
            fail_msg("%d operators in %s: %g together, %g alone", one->operators, one->recipe, one->error2, one->sum);
    }
}

/* Of one process, the statistics' training is the one that leads to the weights by itself: anew after as many iterations is the same to the
 * bit. After more it is not. */
TEST(anew_is_the_same_or_later) {
    bench *b = &shared;
    if (b->profile.classes == 0) skip();
    const qs_noise *before = &b->profile.statistics.noise;
    qs_noise again = noise_anew(b->options.statistics_iterations, RUNS), later = noise_anew(5, RUNS);
    assert_int_equal(again.rows, before->rows);
    assert_int_equal(again.runs, before->runs);
    assert_true(again.gradient_norm2 == before->gradient_norm2);
    for (int i = 0; i < again.rows; i++) {
        const qs_noise_row *now = &again.row[i], *then = &before->row[i];
        assert_string_equal(now->name, then->name);
        assert_string_equal(now->recipe, then->recipe);
        assert_true(now->runs == then->runs && now->error2 == then->error2 && now->standard_error == then->standard_error);
    }
    assert_int_equal(later.iteration, 5);
    assert_true(later.gradient_norm2 != before->gradient_norm2);
    free(again.row);
    free(again.group);
    free(later.row);
    free(later.group);
}

/* Fewer runs leave rows out rather than fail, none leave all out; what the default indicator is follows. */
TEST(keeps_to_its_runs) {
    bench *b = &shared;
    if (b->profile.classes == 0) skip();
    qs_noise few = noise_anew(2, 5), none = noise_anew(2, 0);
    assert_true(few.runs <= 5 && few.rows > 0 && few.rows <= 3);
    assert_int_equal(none.rows, 0);
    assert_string_equal(qs_indicator_default(&b->profile), "measured");
    qs_profile without = b->profile;
    without.statistics.noise = none;
    assert_string_equal(qs_indicator_default(&without), "qsync");
    assert_int_equal(few.groups, 0);
    free(few.row);
    free(few.group);
    free(none.row);
    free(none.group);
    assert_refused(qs_profile_noise(&b->options, "/nonexistent", b->device, b->comm, &without), QS_BAD_FILE, "nonexistent");
}

TEST_MAIN_WITH(profile_make, profile_drop, is_the_ground_truth_in_few_runs, together_is_no_more_than_alone, anew_is_the_same_or_later,
               keeps_to_its_runs)
