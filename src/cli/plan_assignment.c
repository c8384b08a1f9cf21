// SPDX-License-Identifier: Apache-2.0
/* Planners that assign formats to tensors: their options, and what their plans come to. */
#include <string.h>

#include "plan_output.h"

static const char *const demote_only[] = {"ratio", "order", "max-time"};
static const char *const others[] = {"high", "low", "low-gradient", "rounding", "promote-at"};

void assignment_options_add(assignment_options *own, qs_assignment_options *to, option_table *table) {
    options_add(table, (option_row){"ratio", OPTION_REAL, &to->ratio, "R", "demote: least share of elements in low precision (1)", 0});
    options_add(table, (option_row){"order", OPTION_TEXT, &to->order, "NAME",
                                    "demote: groups of decreasing or increasing size first, or random by --seed (decreasing)", 0});
    options_add(table, (option_row){"max-time", OPTION_REAL, &own->longest_ms, "MS",
                                    "demote: on, beyond --ratio, until an iteration is predicted to take no longer", 0});
    options_add(table, (option_row){"high", OPTION_TEXT, &own->high, "FORMAT", "of tensors in high precision (fp(6,9,0))", 0});
    options_add(table, (option_row){"low", OPTION_TEXT, &own->low, "FORMAT", "of values and weights in low precision (fp(4,3,4))", 0});
    options_add(table, (option_row){"low-gradient", OPTION_TEXT, &own->low_gradient, "FORMAT", "of gradients in it (fp(5,2,0))", 0});
    options_add(table, (option_row){"rounding", OPTION_TEXT, &own->rounding, "NAME", "of tensors (nearest-even)", 0});
    options_add(table,
                (option_row){"promote-at", OPTION_REAL, &to->promote_at, "X",
                             "a step with more than this share of overflows promotes a tensor for good; 0: never (demote 0.01, others 0)",
                             0});
}

static qs_status none_given(const option_table *table, const char *const *name, size_t names, const char *planners) {
    for (size_t i = 0; i < names; i++)
        if (option_given(table, name[i])) return qs_fail(QS_USAGE, "--%s goes with --planner %s", name[i], planners);
    return QS_OK;
}

qs_status assignment_options_finish(const assignment_options *own, const char *planner, const option_table *table,
                                    qs_assignment_options *to, job_options *job) {
    const bool assigns = qs_planner_assigns(planner);
    if (strcmp(planner, "demote") != 0) QS_TRY(none_given(table, demote_only, sizeof demote_only / sizeof *demote_only, "demote"));
    if (!assigns) return none_given(table, others, sizeof others / sizeof *others, "uniform-fp, op, op-io or demote");
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
