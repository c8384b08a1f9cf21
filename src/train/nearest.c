// SPDX-License-Identifier: Apache-2.0
/* Recipes as evaluation has them: forward formats without draws. */
#include "train_internal.h"

qs_status qs__recipes_to_nearest(const qs_graph *graph, const qs_recipe *const *recipe, const qs_recipe ***out) {
    const size_t nodes = (size_t)graph->nodes;
    *out = NULL;
    if (!recipe) return QS_OK;
    QS_TRY(qs_allocate(nodes, sizeof **out + sizeof(qs_recipe), out));
    qs_recipe *own = (qs_recipe *)(*out + nodes);
    for (size_t n = 0; n < nodes; n++) {
        if (!recipe[n]) continue;
        own[n] = *recipe[n];
        own[n].forward.src.rounding = own[n].forward.weights.rounding = own[n].weight_gradient.src.rounding = QS_NEAREST_EVEN;
        (*out)[n] = &own[n];
    }
    return QS_OK;
}
