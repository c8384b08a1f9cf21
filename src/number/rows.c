// SPDX-License-Identifier: Apache-2.0
/* Rows that are quantized by their own largest magnitudes: what was read to find it is still in the first cache when it becomes codes. */
#include "number_room.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum { COLUMNS = 2048, ENTRIES = COLUMNS + QS__COLUMNS_SLACK, GRAIN = 1 << 16, SERIAL_LIMIT = 1 << 16, PIECE = 1024, LINE = 16 };

typedef struct rows_job {
    const qs_row_codes *codes;
    const float *src;
    float *step, *column_absmax; /* the latter NULL: not wanted here */
    int8_t *dst;
    const qs__kernels *kernels;
    pthread_mutex_t lock;
} rows_job;

/* Memory would rest while a row becomes codes: the next one is asked for meanwhile. */
static void next_fetch(const float *at, int64_t count) {
    for (int64_t i = 0; i < count; i += LINE)
        __builtin_prefetch(at + i, 0, 2);
}

static void row_quantize(const rows_job *job, int64_t row, float absmax) {
    const qs_row_codes *codes = job->codes;
    const int64_t per_row = codes->per_row;
    const float *src = job->src + row * per_row;
    qs_random_stream random = {codes->random.key, codes->random.first + (uint64_t)row * codes->stride};
    job->step[row] = qs_step_of_absmax(codes->format, absmax);
    if (codes->least_squares) {
        const qs_clip_values values = {.format = codes->format, .src = src, .count = per_row, .stride = 1};
        job->step[row] *= qs_clip_find(&values, absmax);
    }
    for (int64_t at = 0; at < per_row; at += PIECE, random.first += PIECE) {
        const int64_t count = per_row - at < PIECE ? per_row - at : PIECE;
        if (row + 1 < codes->rows) next_fetch(src + per_row + at, count);
        qs_quantize_array(codes->format, codes->rounding, random, job->step[row], count, src + at, job->dst + row * per_row + at);
    }
}

/* Magnitudes: as bits their order is that of the values. */
typedef union magnitudes {
    int32_t bits[ENTRIES];
    float value[ENTRIES];
} magnitudes;

/* The largest magnitude of a row, by way of those of its columns, which go into `high`. */
static float row_extremes(const rows_job *job, const float *src, magnitudes *high) {
    const int64_t columns = job->codes->columns;
    magnitudes of_row;
    memset(of_row.bits, 0, (size_t)columns * sizeof *of_row.bits);
    job->kernels->column_extremes(job->codes->per_row / columns, columns, columns, false, src, NULL, of_row.bits);
    job->kernels->column_extremes(1, columns, columns, false, of_row.value, NULL, high->bits);
    return qs_absmax_array(columns, of_row.value);
}

static void columns_merge(rows_job *job, const magnitudes *high) {
    pthread_mutex_lock(&job->lock);
    for (int64_t c = 0; c < job->codes->columns; c++)
        if (high->bits[c] > (int32_t)qs__bits_of(job->column_absmax[c])) job->column_absmax[c] = high->value[c];
    pthread_mutex_unlock(&job->lock);
}

static void rows_body(void *context, int64_t begin, int64_t end) {
    rows_job *job = context;
    const int64_t per_row = job->codes->per_row;
    magnitudes high = {{0}};
    for (int64_t row = begin; row < end; row++) {
        const float *src = job->src + row * per_row;
        row_quantize(job, row, job->column_absmax ? row_extremes(job, src, &high) : qs_absmax_array(per_row, src));
    }
    if (job->column_absmax) columns_merge(job, &high);
}

/* Long rows are split by the functions of arrays themselves. */
static void rows_run(rows_job *job) {
    const int64_t rows = job->codes->rows, per_row = job->codes->per_row;
    if (rows < 2 || per_row >= SERIAL_LIMIT || rows * per_row < SERIAL_LIMIT)
        rows_body(job, 0, rows);
    else
        qs_parallel(rows, (GRAIN + per_row - 1) / per_row, rows_body, job);
}

void qs_quantize_rows(const qs_row_codes *codes, const float *src, float *step, float *column_absmax, int8_t *dst) {
    const bool fits = codes->columns <= COLUMNS;
    rows_job job = {.codes = codes, .src = src, .step = step, .column_absmax = fits ? column_absmax : NULL, .dst = dst};
    assert(codes->format->kind == QS_KIND_INTEGER && codes->rows >= 0 && codes->per_row > 0);
    assert(!column_absmax || (codes->columns > 0 && codes->per_row % codes->columns == 0));
    for (int64_t c = 0; job.column_absmax && c < codes->columns; c++)
        job.column_absmax[c] = 0;
    job.kernels = qs__kernels_get();
    pthread_mutex_init(&job.lock, NULL);
    rows_run(&job);
    pthread_mutex_destroy(&job.lock);
    if (column_absmax && !fits) {
        const qs_channel_layout layout = {codes->rows * codes->per_row / codes->columns, codes->columns, 1};
        qs_channel_ranges(codes->format, layout, src, column_absmax, NULL);
    }
}
