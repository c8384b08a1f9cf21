// SPDX-License-Identifier: Apache-2.0
/* What the plan of a class says, by place in the graph: a recipe for each adjustable operator, formats of tensors,
 * blocks that are computed again. */
#include <stdlib.h>
#include <string.h>

#include "qsync/schedule.h"

/* ---- Recipes ---- */

/* Plans name operators in the graph's order: the next one is looked for first. */
static int node_find(const qs_graph *graph, const char *name, int last) {
    for (int n = last + 1; n < graph->nodes; n++)
        if (strcmp(graph->node[n].name, name) == 0) return n;
    return qs_graph_find(graph, name);
}

/* The recipe that an operator runs goes into own, at its node; *at: that of the choice before, then of this one. */
static qs_status choice_bind(const qs_plan *plan, const qs_graph *graph, const qs_operator_choice *choice, qs_recipe *own,
                             const qs_recipe **recipe, int *at) {
    const int node = node_find(graph, choice->name, *at);
    if (node < 0) return qs_fail(QS_MISMATCH, "the plan names operator %s, which model %s does not have", choice->name, graph->name);
    const qs_op *op = graph->node[node].op;
    if (!op || op->kind != QS_ADJUSTABLE) {
        return qs_fail(QS_MISMATCH, "the plan gives operator %s recipe %s, but a %s follows its inputs and takes none", choice->name,
                       choice->recipe, op ? op->name : "model input");
    }
    *at = node;
    recipe[node] = &own[node];
    return qs_choice_recipe(plan, choice, &own[node]);
}

/* Adjustable operators that nobody gave a recipe compute in fp32. */
static const qs_recipe *fp32_recipe(const qs_plan *plan) {
    static qs_recipe builtin; /* the same bytes whoever fills it */
    const qs_recipe *own = plan ? qs_plan_recipe(plan, "fp32") : NULL;
    if (own) return own;
    return qs_recipe_builtin("fp32", &builtin) == QS_OK ? &builtin : NULL;
}

/* One block, the pointers and behind them the recipes that they point to (all of a pointer's alignment): one free is enough. */
qs_status qs_plan_bind(const qs_plan *plan, const char *class_name, const qs_graph *graph, const qs_recipe ***out) {
    const size_t nodes = (size_t)graph->nodes;
    const qs_recipe **recipe = NULL;
    QS_TRY(qs_allocate(nodes, sizeof *recipe + sizeof(qs_recipe), &recipe));
    qs_recipe *own = (qs_recipe *)(recipe + nodes);
    const qs_class_plan *class_plan = plan ? qs_plan_class(plan, class_name) : NULL;
    qs_status status = QS_OK;
    int node = -1;
    if (plan && !class_plan) status = qs_fail(QS_MISMATCH, "the plan has no device class %s; plan for this cluster file", class_name);
    for (int i = 0; class_plan && status == QS_OK && i < class_plan->operators; i++)
        status = choice_bind(plan, graph, &class_plan->operator_[i], own, recipe, &node);
    if (status != QS_OK) {
        free(recipe);
        return status;
    }
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (!recipe[n] && graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = fp32_recipe(plan);
    }
    *out = recipe;
    return QS_OK;
}

/* ---- Formats of tensors ---- */

static qs_status parameter_bind(const qs_tensor_choice *tensor, const qs_graph *graph, qs_tensor_table *out) {
    int index = 0;
    while (index < graph->parameters && strcmp(graph->parameter[index].name, tensor->name) != 0)
        index++;
    if (index == graph->parameters)
        return qs_fail(QS_MISMATCH,
                       "tensor %s: model %s has no operator and no parameter of that name; outputs are named after their operator, "
                       "inputs after themselves, parameters as in \"conv1.weights\"",
                       tensor->name, graph->name);
    if (graph->parameter[index].gradient == QS_ROLE_COUNT)
        return qs_fail(QS_MISMATCH, "tensor %s: running statistics stay in fp32; leave it out", tensor->name);
    if (tensor->saved)
        return qs_fail(QS_MISMATCH, "tensor %s: saved as %s, but the masters of parameters are kept in fp32; leave \"saved\" out",
                       tensor->name, tensor->saved->name);
    out->parameter[index] = tensor;
    return QS_OK;
}

static qs_status value_bind(const qs_tensor_choice *tensor, const qs_graph *graph, int node, qs_tensor_table *out) {
    const qs_op *op = graph->node[node].op;
    if (op && op->kind == QS_FIXED) return qs_fail(QS_MISMATCH, "tensor %s: the loss stays in fp32; leave it out", tensor->name);
    if (op && op->alias)
        return qs_fail(QS_MISMATCH, "tensor %s: %s moves no data, its output is the tensor %s; name that one", tensor->name, op->name,
                       graph->node[graph->node[node].input[0]].name);
    if (!op && graph->samples.input[node].type == QS_INPUT_I32)
        return qs_fail(QS_MISMATCH, "tensor %s: an input of integers, which are not rounded; leave it out", tensor->name);
    out->value[node] = tensor;
    return QS_OK;
}

/* ---- Recomputed blocks ---- */

static int block_find(const qs_graph *graph, const qs_blocks *blocks, const char *name) {
    int b = 0;
    while (b < blocks->blocks && strcmp(graph->node[blocks->block[b].first].name, name) != 0)
        b++;
    return b < blocks->blocks ? b : -1;
}

static qs_status blocks_bind(const qs_class_plan *plan, const qs_graph *graph, qs_tensor_table *out) {
    qs_blocks blocks = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_graph_blocks(graph, &blocks));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *out->recomputed, &out->recomputed));
    for (int n = 0; n < graph->nodes; n++)
        out->recomputed[n] = -1;
    for (int i = 0; i < plan->recomputes; i++) {
        const int b = block_find(graph, &blocks, plan->recompute[i]);
        if (b < 0)
            QS_GOTO(qs_fail(QS_MISMATCH,
                            "the plan recomputes the block %s, but no block of model %s begins with an operator of that name; see qsync "
                            "inspect --blocks",
                            plan->recompute[i], graph->name));
        for (int n = blocks.block[b].first; n < blocks.block[b].end; n++)
            out->recomputed[n] = blocks.block[b].end - 1;
    }
done:
    qs_blocks_release(&blocks);
    return status;
}

/* Each once. */
static qs_status block_append(const qs_graph *graph, const qs_block *block, qs_class_plan *plan) {
    size_t capacity = (size_t)plan->recomputes;
    for (int i = 0; i < plan->recomputes; i++)
        if (strcmp(plan->recompute[i], graph->node[block->first].name) == 0) return QS_OK;
    QS_TRY(qs_grow(&plan->recompute, &capacity, capacity + 1, sizeof *plan->recompute));
    snprintf(plan->recompute[plan->recomputes++], sizeof *plan->recompute, "%s", graph->node[block->first].name);
    return QS_OK;
}

qs_status qs_recompute_list(const char *text, const qs_graph *graph, qs_class_plan *plan) {
    const bool all = strcmp(text, "all") == 0, none = strcmp(text, "no") == 0;
    qs_blocks blocks = {0};
    qs_status status = QS_OK;
    free(plan->recompute);
    plan->recompute = NULL;
    plan->recomputes = 0;
    QS_GOTO(qs_graph_blocks(graph, &blocks));
    for (int b = 0; all && b + 1 < blocks.blocks; b++)
        QS_GOTO(block_append(graph, &blocks.block[b], plan));
    for (const char *at = text; !all && !none && *at;) {
        char name[QS_NAME];
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        const int b = block_find(graph, &blocks, name);
        if (b < 0)
            QS_GOTO(qs_fail(QS_USAGE,
                            "recompute %s: no block of model %s begins with an operator of that name (the first does with %s); see "
                            "qsync inspect --blocks",
                            name, graph->name, graph->node[blocks.block[0].first].name));
        QS_GOTO(block_append(graph, &blocks.block[b], plan));
        at += length + (at[length] == ',');
    }
done:
    qs_blocks_release(&blocks);
    return status;
}

/* ---- Both ---- */

qs_status qs_tensors_bind(const qs_class_plan *plan, const qs_graph *graph, qs_tensor_table *out) {
    qs_tensor_table table = {0};
    qs_status status = QS_OK;
    *out = table;
    if (plan && plan->recomputes > 0) QS_GOTO(qs_fail_within(blocks_bind(plan, graph, &table), "class %s", plan->class_name));
    if (plan && plan->tensors > 0) {
        QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *table.value, &table.value));
        QS_GOTO(qs_allocate((size_t)graph->parameters + 1, sizeof *table.parameter, &table.parameter));
    }
    for (int i = 0; plan && i < plan->tensors; i++) {
        const qs_tensor_choice *tensor = &plan->tensor[i];
        const int node = qs_graph_find(graph, tensor->name);
        QS_GOTO(qs_fail_within(node < 0 ? parameter_bind(tensor, graph, &table) : value_bind(tensor, graph, node, &table), "class %s",
                               plan->class_name));
    }
    *out = table;
    table = (qs_tensor_table){0};
done:
    qs_tensor_table_release(&table);
    return status;
}

void qs_tensor_table_release(qs_tensor_table *table) {
    free(table->value);
    free(table->parameter);
    free(table->recomputed);
    *table = (qs_tensor_table){0};
}
