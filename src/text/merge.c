// SPDX-License-Identifier: Apache-2.0
/* Merging neighbours, best pair first, as pair encodings do. Candidates wait in a heap; one whose symbols were merged meanwhile is
 * recognised when it comes out and dropped. n symbols take O(n log n), also where a text is one long word. */
#include "text_internal.h"

#include <stdlib.h>

struct qs__candidate {
    float order;
    size_t place; /* of the left symbol */
    int32_t left, right, merged;
};

static bool comes_before(const struct qs__candidate *a, const struct qs__candidate *b) {
    return a->order != b->order ? a->order < b->order : a->place < b->place;
}

static qs_status candidate_add(qs__symbols *symbols, struct qs__candidate candidate) {
    QS_TRY(qs_grow(&symbols->heap, &symbols->heap_room, symbols->heap_count + 1, sizeof *symbols->heap));
    struct qs__candidate *heap = symbols->heap;
    size_t at = symbols->heap_count++;
    for (; at > 0 && comes_before(&candidate, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = candidate;
    return QS_OK;
}

static struct qs__candidate candidate_take(qs__symbols *symbols) {
    struct qs__candidate *heap = symbols->heap;
    const struct qs__candidate first = heap[0], last = heap[--symbols->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < symbols->heap_count; at = child) {
        if (child + 1 < symbols->heap_count && comes_before(&heap[child + 1], &heap[child])) child++;
        if (!comes_before(&heap[child], &last)) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

qs_status qs__symbols_add(qs__symbols *symbols, int32_t id, size_t begin, size_t end) {
    QS_TRY(qs_grow(&symbols->symbol, &symbols->room, symbols->count + 1, sizeof *symbols->symbol));
    symbols->symbol[symbols->count] = (qs__symbol){
        .id = id, .begin = begin, .end = end, .previous = symbols->count ? symbols->count - 1 : QS__NOWHERE, .next = QS__NOWHERE};
    if (symbols->count) symbols->symbol[symbols->count - 1].next = symbols->count;
    symbols->count++;
    return QS_OK;
}

/* The pair that begins at `place`, where a rule merges it. */
static qs_status pair_consider(qs__symbols *symbols, const qs_tokenizer *tokenizer, qs__pair_rule rule, size_t place) {
    if (place == QS__NOWHERE || symbols->symbol[place].next == QS__NOWHERE) return QS_OK;
    const int32_t left = symbols->symbol[place].id, right = symbols->symbol[symbols->symbol[place].next].id;
    float order = 0;
    const int32_t merged = rule(tokenizer, left, right, &order);
    if (merged < 0) return QS_OK;
    return candidate_add(symbols, (struct qs__candidate){order, place, left, right, merged});
}

qs_status qs__symbols_merge(qs__symbols *symbols, const qs_tokenizer *tokenizer, qs__pair_rule rule, qs_tokens *out) {
    qs__symbol *symbol = symbols->symbol;
    symbols->heap_count = 0;
    for (size_t i = 0; i + 1 < symbols->count; i++)
        QS_TRY(pair_consider(symbols, tokenizer, rule, i));
    while (symbols->heap_count > 0) {
        const struct qs__candidate best = candidate_take(symbols);
        const size_t right = symbol[best.place].next;
        if (symbol[best.place].id != best.left || right == QS__NOWHERE || symbol[right].id != best.right) continue;
        symbol[best.place].id = best.merged;
        symbol[best.place].end = symbol[right].end;
        symbol[best.place].next = symbol[right].next;
        if (symbol[right].next != QS__NOWHERE) symbol[symbol[right].next].previous = best.place;
        symbol[right].id = -1;
        QS_TRY(pair_consider(symbols, tokenizer, rule, symbol[best.place].previous));
        QS_TRY(pair_consider(symbols, tokenizer, rule, best.place));
    }
    for (size_t i = 0; i < symbols->count; i++)
        if (symbol[i].id >= 0) QS_TRY(qs__tokens_add(out, symbol[i].id, symbol[i].begin, symbol[i].end));
    symbols->count = 0;
    return QS_OK;
}

void qs__symbols_release(qs__symbols *symbols) {
    free(symbols->symbol);
    free(symbols->heap);
    *symbols = (qs__symbols){0};
}
