// SPDX-License-Identifier: Apache-2.0
/* Chrome trace of a replay: one process a rank, tracks compute, conversion, communication, idle and data; opens in Perfetto. */
#include <jansson.h>
#include <stdlib.h>

#include "qsync/replayer.h"

typedef struct track {
    char letter;
    const char *name;
} track;
static const track tracks[] = {{'d', "data and loop"}, {'c', "compute"}, {'v', "conversion"}, {'r', "all-reduce"}, {'i', "idle"}};
#define TRACKS ((int)(sizeof tracks / sizeof *tracks))

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
        if (!append(list, json_pack("{s:s,s:s,s:i,s:{s:s}}", "name", "process_name", "ph", "M", "pid", r, "args", "name", text)))
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
        snprintf(text, size, "all-reduce of bucket %d", event->bucket);
    else if (step)
        snprintf(text, size, "%s/%s", step->case_.op->name, step->case_.pass->name);
    else
        snprintf(text, size, "%s", tracks[track_of(event->track)].name);
}

static bool event_append(json_t *list, const qs_replay_event *event, const qs_schedule *schedule) {
    char name[128];
    event_name(event, schedule, name, sizeof name);
    const char *detail = event->step >= 0 && schedule->step[event->step].case_text ? schedule->step[event->step].case_text : "";
    return append(list, json_pack("{s:s,s:s,s:f,s:f,s:i,s:i,s:{s:s}}", "name", name, "ph", "X", "ts", event->start, "dur",
                                  event->end - event->start, "pid", event->rank, "tid", track_of(event->track), "args", "case", detail));
}

qs_status qs_replay_trace(const qs_replay_result *result, const qs_replay_rank *rank, char **json) {
    json_t *list = json_array();
    bool good = list && names_add(list, result, rank);
    for (int e = 0; good && e < result->events; e++)
        good = event_append(list, &result->event[e], rank[result->event[e].rank].schedule);
    json_t *root = good ? json_pack("{s:O,s:s}", "traceEvents", list, "displayTimeUnit", "ms") : NULL;
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(root);
    json_decref(list);
    if (!text) return qs_fail(QS_OUT_OF_MEMORY, "trace of %d events", result->events);
    *json = text;
    return QS_OK;
}
