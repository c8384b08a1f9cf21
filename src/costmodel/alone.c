// SPDX-License-Identifier: Apache-2.0
/* Microseconds of steps while the other ranks of a host wait: what rows and fits hold, as a share of the time beside busy ranks. */
#include "costmodel_internal.h"

static bool knows_alone(const qs_class_profile *profile) {
    for (int i = 0; i < profile->kernels; i++)
        if (profile->kernel[i].us_alone > 0) return true;
    for (int i = 0; i < profile->conversions; i++)
        if (profile->conversion[i].alone > 0) return true;
    return false;
}

static double conversion_share(const qs_class_profile *profile, const qs_case *one) {
    const qs_conversion_cost *row = qs_cost_conversion(profile, one);
    return row && row->alone > 0 ? row->alone : 1;
}

static double kernel_share(const qs_class_profile *profile, const char *case_text) {
    const qs_kernel_cost *row = qs_class_profile_kernel(profile, case_text);
    return row && row->us_alone > 0 && row->us > 0 ? row->us_alone / row->us : 1;
}

static double step_alone(const qs_class_profile *profile, const qs_step *step, double us) {
    if (step->kind != QS_STEP_KERNEL || us <= profile->step_overhead_us) return us;
    const double share = step->conversion ? conversion_share(profile, &step->case_) : kernel_share(profile, step->case_text);
    return profile->step_overhead_us + (us - profile->step_overhead_us) * share;
}

bool qs_cost_schedule_alone(const qs_class_profile *profile, const qs_schedule *schedule, const double *us, double *alone_us) {
    if (!knows_alone(profile)) return false;
    for (int s = 0; s < schedule->steps; s++)
        alone_us[s] = step_alone(profile, &schedule->step[s], us[s]);
    return true;
}

qs_status qs_cost_step_least(const qs_class_profile *profile, const qs_step *step, double *us) {
    QS_TRY(qs_cost_step(profile, step, us));
    if (profile->cache_bytes > 0) qs__step_adjust(profile, step, 0, us);
    const double alone = step_alone(profile, step, *us);
    if (alone < *us) *us = alone;
    return QS_OK;
}
