// SPDX-License-Identifier: Apache-2.0
/* Our own softmax cross-entropy: rows are independent, their losses are added in order. */
#include "cpu/staging.h"

#include <math.h>
#include <string.h>

typedef struct job {
    int64_t classes, counted; /* rows from `counted` on are padding */
    qs__in src;
    qs__out dst;
    const int32_t *labels;
    double *loss, *correct; /* per row */
    double factor;
} job;

static double value_at(qs__in array, int64_t i) {
    if (array.type == QS__FP32) return (double)((const float *)array.at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)array.at)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* First maximum of a row; *sum = Σ exp(x - maximum). */
static int64_t row_maximum(const job *j, int64_t row, double *sum) {
    int64_t at = row * j->classes, best = 0;
    for (int64_t c = 1; c < j->classes; c++) {
        if (value_at(j->src, at + c) > value_at(j->src, at + best)) best = c;
    }
    double maximum = value_at(j->src, at + best);
    *sum = 0;
    for (int64_t c = 0; c < j->classes; c++) {
        *sum += exp(value_at(j->src, at + c) - maximum);
    }
    return best;
}

static void loss_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        double sum;
        int64_t best = row_maximum(j, row, &sum), at = row * j->classes;
        j->correct[row] = best == j->labels[row];
        j->loss[row] = log(sum) - (value_at(j->src, at + j->labels[row]) - value_at(j->src, at + best));
    }
}

static void put(qs__out array, int64_t i, float value) {
    if (array.type == QS__FP32) {
        ((float *)array.at)[i] = value;
    } else {
        qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, 1, &value,
                             (uint16_t *)array.at + i);
    }
}

static void gradient_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * j->classes;
        double sum, maximum = row < j->counted ? value_at(j->src, at + row_maximum(j, row, &sum)) : 0;
        for (int64_t c = 0; c < j->classes; c++) {
            double gradient = row < j->counted ? exp(value_at(j->src, at + c) - maximum) / sum - (c == j->labels[row] ? 1 : 0) : 0;
            put(j->dst, at + c, (float)(gradient * j->factor));
        }
    }
}

static qs_status start(const qs__chain *chain, const qs_run *run, job *j) {
    const qs_shape *shape = &qs__cpu_operand(&chain->one, QS_SRC)->shape;
    *j = (job){.classes = shape->dim[1],
               .counted = run->samples < shape->dim[0] ? run->samples : shape->dim[0],
               .src = qs__staged_in(chain, QS_SRC),
               .labels = qs__cpu_data(chain, QS_LABELS),
               .loss = (double *)(chain->scratch + chain->offset[0]),
               .factor = run->loss_scale / (double)run->global_samples};
    j->correct = j->loss + shape->dim[0];
    for (int64_t row = 0; row < j->counted; row++) {
        if (j->labels[row] >= 0 && j->labels[row] < j->classes) continue;
        return qs_fail(QS_USAGE, "label %d of sample %lld: there are %lld classes", (int)j->labels[row], (long long)row,
                       (long long)j->classes);
    }
    return QS_OK;
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    job j;
    float *loss = qs__cpu_data(chain, QS_LOSS);
    double sum = 0, correct = 0;
    QS_TRY(start(chain, run, &j));
    qs_parallel(j.counted, 8, loss_rows, &j);
    for (int64_t row = 0; row < j.counted; row++) {
        sum += j.loss[row];
        correct += j.correct[row];
    }
    loss[0] = (float)sum;
    loss[1] = (float)correct;
    return QS_OK;
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    job j;
    QS_TRY(start(chain, run, &j));
    j.dst = qs__staged_out(chain, QS_DIFF_SRC);
    qs_parallel(qs__cpu_operand(&chain->one, QS_SRC)->shape.dim[0], 8, gradient_rows, &j);
    return QS_OK;
}

qs_status qs__build_loss(qs__chain *chain) {
    bool forward = !strcmp(chain->one.pass->name, "forward");
    size_t rows = (size_t)qs__cpu_operand(&chain->one, QS_SRC)->shape.dim[0];
    chain->offset[0] = qs__chain_reserve(chain, forward ? 2 * rows * sizeof(double) : 0);
    return qs__staged_build(chain, "softmax_cross_entropy", forward ? run_forward : run_backward);
}
