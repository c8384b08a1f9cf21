// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Two ranks go on from a state: the bits of a run in one piece, with residuals of a narrow wire, which differ from rank to rank,
 * running statistics that follow each rank's own batches, and promotions that their last step calls for. Adam on a narrow wire keeps the
 * ranks alike and learns. */
#include "train_support.h"

/* The folder is rank 0's. */
static void two_open(bench *here, const char *model, const char *wire, int epochs) {
    bench_open(here, fast_backend(), NULL, model, 16);
    if (qs_comm_rank(here->comm) != 0) folder_remove(here->folder);
    assert_ok(qs_comm_broadcast(here->comm, here->folder, sizeof here->folder, 0));
    assert_ok(qs_job_optimizer_set(&here->job, "adam"));
    here->job.rate.base = 0.005;
    here->job.rate.schedule = QS_RATE_CONSTANT;
    here->job.epochs = epochs;
    here->job.augmentation = true;
    snprintf(here->job.wire, sizeof here->job.wire, "%s", wire);
    here->options.run_folder = here->folder;
    here->options.checkpoint_every = 1;
    here->options.hash_every = 1;
}

static void two_close(bench *here) {
    assert_ok(qs_comm_barrier(here->comm));
    bench_close(here);
}

static qs_train_result run(bench *here) {
    qs_train_result result;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    return result;
}

/* plan: NULL, or promotes two tensors behind the first step, where the first run stops then. */
static void goes_on(const char *model, const char *wire, const qs_plan *plan) {
    bench whole, first, second;
    char path[128];
    two_open(&whole, model, wire, 3);
    two_open(&first, model, wire, 1);
    two_open(&second, model, wire, 3);
    snprintf(path, sizeof path, "%s/state.qsync", first.folder);
    whole.options.plan = first.options.plan = second.options.plan = plan;
    first.options.max_steps = plan ? 1 : 0;
    second.options.resume = path;
    qs_train_result expected = run(&whole), stopped = run(&first), resumed = run(&second);
    assert_int_equal(expected.promotions, plan ? 2 : 0);
    assert_int_equal(stopped.promotions, 0);
    assert_int_equal(resumed.promotions, expected.promotions);
    assert_true(resumed.weights_hash == expected.weights_hash && stopped.weights_hash != expected.weights_hash);
    assert_true(resumed.test_loss == expected.test_loss && resumed.training_loss == expected.training_loss);
    assert_true(plan || expected.training_loss < stopped.training_loss);
    qs_train_result_release(&expected);
    qs_train_result_release(&stopped);
    qs_train_result_release(&resumed);
    two_close(&second);
    two_close(&first);
    two_close(&whole);
}

TEST(bits_of_one_piece) {
    goes_on("resnet8:width=0.25", "fp32", NULL);
    goes_on("resnet8:width=0.25", "int8", NULL);
}

/* fp(2,1,8) holds magnitudes up to 2^-5 × 1.5: nearly all images and half of the activations overflow. */
TEST(promotions_of_the_last_step) {
    static const char text[] = "{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":{},\"tensors\":{"
                               "\"input\":{\"value\":\"fp(2,1,8)\",\"saved\":\"fp(2,1,8)\",\"promote_at\":0.3},"
                               "\"conv2\":{\"value\":\"fp(2,1,8)\",\"saved\":\"fp(2,1,8)\",\"promote_at\":0.01}}}}}";
    qs_plan plan;
    assert_ok(qs_plan_parse(text, "plan", &plan));
    goes_on("lenet5", "fp32", &plan);
    qs_plan_release(&plan);
}

TEST_MAIN_RANKS(bits_of_one_piece, promotions_of_the_last_step)
