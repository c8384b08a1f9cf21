// SPDX-License-Identifier: Apache-2.0
/* One recipe for all operators of a class: the fastest that fits its memory. T_min is the best throughput among the uniform plans that fit
 * (docs/method.md, eq. 1.2). */
#include <math.h>
#include <stdlib.h>

#include "../planner_internal.h"

typedef struct uniform_try {
    bool fits;
    double iteration_us, compute_us;
    size_t arena_bytes;
} uniform_try;

static qs_status recipe_try(qs_candidate *candidate, int c, int recipe, uniform_try *out) {
    qs_prediction prediction;
    qs__candidate_set_uniform(candidate, c, recipe);
    QS_TRY(qs__candidate_predict(candidate, &prediction));
    *out = (uniform_try){prediction.class_[c].fits, prediction.iteration_us, prediction.class_[c].compute_us,
                         prediction.class_[c].arena_bytes};
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status does_not_fit(const qs_class *one, const char *what, size_t bytes, const char *way_out) {
    return qs_fail(QS_INFEASIBLE, "class %s: %s needs %.1f MiB (%zu bytes) but the limit is %.1f MiB (%lld bytes); lower the batch%s",
                   one->name, what, (double)bytes / 1048576.0, bytes, (double)one->memory_limit / 1048576.0, (long long)one->memory_limit,
                   way_out);
}

static qs_status nothing_fits(const qs_candidate *candidate, int c, const uniform_try *tries) {
    char what[QS_NAME + 40];
    int least = 0;
    for (int r = 1; r < candidate->class_[c].recipes; r++)
        if (tries[r].arena_bytes < tries[least].arena_bytes) least = r;
    snprintf(what, sizeof what, "even %s everywhere", candidate->class_[c].recipe[least].name);
    return does_not_fit(&candidate->cluster->class_[c], what, tries[least].arena_bytes, " or raise the limit");
}

/* Nothing that is chosen for the others makes room in a class that is not lowered. */
static qs_status unlowered_check(const qs_candidate *candidate, const qs_prediction *prediction) {
    char what[QS_NAME + 40];
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const qs_candidate_class *one = &candidate->class_[c];
        if (qs__class_is_lowered(candidate, c) || prediction->class_[c].fits) continue;
        snprintf(what, sizeof what, "%s, %s,", one->recipe[0].name,
                 one->recipes > 1 ? "in which training classes stay" : "its only recipe");
        return does_not_fit(&candidate->cluster->class_[c], what, prediction->class_[c].arena_bytes,
                            one->recipes > 1 ? ", raise the limit, or lower training classes too (--lower-training)"
                                             : " or raise the limit");
    }
    return QS_OK;
}

/* Of the recipes that reach the best throughput, the fastest by the class's own compute time: where another class sets the pace all
 * iteration times are equal, and this is the recipe that would be fastest. Recipes within the tolerance count as equally fast: the highest
 * precision among them wins. */
static int fastest(const qs_candidate *candidate, int recipes, const uniform_try *tries, double best_us) {
    const double longest_us = qs__candidate_time_allowed(candidate, best_us);
    double compute_us = INFINITY;
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && tries[r].iteration_us <= longest_us && tries[r].compute_us < compute_us) compute_us = tries[r].compute_us;
    compute_us = qs__candidate_time_allowed(candidate, compute_us);
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && tries[r].iteration_us <= longest_us && tries[r].compute_us <= compute_us) return r;
    return -1;
}

static int highest(int recipes, const uniform_try *tries) {
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits) return r;
    return -1;
}

static qs_status class_choose(qs_candidate *candidate, int c, bool until_fits, double *best_us) {
    uniform_try tries[QS_MAX_RECIPES] = {{0}};
    const int recipes = candidate->class_[c].recipes;
    *best_us = INFINITY;
    for (int r = 0; r < recipes; r++) {
        QS_TRY(recipe_try(candidate, c, r, &tries[r]));
        if (tries[r].fits && tries[r].iteration_us < *best_us) *best_us = tries[r].iteration_us;
    }
    const int chosen = until_fits ? highest(recipes, tries) : fastest(candidate, recipes, tries, *best_us);
    if (chosen < 0) return nothing_fits(candidate, c, tries);
    qs__candidate_set_uniform(candidate, c, chosen);
    return QS_OK;
}

qs_status qs__uniform_choose(qs_candidate *candidate, bool until_fits, double *limit_us) {
    qs_prediction prediction;
    double best_us = INFINITY;
    for (int c = 0; c < candidate->cluster->classes; c++)
        qs__candidate_set_uniform(candidate, c, 0);
    /* Training classes last: they are lowered where they hold up the others after those were. */
    for (int training = 0; training < 2; training++)
        for (int c = 0; c < candidate->cluster->classes; c++)
            if (qs__class_is_lowered(candidate, c) && candidate->cluster->class_[c].inference == !training)
                QS_TRY(class_choose(candidate, c, until_fits, &best_us));
    QS_TRY(qs__candidate_predict(candidate, &prediction));
    /* With several lowered classes the last one's best may lie below what the choices of all reach within their tolerances. */
    *limit_us = fmax(isinf(best_us) ? 0 : qs__candidate_time_allowed(candidate, best_us), prediction.iteration_us);
    candidate->limit_us = *limit_us;
    const qs_status status = unlowered_check(candidate, &prediction);
    qs_prediction_release(&prediction);
    return status;
}
