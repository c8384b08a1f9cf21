// SPDX-License-Identifier: Apache-2.0
/* The least weighted sum of a relaxation, node by node in the graph's order: a state is what is known of the values that are still to be
 * read: their formats, and the lowest that a fixed-point operator gave them, which no adjustable reader may exceed. Where more values wait
 * than the table of states can tell apart, the one that waits longest is forgotten: its readers then take whichever format suits them,
 * which only lowers the minimum. */
#include <math.h>
#include <stdlib.h>

#include "relaxation.h"

enum { MOST_STATES = 1 << 16, MOST_WAITING = 16, FORGOTTEN = -1, INPUT = -2, INTEGERS = -3 };

/* A node that is no alias, and the values that wait before and behind it. */
typedef struct stage {
    int node, inputs, place[QS_MAX_INPUTS]; /* of its inputs among those before; FORGOTTEN; INPUT: the model's, in fp32; INTEGERS */
    int before, behind;                     /* how many wait */
    int from[MOST_WAITING];                 /* (behind) place before; `before`: the node's own value */
    int states;                             /* behind it */
    size_t first;                           /* of its states among all */
    int own;                                /* what a state behind it counts its own value by; 0: nobody waits for it */
    int *kept;                              /* (states before) the part of the state behind it that other values are */
} stage;

typedef struct choice {
    int previous; /* state before; -1: none reaches this one */
    int cell;
} choice;

struct qs__relax_minimum {
    const qs__relaxation *of;
    int stages;
    stage *stage;             /* (nodes) */
    double *cost;             /* (cells) of the node at hand */
    double *least;            /* (states of all stages) */
    choice *choice;           /* (states of all stages) */
    double *kept, *waiting;   /* (nodes) price of a byte that a node keeps, of a byte of a value's gradient */
    double *suffix;           /* (nodes + 1) sums of moments' prices */
    double forward, backward; /* price of a microsecond of the node at hand */
    int actives, *active;     /* (buckets) that have a price */
    int *format;              /* (nodes) of values, of the assignment that is walked back */
};

/* ---- Stages -------------------------------------------------------------------------------------------------------------------- */

static int states_of(const qs__relaxation *one, int values) {
    int states = 1;
    while (values-- > 0 && states <= MOST_STATES)
        states *= one->formats * (one->formats + 1);
    return states;
}

/* Of one value: its format, and the lowest of those that follow what their readers need and lead to it; `formats`: none does. */
typedef struct value_state {
    int format, follows;
} value_state;

static value_state digit(const qs__relaxation *one, int state, int place) {
    const int kinds = one->formats + 1;
    while (place-- > 0)
        state /= one->formats * kinds;
    return (value_state){state / kinds % one->formats, state % kinds};
}

/* `waiting` lists the values before the node and then those behind it. */
static void stage_make(const qs__relaxation *one, int n, int *waiting, int *count, stage *out) {
    const qs_node *node = &one->graph->node[n];
    *out = (stage){.node = n, .inputs = node->inputs, .before = *count};
    for (int i = 0; i < node->inputs; i++) {
        const int value = one->root[node->input[i]];
        out->place[i] = qs__relax_integers(one, value) ? INTEGERS : value < one->graph->samples.inputs ? INPUT : FORGOTTEN;
        for (int w = *count - 1; w >= 0; w--)
            if (waiting[w] == value) out->place[i] = w;
    }
    for (int i = 0; i < *count; i++) {
        if (one->last[waiting[i]] <= n) continue;
        waiting[out->behind] = waiting[i];
        out->from[out->behind++] = i;
    }
    if (one->last[n] > n) {
        waiting[out->behind] = n;
        out->from[out->behind++] = out->before;
    }
    while (out->behind == MOST_WAITING || states_of(one, out->behind) > MOST_STATES) {
        int longest = 0;
        for (int i = 1; i < out->behind; i++)
            if (one->last[waiting[i]] > one->last[waiting[longest]]) longest = i;
        out->behind--;
        for (int i = longest; i < out->behind; i++) {
            waiting[i] = waiting[i + 1];
            out->from[i] = out->from[i + 1];
        }
    }
    *count = out->behind;
    out->states = states_of(one, out->behind);
}

/* Places of a state behind: those of values that go on waiting, and of the node's own. */
static qs_status kept_make(const qs__relaxation *one, int before, stage *out) {
    const int values = one->formats * (one->formats + 1);
    QS_TRY(qs_allocate((size_t)before, sizeof *out->kept, &out->kept));
    for (int i = 0, weight = 1; i < out->behind; i++, weight *= values) {
        if (out->from[i] == out->before) out->own = weight;
        for (int state = 0; out->from[i] != out->before && state < before; state++) {
            const value_state value = digit(one, state, out->from[i]);
            out->kept[state] += weight * (value.format * (one->formats + 1) + value.follows);
        }
    }
    return QS_OK;
}

qs_status qs__relax_minimum_create(const qs__relaxation *relaxation, qs__relax_minimum **out) {
    const size_t nodes = (size_t)relaxation->graph->nodes;
    int waiting[MOST_WAITING + 1], count = 0;
    size_t states = 1; /* the one before all */
    qs__relax_minimum *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->of = relaxation;
    QS_GOTO(qs_allocate(nodes, sizeof *one->stage, &one->stage));
    QS_GOTO(qs_allocate((size_t)relaxation->cells, sizeof *one->cost, &one->cost));
    QS_GOTO(qs_allocate(nodes, sizeof *one->kept, &one->kept));
    QS_GOTO(qs_allocate(nodes, sizeof *one->waiting, &one->waiting));
    QS_GOTO(qs_allocate(nodes + 1, sizeof *one->suffix, &one->suffix));
    QS_GOTO(qs_allocate((size_t)relaxation->buckets, sizeof *one->active, &one->active));
    QS_GOTO(qs_allocate(nodes, sizeof *one->format, &one->format));
    for (int n = relaxation->graph->samples.inputs; n < (int)nodes; n++) {
        if (qs__relax_alias(relaxation, n)) continue;
        stage *now = &one->stage[one->stages++];
        const int before = one->stages > 1 ? now[-1].states : 1;
        stage_make(relaxation, n, waiting, &count, now);
        QS_GOTO(kept_make(relaxation, before, now));
        now->first = states;
        states += (size_t)now->states;
    }
    QS_GOTO(qs_allocate(states, sizeof *one->least, &one->least));
    QS_GOTO(qs_allocate(states, sizeof *one->choice, &one->choice));
    *out = one;
    one = NULL;
done:
    qs__relax_minimum_release(one);
    return status;
}

int qs__relax_minimum_states(const qs__relax_minimum *one) {
    const stage *last = &one->stage[one->stages - 1];
    return (int)last->first + last->states;
}

void qs__relax_minimum_release(qs__relax_minimum *one) {
    if (!one) return;
    for (int s = 0; one->stage && s < one->stages; s++)
        free(one->stage[s].kept);
    free(one->stage);
    free(one->cost);
    free(one->least);
    free(one->choice);
    free(one->kept);
    free(one->waiting);
    free(one->suffix);
    free(one->active);
    free(one->format);
    free(one);
}

/* ---- Costs of a node's cells -------------------------------------------------------------------------------------------------------- */

/* A form that j nodes keep at a moment costs each of them a j-th of it: price of a kept byte over all moments from the node on. */
static void bytes_price(qs__relax_minimum *one, const qs__relax_price *price) {
    const qs__relaxation *of = one->of;
    const int nodes = of->graph->nodes;
    one->suffix[nodes] = 0;
    for (int n = nodes - 1; n >= 0; n--) {
        one->suffix[n] = one->suffix[n + 1] + price->moment[n];
        one->waiting[n] = one->kept[n] = 0;
    }
    for (int n = nodes - 1; n > 0; n--) {
        if (of->saved[n] == 0) continue;
        const int next = of->saved_next[n];
        one->kept[n] = (one->suffix[n] - one->suffix[next]) / of->saved[n] + (next < nodes ? one->kept[next] : 0);
    }
    for (int i = 0; i < of->gradients; i++)
        one->waiting[of->gradient[i].value] += price->moment[of->gradient[i].moment];
}

/* A microsecond of a node's backward part has the total's price and those of buckets which start behind it; of a bucket that starts within
 * it, only what comes before. */
static void costs_find(qs__relax_minimum *one, const qs__relax_price *price, int n) {
    const qs__relaxation *of = one->of;
    const bool adjustable = qs__is_adjustable(of->candidate, n);
    one->backward = price->total;
    for (int i = 0; i < one->actives; i++)
        if (of->bucket[one->active[i]].node < n) one->backward += price->bucket[one->active[i]];
    for (int cell = 0; cell < of->cells; cell++) {
        const int recipe = cell / of->formats % of->class_->recipes, out = cell % of->formats;
        const size_t at = (size_t)n * (size_t)of->cells + (size_t)cell, bytes_at = qs__relax_at(of, n, recipe, out);
        one->cost[cell] = INFINITY;
        if (!(of->allowed[n] >> recipe & 1) || isinf(of->forward_us[at])) continue;
        double until = 0;
        for (int i = 0; i < one->actives; i++) {
            const qs__relax_bucket *bucket = &of->bucket[one->active[i]];
            if (bucket->node == n) until += price->bucket[one->active[i]] * bucket->until_us[cell];
        }
        const double bytes = one->kept[n] * of->saved_bytes[bytes_at] + price->moment[n] * of->inside_bytes[bytes_at] +
                             one->waiting[n] * of->value_bytes[n * of->formats + out];
        one->cost[cell] = one->forward * of->forward_us[at] + one->backward * of->backward_us[at] + until + bytes;
        if (adjustable) one->cost[cell] += of->class_->omega[n * of->class_->recipes + recipe];
    }
}

/* ---- States -------------------------------------------------------------------------------------------------------------------------- */

static void offer(qs__relax_minimum *one, const stage *now, int state, double sum, int cell, int follows) {
    const qs__relaxation *of = one->of;
    const int behind = now->kept[state] + now->own * (cell % of->formats * (of->formats + 1) + follows);
    double *least = &one->least[now->first + (size_t)behind];
    const double offered = sum + one->cost[cell];
    if (!(offered < *least)) return;
    *least = offered;
    one->choice[now->first + (size_t)behind] = (choice){state, cell};
}

/* Operators with products inside need the format of their own value, whatever the recipe. */
static void adjustable_offer(qs__relax_minimum *one, const stage *now, int state, double sum, value_state in) {
    const qs__relaxation *of = one->of;
    const bool asks = !of->graph->node[now->node].op->inner;
    for (int r = 0; r < of->class_->recipes; r++) {
        if (asks && in.follows < of->formats && of->widest[in.follows][of->need[r]] != in.follows) continue;
        for (int out = 0; out < of->formats; out++) {
            const int cell = qs__cell(of, in.format, r, out);
            if (!isinf(one->cost[cell])) offer(one, now, state, sum, cell, of->follows[r] ? out : of->formats);
        }
    }
}

static double casts_us(const qs__relaxation *of, int n, const int *format, int out, bool back) {
    double sum = 0;
    for (int i = 0; i < of->graph->node[n].inputs; i++) {
        const int value = of->graph->node[n].input[i], pairs = value * of->formats * of->formats;
        if (format[i] == out || format[i] == INTEGERS) continue;
        if (!back) sum += of->cast_us[pairs + format[i] * of->formats + out] / of->readers[value];
        if (back && of->needed[n] && of->needed[value]) sum += of->cast_us[pairs + out * of->formats + format[i]];
    }
    return sum;
}

/* The value of a dependent operator has the widest format of its inputs; that of integers alone the format that its readers need. */
static void dependent_offer(qs__relax_minimum *one, const stage *now, int state, double sum, const int *format, value_state widest) {
    const qs__relaxation *of = one->of;
    const bool fixed = of->graph->node[now->node].op->kind == QS_FIXED;
    int in = INTEGERS;
    for (int i = 0; i < now->inputs; i++)
        if (format[i] != INTEGERS) in = in == INTEGERS || in == format[i] ? format[i] : of->formats;
    if (in == INTEGERS) {
        for (int f = 0; f < of->formats; f++)
            if (!isinf(one->cost[qs__cell(of, 0, 0, f)])) offer(one, now, state, sum, qs__cell(of, 0, 0, f), f);
        return;
    }
    if (in == of->formats)
        sum += one->forward * casts_us(of, now->node, format, widest.format, false) +
               one->backward * casts_us(of, now->node, format, widest.format, true);
    offer(one, now, state, sum, qs__cell(of, in, 0, fixed ? 0 : widest.format), widest.follows);
}

/* All ways to give forgotten inputs a format, one after the other; `all`: the widest format and the lowest to follow of the inputs so
 * far. */
static void inputs_offer(qs__relax_minimum *one, const stage *now, int state, double sum, int input, int *format, value_state all) {
    const qs__relaxation *of = one->of;
    if (input >= now->inputs || input >= QS_MAX_INPUTS) {
        if (of->graph->node[now->node].op->kind == QS_ADJUSTABLE)
            adjustable_offer(one, now, state, sum, all);
        else
            dependent_offer(one, now, state, sum, format, all);
        return;
    }
    const int place = now->place[input];
    if (place == INTEGERS) {
        format[input] = INTEGERS;
        inputs_offer(one, now, state, sum, input + 1, format, all);
        return;
    }
    const value_state known = place < 0 ? (value_state){0, of->formats} : digit(of, state, place);
    for (int f = known.format; f < (place == FORGOTTEN ? of->formats : known.format + 1); f++) {
        value_state next = {f, known.follows};
        format[input] = f;
        if (all.format >= 0) {
            next.format = of->widest[all.format][f];
            if (known.follows == of->formats || (all.follows < of->formats && of->widest[all.follows][known.follows] != all.follows))
                next.follows = all.follows;
        }
        inputs_offer(one, now, state, sum, input + 1, format, next);
    }
}

/* ---- What the minimum uses ----------------------------------------------------------------------------------------------------------- */

/* Casts of a sum of unlike inputs, where all inputs are remembered. */
static void casts_use(const qs__relaxation *of, const stage *now, int state, int out, qs__relax_use *use) {
    int format[QS_MAX_INPUTS];
    for (int i = 0; i < now->inputs; i++) {
        if (now->place[i] == FORGOTTEN) return;
        format[i] = now->place[i] == INPUT ? 0 : now->place[i] == INTEGERS ? INTEGERS : digit(of, state, now->place[i]).format;
    }
    const double forward = casts_us(of, now->node, format, out, false), backward = casts_us(of, now->node, format, out, true);
    use->total_us += forward + backward;
    for (int b = 0; b < of->buckets; b++)
        use->bucket_us[b] += forward + (of->bucket[b].node < now->node ? backward : 0);
}

static void cell_use(const qs__relaxation *of, int n, int cell, qs__relax_use *use) {
    const int recipe = cell / of->formats % of->class_->recipes, out = cell % of->formats;
    const size_t at = (size_t)n * (size_t)of->cells + (size_t)cell, bytes_at = qs__relax_at(of, n, recipe, out);
    if (qs__is_adjustable(of->candidate, n)) use->omega += of->class_->omega[n * of->class_->recipes + recipe];
    use->total_us += of->forward_us[at] + of->backward_us[at];
    for (int b = 0; b < of->buckets; b++) {
        use->bucket_us[b] += of->forward_us[at];
        if (of->bucket[b].node < n) use->bucket_us[b] += of->backward_us[at];
        if (of->bucket[b].node == n) use->bucket_us[b] += of->bucket[b].until_us[cell];
    }
    int moment = n;
    for (int keeper = n; of->saved[n] > 0 && keeper < of->graph->nodes; keeper = of->saved_next[keeper])
        for (; moment < of->saved_next[keeper]; moment++)
            use->bytes[moment] += of->saved_bytes[bytes_at] / of->saved[keeper];
    use->bytes[n] += of->inside_bytes[bytes_at];
}

/* From the last state back along the choices that reach it. */
static void walk_back(const qs__relax_minimum *one, qs__relax_use *use, int *recipe) {
    const qs__relaxation *of = one->of;
    int state = 0;
    use->omega = 0;
    use->total_us = of->fixed_us;
    for (int b = 0; b < of->buckets; b++)
        use->bucket_us[b] = of->bucket[b].fixed_us;
    for (int n = 0; n < of->graph->nodes; n++)
        use->bytes[n] = of->fixed_bytes[n];
    for (int s = one->stages - 1; s >= 0; s--) {
        const stage *now = &one->stage[s];
        const choice *chosen = &one->choice[now->first + (size_t)state];
        cell_use(of, now->node, chosen->cell, use);
        one->format[now->node] = chosen->cell % of->formats;
        if (now->inputs > 1) casts_use(of, now, chosen->previous, chosen->cell % of->formats, use);
        if (recipe) recipe[now->node] = chosen->cell / of->formats % of->class_->recipes;
        state = chosen->previous;
    }
    for (int i = 0; i < of->gradients; i++) {
        const qs__relax_gradient *gradient = &of->gradient[i];
        use->bytes[gradient->moment] += of->value_bytes[gradient->value * of->formats + one->format[gradient->value]];
    }
}

/* ---- The minimum ----------------------------------------------------------------------------------------------------------------- */

qs_status qs__relax_minimize(qs__relax_minimum *one, const qs__relax_price *price, double *least, qs__relax_use *use, int *recipe) {
    const qs__relaxation *of = one->of;
    int format[QS_MAX_INPUTS], states = 1;
    size_t before = 0;
    bytes_price(one, price);
    one->actives = 0;
    one->forward = price->total;
    for (int b = 0; b < of->buckets; b++) {
        if (price->bucket[b] > 0) one->active[one->actives++] = b;
        one->forward += price->bucket[b];
    }
    one->least[0] = 0;
    for (int s = 0; s < one->stages; s++) {
        const stage *now = &one->stage[s];
        costs_find(one, price, now->node);
        for (int state = 0; state < now->states; state++)
            one->least[now->first + (size_t)state] = INFINITY;
        for (int state = 0; state < states; state++)
            if (!isinf(one->least[before + (size_t)state]))
                inputs_offer(one, now, state, one->least[before + (size_t)state], 0, format, (value_state){-1, of->formats});
        before = now->first;
        states = now->states;
    }
    double fixed = price->total * of->fixed_us;
    for (int b = 0; b < of->buckets; b++)
        fixed += price->bucket[b] * of->bucket[b].fixed_us;
    for (int n = 0; n < of->graph->nodes; n++)
        fixed += price->moment[n] * of->fixed_bytes[n];
    *least = one->least[before] + fixed;
    if (use && !isinf(*least)) walk_back(one, use, recipe);
    return QS_OK;
}
