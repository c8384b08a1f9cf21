// SPDX-License-Identifier: Apache-2.0
/* What a kernel's place in the schedule adds to its mean time: bytes that it finds cold there, more or fewer than at the places where it
 * was measured. */
#include "costmodel_internal.h"

#include <math.h>
#include <stdlib.h>

/* Whatever the caches hold, the arithmetic remains: an extrapolation never goes below this part of the mean. */
static const double least_share = 0.3;

void qs__step_adjust(const qs_class_profile *profile, const qs_step *step, int64_t cold, double *us) {
    if (step->kind != QS_STEP_KERNEL || step->conversion) return;
    const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
    if (!row || row->us_per_cold_byte == 0) return;
    *us = fmax(*us + row->us_per_cold_byte * ((double)cold - row->cold_bytes), least_share * *us);
}

qs_status qs__cache_adjust(const qs_class_profile *profile, const qs_schedule *schedule, double *us) {
    int64_t *cold = NULL;
    if (profile->cache_bytes <= 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *cold, &cold));
    const qs_status status = qs_schedule_cold_bytes(schedule, profile->cache_bytes, cold);
    for (int s = 0; s < schedule->steps && status == QS_OK; s++)
        qs__step_adjust(profile, &schedule->step[s], cold[s], &us[s]);
    free(cold);
    return status;
}
