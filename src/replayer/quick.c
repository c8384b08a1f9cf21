// SPDX-License-Identifier: Apache-2.0
/* Iteration times from sums: eqs. (4.6) and (4.7) of docs/method.md, alone and over classes with shares of the compute thread; host
 * slowdown of whole classes, eq. (4.8). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer_internal.h"

/* ---- Eqs. (4.6) and (4.7) alone ------------------------------------------------------------------------------------------------ */

void qs_replay_buckets(int devices, const qs_replay_device *device, int buckets, double *start, double *end, double *iteration) {
    double previous = 0;
    for (int n = 0; n < buckets; n++) {
        double duration = 0;
        start[n] = previous;
        for (int i = 0; i < devices; i++) {
            start[n] = fmax(start[n], device[i].ready[n]);
            duration = fmax(duration, device[i].duration[n]);
        }
        previous = end[n] = start[n] + duration;
    }
    *iteration = 0;
    for (int i = 0; i < devices; i++) {
        double now = device[i].compute_end;
        for (int n = 0; n < buckets; n++)
            now = fmax(now, end[n]) + device[i].optimizer[n];
        *iteration = fmax(*iteration, now);
    }
}

/* ---- The same over classes, in one pass over the buckets ------------------------------------------------------------------------- */

/* An all-reduce slows the work that it overlaps, so every class has a clock that turns work into time. Of the all-reduces, `placed` are
 * known. */
static void work_for(const qs_quick_pace *one, struct qs_quick_clock *clock, int placed, double work) {
    while (work > 0 && clock->window < placed) {
        const int window = clock->window;
        const double speed = 1 - one->reduce[window].cpu_share, room = (one->end[window] - clock->now) * fmax(speed, 0);
        if (clock->now >= one->end[window]) {
            clock->window++;
        } else if (clock->now < one->start[window]) {
            const double gap = fmin(one->start[window] - clock->now, work);
            clock->now += gap;
            work -= gap;
        } else if (work <= room && speed > 0) {
            clock->now += work / speed;
            work = 0;
        } else {
            clock->now = one->end[clock->window++];
            work -= room;
        }
    }
    clock->now += work;
}

static void work_until(const qs_quick_pace *one, struct qs_quick_clock *clock, int placed, double done) {
    if (done <= clock->done) return;
    work_for(one, clock, placed, done - clock->done);
    clock->done = done;
}

/* The update, behind all that was placed. */
static double class_finish(qs_quick_pace *one, int c) {
    const qs_quick_class *class_ = &one->class_[c];
    struct qs_quick_clock *clock = &one->clock[c];
    work_until(one, clock, one->buckets, class_->rest_us);
    for (int i = 0; i < class_->items; i++) {
        if (class_->item[i].bucket >= 0)
            clock->now = fmax(clock->now, one->end[class_->item[i].bucket]);
        else
            work_for(one, clock, one->buckets, class_->item[i].us);
    }
    return clock->now;
}

static double all_answer(qs_quick_pace *one, int only) {
    double iteration = 0;
    for (int c = 0; c < one->classes; c++)
        one->clock[c] = (struct qs_quick_clock){.now = one->class_[c].start_us};
    for (int b = 0; b < one->buckets; b++) {
        double start = b > 0 ? one->end[b - 1] : 0;
        for (int c = 0; c < one->classes; c++) {
            if (!one->class_[c].present || (only >= 0 && c != only)) continue;
            work_until(one, &one->clock[c], b, one->class_[c].ready[b]);
            start = fmax(start, one->clock[c].now);
            if (one->reached) one->reached[c * one->buckets + b] = one->clock[c].now;
        }
        one->start[b] = start;
        one->end[b] = start + one->reduce[b].us;
    }
    for (int c = 0; c < one->classes; c++) {
        if (!one->class_[c].present || (only >= 0 && c != only)) continue;
        const double finish = class_finish(one, c);
        if (one->finish) one->finish[c] = finish;
        iteration = fmax(iteration, finish);
    }
    return iteration;
}

/* Where all-reduces begin when they did before, nothing has changed for the other classes. false: they do not. */
static bool one_answer(qs_quick_pace *one, int changed) {
    const qs_quick_class *class_ = &one->class_[changed];
    struct qs_quick_clock *clock = &one->clock[changed];
    *clock = (struct qs_quick_clock){.now = class_->start_us};
    for (int b = 0; b < one->buckets; b++) {
        double start = b > 0 ? one->end[b - 1] : 0;
        work_until(one, clock, b, class_->ready[b]);
        one->reached[changed * one->buckets + b] = clock->now;
        for (int c = 0; c < one->classes; c++)
            if (one->class_[c].present) start = fmax(start, one->reached[c * one->buckets + b]);
        if (start != one->start[b]) return false;
    }
    one->finish[changed] = class_finish(one, changed);
    return true;
}

double qs_quick_iteration(qs_quick_pace *one, int only) {
    double iteration = 0;
    int changes = 0, changed = 0;
    if (!one->reached || only >= 0) {
        one->kept = false;
        return all_answer(one, only);
    }
    for (int c = 0; c < one->classes; c++) {
        if (one->class_[c].present && one->class_[c].changed) {
            changes++;
            changed = c;
        }
        one->class_[c].changed = false;
    }
    const bool kept = one->kept && (changes == 0 || (changes == 1 && one_answer(one, changed)));
    one->kept = true;
    if (!kept) return all_answer(one, only);
    for (int c = 0; c < one->classes; c++)
        if (one->class_[c].present) iteration = fmax(iteration, one->finish[c]);
    return iteration;
}

/* ---- Host slowdown ------------------------------------------------------------------------------------------------------------------ */

double qs__speed_beside(int ranks, int active, double together_us, double alone_us) {
    if (!(alone_us > 0) || alone_us == together_us || (ranks > 1 && active == ranks)) return 1;
    const double share = ranks > 1 ? (double)(active - 1) / (ranks - 1) : 0;
    return share + (1 - share) * together_us / alone_us;
}

qs_status qs_host_slowdown_make(const qs_cluster *cluster, qs_host_slowdown *out) {
    const size_t row = (size_t)cluster->classes;
    int *host = NULL, hosts = 0;
    qs_status status = QS_OK;
    *out = (qs_host_slowdown){.classes = cluster->classes};
    QS_GOTO(qs_allocate(row, sizeof *out->left, &out->left));
    QS_GOTO(qs_allocate((size_t)qs_cluster_ranks(cluster), sizeof *host, &host));
    qs_cluster_hosts(cluster, host, &hosts);
    QS_GOTO(qs_allocate((size_t)hosts * row, sizeof *out->count, &out->count));
    for (int r = 0; r < qs_cluster_ranks(cluster); r++)
        out->count[(size_t)host[r] * row + (size_t)qs_cluster_class_of(cluster, r)]++;
    for (int h = 0; h < hosts; h++) {
        const int *wanted = &out->count[(size_t)h * row];
        int like = 0;
        while (like < out->hosts && memcmp(&out->count[(size_t)like * row], wanted, row * sizeof *wanted) != 0)
            like++;
        if (like < out->hosts) continue;
        memmove(&out->count[(size_t)out->hosts * row], wanted, row * sizeof *wanted);
        out->hosts++;
    }
done:
    free(host);
    return status;
}

void qs_host_slowdown_release(qs_host_slowdown *one) {
    free(one->count);
    free(one->left);
    *one = (qs_host_slowdown){0};
}

void qs_host_slowdown_ends(const qs_host_slowdown *one, const double *work_us, const double *alone, double *end_us) {
    static const double ended = -1;
    for (int c = 0; c < one->classes; c++)
        end_us[c] = 0;
    for (int h = 0; h < one->hosts; h++) {
        const int *count = &one->count[(size_t)h * (size_t)one->classes];
        int ranks = 0;
        double now = 0;
        for (int c = 0; c < one->classes; c++) {
            ranks += count[c];
            one->left[c] = count[c] > 0 ? work_us[c] : ended;
        }
        for (int active = ranks; active > 0;) { /* from one class's end to the next */
            int first = -1;
            double soonest = INFINITY;
            for (int c = 0; c < one->classes; c++) {
                const double us = one->left[c] / qs__speed_beside(ranks, active, 1, alone[c]);
                if (one->left[c] == ended || us >= soonest) continue;
                soonest = us;
                first = c;
            }
            now += soonest;
            for (int c = 0; c < one->classes; c++)
                if (one->left[c] != ended) one->left[c] = fmax(one->left[c] - soonest * qs__speed_beside(ranks, active, 1, alone[c]), 0);
            one->left[first] = ended;
            end_us[first] = fmax(end_us[first], now);
            active -= count[first];
        }
    }
    for (int c = 0; c < one->classes; c++)
        if (end_us[c] == 0) end_us[c] = work_us[c];
}
