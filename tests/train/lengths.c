// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: profiler planner
/* Batches of several lengths: a step at a short length is the step padded to the longest one; runs repeat and go on bit for bit; memory is
 * that of the longest; what was planned of each length is checked and told. */
#include "lengths_support.h"

#include "qsync/planner.h"
#include "qsync/profiler.h"

static qs_train_result train(bench *here) {
    qs_train_result result;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    return result;
}

/* ---- One step ---- */

/* Loss and gradients of the first `count` samples of at most 4 words, at one length. */
static float *step_gradients(bench *here, const sentences *own, int64_t length, int64_t count, float *loss) {
    qs_graph *graph = NULL;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    int64_t indices[LONGEST], found = 0;
    for (int64_t n = 0; found < count; n++)
        if (own->training.length[n] <= 4) indices[found++] = n;
    assert_ok(qs_graph_of_length(own->graph, length, &graph));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = count,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_ok(qs_memory_reserve(here->device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here->device, here->comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, 3));
    assert_ok(qs_executor_load(executor, graph, &own->training, NULL, indices, count));
    assert_ok(qs_executor_run(executor, &(qs_run){.samples = count, .global_samples = count, .loss_scale = 1}));
    float *gradients = buffer_read(executor, schedule, schedule->gradients);
    *loss = loss_read(executor, schedule);
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    return gradients;
}

/* keep hides padding: what lies behind a sentence adds zeros to every sum. So sums of at most batch x length terms are the same numbers in
 * another order, through the dozen operators of two layers and back: that many roundings of the largest gradient. */
TEST(padding_changes_nothing) {
    enum { BATCH = 8 };
    const double tolerance = 24 * BATCH * LONGEST * 0x1p-24;
    for (int b = 0; b < 2; b++) {
        bench here;
        sentences own;
        float loss[2];
        double largest = 0, worst = 0;
        bench_open(&here, b ? "ref" : fast_backend(), "self", small_bert, BATCH);
        sentences_open(&here, small_bert, &own);
        float *one = step_gradients(&here, &own, 4, BATCH, &loss[0]), *other = step_gradients(&here, &own, LONGEST, BATCH, &loss[1]);
        for (int64_t i = 0; i < own.graph->trained_elements; i++) {
            largest = fmax(largest, fabs((double)one[i]));
            worst = fmax(worst, fabs((double)one[i] - (double)other[i]));
        }
        assert_near((double)loss[0], (double)loss[1], tolerance * (double)loss[0]);
        if (!(largest > 0 && worst <= tolerance * largest)) fail_msg("gradients differ by %g of %g", worst, largest);
        free(one);
        free(other);
        sentences_close(&own);
        bench_close(&here);
    }
}

/* ---- Runs ---- */

/* 301 sentences in batches of 16: full and smaller steps of every length. */
TEST(a_run_learns_and_repeats) {
    uint64_t hash[2];
    for (int again = 0; again < 2; again++) {
        bench here;
        sentences own;
        int64_t steps = 0;
        bench_open(&here, fast_backend(), "self", small_bert, 16);
        sentences_open(&here, small_bert, &own);
        here.job.epochs = 6;
        qs_train_result result = train(&here);
        assert_int_equal(result.lengths, 3);
        for (int k = 0; k < 3; k++) {
            int64_t there = 0;
            for (int64_t n = 0; n < SENTENCES; n++)
                there += qs_lengths_find(&several, own.training.length[n]) == k;
            assert_int_equal(result.length[k].length, several.at[k]);
            assert_int_equal(result.length[k].steps, 6 * (there / 16));
            assert_true(result.length[k].measured_us > 0);
            steps += 6 * ((there + 15) / 16);
        }
        assert_int_equal(result.steps, steps);
        assert_true(result.test_accuracy > 0.9);
        hash[again] = result.weights_hash;
        result_release(&result);
        sentences_close(&own);
        bench_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

/* The loss of an epoch does not depend on how its samples were padded, for weights that stay as they are. */
TEST(evaluation_and_training_see_the_same_loss) {
    double training[2], test[2];
    for (int k = 0; k < 2; k++) {
        bench here;
        sentences own;
        bench_open(&here, fast_backend(), "self", small_bert, 16);
        sentences_open(&here, small_bert, &own);
        if (k == 1) here.job.lengths.count = 0;
        here.job.rate.base = 0;
        here.job.epochs = 1;
        qs_train_result result = train(&here);
        training[k] = result.training_loss;
        test[k] = result.test_loss;
        result_release(&result);
        sentences_close(&own);
        bench_close(&here);
    }
    assert_near(training[0], training[1], 1e-5);
    assert_near(test[0], test[1], 1e-5);
}

TEST(a_stopped_run_goes_on) {
    bench whole, first, second;
    sentences own[3];
    char path[128];
    bench_open(&whole, fast_backend(), "self", small_bert, 16);
    bench_open(&first, fast_backend(), "self", small_bert, 16);
    bench_open(&second, fast_backend(), "self", small_bert, 16);
    sentences_open(&whole, small_bert, &own[0]);
    sentences_open(&first, small_bert, &own[1]);
    sentences_open(&second, small_bert, &own[2]);
    whole.job.rate.schedule = first.job.rate.schedule = second.job.rate.schedule = QS_RATE_CONSTANT;
    first.options.run_folder = first.folder;
    first.options.checkpoint_every = 1;
    first.options.max_steps = 13; /* in the middle of an epoch */
    snprintf(path, sizeof path, "%s/state.qsync", first.folder);
    second.options.resume = path;
    qs_train_result expected = train(&whole), stopped = train(&first), resumed = train(&second), other;
    second.job.lengths = (qs_lengths){3, {5, 8, LONGEST}};
    assert_int_equal(qs_train(&second.options, second.device, second.comm, &other), QS_MISMATCH);
    assert_non_null(strstr(qs_message(), "lengths"));
    second.job.lengths = (qs_lengths){0};
    assert_refused(qs_train(&second.options, second.device, second.comm, &other), QS_MISMATCH, "lengths is superfluous");
    assert_true(resumed.weights_hash == expected.weights_hash && stopped.weights_hash != expected.weights_hash);
    result_release(&expected);
    result_release(&stopped);
    result_release(&resumed);
    for (int i = 0; i < 3; i++)
        sentences_close(&own[i]);
    bench_close(&second);
    bench_close(&first);
    bench_close(&whole);
}

/* ---- Memory, plans, what is told ---- */

static size_t arena_of(bench *here, const qs_graph *graph, const qs_recipe *const *recipe, char *hash) {
    qs_schedule *schedule = NULL;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(&here->cluster.class_[0]),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_hash(schedule, hash);
    qs_schedule_release(schedule);
    return bytes;
}

/* A plan with a row for every length: hashes as they are lowered, times of its own. */
static void plan_make(bench *here, const sentences *own, qs_plan *out) {
    char signature[32];
    qs_graph_signature(own->graph, signature);
    *out = (qs_plan){.job = here->job};
    snprintf(out->graph, sizeof out->graph, "%s", signature);
    assert_ok(qs_allocate(1, sizeof *out->class_, &out->class_));
    out->classes = 1;
    qs_class_plan *one = out->class_;
    snprintf(one->class_name, sizeof one->class_name, "%s", here->cluster.class_[0].name);
    one->batch = here->job.batch;
    assert_ok(qs_allocate(3, sizeof *one->length, &one->length));
    for (one->lengths = 0; one->lengths < 3; one->lengths++) {
        qs_length_plan *row = &one->length[one->lengths];
        qs_graph *graph = NULL;
        *row = (qs_length_plan){.length = several.at[one->lengths], .share = 1 / 3.0, .iteration_us = 100 * (one->lengths + 1)};
        assert_ok(qs_graph_of_length(own->graph, row->length, &graph));
        row->arena_bytes = (int64_t)arena_of(here, graph, NULL, row->schedule);
        row->phases.forward_us = row->iteration_us;
        if (row->arena_bytes > one->predicted.arena_bytes) one->predicted.arena_bytes = row->arena_bytes;
        memcpy(one->schedule, row->schedule, sizeof one->schedule);
        qs_graph_release(graph);
    }
    one->predicted.iteration_us = 200;
}

TEST(memory_is_that_of_the_longest) {
    bench here;
    sentences own;
    qs_plan plan, again = {0};
    char *text = NULL, path[128], hash[32];
    bench_open(&here, fast_backend(), "self", small_bert, 16);
    sentences_open(&here, small_bert, &own);
    plan_make(&here, &own, &plan);
    here.options.plan = &plan;
    here.options.run_folder = here.folder;
    qs_train_result result = train(&here);
    assert_int_equal(result.reserved_bytes[0], arena_of(&here, own.graph, NULL, hash));
    assert_int_equal(result.predicted_bytes[0], result.reserved_bytes[0]);
    assert_string_equal(hash, plan.class_[0].schedule);
    /* Told for each length, and as a mean that weighs them by their steps. */
    double predicted = 0, measured = 0, steps = 0;
    for (int k = 0; k < 3; k++) {
        assert_true(result.audit.length[k].predicted_us == 100 * (k + 1));
        predicted += (double)result.audit.length[k].steps * result.audit.length[k].predicted_us;
        measured += (double)result.audit.length[k].steps * result.audit.length[k].measured_us;
        steps += (double)result.audit.length[k].steps;
    }
    assert_near(result.audit.predicted_us, predicted / steps, 1e-6 * predicted / steps);
    assert_near(result.audit.measured_us, measured / steps, 1e-6 * measured / steps);
    assert_near(result.audit.rank[0].predicted.forward_us, predicted / steps, 1e-6 * predicted / steps);
    file_text(here.folder, "audit.json", &text);
    assert_non_null(strstr(text, "\"lengths\": [{\"length\": 4, \"steps\": "));
    free(text);
    file_text(here.folder, "timing.json", &text);
    assert_non_null(strstr(text, "\"median_step_us.length16\""));
    free(text);
    result_release(&result);
    /* The plan that the run wrote names the lengths, and runs again. */
    snprintf(path, sizeof path, "%s/plan.json", here.folder);
    assert_ok(qs_plan_read(path, &again));
    assert_true(qs_lengths_equal(&again.job.lengths, &several) && again.class_[0].lengths == 3);
    here.options.plan = &again;
    result = train(&here);
    result_release(&result);
    qs_plan_release(&again);
    qs_plan_release(&plan);
    sentences_close(&own);
    bench_close(&here);
}

/* A list of one is the whole length by name: the plan says one time, which is that length's. */
TEST(a_list_of_one) {
    bench here;
    sentences own;
    qs_plan plan;
    bench_open(&here, fast_backend(), "self", small_bert, 16);
    sentences_open(&here, small_bert, &own);
    here.job.lengths = (qs_lengths){1, {LONGEST}};
    plan_make(&here, &own, &plan);
    plan.class_[0].lengths = 0;
    here.options.plan = &plan;
    qs_train_result result = train(&here);
    assert_int_equal(result.lengths, 1);
    assert_true(result.length[0].length == LONGEST && result.length[0].predicted_us == 200);
    assert_true(result.audit.predicted_us == 200);
    result_release(&result);
    qs_plan_release(&plan);
    sentences_close(&own);
    bench_close(&here);
}

/* Between two steps, in the middle of an epoch: every length gets the new plan's programs, and what lasts stays where it is. */
TEST(another_plan_on_the_way) {
    uint64_t hash[2];
    for (int watched = 0; watched < 2; watched++) {
        bench here;
        sentences own;
        qs_plan plan;
        char path[128];
        bench_open(&here, fast_backend(), "self", small_bert, 16);
        sentences_open(&here, small_bert, &own);
        here.job.epochs = 3;
        plan_make(&here, &own, &plan);
        snprintf(path, sizeof path, "%s/new.json", here.folder);
        assert_ok(qs_plan_write(path, &plan));
        here.options.watch_plan = watched ? path : NULL;
        here.options.watch_after = 10;
        qs_train_result result = train(&here);
        assert_int_equal(result.replans, watched);
        hash[watched] = result.weights_hash;
        result_release(&result);
        qs_plan_release(&plan);
        sentences_close(&own);
        bench_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

/* Kernels of every length are measured, planned with their hashes, and are what runs. */
TEST(profile_plan_train_audit) {
    bench here;
    sentences own;
    qs_profile_options how;
    qs_profile profile = {0};
    qs_plan_options wishes;
    qs_plan plan = {0};
    int64_t all = 0;
    bench_open(&here, fast_backend(), "self", small_bert, 16);
    sentences_open(&here, small_bert, &own);
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
    assert_int_equal(profile.lengths, 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(profile.length_row[k].length, several.at[k]);
        all += profile.length_row[k].samples;
    }
    assert_int_equal(all, SENTENCES);
    qs_plan_options_default(&wishes);
    wishes.lower_training = true;
    /* A plan that does not hang on what was measured: whether the kernels of a smaller step fit does hang on the plan. */
    assert_ok(qs_plan_make("uniform", own.graph, &here.cluster, &profile, &here.job, &wishes, &plan));
    assert_int_equal(plan.class_[0].lengths, 3);
    here.options.plan = &plan;
    qs_train_result result = train(&here);
    assert_int_equal(result.reserved_bytes[0], result.predicted_bytes[0]);
    for (int k = 0; k < 3; k++)
        assert_true(result.length[k].predicted_us == plan.class_[0].length[k].iteration_us && result.length[k].predicted_us > 0);
    assert_true(result.audit.rank[0].program_bytes >= plan.class_[0].predicted.program_bytes);
    result_release(&result);
    /* Blocks that are computed again are so at every length: less memory, the same bits. */
    uint64_t hash[2];
    int64_t arena[2];
    for (int again = 0; again < 2; again++) {
        qs_plan one = {0};
        wishes.recompute = again ? "all" : "no";
        assert_ok(qs_plan_make("fp32", own.graph, &here.cluster, &profile, &here.job, &wishes, &one));
        here.options.plan = &one;
        result = train(&here);
        assert_int_equal(result.reserved_bytes[0], result.predicted_bytes[0]);
        hash[again] = result.weights_hash;
        arena[again] = result.reserved_bytes[0];
        result_release(&result);
        qs_plan_release(&one);
    }
    assert_true(hash[0] == hash[1] && arena[1] < arena[0]);
    how.batches = 1;
    how.batch[0] = 8;
    qs_profile refused = {0};
    assert_refused(qs_profile_measure(&how, here.device, here.comm, &refused), QS_UNSUPPORTED, "3 lengths with other batches");
    how.batches = 0;
    here.job.lengths = (qs_lengths){2, {1, LONGEST}};
    for (int64_t n = 0; n < own.training.count; n++)
        if (own.training.length[n] == 1) own.training.length[n] = 2;
    assert_refused(qs_profile_measure(&how, here.device, here.comm, &refused), QS_USAGE, "length 1: no training sample is so short");
    qs_plan_release(&plan);
    qs_profile_release(&profile);
    sentences_close(&own);
    bench_close(&here);
}

TEST(what_does_not_fit_is_refused) {
    bench here;
    sentences own;
    qs_plan plan;
    qs_train_result result;
    bench_open(&here, fast_backend(), "self", small_bert, 16);
    sentences_open(&here, small_bert, &own);
    plan_make(&here, &own, &plan);
    here.options.plan = &plan;
    memcpy(plan.class_[0].length[1].schedule, plan.class_[0].length[2].schedule, sizeof plan.class_[0].schedule);
    assert_int_equal(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH);
    assert_non_null(strstr(qs_message(), "length 8"));
    plan.class_[0].length[1].length = 9;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH,
                   "what the plan says of lengths is not of the job's 4,8,16");
    plan.job.lengths = (qs_lengths){2, {8, LONGEST}};
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH,
                   "the plan was made for lengths 8,16, the job has 4,8,16");
    here.options.plan = NULL;
    here.job.lengths = (qs_lengths){2, {4, 8}};
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE,
                   "lengths 4,8: the longest must be the length of the samples, 16");
    qs_plan_release(&plan);
    sentences_close(&own);
    bench_close(&here);
    bench_open(&here, fast_backend(), "self", "lenet5", 16);
    here.job.lengths = several;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE, "takes no samples of a length that varies");
    bench_close(&here);
}

TEST_MAIN(padding_changes_nothing, a_run_learns_and_repeats, evaluation_and_training_see_the_same_loss, a_stopped_run_goes_on,
          memory_is_that_of_the_longest, a_list_of_one, another_plan_on_the_way, profile_plan_train_audit, what_does_not_fit_is_refused)
