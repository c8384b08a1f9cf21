// SPDX-License-Identifier: Apache-2.0
/* Noise of single operators in single recipes, the end of a measurement's statistics (measured.c). */
#ifndef QSYNC_PROFILER_MEASURED_H
#define QSYNC_PROFILER_MEASURED_H

#include "../setting.h"

/* Where and how much: so many iterations of fp32 training behind `weights` (NULL: those of the job's seed), and so many runs at most on the
 * first rank of every class, which measures the recipes that no class before it has; -1: three for each operator and recipe. */
typedef struct qs__noise_order {
    const float *weights;
    int iterations, runs;
} qs__noise_order;

/* The formula to correct is that of `statistics`. Collective. out is released with the profile that it is of, also after a failure. */
qs_status qs__noise_measure(const qs__setting *setting, const qs_statistics *statistics, const qs__noise_order *order, qs_noise *out);

#endif
