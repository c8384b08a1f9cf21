// SPDX-License-Identifier: Apache-2.0
/* Our own local response norms: positions by themselves, in fp32 whatever the storage, a row of channels at a time. */
#include "cpu/norm/norm.h"

#include <math.h>

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__rows size;
    int64_t before, behind, shares;
    float share, beta, bias; /* share: alpha / size */
    qs__in src, diff;
    qs__out dst;
    float *rows; /* for each share: ROWS rows */
} job;

enum { X, DY, SUMS, POWERS, OUT, ROWS };

/* Σ of values over the channels c - before ... c + behind that there are. */
static float window_sum(int64_t channels, int64_t c, int64_t before, int64_t behind, const float *values) {
    const int64_t first = c < before ? 0 : c - before, last = channels - 1 - c < behind ? channels - 1 : c + behind;
    float sum = 0;
    for (int64_t i = first; i <= last; i++)
        sum += values[i];
    return sum;
}

/* s^-beta; the usual powers by roots. */
static float power_of(float s, float beta) {
    if (beta == 0.75f) return 1 / (sqrtf(s) * sqrtf(sqrtf(s)));
    if (beta == 0.5f) return 1 / sqrtf(s);
    return beta == 1 ? 1 / s : powf(s, -beta);
}

/* The sums s of a row, and their powers. */
static void sums_of(const job *j, const float *x, float *squares, float *sums, float *powers) {
    for (int64_t c = 0; c < j->size.channels; c++)
        squares[c] = x[c] * x[c];
    for (int64_t c = 0; c < j->size.channels; c++) {
        sums[c] = j->bias + j->share * window_sum(j->size.channels, c, j->before, j->behind, squares);
        powers[c] = power_of(sums[c], j->beta);
    }
}

static void row_write(const job *j, int64_t row, float *const *room) {
    const int64_t channels = j->size.channels, at = row * channels;
    const float *x = qs__staged_row(j->kernels, qs__in_at(j->src, at), channels, room[X]);
    const float *dy = j->diff.at ? qs__staged_row(j->kernels, qs__in_at(j->diff, at), channels, room[DY]) : NULL;
    float *out = room[OUT], *sums = room[SUMS], *powers = room[POWERS];
    sums_of(j, x, out, sums, powers);
    if (dy) {
        float *ratios = sums; /* dy x s^(-beta - 1) */
        for (int64_t c = 0; c < channels; c++)
            ratios[c] = dy[c] * x[c] * powers[c] / sums[c];
        for (int64_t c = 0; c < channels; c++)
            out[c] = dy[c] * powers[c] - 2 * j->share * j->beta * x[c] * window_sum(channels, c, j->behind, j->before, ratios);
    } else {
        for (int64_t c = 0; c < channels; c++)
            out[c] = x[c] * powers[c];
    }
    qs__staged_row_write(channels, out, qs__out_at(j->dst, at));
}

static void write_shares(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t share = begin; share < end; share++) {
        float *room[ROWS];
        for (int i = 0; i < ROWS; i++)
            room[i] = j->rows + (share * ROWS + i) * j->size.channels;
        for (int64_t row = j->size.rows * share / j->shares; row < j->size.rows * (share + 1) / j->shares; row++)
            row_write(j, row, room);
    }
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_attributes *with = &chain->one.attributes;
    const bool backward = qs_case_position(&chain->one, QS_DIFF_SRC) >= 0;
    job j = {.kernels = chain->cpu->kernels,
             .size = qs__rows_of(&chain->one, QS_SRC),
             .before = ((int64_t)with->size - 1) / 2,
             .behind = (int64_t)with->size / 2,
             .shares = qs_threads(),
             .share = (float)(with->alpha / with->size),
             .beta = (float)with->beta,
             .bias = (float)with->bias,
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, backward ? QS_DIFF_SRC : QS_DST),
             .rows = (float *)(void *)(chain->scratch + chain->offset[0])};
    if (backward) j.diff = qs__staged_in(chain, QS_DIFF_DST);
    qs_parallel(j.shares, 1, write_shares, &j);
    return QS_OK;
}

qs_status qs__build_local_response_norm(qs__chain *chain) {
    const int64_t channels = qs__rows_of(&chain->one, QS_SRC).channels;
    chain->offset[0] = qs__chain_reserve(chain, (size_t)(ROWS * qs_threads() * channels) * sizeof(float));
    return qs__staged_build(chain, "local_response_norm", run);
}
