// SPDX-License-Identifier: Apache-2.0
/* Inside the room: parts of a profile: the statistics (statistics.c), the all-reduces (collectives.c), the batches
 * (batches.c), the plans it was checked with (checks.c). */
#ifndef QSYNC_RECORD_PROFILE_INTERNAL_H
#define QSYNC_RECORD_PROFILE_INTERNAL_H

#include "record_internal.h"

qs_status qs__statistics_read(const qs__place *root, qs_statistics *out);
void qs__statistics_write(qs__writer *writer, const qs_statistics *statistics);
void qs__statistics_release(qs_statistics *statistics);
qs_status qs__batches_read(const qs__place *root, qs_profile *out);
void qs__batches_write(qs__writer *writer, const qs_profile *profile);
qs_status qs__collectives_read(const qs__place *root, qs_profile *out);
void qs__collectives_write(qs__writer *writer, const qs_profile *profile);
qs_status qs__checks_read(const qs__place *root, qs_profile *out);
void qs__checks_write(qs__writer *writer, const qs_profile *profile);

#endif
