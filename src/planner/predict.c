// SPDX-License-Identifier: Apache-2.0
/* The prediction of a plan that already exists. */
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

static bool computes(const qs_class *one, const qs_format *format) {
    for (int i = 0; i < one->formats; i++)
        if (one->format[i] == format) return true;
    return false;
}

/* The recipes of a class's plan, which the class must compute, as it does fp32. */
static qs_status class_bind(const qs_plan *plan, const qs_graph *graph, const qs_class *class_, const qs_recipe ***bound) {
    QS_TRY(qs_plan_bind(plan, class_->name, graph, bound));
    for (int n = 0; n < graph->nodes; n++) {
        const qs_recipe *recipe = (*bound)[n];
        if (!recipe) continue;
        if (!computes(class_, recipe->forward.src.format) || !computes(class_, recipe->weight_gradient.diff_dst.format))
            return qs_fail(QS_MISMATCH, "operator %s has recipe %s, which class %s does not compute", graph->node[n].name, recipe->name,
                           class_->name);
    }
    return QS_OK;
}

static qs_status bound_predict(const qs_plan *plan, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile,
                               const qs_cost_options *options, const qs_recipe *const *const *bound, const qs_tensor_table *const *tensors,
                               char **trace, qs_prediction *out) {
    qs_predictor *predictor = NULL;
    int64_t *batch = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *batch, &batch));
    QS_GOTO(qs_plan_batches(plan, cluster, plan->job.batch, batch));
    QS_GOTO(qs_predictor_create(graph, cluster, profile, &plan->job, options, &predictor));
    QS_GOTO(qs_predictor_batches(predictor, batch));
    qs_predictor_tensors(predictor, tensors);
    QS_GOTO(qs_predictor_ask(predictor, bound, trace, out));
done:
    qs_predictor_release(predictor);
    free(batch);
    return status;
}

typedef struct binding {
    const qs_recipe ***recipe;       /* (classes × nodes) */
    qs_tensor_table *table;          /* (classes) */
    const qs_tensor_table **tensors; /* (classes) */
} binding;

static void binding_release(binding *one, int classes) {
    for (int c = 0; one->table && c < classes; c++)
        qs_tensor_table_release(&one->table[c]);
    for (int c = 0; one->recipe && c < classes; c++)
        free(one->recipe[c]);
    free(one->table);
    free(one->tensors);
    free(one->recipe);
}

static qs_status classes_bind(const qs_plan *plan, const qs_graph *graph, const qs_cluster *cluster, binding *out) {
    const size_t classes = (size_t)cluster->classes;
    QS_TRY(qs_allocate(classes, sizeof *out->recipe, &out->recipe));
    QS_TRY(qs_allocate(classes, sizeof *out->table, &out->table));
    QS_TRY(qs_allocate(classes, sizeof *out->tensors, &out->tensors));
    for (int c = 0; c < cluster->classes; c++) {
        QS_TRY(class_bind(plan, graph, &cluster->class_[c], &out->recipe[c]));
        QS_TRY(qs_tensors_bind(qs_plan_class(plan, cluster->class_[c].name), graph, &out->table[c]));
        out->tensors[c] = &out->table[c];
    }
    return QS_OK;
}

qs_status qs_plan_predict(const qs_plan *plan, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile,
                          const qs_cost_options *options, char **trace, qs_prediction *out) {
    binding bound = {0};
    qs_status status = classes_bind(plan, graph, cluster, &bound);
    if (status == QS_OK)
        status =
            bound_predict(plan, graph, cluster, profile, options, (const qs_recipe *const *const *)bound.recipe, bound.tensors, trace, out);
    binding_release(&bound, cluster->classes);
    return status;
}
