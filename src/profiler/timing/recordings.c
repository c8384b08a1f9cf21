// SPDX-License-Identifier: Apache-2.0
/* Steps that are started as recordings of the device, for predictions of what training does with them (train.h). No clock can stand beside
 * a kernel there, so whole steps of the measured plans are timed, as the executor times them, and what each kernel has of them follows: its
 * share of what it takes where it is started by itself. In a recording kernels follow one another as the device ends them, so a step is the
 * sum of its kernels' times, and one share for each row is what all the sums have in common. The iterations that find it (docs/method.md
 * eq. (4.15)) correct every row's share by the mean of what its plans are off, weighted by its time in them; they begin with one share for
 * all, and never leave the positive numbers. */
#include "timing/timing.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>

enum { ITERATIONS = 100, WHOLE_STEPS = 9 };
static const double LEAST_LOOP_US = 1; /* 0 says that nothing is known */

/* What steps of recordings take beyond their kernels: little, since the host makes the next batch while these run. */
static qs_status loop_time(const qs__setting *setting, qs_executor *executor, int64_t *steps, double kernels_us, double *us) {
    double whole_us[WHOLE_STEPS];
    for (int i = 0; i < WHOLE_STEPS; i++) {
        const double begin = qs_clock();
        QS_TRY(qs__training_step(setting, executor, (*steps)++));
        whole_us[i] = 1e6 * (qs_clock() - begin);
    }
    *us = fmax(qs__quartiles_of(WHOLE_STEPS, whole_us).median - kernels_us, LEAST_LOOP_US);
    return QS_OK;
}

qs_status qs__recordings_time(const qs__setting *setting, qs_executor *executor, qs_timeline *timeline, int64_t *steps, double *us,
                              double *loop_us) {
    qs_recorded found = qs_executor_recorded(executor);
    *loop_us = 0;
    qs_executor_time(executor, NULL);
    while (found.state == QS_RECORDED_TRYING || (found.state == QS_RECORDED_YES && found.recorded_us == 0)) {
        QS_TRY(qs__training_step(setting, executor, (*steps)++));
        found = qs_executor_recorded(executor);
    }
    if (found.state == QS_RECORDED_YES) QS_TRY(loop_time(setting, executor, steps, found.recorded_us, loop_us));
    qs_executor_time(executor, timeline);
    *us = found.recorded_us;
    return QS_OK;
}

/* ---- Sums of a plan ---- */

/* A step of a plan: its row, kernels of the class first and conversions behind them, and what it takes started by itself. */
typedef struct place {
    int row;
    double us;
} place;

typedef struct sum {
    double us, recorded_us;
    int places;
    place *place;
} sum;

typedef struct shares {
    int sums, rows;
    sum *sum;
    bool *known;                            /* (rows) from elsewhere */
    double *share, *seen_us, *corrected_us; /* (rows) */
} shares;

static int row_of(const qs_class_profile *profile, const qs_step *step) {
    if (step->conversion) return profile->kernels + (int)(qs_cost_conversion(profile, &step->case_) - profile->conversion);
    return (int)(qs_class_profile_kernel(profile, step->case_text) - profile->kernel);
}

static qs_status sum_fill(const qs__setting *setting, qs__cases *cases, const qs_class_profile *profile, const qs__mix *mix, sum *out) {
    qs_schedule *schedule = NULL;
    double *us = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__mix_lower(setting, cases, mix->choice, QS_MODE_TRAIN, setting->job->batch, &schedule));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *us, &us));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *out->place, &out->place));
    QS_GOTO(qs_cost_schedule(profile, schedule, NULL, us));
    for (int s = 0; s < schedule->steps; s++) {
        if (us[s] <= 0) continue;
        out->place[out->places++] = (place){row_of(profile, &schedule->step[s]), us[s]};
        out->us += us[s];
    }
done:
    qs_schedule_release(schedule);
    free(us);
    return status;
}

static qs_status sums_fill(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, const qs__step_figures *figures,
                           const qs_class_profile *profile, shares *all) {
    QS_TRY(qs_allocate((size_t)figures->recorded_us.count, sizeof *all->sum, &all->sum));
    for (int p = 0; p < figures->recorded_us.count; p++) {
        sum *one = &all->sum[all->sums];
        if (figures->recorded_us.value[p] == 0) continue; /* no stretch of it is worth recording */
        all->sums++;
        QS_TRY(sum_fill(setting, cases, profile, &mixes->mix[figures->measured[p]], one));
        one->recorded_us = figures->recorded_us.value[p];
    }
    return QS_OK;
}

/* ---- Shares ---- */

static double recorded_by(const shares *all, const sum *one) {
    double us = 0;
    for (int i = 0; i < one->places; i++)
        us += all->share[one->place[i].row] * one->place[i].us;
    return us;
}

static void shares_correct(shares *all) {
    for (int r = 0; r < all->rows; r++)
        all->seen_us[r] = all->corrected_us[r] = 0;
    for (int p = 0; p < all->sums; p++) {
        const sum *one = &all->sum[p];
        const double off = one->recorded_us / recorded_by(all, one);
        for (int i = 0; i < one->places; i++) {
            all->seen_us[one->place[i].row] += one->place[i].us;
            all->corrected_us[one->place[i].row] += one->place[i].us * off;
        }
    }
    for (int r = 0; r < all->rows; r++)
        if (!all->known[r] && all->seen_us[r] > 0) all->share[r] *= all->corrected_us[r] / all->seen_us[r];
}

/* Of all plans together. */
static double mean_share(const shares *all) {
    double us = 0, recorded_us = 0;
    for (int p = 0; p < all->sums; p++) {
        us += all->sum[p].us;
        recorded_us += all->sum[p].recorded_us;
    }
    return us > 0 ? recorded_us / us : 0;
}

static qs_status shares_find(const qs_class_profile *profile, shares *all) {
    const double mean = mean_share(all);
    all->rows = profile->kernels + profile->conversions;
    QS_TRY(qs_allocate((size_t)all->rows, sizeof *all->known, &all->known));
    QS_TRY(qs_allocate((size_t)all->rows, sizeof *all->share, &all->share));
    QS_TRY(qs_allocate((size_t)all->rows, sizeof *all->seen_us, &all->seen_us));
    QS_TRY(qs_allocate((size_t)all->rows, sizeof *all->corrected_us, &all->corrected_us));
    for (int r = 0; r < all->rows; r++) {
        const double recorded = r < profile->kernels ? 0 : profile->conversion[r - profile->kernels].recorded;
        all->known[r] = recorded > 0;
        all->share[r] = recorded > 0 ? recorded : mean;
    }
    for (int i = 0; i < ITERATIONS; i++)
        shares_correct(all);
    for (int p = 0; p < all->sums; p++)
        qs_log(QS_LOG_INFO, "profile: plan %d took %.2f ms in recordings, %.2f ms one by one; shares of it say %+.1f %%", p,
               all->sum[p].recorded_us * 1e-3, all->sum[p].us * 1e-3, 100 * (recorded_by(all, &all->sum[p]) / all->sum[p].recorded_us - 1));
    return QS_OK;
}

qs_status qs__recordings_fill(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, const qs__step_figures *figures,
                              qs_class_profile *out) {
    shares all = {0};
    qs_status status = QS_OK;
    QS_GOTO(sums_fill(setting, mixes, cases, figures, out, &all));
    if (all.sums == 0) goto done;
    QS_GOTO(shares_find(out, &all));
    out->recorded = mean_share(&all);
    if (figures->recorded_loop_us.count > 0)
        out->recorded_loop_us = qs__quartiles_of(figures->recorded_loop_us.count, figures->recorded_loop_us.value).median;
    for (int i = 0; i < out->kernels; i++)
        out->kernel[i].us_recorded = all.share[i] * out->kernel[i].us;
    for (int i = 0; i < out->conversions; i++)
        out->conversion[i].recorded = all.share[out->kernels + i];
done:
    for (int p = 0; p < all.sums; p++)
        free(all.sum[p].place);
    free(all.sum);
    free(all.known);
    free(all.share);
    free(all.seen_us);
    free(all.corrected_us);
    return status;
}
