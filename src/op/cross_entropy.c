// SPDX-License-Identifier: Apache-2.0
/* What the losses over classes share: where the logits of a row lie, the passes and their reference kernels. A row is one choice among
 * classes, with a label of its own. Samples from run->samples on (a padded evaluation batch) count for nothing, and neither do rows
 * without a label where those are allowed. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

qs_logits qs_case_logits(const qs_case *one) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    const int64_t channels = src->dim[1], positions = src->axes == 3 ? src->dim[2] : 1;
    if (one->op->class_axis == 2)
        return (qs_logits){.samples = src->dim[0],
                           .rows = channels,
                           .classes = positions,
                           .next_row = 1,
                           .next_class = channels,
                           .weight = 1 / (double)channels,
                           .all = true};
    return (qs_logits){.samples = src->dim[0],
                       .rows = positions,
                       .classes = channels,
                       .next_row = channels,
                       .next_class = 1,
                       .weight = 1,
                       .ignores = src->axes == 3};
}

qs_status qs_logits_check(const qs_logits *logits, const int32_t *labels, int64_t samples) {
    for (int64_t i = 0; i < samples * logits->rows; i++) {
        if (labels[i] < logits->classes && (labels[i] >= 0 || logits->ignores)) continue;
        return qs_fail(QS_USAGE, "label %d of sample %lld: there are %lld %s", (int)labels[i], (long long)(i / logits->rows),
                       (long long)logits->classes, logits->all ? "positions" : "classes");
    }
    return QS_OK;
}

/* -Σ target log p of a row with its first maximum m at `best` and Σ exp(x - m). */
static double row_loss(const qs_logits *logits, const float *row, int64_t best, double exponentials, int32_t label, double smoothing) {
    const double maximum = (double)row[best * logits->next_class], distance = (double)row[label * logits->next_class] - maximum;
    double sum = 0;
    if (smoothing == 0) return log(exponentials) - distance;
    for (int64_t c = 0; c < logits->classes; c++)
        sum += (double)row[c * logits->next_class] - maximum;
    return log(exponentials) - ((1 - smoothing) * distance + smoothing * (sum / (double)logits->classes));
}

/* A row of logits at `row`: place of the first maximum m; *sum = Σ exp(x - m), so that p = exp(x - m) / sum without overflow or
 * cancellation. */
static int64_t row_maximum(const qs_logits *logits, const float *row, double *sum) {
    const int64_t step = logits->next_class;
    int64_t best = 0;
    for (int64_t c = 1; c < logits->classes; c++) {
        if (row[c * step] > row[best * step]) best = c;
    }
    *sum = 0;
    for (int64_t c = 0; c < logits->classes; c++) {
        *sum += exp((double)row[c * step] - (double)row[best * step]);
    }
    return best;
}

/* Samples that count, a copy of their labels, which are checked, and of the logits. */
static qs_status read_rows(const qs_case *one, const qs_tensor *operands, const qs_run *run, const qs_logits *logits, int64_t *samples,
                           int32_t **labels, float **src) {
    const size_t count = (size_t)(logits->samples * logits->rows);
    *samples = run->samples < logits->samples ? run->samples : logits->samples;
    QS_TRY(qs_allocate(count, sizeof **labels, labels));
    memcpy(*labels, qs__operand(one, operands, QS_LABELS)->data, count * sizeof **labels);
    QS_TRY(qs_logits_check(logits, *labels, *samples));
    return qs__read(qs__operand(one, operands, QS_SRC), src);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_logits logits = qs_case_logits(one);
    float *src = NULL, *loss = qs__fp32(one, operands, QS_LOSS);
    int32_t *labels = NULL;
    int64_t samples;
    double sum = 0, correct = 0;
    qs_status status;
    QS_GOTO(read_rows(one, operands, run, &logits, &samples, &labels, &src));
    for (int64_t n = 0; n < samples; n++) {
        int64_t right = 0;
        for (int64_t r = 0; r < logits.rows; r++) {
            const float *row = src + n * logits.rows * logits.classes + r * logits.next_row;
            const int32_t label = labels[n * logits.rows + r];
            double exponentials;
            if (label < 0) continue;
            const int64_t best = row_maximum(&logits, row, &exponentials);
            right += best == label;
            sum += logits.weight * row_loss(&logits, row, best, exponentials, label, run->label_smoothing);
        }
        correct += (double)(logits.all ? right == logits.rows : right);
    }
    loss[0] = (float)sum;
    loss[1] = (float)correct;
done:
    free(src);
    free(labels);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_logits logits = qs_case_logits(one);
    const double factor = logits.weight * run->loss_scale / (double)run->global_samples;
    const double alike = run->label_smoothing / (double)logits.classes, own = 1 - run->label_smoothing;
    float *values = NULL;
    int32_t *labels = NULL;
    int64_t samples;
    qs_status status;
    QS_GOTO(read_rows(one, operands, run, &logits, &samples, &labels, &values));
    for (int64_t i = 0; i < logits.samples * logits.rows; i++) {
        float *row = values + i / logits.rows * logits.rows * logits.classes + i % logits.rows * logits.next_row;
        const bool counts = i < samples * logits.rows && labels[i] >= 0;
        double exponentials = 1, maximum = 0;
        if (counts) maximum = (double)row[row_maximum(&logits, row, &exponentials) * logits.next_class];
        for (int64_t c = 0; c < logits.classes; c++) {
            float *x = &row[c * logits.next_class];
            const double target = (c == labels[i] ? own : 0) + alike;
            *x = counts ? (float)((exp((double)*x - maximum) / exponentials - target) * factor) : 0;
        }
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

/* One for each row: src without the axis on which classes lie. */
static qs_status labels_check(const qs_case *one) {
    qs_shape labels = *qs__shape(one, QS_SRC);
    labels.axes--;
    for (int axis = one->op->class_axis; axis < labels.axes; axis++)
        labels.dim[axis] = labels.dim[axis + 1];
    return qs__need_shape(one, QS_LABELS, labels);
}

static qs_status forward_check(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_SRC, 0, QS_LOSS));
    return labels_check(one);
}

static qs_status backward_check(const qs_case *one) {
    qs_shape loss;
    QS_TRY(one->op->infer(&one->attributes, qs__shape(one, QS_SRC), 0, &loss));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    return labels_check(one);
}

const qs_pass qs__cross_entropy_passes[QS__CROSS_ENTROPY_PASSES] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_TARGET},
                 {.role = QS_LOSS, .source = QS_TO_LOSS}),
     .reference = forward,
     .flops = flops,
     .check = forward_check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_TARGET},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops,
     .check = backward_check},
};
