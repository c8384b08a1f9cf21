// SPDX-License-Identifier: Apache-2.0
/* Parts of a model: its blocks by kind, and the tensors of its gradient computation group by group. */
#include <inttypes.h>
#include <string.h>

#include "inspect.h"

/* ---- Blocks ---- */

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

/* ---- Groups of tensors ---- */

static double share_of(const qs_groups *all, int64_t elements) {
    return (double)elements / (double)all->elements;
}

static int64_t gradient_elements(const qs_graph_tensor *tensor) {
    return tensor->gradient ? tensor->elements : 0;
}

/* The multiplication that a group's tensors flow into, or the loss. */
static const char *leader_name(const qs_graph *graph, const qs_tensor_group *group) {
    return graph->node[group->leader < 0 ? graph->nodes - 1 : group->leader].name;
}

static void group_print(const qs_graph *graph, const qs_groups *all, int g) {
    const qs_tensor_group *group = &all->group[g];
    printf("%5d %-40s %12" PRId64 " %12" PRId64 " %9s\n", g, leader_name(graph, group), group->elements, group->demotable,
           percent_text(share_of(all, group->elements)));
    for (int i = 0; i < all->tensors; i++) {
        const qs_graph_tensor *one = &all->tensor[i];
        const int64_t gradient = gradient_elements(one);
        if (one->group != g) continue;
        printf("        %-38s %12" PRId64 " %12" PRId64 " %9s\n", qs_graph_tensor_name(graph, one), one->elements + gradient,
               one->elements + (one->parameter < 0 ? gradient : 0), percent_text(share_of(all, one->elements + gradient)));
    }
}

static void text_print(const qs_graph *graph, int64_t batch, const qs_groups *all) {
    printf("%5s %-40s %12s %12s %9s\n", "group", "up to, and its tensors", "elements", "demotable", "share");
    for (int g = 0; g < all->groups; g++)
        group_print(graph, all, g);
    printf("\n%s, batch %" PRId64 ": %d groups, %d tensors; with their gradients %" PRId64 " elements, demotable %s\n", graph->name, batch,
           all->groups, all->tensors, all->elements, percent_text(share_of(all, all->demotable)));
}

static json_t *tensor_json(const qs_graph *graph, const qs_graph_tensor *one) {
    return json_pack("{s:s,s:s,s:I,s:I}", "name", qs_graph_tensor_name(graph, one), "kind", one->parameter < 0 ? "output" : "parameter",
                     "elements", (json_int_t)one->elements, "gradient_elements", (json_int_t)gradient_elements(one));
}

static json_t *group_json(const qs_graph *graph, const qs_groups *all, int g) {
    const qs_tensor_group *group = &all->group[g];
    json_t *tensors = json_array();
    for (int i = 0; i < all->tensors; i++)
        if (all->tensor[i].group == g) json_array_append_new(tensors, tensor_json(graph, &all->tensor[i]));
    return json_pack("{s:i,s:s,s:I,s:I,s:f,s:o}", "group", g, "up_to", leader_name(graph, group), "elements", (json_int_t)group->elements,
                     "demotable", (json_int_t)group->demotable, "share", share_of(all, group->elements), "tensors", tensors);
}

qs_status groups_inspect(const qs_graph *graph, int64_t batch, bool json) {
    qs_groups all;
    qs_status status = QS_OK;
    QS_TRY(qs_graph_groups(graph, batch, &all));
    if (json) {
        json_t *groups = json_array();
        for (int g = 0; g < all.groups; g++)
            json_array_append_new(groups, group_json(graph, &all, g));
        status = json_print(json_pack("{s:s,s:I,s:I,s:I,s:o}", "model", graph->name, "batch", (json_int_t)batch, "elements",
                                      (json_int_t)all.elements, "demotable", (json_int_t)all.demotable, "groups", groups));
    } else {
        text_print(graph, batch, &all);
    }
    qs_groups_release(&all);
    return status;
}
