// SPDX-License-Identifier: Apache-2.0
/* The search's state: one cost mapper a class, the changes that can be taken back, the calibration. */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../session.h"

/* The update of a class, in one of the ways in which steps are started. */
typedef struct update {
    int items;
    qs_quick_item *item;
    double us; /* of all items, slowed as the class is */
} update;

typedef struct search_class {
    qs_cost_mapper *mapper;
    double slow; /* times the mapper's answers: qs__candidate_slow */
    bool idle;   /* it does nothing before the update */
    update one_by_one, recorded;
    /* What the last full prediction found beyond the mapper's answers. */
    double rest_offset;    /* work before the update */
    int64_t packing_bytes; /* arena - live */
    double *mapped_ready;  /* (buckets) the mapper's answer */
    bool moved;            /* which it is no more */
    double *ready;         /* (buckets) that, times `factor`: what the quick answers go by */
    double factor;
} search_class;

typedef struct change {
    int class_index, node, recipe; /* recipe: before */
} change;

struct qs__search {
    qs_candidate *candidate;
    search_class *class_; /* (classes) */
    size_t capacity;
    int changes;
    change *change;
    qs_all_reduce_cost *reduce;
    qs_quick_pace pace;
    qs_host_slowdown slowdown;
    double *alone, *work_us, *end_us; /* (classes) of the last full prediction; scratch */
    double iteration_offset;
    double scale;    /* the mean over lengths, over the longest one, of which the mappers are; 1: there is one length */
    int64_t changed; /* so far */
};

/* ---- Making ---- */

static qs_status mapper_create(qs_candidate *candidate, int c, const int *choice, qs_cost_mapper **out) {
    const qs_class_profile *profile = qs_profile_class(candidate->profile, candidate->cluster->class_[c].name);
    qs__candidate_bind(candidate, c, choice);
    /* A session's mapper outlives the candidate's tensors. Its draft reads none: planners that give them formats search otherwise. */
    const qs_lowering lowering = qs__candidate_lowering(candidate, c);
    const qs_cost_options costs = qs_cost_options_of(&candidate->costs, &candidate->cluster->class_[c]);
    return qs_fail_within(qs_cost_mapper_create(&lowering, profile, &costs, out), "class %s", candidate->cluster->class_[c].name);
}

/* The update depends on graph and job only: its steps are priced once. */
static qs_status update_list(const qs_cost_mapper *mapper, bool recorded, double slow, update *out) {
    const qs_schedule_draft *schedule = qs_cost_mapper_draft(mapper);
    const qs_draft_step *step = NULL;
    double *us = NULL;
    qs_status status = QS_OK;
    const int last = qs_schedule_draft_segments(schedule) - 1, steps = qs_schedule_draft_steps(schedule, last, &step);
    const int all = qs_cost_mapper_steps(mapper, recorded, NULL);
    QS_TRY(qs_allocate((size_t)all, sizeof *us, &us));
    QS_GOTO(qs_allocate((size_t)steps, sizeof *out->item, &out->item));
    qs_cost_mapper_steps(mapper, recorded, us);
    for (int s = 0; s < steps; s++) {
        const bool wait = step[s].kind == QS_STEP_REDUCE_WAIT;
        out->item[out->items++] = (qs_quick_item){wait ? step[s].bucket : -1, wait ? 0 : slow * us[all - steps + s]};
        out->us += slow * us[all - steps + s];
    }
done:
    free(us);
    return status;
}

/* As the class's steps are started now. */
static const update *update_of(const search_class *one) {
    return qs_cost_mapper_recorded(one->mapper) ? &one->recorded : &one->one_by_one;
}

/* Work before the update. */
static double mapped_us(const search_class *one) {
    return one->idle ? 0 : one->slow * qs_cost_mapper_us(one->mapper) - update_of(one)->us;
}

static qs_status reduces_price(qs__search *one) {
    const qs_candidate *candidate = one->candidate;
    const qs_schedule_draft *schedule = qs_cost_mapper_draft(one->class_[0].mapper);
    qs_all_reduce what = {candidate->job->algorithm, qs_cluster_ranks(candidate->cluster), NULL, qs_cluster_network(candidate->cluster),
                          candidate->job->wire};
    int *host = NULL, hosts = 0;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)what.ranks, sizeof *host, &host));
    qs_cluster_hosts(candidate->cluster, host, &hosts);
    what.host = host;
    QS_GOTO(qs_allocate((size_t)one->pace.buckets, sizeof *one->reduce, &one->reduce));
    for (int b = 0; b < one->pace.buckets; b++)
        QS_GOTO(qs_cost_all_reduce_on(candidate->profile, &what, qs_schedule_draft_bucket_elements(schedule, b) * (int64_t)sizeof(float),
                                      &one->reduce[b]));
done:
    free(host);
    return status;
}

static qs_status pace_make(qs__search *one) {
    qs_quick_pace *pace = &one->pace;
    pace->classes = one->candidate->cluster->classes;
    pace->buckets = qs_schedule_draft_buckets(qs_cost_mapper_draft(one->class_[0].mapper));
    const size_t classes = (size_t)pace->classes, buckets = (size_t)pace->buckets;
    QS_TRY(reduces_price(one));
    pace->reduce = one->reduce;
    QS_TRY(qs_allocate(classes, sizeof *pace->class_, &pace->class_));
    QS_TRY(qs_allocate(classes, sizeof *pace->clock, &pace->clock));
    QS_TRY(qs_allocate(buckets, sizeof *pace->start, &pace->start));
    QS_TRY(qs_allocate(buckets, sizeof *pace->end, &pace->end));
    QS_TRY(qs_allocate(classes * buckets, sizeof *pace->reached, &pace->reached));
    QS_TRY(qs_allocate(classes, sizeof *pace->finish, &pace->finish));
    for (int c = 0; c < pace->classes; c++) {
        const qs_class *class_ = &one->candidate->cluster->class_[c];
        const qs_class_profile *profile = qs_profile_class(one->candidate->profile, class_->name);
        const qs_cost_options costs = qs_cost_options_of(&one->candidate->costs, class_);
        const double loop_us = qs_cost_loop(profile, &one->candidate->graph->samples, one->candidate->batch[c], costs.start);
        QS_TRY(qs_allocate(buckets, sizeof *one->class_[c].ready, &one->class_[c].ready));
        QS_TRY(qs_allocate(buckets, sizeof *one->class_[c].mapped_ready, &one->class_[c].mapped_ready));
        one->class_[c].moved = true;
        pace->class_[c] = (qs_quick_class){.present = class_->count > 0, .start_us = loop_us, .ready = one->class_[c].ready};
    }
    return QS_OK;
}

static qs_status mapper_move(const qs_candidate *candidate, int c, qs_cost_mapper *mapper) {
    const qs_candidate_class *one = &candidate->class_[c];
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(candidate, n)) continue;
        const qs_recipe *wanted = qs__candidate_recipe(one, n, one->choice[n]),
                        *present = qs_schedule_draft_recipe(qs_cost_mapper_draft(mapper), n);
        if (strcmp(wanted->name, present->name) != 0) QS_TRY(qs_cost_mapper_change(mapper, n, wanted, NULL));
    }
    qs_cost_mapper_keep(mapper);
    return QS_OK;
}

/* The session's, if it has one: brought from wherever it stands to the candidate's choices. */
static qs_status mapper_get(qs__search *one, int c) {
    qs_candidate *candidate = one->candidate;
    const qs__mapper_key key = qs__mapper_key_of(candidate, c);
    qs_cost_mapper *mapper = candidate->session ? qs__session_take(candidate->session, &key) : NULL;
    if (!mapper) return mapper_create(candidate, c, candidate->class_[c].choice, &one->class_[c].mapper);
    const qs_status status = mapper_move(candidate, c, mapper);
    if (status == QS_OK) {
        one->class_[c].mapper = mapper;
        return QS_OK;
    }
    qs_cost_mapper_release(mapper);
    return status == QS_MISMATCH ? mapper_create(candidate, c, candidate->class_[c].choice, &one->class_[c].mapper) : status;
}

qs_status qs__search_create(qs_candidate *candidate, qs__search **out) {
    const size_t classes = (size_t)candidate->cluster->classes;
    qs__search *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->candidate = candidate;
    one->scale = 1;
    QS_GOTO(qs_allocate(classes, sizeof *one->class_, &one->class_));
    for (int c = 0; c < (int)classes; c++) {
        QS_GOTO(mapper_get(one, c));
        one->class_[c].slow = qs__candidate_slow(candidate, c);
        one->class_[c].idle = candidate->batch[c] == 0;
        QS_GOTO(update_list(one->class_[c].mapper, false, one->class_[c].slow, &one->class_[c].one_by_one));
        QS_GOTO(update_list(one->class_[c].mapper, true, one->class_[c].slow, &one->class_[c].recorded));
    }
    QS_GOTO(pace_make(one));
    QS_GOTO(qs_host_slowdown_make(candidate->cluster, &one->slowdown));
    QS_GOTO(qs_allocate(classes, sizeof *one->alone, &one->alone));
    QS_GOTO(qs_allocate(classes, sizeof *one->work_us, &one->work_us));
    QS_GOTO(qs_allocate(classes, sizeof *one->end_us, &one->end_us));
    for (size_t c = 0; c < classes; c++)
        one->alone[c] = 1;
    *out = one;
    one = NULL;
done:
    qs__search_release(one);
    return status;
}

void qs__search_release(qs__search *search) {
    if (!search) return;
    for (int c = 0; search->class_ && c < search->candidate->cluster->classes; c++) {
        const qs__mapper_key key = qs__mapper_key_of(search->candidate, c);
        qs_cost_mapper *mapper = search->class_[c].mapper;
        if (mapper) qs_cost_mapper_keep(mapper);
        if (mapper && search->candidate->session)
            qs__session_give(search->candidate->session, &key, mapper);
        else
            qs_cost_mapper_release(mapper);
        free(search->class_[c].one_by_one.item);
        free(search->class_[c].recorded.item);
        free(search->class_[c].ready);
        free(search->class_[c].mapped_ready);
    }
    free(search->class_);
    free(search->change);
    free(search->reduce);
    qs_host_slowdown_release(&search->slowdown);
    free(search->alone);
    free(search->work_us);
    free(search->end_us);
    free(search->pace.class_);
    free(search->pace.clock);
    free(search->pace.start);
    free(search->pace.end);
    free(search->pace.reached);
    free(search->pace.finish);
    free(search);
}

/* ---- Changing ---- */

qs_status qs__search_set(qs__search *search, int class_index, int node, int recipe) {
    qs_candidate_class *one = &search->candidate->class_[class_index];
    QS_TRY(qs_grow(&search->change, &search->capacity, (size_t)search->changes + 1, sizeof *search->change));
    QS_TRY(qs_cost_mapper_change(search->class_[class_index].mapper, node, qs__candidate_recipe(one, node, recipe), NULL));
    search->change[search->changes++] = (change){class_index, node, one->choice[node]};
    one->choice[node] = recipe;
    search->class_[class_index].moved = true;
    search->changed++;
    return QS_OK;
}

int qs__search_mark(const qs__search *search) {
    return search->changes;
}

qs_status qs__search_undo(qs__search *search) {
    const change *last = &search->change[search->changes - 1];
    QS_TRY(qs_cost_mapper_undo(search->class_[last->class_index].mapper, NULL));
    search->candidate->class_[last->class_index].choice[last->node] = last->recipe;
    search->class_[last->class_index].moved = true;
    search->changes--;
    search->changed++;
    return QS_OK;
}

qs_status qs__search_back(qs__search *search, int mark) {
    while (search->changes > mark)
        QS_TRY(qs__search_undo(search));
    return QS_OK;
}

void qs__search_keep(qs__search *search) {
    for (int c = 0; c < search->candidate->cluster->classes; c++)
        qs_cost_mapper_keep(search->class_[c].mapper);
    search->changes = 0;
}

void qs__search_choices(const qs__search *search, int *choice) {
    const size_t nodes = (size_t)search->candidate->graph->nodes;
    for (int c = 0; c < search->candidate->cluster->classes; c++)
        memcpy(&choice[nodes * (size_t)c], search->candidate->class_[c].choice, nodes * sizeof *choice);
}

/* One operator after the other, again and again while that brings it nearer: a cost that one mix lacks another may not need. */
static qs_status class_walk(qs__search *one, int c, const int *choice, int *missing) {
    const int *present = one->candidate->class_[c].choice;
    for (int before = INT32_MAX;; before = *missing) {
        *missing = 0;
        for (int n = one->candidate->graph->samples.inputs; n < one->candidate->graph->nodes; n++) {
            if (present[n] == choice[n]) continue;
            const qs_status status = qs__search_set(one, c, n, choice[n]);
            if (status != QS_OK && status != QS_MISMATCH) return status;
            *missing += status != QS_OK;
        }
        if (*missing == 0 || *missing >= before) return QS_OK;
    }
}

qs_status qs__search_go(qs__search *search, const int *choice) {
    const int classes = search->candidate->cluster->classes, nodes = search->candidate->graph->nodes, mark = search->changes;
    qs_cost_mapper **made = NULL;
    QS_TRY(qs_allocate((size_t)classes, sizeof *made, &made));
    qs_status status = QS_OK;
    for (int c = 0; c < classes && status == QS_OK; c++) {
        const int *wanted = &choice[(size_t)nodes * (size_t)c];
        int missing = 0;
        status = class_walk(search, c, wanted, &missing);
        /* No way of single changes leads there: from scratch. */
        if (status == QS_OK && missing > 0) status = mapper_create(search->candidate, c, wanted, &made[c]);
    }
    if (status == QS_OK) {
        qs__search_keep(search);
        for (int c = 0; c < classes; c++) {
            memcpy(search->candidate->class_[c].choice, &choice[(size_t)nodes * (size_t)c], (size_t)nodes * sizeof *choice);
            if (!made[c]) continue;
            qs_cost_mapper_release(search->class_[c].mapper);
            search->class_[c].mapper = made[c];
            search->class_[c].moved = true;
        }
    } else {
        for (int c = 0; c < classes; c++)
            qs_cost_mapper_release(made[c]);
        const qs_status back = qs__search_back(search, mark);
        if (back != QS_OK) status = back;
    }
    free(made);
    return status;
}

/* ---- Asking ---- */

/* When each class has done its work before the update. */
static void classes_end(qs__search *one) {
    for (int c = 0; c < one->pace.classes; c++) {
        const search_class *from = &one->class_[c];
        one->work_us[c] = one->pace.class_[c].start_us + fmax(mapped_us(from) + from->rest_offset, 0);
    }
    qs_host_slowdown_ends(&one->slowdown, one->work_us, one->alone, one->end_us);
}

/* The calibration's offset belongs to the whole of a class's work: its part up to a moment is the moment's share, and so is what host
 * slowdown makes of it. others_us: when the classes beside `only` end; NULL: as host slowdown has it. */
static void classes_pace(qs__search *one, int only, const double *others_us) {
    classes_end(one);
    for (int c = 0; others_us && c < one->pace.classes; c++)
        if (c != only) one->end_us[c] = others_us[c];
    for (int c = 0; c < one->pace.classes; c++) {
        search_class *from = &one->class_[c];
        qs_quick_class *to = &one->pace.class_[c];
        if (!to->present) continue;
        const double work_us = mapped_us(from), rest_us = to->rest_us;
        to->items = update_of(from)->items;
        to->item = update_of(from)->item;
        to->rest_us = fmax(one->end_us[c] - to->start_us, 0);
        const double factor = work_us > 0 ? from->slow * to->rest_us / work_us : from->slow;
        to->changed = to->changed || from->moved || factor != from->factor || to->rest_us != rest_us;
        if (from->moved && !from->idle) qs_cost_mapper_ready(from->mapper, from->mapped_ready);
        for (int b = 0; (from->moved || factor != from->factor) && b < one->pace.buckets; b++)
            to->ready[b] = from->mapped_ready[b] * factor;
        from->moved = false;
        from->factor = factor;
    }
}

double qs__search_iteration_us(qs__search *search) {
    classes_pace(search, -1, NULL);
    return search->scale * (qs_quick_iteration(&search->pace, -1) + search->iteration_offset);
}

bool qs__search_is_late(qs__search *search, double limit_us) {
    const double rounding = 1e-9; /* sums in another order */
    classes_end(search);
    for (int c = 0; c < search->pace.classes; c++) {
        const double least_us = search->end_us[c] + update_of(&search->class_[c])->us;
        if (search->pace.class_[c].present && search->scale * (least_us + search->iteration_offset) > limit_us * (1 + rounding))
            return true;
    }
    return false;
}

void qs__search_ends(qs__search *search, double *end_us) {
    classes_pace(search, -1, NULL);
    memcpy(end_us, search->end_us, (size_t)search->pace.classes * sizeof *end_us);
}

double qs__search_beside_us(qs__search *search, int class_index, const double *end_us) {
    classes_pace(search, class_index, end_us);
    return search->scale * (qs_quick_iteration(&search->pace, -1) + search->iteration_offset);
}

double qs__search_alone_us(qs__search *search, int class_index) {
    classes_pace(search, -1, NULL);
    return search->scale * (qs_quick_iteration(&search->pace, class_index) + search->iteration_offset);
}

double qs__search_compute_us(const qs__search *search, int class_index) {
    const search_class *one = &search->class_[class_index];
    return search->scale * (search->pace.class_[class_index].start_us + one->slow * qs_cost_mapper_us(one->mapper) + one->rest_offset);
}

int64_t qs__search_live_bytes(const qs__search *search, int class_index) {
    return (int64_t)qs_schedule_draft_live_bytes(qs_cost_mapper_draft(search->class_[class_index].mapper));
}

int64_t qs__search_arena_bytes(const qs__search *search, int class_index) {
    return qs__search_live_bytes(search, class_index) + search->class_[class_index].packing_bytes;
}

bool qs__search_fits(const qs__search *search, int class_index) {
    const int64_t limit = search->candidate->cluster->class_[class_index].memory_limit;
    return limit <= 0 || qs__search_arena_bytes(search, class_index) <= limit;
}

double qs__search_omega(const qs__search *search) {
    double sum = 0;
    for (int c = 0; c < search->candidate->cluster->classes; c++)
        sum += search->candidate->cluster->class_[c].count * qs__candidate_sum_omega(search->candidate, c);
    return sum;
}

int64_t qs__search_changes(const qs__search *search) {
    return search->changed;
}

/* ---- The full prediction ---- */

/* Work of a class before its update, with what all-reduces did not take. */
static double full_work_us(const qs__search *one, const qs_prediction_class *full, int c) {
    const qs_phase_times *phases = &full[c].phases;
    return one->pace.class_[c].start_us + (phases->forward_us + phases->backward_us + phases->cast_us);
}

/* What a full prediction of the present choices found beyond the quick answers. It has host slowdown in it, which depends on all classes'
 * times without it: these are found in turn. Of several lengths the quick answers are those of the longest, held against what was predicted
 * of it, and scaled to the mean: so a change counts as much as it is of a step there. */
static void calibrate(qs__search *one, const qs_prediction *full) {
    enum { TURNS = 8 };
    const qs_prediction_length *longest = full->lengths > 0 ? &full->length[full->lengths - 1] : NULL;
    const qs_prediction_class *at = longest ? longest->class_ : full->class_;
    const double iteration_us = longest ? longest->iteration_us : full->iteration_us;
    for (int c = 0; c < full->classes; c++) {
        one->alone[c] = at[c].alone;
        one->work_us[c] = full_work_us(one, at, c);
    }
    for (int i = 0; i < TURNS; i++) {
        qs_host_slowdown_ends(&one->slowdown, one->work_us, one->alone, one->end_us);
        for (int c = 0; c < full->classes; c++)
            if (one->end_us[c] > 0) one->work_us[c] *= full_work_us(one, at, c) / one->end_us[c];
    }
    for (int c = 0; c < full->classes; c++) {
        search_class *class_ = &one->class_[c];
        if (one->pace.class_[c].present) class_->rest_offset = one->work_us[c] - one->pace.class_[c].start_us - mapped_us(class_);
        class_->packing_bytes = (int64_t)full->class_[c].arena_bytes - qs__search_live_bytes(one, c);
    }
    one->iteration_offset = 0;
    one->scale = 1;
    one->iteration_offset = iteration_us - qs__search_iteration_us(one);
    one->scale = full->iteration_us / iteration_us;
}

qs_status qs__search_predict(qs__search *search, qs__full_answer *out) {
    qs_prediction prediction;
    *out = (qs__full_answer){0};
    qs_predictor *predictor = search->candidate->predictor;
    for (int c = 0; c < search->pace.classes; c++)
        qs_predictor_draft(predictor, c, qs_cost_mapper_draft(search->class_[c].mapper));
    const qs_status status = qs__candidate_predict(search->candidate, &prediction);
    for (int c = 0; c < search->pace.classes; c++)
        qs_predictor_draft(predictor, c, NULL);
    if (status == QS_MISMATCH) return QS_OK;
    if (status != QS_OK) return status;
    *out = (qs__full_answer){true, prediction.fits, prediction.iteration_us};
    calibrate(search, &prediction);
    qs_prediction_release(&prediction);
    return QS_OK;
}
