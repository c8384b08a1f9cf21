// SPDX-License-Identifier: Apache-2.0
/* Facts about values (docs/method.md §4.3) and which segments they reach. Storage formats: float recipes write their own, fixed-point ones
 * what their adjustable readers need, dependent operators follow their inputs. Changes spread through dependent operators (Algorithm 1):
 * needs upwards, formats downwards, each node once. */
#include "schedule_internal.h"

const qs_format *qs__wider_format(const qs_format *a, const qs_format *b) {
    if (!a) return b;
    if (!b) return a;
    return qs_format_at_least(a, b) ? a : b;
}

static bool is_dependent(const qs_schedule_draft *draft, int n) {
    return n > 0 && draft->graph->node[n].op->kind == QS_DEPENDENT;
}

const qs_format *qs__need_of_reader(const qs_schedule_draft *draft, int edge) {
    const int n = edge / QS_MAX_INPUTS;
    const qs_op_class kind = draft->graph->node[n].op->kind;
    const qs_quantizer *factor = kind == QS_ADJUSTABLE ? qs__input_quantizer(draft, n, edge % QS_MAX_INPUTS) : NULL;
    if (factor) return factor->format->kind == QS_KIND_INTEGER ? draft->in.half : factor->format;
    return kind == QS_DEPENDENT ? draft->facts[n].need : NULL;
}

/* What the adjustable readers of a value need, reached through dependent operators; NULL where there is none. */
static const qs_format *need_of(const qs_schedule_draft *draft, int value) {
    const qs_topology *topology = &draft->topology;
    const qs_format *need = NULL;
    for (int i = topology->first_reader[value + 1] - 1; i >= topology->first_reader[value]; i--)
        need = qs__wider_format(need, qs__need_of_reader(draft, topology->reader[i]));
    return need;
}

const qs_format *qs__value_format(const qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_format *format = NULL;
    if (n == 0 || node->op->kind == QS_FIXED) return draft->fp32;
    if (node->op->kind == QS_ADJUSTABLE) {
        if (recipe->forward.dst) return recipe->forward.dst;
        if (recipe->forward.src.format->kind == QS_KIND_FLOAT) return recipe->forward.src.format;
        return draft->facts[n].need ? draft->facts[n].need : draft->fp32;
    }
    for (int i = 0; i < node->inputs; i++)
        format = qs__wider_format(format, draft->facts[node->input[i]].value);
    return format;
}

qs_quantizer qs__wanted_form(const qs_schedule_draft *draft, int n, int input) {
    const qs_node *node = &draft->graph->node[n];
    if (n == 0 || qs__is_alias(&draft->in, n)) return (qs_quantizer){0};
    if (node->op->norm && node->op->norm->quantized) return (qs_quantizer){.format = draft->int8, .rounding = QS_NEAREST_EVEN};
    if (node->op->kind != QS_ADJUSTABLE) return (qs_quantizer){.format = draft->facts[n].value, .rounding = QS_NEAREST_EVEN};
    const qs_quantizer *factor = qs__input_quantizer(draft, n, input);
    return factor ? qs__input_form(draft, n, input, factor) : (qs_quantizer){0};
}

static void node_dirty(qs_schedule_draft *draft, int n) {
    qs__mark(&draft->dirty, qs__forward_segment(n));
    qs__mark(&draft->dirty, qs__backward_segment(draft, n));
}

static qs_status facts_keep(qs_schedule_draft *draft, int n) {
    return qs__journal_add(draft, (qs_entry){.kind = QS_ENTRY_FACTS, .index = n, .old.facts = draft->facts[n]});
}

static qs_status needs_update(qs_schedule_draft *draft) {
    const qs_graph *graph = draft->graph;
    for (int n; (n = qs__mark_previous(&draft->need_dirty, graph->nodes - 1)) >= 0;) {
        const qs_format *need = need_of(draft, n);
        qs__unmark(&draft->need_dirty, n);
        if (need == draft->facts[n].need) continue;
        QS_TRY(facts_keep(draft, n));
        draft->facts[n].need = need;
        if (n > 0 && graph->node[n].op->kind == QS_ADJUSTABLE) qs__mark(&draft->value_dirty, n);
        for (int i = 0; is_dependent(draft, n) && i < graph->node[n].inputs; i++)
            qs__mark(&draft->need_dirty, graph->node[n].input[i]);
    }
    return QS_OK;
}

/* A value of another format is read, converted and differentiated in another way by all who touch it. */
static qs_status values_update(qs_schedule_draft *draft) {
    const qs_topology *topology = &draft->topology;
    for (int n; (n = qs__mark_next(&draft->value_dirty, 0)) >= 0;) {
        const qs_format *value = qs__value_format(draft, n);
        qs__unmark(&draft->value_dirty, n);
        if (value == draft->facts[n].value) continue;
        QS_TRY(facts_keep(draft, n));
        draft->facts[n].value = value;
        qs__mark(&draft->changed, n);
        for (int i = topology->first_reader[n]; i < topology->first_reader[n + 1]; i++) {
            const int reader = topology->reader[i] / QS_MAX_INPUTS;
            node_dirty(draft, reader);
            if (is_dependent(draft, reader)) qs__mark(&draft->value_dirty, reader);
        }
    }
    return QS_OK;
}

/* Who shares a copy may have to make it, or may find it made. */
static void sharers_dirty(qs_schedule_draft *draft, int value, const qs_quantizer *want) {
    const qs_topology *topology = &draft->topology;
    for (int i = topology->first_reader[value]; want->format && i < topology->first_reader[value + 1]; i++) {
        const int edge = topology->reader[i], reader = edge / QS_MAX_INPUTS;
        if (qs__quantizer_same(&draft->facts[reader].want[edge % QS_MAX_INPUTS], want)) node_dirty(draft, reader);
    }
}

static qs_status wants_update(qs_schedule_draft *draft) {
    for (int n; (n = qs__mark_next(&draft->changed, 0)) >= 0;) {
        const qs_node *node = &draft->graph->node[n];
        qs__unmark(&draft->changed, n);
        node_dirty(draft, n);
        qs__absmax_dirty(draft, n);
        QS_TRY(facts_keep(draft, n));
        for (int i = 0; i < node->inputs; i++) {
            qs_quantizer *want = &draft->facts[n].want[i];
            const qs_quantizer now = qs__wanted_form(draft, n, i);
            if (qs__quantizer_same(want, &now)) continue;
            sharers_dirty(draft, node->input[i], want);
            sharers_dirty(draft, node->input[i], &now);
            *want = now;
        }
    }
    return QS_OK;
}

qs_status qs__facts_update(qs_schedule_draft *draft) {
    QS_TRY(needs_update(draft));
    QS_TRY(values_update(draft));
    return wants_update(draft);
}
