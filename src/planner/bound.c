// SPDX-License-Identifier: Apache-2.0
/* Maximising the dual: subgradient steps of Polyak's length towards the best known plan, in prices of relative use (of the time limit, of
 * the memory limit), so that microseconds and bytes weigh alike. Every step's value is a valid bound; the best one counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "best_first.h"

enum { MOST_STEPS = 300, PATIENCE = 6, MOST_WORK = 60000 /* relaxations times nodes */, STEPS_OF_PART = 12, SMALL = 40 /* nodes */ };
static const double shortest = 1e-3; /* length factor at which the search ends */
static const double rounding = 1e-9; /* sums in other orders than the prediction's */
static const double close_enough = 1e-7;

static qs_status price_make(const qs__relaxation *one, qs__relax_price *out) {
    QS_TRY(qs_allocate((size_t)one->buckets, sizeof *out->bucket, &out->bucket));
    return qs_allocate((size_t)one->graph->nodes, sizeof *out->moment, &out->moment);
}

qs_status qs__bound_create(const qs_draft_plan *draft, int class_index, double limit_us, qs__bound **out) {
    qs__bound *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->limit_us = limit_us * (1 + rounding);
    one->limit_bytes = (double)draft->cluster->class_[class_index].memory_limit;
    QS_GOTO(qs__relax_create(draft, class_index, &one->relaxation));
    QS_GOTO(qs__relax_minimum_create(&one->relaxation, &one->minimum));
    QS_GOTO(price_make(&one->relaxation, &one->price));
    QS_GOTO(price_make(&one->relaxation, &one->trial));
    QS_GOTO(qs_allocate((size_t)one->relaxation.buckets, sizeof *one->use.bucket_us, &one->use.bucket_us));
    QS_GOTO(qs_allocate((size_t)one->relaxation.graph->nodes, sizeof *one->use.bytes, &one->use.bytes));
    QS_GOTO(qs__bound_at_prices(one, &one->value));
    *out = one;
    one = NULL;
done:
    qs__bound_release(one);
    return status;
}

void qs__bound_release(qs__bound *one) {
    if (!one) return;
    qs__relax_minimum_release(one->minimum);
    qs__relax_release(&one->relaxation);
    free(one->price.bucket);
    free(one->price.moment);
    free(one->trial.bucket);
    free(one->trial.moment);
    free(one->use.bucket_us);
    free(one->use.bytes);
    free(one);
}

/* ---- Value ------------------------------------------------------------------------------------------------------------------------ */

static double limits_price(const qs__bound *one, const qs__relax_price *price) {
    double sum = price->total * one->limit_us;
    for (int b = 0; b < one->relaxation.buckets; b++)
        sum += price->bucket[b] * one->limit_us;
    for (int n = 0; n < one->relaxation.graph->nodes; n++)
        sum += price->moment[n] * one->limit_bytes;
    return sum;
}

static qs_status value_at(qs__bound *one, const qs__relax_price *price, qs__relax_use *use, double *value) {
    QS_TRY(qs__relax_minimize(one->minimum, price, value, use, NULL));
    const double limits = limits_price(one, price);
    *value -= limits + rounding * (fabs(*value) + limits);
    return QS_OK;
}

qs_status qs__bound_at_prices(qs__bound *one, double *value) {
    return value_at(one, &one->price, NULL, value);
}

/* ---- Ascent ----------------------------------------------------------------------------------------------------------------------- */

static int greatest(int count, const double *use) {
    int most = 0;
    for (int i = 1; i < count; i++)
        if (use[i] > use[most]) most = i;
    return most;
}

/* A price moves when it is positive, or when its constraint is the most violated of its family: others need not be looked at. */
static bool moves(double price, bool most, double excess) {
    return price > 0 || (most && excess > 0);
}

/* Squared length of the subgradient over the prices that move. */
static double length2(const qs__bound *one, const qs__relax_price *price, int bucket, int moment) {
    const double total = one->use.total_us / one->limit_us - 1;
    double sum = moves(price->total, true, total) ? total * total : 0;
    for (int b = 0; b < one->relaxation.buckets; b++) {
        const double excess = one->use.bucket_us[b] / one->limit_us - 1;
        if (moves(price->bucket[b], b == bucket, excess)) sum += excess * excess;
    }
    for (int n = 0; one->limit_bytes > 0 && n < one->relaxation.graph->nodes; n++) {
        const double excess = one->use.bytes[n] / one->limit_bytes - 1;
        if (moves(price->moment[n], n == moment, excess)) sum += excess * excess;
    }
    return sum;
}

static void price_move(double *price, bool most, double use, double limit, double step) {
    const double excess = use / limit - 1;
    if (moves(*price, most, excess)) *price = fmax(*price + step * excess / limit, 0);
}

static void prices_move(qs__bound *one, qs__relax_price *price, int bucket, int moment, double step) {
    price_move(&price->total, true, one->use.total_us, one->limit_us, step);
    for (int b = 0; b < one->relaxation.buckets; b++)
        price_move(&price->bucket[b], b == bucket, one->use.bucket_us[b], one->limit_us, step);
    for (int n = 0; one->limit_bytes > 0 && n < one->relaxation.graph->nodes; n++)
        price_move(&price->moment[n], n == moment, one->use.bytes[n], one->limit_bytes, step);
}

static void price_copy(const qs__bound *one, qs__relax_price *to, const qs__relax_price *from) {
    to->total = from->total;
    memcpy(to->bucket, from->bucket, (size_t)one->relaxation.buckets * sizeof *to->bucket);
    memcpy(to->moment, from->moment, (size_t)one->relaxation.graph->nodes * sizeof *to->moment);
}

typedef struct ascent {
    double reached, best, value;
    int steps, waited;
    double factor;
} ascent;

static qs_status trial_value(qs__bound *one, ascent *at) {
    at->steps--;
    return value_at(one, &one->trial, &one->use, &at->value);
}

/* A step of Polyak's length; after some without success back to `start`, with half the length. *ends: nothing is left to gain. */
static qs_status ascent_step(qs__bound *one, ascent *at, qs__relax_price *best, bool *ends) {
    const int bucket = greatest(one->relaxation.buckets, one->use.bucket_us);
    const int moment = greatest(one->relaxation.graph->nodes, one->use.bytes);
    const double length = length2(one, &one->trial, bucket, moment);
    *ends = !(length > 0) || isinf(at->best) || at->reached - at->best <= close_enough * fabs(at->reached) || at->factor < shortest;
    if (*ends) return QS_OK;
    prices_move(one, &one->trial, bucket, moment, at->factor * (at->reached - at->value) / length);
    QS_TRY(trial_value(one, at));
    if (at->value > at->best) {
        at->best = at->value;
        at->waited = 0;
        if (best) price_copy(one, best, &one->trial);
    } else if (++at->waited == PATIENCE) {
        at->factor /= 2;
        at->waited = 0;
        price_copy(one, &one->trial, &one->price);
        QS_TRY(trial_value(one, at));
    }
    return QS_OK;
}

static qs_status ascend(qs__bound *one, ascent *at, qs__relax_price *best) {
    bool ends = false;
    price_copy(one, &one->trial, &one->price);
    QS_TRY(trial_value(one, at));
    at->best = fmax(at->best, at->value);
    while (at->steps > 0 && !ends)
        QS_TRY(ascent_step(one, at, best, &ends));
    return QS_OK;
}

/* A step costs as much as the model has nodes: in larger ones than this there are fewer, so that planning again stays quick. */
static int steps_of(const qs__bound *one, int most) {
    const int nodes = one->relaxation.graph->nodes;
    return nodes > SMALL ? most * SMALL / nodes : most;
}

qs_status qs__bound_raise(qs__bound *one, double reached) {
    ascent at = {.reached = reached, .best = one->value, .steps = steps_of(one, MOST_STEPS), .factor = 1};
    QS_TRY(ascend(one, &at, &one->price));
    one->value = fmin(at.best, reached);
    return QS_OK;
}

qs_status qs__bound_try(qs__bound *one, double reached, int steps, double *value, int *minima) {
    ascent at = {.reached = reached, .best = -INFINITY, .steps = steps, .factor = 1};
    const qs_status status = ascend(one, &at, NULL);
    *minima += steps - at.steps;
    *value = at.best;
    return status;
}

/* As few parts as time allows in larger models raise the bound by some thousandths at best: there it is left where the prices took it. */
static qs_status branched(qs__bound *one, double reached, double *value) {
    const int weight = 1;
    qs__best_first search = {.classes = 1,
                             .bound = &one,
                             .weight = &weight,
                             .reached = reached,
                             .most_minima = MOST_WORK / one->relaxation.graph->nodes,
                             .steps = STEPS_OF_PART};
    QS_TRY(qs__best_first_run(&search));
    *value = fmax(one->value, fmin(search.least, reached));
    *value -= rounding * fabs(*value);
    return QS_OK;
}

qs_status qs__bound_of_class(const qs_draft_plan *draft, int class_index, double limit_us, double *value) {
    qs__bound *one = NULL;
    QS_TRY(qs__bound_create(draft, class_index, limit_us, &one));
    const double reached = qs__draft_sum_omega(draft, class_index);
    qs_status status = qs__bound_raise(one, reached);
    *value = one->value;
    if (status == QS_OK && one->relaxation.graph->nodes <= SMALL) status = branched(one, reached, value);
    qs__bound_release(one);
    return status;
}

qs_status qs__bound_of_plan(const qs_draft_plan *draft, int class_index, double *value) {
    *value = 0;
    if (!(draft->limit_us > 0) || draft->costs.no_casts || !qs__class_is_lowered(draft, class_index)) return QS_OK;
    for (int c = 0; c < draft->cluster->classes; c++)
        if (draft->batch[c] != draft->job->batch) return QS_OK;
    if (draft->proven) {
        *value = qs__draft_sum_omega(draft, class_index);
        return QS_OK;
    }
    const qs_status status = qs__bound_of_class(draft, class_index, draft->limit_us, value);
    if (status != QS_UNSUPPORTED) return status;
    *value = 0;
    return QS_OK;
}
