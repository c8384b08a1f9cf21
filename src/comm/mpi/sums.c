// SPDX-License-Identifier: Apache-2.0
/* Additions in rank order, block by block: partial sums stay in the first cache, every term is read and the result written once. */
#include "mpi_internal.h"

enum { BLOCK = 1024 };

/* Plain loops over one kind of access each: compilers make vector code of them, also where `into` is one of the others. */
static void pair_add(const float *left, const float *right, int64_t count, float *into) {
    for (int64_t i = 0; i < count; i++)
        into[i] = left[i] + right[i];
}

void qs__mpi_terms_add(int terms, const float *const *term, int64_t count, float *into) {
    float partial[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t length = count - at < BLOCK ? count - at : BLOCK;
        const float *sum = term[0] + at;
        for (int t = 1; t < terms; t++) {
            float *next = t == terms - 1 ? into + at : partial;
            pair_add(sum, term[t] + at, length, next);
            sum = next;
        }
    }
}
