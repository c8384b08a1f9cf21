// SPDX-License-Identifier: Apache-2.0
/* Sets of small numbers that are visited in order while they grow ahead of the visit: what a change still has to look at. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { WORD = 64 };

qs_status qs__marks_make(int count, qs_marks *out) {
    out->words = count / WORD + 1;
    return qs_allocate((size_t)out->words, sizeof *out->word, &out->word);
}

void qs__mark(qs_marks *marks, int index) {
    marks->word[index / WORD] |= (uint64_t)1 << (index % WORD);
}

void qs__unmark(qs_marks *marks, int index) {
    marks->word[index / WORD] &= ~((uint64_t)1 << (index % WORD));
}

static int highest(uint64_t word) {
    int bit = 0;
    for (int half = WORD / 2; half > 0; half /= 2)
        if (word >> half) {
            word >>= half;
            bit += half;
        }
    return bit;
}

int qs__mark_next(const qs_marks *marks, int from) {
    int at = from / WORD;
    uint64_t word = marks->word[at] >> (from % WORD) << (from % WORD);
    while (!word && ++at < marks->words)
        word = marks->word[at];
    return word ? at * WORD + highest(word & (~word + 1)) : -1; /* the lowest bit alone */
}

int qs__mark_previous(const qs_marks *marks, int from) {
    if (from < 0) return -1;
    int at = from / WORD;
    uint64_t word = marks->word[at] << (WORD - 1 - from % WORD) >> (WORD - 1 - from % WORD);
    while (!word && --at >= 0)
        word = marks->word[at];
    return word ? at * WORD + highest(word) : -1;
}

void qs__marks_clear(qs_marks *marks) {
    memset(marks->word, 0, (size_t)marks->words * sizeof *marks->word);
}
