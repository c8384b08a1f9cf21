// SPDX-License-Identifier: Apache-2.0
/* Planner `uniform` (UP): one recipe for all operators of a class: the fastest that fits its memory. Its throughput is T_min (qsync.md §1). */
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
    *out = (uniform_try){prediction.class_[c].fits, prediction.iteration_us, prediction.class_[c].compute_us, prediction.class_[c].arena_bytes};
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status nothing_fits(const qs_draft_plan *draft, int c, const uniform_try *lowest) {
    const qs_class *one = &draft->cluster->class_[c];
    return qs_fail(QS_INFEASIBLE, "class %s: even %s everywhere needs %.1f MiB but the limit is %.1f MiB; lower the batch or raise the limit",
                   one->name, draft->class_[c].recipe[draft->class_[c].recipes - 1].name, (double)lowest->arena_bytes / 1048576.0,
                   (double)one->memory_limit / 1048576.0);
}

/* The fastest recipe by the class's own compute time: where another class sets the pace all iteration times are equal, and this is the recipe
 * that would be fastest. Recipes within the tolerance of it count as equally fast: the highest precision among them wins. */
static int fastest(const qs_draft_plan *draft, int recipes, const uniform_try *tries) {
    double best = 0;
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && (best == 0 || tries[r].compute_us < best)) best = tries[r].compute_us;
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits && tries[r].compute_us <= best * (1 + draft->options->tolerance)) return r;
    return -1;
}

static int highest(int recipes, const uniform_try *tries) {
    for (int r = 0; r < recipes; r++)
        if (tries[r].fits) return r;
    return -1;
}

static qs_status class_choose(qs_draft_plan *draft, int c, bool until_fits) {
    uniform_try tries[QS_MAX_RECIPES];
    const int recipes = draft->class_[c].recipes;
    for (int r = 0; r < recipes; r++) QS_TRY(recipe_try(draft, c, r, &tries[r]));
    const int chosen = until_fits ? highest(recipes, tries) : fastest(draft, recipes, tries);
    if (chosen < 0) return nothing_fits(draft, c, &tries[recipes - 1]);
    qs__draft_set_uniform(draft, c, chosen);
    return QS_OK;
}

qs_status qs__uniform_choose(qs_draft_plan *draft, bool until_fits, double *iteration_us) {
    qs_prediction prediction;
    for (int c = 0; c < draft->cluster->classes; c++) {
        if (!qs__class_is_lowered(draft, c)) qs__draft_set_uniform(draft, c, 0);
    }
    for (int c = 0; c < draft->cluster->classes; c++)
        if (qs__class_is_lowered(draft, c)) QS_TRY(class_choose(draft, c, until_fits));
    QS_TRY(qs__draft_predict(draft, &prediction));
    *iteration_us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return QS_OK;
}

qs_status qs__planner_uniform(qs_draft_plan *draft) {
    double iteration_us = 0;
    return qs__uniform_choose(draft, draft->options->until_fits, &iteration_us);
}
