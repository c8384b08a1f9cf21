// SPDX-License-Identifier: Apache-2.0
/* statistics: what the indicator needs to know about one tensor, in one operand: qs_statistics_head, then the extremes of
 * each channel, all fp64, carried in fp32 slots. Variances are the exact ones of stochastic rounding (docs/method.md §3.1). */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 }; /* channels whose extremes are sought together */

size_t qs_statistics_bytes(int64_t channels) {
    return sizeof(qs_statistics_head) + 2 * (size_t)channels * sizeof(double);
}

static int channel_axis(const qs_case *one) {
    return one->attributes.per_channel ? 0 : 1;
}

static qs_status check(const qs_case *one) {
    int axis = channel_axis(one);
    QS_TRY(qs__need_axes(one, QS_SRC, axis + 1, QS_MAX_AXES));
    size_t bytes = qs_statistics_bytes(qs__shape(one, QS_SRC)->dim[axis]);
    return qs__need_shape(one, QS_STATISTICS, qs_shape_of(1, bytes / sizeof(float)));
}

/* Extremes of columns, a block of them at a time so that a row of it stays in registers. */
static void column_extremes(int64_t count, int64_t channels, const float *values, double *extremes) {
    for (int64_t first = 0; first < channels; first += BLOCK) {
        const int64_t width = channels - first < BLOCK ? channels - first : BLOCK;
        float low[BLOCK], high[BLOCK];
        for (int64_t c = 0; c < width; c++) {
            low[c] = INFINITY;
            high[c] = -INFINITY;
        }
        for (const float *row = values + first; row < values + count; row += channels) {
            for (int64_t c = 0; c < width; c++) {
                low[c] = row[c] < low[c] ? row[c] : low[c];
                high[c] = row[c] > high[c] ? row[c] : high[c];
            }
        }
        for (int64_t c = 0; c < width; c++) {
            extremes[2 * (first + c)] = (double)low[c];
            extremes[2 * (first + c) + 1] = (double)high[c];
        }
    }
}

/* Extremes of rows, and what int8 rounding with a step for each row adds. */
static double row_extremes(int64_t count, int64_t channels, const float *values, double *extremes) {
    const qs_format *int8 = qs_format_of("int8");
    const int64_t length = count / channels;
    double variance = 0;
    for (int64_t c = 0; c < channels; c++) {
        float low, high;
        qs_minmax_array(length, values + c * length, &low, &high);
        extremes[2 * c] = (double)low;
        extremes[2 * c + 1] = (double)high;
        variance += qs_stochastic_variance_array(int8, qs_step_of_absmax(int8, fmaxf(-low, high)), length, values + c * length);
    }
    return variance;
}

void qs_statistics_measure(int64_t count, int64_t channels, bool rows, const float *values, void *statistics) {
    const qs_format *int8 = qs_format_of("int8");
    double *extremes = (double *)((char *)statistics + sizeof(qs_statistics_head));
    qs_summary summary;
    qs_summary_array(count, values, &summary);
    const float low = fabsf(summary.minimum), high = fabsf(summary.maximum);
    const float absmax = low > high || isnan(low) ? low : high;
    qs_statistics_head head = {
        .count = (double)count,
        .norm2 = summary.norm2,
        .absmax = (double)absmax,
        .minimum = (double)summary.minimum,
        .maximum = (double)summary.maximum,
        .variance_int8 = qs_stochastic_variance_array(int8, qs_step_of_absmax(int8, absmax), count, values),
        .variance_bf16 = summary.variance_bf16,
        .variance_fp16 = summary.variance_fp16,
        .channels = (double)channels,
    };
    for (int i = 0; i < QS_EXPONENTS; i++)
        head.exponents[i] = (double)summary.exponents[i];
    if (rows)
        head.variance_int8_channel = row_extremes(count, channels, values, extremes);
    else
        column_extremes(count, channels, values, extremes);
    memcpy(statistics, &head, sizeof head);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    float *values = NULL;
    QS_TRY(qs__read(src, &values));
    qs_statistics_measure(qs_shape_count(&src->shape), src->shape.dim[channel_axis(one)], one->attributes.per_channel, values,
                          qs__operand(one, operands, QS_STATISTICS)->data);
    free(values);
    return QS_OK;
}

static double flops(const qs_case *one) {
    return 24 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* norm 2, extremes 4, exponents 3, three variances of about 5 each */
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_STATISTICS, .source = QS_MADE}),
                                  .reference = forward,
                                  .flops = flops,
                                  .check = check}};

/* 530 slots of the head and 4 for each channel */
static const char *const cases[] = {"statistics/forward src=fp32[4,16,8,8] statistics=fp32[594]",
                                    "statistics/forward src=bf16[4,16,8,8] statistics=fp32[594]",
                                    "statistics/forward src=fp32[1,3,5,7] statistics=fp32[542]",
                                    "statistics/forward src=fp32[8,10] statistics=fp32[570]",
                                    "statistics/forward src=fp32[16,5,3,3] statistics=fp32[594] per_channel",
                                    "statistics/forward src=fp16[2,4,3,3] statistics=fp32[546]",
                                    NULL};

const qs_op qs__op_statistics = {.name = "statistics", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
