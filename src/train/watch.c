// SPDX-License-Identifier: Apache-2.0
/* The clock beside the steps of training: all memory is there before the first step; a training step that is timed costs one reading of
 * the clock per step of its schedule and a sum over them. And trace.json: one measured step of all ranks as a Chrome trace, with the tracks
 * that the replayer's prediction has. Every rank writes its own events, times from the start of its iteration; rank 0 puts them
 * together. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t qs__warm_up(int64_t steps) {
    const int64_t tenth = steps / 10 < 5 ? 5 : steps / 10;
    return tenth > steps / 2 ? steps / 2 : tenth;
}

/* A clock beside every kernel keeps the executor from running recordings. Where it runs them, or is about to find out whether it does, only
 * one step in TIMED_EVERY behind the warm-up is timed, and those that a trace is chosen from. */
enum { TIMED_EVERY = 16 };

static bool is_timed_next(const qs__watch *watch) {
    if (qs_executor_recorded(watch->executor).state == QS_RECORDED_NO) return true;
    if (watch->skipped < watch->warm_up) return false;
    return watch->traced + 1 < watch->places || watch->untimed + 1 >= TIMED_EVERY;
}

static void next_time(qs__watch *watch) {
    watch->timed = is_timed_next(watch);
    qs_executor_time(watch->executor, watch->timed ? &watch->traced_step[watch->traced].timeline : NULL);
}

qs_status qs__watch_create(const qs__program *program, int64_t steps, bool trace, qs__watch *out) {
    qs_status status = QS_OK;
    *out = (qs__watch){.schedule = program->schedule, .executor = program->executor, .warm_up = qs__warm_up(steps)};
    out->places = trace ? QS__TRACED + 1 : 1; /* the last one is for the steps behind */
    QS_GOTO(qs_allocate(QS__WATCHED, sizeof *out->times, &out->times));
    QS_GOTO(qs_allocate((size_t)out->places, sizeof *out->traced_step, &out->traced_step));
    for (int i = 0; i < out->places; i++)
        QS_GOTO(qs_timeline_create(program->schedule, &out->traced_step[i].timeline));
    out->untimed = TIMED_EVERY;
    next_time(out);
    return QS_OK;
done:
    qs__watch_release(out);
    return status;
}

void qs__watch_release(qs__watch *watch) {
    for (int i = 0; watch->traced_step && i < watch->places; i++)
        qs_timeline_release(&watch->traced_step[i].timeline);
    free(watch->traced_step);
    free(watch->times);
    *watch = (qs__watch){0};
}

/* A step that was timed. */
static void step_note(qs__watch *watch, int64_t step, double begin, double end) {
    qs__traced *traced = &watch->traced_step[watch->traced];
    const qs_timeline *timeline = &traced->timeline;
    qs_phase_times sum = {0};
    qs_timeline_phases(timeline, watch->schedule, &sum);
    const double last = timeline->steps > 0 ? timeline->end[timeline->steps - 1] : timeline->begin;
    sum.data_us = 1e6 * ((end - begin) - (last - timeline->begin));
    double *row = watch->times[watch->seen++ % QS__WATCHED];
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        row[i] = qs_phase_times_at(&sum, i);
    row[QS_PHASE_TIMES] = 1e6 * (end - begin);
    traced->step = step;
    traced->begin = begin;
    traced->end = end;
    if (watch->traced + 1 < watch->places) watch->traced++;
}

const qs_timeline *qs__watch_timeline(const qs__watch *watch) {
    return watch->timed ? &watch->traced_step[watch->traced].timeline : NULL;
}

void qs__watch_step(qs__watch *watch, int64_t step, double begin, double end) {
    if (watch->skipped < watch->warm_up) {
        watch->skipped++;
    } else if (watch->timed) {
        step_note(watch, step, begin, end);
        watch->untimed = 0;
    } else {
        watch->untimed++;
    }
    next_time(watch);
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double qs__median(double *value, int64_t count) {
    if (count <= 0) return 0;
    qsort(value, (size_t)count, sizeof *value, by_value);
    return count % 2 ? value[count / 2] : 0.5 * (value[count / 2 - 1] + value[count / 2]);
}

qs_status qs__watch_medians(const qs__watch *watch, double *medians, int64_t *steps) {
    double *column = NULL;
    const int64_t count = watch->seen < QS__WATCHED ? watch->seen : QS__WATCHED;
    QS_TRY(qs_allocate((size_t)count, sizeof *column, &column));
    for (int i = 0; i <= QS_PHASE_TIMES; i++) {
        for (int64_t s = 0; s < count; s++)
            column[s] = watch->times[s][i];
        medians[i] = qs__median(column, count);
    }
    free(column);
    *steps = count;
    return QS_OK;
}

typedef enum track { TRACK_DATA, TRACK_COMPUTE, TRACK_CAST, TRACK_COMMUNICATION, TRACK_IDLE, TRACKS } track;
static const char *const track_names[TRACKS] = {"data", "compute", "cast", "communication", "idle"};

/* ---- The trace: which step ---- */

/* The traced steps are the same on all ranks: the durations of the slowest one decide. */
static qs_status step_choose(const qs__watch *watch, qs_comm *comm, int *chosen) {
    double slowest[QS__TRACED], sorted[QS__TRACED];
    for (int i = 0; i < watch->traced; i++)
        slowest[i] = watch->traced_step[i].end - watch->traced_step[i].begin;
    *chosen = -1;
    if (watch->traced == 0) return QS_OK;
    QS_TRY(qs_comm_max(comm, slowest, watch->traced));
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
    if (step->recomputed) fputs(",\"recomputed\":true", out->text.stream);
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
        if (step->kind == QS_STEP_REDUCE_WAIT) {
            char name[64];
            snprintf(name, sizeof name, "wait for bucket %d", step->bucket);
            event_open(out, TRACK_IDLE, begin, end, name);
            event_close(out);
        }
    }
}

static qs_status rank_text(const qs__traced *traced, const qs_schedule *schedule, int rank, const char *class_name, const qs_graph *graph,
                           char **events) {
    const qs_timeline *timeline = &traced->timeline;
    writer out = {.rank = rank, .zero = traced->begin, .graph = graph};
    char name[QS_NAME + 32];
    QS_TRY(qs__text_start(&out.text));
    snprintf(name, sizeof name, "rank %d (%s)", rank, class_name);
    name_put(&out, "process_name", 0, name);
    for (int t = 0; t < TRACKS; t++)
        name_put(&out, "thread_name", t, track_names[t]);
    event_open(&out, TRACK_DATA, traced->begin, timeline->begin, "data");
    event_close(&out);
    steps_put(&out, schedule, timeline);
    event_open(&out, TRACK_DATA, timeline->end[schedule->steps - 1], traced->end, "loop");
    event_close(&out);
    return qs__text_finish(&out.text, events);
}

/* ---- All ranks -------------------------------------------------------------------------------------------------------------------- */

/* Rank 0 puts all ranks' events together. Every event ends with ",\n"; the last comma goes. */
static qs_status events_gather(const qs__traced *traced, qs_comm *comm, const char *mine, char **json) {
    const int ranks = qs_comm_size(comm), rank = qs_comm_rank(comm);
    char *all = NULL;
    int64_t *sizes = NULL, bytes = 0;
    double slowest = traced->end - traced->begin;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_max(comm, &slowest, 1));
    QS_GOTO(qs_comm_gather(comm, mine, (int64_t)strlen(mine), &all, &sizes));
    for (int r = 0; rank == 0 && r < ranks; r++)
        bytes += sizes[r];
    if (rank == 0)
        status = qs_format_text(
            json,
            "{\"qsync\":{\"source\":\"measured\",\"iteration_us\":%.3f,\"step\":%lld,\"ranks\":%d},\n\"displayTimeUnit\":\"ms\",\n"
            "\"traceEvents\":[\n%.*s]}\n",
            1e6 * slowest, (long long)traced->step, ranks, (int)(bytes > 2 ? bytes - 2 : 0), all);
    status = qs_comm_agree(comm, status);
done:
    free(all);
    free(sizes);
    return status;
}

qs_status qs__trace_text(const qs__watch *watch, qs_comm *comm, const char *class_name, const qs_graph *graph, char **json) {
    const int rank = qs_comm_rank(comm);
    char *mine = NULL;
    int chosen;
    *json = NULL;
    QS_TRY(step_choose(watch, comm, &chosen));
    if (chosen < 0) {
        if (rank == 0)
            qs_log(QS_LOG_WARNING, "no trace: the run had no full-size step (of several lengths: of the longest) behind its warm-up");
        return QS_OK;
    }
    const qs__traced *traced = &watch->traced_step[chosen];
    qs_status status = qs_comm_agree(comm, rank_text(traced, watch->schedule, rank, class_name, graph, &mine));
    if (status == QS_OK) status = events_gather(traced, comm, mine, json);
    free(mine);
    return status;
}
