// SPDX-License-Identifier: Apache-2.0
/* What steps find cold: against a plain simulation that searches, and what must hold for any least-recently-used cache. */
#include "schedule_check.h"

enum { BLOCK = 16 << 10, BATCH = 4 };

static qs_graph *graph;
static qs_schedule *schedule;
static int64_t *cold, *other;

static int setup(void **state) {
    (void)state;
    qs_job job = stub_job(BATCH);
    qs_recipe recipe = recipe_of("int8/bf16");
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    const qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    free(list);
    cold = calloc((size_t)schedule->steps, sizeof *cold);
    other = calloc((size_t)schedule->steps, sizeof *other);
    return cold && other ? 0 : 1;
}

static int teardown(void **state) {
    (void)state;
    free(cold);
    free(other);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    return 0;
}

/* The moment of its last use for every block; cached are the `capacity` latest ones. */
typedef struct plain {
    int64_t *used, now;
    int blocks, capacity;
} plain;

static bool is_cached(const plain *one, int block) {
    int later = 0;
    if (one->used[block] == 0) return false;
    for (int b = 0; b < one->blocks; b++)
        later += one->used[b] > one->used[block];
    return later < one->capacity;
}

static int64_t plain_touch(plain *one, size_t offset, size_t bytes) {
    int64_t missed = 0;
    if (bytes == 0) return 0;
    for (size_t block = offset / BLOCK; block <= (offset + bytes - 1) / BLOCK; block++) {
        if (!is_cached(one, (int)block)) missed += bytes < BLOCK ? (int64_t)bytes : BLOCK;
        one->used[block] = ++one->now;
    }
    return missed;
}

static int64_t plain_step(plain *one, const qs_step *step) {
    int64_t missed = 0;
    for (int i = 0; step->kind == QS_STEP_KERNEL && i < step->case_.operands; i++) {
        const qs_operand *operand = &step->case_.operand[i];
        if (!operand->format || step->place[i].buffer < 0) continue;
        missed += plain_touch(one, schedule->buffer[step->place[i].buffer].offset + step->place[i].offset,
                              qs_tensor_bytes(&operand->shape, operand->format));
    }
    if (step->scratch.buffer >= 0)
        missed += plain_touch(one, schedule->buffer[step->scratch.buffer].offset, schedule->buffer[step->scratch.buffer].bytes);
    return missed;
}

TEST(equals_a_plain_simulation) {
    for (int64_t bytes = BLOCK; bytes <= (int64_t)schedule->arena_bytes; bytes *= 3) {
        plain one = {.blocks = (int)(schedule->arena_bytes / BLOCK) + 1, .capacity = (int)(bytes / BLOCK)};
        one.used = calloc((size_t)one.blocks, sizeof *one.used);
        assert_ok(qs_schedule_cold_bytes(schedule, bytes, cold));
        for (int s = 0; s < schedule->steps; s++)
            plain_step(&one, &schedule->step[s]);
        for (int s = 0; s < schedule->steps; s++)
            assert_int_equal(cold[s], plain_step(&one, &schedule->step[s]));
        free(one.used);
    }
}

/* A larger cache holds whatever a smaller one holds; one as large as the arena holds everything, one of a block next to nothing. */
TEST(larger_caches_are_never_colder) {
    int64_t sum = 0;
    assert_ok(qs_schedule_cold_bytes(schedule, 1, other));
    for (int s = 0; s < schedule->steps; s++)
        sum += other[s];
    assert_true(sum > (int64_t)schedule->arena_bytes);
    for (int64_t bytes = BLOCK; bytes < 2 * (int64_t)schedule->arena_bytes; bytes *= 2) {
        assert_ok(qs_schedule_cold_bytes(schedule, bytes, cold));
        for (int s = 0; s < schedule->steps; s++) {
            assert_true(cold[s] >= 0 && cold[s] <= other[s]);
            other[s] = cold[s];
        }
    }
    assert_ok(qs_schedule_cold_bytes(schedule, 2 * (int64_t)schedule->arena_bytes, cold));
    for (int s = 0; s < schedule->steps; s++)
        assert_int_equal(cold[s], 0);
}

TEST_MAIN_WITH(setup, teardown, equals_a_plain_simulation, larger_caches_are_never_colder)
