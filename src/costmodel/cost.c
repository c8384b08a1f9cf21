// SPDX-License-Identifier: Apache-2.0
/* Microseconds of steps: rows for kernels, fits for conversions. */
#include <string.h>

#include "costmodel_internal.h"

bool qs_conversion_of_weights(const qs_case *one) {
    return one->op->converts && !one->attributes.batched;
}

static bool has_columns(const qs_case *one) {
    const int columns = qs_case_position(one, QS_COLUMN_ABSMAX);
    return columns >= 0 && one->operand[columns].format;
}

qs_conversion_steps qs_conversion_steps_of(const qs_case *one) {
    const int group = qs_case_position(one, QS_SRC_GROUP);
    if (one->attributes.shifts > 0 || (group >= 0 && one->operand[group].format)) return QS_STEPS_SHIFT;
    if (one->attributes.hadamard > 0) return one->attributes.axis == 1 ? QS_STEPS_HADAMARD : QS_STEPS_HADAMARD_ROWS;
    if (!one->attributes.per_channel) return QS_STEPS_TENSOR;
    if (one->attributes.axis == 1) return QS_STEPS_COLUMN;
    return has_columns(one) ? QS_STEPS_CHANNEL_AND_COLUMN : QS_STEPS_CHANNEL;
}

bool qs_conversion_formats_alike(const qs_format *a, const qs_format *b) {
    return a == b || (a && b && a->kind == QS_KIND_INTEGER && b->kind == QS_KIND_INTEGER && a->bits == b->bits);
}

const qs_format *qs_conversion_target(const qs_case *one) {
    const int packed = qs_case_position(one, QS_PACKED), dst = qs_case_position(one, QS_DST);
    return packed >= 0 ? one->operand[packed].format : dst >= 0 ? one->operand[dst].format : NULL;
}

static bool same_rounding(const qs_conversion_cost *row, const qs_case *one) {
    const qs_rounding rounding = one->attributes.rounding;
    if (!one->attributes.to) return row->rounding == rounding;
    return (row->rounding == QS_STOCHASTIC) == (rounding == QS_STOCHASTIC);
}

bool qs_conversion_is_of(const qs_conversion_cost *row, const qs_case *one) {
    return strcmp(row->kind, one->op->name) == 0 &&
           qs_conversion_formats_alike(row->from, one->operand[qs_case_position(one, QS_SRC)].format) &&
           qs_conversion_formats_alike(row->to, qs_conversion_target(one)) && row->steps == qs_conversion_steps_of(one) &&
           same_rounding(row, one);
}

const qs_conversion_cost *qs_cost_conversion(const qs_class_profile *profile, const qs_case *one) {
    const bool weights = qs_conversion_of_weights(one);
    const qs_conversion_cost *other = NULL;
    for (int i = 0; i < profile->conversions; i++) {
        const qs_conversion_cost *row = &profile->conversion[i];
        if (!qs_conversion_is_of(row, one)) continue;
        if (row->weights == weights) return row;
        other = row;
    }
    return other;
}

static qs_status conversion_cost(const qs_class_profile *profile, const qs_step *step, double *us) {
    const qs_conversion_cost *row = qs_cost_conversion(profile, &step->case_);
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
