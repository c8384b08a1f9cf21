// SPDX-License-Identifier: Apache-2.0
/* What operators certainly take, read off drafts of schedules: for every pair of recipes the operators before a node have the one, those
 * behind it the other, and the node each of its own, so that every cell that lowering can give appears. Cells that could appear in other
 * mixes, where some change lacked a cost, count with their kernels alone. Of large models copies of a block are not swept one by one: nodes
 * whose surroundings are alike have one table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "relaxation.h"

typedef struct sweep {
    qs__relaxation *out;
    const qs_class_profile *profile;
    qs_schedule_draft *schedule;
    int *recipe;        /* (nodes) the schedule's */
    int *format;        /* (nodes) of values, by index; -1: not known yet */
    uint32_t *seen_in;  /* (nodes) formats of inputs */
    uint32_t *seen_out; /* (nodes x recipes) formats of the value */
    double *shared_us;  /* (nodes x cells) of forward: the node's part of converted inputs */
    double *kernels[2]; /* (nodes x recipes x formats) forward and backward: kernels of the model's own operators, the least seen */
    size_t case_capacity;
    double *case_us;    /* (cases x 3) as kernel, as one in place and as conversion, plus 1; 0: not asked yet */
    size_t arena_bytes; /* more than any schedule's: twice that of the highest recipes */
    bool failed;        /* some mix lacked a cost */
    int *like;          /* (nodes) the first node with the same surroundings, whose table it shares; itself unless the model is large */
    bool *swept;        /* (nodes) such a first node, or near one */
} sweep;

/* Edges around a node that have to be alike, and as far as what a neighbour runs is seen. */
enum { ALIKE = 12, NEAR = 6 };

static qs_status infinite(size_t count, double **out) {
    QS_TRY(qs_allocate(count, sizeof **out, out));
    for (size_t i = 0; i < count; i++)
        (*out)[i] = INFINITY;
    return QS_OK;
}

static int format_index(const qs__relaxation *one, const qs_format *format) {
    for (int f = 0; f < one->formats; f++)
        if (one->format[f] == format) return f;
    return -1;
}

/* Whether two operands are one buffer: what the step touches is then less than its case says. */
static bool is_in_place(const qs_draft_step *step) {
    for (int i = 0; i < step->case_->case_.operands; i++)
        for (int k = 0; k < i; k++)
            if (step->place[i].buffer >= 0 && step->place[i].buffer == step->place[k].buffer) return true;
    return false;
}

static qs_status step_price(sweep *one, const qs_draft_step *from, double *us) {
    *us = 0;
    if (from->kind != QS_STEP_KERNEL) return QS_OK;
    const size_t at = (size_t)from->case_->index * 3 + (size_t)(from->conversion ? 2 : is_in_place(from));
    QS_TRY(qs_grow(&one->case_us, &one->case_capacity, at + 1, sizeof *one->case_us));
    if (one->case_us[at] == 0) {
        qs_step step = {.kind = from->kind, .case_ = from->case_->case_, .case_text = from->case_->text, .conversion = from->conversion};
        memcpy(step.place, from->place, sizeof step.place);
        QS_TRY(qs_cost_step_least(one->profile, &step, one->arena_bytes, one->out->together, us));
        one->case_us[at] = *us + 1;
    }
    *us = one->case_us[at] - 1;
    return QS_OK;
}

/* The node whose value it is, or one whose value has the same format. */
static int value_of(const qs__relaxation *relax, int n) {
    while (qs__relax_alias(relax, n) || relax->joined[n])
        n = relax->graph->node[n].input[0];
    return n;
}

/* ---- Recording --------------------------------------------------------------------------------------------------------------- */

/* A node's value has the format that its forward kernel writes; the loss is fp32. */
static qs_status format_note(sweep *one, int n) {
    const qs_node *node = &one->out->graph->node[n];
    const qs_draft_step *step = NULL;
    if (one->out->joined[n]) return QS_OK; /* node_record knows */
    if (node->op->kind == QS_FIXED) {
        one->format[n] = 0;
        return QS_OK;
    }
    const int steps = qs_schedule_draft_steps(one->schedule, n, &step);
    for (int s = 0; s < steps; s++) {
        const int dst = step[s].kind == QS_STEP_KERNEL && !step[s].conversion ? qs_case_position(&step[s].case_->case_, QS_DST) : -1;
        if (dst >= 0) one->format[n] = format_index(one->out, step[s].case_->case_.operand[dst].format);
    }
    if (one->format[n] >= 0) return QS_OK;
    return qs_fail(QS_FAILED, "operator %s: its value has a format that no recipe of the class asks for", node->name);
}

/* How many readers may share a copy of a value: sums want wider ones only. */
static int sharers(const qs__relaxation *relax, const qs_draft_step *step) {
    const qs_case *one = &step->case_->case_;
    const qs_format *to = qs_conversion_target(one);
    const bool wider = to && qs_format_at_least(to, one->operand[qs_case_position(one, QS_SRC)].format);
    const int count = wider ? relax->readers[step->node] : relax->products[step->node];
    return count > 0 ? count : 1;
}

/* A node's backward part as it was seen: what begins or ends in it is what it kept and gradients that waited, which count already, and the
 * rest: gradients that it writes, copies, scratch. */
static void inside_note(qs__relaxation *one, int n, int recipe, const int *format, size_t inner_bytes) {
    const size_t at = qs__relax_at(one, n, recipe, format[n]);
    double rest = (double)inner_bytes - one->masks_bytes[n];
    if (one->saved[n]) rest -= one->saved_bytes[at];
    for (int i = one->first_gradient[n]; i < one->gradients && one->gradient[i].moment == n; i++) {
        const qs__relax_gradient *gradient = &one->gradient[i];
        if (gradient->ends) rest -= one->value_bytes[gradient->value * one->formats + format[gradient->value]];
    }
    one->inside_bytes[at] = fmin(one->inside_bytes[at], fmax(rest, 0));
}

/* What a node takes in the schedule as it stands, into its cell where that is less than what was seen. Converted inputs are told from
 * converted weights by the node they serve; they have one price, and where another reader has made one, it does not show here. A sum of
 * unlike inputs converts now the one, now the other: of it only the kernels count, casts_find knows the rest. */
static qs_status node_record(sweep *one, int n) {
    qs__relaxation *relax = one->out;
    const qs_graph *graph = relax->graph;
    const qs_draft_step *step = NULL;
    double own = 0, shared = 0, kernels = 0, us;
    int in = -1;
    if (!graph->node[n].op || qs__relax_alias(relax, n)) return QS_OK;
    for (int i = 0; i < graph->node[n].inputs; i++) {
        const int value = value_of(relax, graph->node[n].input[i]);
        if (qs__relax_integers(relax, value)) continue;
        in = in < 0 || one->format[value] == in ? one->format[value] : relax->formats;
    }
    if (in < 0) in = 0;
    if (relax->joined[n]) one->format[n] = in;
    const bool mixed = in == relax->formats;
    const int recipe = one->recipe[n], out = one->format[n], cell = qs__cell(relax, in, recipe, out);
    const size_t at = (size_t)n * (size_t)relax->cells + (size_t)cell, kernels_at = qs__relax_at(relax, n, recipe, out);
    if (!mixed) one->seen_in[n] |= 1u << in;
    if (!mixed) one->seen_out[n * relax->class_->recipes + recipe] |= 1u << out;

    int steps = qs_schedule_draft_steps(one->schedule, n, &step);
    for (int s = 0; s < steps; s++) {
        if (mixed && step[s].conversion) continue;
        QS_TRY(step_price(one, &step[s], &us));
        if (step[s].conversion && step[s].node != n)
            shared += us / sharers(relax, &step[s]);
        else
            own += us;
        if (!step[s].conversion) kernels += us;
    }
    if (!mixed) relax->forward_us[at] = fmin(relax->forward_us[at], own);
    if (!mixed) one->shared_us[at] = fmax(one->shared_us[at], shared);
    one->kernels[0][kernels_at] = fmin(one->kernels[0][kernels_at], kernels);

    own = kernels = 0;
    steps = qs_schedule_draft_steps(one->schedule, 2 * graph->nodes - 1 - n, &step);
    for (int s = 0; s < steps; s++) {
        if (step[s].recomputed || (mixed && step[s].conversion)) continue; /* what is computed again follows from other nodes, too */
        QS_TRY(step_price(one, &step[s], &us));
        double *until_us = step[s].kind == QS_STEP_REDUCE_START && !mixed ? &relax->bucket[step[s].bucket].until_us[cell] : NULL;
        if (until_us) *until_us = fmin(*until_us, own);
        own += us;
        if (!step[s].conversion) kernels += us;
    }
    if (!mixed) relax->backward_us[at] = fmin(relax->backward_us[at], own);
    if (steps > 0) inside_note(relax, n, recipe, one->format, qs_schedule_draft_inner_bytes(one->schedule, 2 * graph->nodes - 1 - n));
    one->kernels[1][kernels_at] = fmin(one->kernels[1][kernels_at], kernels);
    return QS_OK;
}

/* Gives an operator a recipe, and records all nodes that see the change: formats first. A mix that lacks a cost is passed over. */
static qs_status node_set(sweep *one, int n, int recipe) {
    const qs_graph *graph = one->out->graph;
    qs_draft_change change;
    if (one->recipe[n] == recipe) return QS_OK;
    qs_status status = qs_schedule_change(one->schedule, n, qs__candidate_recipe(one->out->class_, n, recipe), &change);
    if (status == QS_OK) {
        one->recipe[n] = recipe;
        for (int i = 0; i < change.segments && status == QS_OK; i++) {
            const int forward = change.segment[i].segment;
            if (forward > 0 && forward < graph->nodes && !qs__relax_alias(one->out, forward)) status = format_note(one, forward);
        }
        for (int i = 0; i < change.segments && status == QS_OK; i++) {
            const int segment = change.segment[i].segment, seen = segment < graph->nodes ? segment : 2 * graph->nodes - 1 - segment;
            if (seen > 0) status = node_record(one, seen); /* below 0: the update */
        }
    }
    if (status == QS_MISMATCH) one->failed = true;
    return status == QS_MISMATCH ? QS_OK : status;
}

/* ---- What no sweep has seen -------------------------------------------------------------------------------------------------------- */

static void cell_complete(sweep *one, int n, int in, int recipe, int out) {
    qs__relaxation *relax = one->out;
    const int cell = qs__cell(relax, in, recipe, out);
    const size_t at = (size_t)n * (size_t)relax->cells + (size_t)cell;
    if (!isinf(relax->forward_us[at])) return;
    const double forward = one->kernels[0][qs__relax_at(relax, n, recipe, out)];
    const double backward = one->kernels[1][qs__relax_at(relax, n, recipe, out)];
    relax->forward_us[at] = isinf(forward) ? 0 : forward;
    relax->backward_us[at] = isinf(backward) ? 0 : backward;
    for (int b = 0; b < relax->buckets; b++)
        if (relax->bucket[b].node == n) relax->bucket[b].until_us[cell] = 0;
}

/* Cells that other mixes may give. Sweeps seldom mix the inputs of a sum: all of a dependent operator's count. */
static void node_complete(sweep *one, int n) {
    const qs__relaxation *relax = one->out;
    const qs_node *node = &relax->graph->node[n];
    const int formats = relax->formats;
    if (node->op->kind != QS_ADJUSTABLE) {
        for (int f = 0; f < formats; f++) {
            if (node->inputs > 1) cell_complete(one, n, formats, 0, f);
            cell_complete(one, n, f, 0, node->op->kind == QS_FIXED ? 0 : f);
            if (qs__relax_integers(relax, node->input[0])) cell_complete(one, n, 0, 0, f);
        }
        return;
    }
    for (int r = 0; r < relax->class_->recipes; r++) {
        const qs_recipe *recipe = &relax->class_->recipe[r];
        const qs_format *own = recipe->forward.dst ? recipe->forward.dst : recipe->forward.src.format;
        uint32_t *outs = &one->seen_out[n * relax->class_->recipes + r];
        if (one->failed) *outs = relax->follows[r] ? (1u << formats) - 1 : 1u << format_index(relax, own);
        for (int in = 0; in < formats; in++)
            for (int out = 0; out < formats; out++)
                if ((one->failed || one->seen_in[n] >> in & 1) && *outs >> out & 1) cell_complete(one, n, in, r, out);
    }
}

/* What sums of unlike inputs convert, there and back. A profile without the fit has no such plan; 0 is right for certain. */
static qs_status casts_find(const sweep *one) {
    qs__relaxation *relax = one->out;
    const qs_graph *graph = relax->graph;
    const int formats = relax->formats;
    const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
    QS_TRY(qs_allocate((size_t)(graph->nodes * formats * formats), sizeof *relax->cast_us, &relax->cast_us));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        for (int i = 0; graph->node[n].inputs > 1 && i < graph->node[n].inputs; i++) {
            const int value = graph->node[n].input[i];
            const qs_shape shape = qs_graph_shape(graph, value, relax->candidate->batch[relax->class_index]);
            for (int pair = 0; pair < formats * formats; pair++) {
                const int from = pair / formats, to = pair % formats;
                double *us = &relax->cast_us[value * formats * formats + pair];
                qs_step step = {
                    .kind = QS_STEP_KERNEL, .case_ = qs_case_make("cast", "forward", &attributes), .case_text = "cast", .conversion = true};
                if (from == to) continue;
                qs_case_bind(&step.case_, QS_SRC, shape, relax->format[from]);
                qs_case_bind(&step.case_, QS_DST, shape, relax->format[to]);
                const qs_status status = qs_cost_step_least(one->profile, &step, one->arena_bytes, one->out->together, us);
                if (status != QS_OK && status != QS_MISMATCH) return status;
                if (status == QS_MISMATCH) *us = 0;
            }
        }
    return QS_OK;
}

/* ---- All-reduces and what is fixed ------------------------------------------------------------------------------------------------- */

static qs_status buckets_find(const sweep *one) {
    qs__relaxation *relax = one->out;
    relax->buckets = qs_schedule_draft_buckets(one->schedule);
    QS_TRY(qs_allocate((size_t)relax->buckets, sizeof *relax->bucket, &relax->bucket));
    for (int b = 0; b < relax->buckets; b++)
        QS_TRY(infinite((size_t)relax->cells, &relax->bucket[b].until_us));
    for (int n = relax->graph->samples.inputs; n < relax->graph->nodes; n++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(one->schedule, 2 * relax->graph->nodes - 1 - n, &step);
        for (int s = 0; s < steps; s++)
            if (step[s].kind == QS_STEP_REDUCE_START) relax->bucket[step[s].bucket].node = n;
    }
    return QS_OK;
}

/* Data, loop and update, which are the same for all plans. */
static qs_status fixed_find(sweep *one) {
    qs__relaxation *relax = one->out;
    const qs_draft_step *step = NULL;
    const int steps = qs_schedule_draft_steps(one->schedule, 2 * relax->graph->nodes, &step);
    const int64_t batch = relax->candidate->batch[relax->class_index];
    qs__relax_bucket *bucket = NULL;
    double update = 0;
    relax->begin_us = qs_cost_loop(one->profile, &relax->graph->samples, batch, QS_START_FASTER);
    for (int b = 0; b < relax->buckets; b++)
        relax->bucket[b].bytes = 4 * qs_schedule_draft_bucket_elements(one->schedule, b);
    for (int s = 0; s < steps; s++) {
        double us;
        QS_TRY(step_price(one, &step[s], &us));
        if (step[s].kind == QS_STEP_REDUCE_WAIT) {
            relax->behind_last_us = 0;
            bucket = &relax->bucket[step[s].bucket];
        }
        if (bucket) bucket->update_us += us;
        update += us;
        relax->behind_last_us += us;
    }
    relax->fixed_us = relax->begin_us + update;
    return QS_OK;
}

/* Of the highest recipes, from which sweeps start. */
static qs_status arena_find(sweep *one) {
    qs_schedule *schedule = NULL;
    QS_TRY(qs_schedule_finish(one->schedule, &schedule, NULL));
    one->arena_bytes = 2 * schedule->arena_bytes;
    for (int n = 0; n < one->out->graph->nodes; n++)
        one->out->fixed_bytes[n] += (double)schedule->persistent_bytes;
    qs_schedule_release(schedule);
    return QS_OK;
}

/* ---- Copies of blocks ------------------------------------------------------------------------------------------------------------- */

static uint64_t kind_hash(const qs__relaxation *relax, int n) {
    const qs_node *node = &relax->graph->node[n];
    const qs_shape shape = qs_graph_shape(relax->graph, n, 1);
    const uint64_t is[] = {(uint64_t)(uintptr_t)node->op, (uint64_t)node->inputs, relax->needed[n], relax->joined[n],
                           qs_hash(shape.dim, (size_t)shape.axes * sizeof *shape.dim, 0)};
    return qs_hash(&node->attributes, sizeof node->attributes, qs_hash(is, sizeof is, (uint64_t)(n < relax->graph->samples.inputs)));
}

/* One edge further: a node with its inputs, in order, and its readers, in any. */
static void surroundings_widen(const qs_graph *graph, const uint64_t *from, uint64_t *to) {
    for (int n = 0; n < graph->nodes; n++)
        to[n] = 3 * from[n];
    for (int n = 0; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++) {
            const uint64_t edge[] = {from[n], from[graph->node[n].input[i]], (uint64_t)i};
            to[n] = qs_hash(&to[n], sizeof *to, qs_hash(edge, sizeof edge, 1));
        }
    for (int n = 0; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++) {
            const uint64_t edge[] = {from[n], (uint64_t)i};
            to[graph->node[n].input[i]] += qs_hash(edge, sizeof edge, 2);
        }
}

static void near_mark(const qs_graph *graph, bool *mark, bool *next) {
    memcpy(next, mark, (size_t)graph->nodes * sizeof *mark);
    for (int n = 0; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++)
            if (mark[n] || mark[graph->node[n].input[i]]) next[n] = next[graph->node[n].input[i]] = true;
    memcpy(mark, next, (size_t)graph->nodes * sizeof *mark);
}

static qs_status copies_find(sweep *one) {
    const qs_graph *graph = one->out->graph;
    const size_t nodes = (size_t)graph->nodes;
    uint64_t *hash = NULL;
    bool *next = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(2 * nodes, sizeof *hash, &hash));
    QS_GOTO(qs_allocate(nodes, sizeof *next, &next));
    for (int n = 0; n < graph->nodes; n++)
        hash[n] = qs__is_large(graph) ? kind_hash(one->out, n) : (uint64_t)n;
    for (int i = 0; qs__is_large(graph) && i < ALIKE; i++) {
        surroundings_widen(graph, hash, hash + nodes);
        memcpy(hash, hash + nodes, nodes * sizeof *hash);
    }
    for (int n = 0; n < graph->nodes; n++) {
        one->like[n] = n;
        for (int k = 0; qs__is_large(graph) && one->like[n] == n && k < n; k++)
            if (hash[k] == hash[n]) one->like[n] = k;
        one->swept[n] = one->like[n] == n;
    }
    for (int i = 0; qs__is_large(graph) && i < NEAR; i++)
        near_mark(graph, one->swept, next);
done:
    free(hash);
    free(next);
    return status;
}

/* A node's tables are those of the one that it is like. What its bucket waits for was not seen in all mixes. */
static void copy_fill(sweep *one, int n) {
    qs__relaxation *relax = one->out;
    const size_t cells = (size_t)relax->cells, small = (size_t)relax->class_->recipes * (size_t)relax->formats;
    const size_t from = (size_t)one->like[n], to = (size_t)n;
    memcpy(&relax->forward_us[to * cells], &relax->forward_us[from * cells], cells * sizeof(double));
    memcpy(&relax->backward_us[to * cells], &relax->backward_us[from * cells], cells * sizeof(double));
    memcpy(&one->shared_us[to * cells], &one->shared_us[from * cells], cells * sizeof(double));
    memcpy(&relax->inside_bytes[to * small], &relax->inside_bytes[from * small], small * sizeof(double));
    for (int i = 0; i < 2; i++)
        memcpy(&one->kernels[i][to * small], &one->kernels[i][from * small], small * sizeof(double));
    one->seen_in[n] = one->seen_in[from];
    memcpy(&one->seen_out[n * relax->class_->recipes], &one->seen_out[one->like[n] * relax->class_->recipes],
           (size_t)relax->class_->recipes * sizeof *one->seen_out);
    for (int b = 0; b < relax->buckets; b++)
        for (int cell = 0; relax->bucket[b].node == n && cell < relax->cells; cell++)
            relax->bucket[b].until_us[cell] = 0;
}

/* ---- The whole ---------------------------------------------------------------------------------------------------------------------- */

/* All operators from one recipe to another, in order: those behind the one at hand still have the old one. */
static qs_status sweep_run(sweep *one, int before) {
    const qs__relaxation *relax = one->out;
    for (int n = relax->graph->samples.inputs; n < relax->graph->nodes; n++) {
        if (!qs__is_adjustable(relax->candidate, n)) continue;
        for (int r = 0; one->swept[n] && r < relax->class_->recipes; r++)
            if (r != before) QS_TRY(node_set(one, n, r));
        QS_TRY(node_set(one, n, before));
    }
    qs_schedule_keep(one->schedule);
    return QS_OK;
}

/* Every ordered pair of recipes once, the end of a sweep being the start of the next: 0 0 1 0 2 1 1 2 2 0. */
static qs_status sweeps_run(sweep *one) {
    const qs__relaxation *relax = one->out;
    const int nodes = relax->graph->nodes, recipes = relax->class_->recipes;
    for (int n = relax->graph->samples.inputs; n < nodes; n++)
        if (!qs__relax_alias(relax, n)) QS_TRY(format_note(one, n));
    for (int n = relax->graph->samples.inputs; n < nodes; n++)
        QS_TRY(node_record(one, n));
    for (int a = 0; a < recipes; a++) {
        if (a > 0) QS_TRY(sweep_run(one, a));
        for (int b = a + 1; b < recipes; b++) {
            QS_TRY(sweep_run(one, a));
            QS_TRY(sweep_run(one, b));
        }
    }
    QS_TRY(sweep_run(one, 0));
    for (int n = relax->graph->samples.inputs; n < nodes; n++) {
        if (one->like[n] != n) copy_fill(one, n);
        if (!qs__relax_alias(relax, n)) node_complete(one, n);
    }
    return QS_OK;
}

qs_status qs__relax_time(qs__relaxation *relax) {
    const qs_graph *graph = relax->graph;
    const size_t nodes = (size_t)graph->nodes, recipes = (size_t)relax->class_->recipes, cells = nodes * (size_t)relax->cells;
    const char *class_name = relax->candidate->cluster->class_[relax->class_index].name;
    sweep one = {.out = relax, .profile = qs_profile_class(relax->candidate->profile, class_name)};
    qs_lowering lowering = qs__candidate_lowering(relax->candidate, relax->class_index);
    const qs_recipe **highest = NULL;
    qs_status status = QS_OK;
    QS_GOTO(infinite(cells, &relax->forward_us));
    QS_GOTO(infinite(cells, &relax->backward_us));
    QS_GOTO(qs_allocate(nodes, sizeof *relax->readers, &relax->readers));
    QS_GOTO(qs_allocate(nodes, sizeof *relax->products, &relax->products));
    QS_GOTO(qs_allocate(cells, sizeof *one.shared_us, &one.shared_us));
    QS_GOTO(qs_allocate(nodes, sizeof *one.recipe, &one.recipe));
    QS_GOTO(qs_allocate(nodes, sizeof *one.format, &one.format));
    QS_GOTO(qs_allocate(nodes, sizeof *one.seen_in, &one.seen_in));
    QS_GOTO(qs_allocate(nodes * recipes, sizeof *one.seen_out, &one.seen_out));
    QS_GOTO(qs_allocate(nodes, sizeof *one.like, &one.like));
    QS_GOTO(qs_allocate(nodes, sizeof *one.swept, &one.swept));
    QS_GOTO(copies_find(&one));
    for (int i = 0; i < 2; i++)
        QS_GOTO(infinite(nodes * recipes * (size_t)relax->formats, &one.kernels[i]));
    QS_GOTO(qs_allocate(nodes, sizeof *highest, &highest));
    for (size_t n = 0; n < nodes; n++)
        highest[n] = qs__candidate_recipe(relax->class_, (int)n, 0);
    lowering.recipe = highest;
    QS_GOTO(qs_schedule_draft_create(&lowering, &one.schedule));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        one.format[n] = -1;
        for (int i = 0; i < graph->node[n].inputs && !qs__relax_alias(relax, n); i++) {
            relax->readers[graph->node[n].input[i]]++;
            if (qs__is_adjustable(relax->candidate, n)) relax->products[graph->node[n].input[i]]++;
        }
    }
    QS_GOTO(arena_find(&one));
    QS_GOTO(buckets_find(&one));
    QS_GOTO(sweeps_run(&one));
    for (size_t cell = 0; cell < cells; cell++)
        relax->forward_us[cell] += one.shared_us[cell];
    for (size_t cell = 0; cell < nodes * recipes * (size_t)relax->formats; cell++)
        if (isinf(relax->inside_bytes[cell])) relax->inside_bytes[cell] = 0;
    QS_GOTO(casts_find(&one));
    QS_GOTO(fixed_find(&one));
done:
    qs_schedule_draft_release(one.schedule);
    free(highest);
    free(one.recipe);
    free(one.format);
    free(one.seen_in);
    free(one.seen_out);
    free(one.shared_us);
    free(one.kernels[0]);
    free(one.kernels[1]);
    free(one.case_us);
    free(one.like);
    free(one.swept);
    return status;
}

/* A bucket's all-reduce and all behind it. */
qs_status qs__relax_reduces(qs__relaxation *one) {
    const qs_cluster *cluster = one->candidate->cluster;
    qs_all_reduce what = {one->candidate->job->algorithm, qs_cluster_ranks(cluster), NULL, qs_cluster_network(cluster),
                          one->candidate->job->wire};
    int *host = NULL, hosts;
    qs_status status = QS_OK;
    double reduce = 0;
    QS_TRY(qs_allocate((size_t)what.ranks, sizeof *host, &host));
    qs_cluster_hosts(cluster, host, &hosts);
    what.host = host;
    for (int b = one->buckets - 1; b >= 0; b--) {
        qs_all_reduce_cost cost = {0};
        QS_GOTO(qs_cost_all_reduce_on(one->candidate->profile, &what, one->bucket[b].bytes, &cost));
        reduce += cost.us;
        one->bucket[b].reduce_us = cost.us;
        one->bucket[b].cpu_share = cost.cpu_share;
        one->bucket[b].fixed_us = one->begin_us + reduce + one->behind_last_us;
    }
done:
    free(host);
    return status;
}
