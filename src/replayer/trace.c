// SPDX-License-Identifier: Apache-2.0
/* Chrome trace of a replay: one process a rank, threads data, compute, cast, communication and idle; opens in Perfetto. */
#include <jansson.h>
#include <stdlib.h>

#include "replayer_internal.h"

const qs__track qs__tracks[QS__TRACKS] = {{'d', "data", "rail_load"},
                                          {'c', "compute", "thread_state_running"},
                                          {'v', "cast", "rail_animation"},
                                          {'r', "communication", "rail_response"},
                                          {'i', "idle", "grey"}};

static int track_of(char letter) {
    for (int t = 0; t < QS__TRACKS; t++)
        if (qs__tracks[t].letter == letter) return t;
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
        for (int t = 0; t < QS__TRACKS; t++)
            if (!append(list, json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", "thread_name", "ph", "M", "pid", r, "tid", t, "args", "name",
                                        qs__tracks[t].name)))
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
        snprintf(text, size, "%s", qs__tracks[track_of(event->track)].name);
}

/* What a kernel's event says beyond its name; nothing for other events. */
static json_t *event_args(const qs_replay_event *event, const qs_replay_rank *rank) {
    const qs_step *step = event->step >= 0 ? &rank->schedule->step[event->step] : NULL;
    if (!step || !step->case_text) return json_object();
    const char *node = rank->graph && step->node >= 0 ? rank->graph->node[step->node].name : NULL;
    return json_pack("{s:s,s:s,s:s*}", "case", step->case_text, "phase", qs_phase_name(step->phase), "operator", node);
}

static bool event_append(json_t *list, const qs_replay_event *event, const qs_replay_rank *rank) {
    char name[128];
    event_name(event, rank->schedule, name, sizeof name);
    const int track = track_of(event->track);
    return append(list, json_pack("{s:s,s:s,s:f,s:f,s:i,s:i,s:s,s:o}", "name", name, "ph", "X", "ts", event->start, "dur",
                                  event->end - event->start, "pid", event->rank, "tid", track, "cname", qs__tracks[track].color, "args",
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
