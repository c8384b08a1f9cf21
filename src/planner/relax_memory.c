// SPDX-License-Identifier: Apache-2.0
/* What is certainly live at the moments when nodes begin their backward part: what the nodes that are still to come have saved, a form that
 * several of them keep in equal parts, and gradients that wait to be read on. */
#include <stdlib.h>

#include "relax.h"

static double aligned(size_t bytes) {
    return (double)((bytes + 63) / 64 * 64);
}

static qs_shape shape_of(const qs__relaxation *one, int n) {
    return qs_graph_shape(one->graph, n, one->draft->batch[one->class_index]);
}

static bool adjustable(const qs__relaxation *one, int n) {
    return qs__is_adjustable(one->draft, n);
}

static const qs_pass *backward_of(const qs__relaxation *one, int n) {
    return qs_op_pass(one->graph->node[n].op, "backward");
}

static bool reads(const qs_pass *pass, qs_role role) {
    for (int i = 0; pass && i < pass->roles; i++)
        if (pass->role[i] == role) return true;
    return false;
}

/* Whether its backward part reads the value of its input. */
static bool keeps(const qs__relaxation *one, int n) {
    return n > 0 && one->needed[n] && (adjustable(one, n) || reads(backward_of(one, n), QS_SRC));
}

/* ---- Values and who keeps them ------------------------------------------------------------------------------------------------- */

static void roots_find(qs__relaxation *one) {
    const qs_graph *graph = one->graph;
    for (int n = 0; n < graph->nodes; n++) {
        one->root[n] = qs__relax_alias(graph, n) ? one->root[graph->node[n].input[0]] : n;
        for (int i = 0; i < graph->node[n].inputs; i++)
            one->last[one->root[graph->node[n].input[i]]] = n;
    }
}

static qs_status keepers_find(qs__relaxation *one) {
    const qs_graph *graph = one->graph;
    int *latest = NULL; /* (nodes) keeper of a root met last */
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *latest, &latest));
    for (int n = 1; n < graph->nodes; n++) {
        one->saved_next[n] = graph->nodes;
        if (!keeps(one, n)) continue;
        const int root = one->root[graph->node[n].input[0]], before = latest[root];
        one->saved[n] = before > 0 ? one->saved[before] + 1 : 1;
        if (before > 0) one->saved_next[before] = n;
        latest[root] = n;
    }
    free(latest);
    return QS_OK;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------------------------ */

/* A fixed-point copy is turned back into a float beside it; where the weights are no larger than that, this comes before anything of the
 * node's backward part is freed. */
static double dequantized_bytes(const qs__relaxation *one, int n, const qs_recipe *recipe, const qs_shape *input) {
    const qs_format *kept = recipe->forward.src.format, *read = recipe->weight_gradient.src.format;
    if (kept->kind != QS_KIND_INTEGER || read == kept) return 0;
    const qs_parameter *weights = qs_graph_parameter(one->graph, n, QS_WEIGHTS);
    const size_t bytes = qs_tensor_bytes(input, read);
    return qs_tensor_bytes(&weights->shape, recipe->input_gradient.weights.format) <= bytes ? aligned(bytes) : 0;
}

static void adjustable_bytes(qs__relaxation *one, int n) {
    const qs_shape input = shape_of(one, one->graph->node[n].input[0]);
    for (int r = 0; r < one->one->recipes; r++) {
        const qs_recipe *recipe = &one->one->recipe[r];
        for (int f = 0; f < one->formats; f++) {
            one->saved_bytes[qs__relax_at(one, n, r, f)] = aligned(qs_tensor_bytes(&input, recipe->forward.src.format));
            one->inside_bytes[qs__relax_at(one, n, r, f)] = dequantized_bytes(one, n, recipe, &input);
        }
    }
}

/* The gradient of the input is written while that of the value is read. */
static void dependent_bytes(qs__relaxation *one, int n) {
    const int input = one->graph->node[n].input[0];
    const qs_shape shape = shape_of(one, input);
    const bool writes = one->needed[n] && one->needed[input] && backward_of(one, n) && !qs__relax_alias(one->graph, n);
    const qs_norm *norm = one->graph->node[n].op ? one->graph->node[n].op->norm : NULL;
    for (int f = 0; f < one->formats; f++) {
        const double bytes = aligned(qs_tensor_bytes(&shape, one->format[f]));
        const qs_format *kept = norm && norm->quantized ? qs_format_of("int8") : one->format[f];
        if (one->saved[n]) one->saved_bytes[qs__relax_at(one, n, 0, f)] = aligned(qs_tensor_bytes(&shape, kept));
        if (writes) one->inside_bytes[qs__relax_at(one, n, 0, f)] = bytes;
    }
}

static double fixed_of(const qs__relaxation *one, int n) {
    const qs_op *op = one->graph->node[n].op;
    const qs_shape dst = shape_of(one, n);
    double bytes = 0;
    if (!one->needed[n]) return 0;
    if (op->saves_mask) {
        const qs_shape mask = op->mask(&dst);
        bytes += aligned((size_t)qs_shape_count(&mask));
    }
    if (reads(backward_of(one, n), QS_MEAN)) bytes += 2 * aligned((size_t)qs_norm_vector(op->norm, &dst).dim[0] * sizeof(float));
    return bytes;
}

static void bytes_find(qs__relaxation *one) {
    double fixed = (double)one->persistent_bytes;
    one->fixed_bytes[0] = fixed;
    for (int n = 0; n < one->graph->nodes; n++) {
        const qs_shape shape = shape_of(one, n);
        for (int f = 0; f < one->formats; f++)
            one->value_bytes[n * one->formats + f] = aligned(qs_tensor_bytes(&shape, one->format[f]));
        if (n == 0) continue;
        if (adjustable(one, n))
            adjustable_bytes(one, n);
        else
            dependent_bytes(one, n);
        one->fixed_bytes[n] = fixed += fixed_of(one, n);
    }
}

/* ---- Gradients -------------------------------------------------------------------------------------------------------------------- */

typedef struct tide {
    qs__relaxation *out;
    int *source; /* (nodes) the buffer that a gradient lies in, counted from 1; 0: none yet */
    int *live;   /* values whose gradients wait */
    int count, sources;
} tide;

/* The last reader's contribution is the gradient at first; a second one makes it a sum of its own. Operators without a backward pass hand
 * the same buffer to all their inputs. */
static void contribute(tide *one, int n) {
    const qs__relaxation *relax = one->out;
    const bool handed_on = qs__relax_alias(relax->graph, n) || (!adjustable(relax, n) && !backward_of(relax, n));
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

static bool is_first_of_source(const tide *one, int place) {
    for (int i = 0; i < one->count; i++)
        if (i != place && one->source[one->live[i]] == one->source[one->live[place]] && one->live[i] < one->live[place]) return false;
    return true;
}

static qs_status moment_note(tide *one, int moment) {
    qs__relaxation *relax = one->out;
    for (int i = 0; i < one->count; i++) {
        if (!is_first_of_source(one, i)) continue;
        QS_TRY(qs_grow(&relax->gradient, &relax->gradient_capacity, (size_t)relax->gradients + 1, sizeof *relax->gradient));
        relax->gradient[relax->gradients++] = (qs__relax_gradient){moment, relax->root[one->live[i]]};
    }
    return QS_OK;
}

static void value_drop(tide *one, int value) {
    for (int i = 0; i < one->count; i++)
        if (one->live[i] == value) one->live[i--] = one->live[--one->count];
}

static qs_status gradients_find(qs__relaxation *relax) {
    tide one = {.out = relax};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)relax->graph->nodes, sizeof *one.source, &one.source));
    QS_GOTO(qs_allocate((size_t)relax->graph->nodes, sizeof *one.live, &one.live));
    for (int n = relax->graph->nodes - 1; n > 0; n--) {
        QS_GOTO(moment_note(&one, n));
        value_drop(&one, n);
        if (relax->needed[n]) contribute(&one, n);
    }
done:
    free(one.source);
    free(one.live);
    return status;
}

qs_status qs__relax_memory(qs__relaxation *one) {
    const size_t nodes = (size_t)one->graph->nodes, cells = nodes * (size_t)one->one->recipes * (size_t)one->formats;
    QS_TRY(qs_allocate(nodes, sizeof *one->needed, &one->needed));
    QS_TRY(qs_allocate(nodes, sizeof *one->root, &one->root));
    QS_TRY(qs_allocate(nodes, sizeof *one->last, &one->last));
    QS_TRY(qs_allocate(nodes, sizeof *one->saved, &one->saved));
    QS_TRY(qs_allocate(nodes, sizeof *one->saved_next, &one->saved_next));
    QS_TRY(qs_allocate(cells, sizeof *one->saved_bytes, &one->saved_bytes));
    QS_TRY(qs_allocate(cells, sizeof *one->inside_bytes, &one->inside_bytes));
    QS_TRY(qs_allocate(nodes * (size_t)one->formats, sizeof *one->value_bytes, &one->value_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->fixed_bytes, &one->fixed_bytes));
    qs_graph_gradients(one->graph, one->needed);
    roots_find(one);
    QS_TRY(keepers_find(one));
    bytes_find(one);
    return gradients_find(one);
}
