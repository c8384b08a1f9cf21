// SPDX-License-Identifier: Apache-2.0
/* Which blocks a class computes again for backward (docs/planning.md): none, those that the options name, or as many as make the plan
 * better by the planner's own order. Then a class whose highest precision fits its memory keeps everything. Of the others blocks are taken
 * in one order, by what a block saves between forward and backward for each microsecond of computing it again, and the planner plans with
 * the first 0, 1, 2, 4, ... of it; between the best and its neighbours it goes on by halves. Whole plans are compared, each accepted by the
 * full prediction: the pace of the best uniform plan of all of them, then least ΣΩ (of planners that assign formats to tensors: the least
 * share in low formats), then time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"
#include "session.h"

enum { MOST_TRIES = 40, MOST_HALVINGS = 6 };

/* The blocks of a class in their order; none where its memory does not bind. */
typedef struct ranking {
    int blocks;
    char (*name)[QS_NAME];
    bool binds;
} ranking;

typedef struct asking {
    qs_plan_session *session;
    const qs_cluster *cluster;
    const char *name;
    qs_planner planner;
    const qs_plan_options *options;
    ranking *ranking; /* (classes); NULL: blocks by the options' text */
} asking;

/* ---- One plan ------------------------------------------------------------------------------------------------------------------------ */

/* The first `count` blocks of the class's order. */
static qs_status class_recompute(const asking *ask, int c, int count, qs_candidate *candidate) {
    qs_class_plan *to = &candidate->class_[c].assigned;
    if (!ask->ranking) {
        QS_TRY(qs_recompute_list(ask->options->recompute, candidate->graph, to));
        snprintf(to->recompute_why, sizeof to->recompute_why, "asked");
        return qs__candidate_retable(candidate, c);
    }
    const ranking *from = &ask->ranking[c];
    if (count > from->blocks) count = from->blocks;
    QS_TRY(qs_allocate((size_t)count + 1, sizeof *to->recompute, &to->recompute));
    for (; to->recomputes < count; to->recomputes++)
        memcpy(to->recompute[to->recomputes], from->name[to->recomputes], sizeof *to->recompute);
    snprintf(to->recompute_why, sizeof to->recompute_why, "%s", !from->binds ? "fits" : count > 0 ? "memory" : "pace");
    return qs__candidate_retable(candidate, c);
}

/* *limit_us: the longest iteration that the planner allowed itself; 0: it knows no such limit. */
static qs_status plan_once(const asking *ask, int count, double *limit_us, qs_plan *out) {
    const bool keeps = !ask->ranking && strcmp(ask->options->recompute, "no") == 0;
    qs_candidate candidate = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__candidate_create(ask->session->graph, ask->cluster, ask->session->profile, ask->session->job, ask->options, &candidate));
    candidate.session = ask->session;
    for (int c = 0; c < ask->cluster->classes && !keeps; c++)
        QS_GOTO(class_recompute(ask, c, count, &candidate));
    QS_GOTO(ask->planner(&candidate));
    *limit_us = candidate.limit_us;
    QS_GOTO(qs__candidate_assemble(&candidate, ask->name, out));
done:
    qs__candidate_release(&candidate);
    return status;
}

/* ---- The order of blocks ------------------------------------------------------------------------------------------------------------- */

/* A schedule's bytes that lie between forward and backward, and the time of what it computes again. */
static qs_status schedule_measure(const qs_candidate *candidate, int c, double *bytes, double *us) {
    const qs_lowering lowering = qs__candidate_lowering(candidate, c);
    const qs_class_profile *profile = lowering.context;
    const qs_cost_options costs = qs_cost_options_of(&candidate->costs, &candidate->cluster->class_[c]);
    qs_schedule *schedule = NULL;
    double *step_us = NULL;
    int forward = 0;
    qs_status status = QS_OK;
    *bytes = *us = 0;
    QS_GOTO(qs_schedule_lower(&lowering, &schedule));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *step_us, &step_us));
    QS_GOTO(qs_cost_schedule(profile, schedule, &costs, step_us));
    qs_cost_schedule_recorded(profile, schedule, &costs, step_us);
    while (forward < schedule->steps && schedule->step[forward].phase == QS_FORWARD)
        forward++;
    for (int b = 0; b < schedule->buffers; b++) {
        const qs_buffer *one = &schedule->buffer[b];
        if (one->first < forward && one->last >= forward) *bytes += (double)one->bytes;
    }
    for (int s = forward; s < schedule->steps; s++)
        if (schedule->step[s].recomputed) *us += step_us[s];
done:
    qs_schedule_release(schedule);
    free(step_us);
    return status;
}

typedef struct worth {
    int block;
    double bytes, us;
} worth;

static int worth_compare(const void *left, const void *right) {
    const worth *a = left, *b = right;
    const double first = a->bytes * b->us, second = b->bytes * a->us;
    if (first != second) return first > second ? -1 : 1;
    return a->block - b->block;
}

static qs_status block_measure(qs_candidate *candidate, int c, const qs_block *block, double kept, worth *out) {
    qs_class_plan *to = &candidate->class_[c].assigned;
    double bytes;
    QS_TRY(qs_recompute_list(candidate->graph->node[block->first].name, candidate->graph, to));
    QS_TRY(qs__candidate_retable(candidate, c));
    QS_TRY(schedule_measure(candidate, c, &bytes, &out->us));
    out->bytes = kept - bytes;
    return QS_OK;
}

/* Blocks of one kind are alike, so one of each is measured. What the last block saves would be used next. */
static qs_status class_rank(qs_candidate *candidate, int c, ranking *out) {
    qs_blocks all = {0};
    worth *of_kind = NULL, *list = NULL;
    int count = 0;
    double kept, none;
    qs_status status = QS_OK;
    QS_GOTO(qs_graph_blocks(candidate->graph, &all));
    QS_GOTO(qs_allocate((size_t)all.blocks, sizeof *of_kind, &of_kind));
    QS_GOTO(qs_allocate((size_t)all.blocks, sizeof *list, &list));
    QS_GOTO(schedule_measure(candidate, c, &kept, &none));
    for (int k = 0; k < all.kinds; k++)
        QS_GOTO(block_measure(candidate, c, &all.block[all.representative[k]], kept, &of_kind[k]));
    for (int b = 0; b + 1 < all.blocks; b++) {
        const worth *one = &of_kind[all.block[b].kind];
        if (one->bytes > 0) list[count++] = (worth){b, one->bytes, one->us};
    }
    qsort(list, (size_t)count, sizeof *list, worth_compare);
    QS_GOTO(qs_allocate((size_t)count + 1, sizeof *out->name, &out->name));
    for (; out->blocks < count; out->blocks++)
        snprintf(out->name[out->blocks], sizeof *out->name, "%s", candidate->graph->node[all.block[list[out->blocks].block].first].name);
done:
    qs_blocks_release(&all);
    free(of_kind);
    free(list);
    return status;
}

/* By the class's highest precision: what needs memory most. */
static qs_status classes_rank(const asking *ask, int *longest) {
    qs_candidate candidate = {0};
    qs_prediction prediction = {0};
    qs_status status = QS_OK;
    *longest = 0;
    QS_GOTO(qs__candidate_create(ask->session->graph, ask->cluster, ask->session->profile, ask->session->job, ask->options, &candidate));
    for (int c = 0; c < ask->cluster->classes; c++)
        qs__candidate_set_uniform(&candidate, c, 0);
    QS_GOTO(qs__candidate_predict(&candidate, &prediction));
    for (int c = 0; c < ask->cluster->classes; c++) {
        ranking *one = &ask->ranking[c];
        one->binds = !prediction.class_[c].fits;
        if (one->binds) QS_GOTO(class_rank(&candidate, c, one));
        if (one->blocks > *longest) *longest = one->blocks;
    }
done:
    qs_prediction_release(&prediction);
    qs__candidate_release(&candidate);
    return status;
}

/* ---- Choosing ------------------------------------------------------------------------------------------------------------------------ */

typedef struct attempt {
    int count;      /* of blocks */
    double quality; /* ΣΩ, or of planners that assign formats to tensors the share in low formats; less is better */
    double iteration_us, limit_us;
    qs_plan plan;
} attempt;

typedef struct attempts {
    const asking *ask;
    int count;
    attempt one[MOST_TRIES];
} attempts;

/* A plan that does not fit is no attempt. */
static qs_status attempt_make(attempts *all, int count) {
    attempt *one = &all->one[all->count];
    double limit_us = 0;
    *one = (attempt){.count = count};
    const qs_status status = plan_once(all->ask, count, &limit_us, &one->plan);
    if (status == QS_INFEASIBLE) return QS_OK;
    QS_TRY(status);
    const bool guarded = one->plan.confidence > 0;
    one->iteration_us = guarded ? one->plan.upper_us : one->plan.class_[0].predicted.iteration_us;
    one->limit_us = limit_us > 0 ? fmax(limit_us, one->iteration_us) : one->iteration_us / (1 - all->ask->options->tolerance);
    for (int c = 0; c < one->plan.classes; c++) {
        const qs_class_plan *own = &one->plan.class_[c];
        one->quality += all->ask->cluster->class_[c].count * (own->tensors > 0 ? own->assignment.ratio_low : own->predicted.sum_omega);
    }
    all->count++;
    return QS_OK;
}

/* Of the plans that keep the best pace the one of the best quality; of equal ones the fastest, then that with the fewest blocks. */
static int attempt_best(const attempts *all) {
    double limit_us = INFINITY;
    int best = -1;
    for (int i = 0; i < all->count; i++)
        limit_us = fmin(limit_us, all->one[i].limit_us);
    for (int i = 0; i < all->count; i++) {
        const attempt *one = &all->one[i], *other = best < 0 ? NULL : &all->one[best];
        if (one->iteration_us > limit_us) continue;
        if (other && other->quality < one->quality) continue;
        if (other && other->quality == one->quality && other->iteration_us < one->iteration_us) continue;
        if (other && other->quality == one->quality && other->iteration_us == one->iteration_us && other->count <= one->count) continue;
        best = i;
    }
    return best;
}

/* Between the best count and what was tried next to it, on the side where more is left. */
static qs_status best_refine(attempts *all, int longest, bool *tried) {
    for (int round = 0; round < MOST_HALVINGS; round++) {
        const int at = all->one[attempt_best(all)].count;
        int below = at, above = at;
        while (below > 0 && !tried[below - 1])
            below--;
        while (above < longest && !tried[above + 1])
            above++;
        if (below == at && above == at) break;
        const int next = at - below >= above - at ? below + (at - below) / 2 : at + (above - at + 1) / 2;
        tried[next] = true;
        QS_TRY(attempt_make(all, next));
    }
    return QS_OK;
}

static qs_status plan_choose(const asking *ask, qs_plan *out) {
    attempts all = {.ask = ask};
    bool *tried = NULL; /* (longest + 1) */
    int longest = 0, best = -1;
    qs_status status = QS_OK;
    QS_GOTO(classes_rank(ask, &longest));
    QS_GOTO(qs_allocate((size_t)longest + 1, sizeof *tried, &tried));
    for (int count = 0;; count = count == 0 ? 1 : 2 * count < longest ? 2 * count : longest) {
        tried[count] = true;
        QS_GOTO(attempt_make(&all, count));
        if (count == longest) break;
    }
    if (all.count == 0) QS_GOTO(qs_fail(QS_INFEASIBLE, "with %d blocks computed again: %s", longest, qs_message()));
    QS_GOTO(best_refine(&all, longest, tried));
    best = attempt_best(&all);
    *out = all.one[best].plan;
done:
    for (int i = 0; i < all.count; i++)
        if (i != best) qs_plan_release(&all.one[i].plan);
    free(tried);
    return status;
}

qs_status qs__plan_recomputing(qs_plan_session *session, const qs_cluster *cluster, const char *name, qs_planner planner,
                               const qs_plan_options *options, qs_plan *out) {
    asking ask = {.session = session, .cluster = cluster, .name = name, .planner = planner, .options = options};
    double limit_us;
    if (strcmp(options->recompute, "auto") != 0) {
        const qs_status status = plan_once(&ask, 0, &limit_us, out);
        if (status != QS_INFEASIBLE || strcmp(options->recompute, "no") != 0) return status;
        return qs_fail(status, "%s; or let blocks be computed again (--recompute auto)", qs_message());
    }
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *ask.ranking, &ask.ranking));
    const qs_status status = plan_choose(&ask, out);
    for (int c = 0; c < cluster->classes; c++)
        free(ask.ranking[c].name);
    free(ask.ranking);
    return status;
}
