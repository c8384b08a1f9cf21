// SPDX-License-Identifier: Apache-2.0
/* Maximising the dual: subgradient steps of Polyak's length towards the best known plan, in prices of relative use (of the time limit, of
 * the memory limit), so that microseconds and bytes weigh alike. Every step's value is a valid bound; the best one counts. Over it, best
 * first, branch and bound: the open part of the tree with the least bound is split by the recipes of its next operator. Operators whose
 * recipes differ most in Ω come first. A leaf counts with its own ΣΩ; the first that is judged feasible is the optimum, since all that is
 * open is no better. */
#include "bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../session.h"

enum {
    MOST_STEPS = 300,
    PATIENCE = 6,
    MOST_WORK = 60000 /* relaxations times nodes */,
    MOST_STATES = 1000000,
    STEPS_STATES = 3000000, /* the same of all steps of the ascent */
    STEPS_OF_PART = 12,
    SMALL = 40 /* nodes */
};
/* Of prices, in search of a minimum within the limits. */
static const double least_rise = 0.02, most_rise = 1;
static const double shortest = 1e-3; /* length factor at which the search ends */
static const double rounding = 1e-9; /* sums in other orders than the prediction's */
static const double close_enough = 1e-7;

/* The bound at these prices, for the recipes that relaxation.allowed leaves: INFINITY when none are. */
static qs_status value_at(qs__bound *one, const qs__relax_price *price, qs__relax_use *use, double *value) {
    QS_TRY(qs__relax_minimize(one->minimum, price, value, use, NULL));
    double limits = price->total * one->room.total_us;
    for (int b = 0; b < one->relaxation.buckets; b++)
        limits += price->bucket[b] * one->room.limit_us;
    for (int n = 0; n < one->relaxation.graph->nodes; n++)
        limits += price->moment[n] * one->limit_bytes;
    *value -= limits + rounding * (fabs(*value) + limits);
    return QS_OK;
}

static qs_status price_make(const qs__relaxation *one, qs__relax_price *out) {
    QS_TRY(qs_allocate((size_t)one->buckets, sizeof *out->bucket, &out->bucket));
    return qs_allocate((size_t)one->graph->nodes, sizeof *out->moment, &out->moment);
}

qs_status qs__bound_create(const qs_candidate *candidate, int class_index, double limit_us, qs__bound **out) {
    const qs__mapper_key key = qs__mapper_key_of(candidate, class_index);
    qs__bound *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    /* What is live at a moment is known of plans that keep all they save. */
    if (!candidate->class_[class_index].recomputed) one->limit_bytes = (double)candidate->cluster->class_[class_index].memory_limit;
    if (candidate->session) qs__session_take_tables(candidate->session, &key, &candidate->class_[class_index], &one->relaxation);
    QS_GOTO(qs__relax_fill(candidate, class_index, &one->relaxation));
    QS_GOTO(qs__relax_rooms(&one->relaxation, limit_us * (1 + rounding), &one->room));
    QS_GOTO(qs__relax_minimum_create(&one->relaxation, &one->minimum));
    QS_GOTO(price_make(&one->relaxation, &one->price));
    QS_GOTO(price_make(&one->relaxation, &one->trial));
    QS_GOTO(qs_allocate((size_t)one->relaxation.buckets, sizeof *one->use.bucket_us, &one->use.bucket_us));
    QS_GOTO(qs_allocate((size_t)one->relaxation.graph->nodes, sizeof *one->use.bytes, &one->use.bytes));
    QS_GOTO(value_at(one, &one->price, NULL, &one->value));
    *out = one;
    one = NULL;
done:
    qs__bound_release(one);
    return status;
}

void qs__bound_release(qs__bound *one) {
    if (!one) return;
    const qs_candidate *candidate = one->relaxation.candidate;
    if (one->minimum && candidate->session) {
        const qs__mapper_key key = qs__mapper_key_of(candidate, one->relaxation.class_index);
        qs__session_give_tables(candidate->session, &key, &one->relaxation);
    }
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

/* Squared length of the subgradient at one->trial over the prices that move; bucket, moment: the most violated ones. */
static double length2(const qs__bound *one, int bucket, int moment) {
    const qs__relax_price *price = &one->trial;
    const double total = one->use.total_us / one->room.total_us - 1;
    double sum = moves(price->total, true, total) ? total * total : 0;
    for (int b = 0; b < one->relaxation.buckets; b++) {
        const double excess = one->use.bucket_us[b] / one->room.limit_us - 1;
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

static void price_copy(const qs__bound *one, qs__relax_price *to, const qs__relax_price *from) {
    to->total = from->total;
    memcpy(to->bucket, from->bucket, (size_t)one->relaxation.buckets * sizeof *to->bucket);
    memcpy(to->moment, from->moment, (size_t)one->relaxation.graph->nodes * sizeof *to->moment);
}

/* At most *steps steps of Polyak's length from the present prices, for the recipes that relaxation.allowed leaves; after some without
 * success back to the start, with half the length. *best, and its prices unless NULL, receive what is better; *steps what is left. */
static qs_status ascend(qs__bound *one, double reached, int *steps, double *best, qs__relax_price *best_price) {
    double value, factor = 1;
    int waited = 0;
    price_copy(one, &one->trial, &one->price);
    QS_TRY(value_at(one, &one->trial, &one->use, &value));
    *best = fmax(*best, value);
    for (--*steps; *steps > 0; --*steps) {
        const int bucket = greatest(one->relaxation.buckets, one->use.bucket_us);
        const int moment = greatest(one->relaxation.graph->nodes, one->use.bytes);
        const double length = length2(one, bucket, moment);
        if (!(length > 0) || isinf(*best) || reached - *best <= close_enough * fabs(reached) || factor < shortest) return QS_OK;
        const double step = factor * (reached - value) / length;
        price_move(&one->trial.total, true, one->use.total_us, one->room.total_us, step);
        for (int b = 0; b < one->relaxation.buckets; b++)
            price_move(&one->trial.bucket[b], b == bucket, one->use.bucket_us[b], one->room.limit_us, step);
        for (int n = 0; one->limit_bytes > 0 && n < one->relaxation.graph->nodes; n++)
            price_move(&one->trial.moment[n], n == moment, one->use.bytes[n], one->limit_bytes, step);
        QS_TRY(value_at(one, &one->trial, &one->use, &value));
        if (value > *best) {
            *best = value;
            waited = 0;
            if (best_price) price_copy(one, best_price, &one->trial);
        } else if (++waited == PATIENCE) {
            factor /= 2;
            waited = 0;
            price_copy(one, &one->trial, &one->price);
            QS_TRY(value_at(one, &one->trial, &one->use, &value));
            --*steps;
        }
    }
    return QS_OK;
}

qs_status qs__bound_raise(qs__bound *one, double reached) {
    /* In larger models there are fewer steps, so that planning again stays quick. */
    const int affordable = STEPS_STATES / qs__relax_minimum_states(one->minimum);
    int steps = affordable < MOST_STEPS ? affordable : MOST_STEPS;
    QS_TRY(ascend(one, reached, &steps, &one->value, &one->price));
    one->value = fmin(one->value, reached);
    return QS_OK;
}

static bool use_is_within(const qs__bound *one) {
    const qs__relax_use *use = &one->use;
    return use->total_us <= one->room.total_us && use->bucket_us[greatest(one->relaxation.buckets, use->bucket_us)] <= one->room.limit_us &&
           (!(one->limit_bytes > 0) || use->bytes[greatest(one->relaxation.graph->nodes, use->bytes)] <= one->limit_bytes);
}

qs_status qs__bound_recipes(qs__bound *one, int *recipe) {
    const size_t nodes = (size_t)one->relaxation.graph->nodes;
    int *raised = NULL;
    double least;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(nodes, sizeof *raised, &raised));
    QS_GOTO(qs__relax_minimize(one->minimum, &one->price, &least, &one->use, recipe));
    bool within = use_is_within(one);
    for (double more = least_rise; !within && more < most_rise; more *= 2) {
        one->trial.total = (1 + more) * one->price.total;
        for (int b = 0; b < one->relaxation.buckets; b++)
            one->trial.bucket[b] = (1 + more) * one->price.bucket[b];
        for (size_t n = 0; n < nodes; n++)
            one->trial.moment[n] = (1 + more) * one->price.moment[n];
        QS_GOTO(qs__relax_minimize(one->minimum, &one->trial, &least, &one->use, raised));
        within = use_is_within(one);
        if (within) memcpy(recipe, raised, nodes * sizeof *recipe);
    }
done:
    free(raised);
    return status;
}

int qs__bound_minima(const qs__bound *one) {
    const int nodes = one->relaxation.graph->nodes;
    return nodes <= SMALL ? MOST_WORK / nodes : MOST_STATES / qs__relax_minimum_states(one->minimum);
}

/* ---- Best first -------------------------------------------------------------------------------------------------------------------- */

/* An adjustable operator of a class. */
typedef struct variable {
    int class_index, node;
    double spread;    /* of its Ω over recipes, weighted */
    uint32_t allowed; /* before the search */
} variable;

/* A part of the tree: the first `depth` variables have recipes. */
typedef struct part {
    double value;
    int depth, serial; /* equal values: the deeper one, then the older one */
    uint8_t recipe[];
} part;

typedef struct tree {
    qs__best_first *of;
    int variables;
    variable *variable;
    int parts, serial;
    part **part; /* a heap */
    size_t capacity;
} tree;

static bool before(const part *a, const part *b) {
    if (a->value != b->value) return a->value < b->value;
    return a->depth != b->depth ? a->depth > b->depth : a->serial < b->serial;
}

static qs_status part_push(tree *one, part *new) {
    QS_TRY(qs_grow(&one->part, &one->capacity, (size_t)one->parts + 1, sizeof(part *)));
    int i = one->parts++;
    for (; i > 0 && before(new, one->part[(i - 1) / 2]); i = (i - 1) / 2)
        one->part[i] = one->part[(i - 1) / 2];
    one->part[i] = new;
    return QS_OK;
}

static part *part_pop(tree *one) {
    part *top = one->part[0], *last = one->part[--one->parts];
    int i = 0;
    for (int child = 1; child < one->parts; child = 2 * i + 1) {
        if (child + 1 < one->parts && before(one->part[child + 1], one->part[child])) child++;
        if (!before(one->part[child], last)) break;
        one->part[i] = one->part[child];
        i = child;
    }
    if (one->parts > 0) one->part[i] = last;
    return top;
}

static int variable_compare(const void *left, const void *right) {
    const variable *a = left, *b = right;
    if (a->spread != b->spread) return a->spread > b->spread ? -1 : 1;
    if (a->class_index != b->class_index) return a->class_index - b->class_index;
    return a->node - b->node;
}

static qs_status variables_find(tree *one) {
    const int nodes = one->of->bound[0]->relaxation.graph->nodes;
    QS_TRY(qs_allocate((size_t)one->of->classes * (size_t)nodes, sizeof *one->variable, &one->variable));
    for (int c = 0; c < one->of->classes; c++) {
        const qs__relaxation *relaxation = &one->of->bound[c]->relaxation;
        const int recipes = relaxation->class_->recipes;
        for (int n = 1; n < nodes; n++) {
            double least = INFINITY, most = 0;
            if (!qs__is_adjustable(relaxation->candidate, n)) continue;
            for (int r = 0; r < recipes; r++) {
                if (!(relaxation->allowed[n] >> r & 1)) continue;
                least = fmin(least, relaxation->class_->omega[n * recipes + r]);
                most = fmax(most, relaxation->class_->omega[n * recipes + r]);
            }
            one->variable[one->variables++] = (variable){c, n, one->of->weight[c] * (most - least), relaxation->allowed[n]};
        }
    }
    qsort(one->variable, (size_t)one->variables, sizeof *one->variable, variable_compare);
    return QS_OK;
}

/* Leaves a part its recipes, and what the bounds allowed at first to the operators that it does not decide. */
static void part_apply(tree *one, const part *from) {
    for (int v = 0; v < one->variables; v++) {
        const variable *at = &one->variable[v];
        one->of->bound[at->class_index]->relaxation.allowed[at->node] = v < from->depth ? 1u << from->recipe[v] : at->allowed;
    }
}

/* The weighted sum of the classes' bounds: at their prices, then class by class at better ones, up to what the others leave to it. */
static qs_status part_value(tree *one, part *of) {
    qs__best_first *search = one->of;
    double sum = 0;
    part_apply(one, of);
    for (int c = 0; c < search->classes; c++) {
        double value;
        QS_TRY(value_at(search->bound[c], &search->bound[c]->price, NULL, &value));
        search->minima++;
        sum += search->weight[c] * value;
    }
    of->value = fmax(of->value, sum);
    for (int c = 0; c < search->classes && of->value < search->reached; c++) {
        double present, raised = -INFINITY;
        int left = search->steps;
        QS_TRY(value_at(search->bound[c], &search->bound[c]->price, NULL, &present));
        QS_TRY(ascend(search->bound[c], present + (search->reached - sum) / search->weight[c], &left, &raised, NULL));
        search->minima += 1 + search->steps - left;
        sum += search->weight[c] * (raised - present);
        of->value = fmax(of->value, sum);
    }
    return QS_OK;
}

/* Adds the part behind `parent` (NULL: the whole tree) in which the next operator has a recipe, unless it cannot hold a better plan. */
static qs_status part_add(tree *one, const part *parent, int recipe) {
    part *child = NULL;
    QS_TRY(qs_allocate(1, sizeof *child + (size_t)one->variables, &child));
    child->value = parent ? parent->value : -INFINITY;
    if (parent) {
        memcpy(child->recipe, parent->recipe, (size_t)parent->depth);
        child->recipe[parent->depth] = (uint8_t)recipe;
        child->depth = parent->depth + 1;
        child->serial = one->serial++;
    }
    qs_status status = part_value(one, child);
    if (status == QS_OK && parent && child->depth == one->variables) {
        double sum = 0;
        for (int v = 0; v < one->variables; v++) {
            const variable *at = &one->variable[v];
            const qs_candidate_class *class_ = one->of->bound[at->class_index]->relaxation.class_;
            sum += one->of->weight[at->class_index] * class_->omega[at->node * class_->recipes + child->recipe[v]];
        }
        child->value = fmax(child->value, sum);
    }
    const bool promises = status == QS_OK && (!parent || child->value < one->of->reached);
    if (promises) status = part_push(one, child);
    if (!promises || status != QS_OK) free(child);
    return status;
}

/* The part of the least value: a leaf is judged, others are split; *ends when it is the answer, or no more may be asked. */
static qs_status part_visit(tree *one, const part *at, bool *ends) {
    qs__best_first *of = one->of;
    of->least = at->value;
    if (at->depth < one->variables) {
        *ends = of->minima >= of->most_minima;
        for (int r = 0; r < QS_MAX_RECIPES && !*ends; r++)
            if (one->variable[at->depth].allowed >> r & 1) QS_TRY(part_add(one, at, r));
        return QS_OK;
    }
    *ends = true;
    if (!of->judge || of->judged >= of->most_judged) return QS_OK;
    for (int v = 0; v < one->variables; v++)
        of->recipe[one->variable[v].class_index][one->variable[v].node] = at->recipe[v];
    of->judged++;
    QS_TRY(of->judge(of->context, of->recipe, ends));
    of->proven = *ends;
    return QS_OK;
}

qs_status qs__best_first_run(qs__best_first *search) {
    tree one = {.of = search};
    qs_status status = QS_OK;
    bool ends = false;
    search->least = -INFINITY;
    search->proven = false;
    search->minima = search->judged = 0;
    QS_GOTO(variables_find(&one));
    QS_GOTO(part_add(&one, NULL, 0));
    while (status == QS_OK && !ends && one.parts > 0 && one.part[0]->value < search->reached) {
        part *at = part_pop(&one);
        status = part_visit(&one, at, &ends);
        free(at);
    }
    if (!ends && status == QS_OK) {
        search->least = search->reached;
        search->proven = true;
    }
done:
    part_apply(&one, &(const part){.depth = 0});
    while (one.parts > 0)
        free(one.part[--one.parts]);
    free(one.part);
    free(one.variable);
    return status;
}

/* ---- Of a plan --------------------------------------------------------------------------------------------------------------------- */

qs_status qs__bound_of_class(const qs_candidate *candidate, int class_index, double limit_us, double *value) {
    const double reached = qs__candidate_sum_omega(candidate, class_index);
    const int weight = 1;
    qs__bound *one = NULL;
    QS_TRY(qs__bound_create(candidate, class_index, limit_us, &one));
    qs_status status = QS_OK;
    qs__best_first search = {
        .classes = 1, .bound = &one, .weight = &weight, .reached = reached, .most_minima = qs__bound_minima(one), .steps = STEPS_OF_PART};
    QS_GOTO(qs__bound_raise(one, reached));
    QS_GOTO(qs__best_first_run(&search));
    *value = fmax(one->value, fmin(search.least, reached));
    *value -= rounding * fabs(*value);
done:
    qs__bound_release(one);
    return status;
}

bool qs__bound_is_known(const qs_candidate *candidate) {
    for (int c = 0; c < candidate->cluster->classes; c++)
        if (candidate->batch[c] != candidate->job->batch) return false;
    /* Its tables are of one length, the limit is of all. */
    return candidate->limit_us > 0 && !candidate->costs.no_casts && candidate->lengths.count <= 1;
}

qs_status qs__bound_of_plan(const qs_candidate *candidate, int class_index, double *value) {
    *value = 0;
    if (!qs__bound_is_known(candidate) || !qs__class_is_lowered(candidate, class_index)) return QS_OK;
    if (candidate->least > 0) {
        *value = fmin(candidate->least, qs__candidate_sum_omega(candidate, class_index));
        return QS_OK;
    }
    const double least = candidate->class_[class_index].least; /* a large model's is not looked for twice */
    if (qs__is_large(candidate->graph) && least > 0) {
        *value = fmin(least, qs__candidate_sum_omega(candidate, class_index));
        return QS_OK;
    }
    const qs_status status = qs__bound_of_class(candidate, class_index, candidate->limit_us, value);
    if (status != QS_UNSUPPORTED) return status;
    *value = 0;
    return QS_OK;
}
