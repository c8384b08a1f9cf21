// SPDX-License-Identifier: Apache-2.0
/* Array functions that treat each channel by itself. Three ways through memory: matrices of few columns, whose rows are joined until they
 * are long; matrices of many columns, a block of columns after the other; channels that lie in one piece (inner > 1). */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

enum {
    BLOCK = 1024, /* columns whose parameters are at hand, on the stack; joined rows are shorter than two blocks */
    ENTRIES = 2 * BLOCK + QS__COLUMNS_SLACK,
    GRAIN = 1 << 16,
    SERIAL_LIMIT = 1 << 16,
    VARIANCE_SLOTS = 64
};

typedef struct channel_job channel_job;
/* Elements that lie in memory one after the other from `index` on; they have the parameters from `start` on. */
typedef void (*span_body)(const channel_job *job, const qs__columns *columns, int64_t index, int64_t start, int64_t count);

struct channel_job {
    const qs__kernels *kernels;
    qs_channel_layout layout;
    bool bfloat;
    const void *src;
    void *dst;
    /* Codes: how they are made, or (dequantize) what they stand for. */
    const qs_format *format;
    const qs_shift_codes *codes; /* steps by group */
    const float *step;           /* or by channel */
    bool back;                   /* from codes to values */
    qs_rounding rounding;
    qs_random_stream random;
    span_body span;
    /* Ranges. */
    float *range, *offset;
    pthread_mutex_t lock;
};

static void run_rows(channel_job *job, int64_t rows, int64_t per_row, qs_parallel_body body) {
    job->kernels = qs__kernels_get();
    if (rows <= 0 || per_row <= 0) return;
    int64_t grain = (GRAIN + per_row - 1) / per_row;
    if (rows < 2 || rows * per_row < SERIAL_LIMIT) {
        body(job, 0, rows);
    } else {
        qs_parallel(rows, grain, body, job);
    }
}

/* Rows that are joined so that they are at least a block long. */
static int64_t rows_joined(int64_t columns) {
    return (BLOCK + columns - 1) / columns;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- Codes ---- */

typedef struct tables {
    float factor[ENTRIES], offset[ENTRIES];
    uint8_t lift[ENTRIES];
    qs__columns columns;
} tables;

static float step_of(const channel_job *job, int64_t channel) {
    return job->codes ? qs__group_step(job->codes, channel) : job->step[channel];
}

/* Stochastic rounding takes codes with 16 fractional bits. */
static float unit_of(const channel_job *job) {
    return job->rounding == QS_STOCHASTIC ? 0x1p16f : 1.0f;
}

static void fill_entry(const channel_job *job, tables *t, int64_t entry, int64_t channel) {
    float step = step_of(job, channel);
    t->factor[entry] = job->back ? step : unit_of(job) / step;
    if (t->columns.offset) t->offset[entry] = job->codes->offset[channel];
    if (t->columns.lift) t->lift[entry] = job->codes->lift[channel];
}

static void tables_start(const channel_job *job, tables *t) {
    float unit = unit_of(job);
    t->columns = (qs__columns){
        .factor = t->factor, .lowest = unit * (float)qs_format_lowest(job->format), .highest = unit * (float)job->format->max};
    if (job->codes && job->codes->offset) t->columns.offset = t->offset;
    if (job->codes && job->codes->lift) t->columns.lift = t->lift;
}

/* Parameters of `count` channels from `first` on, `period` entries that go on periodically. */
static void tables_fill(const channel_job *job, tables *t, int64_t first, int64_t count, int64_t period) {
    t->columns.period = period;
    for (int64_t c = 0; c < count; c++)
        fill_entry(job, t, c, first + c);
    for (int64_t entry = count; entry < period + QS__COLUMNS_SLACK; entry++) {
        t->factor[entry] = t->factor[entry - count];
        if (t->columns.offset) t->offset[entry] = t->offset[entry - count];
        if (t->columns.lift) t->lift[entry] = t->lift[entry - count];
    }
}

static void narrow_body(void *context, int64_t begin, int64_t end) {
    const channel_job *job = context;
    int64_t columns = job->layout.channels;
    tables t;
    tables_start(job, &t);
    tables_fill(job, &t, 0, columns, columns * rows_joined(columns));
    job->span(job, &t.columns, begin * columns, 0, (end - begin) * columns);
}

static void wide_body(void *context, int64_t begin, int64_t end) {
    const channel_job *job = context;
    int64_t columns = job->layout.channels;
    tables t;
    tables_start(job, &t);
    for (int64_t first = 0; first < columns; first += BLOCK) {
        int64_t count = least(BLOCK, columns - first);
        tables_fill(job, &t, first, count, count > QS__COLUMNS_SLACK ? count : count * QS__COLUMNS_SLACK);
        for (int64_t row = begin; row < end; row++)
            job->span(job, &t.columns, row * columns + first, 0, count);
    }
}

static void piece_body(void *context, int64_t begin, int64_t end) {
    const channel_job *job = context;
    tables t;
    tables_start(job, &t);
    for (int64_t piece = begin; piece < end; piece++) {
        tables_fill(job, &t, piece % job->layout.channels, 1, QS__COLUMNS_SLACK);
        job->span(job, &t.columns, piece * job->layout.inner, 0, job->layout.inner);
    }
}

static void run_codes(channel_job *job) {
    qs_channel_layout l = job->layout;
    assert(job->format->kind == QS_KIND_INTEGER && l.outer >= 0 && l.channels >= 0 && l.inner >= 0);
    if (l.inner != 1) {
        run_rows(job, l.outer * l.channels, l.inner, piece_body);
    } else {
        run_rows(job, l.outer, l.channels, l.channels <= BLOCK ? narrow_body : wide_body);
    }
}

static void quantize_span(const channel_job *job, const qs__columns *columns, int64_t index, int64_t start, int64_t count) {
    int64_t size = job->bfloat ? sizeof(uint16_t) : sizeof(float);
    if (job->format->is_logarithmic) {
        assert(!columns->offset && !columns->lift);
        const qs_random_stream random = {job->random.key, job->random.first + (uint64_t)index};
        qs__logarithmic_quantize(job->format, job->rounding, random,
                                 (qs__factors){columns->factor, start % columns->period, columns->period}, count, job->bfloat,
                                 (const char *)job->src + index * size, (int8_t *)job->dst + index);
        return;
    }
    while (count > 0) {
        uint64_t position = job->random.first + (uint64_t)index;
        bool odd = position & 1;
        int64_t run = least(2 * qs__draws_run(position / 2, (count + odd + 1) / 2) - odd, count);
        job->kernels->quantize_columns(columns, job->rounding, qs__draws_at(job->random, position / 2), odd, start, run, job->bfloat,
                                       (const char *)job->src + index * size, (int8_t *)job->dst + index);
        start = (start + run) % columns->period;
        index += run;
        count -= run;
    }
}

static void dequantize_span(const channel_job *job, const qs__columns *columns, int64_t index, int64_t start, int64_t count) {
    job->kernels->dequantize_columns(columns, start, count, (const int8_t *)job->src + index, (float *)job->dst + index);
}

static void shift_quantize(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                           bool bfloat, const void *src, int8_t *dst) {
    channel_job job = {.layout = layout,
                       .bfloat = bfloat,
                       .src = src,
                       .dst = dst,
                       .format = codes->format,
                       .codes = codes,
                       .rounding = rounding,
                       .random = random,
                       .span = quantize_span};
    run_codes(&job);
}

void qs_shift_quantize(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                       const float *src, int8_t *dst) {
    shift_quantize(codes, rounding, random, layout, false, src, dst);
}

void qs_shift_quantize_bf16(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                            const uint16_t *src, int8_t *dst) {
    shift_quantize(codes, rounding, random, layout, true, src, dst);
}

void qs_shift_dequantize(const qs_shift_codes *codes, qs_channel_layout layout, const int8_t *src, float *dst) {
    assert(!codes->lift);
    channel_job job = {
        .layout = layout, .src = src, .dst = dst, .format = codes->format, .codes = codes, .back = true, .span = dequantize_span};
    run_codes(&job);
}

void qs_quantize_channels(const qs_format *format, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                          const float *step, const float *src, int8_t *dst) {
    channel_job job = {.layout = layout,
                       .src = src,
                       .dst = dst,
                       .format = format,
                       .step = step,
                       .rounding = rounding,
                       .random = random,
                       .span = quantize_span};
    run_codes(&job);
}

/* ---- Ranges ---- */

/* Until all is seen, range and offset hold the bits of the largest (a key with offsets) and of the smallest key. */
static void merge_bits(float *held, int32_t bits, bool larger) {
    int32_t old = (int32_t)qs__bits_of(*held);
    if (larger ? bits > old : bits < old) *held = qs__float_of((uint32_t)bits);
}

static void merge_channel(channel_job *job, int64_t channel, int32_t low, int32_t high) {
    merge_bits(&job->range[channel], high, true);
    if (job->offset) merge_bits(&job->offset[channel], low, false);
}

static void extremes_start(const channel_job *job, int64_t count, int32_t *low, int32_t *high) {
    for (int64_t i = 0; i < count; i++) {
        low[i] = INT32_MAX;
        high[i] = job->offset ? INT32_MIN : 0;
    }
}

/* `rows` rows of `columns` elements from `index` on; column c is channel first + c mod channels. */
static void extremes_span(channel_job *job, int64_t index, int64_t rows, int64_t stride, int64_t columns, int64_t first) {
    int32_t low[ENTRIES], high[ENTRIES];
    int64_t size = job->bfloat ? sizeof(uint16_t) : sizeof(float), channels = job->layout.channels;
    extremes_start(job, ENTRIES, low, high);
    job->kernels->column_extremes(rows, stride, columns, job->bfloat, (const char *)job->src + index * size, job->offset ? low : NULL,
                                  high);
    pthread_mutex_lock(&job->lock);
    for (int64_t c = 0; c < columns; c++)
        merge_channel(job, (first + c) % channels, low[c], high[c]);
    pthread_mutex_unlock(&job->lock);
}

static void narrow_extremes(void *context, int64_t begin, int64_t end) {
    channel_job *job = context;
    int64_t channels = job->layout.channels, joined = rows_joined(channels), whole = (end - begin) / joined;
    int64_t rest = end - begin - whole * joined, period = channels * joined;
    if (whole) extremes_span(job, begin * channels, whole, period, period, 0);
    if (rest) extremes_span(job, (end - rest) * channels, 1, 0, rest * channels, 0);
}

static void wide_extremes(void *context, int64_t begin, int64_t end) {
    channel_job *job = context;
    int64_t channels = job->layout.channels;
    for (int64_t first = 0; first < channels; first += BLOCK)
        extremes_span(job, begin * channels + first, end - begin, channels, least(BLOCK, channels - first), first);
}

/* A channel in one piece: sixteen and more elements of it are columns that are merged at the end. */
static void piece_extremes(void *context, int64_t begin, int64_t end) {
    channel_job *job = context;
    int64_t inner = job->layout.inner, wide = least(inner, BLOCK), size = job->bfloat ? sizeof(uint16_t) : sizeof(float);
    int32_t low[BLOCK + QS__COLUMNS_SLACK], high[BLOCK + QS__COLUMNS_SLACK];
    for (int64_t piece = begin; piece < end; piece++) {
        const char *src = (const char *)job->src + piece * inner * size;
        int32_t *lows = job->offset ? low : NULL;
        extremes_start(job, wide + QS__COLUMNS_SLACK, low, high);
        job->kernels->column_extremes(inner / wide, wide, wide, job->bfloat, src, lows, high);
        job->kernels->column_extremes(1, 0, inner % wide, job->bfloat, src + (inner - inner % wide) * size, lows, high);
        pthread_mutex_lock(&job->lock);
        for (int64_t c = 0; c < wide; c++)
            merge_channel(job, piece % job->layout.channels, low[c], high[c]);
        pthread_mutex_unlock(&job->lock);
    }
}

/* Keys become the range and the offset. The middle is a sum of halves, which cannot overflow. */
static void finish_channel(const channel_job *job, int64_t c) {
    if (!job->offset) return;
    float high = qs__float_of((uint32_t)qs__key_value((int32_t)qs__bits_of(job->range[c])));
    float low = qs__float_of((uint32_t)qs__key_value((int32_t)qs__bits_of(job->offset[c])));
    if (!isfinite(high) || !isfinite(low)) {
        job->range[c] = NAN;
        job->offset[c] = 0.0f;
        return;
    }
    job->offset[c] = job->format->is_unsigned ? low : low * 0.5f + high * 0.5f;
    job->range[c] = job->format->is_unsigned ? high - low : 2.0f * fmaxf(high - job->offset[c], job->offset[c] - low);
}

static void channel_ranges(const qs_format *format, qs_channel_layout layout, bool bfloat, const void *src, float *range, float *offset) {
    channel_job job = {.layout = layout, .bfloat = bfloat, .src = src, .format = format, .range = range, .offset = offset};
    bool empty = layout.outer <= 0 || layout.inner <= 0;
    for (int64_t c = 0; c < layout.channels; c++) {
        range[c] = qs__float_of(offset && !empty ? (uint32_t)INT32_MIN : 0);
        if (offset) offset[c] = qs__float_of(empty ? 0 : INT32_MAX);
    }
    if (empty) return;
    pthread_mutex_init(&job.lock, NULL);
    if (layout.inner != 1) {
        run_rows(&job, layout.outer * layout.channels, layout.inner, piece_extremes);
    } else {
        run_rows(&job, layout.outer, layout.channels, layout.channels <= BLOCK ? narrow_extremes : wide_extremes);
    }
    pthread_mutex_destroy(&job.lock);
    for (int64_t c = 0; c < layout.channels; c++)
        finish_channel(&job, c);
}

void qs_channel_ranges(const qs_format *format, qs_channel_layout layout, const float *src, float *range, float *offset) {
    channel_ranges(format, layout, false, src, range, offset);
}

void qs_channel_ranges_bf16(const qs_format *format, qs_channel_layout layout, const uint16_t *src, float *range, float *offset) {
    channel_ranges(format, layout, true, src, range, offset);
}

/* ---- Variance ---- */

typedef struct variance_job {
    qs_channel_layout layout;
    double lowest, highest;
    const float *step, *offset, *src;
    int64_t slot_rows;
    double sum[VARIANCE_SLOTS];
} variance_job;

static double spread(const variance_job *job, int64_t channel, float value) {
    double step = (double)job->step[channel];
    double x = ((double)value - (job->offset ? (double)job->offset[channel] : 0.0)) / step;
    if (!(x >= job->lowest && x <= job->highest)) return 0.0;
    double fraction = x - floor(x);
    return step * step * fraction * (1.0 - fraction);
}

static void variance_body(void *context, int64_t begin, int64_t end) {
    variance_job *job = context;
    for (int64_t slot = begin; slot < end; slot++) {
        qs_channel_layout l = job->layout;
        int64_t last = least((slot + 1) * job->slot_rows, l.outer * l.channels);
        for (int64_t row = slot * job->slot_rows; row < last; row++)
            for (int64_t i = 0; i < l.inner; i++)
                job->sum[slot] += spread(job, row % l.channels, job->src[row * l.inner + i]);
    }
}

double qs_channel_variance(const qs_format *format, qs_channel_layout layout, const float *step, const float *offset, const float *src) {
    variance_job job = {.layout = layout, .step = step, .offset = offset, .src = src};
    job.lowest = qs_format_lowest(format);
    job.highest = format->max;
    job.slot_rows = (layout.outer * layout.channels + VARIANCE_SLOTS - 1) / VARIANCE_SLOTS;
    qs_parallel(VARIANCE_SLOTS, 1, variance_body, &job);
    double sum = 0.0;
    for (int slot = 0; slot < VARIANCE_SLOTS; slot++)
        sum += job.sum[slot];
    return sum;
}
