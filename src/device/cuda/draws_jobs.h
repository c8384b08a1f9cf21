// SPDX-License-Identifier: Apache-2.0
/* Random draws of an operand's elements, as rows of qs_random_rows have them. */
#ifndef QSYNC_DEVICE_CUDA_DRAWS_JOBS_H
#define QSYNC_DEVICE_CUDA_DRAWS_JOBS_H

#include "cuda/jobs.h"

/* Element i of all draws with counter first + i + gap · (i / per_row): rows whose length is odd leave a counter out. */
typedef struct qs__cuda_draws {
    uint64_t key, first;
    int64_t per_row;
    int gap; /* 0, 1 */
} qs__cuda_draws;

#endif
