// SPDX-License-Identifier: Apache-2.0
/* Microseconds of steps: rows for kernels, fits for conversions. */
#include <string.h>

#include "costmodel_internal.h"

static const qs_conversion_cost *conversion_find(const qs_class_profile *profile, const qs_case *one) {
    const qs_format *from = one->operand[qs_case_position(one, QS_SRC)].format;
    const int dst = qs_case_position(one, QS_DST);
    const qs_format *to = dst >= 0 ? one->operand[dst].format : NULL;
    for (int i = 0; i < profile->conversions; i++) {
        const qs_conversion_cost *row = &profile->conversion[i];
        if (strcmp(row->kind, one->op->name) == 0 && row->from == from && row->to == to &&
            row->per_channel == one->attributes.per_channel && row->rounding == one->attributes.rounding)
            return row;
    }
    return NULL;
}

static qs_status conversion_cost(const qs_class_profile *profile, const qs_step *step, double *us) {
    const qs_conversion_cost *row = conversion_find(profile, &step->case_);
    if (!row)
        return qs_fail(QS_MISMATCH, "the profile of class %s has no fit for the conversion %s: profile again", profile->class_name,
                       step->case_text);
    const qs_operand *src = &step->case_.operand[qs_case_position(&step->case_, QS_SRC)];
    *us = qs_fit_value(row->pieces, row->piece, (double)qs_shape_count(&src->shape));
    return QS_OK;
}

qs_status qs_cost_step(const qs_class_profile *profile, const qs_step *step, double *us) {
    if (step->kind != QS_STEP_KERNEL) {
        *us = 0;
        return QS_OK;
    }
    if (step->conversion) {
        QS_TRY(conversion_cost(profile, step, us));
    } else {
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
        if (!row)
            return qs_fail(QS_MISMATCH, "the profile of class %s has no time for %s: profile again", profile->class_name, step->case_text);
        *us = row->us;
    }
    *us += profile->step_overhead_us;
    return QS_OK;
}

qs_status qs_cost_schedule(const qs_class_profile *profile, const qs_schedule *schedule, const qs_cost_options *options, double *us) {
    for (int s = 0; s < schedule->steps; s++) {
        if (options && options->no_casts && schedule->step[s].conversion)
            us[s] = 0;
        else
            QS_TRY(qs_cost_step(profile, &schedule->step[s], &us[s]));
    }
    return qs__cache_adjust(profile, schedule, us);
}
