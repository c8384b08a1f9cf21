// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Another plan in a running job: weights and everything else that lasts keep their bits, memory that is not needed any more leaves the
 * process, and what cannot be taken changes nothing. */
#include "kit/processor.h"

#include <sys/stat.h>

#include "plan_support.h"

enum { PLANS = 2 };

/* A run of 2 epochs of 16 steps, the last of them smaller, that starts under plan[0] and may find others in a file. */
typedef struct watched {
    bench bench;
    qs_plan plan[PLANS];
    char file[96];
    int64_t write_after[PLANS]; /* steps done when plan[i] is written into the file; 0: never */
    const char *text;           /* written at the same time as plan[1] would be, instead of it */
    int64_t shrink_after;       /* steps done when memory is looked at; again 20 steps later */
    int64_t resident[2];
    warnings heard;
} watched;

static void step_note(void *context, int64_t step, double seconds) {
    watched *here = context;
    const int64_t done = step + 1;
    (void)seconds;
    for (int i = 0; i < PLANS; i++) {
        if (done != here->write_after[i]) continue;
        if (i == 1 && here->text)
            assert_ok(qs_file_write(here->file, here->text, strlen(here->text)));
        else
            assert_ok(qs_plan_write(here->file, &here->plan[i]));
    }
    if (done == here->shrink_after) here->resident[0] = qs_resident_bytes();
    if (done == here->shrink_after + 20) here->resident[1] = qs_resident_bytes();
}

static void watched_open(watched *here, const char *backend, const char *model, int64_t batch, const char *first, const char *second) {
    memset(here, 0, sizeof *here);
    bench_open(&here->bench, backend, "self", model, batch);
    here->bench.job.rate.base = 0.01;
    here->bench.job.epochs = 2;
    here->bench.options.training_limit = 16 * batch - batch / 2;
    here->bench.options.test_limit = 40;
    here->bench.options.run_folder = here->bench.folder;
    here->bench.options.step_done = step_note;
    here->bench.options.step_context = here;
    plan_fill(&here->bench, first, &here->plan[0]);
    plan_fill(&here->bench, second, &here->plan[1]);
    here->bench.options.plan = &here->plan[0];
    snprintf(here->file, sizeof here->file, "%s/next.json", here->bench.folder);
    here->bench.options.watch_plan = here->file;
    qs_log_set(warnings_hear, &here->heard);
}

static void watched_close(watched *here) {
    qs_log_set(NULL, NULL);
    unlink(here->file);
    for (int i = 0; i < PLANS; i++)
        qs_plan_release(&here->plan[i]);
    bench_close(&here->bench);
}

/* What a run leaves: its metrics, weights (running statistics among them) and figures. */
typedef struct remains {
    char *metrics, *weights;
    size_t weights_bytes;
    qs_train_result result;
} remains;

static remains watched_run(watched *here) {
    remains left = {0};
    char path[128];
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &left.result));
    file_text(here->bench.folder, "metrics.jsonl", &left.metrics);
    snprintf(path, sizeof path, "%s/weights.safetensors", here->bench.folder);
    assert_ok(qs_file_read(path, 1 << 24, &left.weights, &left.weights_bytes));
    return left;
}

static void remains_free(remains *left) {
    free(left->metrics);
    free(left->weights);
    result_release(&left->result);
}

static void assert_weights_equal(const remains *a, const remains *b) {
    assert_true(a->result.weights_hash == b->result.weights_hash);
    assert_int_equal(a->weights_bytes, b->weights_bytes);
    assert_memory_equal(a->weights, b->weights, a->weights_bytes);
}

/* Metrics without their line about the switch. */
static void replan_line_drop(char *metrics) {
    char *line = strstr(metrics, "{\"type\":\"replan\"");
    assert_non_null(line);
    const char *next = strchr(line, '\n') + 1;
    memmove(line, next, strlen(next) + 1);
}

TEST(equal_plans_change_no_bit) {
    watched here;
    watched_open(&here, "ref", "resnet8:width=0.25", 4, "int8/bf16", "int8/bf16");
    remains alone = watched_run(&here);
    assert_int_equal(alone.result.replans, 0);
    strcpy(here.plan[1].planner, "another"); /* or it would be the present plan */
    here.write_after[1] = 9;
    remains switched = watched_run(&here);
    assert_int_equal(switched.result.replans, 1);
    assert_weights_equal(&alone, &switched);
    assert_non_null(strstr(switched.metrics, "{\"type\":\"replan\",\"epoch\":1,\"step\":11,\"planner\":\"another\""));
    replan_line_drop(switched.metrics);
    assert_string_equal(alone.metrics, switched.metrics);
    remains_free(&alone);
    remains_free(&switched);
    watched_close(&here);
}

/* There and back: from fp32 to int8 in the middle of the first epoch, back where it ends. */
static remains there_and_back(void) {
    watched here;
    watched_open(&here, "ref", "resnet8:width=0.25", 4, "int8/bf16", "fp32");
    here.bench.options.plan = &here.plan[1];
    here.write_after[0] = 3;
    here.write_after[1] = 13;
    remains left = watched_run(&here);
    assert_int_equal(left.result.replans, 2);
    assert_int_equal(here.heard.count, 0);
    assert_int_equal(left.result.reserved_bytes[0], here.plan[1].class_[0].predicted.arena_bytes);
    assert_int_equal(left.result.predicted_bytes[0], here.plan[1].class_[0].predicted.arena_bytes);
    watched_close(&here);
    return left;
}

TEST(equal_switches_give_equal_bytes) {
    watched here;
    remains first = there_and_back(), again = there_and_back();
    assert_string_equal(first.metrics, again.metrics);
    assert_weights_equal(&first, &again);
    assert_non_null(strstr(first.metrics, "\"epoch\":1,\"step\":11,"));
    assert_non_null(strstr(first.metrics, "\"type\":\"replan\",\"epoch\":2,\"step\":17,"));
    watched_open(&here, "ref", "resnet8:width=0.25", 4, "fp32", "fp32");
    remains never = watched_run(&here);
    assert_true(never.result.weights_hash != first.result.weights_hash);
    watched_close(&here);
    remains_free(&first);
    remains_free(&again);
    remains_free(&never);
}

/* The files of a run tell which plan ran, and from where. */
TEST(records_follow) {
    watched here;
    qs_plan effective = {0};
    char path[128], figure[64], *text = NULL;
    watched_open(&here, "ref", "lenet5", 4, "fp32", "int8/bf16");
    here.plan[1].job.seed = 77;
    here.plan[1].class_[0].predicted.iteration_us = 1234;
    strcpy(here.plan[1].cluster, "xxh64:0123456789abcdef"); /* made for other limits */
    here.write_after[1] = 1;
    remains left = watched_run(&here);
    assert_int_equal(left.result.replans, 1);
    assert_int_equal(left.result.audit.first_step, 10);
    assert_true(left.result.audit.predicted_us == 1234);
    assert_in_range(left.result.audit.steps, 1, 20); /* 22 are left, two of them smaller, less warm-up */
    snprintf(figure, sizeof figure, "\"arena_bytes_before.0\":%lld,", (long long)here.plan[0].class_[0].predicted.arena_bytes);
    assert_non_null(strstr(left.metrics, figure));
    snprintf(figure, sizeof figure, "\"arena_bytes.0\":%lld}", (long long)here.plan[1].class_[0].predicted.arena_bytes);
    assert_non_null(strstr(left.metrics, figure));
    snprintf(figure, sizeof figure, "\"schedule_before.0\":\"%s\"", here.plan[0].class_[0].schedule);
    assert_non_null(strstr(left.metrics, figure));
    snprintf(figure, sizeof figure, "\"schedule.0\":\"%s\"", here.plan[1].class_[0].schedule);
    assert_non_null(strstr(left.metrics, figure));
    snprintf(path, sizeof path, "%s/plan.json", here.bench.folder);
    assert_ok(qs_plan_read(path, &effective));
    assert_string_equal(effective.class_[0].schedule, here.plan[1].class_[0].schedule);
    assert_int_equal(effective.job.seed, here.bench.job.seed);
    file_text(here.bench.folder, "config.json", &text);
    assert_non_null(strstr(text, "\"plan_from_step\":11"));
    free(text);
    file_text(here.bench.folder, "timing.json", &text);
    assert_non_null(strstr(text, "\"replan_us.11\":"));
    free(text);
    here.bench.options.plan = &effective; /* what a run leaves can be run again */
    here.write_after[1] = 0;
    unlink(here.file);
    remains_free(&left);
    left = watched_run(&here);
    remains_free(&left);
    qs_plan_release(&effective);
    watched_close(&here);
}

TEST(waits_as_told) {
    watched here;
    watched_open(&here, "ref", "lenet5", 4, "fp32", "int8/bf16");
    here.write_after[1] = 1;
    here.bench.options.watch_after = 12;
    remains left = watched_run(&here);
    assert_non_null(strstr(left.metrics, "\"type\":\"replan\",\"epoch\":2,\"step\":17,"));
    here.bench.options.watch_after = 32; /* the whole run */
    remains_free(&left);
    left = watched_run(&here);
    assert_int_equal(left.result.replans, 0);
    remains_free(&left);
    watched_close(&here);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool watched_memory = false; /* sanitizers keep what is freed */
#else
static const bool watched_memory = true;
#endif

/* What the process shrinks by is what the arena does, less what the new kernels hold beyond the old ones: at most 16 KiB (reordered
 * weights, generated code) a step of the schedule, 48 where the library writes code for tile registers, and 1 MiB of code of the library
 * that is seen for the first time. */
TEST(memory_goes_back) {
    const char *backend = backend_exists("cpu") ? "cpu" : "ref";
    const int64_t other = (1 << 20) + 100 * (processor_here().tiles ? 49152 : 16384);
    watched here;
    watched_open(&here, backend, "lenet5", 512, "fp32", "bf16");
    here.bench.options.test_limit = -1;
    here.bench.job.epochs = 2;
    here.write_after[1] = 10;
    here.shrink_after = 10;
    const int64_t larger = here.plan[0].class_[0].predicted.arena_bytes, smaller = here.plan[1].class_[0].predicted.arena_bytes;
    /* Where the memory is not this process's, what is reserved is all there is to look at. */
    if (!memory_is_elsewhere()) assert_true(larger - smaller > 2 * other); /* or the test would say nothing */
    assert_true(larger != smaller);
    remains left = watched_run(&here);
    assert_int_equal(left.result.replans, 1);
    assert_int_equal(left.result.reserved_bytes[0], smaller);
    if (watched_memory && !memory_is_elsewhere() && here.resident[0] > 0 && here.resident[0] - here.resident[1] < larger - smaller - other)
        fail_msg("the process shrank by %lld bytes, its arena by %lld", (long long)(here.resident[0] - here.resident[1]),
                 (long long)(larger - smaller));
    remains_free(&left);
    watched_close(&here);
}

/* ---- Refusals ----------------------------------------------------------------------------------------------------------------- */

/* What the run leaves that watches nothing. */
static remains unwatched_run(watched *here) {
    const char *file = here->bench.options.watch_plan;
    here->bench.options.watch_plan = NULL;
    remains alone = watched_run(here);
    here->bench.options.watch_plan = file;
    here->heard.count = 0;
    return alone;
}

/* Runs with the file: nothing may differ from `alone` but one warning that says `why`. */
static void refused_changes_nothing(watched *here, const remains *alone, const char *why) {
    here->heard.count = 0;
    remains watched_left = watched_run(here);
    assert_int_equal(watched_left.result.replans, 0);
    assert_int_equal(here->heard.count, 1);
    if (!strstr(here->heard.last, why) || !strstr(here->heard.last, "refused") || !strstr(here->heard.last, "next.json"))
        fail_msg("the warning \"%s\" does not say \"%s\"", here->heard.last, why);
    assert_weights_equal(alone, &watched_left);
    assert_string_equal(alone->metrics, watched_left.metrics);
    assert_int_equal(alone->result.reserved_bytes[0], watched_left.result.reserved_bytes[0]);
    remains_free(&watched_left);
}

TEST(bad_files_change_nothing) {
    watched here;
    watched_open(&here, "ref", "lenet5", 4, "int8/bf16", "fp32");
    remains alone = unwatched_run(&here);
    here.write_after[1] = 1;
    here.text = "{\"schema\": \"qsync/plan/2\",";
    refused_changes_nothing(&here, &alone, "next.json:1");
    here.text = "";
    refused_changes_nothing(&here, &alone, "next.json");
    here.text = NULL;
    here.plan[1].job.batch = 8;
    refused_changes_nothing(&here, &alone, "batch 8, the job has 4");
    here.plan[1].job.batch = 4;
    strcpy(here.plan[1].graph, "xxh64:0123456789abcdef");
    refused_changes_nothing(&here, &alone, "another model");
    strcpy(here.plan[1].graph, here.plan[0].graph);
    strcpy(here.plan[1].class_[0].schedule, "xxh64:0123456789abcdef"); /* this one is found by the ranks */
    refused_changes_nothing(&here, &alone, "lowering gives");
    strcpy(here.plan[1].class_[0].class_name, "other");
    refused_changes_nothing(&here, &alone, "no device class single");
    remains_free(&alone);
    watched_close(&here);
}

/* A pipe is not opened: nobody may ever write to it. */
TEST(pipes_and_folders_are_refused) {
    watched here;
    watched_open(&here, "ref", "lenet5", 4, "int8/bf16", "fp32");
    remains alone = unwatched_run(&here);
    assert_int_equal(mkfifo(here.file, 0600), 0);
    refused_changes_nothing(&here, &alone, "regular file");
    unlink(here.file);
    assert_int_equal(mkdir(here.file, 0700), 0);
    refused_changes_nothing(&here, &alone, "regular file");
    rmdir(here.file);
    remains_free(&alone);
    watched_close(&here);
}

TEST(limits_hold) {
    watched here;
    char figure[64];
    watched_open(&here, "ref", "lenet5", 4, "int8/bf16", "fp32");
    if (here.plan[0].class_[0].predicted.arena_bytes > here.plan[1].class_[0].predicted.arena_bytes) { /* scratch of a device's kernels */
        watched_close(&here);
        watched_open(&here, "ref", "lenet5", 4, "fp32", "int8/bf16");
    }
    here.bench.cluster.class_[0].memory_limit = here.plan[1].class_[0].predicted.arena_bytes - 1;
    for (int i = 0; i < PLANS; i++)
        qs_cluster_signature(&here.bench.cluster, here.plan[i].cluster);
    remains alone = unwatched_run(&here);
    here.write_after[1] = 1;
    snprintf(figure, sizeof figure, "%lld bytes", (long long)here.bench.cluster.class_[0].memory_limit);
    refused_changes_nothing(&here, &alone, figure);
    remains_free(&alone);
    watched_close(&here);
}

/* The present plan again is no news; nor is a file that is not there. */
TEST(nothing_new_is_no_news) {
    watched here;
    watched_open(&here, "ref", "lenet5", 4, "int8/bf16", "fp32");
    remains left = watched_run(&here);
    assert_int_equal(left.result.replans, 0);
    remains_free(&left);
    here.write_after[0] = 1;
    left = watched_run(&here);
    assert_int_equal(left.result.replans, 0);
    assert_int_equal(here.heard.count, 0);
    remains_free(&left);
    watched_close(&here);
}

TEST_MAIN(equal_plans_change_no_bit, equal_switches_give_equal_bytes, records_follow, waits_as_told, memory_goes_back,
          bad_files_change_nothing, pipes_and_folders_are_refused, limits_hold, nothing_new_is_no_news)
