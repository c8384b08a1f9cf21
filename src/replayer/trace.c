// SPDX-License-Identifier: Apache-2.0
/* Chrome trace of a replay: one process a rank, threads data, compute, cast, communication and idle; opens in Perfetto. And two traces of
 * one run in one file: every rank has a process with its predicted iteration and behind it one with its measured iteration, thread by
 * thread the same names and colours. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/replayer.h"

/* The tracks of a process, in the order of their thread numbers. */
enum { TRACKS = 5 };
static const struct track {
    char letter;
    const char *name, *color; /* of the trace format's own names */
} tracks[TRACKS] = {{'d', "data", "rail_load"},
                    {'c', "compute", "thread_state_running"},
                    {'v', "cast", "rail_animation"},
                    {'r', "communication", "rail_response"},
                    {'i', "idle", "grey"}};

static int track_of(char letter) {
    for (int t = 0; t < TRACKS; t++)
        if (tracks[t].letter == letter) return t;
    return 0;
}

static bool append(json_t *list, json_t *one) {
    return one && json_array_append_new(list, one) == 0;
}

static bool names_add(json_t *list, const qs_replay_result *result, const qs_replay_rank *rank) {
    char text[128];
    for (int r = 0; r < result->ranks; r++) {
        snprintf(text, sizeof text, "rank %d (%s)", r, rank[r].class_name);
        if (!append(list,
                    json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", "process_name", "ph", "M", "pid", r, "tid", 0, "args", "name", text)))
            return false;
        for (int t = 0; t < TRACKS; t++)
            if (!append(list, json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", "thread_name", "ph", "M", "pid", r, "tid", t, "args", "name",
                                        tracks[t].name)))
                return false;
    }
    return true;
}

static void event_name(const qs_replay_event *event, const qs_schedule *schedule, char *text, size_t size) {
    const qs_step *step = event->step >= 0 ? &schedule->step[event->step] : NULL;
    if (event->bucket >= 0)
        snprintf(text, size, event->track == 'r' ? "all-reduce of bucket %d" : "wait for bucket %d", event->bucket);
    else if (step && step->case_.op)
        snprintf(text, size, "%s/%s", step->case_.op->name, step->case_.pass->name);
    else
        snprintf(text, size, "%s", tracks[track_of(event->track)].name);
}

/* What a kernel's event says beyond its name; nothing for other events. */
static json_t *event_args(const qs_replay_event *event, const qs_replay_rank *rank) {
    const qs_step *step = event->step >= 0 ? &rank->schedule->step[event->step] : NULL;
    if (!step || !step->case_text) return json_object();
    const char *node = rank->graph && step->node >= 0 ? rank->graph->node[step->node].name : NULL;
    json_t *args = json_pack("{s:s,s:s,s:s*}", "case", step->case_text, "phase", qs_phase_name(step->phase), "operator", node);
    if (args && step->recomputed) json_object_set_new(args, "recomputed", json_true());
    return args;
}

static bool event_append(json_t *list, const qs_replay_event *event, const qs_replay_rank *rank) {
    char name[128];
    event_name(event, rank->schedule, name, sizeof name);
    const int track = track_of(event->track);
    return append(list, json_pack("{s:s,s:s,s:f,s:f,s:i,s:i,s:s,s:o}", "name", name, "ph", "X", "ts", event->start, "dur",
                                  event->end - event->start, "pid", event->rank, "tid", track, "cname", tracks[track].color, "args",
                                  event_args(event, rank)));
}

qs_status qs_replay_trace(const qs_replay_result *result, const qs_replay_rank *rank, char **json) {
    json_t *list = json_array();
    bool good = list && names_add(list, result, rank);
    for (int e = 0; good && e < result->events; e++)
        good = event_append(list, &result->event[e], &rank[result->event[e].rank]);
    json_t *root = good ? json_pack("{s:{s:s,s:f,s:i},s:s,s:O}", "qsync", "source", "predicted", "iteration_us", result->iteration_us,
                                    "ranks", result->ranks, "displayTimeUnit", "ms", "traceEvents", list)
                        : NULL;
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(root);
    json_decref(list);
    if (!text) return qs_fail(QS_OUT_OF_MEMORY, "trace of %d events", result->events);
    *json = text;
    return QS_OK;
}

/* ---- Predicted beside measured ----------------------------------------------------------------------------------------------------- */

static const char *const kinds[2] = {"predicted", "measured"};

typedef struct merger {
    json_t *list;       /* events of the result */
    const char *source; /* file of the trace at hand */
    int kind;           /* index in kinds */
} merger;

static qs_status refuse(const merger *one, size_t index, const char *what) {
    return qs_fail(QS_BAD_FILE, "%s: traceEvents[%zu]: %s; make it again with qsync train --trace", one->source, index, what);
}

static bool is_index(const json_t *value, json_int_t most) {
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= most;
}

static qs_status take(const merger *one, json_t *event) {
    if (event && json_array_append_new(one->list, event) == 0) return QS_OK;
    return qs_fail(QS_OUT_OF_MEMORY, "trace of %zu events", json_array_size(one->list));
}

/* A process per rank and kind, those of a rank next to each other. */
static json_int_t process_of(const merger *one, const json_t *event) {
    return 2 * json_integer_value(json_object_get(event, "pid")) + one->kind;
}

static qs_status complete_add(const merger *one, const json_t *event, size_t index) {
    const json_t *begin = json_object_get(event, "ts"), *length = json_object_get(event, "dur"), *thread = json_object_get(event, "tid");
    const char *name = json_string_value(json_object_get(event, "name"));
    if (!name) return refuse(one, index, "\"name\" must be text");
    if (!json_is_number(begin) || !isfinite(json_number_value(begin))) return refuse(one, index, "\"ts\" must be a number");
    if (!json_is_number(length) || !(json_number_value(length) >= 0)) return refuse(one, index, "\"dur\" must be a number, 0 or more");
    if (!is_index(thread, TRACKS - 1)) return refuse(one, index, "\"tid\" must be a track, 0 to 4");
    json_t *args = json_object_get(event, "args");
    return take(one, json_pack("{s:s,s:s,s:f,s:f,s:I,s:I,s:s,s:O*}", "name", name, "ph", "X", "ts", json_number_value(begin), "dur",
                               json_number_value(length), "pid", process_of(one, event), "tid", json_integer_value(thread), "cname",
                               tracks[json_integer_value(thread)].color, "args", args));
}

static qs_status process_add(const merger *one, const json_t *event) {
    char text[256];
    const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    const json_int_t process = process_of(one, event);
    snprintf(text, sizeof text, "%s %s", name ? name : "rank", kinds[one->kind]);
    QS_TRY(take(one,
                json_pack("{s:s,s:s,s:I,s:i,s:{s:s}}", "name", "process_name", "ph", "M", "pid", process, "tid", 0, "args", "name", text)));
    QS_TRY(take(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:I}}", "name", "process_sort_index", "ph", "M", "pid", process, "tid", 0, "args",
                               "sort_index", process)));
    for (int t = 0; t < TRACKS; t++) {
        QS_TRY(take(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:s}}", "name", "thread_name", "ph", "M", "pid", process, "tid", t, "args", "name",
                                   tracks[t].name)));
        QS_TRY(take(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid", process, "tid", t, "args",
                                   "sort_index", t)));
    }
    return QS_OK;
}

/* What was measured comes from a file: every event is held against the trace event format. */
static qs_status event_take(const merger *one, const json_t *event, size_t index) {
    const char *phase = json_string_value(json_object_get(event, "ph")), *name = json_string_value(json_object_get(event, "name"));
    if (!phase) return refuse(one, index, "\"ph\" must be text");
    if (!is_index(json_object_get(event, "pid"), INT32_MAX)) return refuse(one, index, "\"pid\" must be a rank");
    if (strcmp(phase, "X") == 0) return complete_add(one, event, index);
    return strcmp(phase, "M") == 0 && name && strcmp(name, "process_name") == 0 ? process_add(one, event) : QS_OK;
}

static qs_status trace_take(const merger *one, const json_t *root) {
    const json_t *list = json_object_get(root, "traceEvents"), *event;
    const char *source = json_string_value(json_object_get(json_object_get(root, "qsync"), "source"));
    size_t index;
    if (!json_is_array(list) || !source || strcmp(source, kinds[one->kind]) != 0)
        return qs_fail(QS_BAD_FILE, "%s is no %s trace: \"qsync\" with \"source\": \"%s\" and \"traceEvents\" must stand in it",
                       one->source, kinds[one->kind], kinds[one->kind]);
    json_array_foreach(list, index, event) QS_TRY(event_take(one, event, index));
    return QS_OK;
}

static qs_status text_load(const char *text, const char *source, json_t **out) {
    json_error_t error;
    *out = json_loads(text, 0, &error);
    if (*out) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s:%d:%d: %s", source, error.line, error.column, error.text);
}

qs_status qs_trace_beside(const char *predicted, const char *measured, const char *source, char **json) {
    json_t *root[2] = {NULL, NULL}, *list = json_array(), *whole = NULL;
    qs_status status = QS_OK;
    QS_GOTO(list ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "trace"));
    QS_GOTO(text_load(predicted, "prediction", &root[0]));
    QS_GOTO(text_load(measured, source, &root[1]));
    for (int k = 0; k < 2; k++)
        QS_GOTO(trace_take(&(merger){list, k ? source : "prediction", k}, root[k]));
    whole = json_pack("{s:{s:s,s:O,s:O},s:s,s:O}", "qsync", "source", "both", kinds[0], json_object_get(root[0], "qsync"), kinds[1],
                      json_object_get(root[1], "qsync"), "displayTimeUnit", "ms", "traceEvents", list);
    *json = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    QS_GOTO(*json ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "trace of %zu events", json_array_size(list)));
done:
    json_decref(whole);
    json_decref(list);
    json_decref(root[0]);
    json_decref(root[1]);
    return status;
}
