// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Passes that a device joins (qs_device_joins). A sum with the relu behind it, and a relu's gradient with the sum that it is of, leave the
 * bits that they leave one by one, in every recipe, with blocks that are computed again and without; with a batch norm before the sum a
 * rounding is left out. */
#include "recompute_support.h"

static const char *const recipes[] = {"fp32", "bf16", "int8/bf16", "int8:tensor"};

static void bits_same(const char *model, const char *recipe, const char *blocks) {
    static const char *const names[] = {"weights", "running statistics", "states"};
    bench here;
    qs_graph *graph = NULL;
    bench_open(&here, "ref", "self", model, 2);
    assert_ok(qs_model_build(model, NULL, &graph));
    outcome apart = steps_take(&here, graph, recipe, blocks, false), joined = steps_take(&here, graph, recipe, blocks, true);
    for (int k = 0; k < 3; k++) {
        assert_true(apart.bytes[k] == joined.bytes[k]);
        if (memcmp(apart.buffer[k], joined.buffer[k], apart.bytes[k]) != 0)
            fail_msg("%s in %s, %s computed again: joined passes leave other %s", model, recipe, blocks, names[k]);
    }
    outcome_free(&apart);
    outcome_free(&joined);
    qs_graph_release(graph);
    bench_close(&here);
}

/* Layer norms are never part of a sum's pass. */
TEST(bits) {
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        bits_same("resnet8:width=0.25,norm=ln", recipes[r], "no");
}

TEST(bits_of_blocks_that_are_computed_again) {
    bits_same("resnet8:width=0.25,norm=ln", "bf16", "all");
    bits_same("resnet8:width=0.25,norm=ln", "int8/bf16", "stage2.block0.conv1");
}

/* In fp32 a batch norm's value that is not rounded before the sum moves it by half a unit in its last place. Weights of order 0.1 that
 * three steps at 0.05 have moved then differ by what that makes of gradients: 2^-24 of them for each of some tens of operators in a row. */
static void weights_near(const char *model, const char *blocks) {
    bench here;
    qs_graph *graph = NULL;
    double most = 0;
    bench_open(&here, "ref", "self", model, 2);
    assert_ok(qs_model_build(model, NULL, &graph));
    outcome apart = steps_take(&here, graph, "fp32", blocks, false), joined = steps_take(&here, graph, "fp32", blocks, true);
    assert_true(apart.bytes[0] == joined.bytes[0]);
    for (size_t i = 0; i < apart.bytes[0] / sizeof(float); i++)
        most = fmax(most, fabs((double)((float *)apart.buffer[0])[i] - (double)((float *)joined.buffer[0])[i]));
    if (!(most > 0 && most < 1e-4)) fail_msg("%s, %s computed again: weights differ by up to %g", model, blocks, most);
    outcome_free(&apart);
    outcome_free(&joined);
    qs_graph_release(graph);
    bench_close(&here);
}

TEST(batch_norms_before_sums) {
    weights_near("resnet8:width=0.25", "no");
    weights_near("resnet8:width=0.25,norm=l1bn", "no");
    weights_near("resnet8:width=0.25", "all");
}

/* ---- Which passes ---- */

static int count_of(const qs_schedule *schedule, const char *beginning, const char *part) {
    int count = 0;
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL && strncmp(schedule->step[s].case_text, beginning, strlen(beginning)) == 0)
            count += strstr(schedule->step[s].case_text, part) != NULL;
    return count;
}

static qs_schedule *lowered(const bench *here, const qs_graph *graph, qs_mode mode, bool joins) {
    qs_schedule *schedule = NULL;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = 2,
                                  .mode = mode,
                                  .job = &here->job,
                                  .half = qs_format_of("fp32"),
                                  .joins = joins,
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    return schedule;
}

/* resnet20 has nine sums with batch norms before and relus behind them. The first eight of these relus and the one behind the stem are
 * read by two operators each; the stem's is the normalisation's, and its gradient is added up by a sum of its own. The last one is read by
 * a pool alone. */
TEST(passes_of_resnet20) {
    bench here;
    qs_graph *graph = NULL;
    bench_open(&here, "ref", "self", "resnet20:width=0.25", 2);
    assert_ok(qs_model_build("resnet20:width=0.25", NULL, &graph));
    qs_schedule *apart = lowered(&here, graph, QS_MODE_TRAIN, false), *joined = lowered(&here, graph, QS_MODE_TRAIN, true),
                *evaluation = lowered(&here, graph, QS_MODE_EVALUATION, true);
    assert_int_equal(count_of(apart, "add/forward", ""), 9 + 9);
    assert_int_equal(count_of(apart, "relu/forward", ""), 9);
    assert_int_equal(count_of(apart, "", "diff_dst2"), 0);
    assert_int_equal(count_of(joined, "add/forward", ""), 1);
    assert_int_equal(count_of(joined, "batch_norm/forward", "src2="), 9);
    assert_int_equal(count_of(joined, "batch_norm/forward", ""), count_of(apart, "batch_norm/forward", ""));
    assert_int_equal(count_of(joined, "relu/forward", ""), 0);
    assert_int_equal(count_of(joined, "relu/backward", ""), 9);
    assert_int_equal(count_of(joined, "relu/backward", "diff_dst2"), 8);
    assert_int_equal(count_of(evaluation, "relu/forward", ""), 9);
    qs_schedule_release(apart);
    qs_schedule_release(joined);
    qs_schedule_release(evaluation);
    qs_graph_release(graph);
    bench_close(&here);
}

/* Computing blocks again asks for no case that the plan without them has not: a profile knows those alone. */
typedef struct asked {
    qs_device *device;
    int cases;
    char *text[256];
    bool closed;
} asked;

static qs_status lookup_asked(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    asked *all = context;
    int at = 0;
    while (at < all->cases && strcmp(all->text[at], case_text) != 0)
        at++;
    if (at == all->cases && all->closed) return qs_fail(QS_UNSUPPORTED, "not asked before: %s", case_text);
    if (at == all->cases) {
        assert_true(at < (int)COUNT_OF(all->text));
        all->text[all->cases++] = strdup(case_text);
    }
    return qs_lookup_device(all->device, one, case_text, out);
}

TEST(cases_of_blocks_that_are_computed_again) {
    bench here;
    qs_graph *graph = NULL;
    qs_class_plan plan = {.class_name = "one"};
    qs_tensor_table table;
    bench_open(&here, "ref", "self", "resnet20:width=0.25", 2);
    assert_ok(qs_model_build("resnet20:width=0.25", NULL, &graph));
    assert_ok(qs_recompute_list("all", graph, &plan));
    assert_ok(qs_tensors_bind(&plan, graph, &table));
    asked all = {.device = here.device};
    for (int again = 0; again < 2; again++) {
        qs_schedule *schedule = NULL;
        const qs_lowering lowering = {.graph = graph,
                                      .batch = 2,
                                      .mode = QS_MODE_TRAIN,
                                      .job = &here.job,
                                      .half = qs_format_of("fp32"),
                                      .tensors = again ? &table : NULL,
                                      .joins = true,
                                      .lookup = lookup_asked,
                                      .context = &all};
        assert_ok(qs_schedule_lower(&lowering, &schedule));
        qs_schedule_release(schedule);
        all.closed = true;
    }
    for (int i = 0; i < all.cases; i++)
        free(all.text[i]);
    qs_tensor_table_release(&table);
    free(plan.recompute);
    qs_graph_release(graph);
    bench_close(&here);
}

/* Only a device that says so. */
TEST(devices_that_join) {
    for (size_t i = 0; qs_device_backend_at(i); i++) {
        qs_device *device = NULL;
        if (qs_device_open(&(qs_device_options){.backend = qs_device_backend_at(i), .threads = 1, .speed = 1}, &device) != QS_OK) continue;
        assert_true(qs_device_joins(device) == (strcmp(qs_device_backend_at(i), "cuda") == 0));
        qs_device_close(device);
    }
}

TEST_MAIN(bits, bits_of_blocks_that_are_computed_again, batch_norms_before_sums, passes_of_resnet20,
          cases_of_blocks_that_are_computed_again, devices_that_join)
