// SPDX-License-Identifier: Apache-2.0
/* The fastest mixed plan near the present one: operator by operator to the recipe that makes its class fastest, where that keeps T_min and
 * memory. */
#include <math.h>

#include "allocate.h"

static qs_status recipe_try(qs__allocation *one, int c, int node, int recipe, double *alone_us) {
    const qs_draft_class *class_ = &one->draft->class_[c];
    if (recipe == class_->choice[node] || isinf(class_->omega[node * class_->recipes + recipe])) return QS_OK;
    const qs_status status = qs__search_set(one->search, c, node, recipe);
    if (status != QS_OK) return status == QS_MISMATCH ? QS_OK : status;
    const double us = qs__search_alone_us(one->search, c);
    if (!(us < *alone_us) || !qs__is_feasible(one)) return qs__search_undo(one->search);
    *alone_us = us;
    return QS_OK;
}

qs_status qs__descend(qs__allocation *one, int class_index) {
    const qs_draft_plan *draft = one->draft;
    if (!qs__class_is_lowered(draft, class_index)) return QS_OK;
    double alone_us = qs__search_alone_us(one->search, class_index);
    for (int n = 1; n < draft->graph->nodes; n++)
        for (int r = 0; qs__is_free(draft, class_index, n) && r < draft->class_[class_index].recipes; r++)
            QS_TRY(recipe_try(one, class_index, n, r, &alone_us));
    return QS_OK;
}
