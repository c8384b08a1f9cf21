// SPDX-License-Identifier: Apache-2.0
/* The draft of a plan and the questions put to the predictor about it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

double qs__draft_time_allowed(const qs_draft_plan *draft, double best_us) {
    return best_us / (1 - draft->options->tolerance);
}

qs_lowering qs__draft_lowering(const qs_draft_plan *draft, int class_index) {
    const qs_class *one = &draft->cluster->class_[class_index];
    return (qs_lowering){.graph = draft->graph,
                         .batch = draft->batch[class_index],
                         .mode = QS_MODE_TRAIN,
                         .job = draft->job,
                         .recipe = draft->bound[class_index],
                         .half = qs_class_half(one),
                         .tensors = &draft->class_[class_index].tensors,
                         .lookup = qs_lookup_profile,
                         .context = (void *)qs_profile_class(draft->profile, one->name)};
}

bool qs__is_adjustable(const qs_draft_plan *draft, int node) {
    return node > 0 && draft->graph->node[node].op->kind == QS_ADJUSTABLE;
}

bool qs__class_is_lowered(const qs_draft_plan *draft, int class_index) {
    const bool wanted = draft->cluster->class_[class_index].inference || draft->options->lower_training;
    return wanted && draft->class_[class_index].recipes > 1;
}

const qs_recipe *qs__draft_recipe(const qs_draft_class *one, int node, int recipe) {
    return &one->own[node * one->recipes + recipe];
}

/* Operators add as their class does, or as the options' rule says for their lengths. */
static qs_status own_recipe_fill(const qs_draft_plan *draft, qs_draft_class *one, int64_t batch, int node, int recipe) {
    qs_recipe *own = &one->own[node * one->recipes + recipe];
    char text[QS_NARROW_TEXT];
    *own = one->recipe[recipe];
    if (!draft->options->accumulate || !qs__is_adjustable(draft, node)) return QS_OK;
    QS_TRY(qs_accumulators_choose(draft->options->accumulate, draft->graph, node, batch, &draft->profile->statistics, own));
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        qs_narrow_text(&own->accumulator[gemm], text);
        one->adds = qs_hash(text, strlen(text), one->adds);
    }
    return QS_OK;
}

qs_status qs__draft_batch_set(qs_draft_plan *draft, int class_index, int64_t batch) {
    qs_draft_class *one = &draft->class_[class_index];
    const int64_t ranks = qs_cluster_ranks(draft->cluster);
    draft->batch[class_index] = batch;
    one->adds = 0;
    for (int n = 0; n < draft->graph->nodes; n++)
        for (int r = 0; r < one->recipes; r++)
            QS_TRY(own_recipe_fill(draft, one, batch, n, r));
    return qs_indicator_evaluate_each(draft->options->indicator, QS_CONVENTION_DEFAULT, draft->graph, draft->profile, batch,
                                      draft->job->batch * ranks, one->recipes, one->own, draft->job->seed, one->omega);
}

static qs_status class_create(qs_draft_plan *draft, int c) {
    qs_draft_class *one = &draft->class_[c];
    const size_t nodes = (size_t)draft->graph->nodes;
    QS_TRY(qs_class_recipes(&draft->cluster->class_[c], QS_MAX_RECIPES, one->recipe, &one->recipes));
    QS_TRY(qs_allocate(nodes * (size_t)one->recipes, sizeof *one->own, &one->own));
    QS_TRY(qs_allocate(nodes, sizeof *one->choice, &one->choice));
    QS_TRY(qs_allocate(nodes, sizeof *one->pinned, &one->pinned));
    QS_TRY(qs_allocate(nodes * (size_t)one->recipes, sizeof *one->omega, &one->omega));
    QS_TRY(qs_allocate(nodes, sizeof *one->stopped, &one->stopped));
    QS_TRY(qs_allocate(nodes, sizeof *one->raise_us, &one->raise_us));
    QS_TRY(qs_allocate(nodes, sizeof *one->raise_bytes, &one->raise_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->bound, &one->bound));
    draft->bound[c] = one->bound;
    return qs__draft_batch_set(draft, c, draft->job->batch);
}

static int recipe_index(const qs_draft_class *one, const char *name) {
    for (int r = 0; r < one->recipes; r++)
        if (strcmp(one->recipe[r].name, name) == 0) return r;
    return -1;
}

/* A pin for a class that the cluster lacks would be a pin ignored. */
static qs_status pins_check(const qs_draft_plan *draft) {
    const qs_plan *pins = draft->options->pins;
    int index = 0;
    for (int i = 0; pins && i < pins->classes; i++)
        QS_TRY(qs_fail_within(qs_cluster_find(draft->cluster, pins->class_[i].class_name, &index), "pins"));
    return QS_OK;
}

static qs_status pins_apply(qs_draft_plan *draft, int c) {
    qs_draft_class *one = &draft->class_[c];
    const char *class_name = draft->cluster->class_[c].name;
    const qs_class_plan *plan = draft->options->pins ? qs_plan_class(draft->options->pins, class_name) : NULL;
    for (int i = 0; plan && i < plan->operators; i++) {
        const qs_operator_choice *choice = &plan->operator_[i];
        if (!choice->pin) continue;
        const int node = qs_graph_find(draft->graph, choice->name), recipe = recipe_index(one, choice->recipe);
        if (node < 0 || !qs__is_adjustable(draft, node))
            return qs_fail(QS_MISMATCH, "pinned operator %s: model %s has no such adjustable operator", choice->name, draft->graph->name);
        if (recipe < 0)
            return qs_fail(QS_MISMATCH, "pinned operator %s: class %s has no recipe %s", choice->name, class_name, choice->recipe);
        if (isinf(one->omega[node * one->recipes + recipe]))
            return qs_fail(QS_INFEASIBLE, "pinned operator %s: its tensors exceed the range of recipe %s on class %s", choice->name,
                           choice->recipe, class_name);
        one->choice[node] = recipe;
        one->pinned[node] = true;
        snprintf(one->stopped[node], sizeof one->stopped[node], "pinned");
    }
    return QS_OK;
}

qs_status qs__draft_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                           const qs_plan_options *options, qs_draft_plan *out) {
    char signature[32];
    if (strcmp(profile->graph, qs_graph_signature(graph, signature)) != 0)
        return qs_fail(QS_MISMATCH, "the profile is of model %s (%s), the plan is wanted for %s (%s): profile that model", profile->model,
                       profile->graph, graph->name, signature);
    *out = (qs_draft_plan){.graph = graph, .cluster = cluster, .profile = profile, .job = job, .options = options};
    QS_TRY(qs_predictor_create(graph, cluster, profile, job, &out->costs, &out->predictor));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->batch, &out->batch));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->bound, &out->bound));
    QS_TRY(pins_check(out));
    for (int c = 0; c < cluster->classes; c++) {
        QS_TRY(class_create(out, c));
        QS_TRY(pins_apply(out, c));
    }
    return QS_OK;
}

void qs__draft_release(qs_draft_plan *draft) {
    for (int c = 0; draft->class_ && c < draft->cluster->classes; c++) {
        qs_draft_class *one = &draft->class_[c];
        free(one->own);
        free(one->choice);
        free(one->pinned);
        free(one->omega);
        free(one->stopped);
        free(one->raise_us);
        free(one->raise_bytes);
        free(one->bound);
        free(one->assigned.tensor);
        qs_tensor_table_release(&one->tensors);
    }
    free(draft->class_);
    free(draft->batch);
    free(draft->bound);
    qs_predictor_release(draft->predictor);
    *draft = (qs_draft_plan){0};
}

void qs__draft_set_uniform(qs_draft_plan *draft, int class_index, int recipe) {
    qs_draft_class *one = &draft->class_[class_index];
    for (int n = 1; n < draft->graph->nodes; n++) {
        if (!qs__is_adjustable(draft, n) || one->pinned[n]) continue;
        int choice = recipe;
        while (choice > 0 && isinf(one->omega[n * one->recipes + choice]))
            choice--;
        one->choice[n] = choice;
    }
}

void qs__draft_bind(qs_draft_plan *draft, int class_index, const int *choice) {
    qs_draft_class *one = &draft->class_[class_index];
    for (int n = 0; n < draft->graph->nodes; n++)
        one->bound[n] = qs__is_adjustable(draft, n) ? qs__draft_recipe(one, n, choice[n]) : NULL;
}

static qs_status class_judge(qs_draft_plan *draft, int c, const char *indicator, double *omega) {
    qs_draft_class *one = &draft->class_[c];
    QS_TRY(qs_indicator_evaluate_each(indicator, QS_CONVENTION_DEFAULT, draft->graph, draft->profile, draft->batch[c],
                                      draft->job->batch * qs_cluster_ranks(draft->cluster), one->recipes, one->own, draft->job->seed,
                                      omega));
    for (int i = 0; i < draft->graph->nodes * one->recipes; i++)
        if (!isinf(one->omega[i])) one->omega[i] = omega[i];
    return QS_OK;
}

qs_status qs__draft_judge(qs_draft_plan *draft, const char *indicator) {
    double *omega = NULL;
    QS_TRY(qs_allocate((size_t)draft->graph->nodes * QS_MAX_RECIPES, sizeof *omega, &omega));
    qs_status status = QS_OK;
    for (int c = 0; c < draft->cluster->classes && status == QS_OK; c++)
        status = indicator ? class_judge(draft, c, indicator, omega) : qs__draft_batch_set(draft, c, draft->batch[c]);
    free(omega);
    return status;
}

qs_status qs__draft_price(qs_draft_plan *draft, const qs_cost_options *costs) {
    qs_predictor *predictor = NULL;
    QS_TRY(qs_predictor_create(draft->graph, draft->cluster, draft->profile, draft->job, costs, &predictor));
    qs_predictor_release(draft->predictor);
    draft->predictor = predictor;
    draft->costs = *costs;
    return QS_OK;
}

/* Only planners that assign formats change them from one question to the next. */
static qs_status tensors_set(qs_draft_plan *draft) {
    const qs_tensor_table **tensors = NULL;
    if (draft->class_[0].assigned.tensors == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)draft->cluster->classes, sizeof *tensors, &tensors));
    for (int c = 0; c < draft->cluster->classes; c++)
        tensors[c] = &draft->class_[c].tensors;
    qs_predictor_tensors(draft->predictor, tensors);
    free(tensors);
    return QS_OK;
}

qs_status qs__draft_predict(qs_draft_plan *draft, qs_prediction *out) {
    for (int c = 0; c < draft->cluster->classes; c++)
        qs__draft_bind(draft, c, draft->class_[c].choice);
    QS_TRY(tensors_set(draft));
    QS_TRY(qs_predictor_batches(draft->predictor, draft->batch));
    return qs_predictor_ask(draft->predictor, draft->bound, NULL, out);
}

double qs__draft_sum_omega(const qs_draft_plan *draft, int class_index) {
    const qs_draft_class *one = &draft->class_[class_index];
    double sum = 0;
    for (int n = 1; n < draft->graph->nodes; n++)
        if (qs__is_adjustable(draft, n)) sum += one->omega[n * one->recipes + one->choice[n]];
    return sum;
}

int qs__draft_next(const qs_draft_class *one, int node, int from) {
    const double *omega = &one->omega[node * one->recipes];
    for (int r = from - 1; r >= 0; r--)
        if (omega[r] < omega[one->choice[node]]) return r;
    return -1;
}
