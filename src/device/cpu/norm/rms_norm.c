// SPDX-License-Identifier: Apache-2.0
/* Our own RMS norms. Rows need nothing of each other; only the gradient of the scale is a sum over rows, which are cut into slots by the
 * shape alone, summed in chunks of fp32 and added in double, slots in order: results do not depend on threads. */
#include "cpu/norm/norm.h"

#include <string.h>

enum { SLOTS = 32 };

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__rows size;
    int64_t slot_rows, slots;
    qs__in src, diff;
    qs__out dst;
    float *absmax; /* of dst; NULL: not wanted */
    const float *scale;
    double epsilon;
    double *sums; /* [slots][channels] */
    float *chunk; /* the same, of one chunk */
} job;

static job start(const qs__chain *chain, qs_role written) {
    job j = {.kernels = chain->cpu->kernels,
             .size = qs__rows_of(&chain->one, QS_SRC),
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, written),
             .absmax = qs__staged_absmax(chain, written),
             .scale = qs__cpu_data(chain, QS_SCALE),
             .epsilon = chain->one.attributes.epsilon};
    j.slot_rows = ((j.size.rows + SLOTS - 1) / SLOTS + 7) / 8 * 8;
    j.slots = (j.size.rows + j.slot_rows - 1) / j.slot_rows;
    return j;
}

static qs__norm_block block_of(const job *j, int64_t row, int64_t rows) {
    const int64_t channels = j->size.channels;
    return (qs__norm_block){.rows = rows, .channels = channels, .src = qs__in_at(j->src, row * channels), .first = row * channels};
}

static void normalize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__norm_block block = block_of(j, begin, end - begin);
    uint32_t largest = 0;
    j->kernels->rms_normalize(&block, j->scale, j->epsilon, qs__out_at(j->dst, block.first), j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain, QS_DST);
    qs_parallel(j.size.rows, qs__norm_grain(j.size.channels), normalize_rows, &j);
    return QS_OK;
}

static void gradient_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t channels = j->size.channels;
    uint32_t largest = 0;
    for (int64_t slot = begin; slot < end; slot++) {
        double *sums = j->sums + slot * channels;
        float *chunk = j->chunk + slot * channels;
        const int64_t after = (slot + 1) * j->slot_rows, stop = after < j->size.rows ? after : j->size.rows;
        memset(sums, 0, (size_t)channels * sizeof *sums);
        for (int64_t row = slot * j->slot_rows; row < stop; row += QS__CHUNK_ROWS) {
            qs__norm_block block = block_of(j, row, stop - row < QS__CHUNK_ROWS ? stop - row : QS__CHUNK_ROWS);
            block.diff = qs__in_at(j->diff, block.first);
            memset(chunk, 0, (size_t)channels * sizeof *chunk);
            j->kernels->rms_gradient(&block, j->scale, j->epsilon, chunk, qs__out_at(j->dst, block.first), j->absmax ? &largest : NULL);
            for (int64_t c = 0; c < channels; c++)
                sums[c] += (double)chunk[c];
        }
    }
    qs__staged_absmax_raise(j->absmax, largest);
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = start(chain, QS_DIFF_SRC);
    const int64_t channels = j.size.channels;
    float *diff_scale = qs__cpu_data(chain, QS_DIFF_SCALE);
    j.diff = qs__staged_in(chain, QS_DIFF_DST);
    j.sums = (double *)(chain->scratch + chain->offset[0]);
    j.chunk = (float *)(chain->scratch + chain->offset[1]);
    qs_parallel(j.slots, 1, gradient_slots, &j);
    for (int64_t slot = 1; slot < j.slots; slot++)
        for (int64_t c = 0; c < channels; c++)
            j.sums[c] += j.sums[slot * channels + c];
    for (int64_t c = 0; c < channels; c++)
        diff_scale[c] = (float)j.sums[c];
    return QS_OK;
}

qs_status qs__build_rms_norm(qs__chain *chain) {
    const bool backward = strcmp(chain->one.pass->name, "backward") == 0;
    const size_t values = SLOTS * (size_t)qs__rows_of(&chain->one, QS_SRC).channels;
    if (backward) {
        chain->offset[0] = qs__chain_reserve(chain, values * sizeof(double));
        chain->offset[1] = qs__chain_reserve(chain, values * sizeof(float));
    }
    return qs__staged_build(chain, "rms_norm", backward ? run_backward : run_forward);
}
