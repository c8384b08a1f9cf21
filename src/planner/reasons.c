// SPDX-License-Identifier: Apache-2.0
/* Why a finished plan is not higher, by quick answers calibrated at that very plan. */
#include "allocate.h"

typedef struct present {
    double iteration_us;
    int64_t arena_bytes;
} present;

static qs_status node_explain(qs__allocation *one, int c, int node, present now) {
    qs_draft_class *class_ = &one->draft->class_[c];
    const int next = qs__draft_next(class_, node, class_->choice[node]);
    if (next < 0) return QS_OK;
    const qs_status status = qs__search_set(one->search, c, node, next);
    if (status != QS_OK && status != QS_MISMATCH) return status;
    const bool known = status == QS_OK;
    const double us = known ? qs__search_iteration_us(one->search) : now.iteration_us;
    const char *why = !known ? "profile" : !qs__search_fits(one->search, c) ? "memory" : us > one->limit_us ? "throughput" : "planner";
    snprintf(class_->stopped[node], sizeof class_->stopped[node], "%s", why);
    if (!known) return QS_OK;
    class_->raise_us[node] = us - now.iteration_us;
    class_->raise_bytes[node] = qs__search_arena_bytes(one->search, c) - now.arena_bytes;
    return qs__search_undo(one->search);
}

qs_status qs__reasons_find(qs__allocation *one) {
    for (int c = 0; c < one->draft->cluster->classes; c++) {
        const present now = {qs__search_iteration_us(one->search), qs__search_arena_bytes(one->search, c)};
        for (int n = 1; qs__class_is_lowered(one->draft, c) && n < one->draft->graph->nodes; n++)
            if (qs__is_free(one->draft, c, n)) QS_TRY(node_explain(one, c, n, now));
    }
    return QS_OK;
}

qs_status qs__draft_explain(qs_draft_plan *draft, double limit_us) {
    qs__allocation one = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__allocation_start(draft, limit_us, &one));
    QS_GOTO(qs__reasons_find(&one));
    QS_GOTO(qs__allocation_end(&one));
done:
    qs__allocation_end(&one);
    return status;
}
