// SPDX-License-Identifier: Apache-2.0
/* Accumulators of a model's GEMMs by a rule: for each the width that its length asks for, or one width for all. */
#include <math.h>
#include <string.h>

#include "qsync/accumulator.h"

/* ---- The rule's text ------------------------------------------------------------------------------------------------------- */

qs_status qs_accumulation_rule_find(const char *text, qs_accumulation_rule *out) {
    static const char by_length[] = ",auto)";
    char one[QS_NARROW_TEXT];
    const char *at = strstr(text, by_length);
    qs_accumulation_rule rule = {0};
    if (strcmp(text, "fp32") == 0) return qs_fail(QS_USAGE, "accumulators \"fp32\": that is what a plan without a rule has");
    if (at) {
        const int used = snprintf(one, sizeof one, "%.*s,1)%s", (int)(at - text), text, at + sizeof by_length - 1);
        if (used >= (int)sizeof one) return qs_fail(QS_USAGE, "accumulators \"%.40s...\": the text is too long", text);
        text = one;
    }
    QS_TRY(qs_fail_within(qs_narrow_find(text, &rule.like), "a rule like \"fp(8,auto)/chunk64/align-truncate\""));
    rule.by_length = at != NULL;
    *out = rule;
    return QS_OK;
}

/* ---- One GEMM ---------------------------------------------------------------------------------------------------------------- */

/* Of a product of two activations: multiplications of the pass by elements of its result. */
static int64_t activations_length(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch) {
    const qs_pass *pass = qs_op_pass(graph->node[node].op, qs_gemm_name(gemm));
    const qs_case one = qs_graph_case(graph, node, pass, batch);
    int written = 0;
    while (!qs_pass_writes(pass, written))
        written++;
    if (pass->operand[written].source == QS_TO_INPUT_GRADIENT && graph->node[node].input[pass->operand[written].of] < graph->samples.inputs)
        return 0;
    return (int64_t)(qs_case_flops(&one) / 2) / qs_shape_count(&one.operand[written].shape);
}

int64_t qs_gemm_length(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch) {
    const qs_node *one = &graph->node[node];
    if (!one->op || !qs_op_multiplies(one->op)) return 0;
    const qs_parameter *parameter = qs_graph_parameter(graph, node, QS_WEIGHTS);
    if (!parameter) return activations_length(graph, node, gemm, batch);
    const qs_shape *weights = &parameter->shape; /* [O, I / groups, kernel ...]; of a mirrored operator I is what it writes */
    const bool mirrored = one->op->mirror != NULL;
    const qs_shape outputs = qs_graph_shape(graph, mirrored ? one->input[0] : node, batch);
    if (gemm == QS_GEMM_INPUT_GRADIENT && one->input[0] == 0) return 0;
    if (mirrored && gemm != QS_GEMM_WEIGHT_GRADIENT) gemm = gemm == QS_GEMM_FORWARD ? QS_GEMM_INPUT_GRADIENT : QS_GEMM_FORWARD;
    switch (gemm) {
    case QS_GEMM_FORWARD:
        return qs_shape_count(weights) / weights->dim[0];
    case QS_GEMM_INPUT_GRADIENT:
        return qs_shape_count(weights) / weights->dim[1] / one->attributes.groups;
    case QS_GEMM_WEIGHT_GRADIENT:
        return qs_shape_count(&outputs) / weights->dim[0];
    case QS_GEMMS:
        break;
    }
    return 0;
}

/* Share of a tensor that is not zero, by its histogram of exponents; 1 where that was not measured. */
static double tensor_nonzero(const qs_tensor_statistics *tensor) {
    double counted = 0;
    for (int e = 0; tensor->range_histogram && e < QS_EXPONENTS; e++)
        counted += tensor->range_histogram[e];
    return counted > 0 && tensor->count > 0 ? fmin(counted / (double)tensor->count, 1) : 1;
}

double qs_gemm_nonzero(const qs_statistics *statistics, const char *operator_name, qs_gemm gemm) {
    for (int i = 0; statistics && i < statistics->operators; i++) {
        const qs_operator_statistics *row = &statistics->operator_[i];
        if (strcmp(row->name, operator_name) != 0) continue;
        const double src = tensor_nonzero(&row->src), weights = tensor_nonzero(&row->weights), diff_dst = tensor_nonzero(&row->diff_dst);
        return gemm == QS_GEMM_FORWARD ? src * weights : gemm == QS_GEMM_INPUT_GRADIENT ? diff_dst * weights : src * diff_dst;
    }
    return 1;
}

int qs_gemm_product_bits(const qs_recipe *recipe, qs_gemm gemm) {
    const qs_format *a, *b;
    qs_recipe_operands(recipe, gemm, &a, &b);
    return a->kind == QS_KIND_FLOAT && b->kind == QS_KIND_FLOAT ? a->mantissa_bits + b->mantissa_bits + 1 : 0;
}

/* Products wider than the formulas speak of need more than any narrow accumulator has. */
static qs_status width_by_length(const qs_accumulation_rule *rule, const qs_accumulation *sum, int *out) {
    *out = QS_MOST_ACCUMULATOR_BITS;
    if (sum->product_bits > QS_WIDEST_ADDER) return QS_OK;
    if (rule->by_adder) return qs_adder_bits(rule->like.adder, QS_ADDENDS_PRODUCTS, sum, out);
    return qs_accumulation_bits(sum, out);
}

/* At fp32's width and beyond nothing is narrow. */
static qs_narrow with_width(const qs_accumulation_rule *rule, int bits) {
    const int fp32 = qs_format_of("fp32")->mantissa_bits;
    qs_narrow out = rule->like;
    if (bits >= fp32) return (qs_narrow){0};
    out.mantissa_bits = bits > 1 ? bits : 1;
    return out;
}

static qs_status gemm_choose(const qs_accumulation_rule *rule, qs_accumulation sum, qs_narrow *out) {
    int bits = rule->like.mantissa_bits;
    sum.chunk = rule->like.chunk;
    if (rule->like.product_bits > 0 && rule->like.product_bits < sum.product_bits) sum.product_bits = rule->like.product_bits;
    if (rule->by_length) QS_TRY(width_by_length(rule, &sum, &bits));
    *out = with_width(rule, rule->by_length && bits < QS_MOST_ACCUMULATOR_BITS ? bits + rule->bits_more : bits);
    return QS_OK;
}

qs_status qs_accumulators_choose(const qs_accumulation_rule *rule, const qs_graph *graph, int node, int64_t batch,
                                 const qs_statistics *statistics, qs_recipe *recipe) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        const qs_accumulation sum = {.product_bits = qs_gemm_product_bits(recipe, gemm),
                                     .length = qs_gemm_length(graph, node, gemm, batch),
                                     .nonzero = fmax(qs_gemm_nonzero(statistics, graph->node[node].name, gemm), 1e-9)};
        if (sum.product_bits == 0 || sum.length == 0) continue;
        QS_TRY(qs_fail_within(gemm_choose(rule, sum, &recipe->accumulator[gemm]), "operator %s, %s", graph->node[node].name,
                              qs_gemm_name(gemm)));
    }
    return QS_OK;
}

qs_status qs_gemm_loss(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch, const qs_statistics *statistics,
                       const qs_recipe *recipe, double *out) {
    double ratio = 1;
    const qs_narrow *narrow = &recipe->accumulator[gemm];
    const int product_bits = qs_gemm_product_bits(recipe, gemm);
    qs_accumulation sum = {.product_bits = product_bits < QS_WIDEST_ADDER ? product_bits : QS_WIDEST_ADDER,
                           .length = qs_gemm_length(graph, node, gemm, batch),
                           .chunk = narrow->chunk,
                           .nonzero = fmax(qs_gemm_nonzero(statistics, graph->node[node].name, gemm), 1e-9)};
    *out = 0;
    if (!narrow->adder || product_bits == 0 || sum.length == 0) return QS_OK;
    if (narrow->product_bits > 0 && narrow->product_bits < sum.product_bits) sum.product_bits = narrow->product_bits;
    QS_TRY(qs_adder_retention(narrow->adder, QS_ADDENDS_PRODUCTS, &sum, narrow->mantissa_bits, &ratio));
    *out = fabs(1 - ratio);
    return QS_OK;
}

/* ---- A plan ------------------------------------------------------------------------------------------------------------------ */

static qs_status choice_of(qs_class_plan *one, const char *name, qs_operator_choice **out) {
    for (int i = 0; i < one->operators; i++)
        if (strcmp(one->operator_[i].name, name) == 0) {
            *out = &one->operator_[i];
            return QS_OK;
        }
    size_t capacity = (size_t)one->operators;
    QS_TRY(qs_grow(&one->operator_, &capacity, (size_t)one->operators + 1, sizeof *one->operator_));
    *out = &one->operator_[one->operators++];
    **out = (qs_operator_choice){.recipe = "fp32"};
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return QS_OK;
}

qs_status qs_plan_accumulate(const qs_accumulation_rule *rule, const qs_graph *graph, int64_t batch, const qs_statistics *statistics,
                             qs_plan *plan) {
    for (int c = 0; c < plan->classes; c++) {
        qs_class_plan *one = &plan->class_[c];
        for (int n = graph->samples.inputs; n < graph->nodes; n++) {
            qs_operator_choice *choice = NULL;
            qs_recipe recipe;
            if (!qs_op_multiplies(graph->node[n].op)) continue;
            QS_TRY(choice_of(one, graph->node[n].name, &choice));
            QS_TRY(qs_choice_recipe(plan, choice, &recipe));
            QS_TRY(qs_accumulators_choose(rule, graph, n, one->batch > 0 ? one->batch : batch, statistics, &recipe));
            qs_choice_accumulate(choice, qs_plan_recipe(plan, choice->recipe), recipe.accumulator);
        }
    }
    qs_plan_forget(plan);
    return QS_OK;
}
