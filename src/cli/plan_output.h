// SPDX-License-Identifier: Apache-2.0
/* Plans and predictions as text and JSON; used by plan, simulate and train. */
#ifndef QSYNC_PLAN_OUTPUT_H
#define QSYNC_PLAN_OUTPUT_H

#include "cli.h"

void recipe_counts_text(const qs_plan *plan, const qs_class_plan *one, char *text, size_t size);
/* ", 3 blocks recomputed"; "" where none is. */
const char *recomputed_text(const qs_class_plan *one);
/* Share of a class's ΣΩ that a better plan could save at most; NaN where no bound is known. */
double plan_gap(const qs_class_plan *one);
void plan_print(const qs_plan *plan, const qs_cluster *cluster, const qs_profile *profile);
json_t *paces_json(int count, const qs_class_pace *pace);
void prediction_print(const qs_cluster *cluster, const qs_prediction *prediction);
json_t *prediction_json(const qs_cluster *cluster, const qs_prediction *prediction);
void waits_print(const qs_cluster *cluster, const qs_prediction *prediction);
void lengths_print(const qs_cluster *cluster, const qs_prediction *prediction);
json_t *lengths_json(const qs_cluster *cluster, const qs_prediction *prediction);

/* plan_explain.c: why the plan is as it is. */
void plan_explain_print(const qs_plan *plan, const qs_cluster *cluster, const qs_prediction *prediction);
json_t *plan_explain_json(const qs_plan *plan, const qs_cluster *cluster, const qs_prediction *prediction);
/* plan_options.c: a plan whose pins keep the model's first and last adjustable operator in a recipe. Release with qs_plan_release, also on
 * failure. */
qs_status plan_ends_pin(const qs_graph *graph, const qs_cluster *cluster, const char *recipe, qs_plan *out);
/* plan_diff.c: prints what two plan files differ in. QS_OK: nothing; QS_FAILED: they differ; QS_USAGE: a file is no plan. */
qs_status plan_diff(const char *a, const char *b, bool json);

/* Options of the planners that assign formats to tensors. */
typedef struct assignment_options {
    const char *high, *low, *low_gradient, *rounding;
    double longest_ms;
} assignment_options;
void assignment_options_add(assignment_options *own, qs_assignment_options *to, option_table *table);
/* QS_USAGE when one of them is given to a planner that does not take it. Planners that assign formats plan for dynamic loss scaling unless
 * --loss-scaling says otherwise: gradients overflow to infinity. */
qs_status assignment_options_finish(const assignment_options *own, const char *planner, const option_table *table,
                                    qs_assignment_options *to, job_options *job);
/* What the formats of a class's tensors come to; nothing for other plans. */
void assignment_print(const qs_class_plan *one);

#endif
