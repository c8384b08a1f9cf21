// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Synchronous data parallelism is exact: two ranks of B samples do what one of 2B does, for unequal batches and a last partial step as
 * well, as long as no batch norm looks at the local batch. And what must be equal on both ranks is. */
#include "exact_support.h"

/* ---- The gradient of one step ------------------------------------------------------------------------------------------------- */

static const char *const models[] = {"mlp:width=0.25", "lenet5", "vgg11:width=0.125", "resnet8:width=0.5,norm=l1ln"};

TEST(equal_batches) {
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        compare_with_one("ref", models[i], 4, (const int64_t[]){4, 4});
        if (backend_exists("cpu")) compare_with_one("cpu", models[i], 8, (const int64_t[]){8, 8});
    }
}

TEST(unequal_batches) {
    compare_with_one("ref", "lenet5", 6, (const int64_t[]){6, 2});
    compare_with_one("ref", "lenet5", 4, (const int64_t[]){3, 0});
    if (backend_exists("cpu")) compare_with_one("cpu", "lenet5", 16, (const int64_t[]){12, 4});
}

/* ---- Whole runs ------------------------------------------------------------------------------------------------------------------- */

/* 150 samples over 2 × 16: four full steps and one of 22. hash_every 1 compares the master weights after each step; batch norm's running
 * statistics differ between ranks until they are averaged. */
TEST(ranks_hold_equal_weights) {
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "resnet8:width=0.5", 16);
    here.options.training_limit = 150;
    here.options.hash_every = 1;
    here.job.augmentation = true;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.steps, 5);
    assert_int_equal(result.ranks, 2);
    assert_true(result.reserved_bytes[0] > 0 && result.reserved_bytes[0] == result.reserved_bytes[1]);
    double hash[2] = {(double)(result.weights_hash >> 32), -(double)(result.weights_hash >> 32)};
    assert_ok(qs_comm_max(here.comm, hash, 2));
    assert_true(hash[0] == -hash[1]);
    result_release(&result);
    bench_close(&here);
}

/* 33 samples: the second step has one, which leaves rank 0 without any. */
TEST(a_rank_may_be_left_without_samples) {
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "lenet5", 16);
    here.options.training_limit = 33;
    here.options.hash_every = 1;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.steps, 2);
    result_release(&result);
    bench_close(&here);
}

static uint64_t run_hash(char **metrics) {
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "lenet5", 8);
    here.options.run_folder = here.folder;
    here.options.training_limit = 64;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    const uint64_t hash = result.weights_hash;
    *metrics = NULL;
    if (qs_comm_rank(here.comm) == 0) file_text(here.folder, "metrics.jsonl", metrics);
    result_release(&result);
    bench_close(&here);
    return hash;
}

TEST(equal_runs_give_equal_bytes) {
    char *first = NULL, *again = NULL;
    assert_true(run_hash(&first) == run_hash(&again));
    if (first) assert_string_equal(first, again);
    free(first);
    free(again);
}

/* What one rank lacks stops both, with its name. */
TEST(one_rank_fails_for_all) {
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "lenet5", 8);
    if (qs_comm_rank(here.comm) == 1) here.options.start_weights = "/nonexistent/weights.safetensors";
    assert_int_not_equal(qs_train(&here.options, here.device, here.comm, &result), QS_OK);
    assert_message("rank 1");
    assert_message("/nonexistent/weights.safetensors");
    bench_close(&here);
}

TEST_MAIN_RANKS(equal_batches, unequal_batches, ranks_hold_equal_weights, a_rank_may_be_left_without_samples, equal_runs_give_equal_bytes,
                one_rank_fails_for_all)
