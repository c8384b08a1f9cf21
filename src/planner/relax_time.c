// SPDX-License-Identifier: Apache-2.0
/* What operators certainly take, read off drafts: for every pair of recipes the operators before a node have the one, those behind it the
 * other, and the node each of its own, so that every cell that lowering can give appears. Cells that could appear in other mixes, where
 * some change lacked a cost, count with their kernels alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "relax.h"

typedef struct sweep {
    qs__relaxation *out;
    const qs_class_profile *profile;
    qs_schedule_draft *draft;
    int *recipe;        /* (nodes) the draft's */
    int *format;        /* (nodes) of values, by index; -1: not known yet */
    int *bucket_of;     /* (nodes) the first bucket that starts within the node's backward part, -1: none */
    uint32_t *seen_in;  /* (nodes) formats of inputs */
    uint32_t *seen_out; /* (nodes x recipes) formats of the value */
    double *shared_us;  /* (nodes x cells) of forward: the node's part of converted inputs */
    double *kernels[2]; /* (nodes x recipes x formats) forward and backward: kernels of the model's own operators, the least met */
    size_t case_capacity;
    double *case_us; /* (cases x 2) as kernel and as conversion, plus 1; 0: not asked yet */
    bool failed;     /* some mix lacked a cost */
} sweep;

static int format_index(const qs__relaxation *one, const qs_format *format) {
    for (int f = 0; f < one->formats; f++)
        if (one->format[f] == format) return f;
    return -1;
}

static qs_status step_price(sweep *one, const qs_draft_step *from, double *us) {
    *us = 0;
    if (from->kind != QS_STEP_KERNEL) return QS_OK;
    const size_t at = (size_t)from->case_->index * 2 + from->conversion;
    QS_TRY(qs_grow(&one->case_us, &one->case_capacity, at + 1, sizeof *one->case_us));
    if (one->case_us[at] == 0) {
        const qs_step step = {
            .kind = from->kind, .case_ = from->case_->case_, .case_text = from->case_->text, .conversion = from->conversion};
        QS_TRY(qs_cost_step_least(one->profile, &step, us));
        one->case_us[at] = *us + 1;
    }
    *us = one->case_us[at] - 1;
    return QS_OK;
}

/* ---- Recording --------------------------------------------------------------------------------------------------------------- */

static int format_of(const sweep *one, int n) {
    while (qs__relax_alias(one->out->graph, n))
        n = one->out->graph->node[n].input[0];
    return one->format[n];
}

static int input_format(const sweep *one, int n) {
    const qs_node *node = &one->out->graph->node[n];
    const int first = format_of(one, node->input[0]);
    for (int i = 1; i < node->inputs; i++)
        if (format_of(one, node->input[i]) != first) return one->out->formats;
    return first;
}

/* A node's value has the format that its forward kernel writes; the loss is fp32. */
static qs_status format_note(sweep *one, int n) {
    const qs_draft_step *step = NULL;
    if (one->out->graph->node[n].op->kind == QS_FIXED) {
        one->format[n] = 0;
        return QS_OK;
    }
    const int steps = qs_schedule_draft_steps(one->draft, n, &step);
    for (int s = 0; s < steps; s++) {
        const int dst = step[s].kind == QS_STEP_KERNEL && !step[s].conversion ? qs_case_position(&step[s].case_->case_, QS_DST) : -1;
        if (dst >= 0) one->format[n] = format_index(one->out, step[s].case_->case_.operand[dst].format);
    }
    return one->format[n] < 0 ? qs_fail(QS_FAILED, "operator %s: its value has a format that no recipe of the class asks for",
                                        one->out->graph->node[n].name)
                              : QS_OK;
}

static void lower_to(double *least, double us) {
    if (us < *least) *least = us;
}

static double *kernels_at(const sweep *one, int backward, int n, int recipe, int out) {
    const qs__relaxation *relax = one->out;
    return &one->kernels[backward][((size_t)n * (size_t)relax->one->recipes + (size_t)recipe) * (size_t)relax->formats + (size_t)out];
}

/* A converted input is told from converted weights by the node it serves. It has one price; where another reader has made it, it does not
 * show here. */
static qs_status forward_record(sweep *one, int n, size_t cell, int recipe, int out) {
    const qs_draft_step *step = NULL;
    const int steps = qs_schedule_draft_steps(one->draft, n, &step);
    double own = 0, shared = 0, kernels = 0;
    for (int s = 0; s < steps; s++) {
        double us;
        QS_TRY(step_price(one, &step[s], &us));
        if (step[s].conversion && step[s].node != n)
            shared += us / one->out->readers[step[s].node];
        else
            own += us;
        if (!step[s].conversion) kernels += us;
    }
    lower_to(&one->out->forward_us[cell], own);
    one->shared_us[cell] = fmax(one->shared_us[cell], shared);
    lower_to(kernels_at(one, 0, n, recipe, out), kernels);
    return QS_OK;
}

static qs_status backward_record(sweep *one, int n, size_t cell, int recipe, int out) {
    const qs__relaxation *relax = one->out;
    const qs_draft_step *step = NULL;
    const int steps = qs_schedule_draft_steps(one->draft, 2 * relax->graph->nodes - 1 - n, &step);
    double sum = 0, kernels = 0;
    for (int s = 0; s < steps; s++) {
        double us;
        QS_TRY(step_price(one, &step[s], &us));
        if (step[s].kind == QS_STEP_REDUCE_START)
            lower_to(&relax->bucket[step[s].bucket].until_us[cell - (size_t)n * (size_t)relax->cells], sum);
        sum += us;
        if (!step[s].conversion) kernels += us;
    }
    lower_to(&relax->backward_us[cell], sum);
    lower_to(kernels_at(one, 1, n, recipe, out), kernels);
    return QS_OK;
}

/* A sum of unlike inputs converts now the one, now the other: its cell holds the kernels (dependent_complete), casts_find the rest. */
static qs_status mixed_record(sweep *one, int n, int out) {
    const int segment[2] = {n, 2 * one->out->graph->nodes - 1 - n};
    for (int i = 0; i < 2; i++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(one->draft, segment[i], &step);
        double kernels = 0;
        for (int s = 0; s < steps; s++) {
            double us = 0;
            if (!step[s].conversion) QS_TRY(step_price(one, &step[s], &us));
            kernels += us;
        }
        lower_to(kernels_at(one, i, n, 0, out), kernels);
    }
    return QS_OK;
}

static qs_status node_record(sweep *one, int n) {
    const qs__relaxation *relax = one->out;
    if (n == 0 || qs__relax_alias(relax->graph, n)) return QS_OK;
    const int in = input_format(one, n), out = one->format[n], recipe = one->recipe[n];
    const size_t cell = (size_t)n * (size_t)relax->cells + (size_t)qs__cell(relax, in, recipe, out);
    if (in == relax->formats) return mixed_record(one, n, out);
    one->seen_in[n] |= 1u << in;
    one->seen_out[n * relax->one->recipes + recipe] |= 1u << out;
    QS_TRY(forward_record(one, n, cell, recipe, out));
    return backward_record(one, n, cell, recipe, out);
}

/* The node of a segment's forward or backward part; -1: the update. */
static int node_of(const sweep *one, int segment) {
    const int nodes = one->out->graph->nodes;
    return segment < nodes ? segment : segment < 2 * nodes ? 2 * nodes - 1 - segment : -1;
}

static qs_status change_record(sweep *one, const qs_draft_change *change) {
    const qs_graph *graph = one->out->graph;
    for (int i = 0; i < change->segments; i++) {
        const int n = change->segment[i].segment;
        if (n > 0 && n < graph->nodes && !qs__relax_alias(graph, n)) QS_TRY(format_note(one, n));
    }
    for (int i = 0; i < change->segments; i++) {
        const int n = node_of(one, change->segment[i].segment);
        if (n > 0) QS_TRY(node_record(one, n));
    }
    return QS_OK;
}

/* ---- Sweeping ------------------------------------------------------------------------------------------------------------------ */

static qs_status node_set(sweep *one, int n, int recipe) {
    qs_draft_change change;
    if (one->recipe[n] == recipe) return QS_OK;
    qs_status status = qs_schedule_change(one->draft, n, qs__draft_recipe(one->out->one, n, recipe), &change);
    if (status == QS_OK) {
        one->recipe[n] = recipe;
        status = change_record(one, &change);
    }
    if (status == QS_MISMATCH) one->failed = true;
    return status == QS_MISMATCH ? QS_OK : status;
}

static bool adjustable(const sweep *one, int n) {
    return n > 0 && one->out->graph->node[n].op->kind == QS_ADJUSTABLE;
}

static qs_status sweep_pair(sweep *one, int before, int behind) {
    const int nodes = one->out->graph->nodes;
    for (int n = nodes - 1; n > 0; n--)
        if (adjustable(one, n)) QS_TRY(node_set(one, n, behind));
    for (int n = 1; n < nodes; n++) {
        for (int r = 0; r < one->out->one->recipes && adjustable(one, n); r++)
            QS_TRY(node_set(one, n, r));
        if (adjustable(one, n)) QS_TRY(node_set(one, n, before));
    }
    qs_schedule_keep(one->draft);
    return QS_OK;
}

static qs_status all_record(sweep *one) {
    const qs_graph *graph = one->out->graph;
    for (int n = 1; n < graph->nodes; n++)
        if (!qs__relax_alias(graph, n)) QS_TRY(format_note(one, n));
    for (int n = 1; n < graph->nodes; n++)
        QS_TRY(node_record(one, n));
    return QS_OK;
}

/* ---- What no sweep has met -------------------------------------------------------------------------------------------------------- */

static double known_or_0(double us) {
    return isinf(us) ? 0 : us;
}

static void cell_complete(sweep *one, int n, int in, int recipe, int out) {
    qs__relaxation *relax = one->out;
    const int cell = qs__cell(relax, in, recipe, out);
    double *forward = &relax->forward_us[(size_t)n * (size_t)relax->cells + (size_t)cell];
    double *backward = &relax->backward_us[(size_t)n * (size_t)relax->cells + (size_t)cell];
    if (!isinf(*forward)) return;
    *forward = known_or_0(*kernels_at(one, 0, n, recipe, out));
    *backward = known_or_0(*kernels_at(one, 1, n, recipe, out));
    for (int b = 0; b < relax->buckets; b++)
        if (relax->bucket[b].node == n) relax->bucket[b].until_us[cell] = 0;
}

static void adjustable_complete(sweep *one, int n) {
    const qs__relaxation *relax = one->out;
    const uint32_t all = (1u << relax->formats) - 1;
    for (int r = 0; r < relax->one->recipes; r++) {
        uint32_t *outs = &one->seen_out[n * relax->one->recipes + r];
        const qs_format *own =
            relax->one->recipe[r].forward.dst ? relax->one->recipe[r].forward.dst : relax->one->recipe[r].forward.src.format;
        if (one->failed) *outs = relax->follows[r] ? all : 1u << format_index(relax, own);
        for (int in = 0; in < relax->formats; in++)
            for (int out = 0; out < relax->formats; out++)
                if ((one->failed || one->seen_in[n] >> in & 1) && *outs >> out & 1) cell_complete(one, n, in, r, out);
    }
}

/* Sweeps seldom mix the inputs of a sum. */
static void dependent_complete(sweep *one, int n) {
    const qs__relaxation *relax = one->out;
    const bool fixed = relax->graph->node[n].op->kind == QS_FIXED;
    for (int f = 0; f < relax->formats; f++) {
        if (relax->graph->node[n].inputs > 1) cell_complete(one, n, relax->formats, 0, f);
        cell_complete(one, n, f, 0, fixed ? 0 : f);
    }
}

/* A profile without the fit has no such plan; 0 is right for certain. */
static qs_status cast_price(const sweep *one, int value, int from, int to, double *us) {
    const qs__relaxation *relax = one->out;
    const qs_shape shape = qs_graph_shape(relax->graph, value, relax->draft->batch[relax->class_index]);
    const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
    qs_step step = {.kind = QS_STEP_KERNEL, .case_ = qs_case_make("cast", "forward", &attributes), .case_text = "cast", .conversion = true};
    qs_case_bind(&step.case_, QS_SRC, shape, relax->format[from]);
    qs_case_bind(&step.case_, QS_DST, shape, relax->format[to]);
    const qs_status status = qs_cost_step_least(one->profile, &step, us);
    if (status == QS_MISMATCH) *us = 0;
    return status == QS_MISMATCH ? QS_OK : status;
}

/* What sums of unlike inputs convert, there and back. */
static qs_status casts_find(sweep *one) {
    qs__relaxation *relax = one->out;
    const qs_graph *graph = relax->graph;
    const int formats = relax->formats;
    QS_TRY(qs_allocate((size_t)(graph->nodes * formats * formats), sizeof *relax->cast_us, &relax->cast_us));
    for (int n = 1; n < graph->nodes; n++)
        for (int i = 0; graph->node[n].inputs > 1 && i < graph->node[n].inputs; i++)
            for (int pair = 0; pair < formats * formats; pair++) {
                const int value = graph->node[n].input[i];
                if (pair / formats == pair % formats) continue;
                QS_TRY(cast_price(one, value, pair / formats, pair % formats, &relax->cast_us[value * formats * formats + pair]));
            }
    return QS_OK;
}

/* ---- All-reduces and what is fixed ------------------------------------------------------------------------------------------------- */

static qs_status persistent_find(sweep *one) {
    qs_schedule *schedule = NULL;
    QS_TRY(qs_schedule_finish(one->draft, &schedule, NULL));
    one->out->persistent_bytes = (int64_t)schedule->persistent_bytes;
    qs_schedule_release(schedule);
    return QS_OK;
}

/* The update part is the same for all plans. */
static qs_status fixed_find(sweep *one) {
    qs__relaxation *relax = one->out;
    const qs_draft_step *step = NULL;
    const int steps = qs_schedule_draft_steps(one->draft, 2 * relax->graph->nodes, &step);
    const double samples = (double)relax->draft->batch[relax->class_index];
    double update = 0;
    relax->begin_us = one->profile->data_us_per_sample * samples + one->profile->iteration_overhead_us;
    for (int s = 0; s < steps; s++) {
        double us;
        QS_TRY(step_price(one, &step[s], &us));
        if (step[s].kind == QS_STEP_REDUCE_WAIT) relax->behind_last_us = 0;
        if (step[s].kind == QS_STEP_KERNEL && step[s].bucket >= 0)
            relax->bucket[step[s].bucket].bytes = 4 * qs_shape_count(&step[s].case_->case_.operand[0].shape);
        update += us;
        relax->behind_last_us += us;
    }
    relax->fixed_us = relax->begin_us + update;
    return persistent_find(one);
}

static qs_status buckets_find(sweep *one) {
    qs__relaxation *relax = one->out;
    relax->buckets = qs_schedule_draft_buckets(one->draft);
    QS_TRY(qs_allocate((size_t)relax->buckets, sizeof *relax->bucket, &relax->bucket));
    for (int b = 0; b < relax->buckets; b++) {
        QS_TRY(qs_allocate((size_t)relax->cells, sizeof(double), &relax->bucket[b].until_us));
        for (int cell = 0; cell < relax->cells; cell++)
            relax->bucket[b].until_us[cell] = INFINITY;
    }
    for (int n = 1; n < relax->graph->nodes; n++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(one->draft, 2 * relax->graph->nodes - 1 - n, &step);
        for (int s = 0; s < steps; s++)
            if (step[s].kind == QS_STEP_REDUCE_START) relax->bucket[step[s].bucket].node = n;
    }
    return QS_OK;
}

/* ---- The whole ---------------------------------------------------------------------------------------------------------------------- */

static qs_status infinite(size_t count, double **out) {
    QS_TRY(qs_allocate(count, sizeof **out, out));
    for (size_t i = 0; i < count; i++)
        (*out)[i] = INFINITY;
    return QS_OK;
}

static qs_status sweep_create(sweep *one) {
    const qs__relaxation *relax = one->out;
    const qs_draft_plan *draft = relax->draft;
    const size_t nodes = (size_t)relax->graph->nodes, recipes = (size_t)relax->one->recipes;
    qs_lowering lowering = qs__draft_lowering(draft, relax->class_index);
    const qs_recipe **list = NULL;
    QS_TRY(qs_allocate(nodes, sizeof *one->recipe, &one->recipe));
    QS_TRY(qs_allocate(nodes, sizeof *one->format, &one->format));
    QS_TRY(qs_allocate(nodes, sizeof *one->seen_in, &one->seen_in));
    QS_TRY(qs_allocate(nodes * recipes, sizeof *one->seen_out, &one->seen_out));
    for (int i = 0; i < 2; i++)
        QS_TRY(infinite(nodes * recipes * (size_t)relax->formats, &one->kernels[i]));
    QS_TRY(qs_allocate(nodes, sizeof *list, &list));
    for (size_t n = 0; n < nodes; n++)
        list[n] = qs__draft_recipe(relax->one, (int)n, 0);
    lowering.recipe = list;
    const qs_status status = qs_schedule_draft_create(&lowering, &one->draft);
    free(list);
    return status;
}

static void readers_count(sweep *one) {
    const qs_graph *graph = one->out->graph;
    for (int n = 1; n < graph->nodes; n++) {
        one->format[n] = -1;
        for (int i = 0; i < graph->node[n].inputs && !qs__relax_alias(graph, n); i++)
            one->out->readers[graph->node[n].input[i]]++;
    }
}

static void sweep_release(sweep *one) {
    qs_schedule_draft_release(one->draft);
    free(one->recipe);
    free(one->format);
    free(one->seen_in);
    free(one->seen_out);
    free(one->shared_us);
    free(one->kernels[0]);
    free(one->kernels[1]);
    free(one->case_us);
}

static qs_status sweeps_run(sweep *one) {
    qs__relaxation *relax = one->out;
    QS_TRY(all_record(one));
    for (int before = 0; before < relax->one->recipes; before++)
        for (int behind = 0; behind < relax->one->recipes; behind++)
            QS_TRY(sweep_pair(one, before, behind));
    for (int n = 1; n < relax->graph->nodes; n++) {
        if (qs__relax_alias(relax->graph, n)) continue;
        if (adjustable(one, n))
            adjustable_complete(one, n);
        else
            dependent_complete(one, n);
    }
    return QS_OK;
}

qs_status qs__relax_time(qs__relaxation *relax) {
    const size_t cells = (size_t)relax->graph->nodes * (size_t)relax->cells;
    sweep one = {.out = relax};
    qs_status status = QS_OK;
    one.profile = qs_profile_class(relax->draft->profile, relax->draft->cluster->class_[relax->class_index].name);
    QS_GOTO(infinite(cells, &relax->forward_us));
    QS_GOTO(infinite(cells, &relax->backward_us));
    QS_GOTO(qs_allocate(cells, sizeof *one.shared_us, &one.shared_us));
    QS_GOTO(qs_allocate((size_t)relax->graph->nodes, sizeof *relax->readers, &relax->readers));
    QS_GOTO(sweep_create(&one));
    readers_count(&one);
    QS_GOTO(buckets_find(&one));
    QS_GOTO(sweeps_run(&one));
    for (size_t cell = 0; cell < cells; cell++)
        relax->forward_us[cell] += one.shared_us[cell];
    QS_GOTO(casts_find(&one));
    QS_GOTO(fixed_find(&one));
done:
    sweep_release(&one);
    return status;
}

/* Buckets are asked from the last on. */
static qs_status buckets_price(qs__relaxation *one, const qs_all_reduce *what) {
    double reduce = 0;
    for (int b = one->buckets - 1; b >= 0; b--) {
        qs_all_reduce_cost cost = {0};
        QS_TRY(qs_cost_all_reduce_on(one->draft->profile, what, one->bucket[b].bytes, &cost));
        reduce += cost.us;
        one->bucket[b].fixed_us = one->begin_us + reduce + one->behind_last_us;
    }
    return QS_OK;
}

qs_status qs__relax_reduces(qs__relaxation *one) {
    const qs_cluster *cluster = one->draft->cluster;
    const int ranks = qs_cluster_ranks(cluster);
    int *host = NULL, hosts;
    QS_TRY(qs_allocate((size_t)ranks, sizeof *host, &host));
    qs_cluster_hosts(cluster, host, &hosts);
    const qs_all_reduce what = {one->draft->job->algorithm, ranks, host, qs_cluster_network(cluster), one->draft->job->wire};
    const qs_status status = buckets_price(one, &what);
    free(host);
    return status;
}
