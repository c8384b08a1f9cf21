// SPDX-License-Identifier: Apache-2.0
/* Precision promotion (docs/method.md §7.5): a tensor of the forward pass whose rounding overflowed in more than its threshold of the
 * elements gets its higher format for good. All ranks see the same counts (rounding.c) and decide alike; the plan so changed is taken
 * like any new plan between two steps. What a rank has no memory for is refused by all, and not tried again. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The plan with higher formats --------------------------------------------------------------------------------------------------- */

/* Outputs and parameters; -1: the model has no such tensor. */
static int place_of(const qs_graph *graph, const char *name) {
    const int node = qs_graph_find(graph, name);
    if (node >= 0) return node;
    for (int i = 0; i < graph->parameters; i++)
        if (strcmp(graph->parameter[i].name, name) == 0) return graph->nodes + i;
    return -1;
}

/* What was predicted of a class with raised tensors is not known any more; kernels are still those for their cases. */
static void plan_raise(const qs_graph *graph, const bool *raise, qs_plan *plan) {
    for (int c = 0; c < plan->classes; c++) {
        qs_class_plan *one = &plan->class_[c];
        bool raised = false;
        for (int t = 0; t < one->tensors; t++) {
            qs_tensor_choice *tensor = &one->tensor[t];
            const int place = place_of(graph, tensor->name);
            if (place < 0 || !raise[place] || !qs__tensor_is_low(tensor)) continue;
            tensor->value = qs__higher_of(tensor);
            if (tensor->saved) tensor->saved = tensor->value.format;
            raised = true;
        }
        if (!raised) continue;
        one->schedule[0] = '\0';
        free(one->length);
        one->length = NULL;
        one->lengths = 0;
        memset(&one->predicted, 0, sizeof one->predicted);
        plan->samples_per_second = 0;
    }
}

static qs_status plan_raised(const qs_plan *plan, const qs_graph *graph, const bool *raise, qs_plan **out) {
    QS_TRY(qs_allocate(1, sizeof **out, out));
    QS_TRY(qs_plan_copy(plan, *out));
    plan_raise(graph, raise, *out);
    return QS_OK;
}

/* ---- Who is promoted ---------------------------------------------------------------------------------------------------------------- */

typedef enum cause { NONE, OVERFLOW_RATIO, UNDERFLOW_RATIO } cause;

/* The choice of the first class whose tensor goes too far, whichever class this rank is of: ranks decide alike. NULL: none does. The
 * underflow threshold is the run's, overflow thresholds are the plan's. */
static const qs_tensor_choice *candidate_at(const qs__setting *setting, const qs_plan *plan, const qs__rounding *rounding, int place,
                                            cause *why) {
    const qs__rise *rise = &rounding->rise[place];
    const double underflow = setting->options->promote_underflow;
    *why = NONE;
    if (rise->standing == QS__REFUSED || (rise->overflow_ratio == 0 && underflow == 0)) return NULL;
    for (int c = 0; c < plan->classes; c++) {
        const qs_tensor_choice *tensor = qs_class_plan_tensor(&plan->class_[c], qs__rounding_name(setting->graph, place));
        if (!tensor || !qs__tensor_is_low(tensor)) continue;
        if (tensor->promote_at > 0 && rise->overflow_ratio > tensor->promote_at)
            *why = OVERFLOW_RATIO;
        else if (underflow > 0 && rise->underflow_ratio > underflow)
            *why = UNDERFLOW_RATIO;
        if (*why != NONE) return tensor;
    }
    return NULL;
}

/* How much this rank has to do with what promotes a value. */
static double own_share(const qs__setting *setting, const qs_plan *plan, const qs__rounding *rounding, int place) {
    const qs__rounding_sums *own = &rounding->own[place];
    cause why;
    if (!candidate_at(setting, plan, rounding, place, &why)) return 0;
    return qs__rounding_share(why == OVERFLOW_RATIO ? own->overflows : own->underflows, own->elements);
}

qs_status qs__promotions_judge(const qs__setting *setting, const qs_plan *plan, qs__rounding *all) {
    double *share = NULL, *rank; /* (values): largest share of a rank; - the lowest such rank */
    cause why;
    bool any = false;
    if (!plan || !all->counted) return QS_OK;
    all->counted = false;
    for (int p = 0; p < all->values; p++) {
        qs__rise *rise = &all->rise[p];
        *rise = (qs__rise){.standing = rise->standing,
                           .overflow_ratio = qs__rounding_share(all->lower[p].overflows, all->lower[p].elements),
                           .underflow_ratio = qs__rounding_share(all->lower[p].underflows, all->lower[p].elements)};
        any |= candidate_at(setting, plan, all, p, &why) != NULL;
    }
    if (!any) return QS_OK;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_agree(setting->comm, qs_allocate(2 * (size_t)all->values, sizeof *share, &share)));
    rank = share + all->values;
    for (int p = 0; p < all->values; p++)
        share[p] = own_share(setting, plan, all, p);
    QS_GOTO(qs_comm_max(setting->comm, share, all->values));
    for (int p = 0; p < all->values; p++)
        rank[p] = own_share(setting, plan, all, p) == share[p] ? -setting->rank : -INFINITY;
    QS_GOTO(qs_comm_max(setting->comm, rank, all->values));
    for (int p = 0; p < all->values; p++) {
        all->rise[p].rank = (int64_t)-rank[p];
        all->rise[p].rank_ratio = share[p];
    }
done:
    free(share);
    return status;
}

/* ---- One attempt -------------------------------------------------------------------------------------------------------------------- */

/* When it is made. */
typedef struct moment {
    int64_t epoch, step;
} moment;

static void promotion_log(const qs__promotion *one, int64_t step, const char *refusal) {
    const char *what = one->overflowed ? "overflowed" : "underflowed";
    const double share = one->overflowed ? one->rise.overflow_ratio : one->rise.underflow_ratio;
    if (refusal)
        qs_log(QS_LOG_WARNING, "tensor %s stays in %s (%.3g of its elements %s in step %lld, most on rank %d): %s", one->tensor, one->from,
               share, what, (long long)step, (int)one->rise.rank, refusal);
    else
        qs_log(QS_LOG_INFO, "tensor %s promoted from %s to %s before step %lld: %.3g of its elements %s, most on rank %d", one->tensor,
               one->from, one->to, (long long)step + 1, share, what, (int)one->rise.rank);
}

/* Counted bytes that a promotion adds to this rank's tensor. */
static double bytes_added(const qs__setting *setting, const qs__present *present, const qs__rounding *rounding, int place) {
    const qs_graph *graph = setting->graph;
    const char *name = qs__rounding_name(graph, place);
    const qs_tensor_choice *own = present->class_plan ? qs_class_plan_tensor(present->class_plan, name) : NULL;
    if (!own || !rounding->low[place]) return 0;
    const qs_shape shape =
        place < graph->nodes ? qs_graph_shape(graph, place, present->batch[setting->rank]) : graph->parameter[place - graph->nodes].shape;
    const int64_t elements = qs_shape_count(&shape);
    return (double)qs_format_bytes(qs__higher_of(own).format, elements) - (double)qs_format_bytes(own->value.format, elements);
}

/* What log and metrics say of promoted tensors, taken down before the plan changes. out: (count) */
static void promotions_describe(const qs__setting *setting, const qs_plan *plan, const qs__rounding *rounding, const bool *raise,
                                qs__promotion *out) {
    cause why;
    for (int place = 0; place < rounding->values; place++) {
        if (!raise[place]) continue;
        const qs_tensor_choice *tensor = candidate_at(setting, plan, rounding, place, &why);
        const qs_quantizer higher = qs__higher_of(tensor);
        *out = (qs__promotion){
            .tensor = qs__rounding_name(setting->graph, place), .overflowed = why == OVERFLOW_RATIO, .rise = rounding->rise[place]};
        qs_quantizer_text(&tensor->value, out->from);
        qs_quantizer_text(&higher, out->to);
        out++;
    }
}

/* refusal: NULL: the promotions came about, with `mine` as this rank's figures. Collective. */
static qs_status attempt_record(const qs__setting *setting, const qs__plans *plans, moment at, int count, const qs__promotion *one,
                                const qs__replan_figures *mine, const char *refusal) {
    qs__replan_figures *all = NULL;
    qs_status status = QS_OK;
    if (!refusal) QS_TRY(qs__replan_gather(setting, mine, &all));
    if (!refusal) status = qs__folder_plan(setting, plans);
    for (int i = 0; i < count; i++) {
        if (setting->rank == 0) promotion_log(&one[i], at.step, refusal);
        if (status == QS_OK) status = qs__metrics_promotion(setting, at.epoch, at.step, &one[i], all, refusal);
    }
    free(all);
    return qs_comm_agree(setting->comm, status);
}

/* *taken: false when it was refused, which is recorded if this was about one tensor. */
static qs_status attempt_run(const qs__setting *setting, qs__plans *plans, qs__rounding *rounding, moment at, const bool *raise,
                             bool *taken) {
    const int64_t arena_before = (int64_t)qs_memory_bytes(plans->memory);
    qs__replan_figures figures = {0};
    qs__promotion *one = NULL;
    qs_plan *plan = NULL;
    char refusal[512];
    double added = 0;
    int count = 0;
    *taken = false;
    for (int place = 0; place < rounding->values; place++) {
        if (!raise[place]) continue;
        added += bytes_added(setting, &plans->present, rounding, place);
        count++;
    }
    qs_status status = qs_allocate((size_t)count, sizeof *one, &one);
    if (status == QS_OK) status = plan_raised(plans->present.plan, setting->graph, raise, &plan);
    status = qs_comm_agree(setting->comm, status);
    if (status != QS_OK) {
        if (plan) qs_plan_release(plan);
        free(plan);
        free(one);
        return status;
    }
    promotions_describe(setting, plans->present.plan, rounding, raise, one);
    status = qs__plan_take(setting, plans, at.step, plan, &figures);
    *taken = status == QS_OK;
    snprintf(refusal, sizeof refusal, "%s", *taken ? "" : qs_message());
    if (*taken) {
        qs__rounding_follow(rounding, setting->graph, plans->present.class_plan);
        if (rounding->first_arena == 0) rounding->first_arena = arena_before;
        rounding->promotions += count;
        rounding->added += added;
        rounding->switches++;
    } else if (count == 1) {
        rounding->refusals++;
    }
    for (int place = 0; place < rounding->values; place++)
        if (raise[place] && (*taken || count == 1)) rounding->rise[place].standing = *taken ? QS__PROMOTED : QS__REFUSED;
    if (status != QS_PEER_LOST)
        status = *taken || count == 1 ? attempt_record(setting, plans, at, count, one, &figures, *taken ? NULL : refusal) : QS_OK;
    free(one);
    return status;
}

/* ---- Before a step ------------------------------------------------------------------------------------------------------------------ */

/* Overflows before underflows, larger shares first; shares are at most 1. */
static double urgency(const qs__setting *setting, const qs_plan *plan, const qs__rounding *rounding, int place) {
    const qs__rise *rise = &rounding->rise[place];
    cause why;
    (void)candidate_at(setting, plan, rounding, place, &why);
    return why == OVERFLOW_RATIO ? 1 + rise->overflow_ratio : rise->underflow_ratio;
}

/* The most urgent first. */
static qs_status one_by_one(const qs__setting *setting, qs__plans *plans, qs__rounding *rounding, moment at, bool *raise, bool *alone) {
    for (;;) {
        int most = -1;
        double highest = -1;
        for (int p = 0; p < rounding->values; p++) {
            const double here = raise[p] ? urgency(setting, plans->present.plan, rounding, p) : -1;
            if (here <= highest) continue;
            most = p;
            highest = here;
        }
        if (most < 0) return QS_OK;
        bool taken;
        raise[most] = false;
        memset(alone, 0, (size_t)rounding->values * sizeof *alone);
        alone[most] = true;
        QS_TRY(attempt_run(setting, plans, rounding, at, alone, &taken));
    }
}

/* Together where memory allows, else one by one. */
qs_status qs__promote(const qs__setting *setting, qs__plans *plans, qs__rounding *rounding, int64_t epoch, int64_t step) {
    const moment at = {epoch, step};
    bool *raise = NULL, taken = false;
    cause why;
    int count = 0;
    if (!plans->present.plan) return QS_OK;
    QS_TRY(qs__promotions_judge(setting, plans->present.plan, rounding));
    QS_TRY(qs_comm_agree(setting->comm, qs_allocate(2 * (size_t)rounding->values, sizeof *raise, &raise)));
    for (int place = 0; place < rounding->values; place++)
        count += raise[place] = candidate_at(setting, plans->present.plan, rounding, place, &why) != NULL;
    qs_status status = QS_OK;
    if (count > 0) status = attempt_run(setting, plans, rounding, at, raise, &taken);
    if (status == QS_OK && count > 1 && !taken) status = one_by_one(setting, plans, rounding, at, raise, raise + rounding->values);
    free(raise);
    return status;
}

/* ---- Before the first step, and behind another plan ---- */

qs_status qs__thresholds_set(const qs__setting *setting, qs__present *present) {
    const double threshold = setting->options->promote_at;
    if (threshold == 0 || !present->plan) return QS_OK;
    QS_TRY(qs__plan_own(present));
    for (int c = 0; c < present->own->classes; c++)
        for (int t = 0; t < present->own->class_[c].tensors; t++) {
            qs_tensor_choice *tensor = &present->own->class_[c].tensor[t];
            if (tensor->value.format) tensor->promote_at = threshold > 0 ? threshold : 0;
        }
    return QS_OK;
}

qs_status qs__promotions_resume(const qs__setting *setting, qs__present *present, qs__rounding *rounding) {
    const qs_state_part part = qs__rounding_part(rounding);
    bool *raise = NULL;
    if (!setting->options->resume || !present->plan) return QS_OK;
    QS_TRY(qs_state_read_part(setting->options->resume, setting->graph, &part));
    QS_TRY(qs_allocate((size_t)rounding->values, sizeof *raise, &raise));
    for (int place = 0; place < rounding->values; place++)
        raise[place] = rounding->rise[place].standing == QS__PROMOTED;
    const qs_status status = qs__plan_own(present);
    if (status == QS_OK) plan_raise(setting->graph, raise, present->own);
    free(raise);
    return status;
}

void qs__promotions_forget(qs__rounding *rounding) {
    memset(rounding->rise, 0, (size_t)rounding->values * sizeof *rounding->rise);
    rounding->counted = false;
}
