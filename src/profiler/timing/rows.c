// SPDX-License-Identifier: Apache-2.0
/* From samples at the places of measured plans to the figures of a class. A kernel's time is the mean over its places, each of them the
 * median over time: the mean is what adds up, since another plan has such places in some mixture.
 *
 * Why does the same kernel take 0.6 ms here and 0.8 ms there? Because memory is cold there: what its operands were last touched for lies
 * too many bytes back. Times at all places are fitted as mean + b (cold bytes - mean cold bytes), with one cache size for the whole class:
 * the one that leaves the least error. A slope that few places support leans on the slope of its operator and pass. */
#include "timing/timing.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Cold bytes ---- */

/* Weight of the operator's common slope: as if the case itself had one more place, with half a MiB more. */
static const double prior_weight = (512.0 * 1024) * (512.0 * 1024);

typedef struct line {
    double mean_us, mean_cold, xx, xy; /* centred sums */
} line;

static line line_of(const qs__entry *entry, int cache) {
    const qs__samples *x = &entry->cold[cache], *y = &entry->kernel_us;
    line one = {0};
    for (int i = 0; i < x->count; i++) {
        one.mean_cold += x->value[i] / x->count;
        one.mean_us += y->value[i] / x->count;
    }
    for (int i = 0; i < x->count; i++) {
        one.xx += (x->value[i] - one.mean_cold) * (x->value[i] - one.mean_cold);
        one.xy += (x->value[i] - one.mean_cold) * (y->value[i] - one.mean_us);
    }
    return one;
}

/* Slope of all cases of an operator's pass together. */
static double common_slope(const qs__cases *cases, const qs__entry *like, int cache) {
    double xx = 0, xy = 0;
    for (int i = 0; i < cases->count; i++) {
        if (cases->entry[i].case_.op != like->case_.op || cases->entry[i].case_.pass != like->case_.pass) continue;
        const line one = line_of(&cases->entry[i], cache);
        xx += one.xx;
        xy += one.xy;
    }
    return xx > 0 ? fmax(xy / xx, 0) : 0;
}

static double slope_of(const qs__cases *cases, const qs__entry *entry, int cache) {
    const line one = line_of(entry, cache);
    return fmax((one.xy + prior_weight * common_slope(cases, entry, cache)) / (one.xx + prior_weight), 0);
}

/* Squared error that the slopes leave. */
static double error_of(const qs__cases *cases, int cache) {
    double error = 0;
    for (int i = 0; i < cases->count; i++) {
        const qs__entry *entry = &cases->entry[i];
        const qs__samples *x = &entry->cold[cache], *y = &entry->kernel_us;
        const line one = line_of(entry, cache);
        const double slope = slope_of(cases, entry, cache);
        for (int k = 0; k < x->count; k++) {
            const double left = y->value[k] - one.mean_us - slope * (x->value[k] - one.mean_cold);
            error += left * left;
        }
    }
    return error;
}

int64_t qs__cache_choose(const qs__cases *cases) {
    int best = 0;
    double least = error_of(cases, 0);
    for (int c = 1; c < QS__CACHES; c++) {
        const double error = error_of(cases, c);
        if (error >= least) continue;
        best = c;
        least = error;
    }
    return qs__cache_bytes[best];
}

void qs__cold_fill(const qs__cases *cases, qs_class_profile *out) {
    int cache = QS__CACHES - 1;
    while (cache > 0 && qs__cache_bytes[cache] != out->cache_bytes)
        cache--;
    for (int i = 0; i < out->kernels; i++) {
        const qs__entry *entry = &cases->entry[qs__cases_find(cases, out->kernel[i].case_text)];
        if (entry->cold[cache].count == 0) continue;
        out->kernel[i].cold_bytes = line_of(entry, cache).mean_cold;
        out->kernel[i].us_per_cold_byte = slope_of(cases, entry, cache);
    }
}

/* ---- A case's row -------------------------------------------------------------------------------------------------------------------- */

/* Of the sum over all places: what plans are off by is their own. */
static double half_width(const qs__samples *half_us) {
    double squares = 0;
    for (int i = 0; i < half_us->count; i++)
        squares += half_us->value[i] * half_us->value[i];
    return sqrt(squares);
}

/* The times of a case. Works on a copy: every value belongs to the cold bytes of its place. */
static qs_status row_times(const qs__entry *entry, qs_kernel_cost *out) {
    const qs__samples *samples = entry->as_kernel ? &entry->kernel_us : &entry->conversion_us;
    qs__samples sorted = {0};
    QS_TRY(qs_grow(&sorted.value, &sorted.capacity, (size_t)samples->count + 1, sizeof *sorted.value));
    if (samples->count > 0) memcpy(sorted.value, samples->value, (size_t)samples->count * sizeof *sorted.value);
    const qs__quartiles us = qs__quartiles_of(samples->count, sorted.value);
    free(sorted.value);
    out->us = qs__mean_of(samples);
    out->us_low = us.low;
    out->us_high = us.high;
    out->samples = samples->count;
    out->us_alone = out->us * qs__mean_of(&entry->alone);
    if (entry->as_kernel && out->us > 0) out->confidence = fmin(half_width(&entry->half_us) / samples->count / out->us, 1);
    return QS_OK;
}

/* Conversions carry what was seen in steps, or what their fit says; the cost model takes the fit in both cases. */
static qs_status conversion_us(const qs_class_profile *profile, const qs__entry *entry, double *us) {
    const qs_step step = {.kind = QS_STEP_KERNEL, .conversion = true, .case_ = entry->case_, .case_text = entry->text};
    return qs_cost_step(profile, &step, us);
}

static qs_status row_fill(const qs__memory *memory, const qs_class_profile *profile, const qs__entry *entry, qs_kernel_cost *out) {
    const qs__held *held = qs__held_of(memory, entry->text);
    *out = (qs_kernel_cost){.scratch_bytes = (int64_t)entry->row.scratch_bytes,
                            .allocates = entry->row.allocates,
                            .tuned = entry->row.tuned,
                            .held_bytes = (int64_t)held->held_bytes,
                            .shared_bytes = (int64_t)held->shared_bytes,
                            .code_bytes = (int64_t)qs__code_of(memory, entry->row.kernel)};
    QS_TRY(row_times(entry, out));
    if (out->samples == 0) {
        QS_TRY(conversion_us(profile, entry, &out->us));
        out->us_low = out->us_high = out->us;
    }
    memcpy(out->kernel, entry->row.kernel, sizeof out->kernel);
    return qs_format_text(&out->case_text, "%s", entry->text);
}

qs_status qs__kernels_fill(const qs__setting *setting, const qs__memory *memory, qs__cases *cases, qs_class_profile *out) {
    QS_TRY(qs__any_size_cases(setting->class_, cases));
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *out->kernel, &out->kernel));
    for (int i = 0; i < cases->count; i++) {
        qs__entry *entry = &cases->entry[i];
        if (!entry->as_kernel && !entry->as_conversion) continue;
        QS_TRY(row_fill(memory, out, entry, &out->kernel[out->kernels]));
        out->kernels++;
    }
    qs_class_profile_sort(out);
    return QS_OK;
}

/* ---- While the others wait ----------------------------------------------------------------------------------------------------------- */

/* Over all cases that were timed in both ways, weighted by their time. */
static double alone_share(const qs__cases *cases) {
    double both = 0, alone = 0;
    for (int i = 0; i < cases->count; i++) {
        const qs__entry *entry = &cases->entry[i];
        const double us = qs__mean_of(entry->as_kernel ? &entry->kernel_us : &entry->conversion_us);
        if (entry->alone.count == 0) continue;
        both += us;
        alone += us * qs__mean_of(&entry->alone);
    }
    return both > 0 ? alone / both : 0;
}

/* Of a kind of conversion, over the cases that were timed in both ways; the class's where there is none. */
static double conversion_share(const qs__cases *cases, const qs_class_profile *profile, const qs_conversion_cost *row, double share) {
    double sum = 0;
    int cases_timed = 0;
    for (int c = 0; c < cases->count; c++) {
        const qs__entry *entry = &cases->entry[c];
        if (entry->alone.count == 0 || !entry->as_conversion || qs_cost_conversion(profile, &entry->case_) != row) continue;
        sum += qs__mean_of(&entry->alone);
        cases_timed++;
    }
    return cases_timed > 0 ? sum / cases_timed : share;
}

/* Fits were made while the other ranks of the host waited; what they cost beside busy ones follows by the share. */
static void host_slowdown_add(const qs__cases *cases, qs_class_profile *out) {
    const double share = alone_share(cases);
    for (int i = 0; i < out->conversions && share > 0; i++) {
        qs_conversion_cost *row = &out->conversion[i];
        row->alone = conversion_share(cases, out, row, share);
        for (int p = 0; p < row->pieces; p++) {
            row->piece[p].us /= row->alone;
            row->piece[p].us_per_element /= row->alone;
        }
    }
}

void qs__kernels_finish(const qs__cases *cases, qs_class_profile *out) {
    const double share = alone_share(cases);
    /* Kernels that no rank ran while it had the host for itself get the class's share. */
    for (int i = 0; i < out->kernels; i++)
        if (out->kernel[i].us_alone == 0) out->kernel[i].us_alone = out->kernel[i].us * share;
    qs__cold_fill(cases, out);
}

/* ---- Fits of conversions ---- */

/* Seen and fitted time of the cases that a row prices. */
static qs_status fit_compare(const qs__cases *cases, const qs_class_profile *profile, const qs_conversion_cost *row, double *seen,
                             double *fitted) {
    *seen = *fitted = 0;
    for (int i = 0; i < cases->count; i++) {
        qs__entry *entry = &cases->entry[i];
        if (entry->conversion_us.count == 0 || qs_cost_conversion(profile, &entry->case_) != row) continue;
        const double us = qs__quartiles_of(entry->conversion_us.count, entry->conversion_us.value).median;
        double fit;
        QS_TRY(conversion_us(profile, entry, &fit));
        *seen += us;
        *fitted += fit;
        qs_log(QS_LOG_DEBUG, "profile: %s took %.1f us in steps, its fit says %.1f us", entry->text, us, fit);
    }
    return QS_OK;
}

/* How far the fits are from what steps showed; lowering places them, so they are part of every prediction. */
static qs_status fits_compare(const qs__cases *cases, qs_class_profile *profile) {
    double all_seen = 0, all_fitted = 0;
    for (int k = 0; k < profile->conversions; k++) {
        double seen, fitted;
        QS_TRY(fit_compare(cases, profile, &profile->conversion[k], &seen, &fitted));
        profile->conversion[k].in_steps = seen > 0 ? fitted / seen : 0;
        all_seen += seen;
        all_fitted += fitted;
    }
    if (all_seen > 0) qs_log(QS_LOG_INFO, "profile: fits give conversions %.1f %% of their time in steps", 100 * all_fitted / all_seen);
    return QS_OK;
}

/* ---- Closure ------------------------------------------------------------------------------------------------------------------------- */

static qs_status plan_predict(const qs__setting *setting, qs__cases *cases, const qs_class_profile *profile, const qs__mix *mix,
                              double *us) {
    qs_schedule *schedule = NULL;
    double *step_us = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__mix_lower(setting, cases, mix->choice, QS_MODE_TRAIN, setting->job->batch, &schedule));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *step_us, &step_us));
    QS_GOTO(qs_cost_schedule(profile, schedule, NULL, step_us));
    const int64_t batch = setting->job->batch;
    *us = profile->iteration_overhead_us + profile->data_us_per_sample * (double)batch;
    *us += qs_cost_inputs(profile, &setting->graph->samples, batch);
    for (int s = 0; s < schedule->steps; s++)
        *us += step_us[s];
done:
    qs_schedule_release(schedule);
    free(step_us);
    return status;
}

static qs_status quality_fill(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, const qs__step_figures *figures,
                              qs_class_profile *profile) {
    qs_quality *quality = &profile->quality;
    *quality = figures->quality;
    for (int p = 0; p < figures->whole_us.count; p++) {
        const double whole = figures->whole_us.value[p];
        double us = 0;
        QS_TRY(plan_predict(setting, cases, profile, &mixes->mix[figures->measured[p]], &us));
        const double error = us / whole - 1;
        qs_log(QS_LOG_INFO, "profile: plan %d took %.2f ms, the figures say %+.1f %%", p, whole * 1e-3, error * 100);
        quality->closure_mean += fabs(error) / figures->whole_us.count;
        quality->closure_worst = fmax(quality->closure_worst, fabs(error));
    }
    return QS_OK;
}

/* ---- The class ---- */

/* The median; sorting a list that belongs to no places is harmless. */
static double median_of(qs__samples *samples) {
    return qs__quartiles_of(samples->count, samples->value).median;
}

qs_status qs__class_fill(const qs__setting *setting, const qs__memory *memory, const qs__mixes *mixes, qs__cases *cases,
                         qs__step_figures *figures, qs_class_profile *out) {
    out->base_bytes = (int64_t)memory->base_bytes;
    out->iteration_overhead_us = fmax(median_of(&figures->overhead_us), 0);
    QS_TRY(qs__copies_measure(setting, &out->copies));
    const double inputs_us = qs_cost_inputs(out, &setting->graph->samples, setting->job->batch);
    out->data_us_per_sample = fmax(median_of(&figures->data_us) - inputs_us, 0) / (double)setting->job->batch;
    host_slowdown_add(cases, out);
    QS_TRY(fits_compare(cases, out));
    QS_TRY(qs__kernels_fill(setting, memory, cases, out));
    out->jitter = qs__mean_of(&figures->jitter);
    out->cache_bytes = qs__cache_choose(cases);
    qs__kernels_finish(cases, out);
    QS_TRY(qs__recordings_fill(setting, mixes, cases, figures, out));
    return quality_fill(setting, mixes, cases, figures, out);
}
