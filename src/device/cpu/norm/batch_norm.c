// SPDX-License-Identifier: Apache-2.0
/* Our own batch normalisations, of every kind that qs_norm tells apart, with a relu behind or none. Rows are cut into slots by the shape
 * alone; a slot sums its chunks of QS__CHUNK_ROWS rows, each in fp32, in double, and the slots are combined in order: results do not depend
 * on threads. Moments of float chunks are merged by Chan's formula, so that nothing cancels; sums over codes are whole numbers (or whole
 * 2^-8) below 2^24 in a chunk, hence exact.
 *
 * Means are in units of src's values, which are codes where src is quantized (docs/method.md, §9.6). */
#include "cpu/norm/norm.h"

#include <math.h>
#include <string.h>

enum { SLOTS = 32, SUMS = 3, VECTORS = 4, DOUBLES = 3 };

struct job;
/* Sums of one chunk, from row `row` on, into SUMS vectors at `out`. */
typedef void (*chunk_sums)(const struct job *j, int64_t row, int64_t rows, float *out);

typedef struct job {
    const qs__chain *chain;
    const qs_norm *norm;
    const qs__cpu_kernels *kernels;
    qs__rows size;
    int64_t slot_rows, slots;
    double step; /* of a quantized src, else 1 */
    qs__in src, diff;
    qs__out dst;
    float *absmax; /* of dst; NULL: not wanted */
    uint8_t *mask;
    chunk_sums chunk;
    int sums;               /* that the chunk has */
    double *sum[SUMS];      /* [slots][channels] */
    float *buffer;          /* [slots][SUMS][channels]: one chunk */
    float *vector[VECTORS]; /* (channels) each, scratch */
    const float *mean, *factor, *offset, *slope;
    double *means, *spreads, *scales; /* (channels), scratch */
} job;

static job start(const qs__chain *chain) {
    job j = {
        .chain = chain, .norm = chain->one.op->norm, .kernels = chain->cpu->kernels, .size = qs__rows_of(&chain->one, QS_SRC), .step = 1};
    const int64_t channels = j.size.channels, chunks = (j.size.rows + QS__CHUNK_ROWS - 1) / QS__CHUNK_ROWS;
    j.slot_rows = (chunks + SLOTS - 1) / SLOTS * QS__CHUNK_ROWS;
    j.slots = (j.size.rows + j.slot_rows - 1) / j.slot_rows;
    j.src = qs__staged_in(chain, QS_SRC);
    if (j.norm->quantized) j.step = (double)*(const float *)qs__cpu_data(chain, QS_SRC_STEP);
    if (qs_case_position(&chain->one, QS_MASK) >= 0) j.mask = qs__cpu_data(chain, QS_MASK);
    for (int i = 0; i < SUMS; i++)
        j.sum[i] = (double *)(chain->scratch + chain->offset[0]) + i * SLOTS * channels;
    j.buffer = (float *)(chain->scratch + chain->offset[1]);
    for (int i = 0; i < VECTORS; i++)
        j.vector[i] = (float *)(chain->scratch + chain->offset[2]) + i * channels;
    j.means = (double *)(chain->scratch + chain->offset[3]);
    j.spreads = j.means + channels;
    j.scales = j.spreads + channels;
    return j;
}

static qs__norm_block block_of(const job *j, int64_t row, int64_t rows) {
    const int64_t at = row * j->size.channels, count = j->size.rows * j->size.channels;
    return (qs__norm_block){.rows = rows,
                            .channels = j->size.channels,
                            .src = qs__in_at(j->src, at),
                            .diff = j->diff.at ? qs__in_at(j->diff, at) : j->diff,
                            .mask = j->mask,
                            .first = at,
                            .mask_bytes = (count + 7) / 8,
                            .mean = j->mean,
                            .absolute = j->norm->absolute};
}

/* ---- Sums over all rows ---- */

static void slot_range(const job *j, int64_t slot, int64_t *row, int64_t *stop) {
    *row = slot * j->slot_rows;
    *stop = *row + j->slot_rows < j->size.rows ? *row + j->slot_rows : j->size.rows;
}

static void sum_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t channels = j->size.channels;
    for (int64_t slot = begin; slot < end; slot++) {
        float *part = j->buffer + SUMS * slot * channels;
        int64_t row, stop;
        slot_range(j, slot, &row, &stop);
        for (int i = 0; i < j->sums; i++)
            memset(j->sum[i] + slot * channels, 0, (size_t)channels * sizeof(double));
        for (; row < stop; row += QS__CHUNK_ROWS) {
            j->chunk(j, row, stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS, part);
            for (int i = 0; i < j->sums; i++)
                for (int64_t c = 0; c < channels; c++)
                    j->sum[i][slot * channels + c] += (double)part[i * channels + c];
        }
    }
}

/* `sums` totals, in the first slot. */
static void sum_rows(job *j, int sums, chunk_sums chunk) {
    const int64_t channels = j->size.channels;
    j->sums = sums;
    j->chunk = chunk;
    qs_parallel(j->slots, 1, sum_slots, j);
    for (int i = 0; i < sums; i++)
        for (int64_t slot = 1; slot < j->slots; slot++)
            for (int64_t c = 0; c < channels; c++)
                j->sum[i][c] += j->sum[i][slot * channels + c];
}

/* ---- Moments of floats ---- */

/* Chan: with δ the distance of the means, Σ² += Σ²_chunk + δ² n m / (n + m). */
static void merge(int64_t channels, double rows, double more, const float *mean, const float *square, double *means, double *squares) {
    double part = more / (rows + more), weight = rows * part;
    for (int64_t c = 0; c < channels; c++) {
        double distance = (double)mean[c] - means[c];
        means[c] += distance * part;
        squares[c] += (double)square[c] + distance * distance * weight;
    }
}

static void moments_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t channels = j->size.channels;
    for (int64_t slot = begin; slot < end; slot++) {
        double *means = j->sum[0] + slot * channels, *squares = j->sum[1] + slot * channels;
        float *mean = j->buffer + SUMS * slot * channels, *square = mean + channels;
        int64_t first, stop;
        slot_range(j, slot, &first, &stop);
        memset(means, 0, (size_t)channels * sizeof *means);
        memset(squares, 0, (size_t)channels * sizeof *squares);
        for (int64_t row = first; row < stop; row += QS__CHUNK_ROWS) {
            int64_t rows = stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS;
            j->kernels->moments(rows, channels, qs__in_at(j->src, row * channels), mean, square);
            merge(channels, (double)(row - first), (double)rows, mean, square, means, squares);
        }
    }
}

/* Slots into the first one. */
static void combine_moments(const job *j) {
    int64_t channels = j->size.channels;
    double *means = j->sum[0], *squares = j->sum[1];
    for (int64_t slot = 1; slot < j->slots; slot++) {
        double rows = (double)(slot * j->slot_rows), left = (double)j->size.rows - rows;
        double more = left < (double)j->slot_rows ? left : (double)j->slot_rows, part = more / (rows + more);
        for (int64_t c = 0; c < channels; c++) {
            double distance = means[slot * channels + c] - means[c];
            means[c] += distance * part;
            squares[c] += squares[slot * channels + c] + distance * distance * rows * part;
        }
    }
}

/* ---- Statistics: exact means into sum[0], rounded ones into means, spreads ---- */

static void chunk_values(const job *j, int64_t row, int64_t rows, float *out) {
    j->kernels->column_sums(rows, j->size.channels, qs__in_at(j->src, row * j->size.channels), out);
}

static void chunk_distances(const job *j, int64_t row, int64_t rows, float *out) {
    const qs__norm_block block = block_of(j, row, rows);
    j->kernels->distances(&block, out);
}

/* Codes and their squares. */
static void chunk_codes(const job *j, int64_t row, int64_t rows, float *out) {
    chunk_values(j, row, rows, out);
    chunk_distances(j, row, rows, out + j->size.channels);
}

static void means_round(job *j) {
    for (int64_t c = 0; c < j->size.channels; c++)
        j->means[c] = j->sum[0][c];
    if (j->norm->quantized) qs_norm_round_means(j->size.channels, j->means);
    for (int64_t c = 0; c < j->size.channels; c++)
        j->vector[0][c] = (float)j->means[c];
    j->mean = j->vector[0];
}

static void statistics_of_distances(job *j) {
    const double rows = (double)j->size.rows;
    double *exact = j->spreads; /* free until the spreads are known */
    sum_rows(j, 1, chunk_values);
    for (int64_t c = 0; c < j->size.channels; c++)
        j->sum[0][c] /= rows;
    means_round(j);
    memcpy(exact, j->sum[0], (size_t)j->size.channels * sizeof *exact);
    sum_rows(j, 1, chunk_distances);
    for (int64_t c = 0; c < j->size.channels; c++) {
        const double total = j->sum[0][c];
        j->sum[0][c] = exact[c];
        j->spreads[c] = total / rows * j->step;
    }
}

static void statistics_of_codes(job *j) {
    const double rows = (double)j->size.rows;
    memset(j->vector[0], 0, (size_t)j->size.channels * sizeof(float));
    j->mean = j->vector[0];
    sum_rows(j, 2, chunk_codes);
    for (int64_t c = 0; c < j->size.channels; c++) {
        const double sum = j->sum[0][c];
        j->spreads[c] = (rows * j->sum[1][c] - sum * sum) / (rows * rows) * j->step * j->step;
        j->sum[0][c] = sum / rows;
    }
    means_round(j);
}

static void statistics_of_floats(job *j) {
    qs_parallel(j->slots, 1, moments_slots, j);
    combine_moments(j);
    for (int64_t c = 0; c < j->size.channels; c++)
        j->spreads[c] = j->sum[1][c] / (double)j->size.rows;
    means_round(j);
}

static void statistics(job *j) {
    if (j->norm->absolute)
        statistics_of_distances(j);
    else if (j->norm->quantized)
        statistics_of_codes(j);
    else
        statistics_of_floats(j);
    for (int64_t c = 0; !j->norm->absolute && j->norm->spread == QS_DEVIATION && c < j->size.channels; c++)
        j->spreads[c] = sqrt(j->spreads[c]);
}

static void running_update(const job *j) {
    const double keep = 1 - j->chain->one.attributes.momentum, more = j->chain->one.attributes.momentum, rows = (double)j->size.rows;
    const double unbias = j->norm->spread == QS_VARIANCE ? rows / (rows - 1) : 1;
    float *mean = qs__cpu_data(j->chain, QS_RUNNING_MEAN), *spread = qs__cpu_data(j->chain, j->norm->running);
    for (int64_t c = 0; c < j->size.channels; c++) {
        mean[c] = (float)(keep * (double)mean[c] + more * j->sum[0][c] * j->step);
        spread[c] = (float)(keep * (double)spread[c] + more * j->spreads[c] * unbias);
    }
}

/* ---- Forward ---- */

/* A vector in double, rounded to 8 bits where the operator is quantized. */
static void vector_read(const job *j, const float *src, double *dst) {
    for (int64_t c = 0; c < j->size.channels; c++)
        dst[c] = (double)src[c];
    if (j->norm->quantized) qs_norm_round_vector(j->size.channels, dst, dst);
}

int64_t qs__norm_cache_rows(int64_t channels) {
    const int64_t rows = 4096 / channels / 8 * 8;
    return rows < 8 ? 8 : rows;
}

void qs__norm_relu(const qs__chain *chain, int64_t at, int64_t count, qs__out dst, uint32_t *largest) {
    const qs_format *format = qs__case_format(&chain->one, QS_DST);
    const int mask = qs_case_position(&chain->one, QS_MASK);
    uint8_t *bits = mask >= 0 ? qs__cpu_data(chain, QS_MASK) : NULL;
    if (dst.type == QS__FP32 && format->bits < 32)
        qs_round_array(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, dst.at, dst.at);
    chain->cpu->kernels->relu(count, (qs__in){dst.type, dst.at}, (float)chain->one.attributes.ceiling, bits ? bits + at / 8 : NULL, dst,
                              largest);
}

static bool normalize_relu(const job *j, int64_t begin, int64_t end, uint32_t *largest) {
    const qs__norm_block block = block_of(j, begin, end - begin);
    return j->kernels->normalize_relu(&block, j->factor, j->offset, (float)j->chain->one.attributes.ceiling,
                                      j->mask ? j->mask + block.first / 8 : NULL, qs__out_at(j->dst, block.first), largest);
}

static void normalize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const bool relu = j->chain->one.attributes.relu;
    const int64_t most = relu ? qs__norm_cache_rows(j->size.channels) : end - begin;
    uint32_t largest = 0, *wanted = j->absmax ? &largest : NULL;
    if (relu && normalize_relu(j, begin, end, wanted)) begin = end;
    for (int64_t row = begin; row < end; row += most) {
        const int64_t at = row * j->size.channels, rows = end - row < most ? end - row : most;
        const qs__out dst = qs__out_at(j->dst, at);
        j->kernels->normalize(rows, j->size.channels, qs__in_at(j->src, at), j->mean, j->factor, j->offset, dst, relu ? NULL : wanted);
        if (relu) qs__norm_relu(j->chain, at, rows * j->size.channels, dst, wanted);
    }
    qs__staged_absmax_raise(j->absmax, largest);
}

int64_t qs__norm_grain(int64_t channels) {
    return (QS__GRAIN / channels + 8) / 8 * 8;
}

/* From mean (set), spreads (rounded) and the parameters. */
static void normalize(job *j) {
    const double epsilon = j->chain->one.attributes.epsilon;
    float *factor = j->vector[1], *offset = j->vector[2];
    vector_read(j, qs__cpu_data(j->chain, QS_SCALE), j->scales);
    for (int64_t c = 0; c < j->size.channels; c++)
        factor[c] = (float)(j->scales[c] * j->step * qs_norm_inverse(j->norm, j->spreads[c], epsilon));
    vector_read(j, qs__cpu_data(j->chain, QS_SHIFT), j->scales);
    for (int64_t c = 0; c < j->size.channels; c++)
        offset[c] = (float)j->scales[c];
    j->factor = factor;
    j->offset = offset;
    j->dst = qs__staged_out(j->chain, QS_DST);
    j->absmax = qs__staged_absmax(j->chain, QS_DST);
    qs_parallel(j->size.rows, qs__norm_grain(j->size.channels), normalize_rows, j);
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    float *mean = qs__cpu_data(chain, QS_MEAN), *spread = qs__cpu_data(chain, j.norm->spread);
    statistics(&j);
    running_update(&j);
    if (j.norm->quantized) qs_norm_round_vector(j.size.channels, j.spreads, j.spreads);
    for (int64_t c = 0; c < j.size.channels; c++) {
        mean[c] = (float)(j.means[c] * j.step);
        spread[c] = (float)j.spreads[c];
    }
    normalize(&j);
    return QS_OK;
}

static qs_status run_inference(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    const float *mean = qs__cpu_data(chain, QS_RUNNING_MEAN);
    for (int64_t c = 0; c < j.size.channels; c++)
        j.sum[0][c] = (double)mean[c] / j.step;
    means_round(&j);
    vector_read(&j, qs__cpu_data(chain, j.norm->running), j.spreads);
    normalize(&j);
    return QS_OK;
}

/* ---- Gradient ---- */

static void chunk_gradients(const job *j, int64_t row, int64_t rows, float *out) {
    const qs__norm_block block = block_of(j, row, rows);
    j->kernels->gradient_sums(&block, out, out + j->size.channels, out + 2 * j->size.channels);
}

/* The mean that forward stored, in units of src: a whole number of 2^-8 where that is quantized. */
static void mean_read(job *j) {
    const float *mean = qs__cpu_data(j->chain, QS_MEAN);
    for (int64_t c = 0; c < j->size.channels; c++)
        j->vector[0][c] = j->norm->quantized ? (float)(rint((double)mean[c] / j->step * 256) / 256) : mean[c];
    j->mean = j->vector[0];
}

/* With i = 1/σ (in units of src: step/σ): diff_src = scale i/step (dy - Σdy/R - (x - mean) i² Σ(dy (x - mean))/R), where L1 has
 * sign(x - mean) less its mean for (x - mean) i; diff_scale = i Σ(dy (x - mean)), diff_shift = Σdy. */
static void finish_gradient(job *j) {
    float *diff_scale = qs__cpu_data(j->chain, QS_DIFF_SCALE), *diff_shift = qs__cpu_data(j->chain, QS_DIFF_SHIFT);
    float *factor = j->vector[1], *offset = j->vector[2], *slope = j->vector[3];
    const float *spread = qs__cpu_data(j->chain, j->norm->spread);
    const double rows = (double)j->size.rows;
    vector_read(j, qs__cpu_data(j->chain, QS_SCALE), j->scales);
    for (int64_t c = 0; c < j->size.channels; c++) {
        const double inverse = qs_norm_inverse(j->norm, (double)spread[c], j->chain->one.attributes.epsilon), unit = inverse * j->step;
        const double sum = j->sum[0][c], product = j->sum[1][c] * unit;
        diff_scale[c] = (float)product;
        diff_shift[c] = (float)sum;
        factor[c] = (float)(j->scales[c] * inverse);
        slope[c] = (float)(j->norm->absolute ? product / rows : product * unit / rows);
        offset[c] = (float)(j->norm->absolute ? (sum - product * (j->sum[2][c] / rows)) / rows : sum / rows);
    }
    j->factor = factor;
    j->offset = offset;
    j->slope = slope;
}

static void gradient_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__norm_block block = block_of(j, begin, end - begin);
    uint32_t largest = 0;
    j->kernels->gradient_rows(&block, j->factor, j->offset, j->slope, qs__out_at(j->dst, begin * j->size.channels),
                              j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    j.diff = qs__staged_in(chain, QS_DIFF_DST);
    mean_read(&j);
    sum_rows(&j, j.norm->absolute ? 3 : 2, chunk_gradients);
    finish_gradient(&j);
    j.dst = qs__staged_out(chain, QS_DIFF_SRC);
    j.absmax = qs__staged_absmax(chain, QS_DIFF_SRC);
    qs_parallel(j.size.rows, qs__norm_grain(j.size.channels), gradient_rows, &j);
    return QS_OK;
}

qs_status qs__build_batch_norm(qs__chain *chain) {
    const char *pass = chain->one.pass->name;
    if (qs__case_has(&chain->one, QS_SRC2)) return qs_fail(QS_UNSUPPORTED, "own kernels of batch norms add no src2");
    size_t channels = (size_t)qs__rows_of(&chain->one, QS_SRC).channels;
    chain->offset[0] = qs__chain_reserve(chain, SUMS * SLOTS * channels * sizeof(double));
    chain->offset[1] = qs__chain_reserve(chain, SUMS * SLOTS * channels * sizeof(float));
    chain->offset[2] = qs__chain_reserve(chain, VECTORS * channels * sizeof(float));
    chain->offset[3] = qs__chain_reserve(chain, DOUBLES * channels * sizeof(double));
    return qs__staged_build(chain, chain->one.op->name,
                            !strcmp(pass, "forward")     ? run_forward
                            : !strcmp(pass, "inference") ? run_inference
                                                         : run_backward);
}
