// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Runs that go on from the state of another: the bits of a run in one piece, whatever the optimiser, between epochs and within one, through
 * steps that loss scaling skips; and states that are refused. */
#include "kit/job_model.h"
#include "train_support.h"

/* 16 steps an epoch. */
static void small_open(bench *here, const char *model, const char *optimizer, int epochs) {
    bench_open(here, fast_backend(), "self", model, 16);
    assert_ok(qs_job_optimizer_set(&here->job, optimizer));
    here->job.rate.base = 0.005;
    here->job.rate.schedule = QS_RATE_CONSTANT; /* a cosine ends with the job */
    here->job.augmentation = true;
    here->job.epochs = epochs;
    here->options.run_folder = here->folder;
    here->options.checkpoint_every = 1;
}

typedef struct outcome {
    uint64_t hash;
    int64_t steps;
    char *metrics;
} outcome;

static outcome run(bench *here) {
    qs_train_result result;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    outcome out = {.hash = result.weights_hash, .steps = result.steps};
    file_text(here->folder, "metrics.jsonl", &out.metrics);
    result_release(&result);
    return out;
}

static const char *state_of(const bench *here) {
    static char path[128];
    snprintf(path, sizeof path, "%s/state.qsync", here->folder);
    return path;
}

/* The part of a text behind the line in which `mark` stands. */
static const char *behind(const char *text, const char *mark) {
    const char *at = strstr(text, mark);
    assert_non_null(at);
    return strchr(at, '\n') + 1;
}

/* scale: what dynamic loss scaling starts from; 0: there is none. */
static void goes_on(const char *model, const char *optimizer, double scale) {
    bench whole, first, second;
    small_open(&whole, model, optimizer, 3);
    small_open(&first, model, optimizer, 1);
    small_open(&second, model, optimizer, 3);
    bench *const all[] = {&whole, &first, &second};
    for (int i = 0; i < 3; i++) {
        all[i]->job.dynamic_loss_scaling = scale > 0;
        all[i]->job.loss_scale = scale > 0 ? scale : 1;
        all[i]->options.scale_growth = 7; /* two of seven good steps are done when the first epoch ends */
        all[i]->options.skip_limit = 1000;
    }
    const outcome expected = run(&whole), stopped = run(&first);
    second.options.resume = state_of(&first);
    const outcome resumed = run(&second);
    assert_int_equal(expected.steps, 48);
    assert_int_equal(resumed.steps, 48);
    assert_true(resumed.hash == expected.hash && stopped.hash != expected.hash);
    assert_string_equal(behind(expected.metrics, "\"epoch\",\"epoch\":1,"), resumed.metrics);
    if (scale > 1) assert_null(strstr(stopped.metrics, "\"skipped_steps\":0,"));
    for (int i = 0; i < 3; i++)
        bench_close(all[i]);
    free(expected.metrics);
    free(stopped.metrics);
    free(resumed.metrics);
}

TEST(every_optimizer_goes_on) {
    const char *name;
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++) {
        goes_on("lenet5", name, 0);
        goes_on("lenet5", name, 1);
        goes_on("resnet8:width=0.25", name, 0x1p135); /* overflows at first */
    }
}

/* A stop in the second epoch; what evaluation finds on the way does not matter to training. */
TEST(within_an_epoch) {
    bench whole, first, second;
    small_open(&whole, "resnet8:width=0.25", "adam", 2);
    small_open(&first, "resnet8:width=0.25", "adam", 2);
    small_open(&second, "resnet8:width=0.25", "adam", 2);
    first.options.max_steps = 21;
    const outcome expected = run(&whole), stopped = run(&first);
    second.options.resume = state_of(&first);
    const outcome resumed = run(&second);
    assert_int_equal(stopped.steps, 21);
    assert_true(resumed.hash == expected.hash);
    bench_close(&whole);
    bench_close(&first);
    bench_close(&second);
    free(expected.metrics);
    free(stopped.metrics);
    free(resumed.metrics);
}

/* Nearly all images and half of the activations overflow; both are promoted before step 2. */
static void low_plan(qs_plan *out) {
    static const char text[] = "{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":{},\"tensors\":{"
                               "\"input\":{\"value\":\"fp(2,1,8)\",\"saved\":\"fp(2,1,8)\",\"promote_at\":0.3},"
                               "\"conv2\":{\"value\":\"fp(2,1,8)\",\"saved\":\"fp(2,1,8)\",\"promote_at\":0.01}}}}}";
    assert_ok(qs_plan_parse(text, "plan", out));
}

static void low_open(bench *here, qs_plan *plan, int64_t limit) {
    small_open(here, "lenet5", "sgd", 2);
    low_plan(plan);
    here->options.plan = plan;
    here->cluster.class_[0].memory_limit = limit;
}

static void low_close(bench *here, qs_plan *plan) {
    qs_plan_release(plan);
    bench_close(here);
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* A run of two epochs, and one that stopped after `steps` and goes on: by the plan that it began with, or the one in its folder. `line`
 * stands `times` in the metrics of both together. */
static void promotions_go_on(int64_t steps, int64_t limit, const char *line, int times, bool folder) {
    bench whole, first, second;
    qs_plan whole_plan, first_plan, second_plan;
    char path[128];
    low_open(&whole, &whole_plan, limit);
    low_open(&first, &first_plan, limit);
    low_open(&second, &second_plan, limit);
    first.options.max_steps = steps;
    const outcome expected = run(&whole), stopped = run(&first);
    second.options.resume = state_of(&first);
    snprintf(path, sizeof path, "%s/plan.json", first.folder);
    if (folder) {
        qs_plan_release(&second_plan);
        assert_ok(qs_plan_read(path, &second_plan));
    }
    const outcome resumed = run(&second);
    assert_true(resumed.hash == expected.hash && stopped.hash != expected.hash);
    assert_int_equal(count_of(expected.metrics, line), times);
    assert_int_equal(count_of(stopped.metrics, line), steps == 1 ? 0 : times);
    assert_int_equal(count_of(resumed.metrics, line), steps == 1 ? times : 0);
    if (steps == 16) assert_string_equal(behind(expected.metrics, "\"epoch\",\"epoch\":1,"), resumed.metrics);
    const char *promoted = strstr(expected.metrics, line);
    if (steps == 1) assert_memory_equal(strstr(resumed.metrics, line), promoted, strchr(promoted, '\n') - promoted);
    low_close(&whole, &whole_plan);
    low_close(&first, &first_plan);
    low_close(&second, &second_plan);
    free(expected.metrics);
    free(stopped.metrics);
    free(resumed.metrics);
}

static int64_t low_arena(void) {
    bench here;
    qs_plan plan;
    qs_train_result result;
    low_open(&here, &plan, 0);
    here.options.max_steps = 1;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    const int64_t bytes = result.reserved_bytes[0];
    result_release(&result);
    low_close(&here, &plan);
    return bytes;
}

/* For good is also behind a stop: what the last step called for, what stands promoted, and what had no room. */
TEST(promotions_are_for_good) {
    promotions_go_on(1, 0, "\"promotion\",", 2, false);
    promotions_go_on(16, 0, "\"promotion\",", 2, false);
    promotions_go_on(16, 0, "\"promotion\",", 2, true);
    promotions_go_on(1, low_arena(), "\"promotion-refused\",", 1, false); /* one of the two has room */
    promotions_go_on(16, low_arena(), "\"promotion-refused\",", 1, false);
}

static void parameters_read(const bench *here, const qs_graph *graph, float *weights) {
    char path[128];
    float *statistics = calloc((size_t)graph->statistics_elements + 1, sizeof *statistics);
    snprintf(path, sizeof path, "%s/weights.safetensors", here->folder);
    assert_ok(qs_weights_read(path, graph, weights, statistics));
    free(statistics);
}

/* Adam's first update moves every weight that has a gradient by the rate, corrected for the moments' start at 0. Had the steps that loss
 * scaling skipped before counted, the correction would be another: after one of them already 0.74 of it. */
TEST(skipped_steps_do_not_count) {
    bench here;
    qs_graph *graph = NULL;
    small_open(&here, "lenet5", "adam", 8);
    here.job.rate.warmup_epochs = 0;
    *qs_job_setting(&here.job, "weight_decay") = 0;
    here.job.dynamic_loss_scaling = true;
    here.job.loss_scale = 0x1p135;
    here.options.skip_limit = 1000;
    here.options.test_limit = -1;
    assert_ok(job_model(&here.job, &graph));
    float *weights = calloc((size_t)graph->trained_elements, sizeof *weights),
          *start = calloc((size_t)graph->trained_elements, sizeof *start);
    float *running = calloc((size_t)graph->statistics_elements + 1, sizeof *running);
    qs_graph_initialize(graph, here.job.seed, start, running);
    double most = 0;
    for (here.options.max_steps = 1; most == 0; here.options.max_steps++) {
        assert_true(here.options.max_steps < 100);
        outcome one = run(&here);
        free(one.metrics);
        parameters_read(&here, graph, weights);
        for (int64_t i = 0; i < graph->trained_elements; i++)
            most = fmax(most, fabs((double)weights[i] - (double)start[i]));
    }
    assert_true(here.options.max_steps > 3); /* it counts one more */
    if (!(fabs(most - 0.005) < 0.005 * 1e-3)) fail_msg("the first update moved weights by up to %g", most);
    free(weights);
    free(start);
    free(running);
    qs_graph_release(graph);
    bench_close(&here);
}

static void refuse(const bench *from, bench *here, qs_status status, const char *why) {
    qs_train_result result;
    here->options.resume = state_of(from);
    assert_refused(qs_train(&here->options, here->device, here->comm, &result), status, why);
    bench_close(here);
}

TEST(others_are_refused) {
    bench first, next;
    small_open(&first, "lenet5", "adam", 1);
    free(run(&first).metrics);
    small_open(&next, "lenet5", "sgd", 2);
    refuse(&first, &next, QS_MISMATCH, "sgd.momentum is missing: it was saved with another optimiser");
    small_open(&next, "mlp", "adam", 2);
    refuse(&first, &next, QS_MISMATCH, "this is the state of model \"lenet5\", not of \"mlp\"");
    small_open(&next, "lenet5", "adam", 2);
    next.options.training_limit = 128;
    refuse(&first, &next, QS_MISMATCH, "an epoch had 16 steps, here it has 8");
    small_open(&next, "lenet5", "adam", 2);
    strcpy(next.job.dataset, "shapes");
    strcpy(next.job.wire, "int8");
    refuse(&first, &next, QS_MISMATCH, "wire_residuals.0 is missing");
    small_open(&next, "lenet5", "adam", 1);
    refuse(&first, &next, QS_USAGE, "16 steps are done, and this run ends with step 16; give it more epochs");
    small_open(&next, "lenet5", "adam", 2);
    next.options.run_folder = first.folder;
    refuse(&first, &next, QS_USAGE, "is in the run folder that this run would write over");
    bench_close(&first);
}

TEST_MAIN(every_optimizer_goes_on, within_an_epoch, promotions_are_for_good, skipped_steps_do_not_count, others_are_refused)
