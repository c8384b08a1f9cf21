// SPDX-License-Identifier: Apache-2.0
/* Facts about values (docs/method.md §4.3), the forms in which factors of products are read, and which segments a change of them reaches.
 * Storage formats: float recipes write their own, fixed-point ones what their adjustable readers need, dependent operators follow their
 * inputs. Changes spread through dependent operators (Algorithm 1): needs upwards, formats downwards, each node once. What a
 * change has still to look at is marked; what it replaces goes into a journal. */
#include "schedule_internal.h"

/* ---- Forms of factors ---- */

bool qs__quantizer_same(const qs_quantizer *a, const qs_quantizer *b) {
    return a->format == b->format && a->blocks == b->blocks && a->granularity == b->granularity && a->shift_groups == b->shift_groups &&
           a->hadamard == b->hadamard && a->over_samples == b->over_samples && a->channel_is_input == b->channel_is_input &&
           a->rounding == b->rounding && a->overflow == b->overflow && a->least_squares == b->least_squares &&
           a->second_draw == b->second_draw;
}

const qs_quantizer *qs__factor_quantizer(const qs_recipe *recipe, qs_gemm gemm, int factor) {
    const qs_quantizer *const all[QS_GEMMS][2] = {
        [QS_GEMM_FORWARD] = {&recipe->forward.src, &recipe->forward.weights},
        [QS_GEMM_INPUT_GRADIENT] = {&recipe->input_gradient.diff_dst, &recipe->input_gradient.weights},
        [QS_GEMM_WEIGHT_GRADIENT] = {&recipe->weight_gradient.src, &recipe->weight_gradient.diff_dst}};
    return all[gemm][factor];
}

/* Of an input that is a factor of the node's forward product; NULL: it is none. */
static const qs_quantizer *input_quantizer(const qs_schedule_draft *draft, int node, int input) {
    const qs_pass *pass = qs__forward_pass(&draft->in, node);
    for (int f = 0; pass->product && f < 2; f++) {
        const qs_pass_operand *operand = &pass->operand[qs_pass_position(pass, pass->product->factor[f])];
        if (operand->source == QS_FROM_INPUT && operand->of == input) return qs__factor_quantizer(draft->recipe[node], QS_GEMM_FORWARD, f);
    }
    return NULL;
}

/* The factors of both are activations: no step of a channel, no shift group and no transform of the one would fit the other, whose channels
 * may be the positions of the first, so that each has one step, and no blocks. */
static bool multiplies_activations(const qs_schedule_draft *draft, int node) {
    return !qs_graph_parameter(draft->graph, node, QS_WEIGHTS);
}

/* Its blocks are of what the product's sum runs over. */
static bool lies_along(const qs_quantizer *factor, qs_gemm gemm) {
    return factor->channel_is_input == (gemm == QS_GEMM_FORWARD) && factor->over_samples == (gemm == QS_GEMM_WEIGHT_GRADIENT);
}

/* Both factors of a product take a Hadamard transform (docs/method.md §9.5) along its inner dimension: input channels forward, output
 * channels in the input gradient, samples in the weight gradient. Blocks are the transform: those of one factor must be those of the other,
 * 0 where there is none. Blocks that share a scale lie along the same dimension, of either factor or of both. */
qs_status qs__transforms_check(const qs_schedule_draft *draft, int node) {
    static const char *const along[QS_GEMMS] = {"in", "out", "samples"};
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        const qs_quantizer *const factor[2] = {qs__factor_quantizer(draft->recipe[node], gemm, 0),
                                               qs__factor_quantizer(draft->recipe[node], gemm, 1)};
        const char *name = draft->graph->node[node].name;
        char first[64], second[64];
        if (multiplies_activations(draft, node)) continue;
        for (int f = 0; f < 2; f++)
            if (factor[f]->blocks && !lies_along(factor[f], gemm))
                return qs_fail(QS_UNSUPPORTED, "operator %s: %s for the %s: blocks lie along(%s) there", name,
                               qs_quantizer_text(factor[f], first), qs_gemm_name(gemm), along[gemm]);
        if (factor[0]->hadamard == 0 && factor[1]->hadamard == 0) continue;
        bool agree = factor[0]->hadamard == factor[1]->hadamard;
        for (int f = 0; f < 2; f++)
            agree = agree && lies_along(factor[f], gemm);
        if (agree) continue;
        return qs_fail(QS_UNSUPPORTED, "operator %s: the factors of the %s are %s and %s: both take the same hadamardB(%s), or neither",
                       name, qs_gemm_name(gemm), qs_quantizer_text(factor[0], first), qs_quantizer_text(factor[1], second), along[gemm]);
    }
    return QS_OK;
}

qs_quantizer qs__operand_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    const qs_node *one = &draft->graph->node[node];
    qs_quantizer form = *quantizer;
    const bool one_step = multiplies_activations(draft, node);
    if (quantizer->granularity != QS_HADAMARD && !one_step) return form;
    /* Of channels, within a group of the convolution: a group's sums know no other channels. */
    const int64_t channels = (quantizer->channel_is_input ? draft->graph->node[one->input[0]].shape : one->shape).dim[1];
    if (!one_step)
        form.hadamard =
            qs_hadamard_block(quantizer->hadamard, quantizer->over_samples ? draft->in.batch : channels / one->attributes.groups);
    if (!one_step && form.hadamard > 1) return form;
    form.granularity = QS_PER_TENSOR;
    form.blocks = NULL;
    form.hadamard = form.shift_groups = 0;
    form.channel_is_input = form.over_samples = false;
    return form;
}

qs_quantizer qs__weights_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    qs_quantizer form = qs__operand_form(draft, node, quantizer);
    if (draft->graph->node[node].op->mirror && form.granularity != QS_PER_TENSOR) form.channel_is_input = !form.channel_is_input;
    return form;
}

qs_quantizer qs__input_form(const qs_schedule_draft *draft, int node, int input, const qs_quantizer *quantizer) {
    const qs_format *format = quantizer->format;
    qs_quantizer form = qs__operand_form(draft, node, quantizer);
    if (format->kind != QS_KIND_INTEGER || format->is_unsigned || format->is_logarithmic || form.granularity == QS_HADAMARD) return form;
    if (draft->recipe[node]->weight_gradient.diff_dst.format->kind != QS_KIND_INTEGER) return form;
    const qs_format *other = draft->unsigned_of[format->bits];
    if (other && draft->topology.non_negative[draft->graph->node[node].input[input]]) form.format = other;
    return form;
}

/* ---- Facts ---- */

const qs_format *qs__wider_format(const qs_format *a, const qs_format *b) {
    if (!a || !b) return a ? a : b;
    return qs_format_at_least(a, b) ? a : b;
}

const qs_format *qs__need_of_reader(const qs_schedule_draft *draft, int edge) {
    const int n = edge / QS_MAX_INPUTS;
    const qs_op_class kind = draft->graph->node[n].op->kind;
    if (draft->graph->node[n].op->inner) return qs__value_format(draft, n);
    const qs_quantizer *factor = kind == QS_ADJUSTABLE ? input_quantizer(draft, n, edge % QS_MAX_INPUTS) : NULL;
    if (factor) return factor->format->kind == QS_KIND_INTEGER ? draft->in.half : factor->format;
    return kind == QS_DEPENDENT ? draft->facts[n].need : NULL;
}

/* Ids, and what says which positions count: int32 in fp32 slots, which no reader converts. */
static bool holds_integers(const qs_graph *graph, int n) {
    return !graph->node[n].op && graph->samples.input[n].type == QS_INPUT_I32;
}

bool qs__reads_integers_alone(const qs_graph *graph, int n) {
    for (int i = 0; i < graph->node[n].inputs; i++)
        if (!holds_integers(graph, graph->node[n].input[i])) return false;
    return graph->node[n].op != NULL;
}

const qs_format *qs__value_format(const qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_format *format = NULL;
    if (!node->op || node->op->kind == QS_FIXED) return draft->fp32;
    if (node->op->kind == QS_ADJUSTABLE) {
        if (recipe->forward.dst) return recipe->forward.dst;
        if (recipe->forward.src.format->kind == QS_KIND_FLOAT) return recipe->forward.src.format;
        return draft->facts[n].need ? draft->facts[n].need : draft->fp32;
    }
    for (int i = 0; i < node->inputs; i++)
        if (!holds_integers(draft->graph, node->input[i])) format = qs__wider_format(format, draft->facts[node->input[i]].value);
    if (!format) format = draft->facts[n].need;
    return format ? format : draft->fp32;
}

qs_quantizer qs__wanted_form(const qs_schedule_draft *draft, int n, int input) {
    const qs_node *node = &draft->graph->node[n];
    if (!node->op || qs__is_alias(&draft->in, n)) return (qs_quantizer){0};
    if (holds_integers(draft->graph, node->input[input])) return (qs_quantizer){.format = draft->fp32, .rounding = QS_NEAREST_EVEN};
    if (node->op->norm && node->op->norm->quantized) return (qs_quantizer){.format = draft->int8, .rounding = QS_NEAREST_EVEN};
    if (node->op->kind != QS_ADJUSTABLE || node->op->inner)
        return (qs_quantizer){.format = draft->facts[n].value, .rounding = QS_NEAREST_EVEN};
    const qs_quantizer *factor = input_quantizer(draft, n, input);
    return factor ? qs__input_form(draft, n, input, factor) : (qs_quantizer){0};
}

/* ---- Marks and the journal ----
 *
 * Marks are sets of small numbers that are visited in order while they grow ahead of the visit. The journal has what changes replaced,
 * newest last: taking a change back puts its entries back in reverse order, without emitting anything (draft.c). */

enum { WORD = 64 };

qs_status qs__marks_make(int count, qs_marks *out) {
    out->words = count / WORD + 1;
    return qs_allocate((size_t)out->words, sizeof *out->word, &out->word);
}

void qs__mark(qs_marks *marks, int index) {
    marks->word[index / WORD] |= (uint64_t)1 << (index % WORD);
}

static int unmark(qs_marks *marks, int index) {
    marks->word[index / WORD] &= ~((uint64_t)1 << (index % WORD));
    return index;
}

int qs__mark_first(qs_marks *marks) {
    for (int at = 0; at < marks->words; at++)
        if (marks->word[at]) return unmark(marks, at * WORD + __builtin_ctzll(marks->word[at]));
    return -1;
}

int qs__mark_last(qs_marks *marks) {
    for (int at = marks->words - 1; at >= 0; at--)
        if (marks->word[at]) return unmark(marks, at * WORD + WORD - 1 - __builtin_clzll(marks->word[at]));
    return -1;
}

qs_status qs__journal_add(qs_schedule_draft *draft, qs_entry entry) {
    qs_journal *journal = &draft->journal;
    if (!draft->journaling) return QS_OK;
    QS_TRY(qs_grow(&journal->entry, &journal->entry_capacity, (size_t)journal->entries + 1, sizeof *journal->entry));
    journal->entry[journal->entries++] = entry;
    return QS_OK;
}

/* ---- Changes ---- */

/* The segment has to be emitted again, and with any of a block that is computed again what is of it. */
static void segment_mark(qs_schedule_draft *draft, int segment) {
    const int nodes = draft->graph->nodes, node = segment < nodes ? segment : 2 * nodes - 1 - segment;
    const int last = draft->recompute.last ? draft->recompute.last[node] : -1;
    qs__mark(&draft->dirty, segment);
    if (last >= 0) qs__mark(&draft->dirty, qs__backward_segment(draft, last));
}

static void node_dirty(qs_schedule_draft *draft, int n) {
    segment_mark(draft, qs__forward_segment(n));
    segment_mark(draft, qs__backward_segment(draft, n));
}

static qs_status facts_keep(qs_schedule_draft *draft, int n) {
    return qs__journal_add(draft, (qs_entry){.kind = QS_ENTRY_FACTS, .index = n, .old.facts = draft->facts[n]});
}

/* Who shares a copy of a value may have to make it, or may find it made. */
static void sharers_dirty(qs_schedule_draft *draft, int value, const qs_quantizer *want) {
    const qs_topology *topology = &draft->topology;
    for (int i = topology->first_reader[value]; want->format && i < topology->first_reader[value + 1]; i++) {
        const int edge = topology->reader[i], reader = edge / QS_MAX_INPUTS;
        if (qs__quantizer_same(&draft->facts[reader].want[edge % QS_MAX_INPUTS], want)) node_dirty(draft, reader);
    }
}

/* Everything about a node whose facts or recipe changed. Who writes its inputs, and the gradient of its output, may have to deliver the
 * largest magnitude, or not any more (convert.c). */
static qs_status node_update(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const int edge = draft->topology.last[n];
    node_dirty(draft, n);
    for (int i = 0; i < node->inputs; i++)
        segment_mark(draft, qs__forward_segment(draft->topology.root[node->input[i]]));
    if (edge >= 0) segment_mark(draft, qs__backward_segment(draft, edge / QS_MAX_INPUTS));
    QS_TRY(facts_keep(draft, n));
    for (int i = 0; i < node->inputs; i++) {
        qs_quantizer *want = &draft->facts[n].want[i];
        const qs_quantizer now = qs__wanted_form(draft, n, i);
        if (qs__quantizer_same(want, &now)) continue;
        sharers_dirty(draft, node->input[i], want);
        sharers_dirty(draft, node->input[i], &now);
        *want = now;
    }
    return QS_OK;
}

qs_status qs__facts_update(qs_schedule_draft *draft) {
    const qs_graph *graph = draft->graph;
    const qs_topology *topology = &draft->topology;
    for (int n; (n = qs__mark_last(&draft->need_dirty)) >= 0;) {
        /* What the adjustable readers of the value need, reached through dependent operators; NULL where there is none. */
        const qs_format *need = NULL;
        for (int i = topology->first_reader[n + 1] - 1; i >= topology->first_reader[n]; i--)
            need = qs__wider_format(need, qs__need_of_reader(draft, topology->reader[i]));
        if (need == draft->facts[n].need) continue;
        QS_TRY(facts_keep(draft, n));
        draft->facts[n].need = need;
        const qs_op *op = graph->node[n].op;
        if (!op) continue;
        if (op->kind == QS_ADJUSTABLE || qs__reads_integers_alone(graph, n)) qs__mark(&draft->value_dirty, n);
        for (int i = 0; (op->kind == QS_DEPENDENT || op->inner) && i < graph->node[n].inputs; i++)
            qs__mark(&draft->need_dirty, graph->node[n].input[i]);
    }
    for (int n; (n = qs__mark_first(&draft->value_dirty)) >= 0;) {
        const qs_format *value = qs__value_format(draft, n);
        if (value == draft->facts[n].value) continue;
        QS_TRY(facts_keep(draft, n));
        draft->facts[n].value = value;
        qs__mark(&draft->changed, n);
        /* A value of another format is read, converted and differentiated in another way by all who touch it. */
        for (int i = topology->first_reader[n]; i < topology->first_reader[n + 1]; i++) {
            const int reader = topology->reader[i] / QS_MAX_INPUTS;
            node_dirty(draft, reader);
            if (graph->node[reader].op->kind == QS_DEPENDENT) qs__mark(&draft->value_dirty, reader);
        }
    }
    for (int n; (n = qs__mark_first(&draft->changed)) >= 0;)
        QS_TRY(node_update(draft, n));
    return QS_OK;
}
