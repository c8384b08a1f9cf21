// SPDX-License-Identifier: Apache-2.0
/* Blocks: the graph cut at values on which all that follows depends, and which of the pieces are copies of each other. */
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"

typedef struct finder {
    const qs_graph *graph;
    int *crossing;    /* (nodes) values that pass from nodes <= i to nodes > i */
    uint64_t *nature; /* (nodes) what a node is, by itself */
    uint64_t *before; /* (nodes) and with what leads to it within its block */
    uint64_t *after;  /* (nodes) and with what follows from it there */
    uint64_t *sum;    /* (nodes) of what followers said so far */
    int *sorted;      /* (nodes) nodes of each block by hash */
    uint64_t *whole;  /* (blocks) */
    int *order;       /* (blocks) by whole */
    int *twin;        /* (nodes) of the representative: the node of the copy at hand */
    qs_blocks out;
} finder;

/* ---- Cutting ----------------------------------------------------------------------------------------------------------------- */

static void crossings_count(finder *one) {
    const qs_graph *graph = one->graph;
    int *last = one->sorted, live = 0; /* last reader of each value; a list that is not in use yet */
    for (int n = 0; n < graph->nodes; n++) {
        last[n] = n;
        for (int i = 0; i < graph->node[n].inputs; i++)
            last[graph->node[n].input[i]] = n;
    }
    for (int n = 0; n < graph->nodes; n++) {
        one->crossing[n] += qs__flows(graph, n);
        one->crossing[last[n]] -= qs__flows(graph, n);
    }
    for (int n = 0; n < graph->nodes; n++)
        one->crossing[n] = live += one->crossing[n];
}

static bool is_adjustable(const qs_graph *graph, int n) {
    return graph->node[n].op->kind == QS_ADJUSTABLE;
}

/* Pieces that end at node n. One without adjustable operators that keeps the shape (relu, dropout) belongs to the block before it; pooling
 * and flatten to the one behind them, so that the last of several equal blocks stays equal. */
static void piece_close(finder *one, int *first, int n, int adjustable) {
    qs_blocks *out = &one->out;
    qs_block *last = out->blocks > 0 ? &out->block[out->blocks - 1] : NULL;
    const qs_node *node = one->graph->node, *input = &node[node[*first].input[0]];
    const bool ends = n + 1 == one->graph->nodes, keeps = qs_shape_equal(&input->shape, &node[n].shape);
    if (adjustable == 0 && !(last && keeps) && !ends) return;
    if (adjustable == 0 && last)
        last->end = n + 1;
    else
        out->block[out->blocks++] = (qs_block){.first = *first, .end = n + 1, .adjustable = adjustable};
    *first = n + 1;
}

static void blocks_cut(finder *one) {
    qs_blocks *out = &one->out;
    for (int n = one->graph->samples.inputs, first = n, adjustable = 0; n < one->graph->nodes; n++) {
        adjustable += is_adjustable(one->graph, n);
        if (one->crossing[n] > 1) continue;
        piece_close(one, &first, n, adjustable);
        adjustable = 0;
    }
    for (int b = 0; b < out->blocks; b++)
        out->block[b].node = &out->node[out->block[b].first];
}

/* ---- Hashing ------------------------------------------------------------------------------------------------------------------- */

static uint64_t join(uint64_t a, uint64_t b) {
    return qs_hash(&b, sizeof b, a);
}

static uint64_t shape_hash(const qs_shape *shape, uint64_t seed) {
    char text[96];
    qs_shape_text(shape, text);
    return qs_hash(text, strlen(text), seed);
}

static uint64_t nature_of(const qs_graph *graph, int n) {
    const qs_node *node = &graph->node[n];
    uint64_t hash = qs_hash(node->op->name, strlen(node->op->name), 0);
    hash = shape_hash(&node->shape, qs__attributes_hash(node, hash));
    for (int i = 0; i < node->inputs; i++)
        hash = shape_hash(&graph->node[node->input[i]].shape, hash);
    return qs__parameters_hash(graph, n, hash);
}

static void block_hash(finder *one, int b) {
    const qs_block *block = &one->out.block[b];
    for (int n = block->first; n < block->end; n++) {
        const qs_node *node = &one->graph->node[n];
        one->before[n] = one->nature[n] = nature_of(one->graph, n);
        for (int i = 0; i < node->inputs; i++)
            one->before[n] = join(one->before[n], node->input[i] < block->first ? 1 : one->before[node->input[i]]);
    }
    for (int n = block->end - 1; n >= block->first; n--) {
        const qs_node *node = &one->graph->node[n];
        one->after[n] = join(one->before[n], one->sum[n]);
        for (int i = 0; i < node->inputs; i++)
            if (node->input[i] >= block->first) one->sum[node->input[i]] += join(one->after[n], (uint64_t)i);
        one->whole[b] += join(one->after[n], 2);
    }
}

typedef struct ranked {
    uint64_t hash;
    int index;
} ranked;

static int ranked_compare(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Indices first .. end - 1 by their hashes. */
static qs_status sort_by(const uint64_t *hash, int first, int end, int *out) {
    ranked *rank = NULL;
    QS_TRY(qs_allocate((size_t)(end - first), sizeof *rank, &rank));
    for (int i = first; i < end; i++)
        rank[i - first] = (ranked){hash[i], i};
    qsort(rank, (size_t)(end - first), sizeof *rank, ranked_compare);
    for (int i = first; i < end; i++)
        out[i - first] = rank[i - first].index;
    free(rank);
    return QS_OK;
}

/* ---- Copies ---------------------------------------------------------------------------------------------------------------------- */

static bool node_agrees(const finder *one, const qs_block *first, const qs_block *copy, int n) {
    const qs_node *node = &one->graph->node[n], *other = &one->graph->node[one->twin[n]];
    if (one->nature[n] != one->nature[one->twin[n]] || node->inputs != other->inputs) return false;
    for (int i = 0; i < node->inputs; i++) {
        const int inside = node->input[i] >= first->first, inside_copy = other->input[i] >= copy->first;
        if (inside != inside_copy || (inside && one->twin[node->input[i]] != other->input[i])) return false;
    }
    return true;
}

/* Nodes correspond by the order of their hashes, which is confirmed or refused. */
static bool is_copy(finder *one, const qs_block *first, const qs_block *copy) {
    if (copy->end - copy->first != first->end - first->first) return false;
    for (int i = 0; i < first->end - first->first; i++)
        one->twin[one->sorted[first->first + i]] = one->sorted[copy->first + i];
    for (int n = first->first; n < first->end; n++)
        if (!node_agrees(one, first, copy, n)) return false;
    for (int n = first->first; n < first->end; n++)
        one->out.node[copy->first + n - first->first] = one->twin[n];
    return true;
}

static void kind_add(finder *one, int b) {
    qs_block *block = &one->out.block[b];
    block->kind = one->out.kinds;
    one->out.representative[one->out.kinds++] = b;
    for (int n = block->first; n < block->end; n++)
        one->out.node[n] = n;
}

/* Blocks in their own order; candidates stand next to each other by hash, and only the first of a run can be its representative. */
static qs_status kinds_find(finder *one) {
    const qs_blocks *out = &one->out;
    int *first_alike = NULL;
    QS_TRY(qs_allocate((size_t)out->blocks, sizeof *first_alike, &first_alike));
    for (int i = 0; i < out->blocks; i++) {
        const int b = one->order[i], previous = i > 0 ? one->order[i - 1] : b;
        first_alike[b] = one->whole[previous] == one->whole[b] ? first_alike[previous] : b;
        if (i == 0) first_alike[b] = b;
    }
    for (int b = 0; b < out->blocks; b++) {
        const int first = first_alike[b];
        if (first != b && is_copy(one, &out->block[first], &out->block[b]))
            one->out.block[b].kind = out->block[first].kind;
        else
            kind_add(one, b);
    }
    free(first_alike);
    return QS_OK;
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

static qs_status arrays_make(finder *one) {
    const size_t nodes = (size_t)one->graph->nodes;
    QS_TRY(qs_allocate(nodes, sizeof *one->crossing, &one->crossing));
    QS_TRY(qs_allocate(nodes, sizeof *one->nature, &one->nature));
    QS_TRY(qs_allocate(nodes, sizeof *one->before, &one->before));
    QS_TRY(qs_allocate(nodes, sizeof *one->after, &one->after));
    QS_TRY(qs_allocate(nodes, sizeof *one->sum, &one->sum));
    QS_TRY(qs_allocate(nodes, sizeof *one->sorted, &one->sorted));
    QS_TRY(qs_allocate(nodes, sizeof *one->whole, &one->whole));
    QS_TRY(qs_allocate(nodes, sizeof *one->order, &one->order));
    QS_TRY(qs_allocate(nodes, sizeof *one->twin, &one->twin));
    QS_TRY(qs_allocate(nodes, sizeof *one->out.block, &one->out.block));
    QS_TRY(qs_allocate(nodes, sizeof *one->out.representative, &one->out.representative));
    return qs_allocate(nodes, sizeof *one->out.node, &one->out.node);
}

static void arrays_release(finder *one) {
    free(one->crossing);
    free(one->nature);
    free(one->before);
    free(one->after);
    free(one->sum);
    free(one->sorted);
    free(one->whole);
    free(one->order);
    free(one->twin);
    qs_blocks_release(&one->out);
}

qs_status qs_graph_blocks(const qs_graph *graph, qs_blocks *out) {
    finder one = {.graph = graph};
    qs_status status = QS_OK;
    QS_GOTO(arrays_make(&one));
    crossings_count(&one);
    blocks_cut(&one);
    for (int b = 0; b < one.out.blocks; b++) {
        const qs_block *block = &one.out.block[b];
        block_hash(&one, b);
        QS_GOTO(sort_by(one.after, block->first, block->end, &one.sorted[block->first]));
    }
    QS_GOTO(sort_by(one.whole, 0, one.out.blocks, one.order));
    QS_GOTO(kinds_find(&one));
    *out = one.out;
    one.out = (qs_blocks){0};
done:
    arrays_release(&one);
    return status;
}

void qs_blocks_release(qs_blocks *blocks) {
    free(blocks->block);
    free(blocks->representative);
    free(blocks->node);
    *blocks = (qs_blocks){0};
}
