// SPDX-License-Identifier: Apache-2.0
/* What profiles of other models have found on this machine (shared.c). */
#ifndef QSYNC_PROFILER_SHARED_H
#define QSYNC_PROFILER_SHARED_H

#include "timing/timing.h"

/* Opens the cache that the options name, and has what is there of these cases beside them. Nothing where there is none, where times are not
 * taken inside steps, or on devices that do not say which kernels they have. */
qs_status qs__shared_open(const qs__setting *setting, qs__cases *cases);
void qs__shared_close(qs__shared *shared);
/* Behind the steps: what was found elsewhere joins the samples of its cases, at the pace of now. */
qs_status qs__shared_join(const qs__setting *setting, qs__cases *cases, qs_quality *quality);
/* Keeps what this profile itself has measured, of kernels and of kinds of conversions; a file that cannot be written is a warning. */
void qs__shared_keep(const qs__setting *setting, const qs__cases *cases);

#endif
