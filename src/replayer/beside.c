// SPDX-License-Identifier: Apache-2.0
/* Two traces of one run in one file: every rank has a process with its predicted iteration and behind it one with its measured iteration,
 * thread by thread the same names and colours. What was measured is read from a file and held against the trace event format. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer_internal.h"

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

static qs_status append(const merger *one, json_t *event) {
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
    if (!is_index(thread, QS__TRACKS - 1)) return refuse(one, index, "\"tid\" must be a track, 0 to 4");
    json_t *args = json_object_get(event, "args");
    return append(one, json_pack("{s:s,s:s,s:f,s:f,s:I,s:I,s:s,s:O*}", "name", name, "ph", "X", "ts", json_number_value(begin), "dur",
                                 json_number_value(length), "pid", process_of(one, event), "tid", json_integer_value(thread), "cname",
                                 qs__tracks[json_integer_value(thread)].color, "args", args));
}

static qs_status process_add(const merger *one, const json_t *event) {
    char text[256];
    const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    const json_int_t process = process_of(one, event);
    snprintf(text, sizeof text, "%s %s", name ? name : "rank", kinds[one->kind]);
    QS_TRY(append(
        one, json_pack("{s:s,s:s,s:I,s:i,s:{s:s}}", "name", "process_name", "ph", "M", "pid", process, "tid", 0, "args", "name", text)));
    QS_TRY(append(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:I}}", "name", "process_sort_index", "ph", "M", "pid", process, "tid", 0, "args",
                                 "sort_index", process)));
    for (int t = 0; t < QS__TRACKS; t++) {
        QS_TRY(append(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:s}}", "name", "thread_name", "ph", "M", "pid", process, "tid", t, "args",
                                     "name", qs__tracks[t].name)));
        QS_TRY(append(one, json_pack("{s:s,s:s,s:I,s:i,s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid", process, "tid", t, "args",
                                     "sort_index", t)));
    }
    return QS_OK;
}

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
