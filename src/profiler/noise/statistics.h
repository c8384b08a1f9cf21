// SPDX-License-Identifier: Apache-2.0
/* Statistics of tensors in a real training, a stage of a measurement (statistics.c). */
#ifndef QSYNC_PROFILER_STATISTICS_H
#define QSYNC_PROFILER_STATISTICS_H

#include "../setting.h"

/* Collective; with the noise of single operators at its end, in at most noise_runs runs (0: none). out is released with the profile that it
 * is of, also after a failure. */
qs_status qs__statistics_measure(const qs__setting *setting, int noise_runs, qs_statistics *out);

#endif
