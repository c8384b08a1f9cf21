// SPDX-License-Identifier: Apache-2.0
/* Options of plan with rules of their own: formats of tensors, and --keep-first-last. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/* ---- Planners that assign formats to tensors: their options, and what their plans come to ---- */

static const char *const demote_only[] = {"ratio", "order", "max-time"};
static const char *const others[] = {"high", "low", "low-gradient", "rounding", "promote-at"};

static const option_row option_rows[] = {
    {OPTION(assignment_options, high, "high", "FORMAT", "of tensors in high precision"), .usual = "fp(6,9,0)"},
    {OPTION(assignment_options, low, "low", "FORMAT", "of values and weights in low precision"), .usual = "fp(4,3,4)"},
    {OPTION(assignment_options, low_gradient, "low-gradient", "FORMAT", "of gradients in it"), .usual = "fp(5,2,0)"},
    {OPTION(assignment_options, rounding, "rounding", "NAME", "of tensors"), .usual = "nearest-even"},
    {OPTION(assignment_options, longest_ms, "max-time", "MS",
            "demote: on, beyond --ratio, until an iteration is predicted to take no longer")},
};
static const option_row planner_rows[] = {
    {OPTION(qs_assignment_options, ratio, "ratio", "R", "demote: least share of elements in low precision"), .standard = "1"},
    {OPTION(qs_assignment_options, order, "order", "NAME", "demote: groups of decreasing or increasing size first, or random by --seed"),
     .standard = "decreasing"},
    {OPTION(qs_assignment_options, promote_at, "promote-at", "X",
            "a step with more than this share of overflows promotes a tensor for good; 0: never"),
     .usual = "demote 0.01, others 0"},
};

void assignment_options_add(assignment_options *own, qs_assignment_options *to, option_table *table) {
    OPTIONS_ADD(table, planner_rows, to);
    OPTIONS_ADD(table, option_rows, own);
}

qs_status assignment_options_finish(const assignment_options *own, const char *planner, const option_table *table,
                                    qs_assignment_options *to, job_options *job) {
    const bool assigns = qs_planner_assigns(planner);
    if (strcmp(planner, "demote") != 0) QS_TRY(options_refuse(table, 3, demote_only, "--planner demote"));
    if (!assigns) return options_refuse(table, 5, others, "--planner uniform-fp, op, op-io or demote");
    if (own->high) QS_TRY(qs_fail_within(qs_format_find(own->high, &to->high), "--high"));
    if (own->low) QS_TRY(qs_fail_within(qs_format_find(own->low, &to->low), "--low"));
    if (own->low_gradient) QS_TRY(qs_fail_within(qs_format_find(own->low_gradient, &to->low_gradient), "--low-gradient"));
    if (own->rounding) QS_TRY(qs_fail_within(qs_rounding_find(own->rounding, &to->rounding), "--rounding"));
    to->longest_us = own->longest_ms * 1e3;
    if (!option_given(table, "loss-scaling")) job->loss_scaling = "dynamic";
    return QS_OK;
}

void assignment_print(const qs_class_plan *one) {
    const qs_assignment *sum = &one->assignment;
    if (sum->high_bytes == 0) return;
    printf("             tensors: %.4f of the elements low (ratio_lo); counted %s, all high %s, all low %s\n", sum->ratio_low,
           bytes_text((double)sum->bytes), bytes_text((double)sum->high_bytes), bytes_text((double)sum->low_bytes));
    printf("             allocated %s, all high %s, all low %s\n", bytes_text((double)one->predicted.arena_bytes),
           bytes_text((double)sum->high_arena_bytes), bytes_text((double)sum->low_arena_bytes));
}

/* ---- --keep-first-last: pins on the first and the last adjustable operator of a model, in every class that has the recipe ---- */

static int adjustable_from(const qs_graph *graph, int node, int direction) {
    while (node >= graph->samples.inputs && node < graph->nodes && graph->node[node].op->kind != QS_ADJUSTABLE)
        node += direction;
    return node;
}

static void choice_set(const qs_graph *graph, int node, const char *recipe, qs_operator_choice *out) {
    *out = (qs_operator_choice){.pin = true};
    snprintf(out->name, sizeof out->name, "%s", graph->node[node].name);
    snprintf(out->recipe, sizeof out->recipe, "%s", recipe);
}

static qs_status class_fill(const qs_graph *graph, const char *class_name, const char *recipe, qs_class_plan *out) {
    const int first = adjustable_from(graph, graph->samples.inputs, 1), last = adjustable_from(graph, graph->nodes - 1, -1);
    snprintf(out->class_name, sizeof out->class_name, "%s", class_name);
    QS_TRY(qs_allocate(2, sizeof *out->operator_, &out->operator_));
    choice_set(graph, first, recipe, &out->operator_[out->operators++]);
    if (last != first) choice_set(graph, last, recipe, &out->operator_[out->operators++]);
    return QS_OK;
}

static bool runs(const qs_class *one, const char *recipe) {
    qs_recipe known[QS_MAX_FORMATS];
    int count = 0;
    if (qs_class_recipes(one, QS_MAX_FORMATS, known, &count) != QS_OK) return false;
    for (int i = 0; i < count; i++)
        if (strcmp(known[i].name, recipe) == 0) return true;
    return false;
}

qs_status plan_ends_pin(const qs_graph *graph, const qs_cluster *cluster, const char *recipe, qs_plan *out) {
    qs_job_default(&out->job);
    QS_TRY(qs_allocate(1, sizeof *out->recipe, &out->recipe));
    out->recipes = 1;
    QS_TRY(qs_recipe_builtin(recipe, out->recipe));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    for (int c = 0; c < cluster->classes; c++)
        if (runs(&cluster->class_[c], recipe)) QS_TRY(class_fill(graph, cluster->class_[c].name, recipe, &out->class_[out->classes++]));
    if (out->classes > 0) return QS_OK;
    return qs_fail(QS_USAGE, "--keep-first-last %s: no class has that recipe", recipe);
}
