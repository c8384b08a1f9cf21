// SPDX-License-Identifier: Apache-2.0
/* Our own layer norms, with a relu behind or none. Rows need nothing of each other; only the gradients of the parameters are sums over
 * rows, which are cut into slots by the shape alone, summed in chunks of fp32 and added in double, slots in order: results do not depend on
 * threads. */
#include "cpu/norm/norm.h"

#include <string.h>

enum { SLOTS = 32, SUMS = 2 }; /* Σ dy n and Σ dy */

typedef struct job {
    const qs__chain *chain;
    const qs_norm *norm;
    qs__rows size;
    int64_t slot_rows, slots;
    qs__in src, diff;
    qs__out dst;
    float *absmax; /* of dst; NULL: not wanted */
    double step;   /* of a quantized src, else 1 */
    const float *scale, *shift;
    float *mean, *spread; /* (rows); NULL in inference */
    double *sums;         /* [slots][SUMS][channels] */
    float *chunk;         /* the same, of one chunk */
} job;

/* A parameter: rounded into one of two places in scratch where the operator is quantized. */
static const float *vector_of(const qs__chain *chain, qs_role role, int place) {
    const float *given = qs__cpu_data(chain, role);
    if (!chain->one.op->norm->quantized) return given;
    const int64_t channels = qs__rows_of(&chain->one, QS_SRC).channels;
    float *rounded = (float *)(chain->scratch + chain->offset[2]) + place * channels;
    double *exact = (double *)(chain->scratch + chain->offset[3]);
    for (int64_t c = 0; c < channels; c++)
        exact[c] = (double)given[c];
    qs_norm_round_vector(channels, exact, exact);
    for (int64_t c = 0; c < channels; c++)
        rounded[c] = (float)exact[c];
    return rounded;
}

static job start(const qs__chain *chain) {
    job j = {.chain = chain, .norm = chain->one.op->norm, .size = qs__rows_of(&chain->one, QS_SRC)};
    j.slot_rows = ((j.size.rows + SLOTS - 1) / SLOTS + 7) / 8 * 8;
    j.slots = (j.size.rows + j.slot_rows - 1) / j.slot_rows;
    j.src = qs__staged_in(chain, QS_SRC);
    j.step = j.norm->quantized ? (double)*(const float *)qs__cpu_data(chain, QS_SRC_STEP) : 1;
    j.scale = vector_of(chain, QS_SCALE, 0);
    if (qs_case_position(&chain->one, QS_MEAN) < 0) return j;
    j.mean = qs__cpu_data(chain, QS_MEAN);
    j.spread = qs__cpu_data(chain, j.norm->spread);
    return j;
}

static qs__norm_block block_of(const job *j, int64_t row, int64_t rows, const float *mean) {
    const int64_t at = row * j->size.channels, count = j->size.rows * j->size.channels;
    return (qs__norm_block){.rows = rows,
                            .channels = j->size.channels,
                            .src = qs__in_at(j->src, at),
                            .first = at,
                            .mask_bytes = (count + 7) / 8,
                            .mean = mean,
                            .absolute = j->norm->absolute};
}

/* Of at most QS__CHUNK_ROWS rows. */
typedef struct row_terms {
    float mean[QS__CHUNK_ROWS]; /* in units of src */
    float inverse[QS__CHUNK_ROWS], unit[QS__CHUNK_ROWS];
} row_terms;

/* 1 / spread, and that in units of src. */
static void inverse_find(const job *j, int64_t rows, const float *spread, row_terms *out) {
    for (int64_t r = 0; r < rows; r++) {
        const double inverse = qs_norm_inverse(j->norm, (double)spread[r], j->chain->one.attributes.epsilon);
        out->inverse[r] = (float)inverse;
        out->unit[r] = (float)(inverse * j->step);
    }
}

/* ---- Forward ---- */

static void worth(const job *j, int64_t rows, const float *units, float *values) {
    for (int64_t r = 0; r < rows; r++)
        values[r] = (float)((double)units[r] * j->step);
}

/* Means in units of src into the terms, spreads in their own ones. */
static void statistics(const job *j, const qs__norm_block *block, row_terms *terms, float *spread) {
    j->chain->cpu->kernels->layer_means(block, terms->mean);
    if (j->norm->quantized) qs_norm_round_each(block->rows, terms->mean);
    j->chain->cpu->kernels->layer_spreads(block, spread);
    if (!j->norm->quantized) return;
    qs_norm_round_deviations(block->rows, spread);
    worth(j, block->rows, spread, spread);
}

static void block_normalize(const job *j, int64_t row, int64_t rows) {
    float spreads[QS__CHUNK_ROWS], *spread = j->spread ? j->spread + row : spreads;
    row_terms of;
    const qs__norm_block block = block_of(j, row, rows, of.mean);
    const qs__layer_terms terms = {.scale = j->scale, .shift = j->shift, .inverse = of.inverse, .unit = of.unit};
    const qs__out dst = qs__out_at(j->dst, block.first);
    const bool relu = j->chain->one.attributes.relu;
    uint32_t largest = 0, *wanted = j->absmax ? &largest : NULL;
    statistics(j, &block, &of, spread);
    inverse_find(j, rows, spread, &of);
    if (j->mean) worth(j, rows, of.mean, j->mean + row);
    j->chain->cpu->kernels->layer_normalize(&block, &terms, dst, relu ? NULL : wanted);
    if (relu) qs__norm_relu(j->chain, block.first, rows * j->size.channels, dst, wanted);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void normalize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t fitting = qs__norm_cache_rows(j->size.channels), most = fitting < QS__CHUNK_ROWS ? fitting : QS__CHUNK_ROWS;
    for (int64_t row = begin; row < end; row += most)
        block_normalize(j, row, end - row < most ? end - row : most);
}

/* Training and inference differ in what they keep. */
static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    j.shift = vector_of(chain, QS_SHIFT, 1);
    j.dst = qs__staged_out(chain, QS_DST);
    j.absmax = qs__staged_absmax(chain, QS_DST);
    qs_parallel(j.size.rows, qs__norm_grain(j.size.channels), normalize_rows, &j);
    return QS_OK;
}

/* ---- Gradient ---- */

/* What forward stored, in units of src: whole 2^-8 where that is quantized, which fp32 hides and a sum with a number of that unit shows. */
static void means_read(const job *j, int64_t rows, const float *mean, float *units) {
    const float coarse = 49152.0f;
    for (int64_t r = 0; r < rows; r++)
        units[r] = j->norm->quantized ? ((float)((double)mean[r] / j->step) + coarse) - coarse : mean[r];
}

static void block_gradient(const job *j, int64_t row, int64_t rows, float *chunk) {
    row_terms of;
    qs__norm_block block = block_of(j, row, rows, of.mean);
    const qs__layer_terms terms = {.scale = j->scale, .inverse = of.inverse, .unit = of.unit};
    means_read(j, rows, j->mean + row, of.mean);
    block.diff = qs__in_at(j->diff, block.first);
    block.mask = j->chain->one.attributes.relu ? qs__cpu_data(j->chain, QS_MASK) : NULL;
    uint32_t largest = 0;
    inverse_find(j, rows, j->spread + row, &of);
    j->chain->cpu->kernels->layer_gradient(&block, &terms, chunk, chunk + j->size.channels, qs__out_at(j->dst, block.first),
                                           j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void gradient_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t width = SUMS * j->size.channels;
    for (int64_t slot = begin; slot < end; slot++) {
        double *sums = j->sums + slot * width;
        float *chunk = j->chunk + slot * width;
        const int64_t after = (slot + 1) * j->slot_rows, stop = after < j->size.rows ? after : j->size.rows;
        memset(sums, 0, (size_t)width * sizeof *sums);
        for (int64_t row = slot * j->slot_rows; row < stop; row += QS__CHUNK_ROWS) {
            memset(chunk, 0, (size_t)width * sizeof *chunk);
            block_gradient(j, row, stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS, chunk);
            for (int64_t i = 0; i < width; i++)
                sums[i] += (double)chunk[i];
        }
    }
}

static void parameters_finish(const job *j) {
    const int64_t channels = j->size.channels, width = SUMS * channels;
    float *diff_scale = qs__cpu_data(j->chain, QS_DIFF_SCALE), *diff_shift = qs__cpu_data(j->chain, QS_DIFF_SHIFT);
    for (int64_t slot = 1; slot < j->slots; slot++)
        for (int64_t i = 0; i < width; i++)
            j->sums[i] += j->sums[slot * width + i];
    for (int64_t c = 0; c < channels; c++) {
        diff_scale[c] = (float)j->sums[c];
        diff_shift[c] = (float)j->sums[channels + c];
    }
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain);
    j.diff = qs__staged_in(chain, QS_DIFF_DST);
    j.dst = qs__staged_out(chain, QS_DIFF_SRC);
    j.absmax = qs__staged_absmax(chain, QS_DIFF_SRC);
    j.sums = (double *)(chain->scratch + chain->offset[0]);
    j.chunk = (float *)(chain->scratch + chain->offset[1]);
    qs_parallel(j.slots, 1, gradient_slots, &j);
    parameters_finish(&j);
    return QS_OK;
}

qs_status qs__build_layer_norm(qs__chain *chain) {
    const bool backward = strcmp(chain->one.pass->name, "backward") == 0;
    const size_t channels = (size_t)qs__rows_of(&chain->one, QS_SRC).channels, values = SLOTS * SUMS * channels;
    if (backward) {
        chain->offset[0] = qs__chain_reserve(chain, values * sizeof(double));
        chain->offset[1] = qs__chain_reserve(chain, values * sizeof(float));
    }
    if (chain->one.op->norm->quantized) {
        chain->offset[2] = qs__chain_reserve(chain, 2 * channels * sizeof(float));
        chain->offset[3] = qs__chain_reserve(chain, channels * sizeof(double));
    }
    return qs__staged_build(chain, chain->one.op->name, backward ? run_backward : run_forward);
}
