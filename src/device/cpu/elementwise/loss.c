// SPDX-License-Identifier: Apache-2.0
/* Our own losses over classes: rows are independent, their losses are added in order. Rows of a vocabulary's length, whose classes lie side
 * by side, go through lanes in fp32, once through memory: what a row is read for again comes from a cache. Shorter rows cost little: their
 * arithmetic is double. */
#include "cpu/staging.h"

#include <math.h>
#include <string.h>

enum { WIDE = 2048 }; /* classes of a row for lanes */

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs_logits logits;
    int64_t counted; /* rows; those behind are padding */
    qs__in src;
    qs__out dst;
    const int32_t *labels;
    double *loss, *correct; /* per row */
    double factor, smoothing;
} job;

static double value_at(qs__in array, int64_t i) {
    if (array.type == QS__FP32) return (double)((const float *)array.at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)array.at)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Of row `row` the element at which its logits begin. */
static int64_t row_begin(const qs_logits *logits, int64_t row) {
    return row / logits->rows * logits->rows * logits->classes + row % logits->rows * logits->next_row;
}

/* -Σ target log p: `logarithm` is that of Σ exp(x - maximum), `distance` the label's from the maximum, `mean` that of all classes. */
static double target_loss(const job *j, double logarithm, double distance, double mean) {
    if (j->smoothing == 0) return logarithm - distance;
    return logarithm - ((1 - j->smoothing) * distance + j->smoothing * mean);
}

/* First maximum of a row that begins at `at`; *sum = Σ exp(x - maximum). */
static int64_t row_maximum(const job *j, int64_t at, double *sum) {
    const int64_t classes = j->logits.classes, step = j->logits.next_class;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++) {
        if (value_at(j->src, at + c * step) > value_at(j->src, at + best * step)) best = c;
    }
    double maximum = value_at(j->src, at + best * step);
    *sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        *sum += exp(value_at(j->src, at + c * step) - maximum);
    }
    return best;
}

static void loss_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t step = j->logits.next_class;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row_begin(&j->logits, row), label = j->labels[row];
        double sum;
        j->loss[row] = j->correct[row] = 0;
        if (label < 0) continue;
        const int64_t best = row_maximum(j, at, &sum);
        j->correct[row] = best == label;
        const double maximum = value_at(j->src, at + best * step);
        double mean = 0;
        for (int64_t c = 0; j->smoothing > 0 && c < j->logits.classes; c++)
            mean += (value_at(j->src, at + c * step) - maximum) / (double)j->logits.classes;
        j->loss[row] = target_loss(j, log(sum), value_at(j->src, at + label * step) - maximum, mean);
    }
}

static void wide_loss_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row_begin(&j->logits, row), label = j->labels[row];
        qs__logits_sums sums;
        j->loss[row] = j->correct[row] = 0;
        if (label < 0) continue;
        j->kernels->logits_sums(j->logits.classes, qs__in_at(j->src, at), &sums);
        const double maximum = (double)sums.largest, distance = value_at(j->src, at + label) - maximum;
        j->loss[row] = target_loss(j, log(sums.exponentials), distance, sums.total / (double)j->logits.classes - maximum);
        bool first = distance == 0;
        for (int64_t c = 0; first && c < label; c++)
            first = value_at(j->src, at + c) < maximum;
        j->correct[row] = first;
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
    const int64_t step = j->logits.next_class;
    const double alike = j->smoothing / (double)j->logits.classes, own = 1 - j->smoothing;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row_begin(&j->logits, row);
        const bool counts = row < j->counted && j->labels[row] >= 0;
        double sum, maximum = counts ? value_at(j->src, at + row_maximum(j, at, &sum) * step) : 0;
        for (int64_t c = 0; c < j->logits.classes; c++) {
            const double target = (c == j->labels[row] ? own : 0) + alike;
            double gradient = counts ? exp(value_at(j->src, at + c * step) - maximum) / sum - target : 0;
            put(j->dst, at + c * step, (float)(gradient * j->factor));
        }
    }
}

/* The label's own element is a difference, which is taken in double. */
static void wide_gradient_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const double alike = j->smoothing / (double)j->logits.classes, own = 1 - j->smoothing;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row_begin(&j->logits, row), label = j->labels[row];
        const qs__out dst = qs__out_at(j->dst, at);
        if (row >= j->counted || label < 0) {
            memset(dst.at, 0, (size_t)j->logits.classes * qs__type_bytes(dst.type));
            continue;
        }
        const qs__in src = qs__in_at(j->src, at);
        qs__logits_sums sums;
        j->kernels->logits_sums(j->logits.classes, src, &sums);
        const double probability = exp(value_at(src, label) - (double)sums.largest) / sums.exponentials;
        j->kernels->logits_gradient(j->logits.classes, src, sums.largest, (float)(j->factor / sums.exponentials),
                                    (float)(j->factor * alike), dst);
        put(dst, label, (float)((probability - (own + alike)) * j->factor));
    }
}

static qs_status start(const qs__chain *chain, const qs_run *run, job *j) {
    const qs_logits logits = qs_case_logits(&chain->one);
    const int64_t samples = run->samples < logits.samples ? run->samples : logits.samples;
    *j = (job){.kernels = chain->cpu->kernels,
               .logits = logits,
               .counted = samples * logits.rows,
               .src = qs__staged_in(chain, QS_SRC),
               .labels = qs__cpu_data(chain, QS_LABELS),
               .loss = (double *)(chain->scratch + chain->offset[0]),
               .factor = logits.weight * run->loss_scale / (double)run->global_samples,
               .smoothing = run->label_smoothing};
    j->correct = j->loss + logits.samples * logits.rows;
    return qs_logits_check(&logits, j->labels, samples);
}

static bool is_wide(const job *j) {
    return j->logits.classes >= WIDE && j->logits.next_class == 1;
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    job j;
    float *loss = qs__cpu_data(chain, QS_LOSS);
    double sum = 0, correct = 0;
    QS_TRY(start(chain, run, &j));
    const int64_t rows = j.logits.rows;
    qs_parallel(j.counted, is_wide(&j) ? 1 : 8, is_wide(&j) ? wide_loss_rows : loss_rows, &j);
    for (int64_t first = 0; first < j.counted; first += rows) {
        double right = 0;
        for (int64_t row = first; row < first + rows; row++) {
            sum += j.logits.weight * j.loss[row];
            right += j.correct[row];
        }
        correct += j.logits.all ? right == (double)rows : right;
    }
    loss[0] = (float)sum;
    loss[1] = (float)correct;
    return QS_OK;
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    job j;
    QS_TRY(start(chain, run, &j));
    j.dst = qs__staged_out(chain, QS_DIFF_SRC);
    qs_parallel(j.logits.samples * j.logits.rows, is_wide(&j) ? 1 : 8, is_wide(&j) ? wide_gradient_rows : gradient_rows, &j);
    return QS_OK;
}

qs_status qs__build_loss(qs__chain *chain) {
    const qs_logits logits = qs_case_logits(&chain->one);
    bool forward = !strcmp(chain->one.pass->name, "forward");
    chain->offset[0] = qs__chain_reserve(chain, forward ? 2 * (size_t)(logits.samples * logits.rows) * sizeof(double) : 0);
    return qs__staged_build(chain, chain->one.op->name, forward ? run_forward : run_backward);
}
