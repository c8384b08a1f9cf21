// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: profiler planner
/* Models of several typed inputs, a program's own data sets, targets of every kind: they are learnt; what does not count does not; ids
 * outside the table never reach a kernel; from a profile to a plan to training to its audit. */
#include "inputs_support.h"

#include "qsync/planner.h"
#include "qsync/profiler.h"

static qs_train_result train(bench *here) {
    qs_train_result result;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    return result;
}

/* Guessing costs log(classes), or the variance of a difference of two numbers, 0.5; a mean over classes of the true answers none. */
static void learns(const char *backend, qs_target_kind kind, int64_t classes, int64_t training, int epochs, double guess) {
    bench here;
    two_inputs own;
    bench_open(&here, backend, "self", "two inputs", 32);
    two_open(&own, kind, classes, training);
    two_job(&here, &own, epochs);
    qs_train_result result = train(&here);
    if (!(result.test_loss < guess / 3)) fail_msg("kind %d on %s: loss %g, by guessing %g", (int)kind, backend, result.test_loss, guess);
    if (kind == QS_TARGET_REAL)
        assert_true(isnan(result.test_accuracy));
    else
        assert_true(result.test_accuracy > 0.7 && result.test_accuracy <= 1);
    result_release(&result);
    two_close(&own);
    bench_close(&here);
}

TEST(every_kind_of_target_is_learnt) {
    for (int b = 0; b < 2; b++) {
        const char *backend = b ? "ref" : fast_backend();
        learns(backend, QS_TARGET_CLASS, IDS, TRAINING, 12, log(IDS));
        learns(backend, QS_TARGET_CLASS_PER_POSITION, IDS, TRAINING, 20, log(IDS));
        learns(backend, QS_TARGET_SPAN, IDS, TRAINING, 20, log(LENGTH));
        learns(backend, QS_TARGET_REAL, IDS, TRAINING, 20, 0.5);
    }
}

TEST(a_thousand_classes) {
    learns(fast_backend(), QS_TARGET_CLASS, 1000, 8000, 10, log(1000));
}

/* With smoothing the training loss has a floor, the entropy of its targets; evaluation has none: a model that has learnt lies between. */
TEST(labels_are_smoothed_in_training_alone) {
    const double smoothing = 0.3, all = smoothing / IDS, own = 1 - smoothing + all;
    const double floor_ = -own * log(own) - (IDS - 1) * all * log(all);
    bench here;
    two_inputs set;
    bench_open(&here, fast_backend(), "self", "two inputs", 32);
    two_open(&set, QS_TARGET_CLASS, IDS, TRAINING);
    two_job(&here, &set, 12);
    here.job.label_smoothing = smoothing;
    qs_train_result result = train(&here);
    assert_true(result.training_loss > floor_ && result.training_loss < 1.2 * floor_);
    assert_true(result.test_loss < 0.8 * floor_);
    result_release(&result);
    two_close(&set);
    two_open(&set, QS_TARGET_REAL, IDS, TRAINING);
    two_job(&here, &set, 1);
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE, "squared_loss, is not over classes");
    two_close(&set);
    bench_close(&here);
}

/* ---- A schedule of one batch ---- */

typedef struct one_batch {
    two_inputs own;
    bench here;
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
} one_batch;

static void batch_open(one_batch *one, qs_target_kind kind, qs_mode mode, int64_t batch) {
    bench_open(&one->here, fast_backend(), "self", "two inputs", batch);
    two_open(&one->own, kind, IDS, TRAINING);
    const qs_lowering lowering = {.graph = one->own.graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = &one->here.job,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = one->here.device};
    assert_ok(qs_schedule_lower(&lowering, &one->schedule));
    assert_ok(qs_memory_reserve(one->here.device, one->schedule->arena_bytes, &one->memory));
    assert_ok(qs_executor_create(one->schedule, one->here.device, one->here.comm, one->memory, &one->executor));
    assert_ok(qs_executor_initialize(one->executor, one->own.graph, 3));
}

static void batch_close(one_batch *one) {
    qs_executor_release(one->executor);
    qs_memory_release(one->memory);
    qs_schedule_release(one->schedule);
    two_close(&one->own);
    bench_close(&one->here);
}

/* A buffer for each input and one for the target, named and sized by what samples are; ids and labels lie in them as int32. */
TEST(buffers_follow_the_samples) {
    enum { BATCH = 4 };
    one_batch one;
    batch_open(&one, QS_TARGET_CLASS_PER_POSITION, QS_MODE_TRAIN, BATCH);
    const qs_schedule *schedule = one.schedule;
    const int64_t indices[BATCH] = {3, 1, 2, 0};
    assert_int_equal(schedule->inputs, 2);
    assert_string_equal(schedule->buffer[schedule->input[0]].name, "ids");
    assert_string_equal(schedule->buffer[schedule->input[1]].name, "numbers");
    assert_int_equal(schedule->buffer[schedule->input[0]].bytes, BATCH * LENGTH * 4);
    assert_int_equal(schedule->buffer[schedule->input[1]].bytes, BATCH * LENGTH * IDS * 4);
    assert_int_equal(schedule->buffer[schedule->target].bytes, BATCH * LENGTH * 4);
    assert_ok(qs_executor_load(one.executor, one.own.graph, &one.own.training, NULL, indices, 3));
    int32_t *ids = buffer_read(one.executor, schedule, schedule->input[0]), *labels = buffer_read(one.executor, schedule, schedule->target);
    int64_t counted = 0;
    for (int64_t n = 0; n < 3; n++)
        for (int64_t k = 0; k < LENGTH; k++) {
            const int32_t *set = one.own.training.input[0], length = one.own.training.length[indices[n]];
            assert_int_equal(ids[n * LENGTH + k], k < length ? set[indices[n] * LENGTH + k] : 0);
            assert_true(labels[n * LENGTH + k] == (k >= length || k % 5 == 4 ? -1 : (ids[n * LENGTH + k] * 7 + 3) % IDS));
            counted += labels[n * LENGTH + k] >= 0;
        }
    assert_int_equal(qs_dataset_counted(&one.own.training, indices, 3), counted);
    for (int64_t k = 3 * LENGTH; k < BATCH * LENGTH; k++)
        assert_true(ids[k] == 0 && labels[k] == 0); /* the place of a sample that is not there */
    free(ids);
    free(labels);
    batch_close(&one);
}

/* Rows of the table that no sample has get the gradient 0; the others theirs, the same bits for any threads. */
TEST(gradients_of_the_table_are_sparse) {
    enum { BATCH = 4 };
    float *gradient[2];
    for (int t = 0; t < 2; t++) {
        one_batch one;
        bool present[IDS] = {false};
        const int64_t indices[BATCH] = {0, 1, 2, 3};
        assert_ok(qs_threads_set(t ? 3 : 1));
        batch_open(&one, QS_TARGET_CLASS, QS_MODE_TRAIN, BATCH);
        assert_ok(qs_executor_load(one.executor, one.own.graph, &one.own.training, NULL, indices, BATCH));
        int32_t *ids = buffer_read(one.executor, one.schedule, one.schedule->input[0]);
        assert_ok(qs_executor_run(one.executor, &(qs_run){.samples = BATCH, .global_samples = BATCH, .loss_scale = 1}));
        gradient[t] = buffer_read(one.executor, one.schedule, one.schedule->gradients);
        const qs_parameter *table = qs_graph_parameter(one.own.graph, 2, QS_WEIGHTS);
        for (int i = 0; i < BATCH * LENGTH; i++)
            present[ids[i]] = true;
        for (int row = 0; row < IDS; row++) {
            double norm = 0;
            for (int d = 0; d < FEATURES; d++)
                norm += fabs((double)gradient[t][table->offset + row * FEATURES + d]);
            assert_true(present[row] ? norm > 0 : norm == 0);
        }
        if (t) assert_memory_equal(gradient[0] + table->offset, gradient[1] + table->offset, IDS * FEATURES * sizeof(float));
        free(ids);
        batch_close(&one);
    }
    assert_ok(qs_threads_set(1));
    free(gradient[0]);
    free(gradient[1]);
}

/* ---- Refusals ---- */

TEST(sets_that_do_not_fit_are_refused) {
    bench here;
    two_inputs own, other;
    qs_train_result result;
    bench_open(&here, fast_backend(), "self", "two inputs", 32);
    two_open(&own, QS_TARGET_CLASS, IDS, TRAINING);
    two_open(&other, QS_TARGET_CLASS, IDS + 1, TRAINING);
    two_job(&here, &own, 1);
    here.options.training = &other.training;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "takes 0 to 39, two inputs has values up to 40");
    other.training.description.samples.input[0].bound = 0;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "give the input a bound");
    two_close(&other);
    two_open(&other, QS_TARGET_REAL, IDS, TRAINING);
    here.options.training = &other.training;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "the model learns a class");
    two_close(&other);
    two_close(&own);
    bench_close(&here);
}

/* ---- A file of the model ---- */

/* graph.json says inputs, targets and tables as they are; a job may name it in place of a built-in model, for the same bits. */
TEST(the_model_comes_back_from_its_file) {
    for (int kind = 0; kind < KINDS; kind++) {
        bench here;
        two_inputs own;
        qs_graph *again = NULL;
        char signature[32], other[32];
        bench_open(&here, fast_backend(), "self", "two inputs", 32);
        two_open(&own, (qs_target_kind)kind, IDS, TRAINING);
        two_job(&here, &own, 1);
        assert_true(snprintf(here.job.model, sizeof here.job.model, "%s/graph.json", here.folder) < (int)sizeof here.job.model);
        assert_ok(qs_graph_write(own.graph, here.job.model));
        assert_ok(qs_graph_read(here.job.model, &again));
        assert_string_equal(qs_graph_signature(own.graph, signature), qs_graph_signature(again, other));
        assert_memory_equal(&again->samples.target, &own.graph->samples.target, sizeof again->samples.target);
        assert_int_equal(again->samples.input[0].bound, IDS);
        qs_graph_release(again);
        qs_train_result built = train(&here);
        here.options.graph = NULL;
        qs_train_result read = train(&here);
        assert_true(built.weights_hash == read.weights_hash);
        result_release(&built);
        result_release(&read);
        two_close(&own);
        bench_close(&here);
    }
}

/* ---- From a profile to an audit ---- */

/* A plan of the planner's, trained; the last linear layers are all that takes recipes. */
static void plan_train(bench *here, const two_inputs *own, const qs_profile *profile, const char *planner) {
    qs_plan_options wishes;
    qs_plan plan = {0};
    qs_plan_options_default(&wishes);
    assert_ok(qs_plan_make(planner, own->graph, &here->cluster, profile, &here->job, &wishes, &plan));
    assert_int_equal(plan.class_[0].operators, 2);
    assert_true((plan.class_[0].tensors > 0) == qs_planner_assigns(planner));
    for (int i = 0; i < plan.class_[0].tensors; i++)
        assert_true(strcmp(plan.class_[0].tensor[i].name, "ids") != 0);
    here->options.plan = &plan;
    qs_train_result result = train(here);
    assert_true(result.reserved_bytes[0] == result.predicted_bytes[0]);
    assert_true(result.audit.ranks == 1 && result.audit.predicted_us > 0 && result.audit.measured_us > 0);
    assert_true(result.audit.rank[0].predicted.data_us > 0);
    if (!(result.test_accuracy > 0.7)) fail_msg("%s: accuracy %g", planner, result.test_accuracy);
    result_release(&result);
    here->options.plan = NULL;
    qs_plan_release(&plan);
}

/* `demote` rounds tensors, those of the table and of the numbers among them, to formats that the class stores. */
TEST(profile_plan_train_audit) {
    bench here;
    two_inputs own;
    qs_profile_options how;
    qs_profile profile = {0};
    bench_open(&here, fast_backend(), "self", "two inputs", 32);
    two_open(&own, QS_TARGET_CLASS, IDS, TRAINING);
    two_job(&here, &own, 12);
    qs_class *one = &here.cluster.class_[0];
    one->storage[one->storages++] = qs_format_of("fp(6,9,0)");
    one->storage[one->storages++] = qs_format_of("fp(4,3,4)");
    one->storage[one->storages++] = qs_format_of("fp(5,2,0)");
    qs_profile_options_default(&how);
    how.job = &here.job;
    how.cluster = &here.cluster;
    how.graph = own.graph;
    how.training = &own.training;
    how.test = &own.test;
    how.repetitions = 2;
    how.statistics_iterations = 2;
    how.conversion_seconds = 0.3;
    assert_ok(qs_profile_measure(&how, here.device, here.comm, &profile));
    plan_train(&here, &own, &profile, "exact");
    plan_train(&here, &own, &profile, "qsync");
    plan_train(&here, &own, &profile, "demote");
    qs_profile_release(&profile);
    two_close(&own);
    bench_close(&here);
}

TEST_MAIN(every_kind_of_target_is_learnt, a_thousand_classes, labels_are_smoothed_in_training_alone, buffers_follow_the_samples,
          gradients_of_the_table_are_sparse, sets_that_do_not_fit_are_refused, the_model_comes_back_from_its_file, profile_plan_train_audit)
