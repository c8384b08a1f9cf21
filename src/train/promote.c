// SPDX-License-Identifier: Apache-2.0
/* Precision promotion (fp-assignment.md section 6): a tensor of the forward pass whose rounding overflowed in more than its threshold of
 * the elements gets its higher format for good. All ranks see the same counts (rounding.c) and decide alike; the plan so changed is taken
 * like any new plan between two steps. What a rank has no memory for is refused by all, and not tried again. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The plan with higher formats --------------------------------------------------------------------------------------------------- */

static qs_quantizer higher_of(const qs_tensor_choice *tensor) {
    qs_quantizer higher = tensor->promote_to;
    if (higher.format) return higher;
    higher = tensor->value;
    higher.format = qs_format_of("fp(6,9,0)");
    return higher;
}

bool qs__tensor_is_low(const qs_tensor_choice *tensor) {
    return tensor->value.format && tensor->value.format != higher_of(tensor).format;
}

/* Outputs and parameters; -1: the model has no such tensor. */
static int place_of(const qs_graph *graph, const char *name) {
    const int node = qs_graph_find(graph, name);
    if (node >= 0) return node;
    for (int i = 0; i < graph->parameters; i++)
        if (strcmp(graph->parameter[i].name, name) == 0) return graph->nodes + i;
    return -1;
}

static void tensor_raise(qs_tensor_choice *tensor) {
    tensor->value = higher_of(tensor);
    if (tensor->saved) tensor->saved = tensor->value.format;
}

/* What was known of the schedule is not known any more; kernels are still those for their cases. */
static void class_forget(qs_class_plan *one) {
    one->schedule[0] = '\0';
    memset(&one->predicted, 0, sizeof one->predicted);
}

static bool class_raise(const qs_graph *graph, const bool *raise, qs_class_plan *one) {
    bool raised = false;
    for (int t = 0; t < one->tensors; t++) {
        const int place = place_of(graph, one->tensor[t].name);
        if (place < 0 || !raise[place] || !qs__tensor_is_low(&one->tensor[t])) continue;
        tensor_raise(&one->tensor[t]);
        raised = true;
    }
    if (raised) class_forget(one);
    return raised;
}

/* The present plan as the trainer's own, which may be changed before it is bound to anything. */
static qs_status plan_own(qs__trainer *trainer) {
    if (trainer->taken) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *trainer->taken, &trainer->taken));
    QS_TRY(qs_plan_copy(trainer->plan, trainer->taken));
    trainer->plan = trainer->taken;
    return QS_OK;
}

static void plan_raise(const qs_graph *graph, const bool *raise, qs_plan *plan) {
    for (int c = 0; c < plan->classes; c++)
        if (class_raise(graph, raise, &plan->class_[c])) plan->images_per_second = 0;
}

static qs_status raised_text(const qs__trainer *trainer, const bool *raise, char **text) {
    qs_plan plan = {0};
    QS_TRY(qs_plan_copy(trainer->plan, &plan));
    plan_raise(trainer->graph, raise, &plan);
    const qs_status status = qs_plan_text(&plan, text);
    qs_plan_release(&plan);
    return status;
}

/* ---- Who is promoted ---------------------------------------------------------------------------------------------------------------- */

typedef enum cause { NONE, OVERFLOW_RATIO, UNDERFLOW_RATIO } cause;

/* The underflow threshold is the run's, overflow thresholds are the plan's. */
static cause cause_in(const qs__trainer *trainer, const qs_tensor_choice *tensor, const qs__rise *rise) {
    const double underflow = trainer->options->promote_underflow;
    if (!qs__tensor_is_low(tensor)) return NONE;
    if (tensor->promote_at > 0 && rise->overflow_ratio > tensor->promote_at) return OVERFLOW_RATIO;
    return underflow > 0 && rise->underflow_ratio > underflow ? UNDERFLOW_RATIO : NONE;
}

/* The choice of the first class whose tensor goes too far, whichever class this rank is of: ranks decide alike. NULL: none does. */
static const qs_tensor_choice *candidate_at(const qs__trainer *trainer, int place, cause *why) {
    const qs__rise *rise = &trainer->rounding.rise[place];
    *why = NONE;
    if (rise->standing == QS__REFUSED || (rise->overflow_ratio == 0 && trainer->options->promote_underflow == 0)) return NULL;
    for (int c = 0; c < trainer->plan->classes; c++) {
        const qs_tensor_choice *tensor = qs_class_plan_tensor(&trainer->plan->class_[c], qs__rounding_name(trainer->graph, place));
        *why = tensor ? cause_in(trainer, tensor, rise) : NONE;
        if (*why != NONE) return tensor;
    }
    return NULL;
}

static int candidates_find(const qs__trainer *trainer, bool *raise) {
    int count = 0;
    cause why;
    for (int place = 0; place < trainer->rounding.values; place++)
        count += raise[place] = candidate_at(trainer, place, &why) != NULL;
    return count;
}

/* How much this rank has to do with what promotes a value. */
static double own_share(const qs__trainer *trainer, int place) {
    const qs__rounding_sums *own = &trainer->rounding.own[place];
    cause why;
    if (!candidate_at(trainer, place, &why)) return 0;
    return qs__rounding_share(why == OVERFLOW_RATIO ? own->overflows : own->underflows, own->elements);
}

/* The lowest of the ranks where most elements went too far, for all values at once. share, rank: (values) */
static qs_status ranks_find(qs__trainer *trainer, double *share, double *rank) {
    qs__rounding *all = &trainer->rounding;
    for (int p = 0; p < all->values; p++)
        share[p] = own_share(trainer, p);
    QS_TRY(qs_comm_max(trainer->comm, share, all->values));
    for (int p = 0; p < all->values; p++)
        rank[p] = own_share(trainer, p) == share[p] ? -trainer->rank : -INFINITY;
    QS_TRY(qs_comm_max(trainer->comm, rank, all->values));
    for (int p = 0; p < all->values; p++) {
        all->rise[p].rank = (int64_t)-rank[p];
        all->rise[p].rank_ratio = share[p];
    }
    return QS_OK;
}

qs_status qs__promotions_judge(qs__trainer *trainer) {
    qs__rounding *all = &trainer->rounding;
    double *work = NULL;
    cause why;
    bool any = false;
    if (!trainer->plan || !all->counted) return QS_OK;
    all->counted = false;
    for (int p = 0; p < all->values; p++) {
        qs__rise *rise = &all->rise[p];
        *rise = (qs__rise){.standing = rise->standing,
                           .overflow_ratio = qs__rounding_share(all->lower[p].overflows, all->lower[p].elements),
                           .underflow_ratio = qs__rounding_share(all->lower[p].underflows, all->lower[p].elements)};
        any |= candidate_at(trainer, p, &why) != NULL;
    }
    if (!any) return QS_OK;
    QS_TRY(qs_comm_agree(trainer->comm, qs_allocate(2 * (size_t)all->values, sizeof *work, &work)));
    const qs_status status = ranks_find(trainer, work, work + all->values);
    free(work);
    return status;
}

/* ---- One attempt -------------------------------------------------------------------------------------------------------------------- */

/* What the log says of a promoted tensor: taken down before the plan changes. */
static void promotion_describe(const qs__trainer *trainer, int place, qs__promotion *out) {
    cause why;
    const qs_tensor_choice *tensor = candidate_at(trainer, place, &why);
    const qs_quantizer higher = higher_of(tensor);
    *out = (qs__promotion){
        .tensor = qs__rounding_name(trainer->graph, place), .overflowed = why == OVERFLOW_RATIO, .rise = trainer->rounding.rise[place]};
    qs_quantizer_text(&tensor->value, out->from);
    qs_quantizer_text(&higher, out->to);
}

static void promotion_log(const qs__trainer *trainer, const qs__promotion *one, const char *refusal) {
    const char *what = one->overflowed ? "overflowed" : "underflowed";
    const double share = one->overflowed ? one->rise.overflow_ratio : one->rise.underflow_ratio;
    if (trainer->rank != 0) return;
    if (refusal)
        qs_log(QS_LOG_WARNING, "tensor %s stays in %s (%.3g of its elements %s in step %lld, most on rank %d): %s", one->tensor, one->from,
               share, what, (long long)trainer->step, (int)one->rise.rank, refusal);
    else
        qs_log(QS_LOG_INFO, "tensor %s promoted from %s to %s before step %lld: %.3g of its elements %s, most on rank %d", one->tensor,
               one->from, one->to, (long long)trainer->step + 1, share, what, (int)one->rise.rank);
}

typedef struct attempt {
    qs__promotion *one; /* (count) */
    int count;
    double added; /* counted bytes of this rank's tensors */
    qs__replan_figures figures;
} attempt;

static double bytes_added(const qs__trainer *trainer, int place) {
    const qs_graph *graph = trainer->graph;
    const char *name = qs__rounding_name(graph, place);
    const qs_tensor_choice *own = trainer->class_plan ? qs_class_plan_tensor(trainer->class_plan, name) : NULL;
    if (!own || !trainer->rounding.low[place]) return 0;
    const qs_shape shape =
        place < graph->nodes ? qs_graph_shape(graph, place, trainer->batch[trainer->rank]) : graph->parameter[place - graph->nodes].shape;
    const int64_t elements = qs_shape_count(&shape);
    return (double)qs_format_bytes(higher_of(own).format, elements) - (double)qs_format_bytes(own->value.format, elements);
}

static qs_status attempt_describe(qs__trainer *trainer, const bool *raise, attempt *out) {
    const int places = trainer->rounding.values;
    QS_TRY(qs_comm_agree(trainer->comm, qs_allocate((size_t)places, sizeof *out->one, &out->one)));
    for (int place = 0; place < places; place++)
        if (raise[place]) {
            out->added += bytes_added(trainer, place);
            promotion_describe(trainer, place, &out->one[out->count++]);
        }
    return QS_OK;
}

static qs_status attempt_record(qs__trainer *trainer, int64_t epoch, const attempt *tried, const char *refusal) {
    qs__replan_figures *all = NULL;
    qs_status status = QS_OK;
    if (!refusal) QS_TRY(qs__replan_gather(trainer, &tried->figures, &all));
    for (int i = 0; i < tried->count; i++) {
        promotion_log(trainer, &tried->one[i], refusal);
        if (status == QS_OK) status = qs__metrics_promotion(trainer, epoch, &tried->one[i], all, refusal);
    }
    free(all);
    return qs_comm_agree(trainer->comm, status);
}

static qs_status attempt_take(qs__trainer *trainer, const bool *raise, qs__replan_figures *figures) {
    char *text = NULL;
    QS_TRY(qs_comm_agree(trainer->comm, raised_text(trainer, raise, &text)));
    const int64_t before = (int64_t)trainer->arena.bytes;
    const qs_status status = qs__plan_take(trainer, text, figures);
    free(text);
    if (status == QS_OK && trainer->rounding.first_arena == 0) trainer->rounding.first_arena = before;
    return status;
}

static void standing_note(qs__trainer *trainer, const bool *raise, qs__standing standing) {
    for (int place = 0; place < trainer->rounding.values; place++)
        if (raise[place]) trainer->rounding.rise[place].standing = standing;
}

/* *taken: false when it was refused, which is recorded if this was about one tensor. */
static qs_status attempt_run(qs__trainer *trainer, int64_t epoch, const bool *raise, bool *taken) {
    attempt tried = {0};
    char refusal[512];
    qs_status status = attempt_describe(trainer, raise, &tried);
    if (status == QS_OK) status = attempt_take(trainer, raise, &tried.figures);
    *taken = status == QS_OK;
    snprintf(refusal, sizeof refusal, "%s", *taken ? "" : qs_message());
    if (*taken) {
        trainer->rounding.promotions += tried.count;
        trainer->rounding.added += tried.added;
        trainer->promotion_switches++;
        standing_note(trainer, raise, QS__PROMOTED);
        status = attempt_record(trainer, epoch, &tried, NULL);
    } else if (status != QS_PEER_LOST) {
        const bool alone = tried.count == 1;
        trainer->rounding.refusals += alone;
        if (alone) standing_note(trainer, raise, QS__REFUSED);
        status = alone ? attempt_record(trainer, epoch, &tried, refusal) : QS_OK;
    }
    free(tried.one);
    return status;
}

/* ---- Before a step ------------------------------------------------------------------------------------------------------------------ */

/* Overflows before underflows, larger shares first; shares are at most 1. */
static double urgency(const qs__trainer *trainer, int place) {
    const qs__rise *rise = &trainer->rounding.rise[place];
    cause why;
    (void)candidate_at(trainer, place, &why);
    return why == OVERFLOW_RATIO ? 1 + rise->overflow_ratio : rise->underflow_ratio;
}

/* Together where memory allows, else one by one, the most urgent first. */
static qs_status one_by_one(qs__trainer *trainer, int64_t epoch, bool *raise) {
    const int places = trainer->rounding.values;
    bool *alone = NULL;
    qs_status status = qs_allocate((size_t)places, sizeof *alone, &alone);
    status = qs_comm_agree(trainer->comm, status);
    for (bool more = true; status == QS_OK && more;) {
        int most = -1;
        double highest = -1;
        for (int p = 0; p < places; p++) {
            if (!raise[p] || urgency(trainer, p) <= highest) continue;
            most = p;
            highest = urgency(trainer, p);
        }
        more = most >= 0;
        if (!more) break;
        bool taken;
        raise[most] = false;
        memset(alone, 0, (size_t)places * sizeof *alone);
        alone[most] = true;
        status = attempt_run(trainer, epoch, alone, &taken);
    }
    free(alone);
    return status;
}

qs_status qs__promote(qs__trainer *trainer, int64_t epoch) {
    bool *raise = NULL, taken = false;
    if (!trainer->plan) return QS_OK;
    QS_TRY(qs__promotions_judge(trainer));
    QS_TRY(qs_comm_agree(trainer->comm, qs_allocate((size_t)trainer->rounding.values, sizeof *raise, &raise)));
    const int count = candidates_find(trainer, raise);
    qs_status status = QS_OK;
    if (count > 0) status = attempt_run(trainer, epoch, raise, &taken);
    if (status == QS_OK && count > 1 && !taken) status = one_by_one(trainer, epoch, raise);
    free(raise);
    return status;
}

/* ---- Thresholds --------------------------------------------------------------------------------------------------------------------- */

qs_status qs__thresholds_set(qs__trainer *trainer) {
    const double threshold = trainer->options->promote_at;
    if (threshold == 0 || !trainer->plan) return QS_OK;
    QS_TRY(plan_own(trainer));
    for (int c = 0; c < trainer->taken->classes; c++)
        for (int t = 0; t < trainer->taken->class_[c].tensors; t++) {
            qs_tensor_choice *tensor = &trainer->taken->class_[c].tensor[t];
            if (tensor->value.format) tensor->promote_at = threshold > 0 ? threshold : 0;
        }
    return QS_OK;
}

/* ---- Going on, and anew ------------------------------------------------------------------------------------------------------------- */

qs_status qs__promotions_resume(qs__trainer *trainer) {
    const qs_state_part part = qs__promotions_part(trainer);
    bool *raise = NULL;
    if (!trainer->options->resume || !trainer->plan) return QS_OK;
    QS_TRY(qs_state_read_part(trainer->options->resume, trainer->graph, &part));
    QS_TRY(qs_allocate((size_t)trainer->rounding.values, sizeof *raise, &raise));
    for (int place = 0; place < trainer->rounding.values; place++)
        raise[place] = trainer->rounding.rise[place].standing == QS__PROMOTED;
    const qs_status status = plan_own(trainer);
    if (status == QS_OK) plan_raise(trainer->graph, raise, trainer->taken);
    free(raise);
    return status;
}

void qs__promotions_forget(qs__trainer *trainer) {
    memset(trainer->rounding.rise, 0, (size_t)trainer->rounding.values * sizeof *trainer->rounding.rise);
    trainer->rounding.counted = false;
}
