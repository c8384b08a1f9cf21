// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A plan runs as it was made or not at all: every difference is named before the first step. */
#include "plan_support.h"

typedef struct planned {
    bench bench;
    qs_plan plan;
} planned;

static int set_up(void **state) {
    planned *here = calloc(1, sizeof *here);
    bench_open(&here->bench, "ref", "self", "lenet5", 4);
    here->bench.options.max_steps = 1;
    here->bench.options.test_limit = -1;
    plan_fill(&here->bench, "int8/bf16", &here->plan);
    here->bench.options.plan = &here->plan;
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    planned *here = *state;
    qs_plan_release(&here->plan);
    bench_close(&here->bench);
    free(here);
    return 0;
}

static void refuse(planned *here, qs_status status, const char *why) {
    qs_train_result result;
    assert_refused(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result), status, why);
}

static void plan_runs(void **state) {
    planned *here = *state;
    qs_train_result result;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result));
    assert_int_equal(result.predicted_bytes[0], result.reserved_bytes[0]);
    result_release(&result);
}

/* What the schedule does not depend on may differ from the planned job. */
static void other_seed_runs(void **state) {
    planned *here = *state;
    here->bench.job.seed = 99;
    here->bench.job.rate.base = 0.003;
    here->bench.job.epochs = 2;
    plan_runs(state);
}

static void effective_plan_is_written(void **state) {
    planned *here = *state;
    qs_train_result result;
    qs_plan written = {0};
    char path[128];
    here->bench.options.run_folder = here->bench.folder;
    here->bench.job.seed = 99;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result));
    result_release(&result);
    snprintf(path, sizeof path, "%s/plan.json", here->bench.folder);
    assert_ok(qs_plan_read(path, &written));
    assert_int_equal(written.job.seed, 99);
    assert_string_equal(written.class_[0].schedule, here->plan.class_[0].schedule);
    here->bench.options.plan = &written;
    plan_runs(state);
    qs_plan_release(&written);
}

static void other_model(void **state) {
    planned *here = *state;
    strcpy(here->bench.job.model, "mlp");
    refuse(here, QS_MISMATCH, "model lenet5, the job has mlp");
    here->plan.job.model[0] = '\0';
    refuse(here, QS_MISMATCH, "another model");
}

static void other_cluster(void **state) {
    planned *here = *state;
    here->bench.cluster.class_[0].threads = 7;
    refuse(here, QS_MISMATCH, "another cluster");
    here->plan.cluster[0] = '\0';
    strcpy(here->bench.cluster.class_[0].name, "weak");
    refuse(here, QS_MISMATCH, "no device class weak");
}

static void other_job(void **state) {
    planned *here = *state;
    here->bench.job.batch = 8;
    refuse(here, QS_MISMATCH, "batch 4, the job has 8");
    here->bench.job.batch = 4;
    here->bench.job.bucket_bytes = 1024;
    refuse(here, QS_MISMATCH, "bucket bytes 16384, the job has 1024");
    here->bench.job.bucket_bytes = 16384;
    *qs_job_setting(&here->bench.job, "momentum") = 0.5;
    refuse(here, QS_MISMATCH, "momentum 0.9, the job has 0.5");
}

/* Local batches are dealt out of the job's global batch, never more or less. */
static void batches_that_do_not_sum_up(void **state) {
    planned *here = *state;
    here->plan.class_[0].batch = 6;
    refuse(here, QS_MISMATCH, "sum to 6 samples over 1 ranks, the job's global batch is 4 (1 x 4)");
}

/* A plan that says nothing of the job fits any. */
static void no_job(void **state) {
    planned *here = *state;
    qs_train_result result;
    here->plan.without_job = true;
    here->plan.class_[0].schedule[0] = '\0';
    *qs_job_setting(&here->bench.job, "momentum") = 0.5;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result));
    result_release(&result);
}

static void transport_not_built(void **state) {
    planned *here = *state;
    strcpy(here->bench.job.wire, "int5");
    refuse(here, QS_UNSUPPORTED, "wire int5: there are fp32, bf16, int8");
    strcpy(here->bench.job.wire, "fp32");
    strcpy(here->bench.job.algorithm, "tree");
    refuse(here, QS_UNSUPPORTED, "algorithm tree");
}

static void unknown_operators_and_recipes(void **state) {
    planned *here = *state;
    qs_operator_choice *choice = &here->plan.class_[0].operator_[1];
    const qs_operator_choice before = *choice;
    strcpy(choice->name, "conv9");
    refuse(here, QS_MISMATCH, "operator conv9, which model lenet5 does not have");
    strcpy(choice->name, "relu1");
    refuse(here, QS_MISMATCH, "a relu follows its inputs");
    *choice = before;
    strcpy(choice->recipe, "int3");
    refuse(here, QS_MISMATCH, "recipe int3, which is not among its recipes");
}

static void class_without_the_format(void **state) {
    planned *here = *state;
    here->plan.cluster[0] = '\0';
    here->bench.cluster.class_[0].formats = 2; /* fp32 and bf16 */
    refuse(here, QS_MISMATCH, "recipe int8/bf16, but class single does not compute in int8");
}

static void other_kernels(void **state) {
    planned *here = *state;
    qs_plan_kernel *row = &here->plan.class_[0].kernel[0];
    char hash[32];
    strcpy(hash, here->plan.class_[0].schedule);
    strcpy(row->kernel, "brgconv:other");
    strcpy(here->plan.class_[0].schedule, "xxh64:0000000000000000");
    refuse(here, QS_MISMATCH, "no kernel brgconv:other");
    assert_message(row->case_text);
    assert_message("reference"); /* what there is */
    strcpy(row->kernel, "reference");
    here->plan.class_[0].kernel[1].case_text[0] = '?';
    refuse(here, QS_MISMATCH, "the plan has no kernel for");
}

static void other_hash(void **state) {
    planned *here = *state;
    strcpy(here->plan.class_[0].schedule, "xxh64:0123456789abcdef");
    refuse(here, QS_MISMATCH, "xxh64:0123456789abcdef");
    here->plan.class_[0].schedule[0] = '\0'; /* written by hand: not checked */
    plan_runs(state);
}

static void too_little_memory(void **state) {
    planned *here = *state;
    char figure[32];
    const int64_t bytes = here->plan.class_[0].predicted.arena_bytes;
    here->plan.cluster[0] = '\0';
    here->bench.cluster.class_[0].memory_limit = bytes / 2;
    snprintf(figure, sizeof figure, "%lld bytes", (long long)bytes);
    refuse(here, QS_INFEASIBLE, figure);
    snprintf(figure, sizeof figure, "%lld bytes", (long long)(bytes / 2));
    assert_message(figure);
}

#define PLANNED(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        PLANNED(plan_runs),
        PLANNED(other_seed_runs),
        PLANNED(effective_plan_is_written),
        PLANNED(other_model),
        PLANNED(other_cluster),
        PLANNED(other_job),
        PLANNED(batches_that_do_not_sum_up),
        PLANNED(no_job),
        PLANNED(transport_not_built),
        PLANNED(unknown_operators_and_recipes),
        PLANNED(class_without_the_format),
        PLANNED(other_kernels),
        PLANNED(other_hash),
        PLANNED(too_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
