// SPDX-License-Identifier: Apache-2.0
/* How long ranks of a class may compute beside the others of their host (docs/method.md §5.4). Times are of work beside busy ranks. A class
 * whose recipes are given is late the more, the longer this one keeps its host busy; and this one gains at most what it computes while they
 * wait. Busy it is without a break until it has done its work before the update, and the update of all buckets that are summed when it gets
 * to them. */
#include <math.h>
#include <stdlib.h>

#include "relaxation.h"

/* A class of the same host whose recipes are given, from the start of an iteration. */
typedef struct neighbour {
    double busy_us; /* it computes at least so long while the ranks in question do */
    double room_us; /* and is late when they do so longer; INFINITY: whatever they do */
} neighbour;

/* docs/method.md eq. (4.8), no slower than beside busy ranks. */
static double speed_beside(double share, double us, double alone_us) {
    return alone_us > 0 && alone_us < us ? share + (1 - share) * us / alone_us : 1;
}

/* beside, behind: shares of the host's other ranks that are at work certainly, while the ranks in question are and behind that. ready_us:
 * (buckets) when its part of each is there at the latest, unless another class has it there later. */
static qs_status neighbour_find(const qs_candidate *candidate, int c, double beside, double behind, double limit_us, double *ready_us,
                                neighbour *out) {
    const qs_class_profile *profile = qs_profile_class(candidate->profile, candidate->cluster->class_[c].name);
    const size_t nodes = (size_t)candidate->graph->nodes;
    qs_lowering lowering = qs__candidate_lowering(candidate, c);
    const qs_recipe **recipe = NULL;
    qs_schedule *schedule = NULL;
    double *us = NULL, *alone_us = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(nodes, sizeof *recipe, &recipe));
    for (size_t n = 0; n < nodes; n++)
        recipe[n] = qs__candidate_recipe(&candidate->class_[c], (int)n, candidate->class_[c].choice[n]);
    lowering.recipe = recipe;
    QS_GOTO(qs_schedule_lower(&lowering, &schedule));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *us, &us));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *alone_us, &alone_us));
    QS_GOTO(qs_cost_schedule(profile, schedule, &candidate->costs, us));
    const bool recorded = qs_cost_schedule_recorded(profile, schedule, &candidate->costs, us);
    const double begin_us =
        qs_cost_loop(profile, &candidate->graph->samples, candidate->batch[c], recorded ? QS_START_RECORDED : QS_START_ONE_BY_ONE);
    const bool knows_alone = qs_cost_schedule_alone(profile, schedule, us, alone_us);
    double end_us = begin_us;
    *out = (neighbour){.room_us = INFINITY};
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind == QS_STEP_REDUCE_START) ready_us[step->bucket] = fmax(ready_us[step->bucket], end_us);
        end_us += knows_alone ? fmax(us[s], alone_us[s]) : us[s];
    }
    if (!knows_alone) goto done;
    end_us = out->busy_us = begin_us;
    for (int s = 0; s < schedule->steps; s++)
        end_us += us[s] / speed_beside(behind, us[s], alone_us[s]);
    for (int s = 0; s < schedule->steps && schedule->step[s].phase != QS_UPDATE; s++) {
        const double long_us = us[s] / speed_beside(beside, us[s], alone_us[s]);
        const double later_us = long_us - us[s] / speed_beside(behind, us[s], alone_us[s]);
        if (isinf(out->room_us) && later_us > 0 && end_us + later_us > limit_us)
            out->room_us = out->busy_us + long_us * fmax(limit_us - end_us, 0) / later_us;
        end_us += later_us;
        out->busy_us += long_us;
    }
done:
    free(recipe);
    free(us);
    free(alone_us);
    qs_schedule_release(schedule);
    return status;
}

static int ranks_of(const int *here, int classes) {
    int ranks = 0;
    for (int c = 0; c < classes; c++)
        ranks += here[c];
    return ranks;
}

qs_status qs__relax_has_neighbours(const qs_candidate *candidate, int class_index, bool *yes) {
    const int classes = candidate->cluster->classes;
    qs_host_slowdown hosts = {0};
    const qs_status status = qs_host_slowdown_make(candidate->cluster, &hosts);
    *yes = false;
    for (int h = 0; status == QS_OK && h < hosts.hosts; h++)
        *yes = *yes || (hosts.count[h * classes + class_index] > 0 && ranks_of(&hosts.count[h * classes], classes) > 1);
    qs_host_slowdown_release(&hosts);
    return status;
}

/* The least that the class computes in the backward parts of the nodes before each: that comes behind them. */
static qs_status behind_find(const qs__relaxation *one, double **behind_us) {
    double sum = 0;
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof **behind_us, behind_us));
    for (int n = 0; n < one->graph->nodes; n++) {
        double least = INFINITY;
        for (int cell = 0; cell < one->cells; cell++)
            if (one->allowed[n] >> cell / one->formats % one->class_->recipes & 1)
                least = fmin(least, one->backward_us[(size_t)n * (size_t)one->cells + (size_t)cell]);
        (*behind_us)[n] = sum;
        if (isfinite(least)) sum += least;
    }
    return QS_OK;
}

/* The most work before the update, if with the update of the buckets that are summed when their turn comes it may take room_us. A bucket's
 * sum waits for the others' parts, there by ready_us, and for this class's own: there before its work is done, by at least what is behind.
 * Known where only this class is not given, and nothing but the others' steps decides when they are ready. */
static double work_room(const qs__relaxation *one, double room_us, const double *ready_us, const double *behind_us) {
    double most_us = 0, updates_us = 0, summed_us = 0, from_us = 0;
    double late_us = -INFINITY; /* how long behind its own work the sum ends at the latest, if the others were ready at once */
    for (int b = 0;; b++) {
        double next_us = INFINITY; /* with so much work this bucket is summed, too; INFINITY: not for certain with any */
        if (b < one->buckets) {
            summed_us = fmax(summed_us, ready_us[b]) + one->bucket[b].reduce_us;
            late_us = fmax(late_us, -behind_us[one->bucket[b].node]) + one->bucket[b].reduce_us;
            if (late_us <= updates_us) next_us = fmax(from_us, summed_us - updates_us);
        }
        if (room_us - updates_us >= from_us) most_us = fmin(room_us - updates_us, next_us);
        if (isinf(next_us)) return most_us;
        updates_us += one->bucket[b].update_us;
        from_us = next_us;
    }
}

static bool is_alone_open(const qs__relaxation *one) {
    const qs_candidate *candidate = one->candidate;
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const qs_class *class_ = &candidate->cluster->class_[c];
        if (class_->count > 0 && qs_profile_class(candidate->profile, class_->name)->jitter > 0) return false;
        if (c != one->class_index && class_->count > 0 && (qs__class_is_lowered(candidate, c) || qs__candidate_slow(candidate, c) > 1))
            return false;
    }
    for (int b = 0; b < one->buckets; b++)
        if (one->bucket[b].cpu_share > 0) return false;
    return true;
}

/* Of the first host that has such ranks and others. Limits are raised by what a rank gains while others wait: for no longer than these do
 * not compute for certain. */
qs_status qs__relax_rooms(const qs__relaxation *one, double limit_us, qs__relax_room *out) {
    const qs_candidate *candidate = one->candidate;
    const int classes = candidate->cluster->classes, own = one->class_index;
    const qs_class_profile *profile = qs_profile_class(candidate->profile, candidate->cluster->class_[own].name);
    const double gain = qs_cost_most_speed(profile) - 1;
    qs_host_slowdown hosts = {0};
    neighbour *all = NULL;
    double *ready_us = NULL, *behind_us = NULL;
    bool known = true; /* when all neighbours are ready for each bucket */
    double room_us = limit_us, idle = 0, idle_in_room = 0;
    qs_status status = QS_OK;
    *out = (qs__relax_room){limit_us, limit_us};
    if (!one->together) return QS_OK;
    QS_GOTO(qs_host_slowdown_make(candidate->cluster, &hosts));
    QS_GOTO(qs_allocate((size_t)classes, sizeof *all, &all));
    QS_GOTO(qs_allocate((size_t)one->buckets, sizeof *ready_us, &ready_us));
    const int *here = hosts.count;
    int others = ranks_of(here, classes) - 1;
    for (; here[own] == 0 || others == 0; others = ranks_of(here, classes) - 1)
        here += classes;
    for (int c = 0; c < classes; c++) {
        if (c == own || here[c] == 0 || qs__class_is_lowered(candidate, c)) continue;
        const qs_class_profile *other = qs_profile_class(candidate->profile, candidate->cluster->class_[c].name);
        if (gain == 0 && qs_cost_most_speed(other) == 1) { /* neither is faster alone */
            known = false;
            continue;
        }
        const double behind = (double)(here[c] - 1) / others, beside = behind + (double)here[own] / others;
        QS_GOTO(neighbour_find(candidate, c, beside, behind, limit_us, ready_us, &all[c]));
        room_us = fmin(room_us, all[c].room_us);
    }
    for (int c = 0; c < classes; c++) {
        if (c == own || here[c] == 0) continue;
        idle += (double)here[c] / others * fmax(limit_us - all[c].busy_us, 0);
        idle_in_room += (double)here[c] / others * fmax(room_us - all[c].busy_us, 0);
    }
    out->limit_us = limit_us + gain * idle;
    const double slow = qs__candidate_slow(candidate, own);
    if (known && idle_in_room * gain == 0 && ranks_of(here, classes) == qs_cluster_ranks(candidate->cluster) && is_alone_open(one)) {
        QS_GOTO(behind_find(one, &behind_us));
        room_us = fmin(room_us, work_room(one, room_us, ready_us, behind_us));
    }
    out->total_us = fmin(out->limit_us, room_us + gain * idle_in_room + one->fixed_us - one->begin_us);
    if (slow > 1) out->total_us = one->begin_us + (out->total_us - one->begin_us) / slow;
done:
    qs_host_slowdown_release(&hosts);
    free(all);
    free(ready_us);
    free(behind_us);
    return status;
}
