// SPDX-License-Identifier: Apache-2.0
/* Plans and predictions as text and JSON; used by plan, simulate and train. */
#ifndef QSYNC_PLAN_OUTPUT_H
#define QSYNC_PLAN_OUTPUT_H

#include "cli.h"

void recipe_counts_text(const qs_plan *plan, const qs_class_plan *one, char *text, size_t size);
void plan_print(const qs_plan *plan, const qs_cluster *cluster);
void plan_explain(const qs_plan *plan);
void prediction_print(const qs_cluster *cluster, const qs_prediction *prediction);
json_t *prediction_json(const qs_cluster *cluster, const qs_prediction *prediction);

#endif
