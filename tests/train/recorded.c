// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Steps as recordings of the device: the same bits as kernels one by one, for an executor whatever a run brings, and for a whole training
 * with dropout, stochastic rounding, a rate that changes, skipped steps, evaluation, another plan on the way and going on from a state. Who
 * observes or times a run has its kernels one by one. Devices that record nothing do all of it as ever. */
#include "plan_support.h"
#include "program_support.h"

static const qs_records ways[] = {QS_RECORDS_NEVER, QS_RECORDS_ALWAYS, QS_RECORDS_TRIED};
enum { WAYS = COUNT_OF(ways), RUNS = 12 };

static bool records(void) {
    return strcmp(device_options(fast_backend(), NULL, 1, 1).backend, "cuda") == 0;
}

static qs_device *device_of(qs_records way) {
    qs_device_options options = device_options(fast_backend(), NULL, 1, 1);
    qs_device *device = NULL;
    options.cuda.records = way;
    assert_ok(qs_device_open(&options, &device));
    return device;
}

/* ---- An executor ---- */

static program *program_of(qs_records way) {
    static qs_recipe recipe;
    program *here = calloc(1, sizeof *here);
    assert_non_null(here);
    assert_ok(qs_recipe_builtin("int8/bf16", &recipe));
    bench_open(&here->bench, fast_backend(), "self", "mlp:width=0.1+dropout=0.25", 4);
    qs_device_close(here->bench.device);
    here->bench.device = device_of(way);
    here->bench.job.dynamic_loss_scaling = true;
    assert_ok(job_model(&here->bench.job, &here->graph));
    here->recipe = recipe_everywhere(here->graph, &recipe);
    here->schedule = program_lowered(here, QS_MODE_TRAIN);
    assert_ok(qs_memory_reserve(here->bench.device, here->schedule->arena_bytes, &here->memory));
    assert_ok(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, here->memory, &here->executor));
    weights_start(here);
    return here;
}

static void program_end(program *here) {
    void *state = here;
    program_close(&state);
}

static uint64_t step_run(program *here, uint64_t step) {
    const qs_run run = {.seed = 5,
                        .step = step,
                        .samples = 4,
                        .global_samples = 4,
                        .loss_scale = (double)(1 << step % 3),
                        .learning_rate = 0.01 / (double)(1 + step),
                        .updates = (int64_t)step};
    inputs_fill(here);
    assert_ok(qs_executor_run(here->executor, &run));
    const int masters = here->schedule->masters;
    void *weights = buffer_read(here->executor, here->schedule, masters);
    const uint64_t hash = qs_hash(weights, here->schedule->buffer[masters].bytes, 0);
    free(weights);
    return hash;
}

TEST(executors_agree) {
    uint64_t hash[WAYS][RUNS];
    for (int w = 0; w < WAYS; w++) {
        program *here = program_of(ways[w]);
        for (int i = 0; i < RUNS; i++) {
            const qs_recorded at = qs_executor_recorded(here->executor);
            const bool none = !records() || ways[w] == QS_RECORDS_NEVER;
            if (none) assert_int_equal(at.state, QS_RECORDED_NO);
            if (!none && i < 3) assert_int_equal(at.state, QS_RECORDED_TRYING);
            hash[w][i] = step_run(here, (uint64_t)i);
            assert_true(i == 0 || hash[w][i] != hash[w][i - 1]);
        }
        const qs_recorded found = qs_executor_recorded(here->executor);
        if (records() && ways[w] == QS_RECORDS_ALWAYS) {
            int kernels[3] = {0}, recordings = 0, all = 0;
            for (int s = 0; s < here->schedule->steps; s++)
                kernels[here->schedule->step[s].phase] += here->schedule->step[s].kind == QS_STEP_KERNEL;
            for (int phase = 0; phase < 3; phase++) { /* one stretch each, where a rank alone has nothing to wait for */
                recordings += kernels[phase] >= 4;
                all += kernels[phase] >= 4 ? kernels[phase] : 0;
            }
            assert_int_equal(found.state, QS_RECORDED_YES);
            assert_true(recordings >= 2);
            assert_true(found.recorded_us > 0 && found.one_by_one_us == 0); /* for who predicts them */
            assert_int_equal(found.recordings, recordings);
            assert_int_equal(found.kernels, all);
        }
        if (records() && ways[w] == QS_RECORDS_TRIED) {
            assert_int_not_equal(found.state, QS_RECORDED_TRYING);
            assert_true(found.one_by_one_us > 0 && found.recorded_us > 0);
            assert_int_equal(found.state == QS_RECORDED_YES, found.recorded_us <= found.one_by_one_us);
            assert_int_equal(found.recordings > 0, found.state == QS_RECORDED_YES);
        }
        program_end(here);
    }
    for (int w = 1; w < WAYS; w++)
        assert_memory_equal(hash[0], hash[w], sizeof hash[0]);
}

static void step_count(void *context, const qs_schedule *schedule, int step, double seconds) {
    int *seen = context;
    (void)schedule, (void)seconds;
    assert_int_equal(step, (*seen)++);
}

/* Between runs of recordings, and with their bits. */
TEST(observers_see_all) {
    program *here = program_of(QS_RECORDS_NEVER);
    uint64_t hash[RUNS];
    qs_timeline timeline;
    int seen = 0;
    for (uint64_t i = 0; i < RUNS; i++)
        hash[i] = step_run(here, i);
    program_end(here);
    here = program_of(QS_RECORDS_ALWAYS);
    assert_ok(qs_timeline_create(here->schedule, &timeline));
    for (uint64_t i = 0; i < RUNS; i++) {
        qs_executor_observe(here->executor, i % 4 == 2 ? step_count : NULL, &seen);
        qs_executor_time(here->executor, i % 4 == 3 ? &timeline : NULL);
        seen = 0;
        assert_true(step_run(here, i) == hash[i]);
        assert_int_equal(seen, i % 4 == 2 ? here->schedule->steps : 0);
        for (int s = 1; i % 4 == 3 && s < timeline.steps; s++)
            assert_true(timeline.end[s] >= timeline.end[s - 1]);
    }
    assert_int_equal(qs_executor_recorded(here->executor).state, records() ? QS_RECORDED_YES : QS_RECORDED_NO);
    qs_timeline_release(&timeline);
    program_end(here);
}

/* ---- A training ---- */

enum { STEPS = 24, AT = 8, PLANS = 2 };

typedef struct training {
    bench bench;
    qs_plan plan[PLANS];
    char next[96], state[96];
    warnings heard;
} training;

static void step_note(void *context, int64_t step, double seconds) {
    training *here = context;
    (void)seconds;
    if (step + 1 == AT && here->bench.options.watch_plan) assert_ok(qs_plan_write(here->next, &here->plan[1]));
}

static void training_open(training *here, qs_records way) {
    memset(here, 0, sizeof *here);
    bench_open(&here->bench, fast_backend(), "self", "mlp:width=0.1+dropout=0.25", 4);
    qs_device_close(here->bench.device);
    here->bench.device = device_of(way);
    here->bench.job.rate.base = 0.01;
    here->bench.job.epochs = 2;
    here->bench.job.dynamic_loss_scaling = true;
    here->bench.options.training_limit = STEPS / 2 * 4 - 2;
    here->bench.options.test_limit = 8;
    here->bench.options.run_folder = here->bench.folder;
    here->bench.options.step_done = step_note;
    here->bench.options.step_context = here;
    plan_fill(&here->bench, "int8/bf16", &here->plan[0]);
    plan_fill(&here->bench, "bf16", &here->plan[1]);
    here->bench.options.plan = &here->plan[0];
    here->bench.job.loss_scale = 0x1p130; /* gradients overflow at first */
    snprintf(here->next, sizeof here->next, "%s/next.json", here->bench.folder);
    snprintf(here->state, sizeof here->state, "%s/state.qsync", here->bench.folder);
    qs_log_set(warnings_hear, &here->heard);
}

static void training_close(training *here) {
    qs_log_set(NULL, NULL);
    unlink(here->next);
    for (int i = 0; i < PLANS; i++)
        qs_plan_release(&here->plan[i]);
    bench_close(&here->bench);
}

static char *training_run(training *here, qs_train_result *result) {
    char *metrics = NULL;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, result));
    file_text(here->bench.folder, "metrics.jsonl", &metrics);
    return metrics;
}

static void assert_recorded(const qs_train_result *result, qs_records way) {
    assert_int_equal(result->recorded_ranks, records() && way == QS_RECORDS_ALWAYS);
    assert_true(result->audit.steps > 0);
    assert_int_equal(result->audit.rank[0].recorded, records() && way == QS_RECORDS_ALWAYS);
    assert_true(result->audit.measured_us == result->median_step_us); /* of steps as they ran, whatever the clock saw of them */
}

TEST(trainings_agree) {
    char *metrics[2];
    uint64_t hash[2];
    for (int w = 0; w < 2; w++) {
        training here;
        qs_train_result result;
        training_open(&here, ways[w]);
        here.bench.options.watch_plan = here.next;
        metrics[w] = training_run(&here, &result);
        hash[w] = result.weights_hash;
        if (result.replans != 1) fail_msg("the other plan was not taken: %s", here.heard.last);
        assert_recorded(&result, ways[w]);
        result_release(&result);
        training_close(&here);
    }
    assert_true(hash[0] == hash[1]);
    assert_string_equal(metrics[0], metrics[1]);
    const char *skipped = strstr(metrics[0], "\"skipped_steps\":");
    assert_non_null(skipped);
    assert_in_range(strtol(skipped + 16, NULL, 10), 1, STEPS / 2 - 1);
    free(metrics[0]);
    free(metrics[1]);
}

/* The first epoch one way, the second one the other. */
TEST(states_go_on) {
    uint64_t hash[2];
    for (int w = 0; w < 2; w++) {
        training here;
        qs_train_result result;
        training_open(&here, ways[w]);
        here.bench.options.checkpoint_every = 1;
        if (w == 1) here.bench.options.max_steps = STEPS / 2;
        free(training_run(&here, &result));
        if (w == 1) {
            char folder[FOLDER_PATH];
            memcpy(folder, here.bench.folder, sizeof folder);
            folder_make(here.bench.folder);
            result_release(&result);
            qs_device_close(here.bench.device);
            here.bench.device = device_of(ways[0]);
            here.bench.options.max_steps = 0;
            here.bench.options.resume = here.state;
            free(training_run(&here, &result));
            folder_remove(folder);
        }
        hash[w] = result.weights_hash;
        result_release(&result);
        training_close(&here);
    }
    assert_true(hash[0] == hash[1]);
}

TEST_MAIN(executors_agree, observers_see_all, trainings_agree, states_go_on)
