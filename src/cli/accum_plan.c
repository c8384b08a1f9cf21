// SPDX-License-Identifier: Apache-2.0
/* Accumulators of plans: the options by which plan and accum say them, and accum MODEL --plan, which gives them to the GEMMs of a plan. */
#include <stdlib.h>
#include <string.h>

#include "accum.h"

static const option_row option_rows[] = {
    {OPTION(accumulate_options, rule, "accumulate", "RULE",
            "narrow accumulators: \"fp(8,auto)/chunk64/align-truncate\", widths from each GEMM's length; or a number")},
    {OPTION(accumulate_options, bits_off, "accumulator-bits-off", "K", "so many mantissa bits more than auto says, or fewer: -1"),
     .standard = "0", .minimum = -QS_WIDEST_ADDER, .needs = "accumulate"},
    {OPTION(accumulate_options, widths, "accumulator-widths", "BY",
            "auto by the formula of variance retention, or by what the adder retains: adder"),
     .usual = "formula", .needs = "accumulate"},
};

void accumulate_options_add(accumulate_options *options, option_table *table) {
    OPTIONS_ADD(table, option_rows, options);
}

qs_status accumulate_options_read(const accumulate_options *options, qs_accumulation_rule *out) {
    QS_TRY(qs_fail_within(qs_accumulation_rule_find(options->rule, out), "--accumulate"));
    out->bits_more = options->bits_off;
    out->by_adder = options->widths && strcmp(options->widths, "adder") == 0;
    if (options->widths && !out->by_adder && strcmp(options->widths, "formula") != 0)
        return qs_fail(QS_USAGE, "--accumulator-widths %s: formula or adder", options->widths);
    if ((options->widths || options->bits_off) && !out->by_length)
        return qs_fail(QS_USAGE, "--accumulate %s: one width for all; --accumulator-bits-off and --accumulator-widths go with fp(e,auto)",
                       options->rule);
    return QS_OK;
}

/* ---- accum MODEL --plan ---- */

static qs_status operator_print(const qs_plan *plan, const qs_operator_choice *choice, int columns) {
    char text[QS_NARROW_TEXT];
    qs_recipe recipe;
    QS_TRY(qs_choice_recipe(plan, choice, &recipe));
    printf("  %-*s %-16s", columns, choice->name, choice->recipe);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        printf(" %-34s", qs_gemm_product_bits(&recipe, gemm) == 0 ? "int32" : qs_narrow_text(&recipe.accumulator[gemm], text));
    printf("\n");
    return QS_OK;
}

static qs_status plan_print(const qs_plan *plan) {
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *one = &plan->class_[c];
        int columns = 28;
        for (int i = 0; i < one->operators; i++)
            columns = name_columns(columns, one->operator_[i].name);
        printf("class %s\n  %-*s %-16s %-34s %-34s %-34s\n", one->class_name, columns, "operator", "recipe", "forward", "input gradient",
               "weight gradient");
        for (int i = 0; i < one->operators; i++)
            QS_TRY(operator_print(plan, &one->operator_[i], columns));
    }
    return QS_OK;
}

static qs_status plan_json(const qs_plan *plan) {
    char *text = NULL;
    QS_TRY(qs_plan_text(plan, &text));
    puts(text);
    free(text);
    return QS_OK;
}

qs_status accum_plan(const accum_planning *what) {
    qs_accumulation_rule rule;
    qs_plan plan = {0};
    qs_status status;
    QS_TRY(accumulate_options_read(&what->accumulate, &rule));
    if (what->out) QS_TRY(output_check(what->out));
    QS_TRY(qs_plan_read(what->plan_file, &plan));
    QS_GOTO(qs_plan_accumulate(&rule, what->graph, what->batch, what->statistics, &plan));
    if (what->out) QS_GOTO(qs_plan_write(what->out, &plan));
    status = what->json ? plan_json(&plan) : plan_print(&plan);
done:
    qs_plan_release(&plan);
    return status;
}
