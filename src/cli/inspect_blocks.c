// SPDX-License-Identifier: Apache-2.0
/* The blocks of a model by kind. */
#include <string.h>

#include "inspect.h"

static const qs_node *node_of(const qs_graph *graph, const qs_block *block, int place) {
    return &graph->node[block->node[place]];
}

/* "conv2d, batch_norm, relu" of a block, in the order of its nodes; "..." where there are too many. */
static const char *operators_text(const qs_graph *graph, const qs_block *block, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < block->end - block->first; i++) {
        const char *name = node_of(graph, block, i)->op->name;
        if (used + strlen(name) + 8 > size) {
            snprintf(out + used, size - used, ", ...");
            break;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", name);
    }
    return out;
}

static void kind_print(const qs_graph *graph, const qs_blocks *all, int kind) {
    const qs_block *first = &all->block[all->representative[kind]];
    char operators[160];
    int copies = 0;
    for (int b = 0; b < all->blocks; b++)
        copies += all->block[b].kind == kind;
    printf("kind %d: %d %s, %d nodes, %d adjustable: %s\n", kind, copies, copies == 1 ? "block" : "copies", first->end - first->first,
           first->adjustable, operators_text(graph, first, operators, sizeof operators));
    for (int b = 0; b < all->blocks; b++)
        if (all->block[b].kind == kind)
            printf("  %s .. %s\n", graph->node[all->block[b].first].name, graph->node[all->block[b].end - 1].name);
}

static json_t *copy_json(const qs_graph *graph, const qs_block *block) {
    json_t *nodes = json_array(), *adjustable = json_array();
    for (int i = 0; i < block->end - block->first; i++) {
        const qs_node *node = node_of(graph, block, i);
        json_array_append_new(nodes, json_string(node->name));
        if (node->op->kind == QS_ADJUSTABLE) json_array_append_new(adjustable, json_string(node->name));
    }
    return json_pack("{s:o,s:o}", "nodes", nodes, "adjustable", adjustable);
}

static json_t *kind_json(const qs_graph *graph, const qs_blocks *all, int kind) {
    json_t *copies = json_array();
    for (int b = 0; b < all->blocks; b++)
        if (all->block[b].kind == kind) json_array_append_new(copies, copy_json(graph, &all->block[b]));
    return json_pack("{s:o}", "copies", copies);
}

qs_status blocks_inspect(const qs_graph *graph, bool json) {
    qs_blocks all;
    qs_status status = QS_OK;
    QS_TRY(qs_graph_blocks(graph, &all));
    if (json) {
        json_t *kinds = json_array();
        for (int k = 0; k < all.kinds; k++)
            json_array_append_new(kinds, kind_json(graph, &all, k));
        status = json_print(json_pack("{s:s,s:i,s:o}", "model", graph->name, "blocks", all.blocks, "kinds", kinds));
    } else {
        for (int k = 0; k < all.kinds; k++)
            kind_print(graph, &all, k);
        printf("%s: %d blocks of %d kinds\n", graph->name, all.blocks, all.kinds);
    }
    qs_blocks_release(&all);
    return status;
}
