// SPDX-License-Identifier: Apache-2.0
/* From the samples of whole steps to figures: at every place of every plan the median over time, then means over places. The mean is what
 * adds up: a plan met later has such places in some mixture. */
#include "plans.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double mean_of(const qs__samples *samples) {
    double sum = 0;
    for (int i = 0; i < samples->count; i++)
        sum += samples->value[i];
    return samples->count > 0 ? sum / samples->count : 0;
}

/* Median over the plan's samples of one array, with or without the neighbours at work; 0 when there are none. */
static double place_median(const qs__plan_run *run, qs__samples *scratch, const double *value, size_t stride, bool alone) {
    scratch->count = 0;
    for (int i = 0; i < run->timed; i++)
        if ((run->round[i] == QS__ALONE_ROUND) == alone) scratch->value[scratch->count++] = value[(size_t)i * stride];
    return qs__quartiles_of(scratch->count, scratch->value).median;
}

/* Robust standard deviation of single steps, from neighbours in time: slow drift is not a step's noise. For normal differences the median
 * of |x - y| is 0.6745 √2 σ. */
static double jitter_of(const qs__plan_run *run, qs__samples *scratch) {
    scratch->count = 0;
    for (int i = 1; i < run->timed; i++)
        if (run->round[i] == run->round[i - 1]) scratch->value[scratch->count++] = fabs(run->whole[i] - run->whole[i - 1]);
    return fmin(qs__quartiles_of(scratch->count, scratch->value).median / (0.6745 * sqrt(2)) / run->median_us, 1);
}

static qs_status place_keep(qs__profiler *profiler, const qs_step *step, const int64_t *cold, double us, double alone_us) {
    qs__entry *entry = &profiler->cases.entry[qs__cases_find(&profiler->cases, step->case_text)];
    /* Company never makes a kernel faster: a ratio above 1 is noise. */
    if (alone_us > 0 && us > 0) QS_TRY(qs__samples_add(&entry->alone, fmin(alone_us / us, 1)));
    if (step->conversion) return qs__samples_add(&entry->conversion_us, us);
    for (int c = 0; c < QS__CACHES; c++)
        QS_TRY(qs__samples_add(&entry->cold[c], (double)cold[c]));
    return qs__samples_add(&entry->kernel_us, us);
}

/* (steps × QS__CACHES) bytes that each step of a plan finds cold. */
static qs_status cold_bytes(const qs_schedule *schedule, int64_t *cold) {
    int64_t *one = NULL;
    qs_status status = qs_allocate((size_t)schedule->steps, sizeof *one, &one);
    for (int c = 0; c < QS__CACHES && status == QS_OK; c++) {
        status = qs_schedule_cold_bytes(schedule, qs__cache_bytes[c], one);
        for (int s = 0; s < schedule->steps; s++)
            cold[s * QS__CACHES + c] = one[s];
    }
    free(one);
    return status;
}

static qs_status places_keep(const qs__campaign *all, const qs__plan_run *run, const int64_t *cold, double *sum) {
    const size_t steps = (size_t)run->schedule->steps;
    for (size_t s = 0; s < steps; s++) {
        const double us = place_median(run, all->scratch, run->step + s, steps, false);
        const double alone_us = place_median(run, all->scratch, run->step + s, steps, true);
        *sum += us;
        if (run->schedule->step[s].kind == QS_STEP_KERNEL)
            QS_TRY(place_keep(all->profiler, &run->schedule->step[s], cold + s * QS__CACHES, us, alone_us));
    }
    return QS_OK;
}

static qs_status plan_keep(const qs__campaign *all, const qs__plan_run *run) {
    qs__profiler *profiler = all->profiler;
    const double data = place_median(run, all->scratch, run->data, 1, false);
    const double whole = place_median(run, all->scratch, run->whole, 1, false);
    double sum = data;
    int64_t *cold = NULL;
    QS_TRY(qs_allocate((size_t)run->schedule->steps * QS__CACHES, sizeof *cold, &cold));
    qs_status status = cold_bytes(run->schedule, cold);
    if (status == QS_OK) status = places_keep(all, run, cold, &sum);
    free(cold);
    QS_TRY(status);
    QS_TRY(qs__samples_add(&profiler->data_us, data));
    QS_TRY(qs__samples_add(&profiler->whole_us, whole));
    QS_TRY(qs__samples_add(&profiler->jitter, jitter_of(run, all->scratch)));
    return qs__samples_add(&profiler->overhead_us, whole - sum);
}

qs_status qs__samples_keep(qs__campaign *all) {
    qs__profiler *profiler = all->profiler;
    for (int p = 0; p < all->plans; p++)
        QS_TRY(plan_keep(all, &all->plan[p]));
    profiler->quality = (qs_quality){.known = true,
                                     .plans = all->plans,
                                     .steps = all->good_rounds * 2,
                                     .confidence = all->confidence,
                                     .drift = all->drift,
                                     .disturbed = all->disturbed};
    return QS_OK;
}

/* ---- A case's row -------------------------------------------------------------------------------------------------------------------- */

/* Works on a copy: every value belongs to the cold bytes of its place. */
qs_status qs__row_times(const qs__entry *entry, qs_kernel_cost *out) {
    const qs__samples *samples = entry->as_kernel ? &entry->kernel_us : &entry->conversion_us;
    qs__samples sorted = {0};
    QS_TRY(qs_grow(&sorted.value, &sorted.capacity, (size_t)samples->count + 1, sizeof *sorted.value));
    if (samples->count > 0) memcpy(sorted.value, samples->value, (size_t)samples->count * sizeof *sorted.value);
    const qs__quartiles us = qs__quartiles_of(samples->count, sorted.value);
    free(sorted.value);
    out->us = mean_of(samples);
    out->us_low = us.low;
    out->us_high = us.high;
    out->samples = samples->count;
    out->us_alone = out->us * mean_of(&entry->alone);
    return QS_OK;
}

/* ---- While the others wait ----------------------------------------------------------------------------------------------------------- */

/* Over all cases that were met in both ways, weighted by their time. */
static double alone_share(const qs__cases *cases) {
    double both = 0, alone = 0;
    for (int i = 0; i < cases->count; i++) {
        const qs__entry *entry = &cases->entry[i];
        const double us = mean_of(entry->as_kernel ? &entry->kernel_us : &entry->conversion_us);
        if (entry->alone.count == 0) continue;
        both += us;
        alone += us * mean_of(&entry->alone);
    }
    return both > 0 ? alone / both : 0;
}

/* Of a kind of conversion, over the cases that were met in both ways; the class's where there is none. */
static double conversion_share(const qs__cases *cases, const qs_class_profile *profile, const qs_conversion_cost *row, double share) {
    double sum = 0;
    int met = 0;
    for (int c = 0; c < cases->count; c++) {
        const qs__entry *entry = &cases->entry[c];
        if (entry->alone.count == 0 || !entry->as_conversion || qs_cost_conversion(profile, &entry->case_) != row) continue;
        sum += mean_of(&entry->alone);
        met++;
    }
    return met > 0 ? sum / met : share;
}

/* Fits were made while the other ranks of the host waited; what they cost beside busy ones follows by the share. */
void qs__company_add(const qs__profiler *profiler, qs_class_profile *out) {
    const double share = alone_share(&profiler->cases);
    for (int i = 0; i < out->conversions && share > 0; i++) {
        qs_conversion_cost *row = &out->conversion[i];
        row->alone = conversion_share(&profiler->cases, out, row, share);
        for (int p = 0; p < row->pieces; p++) {
            row->piece[p].us /= row->alone;
            row->piece[p].us_per_element /= row->alone;
        }
    }
}

/* Kernels that no rank met while it had the host for itself get the class's share. */
static void alone_fill(const qs__profiler *profiler, qs_class_profile *out) {
    const double share = alone_share(&profiler->cases);
    for (int i = 0; i < out->kernels; i++)
        if (out->kernel[i].us_alone == 0) out->kernel[i].us_alone = out->kernel[i].us * share;
}

void qs__kernels_finish(const qs__profiler *profiler, qs_class_profile *out) {
    alone_fill(profiler, out);
    qs__cold_fill(&profiler->cases, out);
}

/* ---- Closure ------------------------------------------------------------------------------------------------------------------------- */

static qs_status plan_predict(qs__profiler *profiler, const qs_class_profile *profile, const qs__mix *mix, double *us) {
    qs_schedule *schedule = NULL;
    double *step_us = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__mix_lower(profiler, mix->choice, QS_MODE_TRAIN, profiler->job->batch, &schedule));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *step_us, &step_us));
    QS_GOTO(qs_cost_schedule(profile, schedule, NULL, step_us));
    *us = profile->iteration_overhead_us + profile->data_us_per_sample * (double)profiler->job->batch;
    for (int s = 0; s < schedule->steps; s++)
        *us += step_us[s];
done:
    qs_schedule_release(schedule);
    free(step_us);
    return status;
}

qs_status qs__quality_fill(qs__profiler *profiler, qs_class_profile *profile) {
    qs_quality *quality = &profile->quality;
    *quality = profiler->quality;
    profile->jitter = mean_of(&profiler->jitter);
    profile->cache_bytes = qs__cache_choose(&profiler->cases);
    qs__kernels_finish(profiler, profile);
    for (int p = 0; p < profiler->whole_us.count; p++) {
        double us = 0;
        QS_TRY(plan_predict(profiler, profile, &profiler->mixes.mix[profiler->measured[p]], &us));
        const double error = us / profiler->whole_us.value[p] - 1;
        qs_log(QS_LOG_INFO, "profile: plan %d took %.2f ms, the figures say %+.1f %%", p, profiler->whole_us.value[p] * 1e-3, error * 100);
        quality->closure_mean += fabs(error) / profiler->whole_us.count;
        quality->closure_worst = fmax(quality->closure_worst, fabs(error));
    }
    return QS_OK;
}
