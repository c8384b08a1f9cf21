// SPDX-License-Identifier: Apache-2.0
/* Which bytes does a step find in a cache? The steps of an iteration walk over the arena again and again; a least-recently-used cache of
 * blocks that sees two iterations tells, for every step of the second, how much of its operands had been thrown out since it was last
 * touched. Arenas many times the cache are walked in larger blocks: nothing is found there anyway. */
#include <stdlib.h>

#include "qsync/schedule.h"

enum { LEAST_BLOCK = 16 << 10, MOST_BLOCKS = 8192 };

typedef struct cache {
    size_t block_bytes;
    int capacity, count; /* blocks */
    int *older, *newer;  /* (blocks + 1) neighbours in order of use; the last entry is the ring's anchor; older < 0: not in the cache */
    int anchor;
} cache;

static void cache_remove(cache *one, int block) {
    one->newer[one->older[block]] = one->newer[block];
    one->older[one->newer[block]] = one->older[block];
    one->older[block] = -1;
    one->count--;
}

static void cache_add(cache *one, int block) {
    const int newest = one->older[one->anchor];
    one->older[block] = newest;
    one->newer[block] = one->anchor;
    one->newer[newest] = one->older[one->anchor] = block;
    one->count++;
}

/* Bytes of a range that were not in the cache; they are now. */
static size_t range_touch(cache *one, size_t offset, size_t bytes) {
    size_t missed = 0;
    for (size_t at = offset / one->block_bytes; bytes > 0 && at <= (offset + bytes - 1) / one->block_bytes; at++) {
        const int block = (int)at;
        if (one->older[block] >= 0) {
            cache_remove(one, block);
        } else {
            missed += one->block_bytes < bytes ? one->block_bytes : bytes;
            if (one->count == one->capacity) cache_remove(one, one->newer[one->anchor]);
        }
        cache_add(one, block);
    }
    return missed;
}

static size_t step_touch(cache *one, const qs_schedule *schedule, const qs_step *step) {
    size_t missed = 0;
    for (int i = 0; step->kind == QS_STEP_KERNEL && i < step->case_.operands; i++) {
        const qs_operand *operand = &step->case_.operand[i];
        if (!operand->format || step->place[i].buffer < 0) continue;
        missed += range_touch(one, schedule->buffer[step->place[i].buffer].offset + step->place[i].offset,
                              qs_tensor_bytes(&operand->shape, operand->format));
    }
    if (step->scratch.buffer >= 0) {
        const qs_buffer *scratch = &schedule->buffer[step->scratch.buffer];
        missed += range_touch(one, scratch->offset, scratch->bytes);
    }
    return missed;
}

static size_t block_of(size_t arena_bytes) {
    size_t block = LEAST_BLOCK;
    while (arena_bytes / block >= MOST_BLOCKS)
        block *= 2;
    return block;
}

/* Of what a step touches the cache holds no more than its size; a block may serve the ends of two operands. */
int64_t qs_schedule_cold_bytes_least(const qs_step *step, int64_t cache_bytes, size_t arena_bytes) {
    const int64_t block = (int64_t)block_of(arena_bytes);
    int64_t cold = -(cache_bytes > block ? cache_bytes : block);
    for (int i = 0; i < step->case_.operands; i++) {
        const qs_operand *operand = &step->case_.operand[i];
        bool again = !operand->format || step->place[i].buffer < 0;
        for (int k = 0; k < i && !again; k++)
            again = step->place[k].buffer == step->place[i].buffer;
        if (!again) cold += (int64_t)qs_tensor_bytes(&operand->shape, operand->format) - 2 * block;
    }
    return cold > 0 ? cold : 0;
}

static qs_status cache_create(const qs_schedule *schedule, int64_t bytes, cache *out) {
    const size_t block = block_of(schedule->arena_bytes);
    const int blocks = (int)(schedule->arena_bytes / block) + 2;
    out->block_bytes = block;
    out->capacity = bytes / (int64_t)block > 1 ? (int)(bytes / (int64_t)block) : 1;
    out->anchor = blocks;
    QS_TRY(qs_allocate((size_t)blocks + 1, sizeof *out->older, &out->older));
    QS_TRY(qs_allocate((size_t)blocks + 1, sizeof *out->newer, &out->newer));
    for (int i = 0; i < blocks; i++)
        out->older[i] = -1;
    out->older[blocks] = out->newer[blocks] = blocks;
    return QS_OK;
}

qs_status qs_schedule_cold_bytes(const qs_schedule *schedule, int64_t cache_bytes, int64_t *cold) {
    cache one = {0};
    qs_status status = cache_create(schedule, cache_bytes, &one);
    for (int iteration = 0; iteration < 2 && status == QS_OK; iteration++)
        for (int s = 0; s < schedule->steps; s++)
            cold[s] = (int64_t)step_touch(&one, schedule, &schedule->step[s]);
    free(one.older);
    free(one.newer);
    return status;
}
