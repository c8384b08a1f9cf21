// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Two ranks go on from a state: the bits of a run in one piece, with residuals of a narrow wire, which differ from rank to rank, and
 * running statistics that follow each rank's own batches. Adam on a narrow wire keeps the ranks alike and learns. */
#include "train_support.h"

static const char *fast_backend(void) {
    return backend_exists("cpu") ? "cpu" : "ref";
}

/* The folder is rank 0's. */
static void two_open(bench *here, const char *model, const char *wire, int epochs) {
    bench_open(here, fast_backend(), NULL, model, 16);
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

static void goes_on(const char *wire) {
    bench whole, first, second;
    char path[128];
    two_open(&whole, "resnet8:width=0.25", wire, 3);
    qs_train_result expected = run(&whole);
    two_open(&first, "resnet8:width=0.25", wire, 1);
    qs_train_result stopped = run(&first);
    two_open(&second, "resnet8:width=0.25", wire, 3);
    snprintf(path, sizeof path, "%s/state.qsync", first.folder);
    second.options.resume = path;
    qs_train_result resumed = run(&second);
    assert_true(resumed.weights_hash == expected.weights_hash && stopped.weights_hash != expected.weights_hash);
    assert_true(resumed.test_loss == expected.test_loss && resumed.training_loss == expected.training_loss);
    assert_true(expected.training_loss < stopped.training_loss);
    qs_train_result_release(&expected);
    qs_train_result_release(&stopped);
    qs_train_result_release(&resumed);
    two_close(&second);
    two_close(&first);
    two_close(&whole);
}

static void bits_of_one_piece(void **state) {
    (void)state;
    goes_on("fp32");
    goes_on("int8");
}

int main(void) {
    qs_comm *world = NULL;
    if (qs_comm_open(NULL, &world) != QS_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_of_one_piece)};
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qs_comm_close(world);
    return failures;
}
