// SPDX-License-Identifier: Apache-2.0
/* Draws for eight elements, whose counters follow one another but where rows leave one out. */
#ifndef QSYNC_DEVICE_CUDA_DRAWS_CUH
#define QSYNC_DEVICE_CUDA_DRAWS_CUH

#include "cuda/arithmetic.cuh"
#include "cuda/draws_jobs.h"

QS_CUDA_DEVICE uint64_t draw_counter(const qs__cuda_draws &draws, int64_t i) {
    return draws.first + (uint64_t)i + (draws.gap ? (uint64_t)(i / draws.per_row) : 0);
}

/* 32 bits for each of the elements i to i + 7. */
QS_CUDA_DEVICE void draw_words(const qs__cuda_draws &draws, int64_t i, uint32_t out[8]) {
    const uint64_t counter = draws.first + (uint64_t)i;
    const uint32_t low = (uint32_t)counter;
    if (draws.gap || low > UINT32_MAX - 7) {
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            out[j] = random_bits(draws.key, draw_counter(draws, i + j));
        return;
    }
    const uint64_t key = counter >> 32 ? random_key_for(draws.key, counter) : draws.key;
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        out[j] = random_hash((uint32_t)key, (uint32_t)(key >> 32), low + (uint32_t)j);
}

/* 16 bits for each, two from one hash. i and draws.first are even. */
QS_CUDA_DEVICE void draw_halves(const qs__cuda_draws &draws, int64_t i, uint32_t out[8]) {
    const uint64_t counter = (draws.first + (uint64_t)i) >> 1;
    const uint32_t low = (uint32_t)counter;
    if (draws.gap || low > UINT32_MAX - 3) {
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            out[j] = random_half(draws.key, draw_counter(draws, i + j));
        return;
    }
    const uint64_t key = counter >> 32 ? random_key_for(draws.key, counter) : draws.key;
    QS_CUDA_UNROLL
    for (int j = 0; j < 4; j++) {
        const uint32_t word = random_hash((uint32_t)key, (uint32_t)(key >> 32), low + (uint32_t)j);
        out[2 * j] = word & 0xFFFFu;
        out[2 * j + 1] = word >> 16;
    }
}

#endif
