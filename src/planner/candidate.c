// SPDX-License-Identifier: Apache-2.0
/* The candidate of a plan and the questions put to the predictor about it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

double qs__candidate_time_allowed(const qs_candidate *candidate, double best_us) {
    return best_us / (1 - candidate->options->tolerance);
}

int64_t qs__candidate_lowered_batch(const qs_candidate *candidate, int class_index) {
    return candidate->batch[class_index] > 0 ? candidate->batch[class_index] : candidate->job->batch;
}

qs_lowering qs__candidate_lowering(const qs_candidate *candidate, int class_index) {
    const qs_class *one = &candidate->cluster->class_[class_index];
    const qs_class_profile *profile = qs_profile_class(candidate->profile, one->name);
    return (qs_lowering){.graph = candidate->graph,
                         .batch = qs__candidate_lowered_batch(candidate, class_index),
                         .mode = QS_MODE_TRAIN,
                         .job = candidate->job,
                         .recipe = candidate->bound[class_index],
                         .half = qs_class_half(one),
                         .tensors = &candidate->class_[class_index].tensors,
                         .joins = profile->joins,
                         .lookup = qs_lookup_profile,
                         .context = (void *)profile};
}

bool qs__is_adjustable(const qs_candidate *candidate, int node) {
    const qs_op *op = candidate->graph->node[node].op;
    return op && op->kind == QS_ADJUSTABLE;
}

bool qs__class_is_lowered(const qs_candidate *candidate, int class_index) {
    const bool wanted = candidate->cluster->class_[class_index].inference || candidate->options->lower_training;
    return wanted && candidate->class_[class_index].recipes > 1;
}

const qs_recipe *qs__candidate_recipe(const qs_candidate_class *one, int node, int recipe) {
    return &one->own[node * one->recipes + recipe];
}

bool qs__is_large(const qs_graph *graph) {
    enum { LARGE = 1000 };
    return graph->nodes > LARGE;
}

/* Operators add as their class does, or as the options' rule says for their lengths. */
qs_status qs__candidate_batch_set(qs_candidate *candidate, int class_index, int64_t batch) {
    const qs_accumulation_rule *rule = candidate->options->accumulate;
    qs_candidate_class *one = &candidate->class_[class_index];
    char text[QS_NARROW_TEXT];
    candidate->batch[class_index] = batch;
    if (batch == 0) batch = candidate->job->batch;
    one->adds = 0;
    for (int n = 0; n < candidate->graph->nodes; n++)
        for (int r = 0; r < one->recipes; r++) {
            qs_recipe *own = &one->own[n * one->recipes + r];
            *own = one->recipe[r];
            if (!rule || !qs__is_adjustable(candidate, n)) continue;
            QS_TRY(qs_accumulators_choose(rule, candidate->graph, n, batch, &candidate->profile->statistics, own));
            for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
                qs_narrow_text(&own->accumulator[gemm], text);
                one->adds = qs_hash(text, strlen(text), one->adds);
            }
        }
    const char *indicator = candidate->options->indicator ? candidate->options->indicator : qs_indicator_default(candidate->profile);
    QS_TRY(qs_indicator_evaluate_each(indicator, candidate->options->convention, candidate->graph, candidate->profile, batch,
                                      candidate->job->batch * qs_cluster_ranks(candidate->cluster), one->recipes, one->own,
                                      candidate->job->seed, one->omega));
    for (int i = 0; candidate->batch[class_index] == 0 && i < candidate->graph->nodes * one->recipes; i++)
        if (isfinite(one->omega[i])) one->omega[i] = 0; /* nothing is computed, nothing is rounded */
    return QS_OK;
}

static qs_status class_create(qs_candidate *candidate, int c) {
    qs_candidate_class *one = &candidate->class_[c];
    const size_t nodes = (size_t)candidate->graph->nodes;
    QS_TRY(qs_class_recipes(&candidate->cluster->class_[c], QS_MAX_RECIPES, one->recipe, &one->recipes));
    QS_TRY(qs_allocate(nodes * (size_t)one->recipes, sizeof *one->own, &one->own));
    QS_TRY(qs_allocate(nodes, sizeof *one->choice, &one->choice));
    QS_TRY(qs_allocate(nodes, sizeof *one->pinned, &one->pinned));
    QS_TRY(qs_allocate(nodes * (size_t)one->recipes, sizeof *one->omega, &one->omega));
    QS_TRY(qs_allocate(nodes, sizeof *one->stopped, &one->stopped));
    QS_TRY(qs_allocate(nodes, sizeof *one->raise_us, &one->raise_us));
    QS_TRY(qs_allocate(nodes, sizeof *one->raise_bytes, &one->raise_bytes));
    QS_TRY(qs_allocate(nodes, sizeof *one->bound, &one->bound));
    candidate->bound[c] = one->bound;
    return qs__candidate_batch_set(candidate, c, candidate->job->batch);
}

static qs_status pins_apply(qs_candidate *candidate, int c) {
    qs_candidate_class *one = &candidate->class_[c];
    const char *class_name = candidate->cluster->class_[c].name;
    const qs_class_plan *plan = candidate->options->pins ? qs_plan_class(candidate->options->pins, class_name) : NULL;
    for (int i = 0; plan && i < plan->operators; i++) {
        const qs_operator_choice *choice = &plan->operator_[i];
        const int node = qs_graph_find(candidate->graph, choice->name);
        int recipe = 0;
        if (!choice->pin) continue;
        if (node < 0 || !qs__is_adjustable(candidate, node))
            return qs_fail(QS_MISMATCH, "pinned operator %s: model %s has no such adjustable operator", choice->name,
                           candidate->graph->name);
        while (recipe < one->recipes && strcmp(one->recipe[recipe].name, choice->recipe) != 0)
            recipe++;
        if (recipe == one->recipes)
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

qs_status qs__candidate_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                               const qs_plan_options *options, qs_candidate *out) {
    const qs_plan *pins = options->pins;
    char signature[32];
    int index;
    if (strcmp(profile->graph, qs_graph_signature(graph, signature)) != 0)
        return qs_fail(QS_MISMATCH, "the profile is of model %s (%s), the plan is wanted for %s (%s): profile that model", profile->model,
                       profile->graph, graph->name, signature);
    *out = (qs_candidate){.graph = graph, .cluster = cluster, .profile = profile, .job = job, .options = options};
    QS_TRY(qs_graph_lengths_make(graph, &job->lengths, &out->lengths));
    QS_TRY(qs_predictor_create(graph, cluster, profile, job, &out->costs, &out->predictor));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->batch, &out->batch));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->bound, &out->bound));
    for (int i = 0; pins && i < pins->classes; i++) /* a pin for a class that the cluster lacks would be a pin ignored */
        QS_TRY(qs_fail_within(qs_cluster_find(cluster, pins->class_[i].class_name, &index), "pins"));
    for (int c = 0; c < cluster->classes; c++) {
        QS_TRY(class_create(out, c));
        QS_TRY(pins_apply(out, c));
    }
    return QS_OK;
}

void qs__candidate_release(qs_candidate *candidate) {
    for (int c = 0; candidate->class_ && c < candidate->cluster->classes; c++) {
        qs_candidate_class *one = &candidate->class_[c];
        free(one->own);
        free(one->choice);
        free(one->pinned);
        free(one->omega);
        free(one->stopped);
        free(one->raise_us);
        free(one->raise_bytes);
        free(one->bound);
        free(one->assigned.tensor);
        free(one->assigned.recompute);
        qs_tensor_table_release(&one->tensors);
    }
    free(candidate->class_);
    free(candidate->doubt);
    free(candidate->batch);
    free(candidate->bound);
    qs_predictor_release(candidate->predictor);
    qs_graph_lengths_release(&candidate->lengths);
    *candidate = (qs_candidate){0};
}

void qs__candidate_set_uniform(qs_candidate *candidate, int class_index, int recipe) {
    qs_candidate_class *one = &candidate->class_[class_index];
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(candidate, n) || one->pinned[n]) continue;
        int choice = recipe;
        while (choice > 0 && isinf(one->omega[n * one->recipes + choice]))
            choice--;
        one->choice[n] = choice;
    }
}

void qs__candidate_bind(qs_candidate *candidate, int class_index, const int *choice) {
    qs_candidate_class *one = &candidate->class_[class_index];
    for (int n = 0; n < candidate->graph->nodes; n++)
        one->bound[n] = qs__is_adjustable(candidate, n) ? qs__candidate_recipe(one, n, choice[n]) : NULL;
}

qs_status qs__candidate_judge(qs_candidate *candidate, const char *indicator) {
    const int64_t global_batch = candidate->job->batch * qs_cluster_ranks(candidate->cluster);
    double *omega = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)candidate->graph->nodes * QS_MAX_RECIPES, sizeof *omega, &omega));
    for (int c = 0; c < candidate->cluster->classes; c++) {
        qs_candidate_class *one = &candidate->class_[c];
        if (!indicator) {
            QS_GOTO(qs__candidate_batch_set(candidate, c, candidate->batch[c]));
            continue;
        }
        QS_GOTO(qs_indicator_evaluate_each(indicator, candidate->options->convention, candidate->graph, candidate->profile,
                                           candidate->batch[c], global_batch, one->recipes, one->own, candidate->job->seed, omega));
        for (int i = 0; i < candidate->graph->nodes * one->recipes; i++)
            if (!isinf(one->omega[i])) one->omega[i] = omega[i];
    }
done:
    free(omega);
    return status;
}

qs_status qs__candidate_retable(qs_candidate *candidate, int class_index) {
    qs_candidate_class *one = &candidate->class_[class_index];
    one->recomputed = 0;
    for (int i = 0; i < one->assigned.recomputes; i++)
        one->recomputed = qs_hash(one->assigned.recompute[i], strlen(one->assigned.recompute[i]), one->recomputed);
    candidate->retabled = true;
    qs_tensor_table_release(&one->tensors);
    return qs_tensors_bind(&one->assigned, candidate->graph, &one->tensors);
}

qs_status qs__candidate_price(qs_candidate *candidate, const qs_cost_options *costs) {
    qs_predictor *predictor = NULL;
    QS_TRY(qs_predictor_create(candidate->graph, candidate->cluster, candidate->profile, candidate->job, costs, &predictor));
    qs_predictor_release(candidate->predictor);
    candidate->predictor = predictor;
    candidate->costs = *costs;
    candidate->retabled = true;
    return QS_OK;
}

qs_status qs__candidate_guard(qs_candidate *candidate) {
    qs_cost_options costs = candidate->costs;
    QS_TRY(qs_allocate((size_t)candidate->cluster->classes, sizeof *candidate->doubt, &candidate->doubt));
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const char *name = candidate->cluster->class_[c].name;
        const double doubt = qs_cost_doubt(candidate->profile, qs_profile_class(candidate->profile, name), candidate->options->confidence);
        if (qs__class_is_lowered(candidate, c) && doubt > 0)
            candidate->doubt[candidate->doubts++] = (qs_slowdown){.class_name = name, .factor = 1 + doubt};
    }
    if (candidate->doubts == 0) return QS_OK;
    costs.slowdowns = candidate->doubts;
    costs.slowdown = candidate->doubt;
    return qs__candidate_price(candidate, &costs);
}

double qs__candidate_slow(const qs_candidate *candidate, int class_index) {
    double factor = 1;
    for (int i = 0; i < candidate->costs.slowdowns; i++)
        if (strcmp(candidate->costs.slowdown[i].class_name, candidate->cluster->class_[class_index].name) == 0)
            factor *= candidate->costs.slowdown[i].factor;
    return factor;
}

qs_status qs__candidate_predict(qs_candidate *candidate, qs_prediction *out) {
    const int classes = candidate->cluster->classes;
    for (int c = 0; c < classes; c++)
        qs__candidate_bind(candidate, c, candidate->class_[c].choice);
    if (candidate->retabled) { /* planners that assign formats change them from one question to the next */
        const qs_tensor_table **tensors = NULL;
        QS_TRY(qs_allocate((size_t)classes, sizeof *tensors, &tensors));
        for (int c = 0; c < classes; c++)
            tensors[c] = &candidate->class_[c].tensors;
        qs_predictor_tensors(candidate->predictor, tensors);
        free(tensors);
        candidate->retabled = false;
    }
    QS_TRY(qs_predictor_batches(candidate->predictor, candidate->batch));
    return qs_predictor_ask(candidate->predictor, candidate->bound, NULL, out);
}

double qs__candidate_sum_omega(const qs_candidate *candidate, int class_index) {
    const qs_candidate_class *one = &candidate->class_[class_index];
    double sum = 0;
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++)
        if (qs__is_adjustable(candidate, n)) sum += one->omega[n * one->recipes + one->choice[n]];
    return sum;
}

int qs__candidate_next(const qs_candidate_class *one, int node, int from) {
    const double *omega = &one->omega[node * one->recipes];
    for (int r = from - 1; r >= 0; r--)
        if (omega[r] < omega[one->choice[node]]) return r;
    return -1;
}
