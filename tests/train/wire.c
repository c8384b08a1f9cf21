// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Training with gradients on a narrow wire: equal weights on all ranks, a loss close to that of fp32, memory as predicted, residuals that
 * outlive a change of plans, overflows that all skip, and what is refused. */
#include "kit/job_model.h"
#include "train_support.h"

static void wire_open(bench *here, const char *wire) {
    bench_open(here, fast_backend(), NULL, "lenet5", 16);
    snprintf(here->job.wire, sizeof here->job.wire, "%s", wire);
    snprintf(here->job.algorithm, sizeof here->job.algorithm, "shared");
    here->options.training_limit = 1024;
    here->options.hash_every = 1;
    here->job.rate.base = 0.02;
}

typedef struct outcome {
    uint64_t hash;
    double training_loss, test_loss;
    int64_t reserved;
} outcome;

/* All of it the same on both ranks. */
static outcome run(bench *here) {
    qs_train_result result;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    const outcome out = {result.weights_hash, result.training_loss, result.test_loss, result.reserved_bytes ? result.reserved_bytes[0] : 0};
    result_release(&result);
    return out;
}

static outcome run_on(const char *wire, const char *algorithm, int epochs) {
    bench here;
    wire_open(&here, wire);
    snprintf(here.job.algorithm, sizeof here.job.algorithm, "%s", algorithm);
    here.job.epochs = epochs;
    const outcome out = run(&here);
    bench_close(&here);
    return out;
}

/* hash_every compares weights after every step. The library's sums and the window's are the same bits on a narrow wire. */
TEST(algorithms_agree) {
    static const char *const wires[] = {"bf16", "int8"};
    const uint64_t plain = run_on("fp32", "shared", 1).hash;
    for (int w = 0; w < 2; w++) {
        const uint64_t hash = run_on(wires[w], "shared", 1).hash;
        assert_true(hash == run_on(wires[w], "library", 1).hash && hash == run_on(wires[w], "shared", 1).hash);
        assert_true(hash != plain);
    }
}

/* What is left out is bounded by half a step of the wire, 1/254 of a block's largest gradient, whatever the number of steps: on top of
 * those of fp32, weights lag by the rate times that (over 1 - momentum). Over 192 steps at a small rate the loss has fallen from ln 10 by
 * half, and is that of fp32 within 2 % (measured: 0.5 % in either wire). */
TEST(loss_is_that_of_fp32) {
    const outcome plain = run_on("fp32", "shared", 6);
    static const char *const wires[] = {"bf16", "int8"};
    assert_true(plain.training_loss < 1.5); /* of ln 10 = 2.3 before */
    for (int w = 0; w < 2; w++) {
        const outcome narrow = run_on(wires[w], "shared", 6);
        if (!(fabs(narrow.training_loss - plain.training_loss) <= 0.02 * plain.training_loss))
            fail_msg("%s: loss %g, fp32 %g", wires[w], narrow.training_loss, plain.training_loss);
    }
}

/* One fp32 value for each trained element, in whole lines of 64 bytes; reserved is what the schedule says, which qs_train promises. */
TEST(memory_is_predicted) {
    qs_graph *graph = NULL;
    bench here;
    wire_open(&here, "int8");
    assert_ok(job_model(&here.job, &graph));
    const int64_t residuals = (graph->trained_elements * 4 + 63) / 64 * 64;
    qs_graph_release(graph);
    bench_close(&here);
    assert_int_equal(run_on("int8", "shared", 1).reserved - run_on("fp32", "shared", 1).reserved, residuals);
}

/* ---- Another plan
 * ---------------------------------------------------------------------------------------------------------------------- */

typedef struct offer {
    const char *file;
    qs_plan plan;
} offer;

static void plan_offer(void *context, int64_t step, double seconds) {
    offer *here = context;
    (void)seconds;
    if (step == 0) assert_ok(qs_plan_write(here->file, &here->plan));
}

/* All operators in fp32, as without a plan: only the file is another. */
static void plan_fill(const bench *here, const char *planner, qs_plan *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->planner, sizeof out->planner, "%s", planner);
    out->job = here->job;
    assert_ok(qs_allocate(1, sizeof *out->recipe, &out->recipe));
    assert_ok(qs_recipe_builtin("fp32", &out->recipe[0]));
    out->recipes = 1;
    assert_ok(qs_allocate(1, sizeof *out->class_, &out->class_));
    snprintf(out->class_[0].class_name, sizeof out->class_[0].class_name, "%s", here->cluster.class_[0].name);
    out->classes = 1;
}

/* The same arithmetic under another plan: the same bits, since residuals stay. */
TEST(residuals_outlive_plans) {
    bench here;
    char file[96];
    offer next = {.file = file};
    qs_plan start;
    qs_train_result result;
    wire_open(&here, "int8");
    snprintf(file, sizeof file, "%s/next.json", here.folder);
    plan_fill(&here, "", &start);
    plan_fill(&here, "next", &next.plan);
    here.options.plan = &start;
    const uint64_t hash = run(&here).hash;
    here.options.watch_plan = file;
    if (qs_comm_rank(here.comm) == 0) {
        here.options.step_done = plan_offer;
        here.options.step_context = &next;
    }
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.replans, 1);
    assert_true(result.weights_hash == hash);
    result_release(&result);
    unlink(file);
    qs_plan_release(&start);
    qs_plan_release(&next.plan);
    bench_close(&here);
}

/* ---- Overflow
 * ---------------------------------------------------------------------------------------------------------------------------- */

/* A scale near the end of fp32's range: gradients or their sums overflow on the wire, all ranks skip, the scale halves until they do
 * not. */
TEST(all_skip_overflows) {
    static const char *const wires[] = {"bf16", "int8"};
    for (int w = 0; w < 2; w++) {
        bench here;
        qs_train_result result;
        wire_open(&here, wires[w]);
        snprintf(here.job.model, sizeof here.job.model, "mlp");
        here.job.dynamic_loss_scaling = true;
        here.job.loss_scale = 0x1.8p127;
        here.job.epochs = 2;
        here.options.run_folder = here.folder;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        double skipped = 0;
        if (qs_comm_rank(here.comm) == 0) {
            char *metrics = NULL;
            file_text(here.folder, "metrics.jsonl", &metrics);
            skipped = atoi(strstr(strstr(metrics, "\"epoch\":2"), "skipped_steps") + strlen("skipped_steps\":"));
            free(metrics);
        }
        assert_ok(qs_comm_max(here.comm, &skipped, 1));
        assert_true(skipped >= 1 && skipped <= 20);
        assert_true(result.training_loss < 3);
        result_release(&result);
        bench_close(&here);
    }
}

/* Residuals are kept without the loss scale, and powers of two scale without rounding: the same bits at any scale. */
TEST(scale_changes_nothing) {
    uint64_t hash[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        bench here;
        wire_open(&here, "int8");
        here.job.loss_scale = scaled ? 1024 : 1;
        here.job.dynamic_loss_scaling = scaled;
        here.options.scale_growth = 20; /* doubled on the way */
        hash[scaled] = run(&here).hash;
        bench_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

TEST(what_is_refused) {
    bench here;
    qs_plan plan;
    qs_train_result result;
    wire_open(&here, "int8");
    plan_fill(&here, "", &plan);
    snprintf(here.job.algorithm, sizeof here.job.algorithm, "ring");
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_UNSUPPORTED, "ring passes on partial sums");
    snprintf(here.job.algorithm, sizeof here.job.algorithm, "shared");
    snprintf(here.job.wire, sizeof here.job.wire, "int4");
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_UNSUPPORTED, "there are fp32, bf16, int8");
    snprintf(here.job.wire, sizeof here.job.wire, "bf16");
    here.options.plan = &plan;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "made for wire format int8, the job has bf16");
    qs_plan_release(&plan);
    bench_close(&here);
}

TEST_MAIN_RANKS(algorithms_agree, loss_is_that_of_fp32, memory_is_predicted, residuals_outlive_plans, all_skip_overflows,
                scale_changes_nothing, what_is_refused)
