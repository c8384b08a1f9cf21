// SPDX-License-Identifier: Apache-2.0
/* From a job to its graph and from a plan to the recipe of each operator. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

/* The model at the set's own image size; where it is too small for the model, at the model's standard size (images are then centred in
 * padding). The first refusal is the one worth reading. */
qs_status qs_job_model(const qs_job *job, qs_graph **out) {
    qs_model_input input, standard;
    QS_TRY(qs_dataset_shape(job->dataset, &input.channels, &input.height, &input.width, &input.classes));
    QS_TRY(qs_model_input_of(job->model, &standard));
    qs_status status = qs_model_build(job->model, &input, out);
    if (status != QS_USAGE || standard.height <= input.height || standard.width <= input.width) return status;
    qs_model_input padded = {input.channels, standard.height, standard.width, input.classes};
    if (qs_model_build(job->model, &padded, out) == QS_OK) return QS_OK;
    return qs_model_build(job->model, &input, out);
}

/* The recipe that an operator runs goes into own[node]. */
static qs_status choice_bind(const qs_plan *plan, const qs_graph *graph, const qs_operator_choice *choice, qs_recipe *own,
                             const qs_recipe **recipe) {
    int node = qs_graph_find(graph, choice->name);
    if (node < 0) return qs_fail(QS_MISMATCH, "the plan names operator %s, which model %s does not have", choice->name, graph->name);
    const qs_op *op = graph->node[node].op;
    if (!op || op->kind != QS_ADJUSTABLE) {
        return qs_fail(QS_MISMATCH, "the plan gives operator %s recipe %s, but a %s follows its inputs and takes none", choice->name,
                       choice->recipe, op ? op->name : "model input");
    }
    recipe[node] = &own[node];
    return qs_choice_recipe(plan, choice, &own[node]);
}

static qs_status class_bind(const qs_plan *plan, const char *class_name, const qs_graph *graph, qs_recipe *own, const qs_recipe **recipe) {
    const qs_class_plan *class_plan = qs_plan_class(plan, class_name);
    if (!class_plan) return qs_fail(QS_MISMATCH, "the plan has no device class %s; plan for this cluster file", class_name);
    for (int i = 0; i < class_plan->operators; i++)
        QS_TRY(choice_bind(plan, graph, &class_plan->operator_[i], own, recipe));
    return QS_OK;
}

/* Adjustable operators that nobody gave a recipe compute in fp32. */
static const qs_recipe *fp32_recipe(const qs_plan *plan) {
    static qs_recipe builtin; /* the same bytes whoever fills it */
    const qs_recipe *own = plan ? qs_plan_recipe(plan, "fp32") : NULL;
    if (own) return own;
    return qs_recipe_builtin("fp32", &builtin) == QS_OK ? &builtin : NULL;
}

/* One block, the pointers and behind them the recipes that they point to (all of a pointer's alignment): one free is enough. */
qs_status qs_plan_bind(const qs_plan *plan, const char *class_name, const qs_graph *graph, const qs_recipe ***out) {
    const size_t nodes = (size_t)graph->nodes;
    const qs_recipe **recipe = NULL;
    QS_TRY(qs_allocate(nodes, sizeof *recipe + sizeof(qs_recipe), &recipe));
    qs_recipe *own = (qs_recipe *)(recipe + nodes);
    qs_status status = plan ? class_bind(plan, class_name, graph, own, recipe) : QS_OK;
    if (status != QS_OK) {
        free(recipe);
        return status;
    }
    for (int n = 1; n < graph->nodes; n++) {
        if (!recipe[n] && graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = fp32_recipe(plan);
    }
    *out = recipe;
    return QS_OK;
}
