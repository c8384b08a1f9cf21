// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Synchronous data parallelism is exact: two ranks of B samples do what one of 2B does, for unequal batches and a last partial step as
 * well, as long as no batch norm looks at the local batch. And what must be equal on both ranks is. */
#include "train_support.h"

/* ---- The gradient of one step ------------------------------------------------------------------------------------------------- */

typedef struct one_step {
    qs_graph *graph;
    qs_schedule *schedule;
    qs_arena arena;
    qs_executor *executor;
} one_step;

static void step_open(one_step *out, bench *here, qs_comm *comm, int64_t batch) {
    const qs_model_input input = {3, 32, 32, 10};
    assert_ok(qs_model_build(here->job.model, &input, &out->graph));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &out->schedule));
    assert_ok(qs_arena_reserve(out->schedule->arena_bytes, &out->arena));
    assert_ok(qs_executor_create(out->schedule, here->device, comm, out->arena.memory, &out->executor));
    qs_graph_initialize(out->graph, 5, qs_executor_buffer(out->executor, out->schedule->masters),
                        qs_executor_buffer(out->executor, out->schedule->running));
}

/* Samples first .. first+count of a set that both ranks make. */
static void step_run(one_step *here, const qs_dataset *dataset, int64_t first, int64_t count, int64_t global) {
    int64_t indices[64];
    const qs_schedule *schedule = here->schedule;
    for (int64_t i = 0; i < count; i++)
        indices[i] = first + i;
    qs_batch_fill(dataset, NULL, indices, count, 32, 32, qs_executor_buffer(here->executor, schedule->images),
                  qs_executor_buffer(here->executor, schedule->labels));
    const qs_run run = {.first_sample = first, .samples = count, .global_samples = global, .loss_scale = 1, .learning_rate = 0.01};
    assert_ok(qs_executor_run(here->executor, &run));
}

static void step_close(one_step *here) {
    qs_executor_release(here->executor);
    qs_arena_release(&here->arena);
    qs_schedule_release(here->schedule);
    qs_graph_release(here->graph);
}

/* A gradient sums at most 64 samples × 1024 places, twice in another order; errors of random sign grow with the root of the length, through
 * the layers before (11 of them at most, each with sums of at most 4608): 2^-24 × (sqrt(65536) + 11 × sqrt(4608)) = 6e-5 of the largest. */
static const double tolerance = 0x1p-24 * (256 + 11 * 68);

static void tensor_compare(const qs_parameter *parameter, const float *expected, const float *actual) {
    const int64_t count = qs_shape_count(&parameter->shape);
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs((double)actual[i] - (double)expected[i]) <= tolerance * largest)) {
            fail_msg("%s[%lld]: %.9g, alone %.9g", parameter->name, (long long)i, actual[i], expected[i]);
        }
    }
}

/* counts: samples of the two ranks; 0 leaves a rank with nothing to do but to add zeros. */
static void compare_with_one(const char *backend, const char *model, int64_t batch, const int64_t counts[2]) {
    bench here;
    qs_comm *self = NULL;
    qs_dataset dataset = {0};
    one_step shared, alone;
    bench_open(&here, backend, NULL, model, batch);
    const int rank = qs_comm_rank(here.comm);
    const int64_t all = counts[0] + counts[1];
    assert_int_equal(qs_comm_size(here.comm), 2);
    assert_ok(qs_comm_open("self", &self));
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, all, &dataset));
    step_open(&shared, &here, here.comm, counts[rank] ? counts[rank] : batch);
    step_open(&alone, &here, self, all);
    step_run(&shared, &dataset, rank ? counts[0] : 0, counts[rank], all);
    step_run(&alone, &dataset, 0, all, all);
    const float *expected = qs_executor_buffer(alone.executor, alone.schedule->gradients);
    const float *actual = qs_executor_buffer(shared.executor, shared.schedule->gradients);
    for (int i = 0; i < shared.graph->parameters; i++) {
        const qs_parameter *parameter = &shared.graph->parameter[i];
        if (parameter->gradient != QS_ROLE_COUNT) tensor_compare(parameter, expected + parameter->offset, actual + parameter->offset);
    }
    step_close(&alone);
    step_close(&shared);
    qs_dataset_release(&dataset);
    qs_comm_close(self);
    bench_close(&here);
}

static const char *const models[] = {"mlp:width=0.25", "lenet5", "vgg11:width=0.125"};

static void equal_batches(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        compare_with_one("ref", models[i], 4, (const int64_t[]){4, 4});
        if (backend_exists("cpu")) compare_with_one("cpu", models[i], 8, (const int64_t[]){8, 8});
    }
}

static void unequal_batches(void **state) {
    (void)state;
    compare_with_one("ref", "lenet5", 6, (const int64_t[]){6, 2});
    compare_with_one("ref", "lenet5", 4, (const int64_t[]){3, 0});
}

/* ---- Whole runs ------------------------------------------------------------------------------------------------------------------- */

static const char *fast_backend(void) {
    return backend_exists("cpu") ? "cpu" : "ref";
}

/* 150 samples over 2 × 16: four full steps and one of 22. hash_every 1 compares the master weights after each step; batch norm's running
 * statistics differ between ranks until they are averaged. */
static void ranks_hold_equal_weights(void **state) {
    (void)state;
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
static void a_rank_may_be_left_without_samples(void **state) {
    (void)state;
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

static void equal_runs_give_equal_bytes(void **state) {
    (void)state;
    char *first = NULL, *again = NULL;
    assert_true(run_hash(&first) == run_hash(&again));
    if (first) assert_string_equal(first, again);
    free(first);
    free(again);
}

/* What one rank lacks stops both, with its name. */
static void one_rank_fails_for_all(void **state) {
    (void)state;
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "lenet5", 8);
    if (qs_comm_rank(here.comm) == 1) here.options.start_weights = "/nonexistent/weights.qsync";
    assert_int_not_equal(qs_train(&here.options, here.device, here.comm, &result), QS_OK);
    assert_non_null(strstr(qs_message(), "rank 1"));
    assert_non_null(strstr(qs_message(), "/nonexistent/weights.qsync"));
    bench_close(&here);
}

/* MPI starts and ends once in a process: this communicator holds it while the tests open and close theirs. */
int main(void) {
    qs_comm *world = NULL;
    if (qs_comm_open(NULL, &world) != QS_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_batches),
        cmocka_unit_test(unequal_batches),
        cmocka_unit_test(ranks_hold_equal_weights),
        cmocka_unit_test(a_rank_may_be_left_without_samples),
        cmocka_unit_test(equal_runs_give_equal_bytes),
        cmocka_unit_test(one_rank_fails_for_all),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qs_comm_close(world);
    return failures;
}
