// SPDX-License-Identifier: Apache-2.0
/* Our own batch normalisation. Rows are cut into slots by the shape alone; a slot sums its chunks of QS__CHUNK_ROWS rows, each in fp32, in
 * double, and the slots are combined in order: results do not depend on threads. Statistics of chunks are merged by Chan's formula, so
 * that nothing cancels. */
#include "own.h"

#include <math.h>
#include <string.h>

enum { SLOTS = 32 };

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__rows size;
    int64_t slot_rows, slots;
    qs__in src, diff;
    qs__out dst;
    double *first, *second; /* [slots][channels]: mean and Σ (x - mean)²; or Σ dy and Σ dy (x - mean) */
    float *buffer;          /* [slots][2][channels]: one chunk */
    const float *mean, *factor, *offset, *slope;
} job;

static job start(const qs__chain *chain) {
    job j = {.kernels = chain->cpu->own, .size = qs__own_rows(&chain->one, QS_SRC), .src = qs__own_in(chain, QS_SRC)};
    int64_t chunks = (j.size.rows + QS__CHUNK_ROWS - 1) / QS__CHUNK_ROWS;
    j.slot_rows = (chunks + SLOTS - 1) / SLOTS * QS__CHUNK_ROWS;
    j.slots = (j.size.rows + j.slot_rows - 1) / j.slot_rows;
    j.first = (double *)(chain->scratch + chain->offset[0]);
    j.second = j.first + SLOTS * j.size.channels;
    j.buffer = (float *)(chain->scratch + chain->offset[1]);
    return j;
}

/* Three vectors of one float a channel in scratch. */
static float *scratch_vector(const qs__chain *chain, int which) {
    return (float *)(chain->scratch + chain->offset[2]) + which * qs__own_rows(&chain->one, QS_SRC).channels;
}

/* ---- Statistics ---- */

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
        double *means = j->first + slot * channels, *squares = j->second + slot * channels;
        float *mean = j->buffer + 2 * slot * channels, *square = mean + channels;
        int64_t start_row = slot * j->slot_rows, stop = start_row + j->slot_rows < j->size.rows ? start_row + j->slot_rows : j->size.rows;
        memset(means, 0, (size_t)channels * sizeof *means);
        memset(squares, 0, (size_t)channels * sizeof *squares);
        for (int64_t row = start_row; row < stop; row += QS__CHUNK_ROWS) {
            int64_t rows = stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS;
            j->kernels->moments(rows, channels, qs__own_shift_in(j->src, row * channels), mean, square);
            merge(channels, (double)(row - start_row), (double)rows, mean, square, means, squares);
        }
    }
}

/* Slots into the first one. */
static void combine_moments(const job *j) {
    int64_t channels = j->size.channels;
    for (int64_t slot = 1; slot < j->slots; slot++) {
        double rows = (double)(slot * j->slot_rows), left = (double)j->size.rows - rows;
        double more = left < (double)j->slot_rows ? left : (double)j->slot_rows, part = more / (rows + more);
        for (int64_t c = 0; c < channels; c++) {
            double distance = j->first[slot * channels + c] - j->first[c];
            j->first[c] += distance * part;
            j->second[c] += j->second[slot * channels + c] + distance * distance * rows * part;
        }
    }
}

static void normalize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t at = begin * j->size.channels;
    j->kernels->normalize(end - begin, j->size.channels, qs__own_shift_in(j->src, at), j->mean, j->factor, j->offset,
                          qs__own_shift_out(j->dst, at));
}

static int64_t row_grain(const job *j) {
    return QS__GRAIN / j->size.channels + 1;
}

/* Means, variances and running statistics from the moments, as the definition in op.h has them. */
static void finish_statistics(const qs__chain *chain, const job *j) {
    const qs_attributes *with = &chain->one.attributes;
    float *mean = qs__cpu_data(chain, QS_MEAN), *variance = qs__cpu_data(chain, QS_VARIANCE), *factor = scratch_vector(chain, 0);
    float *running_mean = qs__cpu_data(chain, QS_RUNNING_MEAN), *running_variance = qs__cpu_data(chain, QS_RUNNING_VARIANCE);
    const float *scale = qs__cpu_data(chain, QS_SCALE);
    double rows = (double)j->size.rows, keep = 1 - with->value2;
    for (int64_t c = 0; c < j->size.channels; c++) {
        double middle = j->first[c], spread = j->second[c] / rows;
        mean[c] = (float)middle;
        variance[c] = (float)spread;
        running_mean[c] = (float)(keep * (double)running_mean[c] + with->value2 * middle);
        running_variance[c] = (float)(keep * (double)running_variance[c] + with->value2 * spread * (rows / (rows - 1)));
        factor[c] = (float)((double)scale[c] / sqrt(spread + with->value));
    }
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    qs_parallel(j.slots, 1, moments_slots, &j);
    combine_moments(&j);
    finish_statistics(chain, &j);
    j.dst = qs__own_out(chain, QS_DST);
    j.mean = qs__cpu_data(chain, QS_MEAN);
    j.factor = scratch_vector(chain, 0);
    j.offset = qs__cpu_data(chain, QS_SHIFT);
    qs_parallel(j.size.rows, row_grain(&j), normalize_rows, &j);
    return QS_OK;
}

static qs_status run_inference(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    float *factor = scratch_vector(chain, 0);
    const float *scale = qs__cpu_data(chain, QS_SCALE), *variance = qs__cpu_data(chain, QS_RUNNING_VARIANCE);
    for (int64_t c = 0; c < j.size.channels; c++) {
        factor[c] = (float)((double)scale[c] / sqrt((double)variance[c] + chain->one.attributes.value));
    }
    j.dst = qs__own_out(chain, QS_DST);
    j.mean = qs__cpu_data(chain, QS_RUNNING_MEAN);
    j.factor = factor;
    j.offset = qs__cpu_data(chain, QS_SHIFT);
    qs_parallel(j.size.rows, row_grain(&j), normalize_rows, &j);
    return QS_OK;
}

/* ---- Gradient ---- */

static void gradient_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t channels = j->size.channels;
    for (int64_t slot = begin; slot < end; slot++) {
        double *sums = j->first + slot * channels, *products = j->second + slot * channels;
        float *sum = j->buffer + 2 * slot * channels, *product = sum + channels;
        int64_t row = slot * j->slot_rows, stop = row + j->slot_rows < j->size.rows ? row + j->slot_rows : j->size.rows;
        memset(sums, 0, (size_t)channels * sizeof *sums);
        memset(products, 0, (size_t)channels * sizeof *products);
        for (; row < stop; row += QS__CHUNK_ROWS) {
            int64_t rows = stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS, at = row * channels;
            j->kernels->gradient_sums(rows, channels, qs__own_shift_in(j->src, at), qs__own_shift_in(j->diff, at), j->mean, sum, product);
            for (int64_t c = 0; c < channels; c++) {
                sums[c] += (double)sum[c];
                products[c] += (double)product[c];
            }
        }
    }
}

/* diff_src = scale/σ (dy - Σdy/R - (x - mean) Σ(dy (x - mean))/(σ² R)); diff_scale = Σ(dy (x - mean))/σ, diff_shift = Σdy. */
static void finish_gradient(const qs__chain *chain, const job *j) {
    float *diff_scale = qs__cpu_data(chain, QS_DIFF_SCALE), *diff_shift = qs__cpu_data(chain, QS_DIFF_SHIFT);
    float *factor = scratch_vector(chain, 0), *offset = scratch_vector(chain, 1), *slope = scratch_vector(chain, 2);
    const float *scale = qs__cpu_data(chain, QS_SCALE), *variance = qs__cpu_data(chain, QS_VARIANCE);
    double rows = (double)j->size.rows;
    for (int64_t c = 0; c < j->size.channels; c++) {
        double sum = 0, product = 0, inverse = 1 / sqrt((double)variance[c] + chain->one.attributes.value);
        for (int64_t slot = 0; slot < j->slots; slot++) {
            sum += j->first[slot * j->size.channels + c];
            product += j->second[slot * j->size.channels + c];
        }
        diff_scale[c] = (float)(product * inverse);
        diff_shift[c] = (float)sum;
        factor[c] = (float)((double)scale[c] * inverse);
        offset[c] = (float)(sum / rows);
        slope[c] = (float)(product * inverse * inverse / rows);
    }
}

static void gradient_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t at = begin * j->size.channels;
    j->kernels->gradient_rows(end - begin, j->size.channels, qs__own_shift_in(j->src, at), qs__own_shift_in(j->diff, at), j->mean,
                              j->factor, j->offset, j->slope, qs__own_shift_out(j->dst, at));
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    j.diff = qs__own_in(chain, QS_DIFF_DST);
    j.mean = qs__cpu_data(chain, QS_MEAN);
    qs_parallel(j.slots, 1, gradient_slots, &j);
    finish_gradient(chain, &j);
    j.dst = qs__own_out(chain, QS_DIFF_SRC);
    j.factor = scratch_vector(chain, 0);
    j.offset = scratch_vector(chain, 1);
    j.slope = scratch_vector(chain, 2);
    qs_parallel(j.size.rows, row_grain(&j), gradient_rows, &j);
    return QS_OK;
}

qs_status qs__build_batch_norm(qs__chain *chain) {
    const char *pass = chain->one.pass->name;
    if (chain->one.attributes.relu) return qs_fail(QS_UNSUPPORTED, "own batch norm has no relu behind it");
    size_t channels = (size_t)qs__own_rows(&chain->one, QS_SRC).channels;
    chain->offset[0] = qs__chain_reserve(chain, 2 * SLOTS * channels * sizeof(double));
    chain->offset[1] = qs__chain_reserve(chain, 2 * SLOTS * channels * sizeof(float));
    chain->offset[2] = qs__chain_reserve(chain, 3 * channels * sizeof(float));
    return qs__own_build(chain, "batch_norm",
                         !strcmp(pass, "forward")     ? run_forward
                         : !strcmp(pass, "inference") ? run_inference
                                                      : run_backward);
}
