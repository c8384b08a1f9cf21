// SPDX-License-Identifier: Apache-2.0
/* Decoding: from a decoder's graph, whose input is a whole sequence, that of a few positions which come next. Operators say what a position
 * of theirs depends on (qs_decoding): most on that position alone, and are taken over; some on its place as well, and get the input
 * "place"; causal attention on the positions before, and becomes the operator that keeps their keys and values. */
#include "graph_internal.h"

#include <stdlib.h>
#include <string.h>

enum { IDS, PLACE, INPUTS };

/* The derivation: of each node of the model its node here; -1: it has none, its readers do without. */
typedef struct derivation {
    const qs_graph *model;
    qs_graph *graph;
    int64_t context;
    int *node; /* (nodes of the model) */
} derivation;

static qs_status refuse(const derivation *d, const char *why) {
    return qs_fail(QS_UNSUPPORTED, "model %s is no decoder: %s", d->model->name, why);
}

/* The one input of ids, all that is learned being which of them comes next. */
static qs_status inputs_take(derivation *d, int64_t positions) {
    const qs_samples *samples = &d->model->samples;
    const qs_target *target = &samples->target;
    qs_input input[INPUTS] = {[PLACE] = {.name = "place", .type = QS_INPUT_I32, .rank = 1, .extent = {1}, .bound = d->context}};
    int ids = -1, tables = 0;
    for (int i = 0; i < samples->inputs; i++) {
        d->node[i] = -1;
        if (qs_graph_integers(d->model, i) != QS_IDS) continue;
        if (tables++ == 0) ids = i;
    }
    if (ids < 0 || samples->input[ids].rank != 1) return refuse(d, "its input is no sequence of ids");
    if (target->kind != QS_TARGET_CLASS_PER_POSITION || target->classes != samples->input[ids].bound)
        return refuse(d, "it does not say at each position which id comes next");
    if (tables > 1) return refuse(d, "it reads two kinds of ids, and a text has one");
    d->node[ids] = IDS;
    input[IDS] = samples->input[ids];
    input[IDS].extent[0] = positions;
    return qs_graph_create(d->model->name, samples->unit, INPUTS, input, &d->graph);
}

/* The attributes of a node that has its place as an input: a table keeps the rows that it had for the whole sequence. */
static qs_status placed(const derivation *d, int n, qs_attributes *with) {
    const qs_parameter *table = qs_graph_parameter(d->model, n, QS_WEIGHTS);
    if (!table) return QS_OK;
    const int64_t rows = table->shape.dim[0] - with->offset;
    with->vocabulary = (double)table->shape.dim[0];
    if (d->context <= rows) return QS_OK;
    return qs_fail(QS_USAGE, "model %s: sequences of %lld positions, \"%s\" has rows for %lld: take a shorter context", d->model->name,
                   (long long)d->context, d->model->node[n].name, (long long)rows);
}

/* What stands for a node of the model. */
static qs_status node_take(derivation *d, int n) {
    const qs_node *node = &d->model->node[n];
    qs_attributes with = node->attributes;
    const char *op = node->op->name;
    /* positions are joined, lie in several sequences, or have numbers of their own */
    const bool along = with.along != 0 || with.sequences > 1 || (node->op->takes_all && node->op->takes_all(&with));
    int input[QS_MAX_INPUTS], inputs = node->inputs;
    char why[160];
    for (int i = 0; i < inputs; i++)
        input[i] = d->node[node->input[i]];
    switch (along ? QS_ALL_POSITIONS : node->op->decoding) {
    case QS_ALL_POSITIONS:
        snprintf(why, sizeof why, "operator \"%s\" (%s) takes all positions at once", node->name, op);
        return refuse(d, why);
    case QS_ONE_POSITION:
        break;
    case QS_PLACED_POSITION:
        QS_TRY(placed(d, n, &with));
        inputs = node->op->inputs;
        input[inputs - 1] = PLACE;
        break;
    case QS_EARLIER_POSITIONS:
        snprintf(why, sizeof why, "operator \"%s\" (%s) looks at positions that come later", node->name, op);
        if (with.causal == 0) return refuse(d, why);
        snprintf(why, sizeof why, "operator \"%s\" (%s) has a mask for each position", node->name, op);
        for (int i = 0; i < inputs; i++) { /* one for all is of padding */
            const qs_node *mask = &d->model->node[node->input[i]];
            if (!mask->op && mask->shape.dim[1] != node->shape.dim[2]) return refuse(d, why);
        }
        op = node->op->cached;
        with = (qs_attributes){.heads = with.heads, .key_heads = with.key_heads, .window = with.window, .context = (double)d->context};
        inputs = qs_op_of(op)->inputs; /* which positions count needs not be said: all do */
        input[inputs - 1] = PLACE;
        break;
    }
    for (int i = 0; i < inputs; i++) {
        snprintf(why, sizeof why, "operator \"%s\" reads more of a sample than its ids", node->name);
        if (input[i] < 0) return refuse(d, why);
    }
    if (node->table > 0)
        return qs_graph_add_tied(d->graph, node->name, op, &with, inputs, input, node->outputs, node->bias, d->node[node->table],
                                 &d->node[n]);
    return qs_graph_add(d->graph, node->name, op, &with, inputs, input, node->outputs, node->bias, &d->node[n]);
}

/* Nothing trains, and weights lie where the model has them, whatever it freezes: those of both come in the same order. */
static void weights_settle(derivation *d) {
    const qs_parameter *same = d->model->parameter;
    for (int i = 0; i < d->graph->parameters; i++) {
        qs_parameter *one = &d->graph->parameter[i];
        if (one->gradient == QS_ROLE_COUNT) continue;
        one->frozen = true;
        one->offset = same++->offset;
    }
    d->graph->frozen_elements = d->graph->trained_elements;
    d->graph->trained_elements = 0;
}

static qs_status derive(derivation *d, int64_t positions) {
    const qs_graph *model = d->model;
    const int loss = model->nodes - 1;
    qs_target target = model->samples.target;
    QS_TRY(qs_allocate((size_t)model->nodes, sizeof *d->node, &d->node));
    QS_TRY(inputs_take(d, positions));
    for (int n = model->samples.inputs; n < loss; n++)
        QS_TRY(node_take(d, n));
    target.extent = positions;
    QS_TRY(qs_graph_finish(d->graph, d->node[model->node[loss].input[0]], &target));
    weights_settle(d);
    return QS_OK;
}

qs_status qs_graph_decoder(const qs_graph *model, int64_t positions, int64_t context, qs_graph **out) {
    derivation d = {.model = model, .context = context};
    if (positions < 1 || context < positions || context > INT32_MAX)
        return qs_fail(QS_USAGE, "%lld positions of a context of %lld: at least 1, and at most as many as the context has",
                       (long long)positions, (long long)context);
    const qs_status status = derive(&d, positions);
    free(d.node);
    if (status == QS_OK)
        *out = d.graph;
    else
        qs_graph_release(d.graph);
    return status;
}
