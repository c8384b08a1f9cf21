// SPDX-License-Identifier: Apache-2.0
/* Balanced ranks (docs/method.md §4.12). The profile's plans run on ranks that do not wait for each other: a rank's update, which
 * streams weights, meets any part of its neighbour's step. In training all ranks come to the update at once, and to the same layers;
 * ranks that wait little slow each other all the while. So plans in which ranks have about as much to do are timed as training runs
 * them, and one factor makes their predictions right. */
#include "qsync/replayer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least_factor = 0.8, most_factor = 1.6;
/* The interval that holds the factor is halved so often: 0.8/2^14 is far below what any time is known to. */
enum { HALVINGS = 14 };

/* ---- Plans ----------------------------------------------------------------------------------------------------------------------- */

typedef struct balancing {
    const qs_cluster *cluster;
    qs_predictor *predictor;
    int adjustable;
    int *node;                       /* (adjustable) in the order in which they are lowered */
    const qs_recipe **const *recipe; /* (classes × nodes) the caller's */
} balancing;

static bool may_be_lowered(const qs_cluster *cluster, int c) {
    return cluster->class_[c].count > 0 && (cluster->class_[c].inference || cluster->classes == 1);
}

/* Operators from the first on in this recipe, all others in fp32. */
static void class_lower(const balancing *one, int c, int operators, const qs_recipe *low) {
    for (int i = 0; i < one->adjustable; i++)
        one->recipe[c][one->node[i]] = i < operators ? low : NULL;
}

/* What a rank of each class computes in an iteration. */
static qs_status work_ask(balancing *one, double *work_us) {
    qs_prediction prediction = {0};
    QS_TRY(qs_predictor_ask(one->predictor, (const qs_recipe *const *const *)one->recipe, NULL, &prediction));
    for (int c = 0; c < one->cluster->classes; c++)
        work_us[c] = prediction.class_[c].compute_us - prediction.class_[c].phases.communication_us;
    qs_prediction_release(&prediction);
    return QS_OK;
}

/* The recipe in which all operators of a class take the least time. */
static qs_status fastest_find(balancing *one, int c, qs_recipe *recipe, const qs_recipe **best, double *work_us) {
    int recipes;
    double least = INFINITY;
    *best = NULL;
    QS_TRY(qs_class_recipes(&one->cluster->class_[c], QS_MAX_FORMATS, recipe, &recipes));
    for (int r = 0; r < recipes; r++) {
        class_lower(one, c, one->adjustable, &recipe[r]);
        QS_TRY(work_ask(one, work_us));
        if (work_us[c] >= least) continue;
        least = work_us[c];
        *best = &recipe[r];
    }
    class_lower(one, c, one->adjustable, *best);
    return QS_OK;
}

/* As few operators as bring the class down to `target_us`; all where that is not enough. */
static qs_status fewest_find(balancing *one, int c, const qs_recipe *low, double target_us, double *work_us) {
    int few = 0, many = one->adjustable; /* many are enough, fewer than few are not */
    while (few < many) {
        const int middle = (few + many) / 2;
        class_lower(one, c, middle, low);
        QS_TRY(work_ask(one, work_us));
        if (work_us[c] <= target_us)
            many = middle;
        else
            few = middle + 1;
    }
    class_lower(one, c, many, low);
    return QS_OK;
}

static qs_status balancing_run(balancing *one, qs_recipe *low, double *work_us, double *share) {
    const int classes = one->cluster->classes;
    const qs_recipe **best = NULL;
    double latest = 0, least = INFINITY;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)classes, sizeof *best, &best));
    for (int c = 0; c < classes; c++)
        if (may_be_lowered(one->cluster, c)) QS_GOTO(fastest_find(one, c, low + (size_t)c * QS_MAX_FORMATS, &best[c], work_us));
    QS_GOTO(work_ask(one, work_us));
    for (int c = 0; c < classes; c++)
        if (one->cluster->class_[c].count > 0) latest = fmax(latest, work_us[c]);
    for (int c = 0; c < classes; c++)
        if (best[c]) QS_GOTO(fewest_find(one, c, best[c], latest, work_us));
    QS_GOTO(work_ask(one, work_us));
    for (int c = 0; c < classes; c++)
        if (one->cluster->class_[c].count > 0) least = fmin(least, work_us[c]);
    *share = least / latest;
done:
    free(best);
    return status;
}

qs_status qs_balance_choose(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, bool from_end,
                            qs_recipe *low, const qs_recipe **const *recipe, double *share) {
    balancing one = {.cluster = cluster, .recipe = recipe};
    double *work_us = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *one.node, &one.node));
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *work_us, &work_us));
    for (int c = 0; c < cluster->classes; c++)
        memset(recipe[c], 0, (size_t)graph->nodes * sizeof *recipe[c]);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) one.node[one.adjustable++] = n;
    for (int i = 0; from_end && i < one.adjustable / 2; i++) {
        const int other = one.adjustable - 1 - i, kept = one.node[i];
        one.node[i] = one.node[other];
        one.node[other] = kept;
    }
    QS_GOTO(qs_predictor_create(graph, cluster, profile, job, NULL, &one.predictor));
    status = balancing_run(&one, low, work_us, share);
done:
    qs_predictor_release(one.predictor);
    free(one.node);
    free(work_us);
    return status;
}

/* ---- Fit ------------------------------------------------------------------------------------------------------------------------- */

/* The mean over plans of ln(measured / predicted) with the profile at a factor. */
static qs_status error_of(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, int plans,
                          const qs_balanced *plan, double factor, double *out) {
    qs_profile beside = {0};
    qs_status status = QS_OK;
    *out = 0;
    QS_TRY(qs_profile_beside(profile, factor, &beside));
    for (int p = 0; p < plans; p++) {
        qs_prediction prediction = {0};
        QS_GOTO(qs_predict(graph, cluster, &beside, job, plan[p].recipe, NULL, &prediction));
        *out += log(plan[p].measured_us / prediction.iteration_us) / plans;
        qs_prediction_release(&prediction);
    }
done:
    qs_profile_at_pace_release(&beside);
    return status;
}

qs_status qs_balance_fit(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, int plans,
                         const qs_balanced *plan, double *factor, double *error) {
    double known = 0, drift = 0, off, low = least_factor, high = most_factor;
    *factor = 1;
    *error = 0;
    if (plans == 0) return QS_OK;
    for (int p = 0; p < plans; p++)
        known += plan[p].confidence * plan[p].confidence / ((double)plans * plans);
    for (int c = 0; c < profile->classes; c++)
        drift = fmax(drift, profile->class_[c].quality.drift);
    known += drift * drift;
    QS_TRY(error_of(graph, cluster, profile, job, plans, plan, 1, &off));
    *error = expm1(off);
    if (fabs(off) <= sqrt(known)) return QS_OK;
    QS_TRY(error_of(graph, cluster, profile, job, plans, plan, low, &off));
    if (off <= 0) return QS_OK;
    QS_TRY(error_of(graph, cluster, profile, job, plans, plan, high, &off));
    if (off >= 0) return QS_OK;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        QS_TRY(error_of(graph, cluster, profile, job, plans, plan, middle, &off));
        *(off > 0 ? &low : &high) = middle;
    }
    *factor = (low + high) / 2;
    return QS_OK;
}
