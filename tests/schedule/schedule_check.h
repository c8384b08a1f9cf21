// SPDX-License-Identifier: Apache-2.0
/* What every schedule must keep, whatever the model, the recipes and the mode. The main check plays the steps over a map of memory that
 * knows which value lies where: a read must find the very value, in the very format, that was written for it, unharmed by anything since.
 * It covers "written before read", overlapping buffers, wrong places and gradients touched while they are being reduced, all at once. */
#ifndef QSYNC_TESTS_SCHEDULE_CHECK_H
#define QSYNC_TESTS_SCHEDULE_CHECK_H

#include "kit/schedule.h"

typedef struct value {
    size_t begin, end, origin; /* bytes of the arena; origin: where the value began when it was written */
    const qs_format *format;   /* NULL: scratch */
    bool host;                 /* written by the host: may be read in parts */
} value;

typedef struct memory_map {
    const qs_schedule *schedule;
    const qs_graph *graph;
    int count, capacity;
    value *list;
    bool *reducing; /* (buckets) between start and wait */
    int *written;   /* (parameters) how often the gradient was written */
    int waited;
} memory_map;

static inline void map_add(memory_map *map, value one) {
    if (map->count == map->capacity) {
        map->capacity = 2 * map->capacity + 64;
        map->list = realloc(map->list, (size_t)map->capacity * sizeof *map->list);
        assert_non_null(map->list);
    }
    map->list[map->count++] = one;
}

/* A write replaces what lay there; what it hits in part stays readable nowhere. */
static inline void map_write(memory_map *map, value one) {
    for (int i = 0; i < map->count;) {
        value *old = &map->list[i];
        if (old->end <= one.begin || one.end <= old->begin) {
            i++;
        } else if (old->host && old->begin < one.begin && one.end < old->end) {
            value behind = *old;
            behind.begin = one.end;
            old->end = one.begin;
            map_add(map, behind);
            i++;
        } else if (old->host && (old->begin < one.begin || one.end < old->end)) {
            if (old->begin < one.begin)
                old->end = one.begin;
            else
                old->begin = one.end;
            i++;
        } else {
            *old = map->list[--map->count];
        }
    }
    map_add(map, one);
}

static inline bool map_holds(const memory_map *map, size_t begin, size_t end, const qs_format *format) {
    for (int i = 0; i < map->count; i++) {
        const value *one = &map->list[i];
        if (one->begin <= begin && end <= one->end && one->format == format && (one->host || one->origin == begin)) return true;
    }
    return false;
}

static inline size_t place_begin(const qs_schedule *schedule, qs_place place) {
    return schedule->buffer[place.buffer].offset + place.offset;
}

static inline void host_writes(memory_map *map, int buffer) {
    if (buffer < 0) return;
    const qs_buffer *one = &map->schedule->buffer[buffer];
    map_write(map, (value){one->offset, one->offset + one->bytes, one->offset, qs_format_of("fp32"), true});
}

static inline size_t gradient_begin(const memory_map *map, const qs_parameter *parameter) {
    return map->schedule->buffer[map->schedule->gradients].offset + (size_t)parameter->offset * sizeof(float);
}

static inline size_t parameter_bytes(const qs_parameter *parameter) {
    return (size_t)qs_shape_count(&parameter->shape) * sizeof(float);
}

/* Every gradient of a bucket stands there, whole and in fp32. */
static inline void bucket_complete(const memory_map *map, int bucket, int s) {
    const qs_bucket *one = &map->schedule->bucket[bucket];
    for (int i = 0; i < map->graph->parameters; i++) {
        const qs_parameter *parameter = &map->graph->parameter[i];
        if (parameter->gradient == QS_ROLE_COUNT || parameter->offset < one->first || parameter->offset >= one->first + one->count)
            continue;
        const size_t begin = gradient_begin(map, parameter);
        if (map->written[i] != 1 || !map_holds(map, begin, begin + parameter_bytes(parameter), qs_format_of("fp32")))
            fail_msg("step %d uses bucket %d, but the gradient of %s is not there", s, bucket, parameter->name);
    }
}

static inline void not_reducing(const memory_map *map, int s, size_t begin, size_t end) {
    for (int b = 0; b < map->schedule->buckets; b++) {
        const qs_bucket *one = &map->schedule->bucket[b];
        const size_t first = map->schedule->buffer[map->schedule->gradients].offset + (size_t)one->first * sizeof(float);
        if (map->reducing[b] && begin < first + (size_t)one->count * sizeof(float) && first < end)
            fail_msg("step %d touches bucket %d while it is being reduced", s, b);
    }
}

static inline bool is_updated(const qs_step *step, qs_role role) {
    return role == QS_RUNNING_MEAN || role == QS_RUNNING_VARIANCE || role == QS_RUNNING_DEVIATION || role == QS_FLAG ||
           (step->phase == QS_UPDATE && role != QS_SRC);
}

static inline bool is_written(const qs_step *step, int position) {
    return qs_pass_writes(step->case_.pass, position);
}

/* Running statistics of a pass that is computed again: whatever lies there is updated, and nobody reads it. */
static inline bool is_unused(const memory_map *map, const qs_step *step, int position) {
    return step->recomputed && is_updated(step, step->case_.operand[position].role) &&
           step->place[position].buffer != map->schedule->running;
}

static inline void operand_read(const memory_map *map, int s, const qs_step *step, int position) {
    const qs_operand *operand = &step->case_.operand[position];
    const size_t begin = place_begin(map->schedule, step->place[position]);
    if (step->phase == QS_UPDATE && operand->role == QS_SRC) {
        for (int b = 0; b < map->schedule->buckets; b++) /* clipping reads all */
            if (step->bucket < 0 || b == step->bucket) bucket_complete(map, b, s);
        return;
    }
    if (!map_holds(map, begin, begin + qs_tensor_bytes(&operand->shape, operand->format), operand->format))
        fail_msg("step %d (%s): operand %s is not in %s at %zu as %s", s, step->case_text, qs_role_name(operand->role),
                 map->schedule->buffer[step->place[position].buffer].name, step->place[position].offset, operand->format->name);
}

static inline void gradient_note(memory_map *map, const qs_step *step, int position) {
    if (step->place[position].buffer != map->schedule->gradients || step->phase != QS_BACKWARD) return;
    for (int i = 0; i < map->graph->parameters; i++) {
        const qs_parameter *parameter = &map->graph->parameter[i];
        if (parameter->gradient == step->case_.operand[position].role && parameter->node == step->node &&
            (size_t)parameter->offset * sizeof(float) == step->place[position].offset)
            map->written[i]++;
    }
}

static inline void operand_write(memory_map *map, const qs_step *step, int position) {
    const qs_operand *operand = &step->case_.operand[position];
    const size_t begin = place_begin(map->schedule, step->place[position]), bytes = qs_tensor_bytes(&operand->shape, operand->format);
    const bool flat = step->phase == QS_UPDATE || is_updated(step, operand->role);
    map_write(map, (value){begin, begin + bytes, begin, operand->format, flat});
    gradient_note(map, step, position);
}

/* Operands within their buffers and the buffers' lives; what a step writes overlaps nothing else of it, but for sums formed in place. */
static inline void step_places(const memory_map *map, int s, const qs_step *step) {
    size_t begin[QS_MAX_OPERANDS + 1], end[QS_MAX_OPERANDS + 1];
    int count = 0;
    bool written[QS_MAX_OPERANDS + 1];
    for (int i = 0; i <= step->case_.operands; i++) {
        const bool scratch = i == step->case_.operands;
        const qs_place place = scratch ? step->scratch : step->place[i];
        if (scratch ? place.buffer < 0 : !step->case_.operand[i].format) continue;
        assert_in_range(place.buffer, 0, map->schedule->buffers - 1);
        const qs_buffer *buffer = &map->schedule->buffer[place.buffer];
        const size_t bytes = scratch ? buffer->bytes : qs_tensor_bytes(&step->case_.operand[i].shape, step->case_.operand[i].format);
        if (place.offset + bytes > buffer->bytes)
            fail_msg("step %d (%s): operand %d passes the end of %s", s, step->case_text, i, buffer->name);
        if (s < buffer->first || s > buffer->last) fail_msg("step %d (%s): %s does not live there", s, step->case_text, buffer->name);
        begin[count] = place_begin(map->schedule, place);
        end[count] = begin[count] + bytes;
        assert_int_equal(begin[count] % 64, 0);
        written[count] = scratch || is_written(step, i);
        not_reducing(map, s, begin[count], end[count]);
        count++;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (i != j && written[i] && begin[i] < end[j] && begin[j] < end[i] && begin[i] != begin[j])
                fail_msg("step %d (%s): operands overlap", s, step->case_text);
}

static inline void kernel_play(memory_map *map, int s) {
    const qs_step *step = &map->schedule->step[s];
    assert_ok(qs_case_check(&step->case_));
    step_places(map, s, step);
    for (int i = 0; i < step->case_.operands; i++)
        if (step->case_.operand[i].format && (!is_written(step, i) || is_updated(step, step->case_.operand[i].role)) &&
            !is_unused(map, step, i))
            operand_read(map, s, step, i);
    if (step->scratch.buffer >= 0) {
        const size_t begin = place_begin(map->schedule, step->scratch);
        map_write(map, (value){begin, begin + map->schedule->buffer[step->scratch.buffer].bytes, begin, NULL, false});
    }
    for (int i = 0; i < step->case_.operands; i++)
        if (step->case_.operand[i].format && is_written(step, i)) operand_write(map, step, i);
}

static inline void step_play(memory_map *map, int s) {
    const qs_step *step = &map->schedule->step[s];
    if (step->kind == QS_STEP_KERNEL) {
        kernel_play(map, s);
        if (step->case_.op->kind == QS_AUXILIARY && step->phase == QS_UPDATE && map->reducing[step->bucket])
            fail_msg("step %d updates bucket %d, which is still being reduced", s, step->bucket);
        return;
    }
    assert_in_range(step->bucket, 0, map->schedule->buckets - 1);
    if (step->kind == QS_STEP_REDUCE_START) {
        bucket_complete(map, step->bucket, s);
        assert_false(map->reducing[step->bucket]);
        assert_int_equal(map->schedule->bucket[step->bucket].ready_step, s);
    } else {
        assert_true(map->reducing[step->bucket]);
        assert_int_equal(map->schedule->bucket[step->bucket].wait_step, s);
        map->waited++;
    }
    map->reducing[step->bucket] = step->kind == QS_STEP_REDUCE_START;
}

static inline void memory_play(const qs_schedule *schedule, const qs_graph *graph) {
    memory_map map = {.schedule = schedule, .graph = graph};
    map.reducing = calloc((size_t)schedule->buckets + 1, sizeof *map.reducing);
    map.written = calloc((size_t)graph->parameters + 1, sizeof *map.written);
    const int host[] = {schedule->masters, schedule->running, schedule->state[0], schedule->target, schedule->flag};
    for (size_t i = 0; i < COUNT_OF(host); i++)
        host_writes(&map, host[i]);
    for (int i = 0; i < schedule->inputs; i++)
        host_writes(&map, schedule->input[i]);
    for (int s = 0; s < schedule->steps; s++)
        step_play(&map, s);
    for (int i = 0; i < graph->parameters; i++)
        assert_int_equal(map.written[i], schedule->mode != QS_MODE_EVALUATION && graph->parameter[i].gradient != QS_ROLE_COUNT);
    assert_int_equal(map.waited, schedule->buckets);
    const qs_buffer *loss = &schedule->buffer[schedule->loss];
    assert_true(map_holds(&map, loss->offset, loss->offset + loss->bytes, qs_format_of("fp32")));
    free(map.list);
    free(map.reducing);
    free(map.written);
}

/* ---- Buffers and buckets ---- */

static inline void buffers_apart(const qs_schedule *schedule) {
    for (int i = 0; i < schedule->buffers; i++) {
        const qs_buffer *a = &schedule->buffer[i];
        assert_int_equal(a->offset % 64, 0);
        if (a->first == -2) fail_msg("buffer %s is never used", a->name);
        assert_true(a->first <= a->last && a->offset + a->bytes <= schedule->arena_bytes);
        assert_int_equal(a->persistent, a->offset + a->bytes <= schedule->persistent_bytes && a->last == schedule->steps && a->first == -1);
        for (int j = 0; j < i; j++) {
            const qs_buffer *b = &schedule->buffer[j];
            if (a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                fail_msg("%s and %s live at the same time and overlap", a->name, b->name);
        }
    }
}

/* Buckets cover the flat gradients from the end, without gaps, and depend on graph and job only. */
static inline void buckets_cover(const qs_schedule *schedule, const qs_graph *graph, const qs_job *job) {
    int64_t end = graph->trained_elements;
    for (int b = 0; b < schedule->buckets; b++) {
        const qs_bucket *one = &schedule->bucket[b];
        assert_int_equal(one->first + one->count, end);
        assert_true(one->count > 0);
        if (b + 1 < schedule->buckets) assert_true(one->count * (int64_t)sizeof(float) >= job->bucket_bytes);
        end = one->first;
    }
    assert_int_equal(end, schedule->mode == QS_MODE_EVALUATION ? graph->trained_elements : 0);
}

/* With dynamic loss scaling updates wait for all checks, with clipping for that; otherwise each bucket's follows its own all-reduce. */
static inline void updates_ordered(const qs_schedule *schedule, bool checked, bool clipped) {
    int updates = 0, checks = 0, clips = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || step->phase != QS_UPDATE) continue;
        for (int b = 0; b < schedule->buckets; b++)
            if (step->bucket < 0 || b == step->bucket) assert_true(schedule->bucket[b].wait_step < s);
        if (strcmp(step->case_.op->name, "clip_norm") == 0) {
            clips++;
            assert_int_equal(checks, checked ? schedule->buckets : 0);
            assert_int_equal(updates, 0);
        } else if (strcmp(step->case_.op->name, "finite_check") == 0) {
            checks++;
            assert_int_equal(updates, 0);
        } else {
            updates++;
        }
    }
    assert_int_equal(updates, schedule->buckets);
    assert_int_equal(checks, checked ? schedule->buckets : 0);
    assert_int_equal(clips, clipped ? 1 : 0);
}

static inline void schedule_check(const qs_schedule *schedule, const qs_graph *graph, const qs_job *job) {
    memory_play(schedule, graph);
    buffers_apart(schedule);
    buckets_cover(schedule, graph, job);
    const bool updates = schedule->mode != QS_MODE_EVALUATION;
    updates_ordered(schedule, updates && job->dynamic_loss_scaling, updates && job->clip_norm > 0);
    assert_true(schedule->live_bytes <= schedule->arena_bytes);
    size_t sum = 0;
    for (int c = 0; c < QS_CATEGORY_COUNT; c++)
        sum += schedule->category_bytes[c];
    assert_int_equal(sum, schedule->live_bytes);
}

/* Bytes of the arena for one recipe everywhere, of kernels without scratch. */
static inline size_t arena_bytes_of(const qs_graph *graph, const qs_job *job, const char *recipe_name, const char *half) {
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    qs_lowering lowering = lowering_of(graph, job, QS_MODE_TRAIN, list);
    lowering.half = qs_format_of(half);
    lowering.context = NO_SCRATCH;
    qs_schedule *schedule = lower(&lowering);
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_release(schedule);
    free(list);
    return bytes;
}

#endif
