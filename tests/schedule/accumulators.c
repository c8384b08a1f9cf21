// SPDX-License-Identifier: Apache-2.0
/* Narrow accumulators of a recipe stand in the cases of its GEMMs, draw apart from one another, and make another schedule. */
#include "kit/schedule.h"

static qs_recipe narrow_recipe(void) {
    static const char *const texts[QS_GEMMS] = {"fp(8,5)/nearest-even", "fp(6,9)/chunk64/align-truncate", "fp(8,10)/stochastic"};
    qs_recipe recipe = recipe_of("fp32");
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        assert_ok(qs_narrow_find(texts[gemm], &recipe.accumulator[gemm]));
    return recipe;
}

static qs_schedule *lower_one(const qs_graph *graph, const char *node, const qs_recipe *recipe, qs_mode mode) {
    const qs_job job = stub_job(4);
    const qs_recipe fp32 = recipe_of("fp32"), **list = recipes_uniform(graph, &fp32);
    if (node) list[qs_graph_find(graph, node)] = recipe;
    const qs_lowering lowering = lowering_of(graph, &job, mode, list);
    qs_schedule *schedule = lower(&lowering);
    free(list);
    return schedule;
}

static void each_gemm_adds_in_its_own(void **state) {
    const qs_graph *graph = *state;
    const qs_recipe recipe = narrow_recipe();
    const int node = qs_graph_find(graph, "conv2");
    qs_schedule *schedule = lower_one(graph, "conv2", &recipe, QS_MODE_TRAIN);
    uint64_t stream[QS_GEMMS] = {0};
    int met = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL) continue;
        if (step->node != node || step->conversion) {
            assert_null(step->case_.attributes.accumulator.adder);
            continue;
        }
        char text[QS_NARROW_TEXT], word[2 * QS_NARROW_TEXT];
        for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
            if (strcmp(step->case_.pass->name, qs_gemm_name(gemm)) != 0) continue;
            snprintf(word, sizeof word, " accumulator=%s", qs_narrow_text(&recipe.accumulator[gemm], text));
            assert_non_null(strstr(step->case_text, word));
            assert_true(step->stream > 0);
            stream[gemm] = step->stream;
            met++;
        }
    }
    assert_int_equal(met, QS_GEMMS);
    assert_true(stream[0] != stream[1] && stream[0] != stream[2] && stream[1] != stream[2]);
    qs_schedule_release(schedule);
}

static void another_accumulator_is_another_schedule(void **state) {
    const qs_graph *graph = *state;
    qs_recipe recipe = narrow_recipe();
    char left[32], right[32];
    qs_schedule *plain = lower_one(graph, NULL, NULL, QS_MODE_TRAIN), *narrow = lower_one(graph, "conv2", &recipe, QS_MODE_TRAIN);
    assert_string_not_equal(qs_schedule_hash(plain, left), qs_schedule_hash(narrow, right));
    assert_refused(qs_schedule_compare(plain, narrow), QS_MISMATCH, "accumulator=");
    recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT].mantissa_bits++;
    qs_schedule *wider = lower_one(graph, "conv2", &recipe, QS_MODE_TRAIN);
    assert_string_not_equal(qs_schedule_hash(wider, left), right);
    qs_schedule_release(plain);
    qs_schedule_release(narrow);
    qs_schedule_release(wider);
}

/* The draft tells recipes apart by their accumulators, and a change and its undoing give what lowering does. */
static void a_draft_follows(void **state) {
    const qs_graph *graph = *state;
    const qs_recipe recipe = narrow_recipe(), fp32 = recipe_of("fp32"), **list = recipes_uniform(graph, &fp32);
    const qs_job job = stub_job(4);
    const qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    qs_schedule_draft *draft = NULL;
    qs_draft_change change;
    qs_schedule *expected = lower_one(graph, "conv2", &recipe, QS_MODE_TRAIN), *actual = NULL;
    assert_ok(qs_schedule_draft_create(&lowering, &draft));
    assert_ok(qs_schedule_change(draft, qs_graph_find(graph, "conv2"), &recipe, &change));
    assert_true(change.removed == QS_GEMMS && change.added == QS_GEMMS);
    assert_ok(qs_schedule_finish(draft, &actual, NULL));
    assert_ok(qs_schedule_compare(expected, actual));
    qs_schedule_release(actual);
    assert_ok(qs_schedule_undo(draft, &change));
    assert_int_equal(change.added, QS_GEMMS);
    qs_schedule_draft_release(draft);
    qs_schedule_release(expected);
    free(list);
}

static int setup(void **state) {
    qs_graph *graph = NULL;
    if (qs_model_build("lenet5", NULL, &graph) != QS_OK) return 1;
    *state = graph;
    return 0;
}

static int teardown(void **state) {
    qs_graph_release(*state);
    return 0;
}

TEST_MAIN_WITH(setup, teardown, each_gemm_adds_in_its_own, another_accumulator_is_another_schedule, a_draft_follows)
