// SPDX-License-Identifier: Apache-2.0
/* Our own squared loss: samples are independent, their losses are added in order. */
#include "cpu/staging.h"

#include <string.h>

typedef struct job {
    int64_t numbers, counted; /* numbers of a sample; samples that count */
    qs__in src;
    qs__out dst;
    const float *target;
    double *loss; /* per sample */
    double factor;
} job;

static float value_at(qs__in array, int64_t i) {
    float value;
    qs_convert_to_fp32(qs_format_of(array.type == QS__BF16 ? "bf16" : "fp32"), 1, qs__in_at(array, i).at, &value);
    return value;
}

static void loss_samples(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t n = begin; n < end; n++) {
        double sum = 0;
        for (int64_t i = n * j->numbers; i < (n + 1) * j->numbers; i++) {
            const double error = (double)value_at(j->src, i) - (double)j->target[i];
            sum += error * error;
        }
        j->loss[n] = sum / (double)j->numbers;
    }
}

static void gradient_samples(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin * j->numbers; i < end * j->numbers; i++) {
        const double error = (double)value_at(j->src, i) - (double)j->target[i];
        const float gradient = i < j->counted * j->numbers ? (float)(error * j->factor) : 0;
        qs_convert_from_fp32(qs_format_of(j->dst.type == QS__BF16 ? "bf16" : "fp32"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT,
                             (qs_random_stream){0}, 1, &gradient, qs__out_at(j->dst, i).at);
    }
}

static qs_status run(const qs__chain *chain, const qs_run *of) {
    const qs_shape *shape = &qs__case_operand(&chain->one, QS_SRC)->shape;
    const bool forward = qs_case_position(&chain->one, QS_LOSS) >= 0;
    job j = {.numbers = shape->dim[1],
             .counted = of->samples < shape->dim[0] ? of->samples : shape->dim[0],
             .src = qs__staged_in(chain, QS_SRC),
             .target = qs__cpu_data(chain, QS_TARGET),
             .loss = (double *)(chain->scratch + chain->offset[0]),
             .factor = 2 * of->loss_scale / ((double)of->global_samples * (double)shape->dim[1])};
    if (!forward) {
        j.dst = qs__staged_out(chain, QS_DIFF_SRC);
        qs_parallel(shape->dim[0], 64, gradient_samples, &j);
        return QS_OK;
    }
    float *loss = qs__cpu_data(chain, QS_LOSS);
    double sum = 0;
    qs_parallel(j.counted, 64, loss_samples, &j);
    for (int64_t n = 0; n < j.counted; n++)
        sum += j.loss[n];
    loss[0] = (float)sum;
    loss[1] = 0;
    return QS_OK;
}

qs_status qs__build_squared_loss(qs__chain *chain) {
    const bool forward = qs_case_position(&chain->one, QS_LOSS) >= 0;
    const size_t samples = (size_t)qs__case_operand(&chain->one, QS_SRC)->shape.dim[0];
    chain->offset[0] = qs__chain_reserve(chain, forward ? samples * sizeof(double) : 0);
    return qs__staged_build(chain, "squared_loss", run);
}
