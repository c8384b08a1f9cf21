// SPDX-License-Identifier: Apache-2.0
/* What a profile knows of tensors and of gradient noise, raw: what indicators form Ω from (docs/method.md §3.6, §3.10). Part of record.h,
 * which says how records are read, written and released. */
#ifndef QSYNC_RAW_STATISTICS_H
#define QSYNC_RAW_STATISTICS_H

#include "qsync/number.h"

#define QS_NAME 64

/* Raw statistics of one tensor, one value an iteration (profiled at `batch` of qs_statistics). */
typedef struct qs_tensor_statistics {
    int64_t count;
    double *norm2, *absmax, *minimum, *maximum, *channel_absmax2;
    double *variance_int8, *variance_bf16, *variance_fp16;
    double *channel_range2, *variance_int8_channel; /* NaN where not measured */
    /* Elements per binary exponent e = floor(log2 |t|), at [e - QS_LOWEST_EXPONENT]; lower ones are in the first, zeros in none. Mean over
     * ranks and iterations; all 0: not measured. */
    double *range_histogram;
} qs_tensor_statistics;

typedef struct qs_operator_statistics {
    char name[QS_NAME];
    qs_tensor_statistics src, weights, diff_dst;
    double hessian_top; /* NaN: not measured */
} qs_operator_statistics;

/* What lowering one operator alone to one recipe did to the gradient of the whole model, measured in paired runs (docs/method.md §3.10). */
typedef struct qs_noise_row {
    char name[QS_NAME], recipe[QS_NAME]; /* operator, recipe */
    int runs;
    double error2, standard_error; /* ‖g - g_fp32‖² and how well that is known */
    bool overflow;                 /* loss or gradient left the range of a format: both are 0 */
} qs_noise_row;

/* Several operators lowered to one recipe together. */
typedef struct qs_noise_group {
    char recipe[QS_NAME];
    int operators;
    double error2, sum; /* ‖g - g_fp32‖² of one run, and what its operators alone come to with the same samples */
} qs_noise_group;

typedef struct qs_noise {
    int64_t batch;         /* samples of a run */
    int iteration;         /* of the training whose weights they are */
    int runs;              /* all of them, with those in fp32 that they are compared with */
    double gradient_norm2; /* ‖g_fp32‖², mean over samples */
    int rows;              /* 0: not measured */
    qs_noise_row *row;
    int groups; /* whether noise adds up over operators: 0: not measured */
    qs_noise_group *group;
} qs_noise;

typedef struct qs_statistics {
    int64_t batch; /* local batch during profiling */
    int iterations, ranks;
    int operators;
    qs_operator_statistics *operator_;
    qs_noise noise;
} qs_statistics;

/* Allocates the per-iteration arrays of an operator's three tensors; what is optional starts as NaN. */
QS_API qs_status qs_operator_statistics_create(int iterations, qs_operator_statistics *out);

#endif
