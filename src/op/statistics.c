// SPDX-License-Identifier: Apache-2.0
/* statistics: what the indicator needs to know about one tensor, in one pass over it: qs_statistics_head, then one absolute maximum a
 * channel, all fp64, carried in fp32 slots. Variances are the exact ones of stochastic rounding (qsync.md §3). */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t qs_statistics_bytes(int64_t channels) {
    return sizeof(qs_statistics_head) + (size_t)channels * sizeof(double);
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

/* Channels are rows (axis 0) or columns (axis 1, last in memory) of the values. NaN wins, as in qs_absmax_array. */
static void channel_maxima(const qs_case *one, int64_t count, int64_t channels, const float *values, double *maxima) {
    int64_t per_row = count / channels;
    bool rows = channel_axis(one) == 0;
    for (int64_t i = 0; i < count; i++) {
        double *maximum = &maxima[rows ? i / per_row : i % channels];
        double magnitude = fabs((double)values[i]);
        if (!(magnitude <= *maximum)) *maximum = magnitude;
    }
}

qs_statistics_head qs_statistics_measure(int64_t count, int64_t channels, const float *values) {
    const qs_format *int8 = qs_format_of("int8");
    float absmax = qs_absmax_array(count, values), minimum, maximum;
    qs_minmax_array(count, values, &minimum, &maximum);
    return (qs_statistics_head){
        .count = (double)count,
        .norm2 = qs_norm2_array(count, values),
        .absmax = (double)absmax,
        .minimum = (double)minimum,
        .maximum = (double)maximum,
        .variance_int8 = qs_stochastic_variance_array(int8, qs_step_of_absmax(int8, absmax), count, values),
        .variance_bf16 = qs_stochastic_variance_array(qs_format_of("bf16"), 0, count, values),
        .variance_fp16 = qs_stochastic_variance_array(qs_format_of("fp16"), 0, count, values),
        .channels = (double)channels,
    };
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    char *statistics = qs__operand(one, operands, QS_STATISTICS)->data;
    int64_t count = qs_shape_count(&src->shape), channels = src->shape.dim[channel_axis(one)];
    float *values = NULL;
    double *maxima = NULL;
    qs_status status;
    QS_GOTO(qs__read(src, &values));
    QS_GOTO(qs_allocate((size_t)channels, sizeof *maxima, &maxima));
    channel_maxima(one, count, channels, values, maxima);
    qs_statistics_head head = qs_statistics_measure(count, channels, values);
    memcpy(statistics, &head, sizeof head);
    memcpy(statistics + sizeof head, maxima, (size_t)channels * sizeof *maxima);
done:
    free(values);
    free(maxima);
    return status;
}

static double flops(const qs_case *one) {
    return 20 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* norm 2, extrema 3, three variances of about 5 each */
}

static const qs_pass passes[] = {{.name = "forward",
                                  .roles = 2,
                                  .role = {QS_SRC, QS_STATISTICS},
                                  .written = QS__BIT(1),
                                  .reference = forward,
                                  .flops = flops,
                                  .check = check}};

/* 18 slots of the head and 2 for each channel */
static const char *const cases[] = {"statistics/forward src=fp32[4,16,8,8] statistics=fp32[50]",
                                    "statistics/forward src=bf16[4,16,8,8] statistics=fp32[50]",
                                    "statistics/forward src=fp32[1,3,5,7] statistics=fp32[24]",
                                    "statistics/forward src=fp32[8,10] statistics=fp32[38]",
                                    "statistics/forward src=fp32[16,5,3,3] statistics=fp32[50] per_channel",
                                    "statistics/forward src=fp16[2,4,3,3] statistics=fp32[26]",
                                    NULL};

const qs_op qs__op_statistics = {.name = "statistics", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
