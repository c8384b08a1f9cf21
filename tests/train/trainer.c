// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Whole small runs on one rank: losses fall, equal runs give equal bytes, saved weights evaluate as they did, memory is what the schedule
 * says and the class allows, and a run that breaks down says where. */
#include "kit/job_model.h"
#include "train_support.h"

static void small_open(bench *here, const char *model) {
    bench_open(here, fast_backend(), "self", model, 16);
    here->job.rate.base = 0.01;
    here->options.run_folder = here->folder;
}

typedef struct curve {
    double loss[8];
    int epochs;
    int64_t shown, timed; /* calls of progress and step_done */
} curve;

static void progress_note(void *context, int epoch, int epochs, int64_t step, int64_t steps, double loss, double samples_per_second,
                          const char *unit) {
    curve *here = context;
    assert_int_equal(epochs, 4);
    assert_int_equal(steps, 16);
    assert_int_equal(epoch * steps + step, here->shown++);
    assert_true(isfinite(loss) && loss > 0 && samples_per_second > 0);
    assert_string_equal(unit, "images");
}

static void step_note(void *context, int64_t step, double seconds) {
    curve *here = context;
    assert_int_equal(step, here->timed++);
    assert_true(seconds > 0);
}

static void curve_note(void *context, int epoch, double training_loss, const qs_evaluation *test) {
    curve *here = context;
    assert_int_equal(epoch, here->epochs);
    assert_true(isfinite(test->loss) && test->accuracy >= 0 && test->accuracy <= 1 && test->measures == 0);
    here->loss[here->epochs++] = training_loss;
}

TEST(losses_fall) {
    bench here;
    curve seen = {.epochs = 0};
    qs_train_result result;
    small_open(&here, "mlp:width=0.25");
    here.job.epochs = 4;
    here.options.epoch_done = curve_note;
    here.options.progress = progress_note;
    here.options.progress_context = &seen;
    here.options.step_done = step_note;
    here.options.step_context = &seen;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(seen.epochs, 4);
    assert_int_equal(result.steps, 64);
    assert_int_equal(seen.shown, 64);
    assert_int_equal(seen.timed, 64);
    assert_true(result.training_loss == seen.loss[3]);
    if (!(seen.loss[3] < 0.9 * seen.loss[0])) fail_msg("training loss went from %g to %g", seen.loss[0], seen.loss[3]);
    assert_true(result.median_step_us > 0 && result.samples_per_second > 0 && result.seconds > 0);
    result_release(&result);
    bench_close(&here);
}

/* Runs a job into the bench's folder; returns metrics.jsonl. */
static char *metrics_of(const char *model, uint64_t seed, bool augmentation, uint64_t *hash) {
    bench here;
    qs_train_result result;
    small_open(&here, model);
    here.job.seed = seed;
    here.job.augmentation = augmentation;
    here.options.training_limit = 64;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    *hash = result.weights_hash;
    char *metrics = NULL;
    file_text(here.folder, "metrics.jsonl", &metrics);
    result_release(&result);
    bench_close(&here);
    return metrics;
}

TEST(equal_runs_give_equal_bytes) {
    uint64_t hash[3];
    char *first = metrics_of("lenet5", 3, true, &hash[0]), *again = metrics_of("lenet5", 3, true, &hash[1]);
    char *other = metrics_of("lenet5", 4, true, &hash[2]);
    assert_string_equal(first, again);
    assert_true(hash[0] == hash[1]);
    assert_string_not_equal(first, other);
    assert_true(hash[0] != hash[2]);
    free(first);
    free(again);
    free(other);
}

/* Batch norm's running statistics must travel with the weights. */
TEST(saved_weights_evaluate_as_they_did) {
    bench here;
    qs_train_result result;
    qs_evaluation evaluation;
    char path[128];
    small_open(&here, "resnet8:width=0.5");
    here.options.training_limit = 64;
    here.options.test_limit = 40; /* no multiple of the batch: the last one is padded */
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    snprintf(path, sizeof path, "%s/weights.safetensors", here.folder);
    assert_ok(
        qs_evaluate(&(qs_evaluate_options){.weights = path, .job = &here.job, .test_limit = 40}, here.device, here.comm, &evaluation));
    assert_int_equal(evaluation.samples, 40);
    assert_true(evaluation.accuracy == result.test_accuracy);
    assert_true(evaluation.loss == result.test_loss);
    here.job.batch = 7; /* pieces do not matter but for the order of sums over at most 40 losses in fp32 */
    assert_ok(
        qs_evaluate(&(qs_evaluate_options){.weights = path, .job = &here.job, .test_limit = 40}, here.device, here.comm, &evaluation));
    assert_true(evaluation.accuracy == result.test_accuracy);
    assert_true(fabs(evaluation.loss - result.test_loss) <= 40 * 0x1p-24 * result.test_loss);
    strcpy(here.job.model, "resnet8");
    assert_refused(
        qs_evaluate(&(qs_evaluate_options){.weights = path, .job = &here.job, .test_limit = 40}, here.device, here.comm, &evaluation),
        QS_MISMATCH, "resnet8:width=0.5");
    result_release(&result);
    bench_close(&here);
}

TEST(starts_from_weights) {
    bench here, next;
    qs_train_result result, resumed;
    char path[128];
    small_open(&here, "mlp:width=0.25");
    small_open(&next, "mlp:width=0.25");
    here.options.max_steps = 3;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.steps, 3);
    snprintf(path, sizeof path, "%s/weights.safetensors", here.folder);
    next.options.start_weights = path;
    next.job.epochs = 0;
    assert_ok(qs_train(&next.options, next.device, next.comm, &resumed));
    assert_int_equal(resumed.steps, 0);
    assert_true(resumed.weights_hash == result.weights_hash);
    result_release(&result);
    result_release(&resumed);
    bench_close(&here);
    bench_close(&next);
}

/* 58 samples are three batches of 16 and one of 10; each is seen once. */
TEST(last_batch_may_be_smaller) {
    bench here;
    qs_train_result result;
    small_open(&here, "lenet5");
    here.options.training_limit = 58;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.steps, 4);
    char *metrics = NULL;
    file_text(here.folder, "metrics.jsonl", &metrics);
    assert_non_null(strstr(metrics, "\"samples\":58"));
    free(metrics);
    result_release(&result);
    bench_close(&here);
}

/* Evaluation shares the memory of training and leaves nothing behind. */
TEST(evaluation_leaves_no_trace) {
    uint64_t hash[2];
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        bench here;
        qs_train_result result;
        small_open(&here, "lenet5");
        here.options.run_folder = NULL;
        here.options.training_limit = 64;
        here.options.test_limit = evaluated ? 20 : -1;
        here.job.dynamic_loss_scaling = true; /* its check would trip over what is left in the gaps between gradients */
        here.job.loss_scale = 256;
        here.job.epochs = 3;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        assert_true(isnan(result.test_accuracy) == !evaluated);
        hash[evaluated] = result.weights_hash;
        result_release(&result);
        bench_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

static size_t arena_bytes(const bench *here) {
    qs_graph *graph = NULL;
    qs_schedule *schedule = NULL;
    assert_ok(job_model(&here->job, &graph));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    return bytes;
}

TEST(memory_is_the_schedules) {
    bench here;
    qs_train_result result;
    char figure[32];
    small_open(&here, "lenet5");
    here.options.max_steps = 1;
    here.options.run_folder = NULL;
    const size_t bytes = arena_bytes(&here);
    here.cluster.class_[0].memory_limit = (int64_t)bytes;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.ranks, 1);
    assert_int_equal(result.reserved_bytes[0], bytes);
    assert_int_equal(result.predicted_bytes[0], -1);
    result_release(&result);
    here.cluster.class_[0].memory_limit = (int64_t)bytes - 1;
    snprintf(figure, sizeof figure, "%zu bytes", bytes);
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_INFEASIBLE, figure);
    snprintf(figure, sizeof figure, "%zu bytes", bytes - 1);
    assert_message(figure);
    bench_close(&here);
}

TEST(divergence_is_named) {
    bench here;
    qs_train_result result;
    small_open(&here, "mlp:width=0.25");
    here.job.rate.base = 1e12;
    here.options.run_folder = NULL;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_NUMERIC, "training loss is not finite in step");
    here.options.max_steps = 1; /* its loss is that of the start weights: only evaluation sees what the update did */
    here.job.rate.base = 1e38;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_NUMERIC, "test loss is not finite after step 1");
    bench_close(&here);
}

/* A scale near the end of fp32's range: gradients overflow, the update is skipped, the scale halves until they do not. */
TEST(overflow_skips_and_halves) {
    bench here;
    qs_train_result result;
    small_open(&here, "mlp:width=0.25");
    here.job.dynamic_loss_scaling = true;
    here.job.loss_scale = 0x1p127;
    here.job.epochs = 2;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    char *metrics = NULL;
    file_text(here.folder, "metrics.jsonl", &metrics);
    const char *last = strstr(strstr(metrics, "\"epoch\":2"), "skipped_steps");
    const int skipped = atoi(last + strlen("skipped_steps\":"));
    assert_in_range(skipped, 1, 20);
    char scale[48];
    snprintf(scale, sizeof scale, "\"loss_scale\":%.9g", ldexp(1, 127 - skipped));
    if (!strstr(metrics, scale)) fail_msg("no %s in %s", scale, metrics);
    assert_true(result.training_loss < 3);
    free(metrics);
    result_release(&result);
    bench_close(&here);
}

/* Powers of two scale without rounding: the same bits with and without. */
TEST(scaling_changes_nothing_else) {
    uint64_t hash[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        bench here;
        qs_train_result result;
        small_open(&here, "mlp:width=0.25");
        here.options.run_folder = NULL;
        here.job.loss_scale = scaled ? 1024 : 1;
        here.job.dynamic_loss_scaling = scaled;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        hash[scaled] = result.weights_hash;
        result_release(&result);
        bench_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

TEST(bad_options_are_refused) {
    bench here;
    qs_train_result result;
    small_open(&here, "mlp:width=0.25");
    here.cluster.class_[0].count = 2;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE, "2 ranks but 1 were started");
    here.cluster.class_[0].count = 1;
    assert_ok(qs_narrow_find("fp(8,9)/chunk64/align-truncate", &here.cluster.class_[0].accumulator));
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "adds in fp(8,9)/chunk64/align-truncate");
    here.cluster.class_[0].accumulator.adder = NULL;
    here.options.start_weights = "/nonexistent/weights.safetensors";
    assert_int_not_equal(qs_train(&here.options, here.device, here.comm, &result), QS_OK);
    assert_message("/nonexistent/weights.safetensors");
    here.options.start_weights = NULL;
    here.options.run_folder = "/proc/nowhere";
    assert_int_not_equal(qs_train(&here.options, here.device, here.comm, &result), QS_OK);
    strcpy(here.job.dataset, "pictures");
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE, "pictures");
    bench_close(&here);
}

TEST_MAIN(losses_fall, equal_runs_give_equal_bytes, saved_weights_evaluate_as_they_did, starts_from_weights, last_batch_may_be_smaller,
          evaluation_leaves_no_trace, memory_is_the_schedules, divergence_is_named, overflow_skips_and_halves, scaling_changes_nothing_else,
          bad_options_are_refused)
