// SPDX-License-Identifier: Apache-2.0
/* Traces hold what the trace event format asks for and what a timeline is: events of one thread follow one another. Predicted and measured
 * stand side by side; what is no measured trace is refused. */
#include "kit/kit.h"

#include <jansson.h>

#include "replay_support.h"
#include "kit/synthetic.h"

#define TRACKS 5
#define MOST_PROCESSES 8
static const char *const track_names[TRACKS] = {"data", "compute", "cast", "communication", "idle"};

/* ---- The checker ------------------------------------------------------------------------------------------------------------------- */

typedef struct seen {
    double end[MOST_PROCESSES][TRACKS];
    char process[MOST_PROCESSES][64];
    int names[MOST_PROCESSES], complete, reduces, idle, casts, sorted;
} seen;

static void metadata_check(const json_t *event, int process, seen *all) {
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    assert_non_null(name);
    assert_true(json_is_object(args));
    if (strcmp(name, "process_name") == 0)
        snprintf(all->process[process], sizeof all->process[process], "%s", json_string_value(json_object_get(args, "name")));
    if (strcmp(name, "thread_name") == 0) {
        const int thread = (int)json_integer_value(json_object_get(event, "tid"));
        assert_in_range(thread, 0, TRACKS - 1);
        assert_string_equal(json_string_value(json_object_get(args, "name")), track_names[thread]);
        all->names[process]++;
    }
    if (strcmp(name, "process_sort_index") == 0) {
        assert_int_equal(json_integer_value(json_object_get(args, "sort_index")), process);
        all->sorted++;
    }
}

/* Microseconds are written with 12 digits; 1e-3 is what a measured trace rounds to. */
static void complete_check(const json_t *event, int process, seen *all) {
    const json_t *begin = json_object_get(event, "ts"), *length = json_object_get(event, "dur"), *thread = json_object_get(event, "tid");
    const char *name = json_string_value(json_object_get(event, "name"));
    assert_true(json_is_number(begin) && json_is_number(length) && json_is_integer(thread) && name);
    const int track = (int)json_integer_value(thread);
    assert_in_range(track, 0, TRACKS - 1);
    assert_true(json_number_value(begin) >= 0 && json_number_value(length) >= 0);
    if (json_number_value(begin) < all->end[process][track] - 2e-3) fail_msg("%s begins before the event before it ends", name);
    all->end[process][track] = json_number_value(begin) + json_number_value(length);
    all->complete++;
    all->reduces += strncmp(name, "all-reduce of bucket", 20) == 0 && track == 3;
    all->idle += track == 4;
    all->casts += track == 2;
}

static json_t *trace_check(const char *text, seen *all) {
    json_error_t error;
    json_t *root = json_loads(text, 0, &error), *event;
    size_t i;
    *all = (seen){.complete = 0};
    if (!root) fail_msg("%d:%d: %s", error.line, error.column, error.text);
    assert_true(json_is_array(json_object_get(root, "traceEvents")));
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const json_t *process = json_object_get(event, "pid");
        assert_true(phase && json_is_integer(process));
        assert_in_range(json_integer_value(process), 0, MOST_PROCESSES - 1);
        if (strcmp(phase, "M") == 0)
            metadata_check(event, (int)json_integer_value(process), all);
        else if (strcmp(phase, "X") == 0)
            complete_check(event, (int)json_integer_value(process), all);
        else
            fail_msg("phase %s", phase);
    }
    return root;
}

/* ---- Traces ------------------------------------------------------------------------------------------------------------------------ */

#define RANKS 2
static char *predicted;
static qs_schedule *schedule[RANKS];
static double iteration;
static int events;

static int setup(void **state) {
    (void)state;
    static const char *const recipes[RANKS] = {"fp32", "int8/bf16"};
    qs_graph *graph = NULL;
    qs_job job = stub_job(4);
    double *us[RANKS];
    qs_replay_rank rank[RANKS];
    qs_all_reduce_cost reduce[64];
    qs_replay_result result;
    job.bucket_bytes = 8000;
    assert_ok(qs_model_build("resnet8:width=0.5", NULL, &graph));
    for (int r = 0; r < RANKS; r++) {
        schedule[r] = lower_uniform(graph, &job, QS_MODE_TRAIN, recipes[r]);
        us[r] = calloc((size_t)schedule[r]->steps, sizeof(double));
        for (int s = 0; s < schedule[r]->steps; s++)
            if (schedule[r]->step[s].kind == QS_STEP_KERNEL) us[r][s] = 1 + s % 7 + r;
        rank[r] =
            (qs_replay_rank){.class_name = r ? "weak" : "strong", .schedule = schedule[r], .step_us = us[r], .data_us = 11, .jitter = 0.02};
        if (r == 0) rank[r].graph = graph;
    }
    for (int b = 0; b < schedule[0]->buckets; b++)
        reduce[b] = (qs_all_reduce_cost){.us = 40, .cpu_share = 0.25};
    assert_ok(qs_replay(&(qs_replay_case){.reduce = reduce, .ranks = RANKS, .rank = rank, .with_events = true}, &result));
    assert_ok(qs_replay_trace(&result, rank, &predicted));
    iteration = result.iteration_us;
    events = result.events;
    qs_replay_release(&result);
    for (int r = 0; r < RANKS; r++)
        free(us[r]);
    qs_graph_release(graph);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++)
        qs_schedule_release(schedule[r]);
    free(predicted);
    return 0;
}

TEST(a_prediction_is_a_timeline) {
    seen all;
    json_t *root = trace_check(predicted, &all);
    assert_int_equal(all.complete, events);
    assert_int_equal(all.reduces, RANKS * schedule[0]->buckets);
    assert_true(all.idle > 0 && all.casts > 0);
    assert_string_equal(all.process[0], "rank 0 (strong)");
    assert_string_equal(all.process[1], "rank 1 (weak)");
    assert_int_equal(all.names[0], TRACKS);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "qsync"), "source")), "predicted");
    near_within(json_number_value(json_object_get(json_object_get(root, "qsync"), "iteration_us")), iteration, 1e-6 * iteration);
    json_decref(root);
}

static const char measured[] =
    "{\"qsync\":{\"source\":\"measured\",\"iteration_us\":123.5,\"step\":7,\"ranks\":2},\"traceEvents\":["
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"rank 0 (strong)\"}},"
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":1,\"args\":{\"name\":\"compute\"}},"
    "{\"name\":\"data\",\"ph\":\"X\",\"ts\":0.000,\"dur\":10.5,\"pid\":0,\"tid\":0,\"args\":{}},"
    "{\"name\":\"conv2d/forward\",\"ph\":\"X\",\"ts\":10.5,\"dur\":100,\"pid\":0,\"tid\":1,\"args\":{\"case\":\"conv2d/forward\"}},"
    "{\"name\":\"all-reduce of bucket 0\",\"ph\":\"X\",\"ts\":110,\"dur\":0,\"pid\":0,\"tid\":3,\"args\":{}},"
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"rank 1 (weak)\"}},"
    "{\"name\":\"wait for bucket 0\",\"ph\":\"X\",\"ts\":3,\"dur\":4,\"pid\":1,\"tid\":4,\"args\":{}}]}";

TEST(both_stand_side_by_side) {
    char *both = NULL;
    seen all;
    assert_ok(qs_trace_beside(predicted, measured, "run/trace.json", &both));
    json_t *root = trace_check(both, &all);
    assert_int_equal(all.complete, events + 4);
    assert_int_equal(all.reduces, RANKS * schedule[0]->buckets + 1);
    assert_int_equal(all.sorted, 2 * RANKS);
    assert_string_equal(all.process[0], "rank 0 (strong) predicted");
    assert_string_equal(all.process[1], "rank 0 (strong) measured");
    assert_string_equal(all.process[2], "rank 1 (weak) predicted");
    assert_string_equal(all.process[3], "rank 1 (weak) measured");
    for (int p = 0; p < 2 * RANKS; p++)
        assert_int_equal(all.names[p], TRACKS);
    const json_t *about = json_object_get(json_object_get(root, "qsync"), "measured");
    assert_true(json_number_value(json_object_get(about, "iteration_us")) == 123.5);
    json_decref(root);
    free(both);
}

/* Whom a kernel serves and in which phase is told; the rank without a graph knows no names. */
TEST(kernels_name_their_operators) {
    seen all;
    int named = 0, updates = 0;
    size_t i;
    json_t *event, *root = trace_check(predicted, &all);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const json_t *args = json_object_get(event, "args");
        const char *node = json_string_value(json_object_get(args, "operator"));
        const char *phase = json_string_value(json_object_get(args, "phase"));
        const char *what = json_string_value(json_object_get(args, "case"));
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        assert_int_equal(what != NULL, phase != NULL);
        if (node) assert_int_equal(json_integer_value(json_object_get(event, "pid")), 0);
        if (node && strncmp(what, "linear/forward", 14) == 0) {
            assert_string_equal(node, "fc");
            assert_string_equal(phase, "forward");
        }
        if (node && strncmp(what, "conv2d/weight_gradient", 22) == 0) assert_string_equal(phase, "backward");
        named += node != NULL;
        updates += phase && strcmp(phase, "update") == 0;
    }
    assert_true(named > 0 && updates > 0);
    json_decref(root);
}

/* Same track, same colour, whichever of the two it is. */
TEST(colours_are_those_of_tracks) {
    char *both = NULL;
    seen all;
    const char *color[TRACKS] = {NULL};
    size_t i;
    json_t *event;
    assert_ok(qs_trace_beside(predicted, measured, "run/trace.json", &both));
    json_t *root = trace_check(both, &all);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *one = json_string_value(json_object_get(event, "cname"));
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        const int track = (int)json_integer_value(json_object_get(event, "tid"));
        assert_non_null(one);
        if (color[track]) assert_string_equal(one, color[track]);
        color[track] = one;
    }
    for (int t = 1; t < TRACKS; t++)
        assert_string_not_equal(color[t], color[t - 1]);
    json_decref(root);
    free(both);
}

static void refuse(const char *text, const char *says) {
    char *both = NULL;
    assert_refused(qs_trace_beside(predicted, text, "run/trace.json", &both), QS_BAD_FILE, says);
    assert_message("run/trace.json");
}

TEST(bad_traces_are_refused) {
#define EVENT(text) "{\"qsync\":{\"source\":\"measured\"},\"traceEvents\":[" text "]}"
    refuse("{", "run/trace.json:1:");
    refuse("[]", "no measured trace");
    refuse("{\"traceEvents\":[]}", "no measured trace");
    refuse(predicted, "no measured trace");
    refuse(EVENT("{\"pid\":0}"), "traceEvents[0]: \"ph\"");
    refuse(EVENT("{\"ph\":\"X\",\"pid\":-1}"), "\"pid\"");
    refuse(EVENT("{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":1,\"dur\":1}"), "\"name\"");
    refuse(EVENT("{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"name\":\"a\",\"dur\":1}"), "\"ts\"");
    refuse(EVENT("{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"name\":\"a\",\"ts\":1,\"dur\":-1}"), "\"dur\"");
    refuse(EVENT("{\"ph\":\"X\",\"pid\":0,\"tid\":5,\"name\":\"a\",\"ts\":1,\"dur\":1}"), "\"tid\"");
}

TEST_MAIN_WITH(setup, teardown, a_prediction_is_a_timeline, both_stand_side_by_side, kernels_name_their_operators,
               colours_are_those_of_tracks, bad_traces_are_refused)
