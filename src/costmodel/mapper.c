// SPDX-License-Identifier: Apache-2.0
/* The cost mapper (Algorithm 1, docs/method.md §4.5): the microseconds of a schedule that changes operator by operator. Costs of cases are
 * asked once; sums of segments stand in a tree that is summed in a fixed order, so that they depend on the present steps alone and never
 * drift. All is there in both ways in which steps are started; what is told is of the one that they would be started in now. */
#include <stdlib.h>
#include <string.h>

#include "costmodel_internal.h"

typedef struct price {
    double us, recorded_us; /* by itself, and in a recording */
} price;

struct qs_cost_mapper {
    const qs_class_profile *profile;
    qs_cost_options options;
    qs_schedule_draft *draft;
    size_t capacity;
    price *case_price; /* (cases × 2) as kernel and as conversion; us 0: not asked yet */
    int leaves;
    price *sum;     /* (leaves × 2) below a place of the tree */
    price *changed; /* (segments) new sums of a change, before it is known that all have costs */
    int *ready;     /* (buckets) the segment in which the all-reduce may start */
};

static void price_add(price *sum, price more) {
    sum->us += more.us;
    sum->recorded_us += more.recorded_us;
}

static double us_of(price one, bool recorded) {
    return recorded ? one.recorded_us : one.us;
}

static qs_status case_ask(qs_cost_mapper *one, const qs_draft_step *from, price *out) {
    qs_step step = {.kind = from->kind,
                    .phase = from->phase,
                    .node = from->node,
                    .stream = from->stream,
                    .bucket = from->bucket,
                    .case_ = from->case_->case_,
                    .case_text = from->case_->text,
                    .conversion = from->conversion};
    memcpy(step.kernel, from->case_->row.kernel, sizeof step.kernel);
    QS_TRY(qs_cost_step(one->profile, &step, &out->us));
    out->recorded_us = qs__step_recorded(one->profile, &step, out->us);
    return QS_OK;
}

static qs_status step_price(qs_cost_mapper *one, const qs_draft_step *step, price *out) {
    *out = (price){0};
    if (step->kind != QS_STEP_KERNEL || (one->options.no_casts && step->conversion)) return QS_OK;
    const size_t at = (size_t)step->case_->index * 2 + step->conversion;
    QS_TRY(qs_grow(&one->case_price, &one->capacity, at + 1, sizeof *one->case_price));
    if (one->case_price[at].us == 0) QS_TRY(case_ask(one, step, &one->case_price[at]));
    *out = one->case_price[at];
    return QS_OK;
}

static qs_status segment_price(qs_cost_mapper *one, int segment, price *out) {
    const qs_draft_step *step = NULL;
    const int steps = qs_schedule_draft_steps(one->draft, segment, &step);
    price sum = {0};
    for (int s = 0; s < steps; s++) {
        price more;
        QS_TRY(step_price(one, &step[s], &more));
        price_add(&sum, more);
    }
    *out = sum;
    return QS_OK;
}

/* ---- The tree of sums ---- */

static void sum_make(qs_cost_mapper *one, int place) {
    one->sum[place] = one->sum[2 * place];
    price_add(&one->sum[place], one->sum[2 * place + 1]);
}

static void sum_set(qs_cost_mapper *one, int segment, price sum) {
    int place = segment + one->leaves;
    one->sum[place] = sum;
    while (place > 1)
        sum_make(one, place /= 2);
}

/* Of segments first .. end - 1. */
static double sum_between(const qs_cost_mapper *one, int first, int end) {
    const bool recorded = qs_cost_mapper_recorded(one);
    double left = 0, right = 0;
    int from = first + one->leaves, to = end + one->leaves;
    for (; from < to; from /= 2, to /= 2) {
        if (from % 2) left += us_of(one->sum[from++], recorded);
        if (to % 2) right = us_of(one->sum[--to], recorded) + right;
    }
    return left + right;
}

/* ---- Making ---- */

static void ready_find(qs_cost_mapper *one) {
    for (int segment = 0; segment < qs_schedule_draft_segments(one->draft); segment++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(one->draft, segment, &step);
        for (int s = 0; s < steps; s++)
            if (step[s].kind == QS_STEP_REDUCE_START) one->ready[step[s].bucket] = segment;
    }
}

static qs_status mapper_fill(qs_cost_mapper *one) {
    const int segments = qs_schedule_draft_segments(one->draft);
    for (one->leaves = 1; one->leaves < segments;)
        one->leaves *= 2;
    QS_TRY(qs_allocate(2 * (size_t)one->leaves, sizeof *one->sum, &one->sum));
    QS_TRY(qs_allocate((size_t)segments, sizeof *one->changed, &one->changed));
    QS_TRY(qs_allocate((size_t)qs_schedule_draft_buckets(one->draft), sizeof *one->ready, &one->ready));
    for (int segment = 0; segment < segments; segment++)
        QS_TRY(segment_price(one, segment, &one->sum[segment + one->leaves]));
    for (int place = one->leaves - 1; place > 0; place--)
        sum_make(one, place);
    ready_find(one);
    return QS_OK;
}

qs_status qs_cost_mapper_create(const qs_lowering *lowering, const qs_class_profile *profile, const qs_cost_options *options,
                                qs_cost_mapper **out) {
    qs_cost_mapper *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->profile = profile;
    if (options) one->options = *options;
    QS_GOTO(qs_schedule_draft_create(lowering, &one->draft));
    QS_GOTO(mapper_fill(one));
    *out = one;
    one = NULL;
done:
    qs_cost_mapper_release(one);
    return status;
}

void qs_cost_mapper_release(qs_cost_mapper *mapper) {
    if (!mapper) return;
    qs_schedule_draft_release(mapper->draft);
    free(mapper->case_price);
    free(mapper->sum);
    free(mapper->changed);
    free(mapper->ready);
    free(mapper);
}

/* ---- Changing ---- */

static qs_status change_price(qs_cost_mapper *one, const qs_draft_change *change) {
    for (int i = 0; i < change->segments; i++)
        QS_TRY(segment_price(one, change->segment[i].segment, &one->changed[i]));
    for (int i = 0; i < change->segments; i++)
        sum_set(one, change->segment[i].segment, one->changed[i]);
    return QS_OK;
}

qs_status qs_cost_mapper_change(qs_cost_mapper *mapper, int node, const qs_recipe *recipe, qs_draft_change *change) {
    qs_draft_change own;
    QS_TRY(qs_schedule_change(mapper->draft, node, recipe, &own));
    const qs_status status = change_price(mapper, &own);
    if (status != QS_OK) {
        qs_schedule_undo(mapper->draft, NULL);
        return status;
    }
    if (change) *change = own;
    return QS_OK;
}

qs_status qs_cost_mapper_undo(qs_cost_mapper *mapper, qs_draft_change *change) {
    qs_draft_change own;
    QS_TRY(qs_schedule_undo(mapper->draft, &own));
    if (change) *change = own;
    return change_price(mapper, &own); /* every cost was asked before */
}

void qs_cost_mapper_keep(qs_cost_mapper *mapper) {
    qs_schedule_keep(mapper->draft);
}

/* ---- Asking ---- */

const qs_schedule_draft *qs_cost_mapper_draft(const qs_cost_mapper *mapper) {
    return mapper->draft;
}

bool qs_cost_mapper_recorded(const qs_cost_mapper *mapper) {
    return qs__is_recorded(mapper->profile, mapper->options.start, mapper->sum[1].us, mapper->sum[1].recorded_us);
}

double qs_cost_mapper_us(const qs_cost_mapper *mapper) {
    return us_of(mapper->sum[1], qs_cost_mapper_recorded(mapper));
}

double qs_cost_mapper_phase_us(const qs_cost_mapper *mapper, qs_phase phase) {
    const int segments = qs_schedule_draft_segments(mapper->draft), nodes = segments / 2;
    if (phase == QS_UPDATE) return sum_between(mapper, 2 * nodes, segments);
    return phase == QS_FORWARD ? sum_between(mapper, 0, nodes) : sum_between(mapper, nodes, 2 * nodes);
}

static double known_us(const qs_cost_mapper *one, const qs_draft_step *step, bool recorded) {
    if (step->kind != QS_STEP_KERNEL || (one->options.no_casts && step->conversion)) return 0;
    return us_of(one->case_price[step->case_->index * 2 + step->conversion], recorded);
}

void qs_cost_mapper_ready(const qs_cost_mapper *mapper, double *us) {
    const bool recorded = qs_cost_mapper_recorded(mapper);
    for (int b = 0; b < qs_schedule_draft_buckets(mapper->draft); b++) {
        const qs_draft_step *step = NULL;
        const int segment = mapper->ready[b], steps = qs_schedule_draft_steps(mapper->draft, segment, &step);
        us[b] = sum_between(mapper, 0, segment);
        for (int s = 0; s < steps && !(step[s].kind == QS_STEP_REDUCE_START && step[s].bucket == b); s++)
            us[b] += known_us(mapper, &step[s], recorded);
    }
}

int qs_cost_mapper_steps(const qs_cost_mapper *mapper, bool recorded, double *us) {
    int count = 0;
    for (int segment = 0; segment < qs_schedule_draft_segments(mapper->draft); segment++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(mapper->draft, segment, &step);
        for (int s = 0; us && s < steps; s++)
            us[count + s] = known_us(mapper, &step[s], recorded);
        count += steps;
    }
    return count;
}
