// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The room's own parts: kernels timed by themselves, on every operator's case list; quartiles; the choice of plans. */
#include "profiler_support.h"

#include "../../src/profiler/timing/timing.h"

static void quartiles_lie_between_neighbours(void **state) {
    double odd[] = {5, 1, 3, 2, 4}, even[] = {4, 1, 3, 2}, one[] = {7};
    (void)state;
    qs__quartiles got = qs__quartiles_of(5, odd);
    assert_true(got.low == 2 && got.median == 3 && got.high == 4);
    got = qs__quartiles_of(4, even);
    assert_true(got.low == 1.75 && got.median == 2.5 && got.high == 3.25);
    got = qs__quartiles_of(1, one);
    assert_true(got.low == 7 && got.median == 7 && got.high == 7);
    got = qs__quartiles_of(0, one);
    assert_true(got.median == 0);
}

/* Marks every case of the operators' lists that the device has a kernel for; returns their number. */
static int cases_collect(qs__cases *cases) {
    for (size_t i = 0; qs_op_at(i); i++) {
        for (const char *const *text = qs_op_at(i)->cases; text && *text; text++) {
            qs_case one;
            qs_kernel_row row;
            char canonical[QS_CASE_TEXT];
            assert_ok(qs_case_parse(*text, &one));
            if (qs__cases_lookup(cases, &one, qs_case_text(&one, canonical), &row) != QS_OK) continue;
            cases->entry[qs__cases_find(cases, canonical)].as_kernel = true;
        }
    }
    return cases->count;
}

static void every_kernel_runs_alone(const char *backend) {
    bench b;
    if (!backend_exists(backend)) skip();
    bench_open(&b, NULL, backend, "mlp:width=0.125", 4);
    const qs__setting setting = {.options = &b.options, .job = &b.job, .device = b.device, .comm = b.comm, .ranks = 1};
    qs__cases cases = {.device = b.device};
    const int count = cases_collect(&cases);
    assert_true(count > 100);
    assert_ok(qs__alone_measure(&setting, &cases));
    for (int i = 0; i < count; i++) {
        const qs__samples *samples = &cases.entry[i].kernel_us;
        assert_true(samples->count >= 3);
        for (int s = 0; s < samples->count; s++)
            assert_true(samples->value[s] > 0);
    }
    qs__cases_release(&cases);
    bench_close(&b);
}

TEST(every_kernel_runs_alone_on_ref) {
    every_kernel_runs_alone("ref");
}

/* Chosen plans hold every kernel that any lowered plan had, and no lowered plan holds one that the set lacks. */
static void chosen_plans_cover(void **state) {
    enum { MOST = 16 };
    bench b;
    int chosen[MOST], count = 0, covered_cases = 0;
    (void)state;
    if (!backend_exists("ref")) skip();
    bench_open(&b, NULL, "ref", "resnet8:width=0.5", 2);
    qs__setting setting = {.job = &b.job, .class_ = &b.cluster.class_[0], .graph = b.graph, .device = b.device};
    qs__cases cases = {.device = b.device};
    qs__mixes mixes = {0};
    assert_ok(qs_class_recipes(setting.class_, QS__MOST_RECIPES, setting.recipe, &setting.recipes));
    assert_ok(qs__mixes_list(&setting, &cases, &mixes));
    assert_ok(qs__mixes_cover(&setting, &cases, &mixes, MOST, chosen, &count));
    assert_true(count >= setting.recipes && count <= MOST);
    bool *covered = calloc((size_t)cases.count, sizeof *covered);
    for (int i = 0; i < count; i++) {
        const qs__mix *mix = &mixes.mix[chosen[i]];
        if (i < setting.recipes) assert_int_equal(chosen[i], i);
        for (int k = 0; k < mix->kernels; k++)
            covered[mix->kernel[k]] = true;
    }
    for (int i = 0; i < cases.count; i++)
        covered_cases += covered[i] == cases.entry[i].as_kernel;
    assert_int_equal(covered_cases, cases.count);
    free(covered);
    qs__mixes_release(&mixes);
    qs__cases_release(&cases);
    bench_close(&b);
}

TEST_MAIN(quartiles_lie_between_neighbours, every_kernel_runs_alone_on_ref, chosen_plans_cover)
