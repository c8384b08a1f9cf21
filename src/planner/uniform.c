// SPDX-License-Identifier: Apache-2.0
/* Planner `uniform` (UP): one recipe for all operators of a class: the fastest that fits its memory. T_min is the best throughput among the
 * uniform plans that fit (qsync.md §1). */
#include <math.h>
#include <stdlib.h>

#include "planner_internal.h"

typedef struct uniform_try {
    bool fits;
    double iteration_us, compute_us;
    size_t arena_bytes;
} uniform_try;

static qs_status recipe_try(qs_draft_plan *draft, int c, int recipe, uniform_try *out) {
    qs_prediction prediction;
    qs__draft_set_uniform(draft, c, recipe);
    QS_TRY(qs__draft_predict(draft, &prediction));
    *out = (uniform_try){prediction.class_[c].fits, prediction.iteration_us, prediction.class_[c].compute_us,
                         prediction.class_[c].arena_bytes};
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status nothing_fits(const qs_draft_plan *draft, int c, const uniform_try *tries) {
    const qs_class *one = &draft->cluster->class_[c];
    int least = 0;
    for (int r = 1; r < draft->class_[c].recipes; r++)
        if (tries[r].arena_bytes < tries[least].arena_bytes) least = r;
    return qs_fail(QS_INFEASIBLE,
                   "class %s: even %s everywhere needs %.1f MiB (%zu bytes) but the limit is %.1f MiB (%lld bytes); lower the batch or "
                   "raise the limit",
                   one->name, draft->class_[c].recipe[least].name, (double)tries[least].arena_bytes / 1048576.0, tries[least].arena_bytes,
                   (double)one->memory_limit / 1048576.0, (long long)one->memory_limit);
}

/* Of the recipes that reach the best throughput, the fastest by the class's own compute time: where another class sets the pace all
 * iteration times are equal, and this is the recipe that would be fastest. Recipes within the tolerance count as equally fast: the highest
 * precision among them wins. */
static int fastest(const qs_draft_plan *draft, int recipes, const uniform_try *tries, double best_us) {
    const double longest_us = qs__draft_time_allowed(draft, best_us);
    double compute_us = INFINITY;
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && tries[r].iteration_us <= longest_us && tries[r].compute_us < compute_us) compute_us = tries[r].compute_us;
    compute_us = qs__draft_time_allowed(draft, compute_us);
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && tries[r].iteration_us <= longest_us && tries[r].compute_us <= compute_us) return r;
    return -1;
}

static int highest(int recipes, const uniform_try *tries) {
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits) return r;
    return -1;
}

static qs_status class_choose(qs_draft_plan *draft, int c, bool until_fits, double *best_us) {
    uniform_try tries[QS_MAX_RECIPES] = {{0}};
    const int recipes = draft->class_[c].recipes;
    *best_us = INFINITY;
    for (int r = 0; r < recipes; r++) {
        QS_TRY(recipe_try(draft, c, r, &tries[r]));
        if (tries[r].fits && tries[r].iteration_us < *best_us) *best_us = tries[r].iteration_us;
    }
    const int chosen = until_fits ? highest(recipes, tries) : fastest(draft, recipes, tries, *best_us);
    if (chosen < 0) return nothing_fits(draft, c, tries);
    qs__draft_set_uniform(draft, c, chosen);
    return QS_OK;
}

qs_status qs__uniform_choose(qs_draft_plan *draft, bool until_fits, double *limit_us) {
    qs_prediction prediction;
    double best_us = INFINITY;
    for (int c = 0; c < draft->cluster->classes; c++)
        qs__draft_set_uniform(draft, c, 0);
    /* Training classes last: they are lowered where they hold up the others after those were. */
    for (int training = 0; training < 2; training++)
        for (int c = 0; c < draft->cluster->classes; c++)
            if (qs__class_is_lowered(draft, c) && draft->cluster->class_[c].inference == !training)
                QS_TRY(class_choose(draft, c, until_fits, &best_us));
    QS_TRY(qs__draft_predict(draft, &prediction));
    /* With several lowered classes the last one's best may lie below what the choices of all reach within their tolerances. */
    *limit_us = fmax(isinf(best_us) ? 0 : qs__draft_time_allowed(draft, best_us), prediction.iteration_us);
    draft->limit_us = *limit_us;
    qs_prediction_release(&prediction);
    return QS_OK;
}

qs_status qs__planner_uniform(qs_draft_plan *draft) {
    double limit_us = 0;
    return qs__uniform_choose(draft, draft->options->until_fits, &limit_us);
}
