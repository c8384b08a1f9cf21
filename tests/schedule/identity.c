// SPDX-License-Identifier: Apache-2.0
/* Schedules told apart (hash, first difference), the memory limit's message, and jobs that cannot be lowered. */
#include "kit/schedule.h"

static qs_graph *graph;
static qs_recipe bf16, mixed;

static int setup(void **state) {
    (void)state;
    if (qs_model_build("lenet5", NULL, &graph) != QS_OK || qs_recipe_builtin("bf16", &bf16) != QS_OK) return 1;
    return qs_recipe_builtin("int8/bf16", &mixed) != QS_OK;
}

static int teardown(void **state) {
    (void)state;
    qs_graph_release(graph);
    return 0;
}

/* lenet5 in bf16, but for one operator. */
static qs_schedule *lower_with(const char *node, const qs_recipe *recipe, qs_mode mode, int64_t batch) {
    const qs_job job = stub_job(batch);
    const qs_recipe **list = recipes_uniform(graph, &bf16);
    if (node) list[qs_graph_find(graph, node)] = recipe;
    const qs_lowering lowering = lowering_of(graph, &job, mode, list);
    qs_schedule *schedule = lower(&lowering);
    free(list);
    return schedule;
}

TEST(the_same_input_gives_the_same_schedule) {
    char left[32], right[32];
    qs_schedule *a = lower_with(NULL, NULL, QS_MODE_TRAIN, 8), *b = lower_with(NULL, NULL, QS_MODE_TRAIN, 8);
    assert_string_equal(qs_schedule_hash(a, left), qs_schedule_hash(b, right));
    assert_int_equal(strncmp(left, "xxh64:", 6), 0);
    assert_int_equal(strlen(left), 22);
    assert_ok(qs_schedule_compare(a, b));
    qs_schedule_release(a);
    qs_schedule_release(b);
}

static void hash_differs(qs_schedule *other) {
    char left[32], right[32];
    qs_schedule *a = lower_with(NULL, NULL, QS_MODE_TRAIN, 8);
    assert_string_not_equal(qs_schedule_hash(a, left), qs_schedule_hash(other, right));
    assert_int_equal(qs_schedule_compare(a, other), QS_MISMATCH);
    qs_schedule_release(a);
    qs_schedule_release(other);
}

TEST(whatever_differs_changes_the_hash) {
    qs_recipe stochastic = bf16;
    stochastic.forward.src.rounding = QS_STOCHASTIC;
    hash_differs(lower_with("conv2", NULL, QS_MODE_TRAIN, 8));
    hash_differs(lower_with("fc1", &mixed, QS_MODE_TRAIN, 8));
    hash_differs(lower_with("conv1", &stochastic, QS_MODE_TRAIN, 8));
    hash_differs(lower_with(NULL, NULL, QS_MODE_TRAIN, 9));
    hash_differs(lower_with(NULL, NULL, QS_MODE_STATISTICS, 8));
    hash_differs(lower_with(NULL, NULL, QS_MODE_EVALUATION, 8));
}

TEST(the_first_difference_is_named) {
    qs_schedule *a = lower_with(NULL, NULL, QS_MODE_TRAIN, 8), *b = lower_with("conv2", &mixed, QS_MODE_TRAIN, 8);
    int first = 0;
    while (a->step[first].case_text && b->step[first].case_text && strcmp(a->step[first].case_text, b->step[first].case_text) == 0)
        first++;
    char expected[32];
    snprintf(expected, sizeof expected, "step %d ", first);
    assert_refused(qs_schedule_compare(a, b), QS_MISMATCH, expected);
    assert_message(a->step[first].case_text);
    assert_message(b->step[first].case_text);
    qs_schedule_release(b);
    /* Another kernel, another place. */
    b = lower_with(NULL, NULL, QS_MODE_TRAIN, 8);
    snprintf(b->step[3].kernel, sizeof b->step[3].kernel, "other");
    assert_refused(qs_schedule_compare(a, b), QS_MISMATCH, "step 3 ");
    assert_message("by other");
    snprintf(b->step[3].kernel, sizeof b->step[3].kernel, "%s", a->step[3].kernel);
    b->buffer[b->buffers - 1].offset += 64;
    assert_refused(qs_schedule_compare(a, b), QS_MISMATCH, b->buffer[b->buffers - 1].name);
    qs_schedule_release(a);
    qs_schedule_release(b);
}

TEST(limits_are_told_with_both_figures) {
    char need[32], limit[32];
    qs_schedule *a = lower_with(NULL, NULL, QS_MODE_TRAIN, 8);
    const int64_t bytes = (int64_t)a->arena_bytes;
    assert_ok(qs_schedule_fits(a, bytes, "weak"));
    assert_ok(qs_schedule_fits(a, 0, "weak"));
    assert_int_equal(qs_schedule_fits(a, bytes - 1, "weak"), QS_INFEASIBLE);
    snprintf(need, sizeof need, "(%lld bytes)", (long long)bytes);
    snprintf(limit, sizeof limit, "(%lld bytes)", (long long)bytes - 1);
    assert_message("weak");
    assert_message(need);
    assert_message(limit);
    qs_schedule_release(a);
}

static qs_status refuse_linear(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    if (strcmp(one->op->name, "linear") == 0) return qs_fail(QS_MISMATCH, "no kernel for %s", case_text);
    return stub_lookup(context, one, case_text, out);
}

static void refused(const qs_lowering *lowering, qs_status expected, const char *word) {
    qs_schedule *schedule = NULL;
    assert_int_equal(qs_schedule_lower(lowering, &schedule), expected);
    assert_null(schedule);
    assert_message(word);
}

TEST(impossible_jobs_are_refused) {
    qs_job job = stub_job(8);
    qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, NULL);
    lowering.batch = 0;
    refused(&lowering, QS_USAGE, "batch 0");
    lowering.batch = INT64_MAX;
    refused(&lowering, QS_USAGE, "batch 9223372036854775807");
    lowering.batch = 1 << 24;
    qs_schedule *large = NULL; /* whether it fits is not lowering's question, but it must not overflow */
    assert_ok(qs_schedule_lower(&lowering, &large));
    assert_true(large->arena_bytes > (size_t)1 << 36);
    qs_schedule_release(large);
    lowering.batch = 8;
    lowering.lookup = refuse_linear;
    refused(&lowering, QS_MISMATCH, "operator fc1: no kernel for linear/forward");
    lowering.lookup = stub_lookup;
    snprintf(job.optimizer.name, sizeof job.optimizer.name, "adamant");
    refused(&lowering, QS_USAGE, "adamant");
    snprintf(job.optimizer.name, sizeof job.optimizer.name, "relu");
    refused(&lowering, QS_USAGE, "relu is no optimiser");
    job = stub_job(8);
    job.bucket_bytes = 0;
    refused(&lowering, QS_USAGE, "bucket bytes 0");
    job = stub_job(8);
    job.clip_norm = -1;
    refused(&lowering, QS_USAGE, "clip_norm -1");
    job.clip_norm = INFINITY;
    refused(&lowering, QS_USAGE, "clip_norm inf");
}

TEST(names_are_there) {
    for (int p = 0; p < QS_PHASE_COUNT; p++)
        assert_true(strlen(qs_phase_name((qs_phase)p)) > 0);
    for (int c = 0; c < QS_CATEGORY_COUNT; c++)
        assert_true(strlen(qs_category_name((qs_category)c)) > 0);
    qs_schedule_release(NULL);
}

TEST_MAIN_WITH(setup, teardown, the_same_input_gives_the_same_schedule, whatever_differs_changes_the_hash, the_first_difference_is_named,
               limits_are_told_with_both_figures, impossible_jobs_are_refused, names_are_there)
