// SPDX-License-Identifier: Apache-2.0
/* Making a relaxation: formats that values may have, recipes that are allowed, and memory: what is certainly live at the moments when nodes
 * begin their backward part. That is what the nodes that are still to come have saved, a form that several of them keep in equal parts, and
 * gradients that wait to be read on. */
#include "relaxation.h"

#include <math.h>
#include <stdlib.h>

/* ---- Formats --------------------------------------------------------------------------------------------------------------------- */

static qs_status format_add(qs__relaxation *one, const qs_format *format) {
    if (!format || format->kind != QS_KIND_FLOAT) return QS_OK;
    for (int f = 0; f < one->formats; f++)
        if (one->format[f] == format) return QS_OK;
    if (one->formats == QS__FORMATS)
        return qs_fail(QS_UNSUPPORTED, "class %s stores values in more than %d formats; name fewer",
                       one->candidate->cluster->class_[one->class_index].name, QS__FORMATS);
    one->format[one->formats++] = format;
    return QS_OK;
}

/* The formats of values, and which of them each recipe asks of its input and gives its output. */
static qs_status formats_find(qs__relaxation *one) {
    const qs_format *half = qs_class_half(&one->candidate->cluster->class_[one->class_index]);
    QS_TRY(format_add(one, qs_format_of("fp32")));
    QS_TRY(format_add(one, half));
    for (int r = 0; r < one->class_->recipes; r++) {
        QS_TRY(format_add(one, one->class_->recipe[r].forward.src.format));
        QS_TRY(format_add(one, one->class_->recipe[r].forward.dst));
    }
    for (int a = 0; a < one->formats; a++)
        for (int b = 0; b < one->formats; b++)
            one->widest[a][b] = qs_format_at_least(one->format[a], one->format[b]) ? a : b;
    for (int r = 0; r < one->class_->recipes; r++) {
        const qs_recipe *recipe = &one->class_->recipe[r];
        const bool integer = recipe->forward.src.format->kind == QS_KIND_INTEGER;
        const qs_format *asked = integer ? half : recipe->forward.src.format;
        while (one->format[one->need[r]] != asked)
            one->need[r]++;
        one->follows[r] = integer && !recipe->forward.dst;
    }
    one->cells = (one->formats + 1) * one->class_->recipes * one->formats;
    return QS_OK;
}

/* ---- Values and who keeps them ------------------------------------------------------------------------------------------------- */

static double aligned(size_t bytes) {
    return (double)((bytes + 63) / 64 * 64);
}

static qs_shape shape_of(const qs__relaxation *one, int n) {
    return qs_graph_shape(one->graph, n, one->candidate->batch[one->class_index]);
}

static const qs_pass *backward_of(const qs__relaxation *one, int n) {
    return qs_op_pass(one->graph->node[n].op, "backward");
}

/* Nodes keep the value of their input where their backward part reads it: in products of two activations the gradient of the second. */
static qs_status keepers_find(qs__relaxation *one) {
    const qs_graph *graph = one->graph;
    int *latest = NULL; /* (nodes) keeper of a root that came last */
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *latest, &latest));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        one->saved_next[n] = graph->nodes;
        const bool activations = qs__is_adjustable(one->candidate, n) && !qs_graph_parameter(graph, n, QS_WEIGHTS);
        if (!one->needed[n] || !qs_op_saves(graph->node[n].op, 0) || (activations && !one->needed[graph->node[n].input[1]])) continue;
        const int root = one->root[graph->node[n].input[0]], before = latest[root];
        one->saved[n] = before > 0 ? one->saved[before] + 1 : 1;
        if (before > 0) one->saved_next[before] = n;
        latest[root] = n;
    }
    free(latest);
    return QS_OK;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------------------------ */

/* What a node keeps of its input: adjustable operators the form that their recipe reads, others the value itself. */
static void saved_find(qs__relaxation *one, int n) {
    const qs_shape input = shape_of(one, one->graph->node[n].input[0]);
    const qs_norm *norm = one->graph->node[n].op->norm;
    const bool adjustable = qs__is_adjustable(one->candidate, n);
    for (int r = 0; r < (adjustable ? one->class_->recipes : 1); r++)
        for (int f = 0; f < one->formats; f++) {
            const qs_format *kept = norm && norm->quantized ? qs_format_of("int8") : one->format[f];
            if (adjustable) kept = one->class_->recipe[r].forward.src.format;
            one->saved_bytes[qs__relax_at(one, n, r, f)] = aligned(qs_tensor_bytes(&input, kept));
        }
}

static void bytes_find(qs__relaxation *one) {
    double fixed = 0;
    for (int n = 0; n < one->graph->nodes; n++) {
        const qs_shape shape = shape_of(one, n);
        for (int f = 0; f < one->formats; f++)
            one->value_bytes[n * one->formats + f] = aligned(qs_tensor_bytes(&shape, one->format[f]));
        one->fixed_bytes[n] = fixed;
        if (!one->graph->node[n].op) continue;
        if (one->saved[n]) saved_find(one, n);
        const qs_node *node = &one->graph->node[n];
        const qs_pass *forward = qs_op_pass(node->op, "forward");
        for (int i = 0; one->needed[n] && forward && i < forward->operands; i++) {
            const qs_pass_operand *operand = &forward->operand[i];
            if (operand->source != QS_TO_BACKWARD || !qs_op_keeps(node->op, &node->attributes, operand)) continue;
            const qs_shape beside = node->op->beside(node->op, operand->role, &shape);
            one->masks_bytes[n] += aligned(qs_tensor_bytes(&beside, qs_role_format(operand->role)));
        }
        one->fixed_bytes[n] = fixed += one->masks_bytes[n];
    }
}

/* ---- Gradients -------------------------------------------------------------------------------------------------------------------- */

/* Gradients that wait to be read, from the last node to the first. */
typedef struct waiting {
    int *source; /* (nodes) the buffer that a gradient lies in, counted from 1; 0: none yet */
    int *live;   /* values whose gradients wait */
    int count, sources;
} waiting;

/* The last reader's contribution is the gradient at first; a second one makes it a sum of its own. Operators without a backward pass hand
 * the same buffer to all their inputs. */
static void contribute(const qs__relaxation *relax, waiting *one, int n) {
    const bool handed_on = qs__relax_alias(relax, n) || (!qs__is_adjustable(relax->candidate, n) && !backward_of(relax, n));
    for (int i = 0; i < relax->graph->node[n].inputs; i++) {
        const int value = relax->graph->node[n].input[i];
        if (!relax->needed[value]) continue;
        if (one->source[value] == 0) {
            one->live[one->count++] = value;
            one->source[value] = handed_on ? one->source[n] : ++one->sources;
        } else {
            one->source[value] = ++one->sources;
        }
    }
}

/* Values that share a buffer count once, as the lowest of them. */
static bool is_first_of_source(const waiting *one, int place) {
    for (int i = 0; i < one->count; i++)
        if (i != place && one->source[one->live[i]] == one->source[one->live[place]] && one->live[i] < one->live[place]) return false;
    return true;
}

/* Whether a buffer may end in the backward part of a node: its own value's does, and those that it adds to. */
static bool ends_in(const qs__relaxation *relax, const waiting *one, int place, int n) {
    for (int i = 0; i < one->count; i++) {
        if (one->source[one->live[i]] != one->source[one->live[place]]) continue;
        if (one->live[i] == n) return true;
        for (int k = 0; k < relax->graph->node[n].inputs; k++)
            if (one->live[i] == relax->graph->node[n].input[k]) return true;
    }
    return false;
}

static qs_status gradients_find(qs__relaxation *relax) {
    waiting one = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)relax->graph->nodes, sizeof *one.source, &one.source));
    QS_GOTO(qs_allocate((size_t)relax->graph->nodes, sizeof *one.live, &one.live));
    for (int n = relax->graph->nodes - 1; n > 0; n--) {
        relax->first_gradient[n] = relax->gradients;
        for (int i = 0; i < one.count; i++) {
            if (!is_first_of_source(&one, i)) continue;
            QS_GOTO(qs_grow(&relax->gradient, &relax->gradient_capacity, (size_t)relax->gradients + 1, sizeof *relax->gradient));
            relax->gradient[relax->gradients++] = (qs__relax_gradient){n, relax->root[one.live[i]], ends_in(relax, &one, i, n)};
        }
        for (int i = 0; i < one.count; i++)
            if (one.live[i] == n) one.live[i--] = one.live[--one.count];
        if (relax->needed[n]) contribute(relax, &one, n);
    }
done:
    free(one.source);
    free(one.live);
    return status;
}

static qs_status memory_find(qs__relaxation *one) {
    const qs_graph *graph = one->graph;
    const size_t nodes = (size_t)graph->nodes, cells = nodes * (size_t)one->class_->recipes * (size_t)one->formats;
    QS_TRY(qs_allocate(nodes, sizeof *one->needed, &one->needed));
    QS_TRY(qs_allocate(nodes, sizeof *one->root, &one->root));
    QS_TRY(qs_allocate(nodes, sizeof *one->last, &one->last));
    QS_TRY(qs_allocate(nodes, sizeof *one->saved, &one->saved));
    QS_TRY(qs_allocate(nodes, sizeof *one->saved_next, &one->saved_next));
    QS_TRY(qs_allocate(cells, sizeof *one->saved_bytes, &one->saved_bytes));
    QS_TRY(qs_allocate(cells, sizeof *one->inside_bytes, &one->inside_bytes));
    QS_TRY(qs_allocate(nodes * (size_t)one->formats, sizeof *one->value_bytes, &one->value_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->fixed_bytes, &one->fixed_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->masks_bytes, &one->masks_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->first_gradient, &one->first_gradient));
    for (size_t cell = 0; cell < cells; cell++)
        one->inside_bytes[cell] = INFINITY; /* until the cell is seen */
    qs_graph_gradients(graph, one->needed);
    for (int n = 0; n < graph->nodes; n++) {
        one->root[n] = qs__relax_alias(one, n) ? one->root[graph->node[n].input[0]] : n;
        for (int i = 0; i < graph->node[n].inputs; i++)
            one->last[one->root[graph->node[n].input[i]]] = n;
    }
    QS_TRY(keepers_find(one));
    bytes_find(one);
    return gradients_find(one);
}

/* ---- The whole -------------------------------------------------------------------------------------------------------------------- */

qs_status qs__relax_fill(const qs_candidate *candidate, int class_index, qs__relaxation *one) {
    const qs_candidate_class *class_ = &candidate->class_[class_index];
    const size_t nodes = (size_t)candidate->graph->nodes;
    bool together;
    QS_TRY(qs__relax_has_neighbours(candidate, class_index, &together));
    if (one->allowed && one->together != together) qs__relax_release(one);
    const bool has_tables = one->allowed != NULL;
    one->together = together;
    one->candidate = candidate;
    one->graph = candidate->graph;
    one->class_ = class_;
    one->class_index = class_index;
    one->joins = qs_profile_class(candidate->profile, candidate->cluster->class_[class_index].name)->joins;
    if (!has_tables) {
        QS_TRY(formats_find(one));
        QS_TRY(qs_allocate(nodes, sizeof *one->allowed, &one->allowed));
        QS_TRY(qs_allocate(nodes, sizeof *one->joined, &one->joined));
        for (int n = 0; one->joins && n < (int)nodes; n++)
            if (qs_graph_joined_norm(one->graph, n) >= 0) one->joined[qs_graph_joined_norm(one->graph, n)] = true;
        QS_TRY(memory_find(one));
        QS_TRY(qs__relax_time(one));
    }
    QS_TRY(qs__relax_reduces(one));
    for (int n = 0; n < (int)nodes; n++) {
        one->allowed[n] = 1;
        if (!qs__is_adjustable(candidate, n)) continue;
        one->allowed[n] = 0;
        for (int r = 0; r < class_->recipes; r++)
            if (class_->pinned[n] ? r == class_->choice[n] : !isinf(class_->omega[n * class_->recipes + r])) one->allowed[n] |= 1u << r;
    }
    return QS_OK;
}

void qs__relax_release(qs__relaxation *one) {
    for (int b = 0; one->bucket && b < one->buckets; b++)
        free(one->bucket[b].until_us);
    free(one->bucket);
    free(one->forward_us);
    free(one->backward_us);
    free(one->readers);
    free(one->products);
    free(one->cast_us);
    free(one->needed);
    free(one->root);
    free(one->last);
    free(one->saved);
    free(one->saved_next);
    free(one->saved_bytes);
    free(one->inside_bytes);
    free(one->value_bytes);
    free(one->fixed_bytes);
    free(one->masks_bytes);
    free(one->first_gradient);
    free(one->gradient);
    free(one->allowed);
    free(one->joined);
    *one = (qs__relaxation){0};
}
