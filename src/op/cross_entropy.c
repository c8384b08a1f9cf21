// SPDX-License-Identifier: Apache-2.0
/* What the losses over classes share: where the logits of a row lie, and the reference kernels. A row is one choice among classes, with a
 * label of its own. Samples from run->samples on (a padded evaluation batch) count for nothing, and neither do rows without a label where
 * those are allowed. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

qs_logits qs_case_logits(const qs_case *one) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    const int64_t positions = src->axes == 3 ? src->dim[2] : 1;
    if (one->op == &qs__op_span_cross_entropy)
        return (qs_logits){
            .samples = src->dim[0], .rows = 2, .classes = positions, .next_row = 1, .next_class = 2, .weight = 0.5, .all = true};
    return (qs_logits){.samples = src->dim[0],
                       .rows = positions,
                       .classes = src->dim[1],
                       .next_row = src->dim[1],
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

qs_status qs__cross_entropy_forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
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
            sum += logits.weight * (log(exponentials) - ((double)row[label * logits.next_class] - (double)row[best * logits.next_class]));
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

qs_status qs__cross_entropy_backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_logits logits = qs_case_logits(one);
    const double factor = logits.weight * run->loss_scale / (double)run->global_samples;
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
            *x = counts ? (float)((exp((double)*x - maximum) / exponentials - (c == labels[i] ? 1 : 0)) * factor) : 0;
        }
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
done:
    free(values);
    free(labels);
    return status;
}

double qs__cross_entropy_flops(const qs_case *one) {
    return 4 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* maximum, difference, exponential, sum */
}
