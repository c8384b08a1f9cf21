// SPDX-License-Identifier: Apache-2.0
/* Optimisers: their operators bring the kernels; here every thread takes its range of elements. Before them, clipping of the gradient. */
#include "cpu/staging.h"

typedef struct job {
    qs_update_kernel kernel;
    float term[QS_UPDATE_TERMS];
    const float *gradient;
    float *weights, *state[QS_MOST_STATES];
    int states;
} job;

static void update_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    float *state[QS_MOST_STATES];
    for (int i = 0; i < j->states; i++)
        state[i] = j->state[i] + begin;
    j->kernel(end - begin, j->term, j->gradient + begin, j->weights + begin, state);
}

static qs_status run_update(const qs__chain *chain, const qs_run *run) {
    const qs_op *op = chain->one.op;
    const float *flag = qs__cpu_data(chain, QS_FLAG);
    if (flag && *flag == 0) return QS_OK;
    job j = {.kernel = qs_optimizer_kernel(op->optimizer, chain->cpu->kernels->name),
             .gradient = qs__cpu_data(chain, QS_SRC),
             .weights = qs__cpu_data(chain, QS_WEIGHTS),
             .states = op->optimizer->states};
    for (int i = 0; i < j.states; i++)
        j.state[i] = qs__cpu_data(chain, qs_optimizer_state(op, i));
    op->optimizer->terms(&chain->one.attributes, run, j.term);
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, update_range, &j);
    return QS_OK;
}

qs_status qs__build_update(qs__chain *chain) {
    return qs__staged_build(chain, chain->one.op->name, run_update);
}

/* ---- Clipping ---- */

typedef struct scaling {
    float factor, *values;
} scaling;

static void scale_range(void *context, int64_t begin, int64_t end) {
    const scaling *j = context;
    for (int64_t i = begin; i < end; i++)
        j->values[i] *= j->factor;
}

static qs_status run_clip_norm(const qs__chain *chain, const qs_run *run) {
    const int64_t count = qs__case_count(&chain->one, QS_SRC);
    const float *flag = qs__cpu_data(chain, QS_FLAG);
    if (flag && *flag == 0) return QS_OK;
    scaling j = {.values = qs__cpu_data(chain, QS_SRC)};
    j.factor = qs_clip_norm_factor(chain->one.attributes.clip_norm, qs_norm2_array(count, j.values), run->loss_scale);
    if (j.factor < 1) qs_parallel(count, QS__GRAIN, scale_range, &j);
    return QS_OK;
}

qs_status qs__build_clip_norm(qs__chain *chain) {
    return qs__staged_build(chain, "clip_norm", run_clip_norm);
}
