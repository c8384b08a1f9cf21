// SPDX-License-Identifier: Apache-2.0
/* trace.json: one measured step of all ranks as a Chrome trace, with the tracks that the replayer's prediction has. Every rank writes its
 * own events, times from the start of its iteration; rank 0 puts them together. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum track { TRACK_DATA, TRACK_COMPUTE, TRACK_CAST, TRACK_COMMUNICATION, TRACK_IDLE, TRACKS } track;
static const char *const track_names[TRACKS] = {"data", "compute", "cast", "communication", "idle"};

/* ---- Which step ----------------------------------------------------------------------------------------------------------------- */

/* The traced steps are the same on all ranks: the durations of the slowest one decide. */
static qs_status step_choose(qs__trainer *trainer, int *chosen) {
    const qs__watch *watch = &trainer->watch;
    double slowest[QS__TRACED], sorted[QS__TRACED];
    for (int i = 0; i < watch->traced; i++)
        slowest[i] = watch->traced_step[i].end - watch->traced_step[i].begin;
    *chosen = -1;
    if (watch->traced == 0) return QS_OK;
    QS_TRY(qs_comm_max(trainer->comm, slowest, watch->traced));
    memcpy(sorted, slowest, (size_t)watch->traced * sizeof *sorted);
    const double median = qs__median(sorted, watch->traced);
    for (int i = 0; i < watch->traced; i++)
        if (*chosen < 0 || fabs(slowest[i] - median) < fabs(slowest[*chosen] - median)) *chosen = i;
    return QS_OK;
}

/* ---- Events ----------------------------------------------------------------------------------------------------------------------- */

typedef struct writer {
    qs__text text;
    int rank;
    double zero; /* qs_clock at the start of the iteration */
    const qs_graph *graph;
} writer;

static void name_put(writer *out, const char *what, int thread, const char *name) {
    fprintf(out->text.stream, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, out->rank, thread);
    qs__text_quote(&out->text, name);
    fputs("}},\n", out->text.stream);
}

static void event_open(writer *out, track on, double begin, double end, const char *name) {
    fprintf(out->text.stream, "{\"name\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{", name,
            1e6 * (begin - out->zero), 1e6 * fmax(end - begin, 0), out->rank, (int)on);
}

static void event_close(writer *out) {
    fputs("}},\n", out->text.stream);
}

static void kernel_put(writer *out, const qs_step *step, double begin, double end) {
    char name[160];
    snprintf(name, sizeof name, "%s/%s", step->case_.op->name, step->case_.pass->name);
    event_open(out, step->conversion ? TRACK_CAST : TRACK_COMPUTE, begin, end, name);
    fputs("\"case\":", out->text.stream);
    qs__text_quote(&out->text, step->case_text);
    fprintf(out->text.stream, ",\"phase\":\"%s\"", qs_phase_name(step->phase));
    if (step->node >= 0) {
        fputs(",\"operator\":", out->text.stream);
        qs__text_quote(&out->text, out->graph->node[step->node].name);
    }
    event_close(out);
}

static void bucket_put(writer *out, track on, const char *what, int bucket, double begin, double end) {
    char name[64];
    snprintf(name, sizeof name, "%s bucket %d", what, bucket);
    event_open(out, on, begin, end, name);
    event_close(out);
}

/* All-reduces that are under way at the same time end in the order of their start, and one moves at a time: each is drawn from the end of
 * the one before, for events of a track must not cross. */
static void reduce_put(writer *out, const qs_schedule *schedule, const qs_timeline *timeline, int bucket, double *free_from) {
    const double start = qs__timeline_start_of(timeline, schedule->bucket[bucket].ready_step), end = timeline->complete[bucket];
    if (end <= 0) return;
    const double begin = fmin(fmax(start, *free_from), end);
    char name[64];
    snprintf(name, sizeof name, "all-reduce of bucket %d", bucket);
    event_open(out, TRACK_COMMUNICATION, begin, end, name);
    fprintf(out->text.stream, "\"started\":%.3f,\"bytes\":%lld", 1e6 * (start - out->zero), (long long)schedule->bucket[bucket].count * 4);
    event_close(out);
    *free_from = end;
}

static void steps_put(writer *out, const qs_schedule *schedule, const qs_timeline *timeline) {
    double free_from = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const double begin = qs__timeline_start_of(timeline, s), end = timeline->end[s];
        if (step->kind == QS_STEP_KERNEL) kernel_put(out, step, begin, end - timeline->polled[s]);
        if (step->kind == QS_STEP_REDUCE_START) reduce_put(out, schedule, timeline, step->bucket, &free_from);
        if (step->kind == QS_STEP_REDUCE_WAIT) bucket_put(out, TRACK_IDLE, "wait for", step->bucket, begin, end);
    }
}

static void process_put(writer *out, const char *class_name) {
    char name[QS_NAME + 32];
    snprintf(name, sizeof name, "rank %d (%s)", out->rank, class_name);
    name_put(out, "process_name", 0, name);
    for (int t = 0; t < TRACKS; t++)
        name_put(out, "thread_name", t, track_names[t]);
}

static qs_status rank_text(const qs__trainer *trainer, const qs__traced *traced, char **events) {
    const qs_schedule *schedule = trainer->watch.schedule;
    const qs_timeline *timeline = &traced->timeline;
    writer out = {.rank = trainer->rank, .zero = traced->begin, .graph = trainer->graph};
    QS_TRY(qs__text_start(&out.text));
    process_put(&out, trainer->class_->name);
    event_open(&out, TRACK_DATA, traced->begin, timeline->begin, "data");
    event_close(&out);
    steps_put(&out, schedule, timeline);
    event_open(&out, TRACK_DATA, timeline->end[schedule->steps - 1], traced->end, "loop");
    event_close(&out);
    return qs__text_finish(&out.text, events);
}

/* ---- All ranks -------------------------------------------------------------------------------------------------------------------- */

/* Every event ends with ",\n"; the last comma goes. */
static qs_status whole_text(const qs__trainer *trainer, char *events, int64_t bytes, const qs__traced *traced, double slowest,
                            char **json) {
    return qs_format_text(
        json,
        "{\"qsync\":{\"source\":\"measured\",\"iteration_us\":%.3f,\"step\":%lld,\"ranks\":%d},\n\"displayTimeUnit\":\"ms\",\n"
        "\"traceEvents\":[\n%.*s]}\n",
        1e6 * slowest, (long long)traced->step, trainer->ranks, (int)(bytes > 2 ? bytes - 2 : 0), events);
}

static qs_status events_gather(qs__trainer *trainer, const qs__traced *traced, const char *mine, char **json) {
    char *all = NULL;
    int64_t *sizes = NULL, bytes = 0;
    double slowest = traced->end - traced->begin;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_max(trainer->comm, &slowest, 1));
    QS_GOTO(qs_comm_gather(trainer->comm, mine, (int64_t)strlen(mine), &all, &sizes));
    for (int r = 0; trainer->rank == 0 && r < trainer->ranks; r++)
        bytes += sizes[r];
    if (trainer->rank == 0) status = whole_text(trainer, all, bytes, traced, slowest, json);
    status = qs_comm_agree(trainer->comm, status);
done:
    free(all);
    free(sizes);
    return status;
}

qs_status qs__trace_text(qs__trainer *trainer, char **json) {
    char *mine = NULL;
    int chosen;
    *json = NULL;
    QS_TRY(step_choose(trainer, &chosen));
    if (chosen < 0) {
        if (trainer->rank == 0) qs_log(QS_LOG_WARNING, "no trace: the run had no full-size step behind its warm-up");
        return QS_OK;
    }
    const qs__traced *traced = &trainer->watch.traced_step[chosen];
    qs_status status = qs_comm_agree(trainer->comm, rank_text(trainer, traced, &mine));
    if (status == QS_OK) status = events_gather(trainer, traced, mine, json);
    free(mine);
    return status;
}
