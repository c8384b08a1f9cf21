// SPDX-License-Identifier: Apache-2.0
/* Balanced ranks, by plans made for that: the replayer chooses and fits, the profiler times. */
#include "balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 2, ROUNDS = 2, LEAST_STEPS = 10, MOST_STEPS = 50 };
/* Ranks of which one has less than this part of another's work wait too long to be called balanced. */
static const double least_share = 0.8;
/* A profile without a stated time is one of two minutes here. */
static const double usual_s = 120;

typedef struct balancing {
    const worker *here;
    const qs_job *job;
    qs_graph *graph;
    qs_profile *profile;
    int plans;
    qs_recipe *low;                  /* (classes x QS_MAX_FORMATS) */
    const qs_recipe **recipe[PLANS]; /* (classes x nodes) */
    const qs_recipe ***row[PLANS];   /* (classes) */
    qs_plan plan[PLANS];
    double steps; /* of a visit */
} balancing;

static qs_status rows_make(balancing *one) {
    const size_t classes = (size_t)one->here->cluster.classes, nodes = (size_t)one->graph->nodes;
    QS_TRY(qs_allocate(PLANS * classes * QS_MAX_FORMATS, sizeof *one->low, &one->low));
    for (int p = 0; p < PLANS; p++) {
        QS_TRY(qs_allocate(classes * nodes, sizeof *one->recipe[p], &one->recipe[p]));
        QS_TRY(qs_allocate(classes, sizeof *one->row[p], &one->row[p]));
        for (size_t c = 0; c < classes; c++)
            one->row[p][c] = one->recipe[p] + c * nodes;
    }
    return QS_OK;
}

/* A plan by hand has operators and nothing else. */
static qs_status plan_make(const balancing *one, int which, qs_plan *out) {
    const qs_cluster *cluster = &one->here->cluster;
    json_t *classes = json_object();
    char *text = NULL;
    for (int c = 0; c < cluster->classes; c++) {
        json_t *operators = json_object();
        for (int n = one->graph->samples.inputs; n < one->graph->nodes; n++)
            if (one->row[which][c][n]) json_object_set_new(operators, one->graph->node[n].name, json_string(one->row[which][c][n]->name));
        json_object_set_new(classes, cluster->class_[c].name, json_pack("{s:o}", "operators", operators));
    }
    json_t *plan = json_pack("{s:s,s:o}", "schema", QS_SCHEMA("plan"), "classes", classes);
    if (plan) text = json_dumps(plan, 0);
    json_decref(plan);
    if (!text) return qs_fail(QS_OUT_OF_MEMORY, "a plan of balanced ranks");
    const qs_status status = qs_plan_parse(text, "a plan of balanced ranks", out);
    free(text);
    return status;
}

/* From the first on and from the last on come to the same where few operators are lowered, or all. */
static bool plans_are_one(const balancing *one) {
    const size_t all = (size_t)one->here->cluster.classes * (size_t)one->graph->nodes;
    for (size_t i = 0; i < all; i++) {
        const qs_recipe *a = one->recipe[0][i], *b = one->recipe[1][i];
        if (!a != !b || (a && strcmp(a->name, b->name) != 0)) return false;
    }
    return true;
}

static bool has_neighbours(const qs_profile *profile) {
    for (int c = 0; c < profile->classes; c++)
        for (int k = 0; k < profile->class_[c].kernels; k++)
            if (profile->class_[c].kernel[k].us_alone > 0) return true;
    return false;
}

/* Rank 0: plans that lower operators from the first on and from the last on, where they are two; and how long they are timed. */
static qs_status plans_choose(balancing *one) {
    const qs_cluster *cluster = &one->here->cluster;
    double iteration_s = 0;
    if (!has_neighbours(one->profile)) return QS_OK;
    QS_TRY(job_model_open(one->job, &one->graph));
    QS_TRY(rows_make(one));
    for (int p = 0; p < PLANS; p++) {
        qs_prediction prediction;
        double share;
        QS_TRY(qs_balance_choose(one->graph, cluster, one->profile, one->job, p == 1, one->low + p * cluster->classes * QS_MAX_FORMATS,
                                 one->row[one->plans], &share));
        if (share < least_share) continue;
        if (one->plans == 1 && plans_are_one(one)) break;
        QS_TRY(plan_make(one, one->plans, &one->plan[one->plans]));
        QS_TRY(qs_predict(one->graph, cluster, one->profile, one->job, (const qs_recipe *const *const *)one->row[one->plans], NULL,
                          &prediction));
        iteration_s += prediction.iteration_us * 1e-6;
        qs_prediction_release(&prediction);
        one->plans++;
    }
    const double stated = one->profile->class_[0].quality.budget_s, seconds = QS_PROFILE_BALANCED_PART * (stated > 0 ? stated : usual_s);
    one->steps = iteration_s > 0 ? floor(fmin(fmax(seconds / (ROUNDS * iteration_s), LEAST_STEPS), MOST_STEPS)) : 0;
    return QS_OK;
}

static qs_status plan_share(qs_comm *comm, qs_plan *plan) {
    char *text = NULL;
    qs_status status = qs_comm_rank(comm) == 0 ? qs_plan_text(plan, &text) : QS_OK;
    QS_GOTO(qs_comm_agree(comm, status));
    QS_GOTO(qs_comm_broadcast_text(comm, &text, 0));
    if (qs_comm_rank(comm) > 0) status = qs_plan_parse(text, "a plan of balanced ranks", plan);
    status = qs_comm_agree(comm, status);
done:
    free(text);
    return status;
}

/* Rank 0: what was measured goes into the profile. */
static qs_status factor_take(balancing *one, const qs_profile_check *row) {
    qs_balanced plan[PLANS];
    qs_profile beside = {0};
    double factor, error;
    for (int p = 0; p < one->plans; p++)
        plan[p] = (qs_balanced){(const qs_recipe *const *const *)one->row[p], row[p].measured_us, row[p].confidence};
    QS_TRY(qs_balance_fit(one->graph, &one->here->cluster, one->profile, one->job, one->plans, plan, &factor, &error));
    qs_log(QS_LOG_INFO, "profile: %d plans of balanced ranks took %+.1f %% of what was predicted: steps beside busy ranks times %.3f",
           one->plans, 100 * error, factor);
    QS_TRY(qs_profile_beside(one->profile, factor, &beside));
    for (int i = 0; i < one->profile->classes; i++) { /* all else is shared */
        qs_class_profile *old = &one->profile->class_[i], *new = &beside.class_[i];
        qs_kernel_cost *kernel = old->kernel;
        qs_conversion_cost *conversion = old->conversion;
        old->kernel = new->kernel;
        old->conversion = new->conversion;
        old->beside = new->beside;
        new->kernel = kernel;
        new->conversion = conversion;
    }
    qs_profile_at_pace_release(&beside);
    return QS_OK;
}

static void balancing_end(balancing *one) {
    for (int p = 0; p < PLANS; p++) {
        qs_plan_release(&one->plan[p]);
        free(one->recipe[p]);
        free(one->row[p]);
    }
    free(one->low);
    qs_graph_release(one->graph);
}

qs_status profile_balance(const job_options *job, const worker *here, const qs_profile_options *options, qs_profile *profile) {
    static const char *const names[PLANS] = {"balanced", "balanced from the end"};
    const bool first = worker_is_first(here);
    balancing one = {.here = here, .job = &job->job, .profile = profile};
    qs_profile_options how = *options;
    qs_profile_check row[PLANS];
    double *kernels_us = NULL;
    qs_status status = QS_OK;
    if (qs_comm_size(here->comm) < 2 || job->job.lengths.count > 1 || options->context != QS_CONTEXT_STEPS) return QS_OK;
    QS_GOTO(qs_comm_agree(here->comm, first ? plans_choose(&one) : QS_OK));
    QS_GOTO(qs_comm_broadcast(here->comm, &one.plans, sizeof one.plans, 0));
    QS_GOTO(qs_comm_broadcast(here->comm, &one.steps, sizeof one.steps, 0));
    if (one.plans == 0) goto done;
    for (int p = 0; p < one.plans; p++)
        QS_GOTO(plan_share(here->comm, &one.plan[p]));
    QS_GOTO(qs_comm_agree(here->comm, qs_allocate((size_t)(PLANS * here->cluster.classes), sizeof *kernels_us, &kernels_us)));
    how.repetitions = ROUNDS;
    how.checks = one.plans;
    how.check = one.plan;
    how.check_name = names;
    how.check_steps = (int)one.steps;
    how.batches = 0;
    how.partial = NULL;
    QS_GOTO(qs_profile_time_plans(&how, here->device, here->comm, row, kernels_us));
    if (first) status = factor_take(&one, row);
    status = qs_comm_agree(here->comm, status);
done:
    balancing_end(&one);
    free(kernels_us);
    return status;
}
