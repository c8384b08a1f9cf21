// SPDX-License-Identifier: Apache-2.0
/* --keep-first-last: pins on the first and the last adjustable operator of a model, in every class that has the recipe. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

static int adjustable_from(const qs_graph *graph, int node, int direction) {
    while (node > 0 && node < graph->nodes && graph->node[node].op->kind != QS_ADJUSTABLE)
        node += direction;
    return node;
}

static void choice_set(const qs_graph *graph, int node, const char *recipe, qs_operator_choice *out) {
    *out = (qs_operator_choice){.pin = true};
    snprintf(out->name, sizeof out->name, "%s", graph->node[node].name);
    snprintf(out->recipe, sizeof out->recipe, "%s", recipe);
}

static qs_status class_fill(const qs_graph *graph, const char *class_name, const char *recipe, qs_class_plan *out) {
    const int first = adjustable_from(graph, 1, 1), last = adjustable_from(graph, graph->nodes - 1, -1);
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
