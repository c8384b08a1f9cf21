// SPDX-License-Identifier: Apache-2.0
/* The initial plan of the paper (docs/method.md §5.1): every block of the model (qs_graph_blocks) has a share of the memory in proportion
 * to what lowering it saves, the fastest of all mixes of its recipes within that is taken, casts at its borders included, and its copies
 * get the same. Blocks of more than a few operators are improved operator by operator instead. The full prediction judges the whole: where
 * it does not fit, the shares shrink; where no share will do, the present plan stays, which also is where neighbours stand while a block is
 * decided. */
#include "allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BRUTE = 6, MOST_SHRINKS = 6, DESCENTS = 2 };

typedef struct initial {
    qs_candidate *candidate;
    qs_blocks blocks;
    qs__search *search;
    int class_index;
    qs_candidate_class *class_;
    double *bytes;     /* (nodes × recipes) what an adjustable node and those that follow it save */
    int operator_[64]; /* of the block at hand */
    int operators;
    double budget;
    double best_us;
    int mix[64], best[64];
} initial;

/* ---- Bytes --------------------------------------------------------------------------------------------------------------------- */

/* Dependent operators save in the format of the adjustable one before them; after a fixed-point one that is the class's half format. */
static qs_status recipe_bytes(initial *one, int recipe, qs_node_summary *summary) {
    const qs_graph *graph = one->candidate->graph;
    const qs_format *compute = one->class_->recipe[recipe].forward.src.format;
    const qs_format *storage =
        compute->kind == QS_KIND_INTEGER ? qs_class_half(&one->candidate->cluster->class_[one->class_index]) : compute;
    int owner = -1;
    QS_TRY(qs_graph_summarize(graph, one->candidate->batch[one->class_index], compute, storage, summary));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (qs__is_adjustable(one->candidate, n)) owner = n;
        if (owner > 0) one->bytes[owner * one->class_->recipes + recipe] += (double)summary[n].saved_bytes;
    }
    return QS_OK;
}

static qs_status bytes_find(initial *one) {
    qs_node_summary *summary = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)one->candidate->graph->nodes, sizeof *summary, &summary));
    QS_GOTO(qs_allocate((size_t)(one->candidate->graph->nodes * one->class_->recipes), sizeof *one->bytes, &one->bytes));
    for (int r = 0; r < one->class_->recipes; r++)
        QS_GOTO(recipe_bytes(one, r, summary));
done:
    free(summary);
    return status;
}

static double mix_bytes(const initial *one, const int *mix) {
    double sum = 0;
    for (int i = 0; i < one->operators; i++)
        sum += one->bytes[one->operator_[i] * one->class_->recipes + mix[i]];
    return sum;
}

static double least_bytes(const initial *one, int node) {
    double least = INFINITY;
    for (int r = 0; r < one->class_->recipes; r++)
        least = fmin(least, one->bytes[node * one->class_->recipes + r]);
    return least;
}

/* From what the lowest precision needs upwards by `share` of what lowering saves. */
static double budget_of(const initial *one, double share) {
    double budget = 0;
    for (int i = 0; i < one->operators; i++) {
        const double least = least_bytes(one, one->operator_[i]), most = one->bytes[one->operator_[i] * one->class_->recipes];
        budget += least + share * fmax(most - least, 0);
    }
    return budget;
}

/* ---- One block ------------------------------------------------------------------------------------------------------------------ */

static bool allowed(const initial *one, int node, int recipe) {
    if (one->class_->pinned[node]) return recipe == one->class_->choice[node];
    return !isinf(one->class_->omega[node * one->class_->recipes + recipe]);
}

static void mix_judge(initial *one) {
    const double us = qs__search_compute_us(one->search, one->class_index);
    if (!(us < one->best_us) || mix_bytes(one, one->mix) > one->budget * (1 + 1e-9)) return;
    one->best_us = us;
    memcpy(one->best, one->mix, (size_t)one->operators * sizeof *one->best);
}

/* A mix whose costs are not known is passed over. */
static qs_status operator_set(initial *one, int place, int recipe, bool *known) {
    const qs_status status = qs__search_set(one->search, one->class_index, one->operator_[place], recipe);
    *known = status == QS_OK;
    if (*known) one->mix[place] = recipe;
    return status == QS_MISMATCH ? QS_OK : status;
}

static qs_status mixes_try(initial *one, int place) {
    if (place == one->operators) {
        mix_judge(one);
        return QS_OK;
    }
    for (int r = 0; r < one->class_->recipes; r++) {
        bool known = false;
        if (allowed(one, one->operator_[place], r)) QS_TRY(operator_set(one, place, r, &known));
        if (known) QS_TRY(mixes_try(one, place + 1));
    }
    return QS_OK;
}

static qs_status operators_descend(initial *one) {
    for (int pass = 0; pass < DESCENTS; pass++)
        for (int i = 0; i < one->operators; i++) {
            bool known;
            for (int r = 0; r < one->class_->recipes; r++) {
                if (!allowed(one, one->operator_[i], r)) continue;
                QS_TRY(operator_set(one, i, r, &known));
                if (known) mix_judge(one);
            }
            if (!isinf(one->best_us)) QS_TRY(operator_set(one, i, one->best[i], &known));
        }
    return QS_OK;
}

/* Those beyond the 64th of a block stay as they are. */
static void operators_list(initial *one, const qs_block *block) {
    one->operators = 0;
    for (int i = 0; i < block->end - block->first && one->operators < 64; i++)
        if (qs__is_adjustable(one->candidate, block->node[i])) one->operator_[one->operators++] = block->node[i];
}

/* Decides the representative, and gives its recipes to the operators that correspond in the others. */
static qs_status kind_decide(initial *one, int kind, double share) {
    const qs_block *first = &one->blocks.block[one->blocks.representative[kind]];
    bool known;
    operators_list(one, first);
    one->budget = budget_of(one, share);
    one->best_us = INFINITY;
    for (int i = 0; i < one->operators; i++)
        one->mix[i] = one->best[i] = one->class_->choice[one->operator_[i]];
    QS_TRY(one->operators <= MOST_BRUTE ? mixes_try(one, 0) : operators_descend(one));
    for (int b = 0; b < one->blocks.blocks; b++) {
        if (one->blocks.block[b].kind != kind) continue;
        operators_list(one, &one->blocks.block[b]);
        for (int i = 0; i < one->operators; i++)
            if (allowed(one, one->operator_[i], one->best[i])) QS_TRY(operator_set(one, i, one->best[i], &known));
    }
    return QS_OK;
}

/* ---- A class ------------------------------------------------------------------------------------------------------------------------ */

static qs_status plan_at(initial *one, const int *start, double share, bool *fits) {
    qs__full_answer full;
    QS_TRY(qs__search_go(one->search, start));
    for (int k = 0; k < one->blocks.kinds; k++) {
        QS_TRY(kind_decide(one, k, share));
        qs__search_keep(one->search);
    }
    QS_TRY(qs__search_predict(one->search, &full));
    *fits = full.known && full.fits;
    return QS_OK;
}

static qs_status class_choose(initial *one, int *start) {
    double share = 1;
    bool fits = false;
    one->class_ = &one->candidate->class_[one->class_index];
    QS_TRY(bytes_find(one));
    qs__search_choices(one->search, start);
    for (int i = 0; i < MOST_SHRINKS && !fits; i++, share = i + 1 < MOST_SHRINKS ? share / 1.6 : 0)
        QS_TRY(plan_at(one, start, share, &fits));
    if (!fits) QS_TRY(qs__search_go(one->search, start));
    free(one->bytes);
    one->bytes = NULL;
    return QS_OK;
}

qs_status qs__initial_choose(qs__allocation *all) {
    const size_t choices = (size_t)all->candidate->cluster->classes * (size_t)all->candidate->graph->nodes;
    initial one = {.candidate = all->candidate, .search = all->search};
    int *start = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(choices, sizeof *start, &start));
    QS_GOTO(qs_graph_blocks(one.candidate->graph, &one.blocks));
    for (one.class_index = 0; one.class_index < one.candidate->cluster->classes; one.class_index++)
        if (qs__class_is_lowered(one.candidate, one.class_index)) QS_GOTO(class_choose(&one, start));
done:
    qs_blocks_release(&one.blocks);
    free(one.bytes);
    free(start);
    return status;
}
