// SPDX-License-Identifier: Apache-2.0
/* Our own group norms, and instance norms. A sample is one thread's: its channels are summed as those of a batch norm are, groups are made
 * of what their channels have. Parameters' gradients are summed by sample, samples in order: results do not depend on threads. */
#include "cpu/norm/norm.h"

#include <math.h>
#include <string.h>

typedef struct job {
    const qs__cpu_kernels *kernels;
    int64_t samples, rows, channels, groups, shares;
    qs__in src, diff;
    qs__out dst;
    const float *scale, *shift;
    double epsilon;
    double *moments; /* for each share: mean and sum of squares of each channel */
    float *vectors;  /* for each share: VECTORS */
    double *sums;    /* backward, for each sample: diff_shift and diff_scale */
} job;

enum { MEAN, FACTOR, FIRST, SECOND, THIRD, VECTORS }; /* the last three: of a chunk, or a row */

static float *vector_of(const job *j, int64_t share, int which) {
    return j->vectors + (share * VECTORS + which) * j->channels;
}

static int64_t chunk_rows(const job *j, int64_t row) {
    return j->rows - row < QS__CHUNK_ROWS ? j->rows - row : QS__CHUNK_ROWS;
}

/* Chan: with δ the distance of the means, Σ² += Σ²_chunk + δ² n m / (n + m). */
static void merge(int64_t channels, double rows, double more, const float *mean, const float *square, double *means, double *squares) {
    for (int64_t c = 0; c < channels; c++) {
        const double distance = (double)mean[c] - means[c];
        means[c] += distance * (more / (rows + more));
        squares[c] += (double)square[c] + distance * distance * (rows * more / (rows + more));
    }
}

/* Mean and 1 / sqrt(variance + epsilon) of the groups of a sample, each for all of its channels. */
static void statistics(const job *j, int64_t share, int64_t sample) {
    const int64_t channels = j->channels, members = channels / j->groups;
    double *means = j->moments + 2 * share * channels, *squares = means + channels;
    float *mean = vector_of(j, share, MEAN), *inverse = vector_of(j, share, FACTOR);
    memset(means, 0, 2 * (size_t)channels * sizeof *means);
    for (int64_t row = 0; row < j->rows; row += QS__CHUNK_ROWS) {
        const qs__in src = qs__in_at(j->src, (sample * j->rows + row) * channels);
        j->kernels->moments(chunk_rows(j, row), channels, src, vector_of(j, share, FIRST), vector_of(j, share, SECOND));
        merge(channels, (double)row, (double)chunk_rows(j, row), vector_of(j, share, FIRST), vector_of(j, share, SECOND), means, squares);
    }
    for (int64_t first = 0; first < channels; first += members) {
        double middle = 0, square = 0;
        for (int64_t c = first; c < first + members; c++)
            middle += means[c];
        middle /= (double)members;
        for (int64_t c = first; c < first + members; c++)
            square += squares[c] + (double)j->rows * (means[c] - middle) * (means[c] - middle);
        for (int64_t c = first; c < first + members; c++) {
            mean[c] = (float)middle;
            inverse[c] = (float)(1 / sqrt(square / (double)(members * j->rows) + j->epsilon));
        }
    }
}

/* ---- Forward ---- */

static void forward_shares(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t share = begin; share < end; share++)
        for (int64_t n = j->samples * share / j->shares; n < j->samples * (share + 1) / j->shares; n++) {
            const int64_t at = n * j->rows * j->channels;
            float *factor = vector_of(j, share, FACTOR);
            statistics(j, share, n);
            for (int64_t c = 0; c < j->channels; c++)
                factor[c] *= j->scale[c];
            j->kernels->normalize(j->rows, j->channels, qs__in_at(j->src, at), vector_of(j, share, MEAN), factor, j->shift,
                                  qs__out_at(j->dst, at), NULL);
        }
}

/* ---- Backward ---- */

/* Σ dy and Σ dy (x - mean) of each channel of a sample. */
static void gradient_sums(const job *j, int64_t share, int64_t sample, double *sum, double *product) {
    float *part = vector_of(j, share, FIRST), *other = vector_of(j, share, SECOND);
    memset(sum, 0, (size_t)j->channels * sizeof *sum);
    memset(product, 0, (size_t)j->channels * sizeof *product);
    for (int64_t row = 0; row < j->rows; row += QS__CHUNK_ROWS) {
        const int64_t at = (sample * j->rows + row) * j->channels;
        const qs__norm_block block = {.rows = chunk_rows(j, row),
                                      .channels = j->channels,
                                      .src = qs__in_at(j->src, at),
                                      .diff = qs__in_at(j->diff, at),
                                      .mean = vector_of(j, share, MEAN)};
        j->kernels->gradient_sums(&block, part, other, NULL);
        for (int64_t c = 0; c < j->channels; c++) {
            sum[c] += (double)part[c];
            product[c] += (double)other[c];
        }
    }
}

/* dst = inverse (scale dy - offset - (x - mean) slope), offset and slope by channel. */
static void gradient_rows(const job *j, int64_t share, int64_t sample, const float *offset, const float *slope) {
    const float *mean = vector_of(j, share, MEAN), *inverse = vector_of(j, share, FACTOR);
    float *x_room = vector_of(j, share, FIRST), *dy_room = vector_of(j, share, SECOND), *room = vector_of(j, share, THIRD);
    for (int64_t at = sample * j->rows * j->channels; at < (sample + 1) * j->rows * j->channels; at += j->channels) {
        const float *x = qs__staged_row(j->kernels, qs__in_at(j->src, at), j->channels, x_room);
        const float *dy = qs__staged_row(j->kernels, qs__in_at(j->diff, at), j->channels, dy_room);
        const qs__out dst = qs__out_at(j->dst, at);
        float *to = dst.type == QS__FP32 ? dst.at : room;
        for (int64_t c = 0; c < j->channels; c++)
            to[c] = inverse[c] * (j->scale[c] * dy[c] - offset[c] - (x[c] - mean[c]) * slope[c]);
        qs__staged_row_write(j->channels, to, dst);
    }
}

static void backward_shares(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t channels = j->channels, members = channels / j->groups;
    const double size = (double)(members * j->rows);
    for (int64_t share = begin; share < end; share++)
        for (int64_t n = j->samples * share / j->shares; n < j->samples * (share + 1) / j->shares; n++) {
            double *sum = j->sums + 2 * n * channels, *product = sum + channels;
            float *offset = (float *)(void *)(j->moments + 2 * share * channels),
                  *slope = offset + channels; /* free behind the statistics */
            const float *inverse = vector_of(j, share, FACTOR);
            statistics(j, share, n);
            gradient_sums(j, share, n, sum, product);
            for (int64_t first = 0; first < channels; first += members) {
                const double unit = (double)inverse[first];
                double sums = 0, products = 0;
                for (int64_t c = first; c < first + members; c++) {
                    sums += (double)j->scale[c] * sum[c];
                    products += (double)j->scale[c] * product[c];
                    product[c] *= unit;
                }
                for (int64_t c = first; c < first + members; c++) {
                    offset[c] = (float)(sums / size);
                    slope[c] = (float)(products * unit * unit / size);
                }
            }
            gradient_rows(j, share, n, offset, slope);
        }
}

/* ---- Building ---- */

static job lay_out(const qs_case *one, char *base, size_t *bytes) {
    const qs_shape *src = &qs__case_operand(one, QS_SRC)->shape;
    const bool backward = qs_case_position(one, QS_DIFF_SRC) >= 0;
    job j = {.samples = src->dim[0], .channels = src->dim[1], .shares = qs_threads(), .epsilon = one->attributes.epsilon};
    j.rows = qs_shape_count(src) / j.samples / j.channels;
    j.groups = one->op->takes & QS_TAKES_GROUPS ? one->attributes.groups : j.channels;
    qs__pieces pieces = {base, 0};
    j.moments = qs__piece(&pieces, 2 * j.shares * j.channels * (int64_t)sizeof *j.moments);
    j.vectors = qs__piece(&pieces, VECTORS * j.shares * j.channels * (int64_t)sizeof *j.vectors);
    j.sums = qs__piece(&pieces, (backward ? 2 : 0) * j.samples * j.channels * (int64_t)sizeof *j.sums);
    *bytes = pieces.used;
    return j;
}

static job start(const qs__chain *chain, qs_role written) {
    size_t bytes;
    job j = lay_out(&chain->one, chain->scratch + chain->offset[0], &bytes);
    j.kernels = chain->cpu->kernels;
    j.src = qs__staged_in(chain, QS_SRC);
    j.dst = qs__staged_out(chain, written);
    j.scale = qs__cpu_data(chain, QS_SCALE);
    return j;
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain, QS_DST);
    j.shift = qs__cpu_data(chain, QS_SHIFT);
    qs_parallel(j.shares, 1, forward_shares, &j);
    return QS_OK;
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain, QS_DIFF_SRC);
    float *diff_scale = qs__cpu_data(chain, QS_DIFF_SCALE), *diff_shift = qs__cpu_data(chain, QS_DIFF_SHIFT);
    j.diff = qs__staged_in(chain, QS_DIFF_DST);
    qs_parallel(j.shares, 1, backward_shares, &j);
    for (int64_t c = 0; c < j.channels; c++) {
        double shift = 0, scale = 0;
        for (int64_t n = 0; n < j.samples; n++) {
            shift += j.sums[2 * n * j.channels + c];
            scale += j.sums[(2 * n + 1) * j.channels + c];
        }
        diff_shift[c] = (float)shift;
        diff_scale[c] = (float)scale;
    }
    return QS_OK;
}

qs_status qs__build_group_norm(qs__chain *chain) {
    size_t bytes;
    lay_out(&chain->one, NULL, &bytes);
    chain->offset[0] = qs__chain_reserve(chain, bytes);
    return qs__staged_build(chain, chain->one.op->name, qs_case_position(&chain->one, QS_DIFF_SRC) >= 0 ? run_backward : run_forward);
}
