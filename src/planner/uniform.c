// SPDX-License-Identifier: Apache-2.0
/* Planner `uniform` (UP): one recipe for all operators of a class: the fastest that fits its memory. T_min is the best throughput among the
 * uniform plans that fit (docs/method.md, eq. 1.2). */
#include <math.h>
#include <stdlib.h>

#include "allocate.h"

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

static qs_status does_not_fit(const qs_class *one, const char *what, size_t bytes, const char *way_out) {
    return qs_fail(QS_INFEASIBLE, "class %s: %s needs %.1f MiB (%zu bytes) but the limit is %.1f MiB (%lld bytes); lower the batch%s",
                   one->name, what, (double)bytes / 1048576.0, bytes, (double)one->memory_limit / 1048576.0, (long long)one->memory_limit,
                   way_out);
}

static qs_status nothing_fits(const qs_draft_plan *draft, int c, const uniform_try *tries) {
    char what[QS_NAME + 40];
    int least = 0;
    for (int r = 1; r < draft->class_[c].recipes; r++)
        if (tries[r].arena_bytes < tries[least].arena_bytes) least = r;
    snprintf(what, sizeof what, "even %s everywhere", draft->class_[c].recipe[least].name);
    return does_not_fit(&draft->cluster->class_[c], what, tries[least].arena_bytes, " or raise the limit");
}

/* Nothing that is chosen for the others makes room in a class that is not lowered. */
static qs_status unlowered_check(const qs_draft_plan *draft, const qs_prediction *prediction) {
    char what[QS_NAME + 40];
    for (int c = 0; c < draft->cluster->classes; c++) {
        const qs_draft_class *one = &draft->class_[c];
        if (qs__class_is_lowered(draft, c) || prediction->class_[c].fits) continue;
        snprintf(what, sizeof what, "%s, %s,", one->recipe[0].name,
                 one->recipes > 1 ? "in which training classes stay" : "its only recipe");
        return does_not_fit(&draft->cluster->class_[c], what, prediction->class_[c].arena_bytes,
                            one->recipes > 1 ? ", raise the limit, or lower training classes too (--lower-training)"
                                             : " or raise the limit");
    }
    return QS_OK;
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
    const qs_status status = unlowered_check(draft, &prediction);
    qs_prediction_release(&prediction);
    return status;
}

qs_status qs__planner_uniform(qs_draft_plan *draft) {
    double limit_us = 0;
    QS_TRY(qs__uniform_choose(draft, draft->options->until_fits, &limit_us));
    /* Where it lowers until memory fits, nothing else stopped it. */
    return qs__draft_explain(draft, draft->options->until_fits ? INFINITY : limit_us);
}
