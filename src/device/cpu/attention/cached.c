// SPDX-License-Identifier: Apache-2.0
/* Attention over caches (op/cached_attention.c): few queries, whose rows of scores are formed one after the other. The time is that of
 * reading keys and values once for each query head. Threads take rows; a row is summed in one order whatever they are. The kernel is the
 * same at every ceiling of the instruction set. */
#include "cpu/cpu.h"
#include "qsync/attention.h"

#include <math.h>

enum { LANES = 16 };

typedef struct job {
    qs_attention size;
    int64_t place, slots;
    const float *queries, *keys, *values;
    float *scores; /* [slots][keys] */
    float *result;
} job;

static float dot(int64_t count, const float *a, const float *b) {
    float sum[LANES] = {0}, all = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum[i % LANES] += a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        all += sum[lane];
    return all;
}

/* A head of a position, which sees the rows up to its own place, as far as the window goes. */
static void row_run(const job *j, int64_t index, float *scores) {
    const qs_attention *size = &j->size;
    const int64_t head = index % size->heads, key_head = head / (size->heads / size->key_heads);
    const int64_t place = j->place + index / size->heads;
    const int64_t first = size->window > 0 && place >= size->window ? place - size->window + 1 : 0;
    const int64_t next_key = size->key_heads * size->width, next_value = size->key_heads * size->value_width;
    const float *keys = j->keys + key_head * size->width, *values = j->values + key_head * size->value_width;
    const float scale = 1 / sqrtf((float)size->width);
    float *result = j->result + index * size->value_width, largest = -HUGE_VALF, sum = 0;
    for (int64_t k = first; k <= place; k++) {
        scores[k] = scale * dot(size->width, j->queries + index * size->width, keys + k * next_key);
        largest = fmaxf(largest, scores[k]);
    }
    for (int64_t e = 0; e < size->value_width; e++)
        result[e] = 0;
    for (int64_t k = first; k <= place; k++) {
        const float power = expf(scores[k] - largest), *value = values + k * next_value;
        sum += power;
        for (int64_t e = 0; e < size->value_width; e++)
            result[e] += power * value[e];
    }
    for (int64_t e = 0; e < size->value_width; e++)
        result[e] /= sum;
}

static void slot_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t rows = j->size.queries * j->size.heads;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t row = rows * slot / j->slots; row < rows * (slot + 1) / j->slots; row++)
            row_run(j, row, j->scores + slot * j->size.keys);
}

static int64_t slots_of(const qs_attention *size) {
    return qs_threads() < size->queries * size->heads ? qs_threads() : size->queries * size->heads;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_case *one = &chain->one;
    const qs_attention size = qs_case_cached_attention(one);
    const int32_t place = *(const int32_t *)qs__cpu_data(chain, QS_PLACE);
    float *queries = (float *)(chain->scratch + chain->offset[0]), *result = (float *)(chain->scratch + chain->offset[1]);
    float *keys = qs__cpu_data(chain, QS_KEY_CACHE), *values = qs__cpu_data(chain, QS_VALUE_CACHE);
    QS_TRY(qs_place_check(one, place, size.queries, size.keys));
    qs_convert_to_fp32(qs__case_format(one, QS_SRC), qs__case_count(one, QS_SRC), qs__cpu_data(chain, QS_SRC), queries);
    qs_convert_to_fp32(qs__case_format(one, QS_SRC2), qs__case_count(one, QS_SRC2), qs__cpu_data(chain, QS_SRC2),
                       keys + place * size.key_heads * size.width);
    qs_convert_to_fp32(qs__case_format(one, QS_SRC3), qs__case_count(one, QS_SRC3), qs__cpu_data(chain, QS_SRC3),
                       values + place * size.key_heads * size.value_width);
    job j = {.size = size,
             .place = place,
             .slots = slots_of(&size),
             .queries = queries,
             .keys = keys,
             .values = values,
             .scores = (float *)(chain->scratch + chain->offset[2]),
             .result = result};
    qs_parallel(j.slots, 1, slot_rows, &j);
    qs_convert_from_fp32(qs__case_format(one, QS_DST), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0},
                         qs__case_count(one, QS_DST), result, qs__cpu_data(chain, QS_DST));
    return QS_OK;
}

qs_status qs__build_cached_attention(qs__chain *chain) {
    const qs_attention size = qs_case_cached_attention(&chain->one);
    chain->offset[0] = qs__chain_reserve(chain, (size_t)qs__case_count(&chain->one, QS_SRC) * sizeof(float));
    chain->offset[1] = qs__chain_reserve(chain, (size_t)qs__case_count(&chain->one, QS_DST) * sizeof(float));
    chain->offset[2] = qs__chain_reserve(chain, (size_t)(slots_of(&size) * size.keys) * sizeof(float));
    qs__chain_call(chain, run);
    snprintf(chain->name, sizeof chain->name, "own:cached_attention");
    return QS_OK;
}
