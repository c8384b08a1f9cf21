// SPDX-License-Identifier: Apache-2.0
/* A profile's figures for steps: kernel facts for lowering without a device; microseconds, by rows for kernels and by fits for conversions;
 * what a kernel's place in the schedule adds (bytes that it finds cold there, more or fewer than at the places where it was measured); what
 * a step takes in a recording of the device, and while the other ranks of a host wait. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel_internal.h"

/* ---- Kernel facts ------------------------------------------------------------------------------------------------------------------ */

static qs_status row_fill(const char *kernel, int64_t scratch_bytes, bool allocates, qs_kernel_row *out) {
    *out = (qs_kernel_row){.scratch_bytes = (size_t)scratch_bytes, .allocates = allocates};
    snprintf(out->kernel, sizeof out->kernel, "%s", kernel);
    return QS_OK;
}

bool qs_case_of_any_size(const qs_case *one, qs_case *out) {
    if (!one->op->any_size) return false;
    const qs_attributes attributes = {.to = one->attributes.to};
    *out = qs_case_make(one->op->name, one->pass->name, &attributes);
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].role != QS_COUNTS) qs_case_bind(out, one->operand[i].role, qs_shape_of(1, (int64_t)64), one->operand[i].format);
    return true;
}

qs_status qs_lookup_profile(void *class_profile, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs_class_profile *profile = class_profile;
    const qs_kernel_cost *row = qs_class_profile_kernel(profile, case_text);
    qs_case like;
    char text[QS_CASE_TEXT];
    if (!row && qs_case_of_any_size(one, &like)) row = qs_class_profile_kernel(profile, qs_case_text(&like, text));
    if (!row && one->attributes.to)
        return qs_fail(QS_MISMATCH, "the profile of class %s knows nothing of %s: name it in the class's \"storage\" and profile again",
                       profile->class_name, one->attributes.to->name);
    if (!row && one->op->optimizer)
        return qs_fail(QS_MISMATCH,
                       "the profile of class %s has no kernel for %s: give the optimizer and the bucket bytes that "
                       "it was measured with, and what it froze or had learn apart (--freeze, --decay, --layer-decay), or profile again",
                       profile->class_name, case_text);
    if (!row && one->op->updates)
        return qs_fail(QS_MISMATCH, "the profile of class %s has no kernel for %s: profile again with --clip-norm", profile->class_name,
                       case_text);
    if (!row)
        return qs_fail(QS_MISMATCH,
                       "the profile of class %s has no kernel for %s: profile this model at this batch again, "
                       "with --recipes where the plan is by hand",
                       profile->class_name, case_text);
    return row_fill(row->kernel, row->scratch_bytes, row->allocates, out);
}

qs_status qs_lookup_plan(void *class_plan, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs_class_plan *plan = class_plan;
    (void)one;
    for (int i = 0; i < plan->kernels; i++)
        if (strcmp(plan->kernel[i].case_text, case_text) == 0)
            return row_fill(plan->kernel[i].kernel, plan->kernel[i].scratch_bytes, plan->kernel[i].allocates, out);
    return qs_fail(QS_MISMATCH, "the plan of class %s has no kernel for %s: make the plan again", plan->class_name, case_text);
}

/* ---- Conversions -------------------------------------------------------------------------------------------------------------------- */

bool qs_conversion_of_weights(const qs_case *one) {
    return one->op->converts && !one->attributes.batched;
}

qs_conversion_steps qs_conversion_steps_of(const qs_case *one) {
    const int group = qs_case_position(one, QS_SRC_GROUP), columns = qs_case_position(one, QS_COLUMN_ABSMAX);
    if (one->attributes.blocks) return one->attributes.axis == 1 ? QS_STEPS_BLOCKS : QS_STEPS_BLOCK_ROWS;
    if (one->attributes.shifts > 0 || (group >= 0 && one->operand[group].format)) return QS_STEPS_SHIFT;
    if (one->attributes.hadamard > 0) return one->attributes.axis == 1 ? QS_STEPS_HADAMARD : QS_STEPS_HADAMARD_ROWS;
    if (!one->attributes.per_channel) return QS_STEPS_TENSOR;
    if (one->attributes.axis == 1) return QS_STEPS_COLUMN;
    return columns >= 0 && one->operand[columns].format ? QS_STEPS_CHANNEL_AND_COLUMN : QS_STEPS_CHANNEL;
}

bool qs_conversion_formats_alike(const qs_format *a, const qs_format *b) {
    return a == b || (a && b && a->kind == QS_KIND_INTEGER && b->kind == QS_KIND_INTEGER && a->bits == b->bits &&
                      a->is_logarithmic == b->is_logarithmic);
}

const qs_format *qs_conversion_target(const qs_case *one) {
    const int packed = qs_case_position(one, QS_PACKED), dst = qs_case_position(one, QS_DST);
    return packed >= 0 ? one->operand[packed].format : dst >= 0 ? one->operand[dst].format : NULL;
}

bool qs_conversion_is_of(const qs_conversion_cost *row, const qs_case *one) {
    const qs_rounding rounding = one->attributes.rounding;
    const bool same_rounding =
        one->attributes.to ? (row->rounding == QS_STOCHASTIC) == (rounding == QS_STOCHASTIC) : row->rounding == rounding;
    return strcmp(row->kind, one->op->name) == 0 && row->least_squares == one->attributes.least_squares &&
           qs_conversion_formats_alike(row->from, one->operand[qs_case_position(one, QS_SRC)].format) &&
           qs_conversion_formats_alike(row->to, qs_conversion_target(one)) && row->steps == qs_conversion_steps_of(one) && same_rounding;
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

/* ---- Steps -------------------------------------------------------------------------------------------------------------------------- */

qs_status qs_cost_step(const qs_class_profile *profile, const qs_step *step, double *us) {
    if (step->kind != QS_STEP_KERNEL) {
        *us = 0;
        return QS_OK;
    }
    if (step->conversion) {
        const qs_conversion_cost *row = qs_cost_conversion(profile, &step->case_);
        if (!row)
            return qs_fail(QS_MISMATCH, "the profile of class %s has no fit for the conversion %s: profile again", profile->class_name,
                           step->case_text);
        const qs_operand *src = &step->case_.operand[qs_case_position(&step->case_, QS_SRC)];
        *us = qs_fit_value(row->pieces, row->piece, (double)qs_shape_count(&src->shape));
    } else {
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
        if (!row)
            return qs_fail(QS_MISMATCH, "the profile of class %s has no time for %s: profile again", profile->class_name, step->case_text);
        *us = row->us;
    }
    *us += profile->step_overhead_us;
    return QS_OK;
}

/* Whatever the caches hold, the arithmetic remains: an extrapolation never goes below this part of the mean. */
static const double least_share = 0.3;

static void place_adjust(const qs_class_profile *profile, const qs_step *step, int64_t cold, double *us) {
    if (step->kind != QS_STEP_KERNEL || step->conversion) return;
    const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
    if (!row || row->us_per_cold_byte == 0) return;
    *us = fmax(*us + row->us_per_cold_byte * ((double)cold - row->cold_bytes), least_share * *us);
}

qs_status qs_cost_schedule(const qs_class_profile *profile, const qs_schedule *schedule, const qs_cost_options *options, double *us) {
    for (int s = 0; s < schedule->steps; s++) {
        if (options && options->no_casts && schedule->step[s].conversion)
            us[s] = 0;
        else
            QS_TRY(qs_cost_step(profile, &schedule->step[s], &us[s]));
    }
    if (profile->cache_bytes <= 0) return QS_OK;
    int64_t *cold = NULL;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *cold, &cold));
    const qs_status status = qs_schedule_cold_bytes(schedule, profile->cache_bytes, cold);
    for (int s = 0; s < schedule->steps && status == QS_OK; s++)
        place_adjust(profile, &schedule->step[s], cold[s], &us[s]);
    free(cold);
    return status;
}

/* ---- In recordings of the device -------------------------------------------------------------------------------------------------- */

qs_cost_options qs_cost_options_of(const qs_cost_options *options, const qs_class *class_) {
    qs_cost_options own = options ? *options : (qs_cost_options){0};
    own.start = (qs_start)class_->cuda_record;
    return own;
}

double qs__step_recorded(const qs_class_profile *profile, const qs_step *step, double us) {
    if (step->conversion) {
        const qs_conversion_cost *row = qs_cost_conversion(profile, &step->case_);
        if (row && row->recorded > 0) return us * row->recorded;
    } else {
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
        if (row && row->us_recorded > 0 && row->us > 0) return us * (row->us_recorded / row->us);
    }
    return us * profile->recorded;
}

bool qs__is_recorded(const qs_class_profile *profile, qs_start start, double one_by_one_us, double recorded_us) {
    if (profile->recorded == 0 || start == QS_START_ONE_BY_ONE) return false;
    return start == QS_START_RECORDED || recorded_us < one_by_one_us;
}

bool qs_cost_schedule_recorded(const qs_class_profile *profile, const qs_schedule *schedule, const qs_cost_options *options, double *us) {
    double one_by_one = 0, recorded = 0;
    if (profile->recorded == 0) return false;
    for (int s = 0; s < schedule->steps; s++) {
        one_by_one += us[s];
        recorded += us[s] > 0 ? qs__step_recorded(profile, &schedule->step[s], us[s]) : 0;
    }
    if (!qs__is_recorded(profile, options ? options->start : QS_START_FASTER, one_by_one, recorded)) return false;
    for (int s = 0; s < schedule->steps; s++)
        if (us[s] > 0) us[s] = qs__step_recorded(profile, &schedule->step[s], us[s]);
    return true;
}

/* ---- While the other ranks of a host wait ---------------------------------------------------------------------------------------- */

/* `us`, by the share that rows and fits hold. */
static double step_alone(const qs_class_profile *profile, const qs_step *step, double us) {
    double share = 1;
    if (step->kind != QS_STEP_KERNEL || us <= profile->step_overhead_us) return us;
    if (step->conversion) {
        const qs_conversion_cost *row = qs_cost_conversion(profile, &step->case_);
        if (row && row->alone > 0) share = row->alone;
    } else {
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, step->case_text);
        if (row && row->us_alone > 0 && row->us > 0) share = row->us_alone / row->us;
    }
    return profile->step_overhead_us + (us - profile->step_overhead_us) * share;
}

bool qs_cost_schedule_alone(const qs_class_profile *profile, const qs_schedule *schedule, const double *us, double *alone_us) {
    bool known = false;
    for (int i = 0; i < profile->kernels; i++)
        known = known || profile->kernel[i].us_alone > 0;
    for (int i = 0; i < profile->conversions; i++)
        known = known || profile->conversion[i].alone > 0;
    if (!known) return false;
    for (int s = 0; s < schedule->steps; s++)
        alone_us[s] = step_alone(profile, &schedule->step[s], us[s]);
    return true;
}

qs_status qs_cost_step_least(const qs_class_profile *profile, const qs_step *step, size_t arena_bytes, bool together, double *us) {
    QS_TRY(qs_cost_step(profile, step, us));
    if (profile->cache_bytes > 0) place_adjust(profile, step, qs_schedule_cold_bytes_least(step, profile->cache_bytes, arena_bytes), us);
    if (profile->recorded > 0 && *us > 0) *us = fmin(*us, qs__step_recorded(profile, step, *us));
    if (!together) *us = step_alone(profile, step, *us);
    return QS_OK;
}

double qs_cost_most_speed(const qs_class_profile *profile) {
    double most = 1;
    for (int i = 0; i < profile->kernels; i++)
        if (profile->kernel[i].us_alone > 0) most = fmax(most, profile->kernel[i].us / profile->kernel[i].us_alone);
    for (int i = 0; i < profile->conversions; i++)
        if (profile->conversion[i].alone > 0) most = fmax(most, 1 / profile->conversion[i].alone);
    return most;
}

/* ---- Copies between host and device ---------------------------------------------------------------------------------------------- */

/* Models take inputs and targets in four bytes a number. */
double qs_cost_inputs(const qs_class_profile *profile, const qs_samples *samples, int64_t batch) {
    const qs_copy_cost *copies = &profile->copies;
    double values = (double)qs_target_values(&samples->target);
    if (!copies->known) return 0;
    for (int i = 0; i < samples->inputs; i++) {
        double one = 1;
        for (int d = 0; d < samples->input[i].rank; d++)
            one *= (double)samples->input[i].extent[d];
        values += one;
    }
    return (samples->inputs + 1) * copies->in_us + copies->in_us_per_byte * 4 * values * (double)batch;
}

double qs_cost_data(const qs_class_profile *profile, const qs_samples *samples, int64_t batch) {
    const double loss = profile->copies.known ? profile->copies.out_us : 0;
    return profile->data_us_per_sample * (double)batch + qs_cost_inputs(profile, samples, batch) + loss;
}

double qs_cost_loop(const qs_class_profile *profile, const qs_samples *samples, int64_t batch, qs_start start) {
    const double us = qs_cost_data(profile, samples, batch) + profile->iteration_overhead_us, recorded_us = profile->recorded_loop_us;
    if (start == QS_START_ONE_BY_ONE || recorded_us == 0) return us;
    return start == QS_START_RECORDED && batch > 0 ? recorded_us : fmin(us, recorded_us);
}
