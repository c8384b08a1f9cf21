// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: tuning
/* Cases of other models' profiles: what one model left another one of its family takes, so that fewer plans are to be measured; at the pace
 * of now, if nothing tells against it: another machine, class or kernel, its age, how little it is known, or the word of who asks. */
#include "kit/folder.h"
#include "profiler_support.h"

#include <time.h>
#include <unistd.h>

#include "../../src/profiler/shared.h"

static char folder[FOLDER_PATH], file[FOLDER_PATH + 32];

/* A model of the family with all the cases of its class, as a measurement begins. */
typedef struct scene {
    bench b;
    qs__shared shared;
    qs__setting setting;
    qs__cases cases;
    qs__mixes mixes;
} scene;

static void scene_open(scene *one, const char *model) {
    memset(one, 0, sizeof *one);
    bench_open(&one->b, NULL, "cpu", model, 4);
    one->b.options.cache = file;
    one->setting = (qs__setting){.job = &one->b.job,
                                 .device = one->b.device,
                                 .comm = one->b.comm,
                                 .ranks = 1,
                                 .class_ = &one->b.cluster.class_[0],
                                 .graph = one->b.graph,
                                 .options = &one->b.options,
                                 .shared = &one->shared};
    assert_ok(qs_class_recipes(one->setting.class_, QS__MOST_RECIPES, one->setting.recipe, &one->setting.recipes));
    one->cases.device = one->b.device;
    assert_ok(qs__mixes_list(&one->setting, &one->cases, &one->mixes));
}

static void scene_close(scene *one) {
    qs__shared_close(&one->shared);
    qs__mixes_release(&one->mixes);
    qs__cases_release(&one->cases);
    bench_close(&one->b);
}

/* What a case takes, by its text alone. */
static double truth_us(const qs__entry *entry) {
    return 10 + (double)(qs_hash(entry->text, strlen(entry->text), 0) % 1000);
}

/* Samples of an entry: two places in each of four plans, known to `doubt` of their mean. */
static void measure(qs__entry *entry, double pace, double doubt) {
    for (int place = 0; place < 8; place++) {
        assert_ok(qs__samples_add(&entry->kernel_us, pace * truth_us(entry)));
        for (int c = 0; c < QS__CACHES; c++)
            assert_ok(qs__samples_add(&entry->cold[c], 1000 * (QS__CACHES - c)));
    }
    for (int plan = 0; plan < 4; plan++) /* of a sum of two places; four plans halve it */
        assert_ok(qs__samples_add(&entry->half_us, 2 * 2 * doubt * pace * truth_us(entry)));
    assert_ok(qs__samples_add(&entry->alone, 0.5));
}

static void plans_measure(scene *one, int plans, const int *chosen, double pace) {
    for (int p = 0; p < plans; p++)
        for (int k = 0; k < one->mixes.mix[chosen[p]].kernels; k++) {
            qs__entry *entry = &one->cases.entry[one->mixes.mix[chosen[p]].kernel[k]];
            if (entry->kernel_us.count == 0) measure(entry, pace, 0.01);
        }
}

static int plans_choose(const scene *one, int *chosen) {
    int count = 0;
    assert_ok(qs__mixes_cover(&one->setting, &one->cases, &one->mixes, 16, chosen, &count));
    return count;
}

/* A model's profile; what it keeps is as known as `doubt`. */
static void leave(const char *model, double doubt) {
    scene one;
    qs_quality quality = {0};
    scene_open(&one, model);
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    for (int i = 0; i < one.cases.count; i++)
        if (one.cases.entry[i].as_kernel) measure(&one.cases.entry[i], 1, doubt);
    assert_ok(qs__shared_join(&one.setting, &one.cases, &quality));
    assert_true(quality.measured > 0 && quality.taken == 0);
    qs__shared_keep(&one.setting, &one.cases);
    scene_close(&one);
}

static int kernels_of(const qs__cases *cases) {
    int kernels = 0;
    for (int i = 0; i < cases->count; i++)
        kernels += cases->entry[i].as_kernel;
    return kernels;
}

static int found_in(const qs__cases *cases) {
    int found = 0;
    for (int i = 0; i < cases->count; i++)
        found += cases->entry[i].elsewhere.kernel_us.count > 0;
    return found;
}

/* resnet20 has the blocks of resnet8 thrice: of its cases, only sums and the like are new. The machine is slower by a half meanwhile. */
TEST(a_family_measures_less) {
    int chosen[16], before, after;
    scene one;
    qs_quality quality = {0};
    leave("resnet8:width=0.25", 0.01);
    scene_open(&one, "resnet20:width=0.25");
    before = plans_choose(&one, chosen);
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    const int found = found_in(&one.cases), kernels = kernels_of(&one.cases);
    after = plans_choose(&one, chosen);
    print_message("%d of %d kernels found; %d plans to measure in place of %d\n", found, kernels, after, before);
    assert_true(found > kernels / 2);
    assert_true(after <= before / 2 && after >= one.setting.recipes);
    plans_measure(&one, after, chosen, 1.5);
    assert_ok(qs__shared_join(&one.setting, &one.cases, &quality));
    assert_true(quality.measured < kernels && quality.taken > 0 && quality.measured + quality.taken <= kernels);
    assert_true(fabs(quality.taken_pace - 1.5) < 1e-5); /* samples have six digits */
    for (int i = 0; i < one.cases.count; i++) {
        const qs__entry *entry = &one.cases.entry[i];
        if (entry->kernel_us.count == 0) continue;
        assert_true(fabs(qs__mean_of(&entry->kernel_us) / (1.5 * truth_us(entry)) - 1) < 1e-5);
        assert_int_equal(entry->cold[0].count, entry->kernel_us.count);
        assert_true(entry->cold[1].value[entry->kernel_us.count - 1] == 1000 * (QS__CACHES - 1));
        assert_true(qs__mean_of(&entry->alone) == 0.5);
    }
    scene_close(&one);
}

/* What was taken is not left anew: it would never grow old. */
TEST(what_was_taken_stays_as_old_as_it_is) {
    scene one;
    qs_quality quality = {0};
    leave("resnet8:width=0.25", 0.01);
    scene_open(&one, "resnet8:width=0.25");
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    assert_int_equal(found_in(&one.cases), kernels_of(&one.cases));
    int kernel = 0;
    while (!one.cases.entry[kernel].as_kernel)
        kernel++;
    measure(&one.cases.entry[kernel], 1, 0.01);
    assert_ok(qs__shared_join(&one.setting, &one.cases, &quality));
    qs__shared_keep(&one.setting, &one.cases);
    assert_int_equal(one.shared.found.count, 0);
    scene_close(&one);
}

/* Places beyond those that are kept: evenly, with the same mean interval. */
TEST(many_places_are_thinned_out) {
    scene one;
    qs_quality quality = {0};
    scene_open(&one, "resnet8:width=0.25");
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    qs__entry *entry = &one.cases.entry[0];
    for (int i = 0; i < one.cases.count && !entry->as_kernel; i++)
        entry = &one.cases.entry[i];
    char text[QS_CASE_TEXT];
    snprintf(text, sizeof text, "%s", entry->text);
    for (int times = 0; times < 100; times++)
        measure(entry, 1, 0.01);
    assert_ok(qs__shared_join(&one.setting, &one.cases, &quality));
    qs__shared_keep(&one.setting, &one.cases);
    scene_close(&one);
    scene_open(&one, "resnet8:width=0.25");
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    const qs__elsewhere *found = &one.cases.entry[qs__cases_find(&one.cases, text)].elsewhere;
    assert_true(found->kernel_us.count > 8 && found->kernel_us.count < 100);
    double squares = 0;
    for (int i = 0; i < found->half_us.count; i++)
        squares += found->half_us.value[i] * found->half_us.value[i];
    /* a hundred measurements of 1 % are together known to 0.1 % */
    assert_true(fabs(sqrt(squares) / found->kernel_us.count / qs__mean_of(&found->kernel_us) - 0.001) < 1e-5);
    scene_close(&one);
}

/* Each of these alone. */
TEST(not_everything_is_taken) {
    scene one;
    leave("resnet8:width=0.25", 0.06); /* too little known to be left */
    scene_open(&one, "resnet8:width=0.25");
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    assert_int_equal(found_in(&one.cases), 0);
    scene_close(&one);
    leave("resnet8:width=0.25", 0.01);
    for (int way = 0; way < 6; way++) {
        scene_open(&one, "resnet8:width=0.25");
        if (way == 0) one.b.options.fresh = true;
        if (way == 1) one.b.options.taken_days = 0;
        if (way == 2) one.b.options.context = QS_CONTEXT_HOT;
        if (way == 3) one.b.cluster.class_[0].speed = 0.5;
        if (way == 4) snprintf(one.b.cluster.class_[0].name, sizeof one.b.cluster.class_[0].name, "other");
        for (int i = 0; i < one.cases.count && way == 5; i++)
            snprintf(one.cases.entry[i].row.kernel, sizeof one.cases.entry[i].row.kernel, "another");
        assert_ok(qs__shared_open(&one.setting, &one.cases));
        assert_int_equal(found_in(&one.cases), 0);
        scene_close(&one);
    }
}

/* Rows that somebody else has written. */
TEST(what_is_no_sample_is_measured) {
    static const char *const bad[] = {"",
                                      "8",
                                      "1 1 0",
                                      "1 1 0 nan",
                                      "0 1 0 1",
                                      "1 1 0 -5 1 1 1 1 1 1 1 1 1",
                                      "99 1 0",
                                      "1 99999 0 1",
                                      "1 1 0 5 1 2",
                                      "a b c d",
                                      "1 1 1 5 1 1 1 1 1 1 1 1 0.1"};
    for (size_t b = 0; b < COUNT_OF(bad); b++) {
        scene one;
        qs_timings timings = {0};
        qs_device_info info;
        scene_open(&one, "resnet8:width=0.25");
        one.b.options.fresh = true;
        assert_ok(qs__shared_open(&one.setting, &one.cases));
        qs_device_describe(one.b.device, &info);
        for (int i = 0; i < one.cases.count; i++)
            assert_ok(qs_timings_add(&timings, one.cases.entry[i].text, one.cases.entry[i].row.kernel, (int64_t)time(NULL), bad[b]));
        assert_ok(qs_timings_write(file, &info, one.shared.circumstances, &timings));
        qs__shared_close(&one.shared);
        one.b.options.fresh = false;
        assert_ok(qs__shared_open(&one.setting, &one.cases));
        assert_int_equal(found_in(&one.cases), 0);
        qs_timings_release(&timings);
        scene_close(&one);
    }
}

/* A fit comes back as it was left, at the pace of now, where steps hold about as much. */
TEST(fits_are_taken_of_steps_of_their_size) {
    scene one;
    qs_case kind = {0};
    const qs_conversion_cost left = {.pieces = 2, .piece = {{4096, 0.001, 2, 0.99, 0.1, 0.05}, {1 << 24, 0.002, 0.5, 0.9, 0.2, 0.1}}};
    leave("resnet8:width=0.25", 0.01);
    scene_open(&one, "resnet8:width=0.25");
    for (int i = 0; i < one.cases.count; i++)
        if (one.cases.entry[i].as_conversion && qs_case_position(&one.cases.entry[i].case_, QS_SRC) >= 0) kind = one.cases.entry[i].case_;
    assert_non_null(kind.op);
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    assert_ok(qs__shared_fit_found(&one.setting, &kind, 8 << 20, &left));
    qs__shared_keep(&one.setting, &one.cases);
    qs__shared_close(&one.shared);
    assert_ok(qs__shared_open(&one.setting, &one.cases));
    static const struct {
        size_t bytes;
        bool taken;
    } asked[] = {{8 << 20, true}, {5 << 20, true}, {15 << 20, true}, {3 << 20, false}, {17 << 20, false}};
    for (size_t i = 0; i < 2 * COUNT_OF(asked); i++) {
        qs_conversion_cost row = {0};
        one.shared.pace = i % 2 ? 1.5 : 1; /* of the machine, by kernels that both have */
        assert_int_equal(qs__shared_fit(&one.setting, &kind, asked[i / 2].bytes, &row), asked[i / 2].taken);
        if (!asked[i / 2].taken) continue;
        assert_int_equal(row.pieces, 2);
        for (int p = 0; p < 2; p++) {
            assert_true(row.piece[p].us == one.shared.pace * left.piece[p].us);
            assert_true(row.piece[p].us_per_element == one.shared.pace * left.piece[p].us_per_element);
            row.piece[p].us = left.piece[p].us;
            row.piece[p].us_per_element = left.piece[p].us_per_element;
        }
        assert_memory_equal(row.piece, left.piece, 2 * sizeof *row.piece);
    }
    scene_close(&one);
}

/* ---- A measurement ---- */

/* Whatever a noisy machine leaves in the cache: every kernel has its row, counts say where it is from, and nothing is taken that was not to
 * be. */
TEST(measurements_share_a_file) {
    static const char *const models[] = {"resnet8:width=0.25", "resnet20:width=0.25", "resnet20:width=0.25"};
    for (int m = 0; m < 3; m++) {
        bench b;
        bench_open(&b, NULL, "cpu", models[m], 4);
        b.options.cache = file;
        b.options.repetitions = 6;
        b.options.conversion_seconds = 0.05;
        b.options.fresh = m == 2;
        assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
        const qs_quality *quality = &b.profile.class_[0].quality;
        print_message("%s: %d plans, %d kernels measured, %d taken at %.2f\n", models[m], quality->plans, quality->measured, quality->taken,
                      quality->taken_pace);
        assert_true(quality->measured > 0);
        if (m != 1) assert_true(quality->taken == 0 && quality->taken_pace == 0);
        for (int i = 0; i < b.profile.class_[0].kernels; i++)
            assert_true(b.profile.class_[0].kernel[i].us > 0);
        bench_close(&b);
    }
}

static int start(void **state) {
    (void)state;
    if (!backend_exists("cpu")) return 0;
    folder_make(folder);
    snprintf(file, sizeof file, "%s/cache.sqlite", folder);
    return 0;
}

static int end(void **state) {
    (void)state;
    unlink(file);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(a_family_measures_less, start, end),
                                       cmocka_unit_test_setup_teardown(what_was_taken_stays_as_old_as_it_is, start, end),
                                       cmocka_unit_test_setup_teardown(many_places_are_thinned_out, start, end),
                                       cmocka_unit_test_setup_teardown(not_everything_is_taken, start, end),
                                       cmocka_unit_test_setup_teardown(what_is_no_sample_is_measured, start, end),
                                       cmocka_unit_test_setup_teardown(fits_are_taken_of_steps_of_their_size, start, end),
                                       cmocka_unit_test_setup_teardown(measurements_share_a_file, start, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
