// SPDX-License-Identifier: Apache-2.0
/* Exchanges: the present plan's single changes, and joint changes of two operators between which values pass (their conversions depend on
 * both), are measured one by one; sums of two or three of them that promise less ΣΩ within the limits are tried for real, the largest
 * promise first. Repeated until none holds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocate.h"

enum { EXCHANGES = 32, NEIGHBOURS = 3, MOST_REFUSALS = 16 };

/* Measured additions may be off where conversions are shared: what is over by so much of the changes' sizes is still tried. */
static const double doubt = 0.25;

typedef struct move {
    int changes, node[2], recipe[2];
    double omega, us, bytes; /* what it adds */
} move;

typedef struct exchange {
    double omega;
    int moves, move[3];
} exchange;

typedef struct improvement {
    qs__allocation *all;
    int class_index;
    int moves, singles; /* singles come first */
    size_t capacity;
    move *move;
    double us, bytes; /* of the present plan */
    double room_us, room_bytes;
    int refusals; /* by the full prediction */
    int exchanges;
    exchange exchange[EXCHANGES]; /* by omega */
} improvement;

/* ---- Measuring ---- */

static double omega_of(const qs_candidate_class *one, int node, int recipe) {
    return one->omega[node * one->recipes + recipe];
}

static qs_status move_measure(improvement *one, move wanted) {
    qs__search *search = one->all->search;
    const qs_candidate_class *class_ = &one->all->candidate->class_[one->class_index];
    const int mark = qs__search_mark(search);
    qs_status status = QS_OK;
    for (int i = 0; i < wanted.changes; i++)
        wanted.omega +=
            omega_of(class_, wanted.node[i], wanted.recipe[i]) - omega_of(class_, wanted.node[i], class_->choice[wanted.node[i]]);
    if (!isfinite(wanted.omega)) return QS_OK;
    for (int i = 0; i < wanted.changes && status == QS_OK; i++)
        status = qs__search_set(search, one->class_index, wanted.node[i], wanted.recipe[i]);
    if (status == QS_OK) {
        wanted.us = qs__search_alone_us(search, one->class_index) - one->us;
        wanted.bytes = (double)qs__search_arena_bytes(search, one->class_index) - one->bytes;
        QS_TRY(qs_grow(&one->move, &one->capacity, (size_t)one->moves + 1, sizeof *one->move));
        one->move[one->moves++] = wanted;
    } else if (status != QS_MISMATCH) {
        return status;
    }
    return qs__search_back(search, mark);
}

static qs_status singles_measure(improvement *one) {
    const qs_candidate *candidate = one->all->candidate;
    const qs_candidate_class *class_ = &candidate->class_[one->class_index];
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++)
        for (int r = 0; qs__is_free(candidate, one->class_index, n) && r < class_->recipes; r++)
            if (r != class_->choice[n]) QS_TRY(move_measure(one, (move){.changes = 1, .node = {n}, .recipe = {r}}));
    one->singles = one->moves;
    return QS_OK;
}

static qs_status pair_measure(improvement *one, int a, int b) {
    const qs_candidate_class *class_ = &one->all->candidate->class_[one->class_index];
    for (int r = 0; r < class_->recipes; r++)
        for (int s = 0; s < class_->recipes && r != class_->choice[a]; s++)
            if (s != class_->choice[b] && !qs__is_spent(one->all))
                QS_TRY(move_measure(one, (move){.changes = 2, .node = {a, b}, .recipe = {r, s}}));
    return QS_OK;
}

/* The nearest free operators whose values reach a node through dependent ones only. */
static int sources_find(const improvement *one, int node, int *out, int count) {
    const qs_candidate *candidate = one->all->candidate;
    for (int i = 0; i < candidate->graph->node[node].inputs && count < NEIGHBOURS; i++) {
        const int input = candidate->graph->node[node].input[i];
        bool known = input == 0;
        for (int k = 0; k < count; k++)
            known = known || out[k] == input;
        if (known) continue;
        if (!qs__is_adjustable(candidate, input))
            count = sources_find(one, input, out, count);
        else if (qs__is_free(candidate, one->class_index, input))
            out[count++] = input;
    }
    return count;
}

static qs_status pairs_measure(improvement *one) {
    const qs_candidate *candidate = one->all->candidate;
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++) {
        int source[NEIGHBOURS] = {0};
        if (!qs__is_free(candidate, one->class_index, n)) continue;
        const int sources = sources_find(one, n, source, 0);
        for (int i = 0; i < sources; i++)
            QS_TRY(pair_measure(one, source[i], n));
    }
    return QS_OK;
}

/* ---- Sums of changes ---- */

static bool are_apart(const move *a, const move *b) {
    for (int i = 0; i < a->changes; i++)
        for (int k = 0; k < b->changes; k++)
            if (a->node[i] == b->node[k]) return false;
    return true;
}

static bool is_promising(const improvement *one, const exchange *wanted) {
    double us = 0, bytes = 0, us_size = 0, bytes_size = 0;
    for (int i = 0; i < wanted->moves; i++) {
        const move *part = &one->move[wanted->move[i]];
        us += part->us;
        bytes += part->bytes;
        us_size += fabs(part->us);
        bytes_size += fabs(part->bytes);
    }
    return us <= one->room_us + doubt * us_size && bytes <= one->room_bytes + doubt * bytes_size;
}

static void exchange_note(improvement *one, exchange wanted) {
    for (int i = 0; i < wanted.moves; i++)
        wanted.omega += one->move[wanted.move[i]].omega;
    if (!(wanted.omega < 0) || (one->exchanges == EXCHANGES && wanted.omega >= one->exchange[EXCHANGES - 1].omega)) return;
    if (!is_promising(one, &wanted)) return;
    int i = one->exchanges < EXCHANGES ? one->exchanges++ : EXCHANGES - 1;
    for (; i > 0 && one->exchange[i - 1].omega > wanted.omega; i--)
        one->exchange[i] = one->exchange[i - 1];
    one->exchange[i] = wanted;
}

/* Triples are of single changes, with both signs of omega among them. */
static void triples_note(improvement *one, int a, int b) {
    for (int c = b + 1; c < one->singles; c++) {
        const double x = one->move[a].omega, y = one->move[b].omega, z = one->move[c].omega;
        if ((x < 0) == (y < 0) && (x < 0) == (z < 0)) continue;
        if (x + y + z < 0 && are_apart(&one->move[a], &one->move[c]) && are_apart(&one->move[b], &one->move[c]))
            exchange_note(one, (exchange){.moves = 3, .move = {a, b, c}});
    }
}

static void exchanges_find(improvement *one) {
    one->exchanges = 0;
    for (int a = 0; a < one->moves; a++) {
        exchange_note(one, (exchange){.moves = 1, .move = {a}});
        for (int b = a + 1; b < one->moves; b++) {
            if (!are_apart(&one->move[a], &one->move[b])) continue;
            exchange_note(one, (exchange){.moves = 2, .move = {a, b}});
            if (b < one->singles) triples_note(one, a, b);
        }
    }
}

/* ---- Trying ---- */

/* The others are judged from where they start, not from what was refused. */
static qs_status refusal_note(improvement *one) {
    bool yes;
    one->refusals++;
    return qs__predict_in_full(one->all, &yes);
}

static qs_status exchange_try(improvement *one, const exchange *wanted, bool *kept) {
    qs__search *search = one->all->search;
    const int mark = qs__search_mark(search);
    qs_status status = QS_OK;
    for (int i = 0; i < wanted->moves; i++) {
        const move *part = &one->move[wanted->move[i]];
        for (int k = 0; k < part->changes && status == QS_OK; k++)
            status = qs__search_set(search, one->class_index, part->node[k], part->recipe[k]);
    }
    if (status != QS_OK && status != QS_MISMATCH) return status;
    const bool promises = status == QS_OK && qs__is_feasible(one->all);
    *kept = promises;
    if (promises) QS_TRY(qs__predict_in_full(one->all, kept));
    if (*kept) return QS_OK;
    QS_TRY(qs__search_back(search, mark));
    return promises ? refusal_note(one) : QS_OK;
}

static qs_status round_run(improvement *one, bool *better) {
    qs__allocation *all = one->all;
    const int64_t limit = all->candidate->cluster->class_[one->class_index].memory_limit;
    one->us = qs__search_alone_us(all->search, one->class_index);
    one->bytes = (double)qs__search_arena_bytes(all->search, one->class_index);
    one->room_us = all->limit_us - one->us;
    one->room_bytes = limit > 0 ? (double)limit - one->bytes : INFINITY;
    one->moves = 0;
    *better = false;
    QS_TRY(singles_measure(one));
    QS_TRY(pairs_measure(one));
    exchanges_find(one);
    for (int i = 0; i < one->exchanges && one->refusals < MOST_REFUSALS && !*better; i++)
        QS_TRY(exchange_try(one, &one->exchange[i], better));
    return QS_OK;
}

qs_status qs__improve(qs__allocation *all) {
    improvement one = {.all = all};
    qs_status status = QS_OK;
    for (int c = 0; c < all->candidate->cluster->classes; c++) {
        one.class_index = c;
        one.refusals = 0;
        for (bool better = qs__class_is_lowered(all->candidate, c); better && !qs__is_spent(all);)
            QS_GOTO(round_run(&one, &better));
    }
done:
    free(one.move);
    return status;
}
