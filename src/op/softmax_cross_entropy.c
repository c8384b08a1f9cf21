// SPDX-License-Identifier: Apache-2.0
/* softmax_cross_entropy: the loss. Rows from run->samples on (a padded evaluation batch) count for nothing. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 2) return qs_fail(QS_USAGE, "softmax_cross_entropy: input %s needs the axes N,C", qs_shape_text(src, text));
    *dst = qs_shape_of(1, 2);
    return QS_OK;
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_SRC, 0, QS_LOSS));
    return qs__need_shape(one, QS_LABELS, qs_shape_of(1, qs__shape(one, QS_SRC)->dim[0]));
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 2));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    return qs__need_shape(one, QS_LABELS, qs_shape_of(1, qs__shape(one, QS_SRC)->dim[0]));
}

/* Rows that count, and the check of their labels. */
static qs_status read_labels(const qs_case *one, const qs_tensor *operands, const qs_run *run, int64_t *rows, int32_t **out) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    *rows = run->samples < shape->dim[0] ? run->samples : shape->dim[0];
    int32_t *labels;
    QS_TRY(qs_allocate((size_t)shape->dim[0], sizeof *labels, &labels));
    memcpy(labels, qs__operand(one, operands, QS_LABELS)->data, (size_t)shape->dim[0] * sizeof *labels);
    for (int64_t n = 0; n < *rows; n++) {
        if (labels[n] >= 0 && labels[n] < shape->dim[1]) continue;
        qs_status status =
            qs_fail(QS_USAGE, "label %d of sample %lld: there are %lld classes", (int)labels[n], (long long)n, (long long)shape->dim[1]);
        free(labels);
        return status;
    }
    *out = labels;
    return QS_OK;
}

/* Position of the first maximum m; *sum = Σ exp(x - m), so that p = exp(x - m) / sum without overflow or cancellation. */
static int64_t row_maximum(int64_t classes, const float *row, double *sum) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++) {
        if (row[c] > row[best]) best = c;
    }
    *sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        *sum += exp((double)row[c] - (double)row[best]);
    }
    return best;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    int64_t classes = qs__shape(one, QS_SRC)->dim[1], rows;
    float *src = NULL, *loss = qs__fp32(one, operands, QS_LOSS);
    int32_t *labels = NULL;
    double sum = 0, correct = 0;
    qs_status status;
    QS_GOTO(read_labels(one, operands, run, &rows, &labels));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    for (int64_t n = 0; n < rows; n++) {
        const float *row = src + n * classes;
        double exponentials;
        int64_t best = row_maximum(classes, row, &exponentials);
        correct += best == labels[n];
        sum += log(exponentials) - ((double)row[labels[n]] - (double)row[best]);
    }
    loss[0] = (float)sum;
    loss[1] = (float)correct;
done:
    free(src);
    free(labels);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    int64_t classes = shape->dim[1], rows;
    double factor = run->loss_scale / (double)run->global_samples;
    float *values = NULL;
    int32_t *labels = NULL;
    qs_status status;
    QS_GOTO(read_labels(one, operands, run, &rows, &labels));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t n = 0; n < rows; n++) {
        float *row = values + n * classes;
        double exponentials, maximum = (double)row[row_maximum(classes, row, &exponentials)];
        for (int64_t c = 0; c < classes; c++) {
            row[c] = (float)((exp((double)row[c] - maximum) / exponentials - (c == labels[n] ? 1 : 0)) * factor);
        }
    }
    for (int64_t i = rows * classes; i < shape->dim[0] * classes; i++) {
        values[i] = 0;
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
done:
    free(values);
    free(labels);
    return status;
}

static double flops(const qs_case *one) {
    return 4 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* maximum, difference, exponential, sum */
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_LABELS},
                 {.role = QS_LOSS, .source = QS_TO_LOSS}),
     .reference = forward,
     .flops = flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_LABELS},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops,
     .check = check_backward},
};

#define EVERY(N, C)                                                                        \
    "softmax_cross_entropy/forward src=fp32[" N "," C "] labels=fp32[" N "] loss=fp32[2]", \
        "softmax_cross_entropy/backward src=fp32[" N "," C "] labels=fp32[" N "] diff_src=fp32[" N "," C "]"

static const char *const cases[] = {EVERY("8", "10"), EVERY("1", "2"), EVERY("5", "103"), NULL};

const qs_op qs__op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy", .kind = QS_FIXED, .inputs = 1, .infer = infer, .passes = 2, .pass = passes, .cases = cases};
