// SPDX-License-Identifier: Apache-2.0
/* Quick answers may promise more than holds, everywhere between two plans: then the way from the one to the other is measured by the full
 * prediction itself. Raises are added, those first that save most Ω, as many as hold, which bisection finds; the one behind them is left
 * out, and so on with the rest. */
#include <stdlib.h>

#include "allocate.h"

enum { MOST_PREDICTIONS = 16 };

typedef struct raise {
    double gain;
    int class_index, node, recipe;
} raise;

typedef struct way {
    qs__allocation *all;
    int raises, predictions;
    raise *raise;
    bool calibrated; /* at the present plan */
} way;

static int raise_compare(const void *left, const void *right) {
    const raise *a = left, *b = right;
    if (a->gain != b->gain) return a->gain > b->gain ? -1 : 1;
    if (a->class_index != b->class_index) return a->class_index - b->class_index;
    return a->node - b->node;
}

static void raises_list(way *one, const int *wanted) {
    const qs_draft_plan *draft = one->all->draft;
    for (int c = 0; c < draft->cluster->classes; c++) {
        const qs_draft_class *class_ = &draft->class_[c];
        for (int n = 1; n < draft->graph->nodes; n++) {
            const int recipe = wanted[(size_t)c * (size_t)draft->graph->nodes + (size_t)n];
            const double *omega = &class_->omega[n * class_->recipes];
            if (!qs__is_free(draft, c, n) || !(omega[recipe] < omega[class_->choice[n]])) continue;
            one->raise[one->raises++] = (raise){omega[class_->choice[n]] - omega[recipe], c, n, recipe};
        }
    }
    qsort(one->raise, (size_t)one->raises, sizeof *one->raise, raise_compare);
}

/* Raises first .. end - 1 on top of the present plan: they stay if they hold. */
static qs_status try(way *one, int first, int end, bool *holds) {
    qs__search *search = one->all->search;
    const int mark = qs__search_mark(search);
    qs_status status = QS_OK;
    for (int i = first; i < end && status == QS_OK; i++)
        status = qs__search_set(search, one->raise[i].class_index, one->raise[i].node, one->raise[i].recipe);
    if (status != QS_OK && status != QS_MISMATCH) return status;
    *holds = status == QS_OK;
    if (*holds) {
        one->predictions++;
        QS_TRY(qs__accepted(one->all, holds));
        one->calibrated = *holds;
    }
    if (!*holds) return qs__search_back(search, mark);
    qs__search_keep(search);
    return QS_OK;
}

/* As many raises from *first on as hold; *first: behind them and the one that did not. */
static qs_status advance(way *one, int *first) {
    int end = one->raises;
    bool holds = false;
    QS_TRY(try(one, *first, end, &holds));
    if (holds) *first = end;
    while (end - *first > 1 && one->predictions < MOST_PREDICTIONS) {
        const int middle = *first + (end - *first) / 2;
        QS_TRY(try(one, *first, middle, &holds));
        if (holds)
            *first = middle;
        else
            end = middle;
    }
    *first = end;
    return QS_OK;
}

qs_status qs__approach(qs__allocation *all, const int *wanted) {
    way one = {.all = all, .calibrated = true};
    bool yes;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)all->draft->cluster->classes * (size_t)all->draft->graph->nodes, sizeof *one.raise, &one.raise));
    raises_list(&one, wanted);
    for (int first = 0; first < one.raises && one.predictions < MOST_PREDICTIONS;)
        QS_GOTO(advance(&one, &first));
    if (!one.calibrated) QS_GOTO(qs__accepted(all, &yes));
done:
    free(one.raise);
    return status;
}
