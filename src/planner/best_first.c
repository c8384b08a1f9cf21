// SPDX-License-Identifier: Apache-2.0
/* Best-first: the open part of the tree with the least bound is split by the recipes of its next operator. Operators whose recipes differ
 * most in Ω come first. A leaf counts with its own ΣΩ; the first that is judged feasible is the optimum, since all that is open is no
 * better. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "best_first.h"

typedef struct variable {
    int class_index, node;
    double spread;
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
    const qs_graph *graph;
    int variables;
    variable *variable;
    int parts, serial;
    part **part; /* a heap */
    size_t capacity;
} tree;

/* ---- Heap ---- */

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

/* ---- Variables ---- */

static double spread_of(const qs__relaxation *relaxation, int n) {
    double least = INFINITY, most = 0;
    for (int r = 0; r < relaxation->one->recipes; r++) {
        const double omega = relaxation->one->omega[n * relaxation->one->recipes + r];
        if (!(relaxation->allowed[n] >> r & 1)) continue;
        least = fmin(least, omega);
        most = fmax(most, omega);
    }
    return most - least;
}

static int variable_compare(const void *left, const void *right) {
    const variable *a = left, *b = right;
    if (a->spread != b->spread) return a->spread > b->spread ? -1 : 1;
    if (a->class_index != b->class_index) return a->class_index - b->class_index;
    return a->node - b->node;
}

static qs_status variables_find(tree *one) {
    QS_TRY(qs_allocate((size_t)one->of->classes * (size_t)one->graph->nodes, sizeof *one->variable, &one->variable));
    for (int c = 0; c < one->of->classes; c++) {
        const qs__relaxation *relaxation = &one->of->bound[c]->relaxation;
        for (int n = 1; n < one->graph->nodes; n++)
            if (qs__is_adjustable(relaxation->draft, n))
                one->variable[one->variables++] = (variable){c, n, one->of->weight[c] * spread_of(relaxation, n), relaxation->allowed[n]};
    }
    qsort(one->variable, (size_t)one->variables, sizeof *one->variable, variable_compare);
    return QS_OK;
}

/* ---- Bounds of parts ---- */

static void part_apply(tree *one, const part *from) {
    for (int v = 0; v < one->variables; v++) {
        const variable *at = &one->variable[v];
        one->of->bound[at->class_index]->relaxation.allowed[at->node] = v < from->depth ? 1u << from->recipe[v] : at->allowed;
    }
}

/* What the others may still cost: each class has a price of its own. */
static qs_status part_value(tree *one, part *of) {
    double sum = 0;
    part_apply(one, of);
    for (int c = 0; c < one->of->classes; c++) {
        double value;
        QS_TRY(qs__bound_at_prices(one->of->bound[c], &value));
        one->of->minima++;
        sum += one->of->weight[c] * value;
    }
    of->value = fmax(of->value, sum);
    for (int c = 0; c < one->of->classes && of->value < one->of->reached; c++) {
        qs__bound *bound = one->of->bound[c];
        double before, after;
        QS_TRY(qs__bound_at_prices(bound, &before));
        QS_TRY(qs__bound_try(bound, before + (one->of->reached - sum) / one->of->weight[c], one->of->steps, &after, &one->of->minima));
        sum += one->of->weight[c] * (after - before);
        of->value = fmax(of->value, sum);
    }
    return QS_OK;
}

static double leaf_omega(const tree *one, const part *leaf) {
    double sum = 0;
    for (int v = 0; v < one->variables; v++) {
        const variable *at = &one->variable[v];
        const qs_draft_class *class_ = one->of->bound[at->class_index]->relaxation.one;
        sum += one->of->weight[at->class_index] * class_->omega[at->node * class_->recipes + leaf->recipe[v]];
    }
    return sum;
}

static qs_status child_add(tree *one, const part *parent, int recipe) {
    part *child = NULL;
    QS_TRY(qs_allocate(1, sizeof *child + (size_t)one->variables, &child));
    memcpy(child->recipe, parent->recipe, (size_t)parent->depth);
    child->recipe[parent->depth] = (uint8_t)recipe;
    child->depth = parent->depth + 1;
    child->value = parent->value;
    child->serial = one->serial++;
    qs_status status = part_value(one, child);
    if (status == QS_OK && child->depth == one->variables) child->value = fmax(child->value, leaf_omega(one, child));
    if (status != QS_OK || !(child->value < one->of->reached)) {
        free(child);
        return status;
    }
    status = part_push(one, child);
    if (status != QS_OK) free(child);
    return status;
}

static qs_status part_split(tree *one, const part *parent) {
    const variable *next = &one->variable[parent->depth];
    for (int r = 0; r < QS_MAX_RECIPES; r++)
        if (next->allowed >> r & 1) QS_TRY(child_add(one, parent, r));
    return QS_OK;
}

/* ---- Search ---- */

static qs_status leaf_judge(tree *one, const part *leaf, bool *ends) {
    qs__best_first *of = one->of;
    *ends = true;
    if (!of->judge) return QS_OK;
    for (int v = 0; v < one->variables; v++)
        of->recipe[one->variable[v].class_index][one->variable[v].node] = leaf->recipe[v];
    of->judged++;
    QS_TRY(of->judge(of->context, of->recipe, ends));
    of->proven = *ends;
    return QS_OK;
}

/* One part at a time, the least first; *ends when it is the answer. */
static qs_status part_visit(tree *one, const part *at, bool *ends) {
    *ends = false;
    one->of->least = at->value;
    if (at->depth == one->variables) return leaf_judge(one, at, ends);
    *ends = one->of->minima >= one->of->most_minima;
    return *ends ? QS_OK : part_split(one, at);
}

static qs_status tree_search(tree *one) {
    part *root = NULL;
    bool ends = false;
    QS_TRY(qs_allocate(1, sizeof *root + (size_t)one->variables, &root));
    root->value = -INFINITY;
    qs_status status = part_value(one, root);
    if (status == QS_OK) status = part_push(one, root);
    if (status != QS_OK) free(root);
    while (status == QS_OK && !ends && one->parts > 0 && one->part[0]->value < one->of->reached) {
        part *at = part_pop(one);
        status = part_visit(one, at, &ends);
        free(at);
    }
    if (!ends && status == QS_OK) {
        one->of->least = one->of->reached;
        one->of->proven = true;
    }
    return status;
}

qs_status qs__best_first_run(qs__best_first *search) {
    tree one = {.of = search, .graph = search->bound[0]->relaxation.graph};
    search->least = -INFINITY;
    search->proven = false;
    search->minima = search->judged = 0;
    qs_status status = variables_find(&one);
    if (status == QS_OK) {
        const part none = {.depth = 0};
        status = tree_search(&one);
        part_apply(&one, &none);
    }
    while (one.parts > 0)
        free(one.part[--one.parts]);
    free(one.part);
    free(one.variable);
    return status;
}
