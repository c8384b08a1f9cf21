// SPDX-License-Identifier: Apache-2.0
/* Storage format of every value (qsync.md §4.3): float recipes write their own format, fixed-point ones what their adjustable readers need,
 * dependent operators follow their inputs. */
#include <stdlib.h>

#include "schedule_internal.h"

static const qs_format *widest(const qs_format *a, const qs_format *b) {
    if (!a) return b;
    if (!b) return a;
    return qs_format_at_least(a, b) ? a : b;
}

/* What the adjustable readers of each value need, reached through dependent operators; NULL where there is none. */
static void needs_collect(const qs_lowerer *lowerer, const qs_format **need) {
    for (int n = lowerer->graph->nodes - 1; n > 0; n--) {
        const qs_node *node = &lowerer->graph->node[n];
        const qs_format *wanted = NULL;
        if (node->op->kind == QS_ADJUSTABLE) {
            const qs_format *src = qs__recipe_of(lowerer, n)->forward.src.format;
            wanted = src->kind == QS_KIND_INTEGER ? lowerer->in->half : src;
        } else if (node->op->kind == QS_DEPENDENT) {
            wanted = need[n];
        }
        for (int i = 0; i < node->inputs; i++)
            need[node->input[i]] = widest(need[node->input[i]], wanted);
    }
}

static const qs_format *adjustable_format(const qs_lowerer *lowerer, int n, const qs_format *need) {
    const qs_recipe *recipe = qs__recipe_of(lowerer, n);
    if (recipe->forward.dst) return recipe->forward.dst;
    if (recipe->forward.src.format->kind == QS_KIND_FLOAT) return recipe->forward.src.format;
    return need ? need : lowerer->fp32;
}

qs_status qs__formats_assign(qs_lowerer *lowerer) {
    const qs_graph *graph = lowerer->graph;
    const qs_format **value = NULL, **need = NULL;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *value, &value));
    lowerer->out->value_format = value;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *need, &need));
    needs_collect(lowerer, need);
    value[0] = lowerer->fp32;
    for (int n = 1; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        if (node->op->kind == QS_ADJUSTABLE) value[n] = adjustable_format(lowerer, n, need[n]);
        if (node->op->kind == QS_FIXED) value[n] = lowerer->fp32;
        if (node->op->kind == QS_DEPENDENT)
            for (int i = 0; i < node->inputs; i++)
                value[n] = widest(value[n], value[node->input[i]]);
    }
    free(need);
    return QS_OK;
}
