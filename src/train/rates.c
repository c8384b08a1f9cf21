// SPDX-License-Identifier: Apache-2.0
/* Learning rates, pure functions of job and step; and loss scaling for formats of short range. */
#include "train_internal.h"

#include <math.h>

static const double warmup_start = 0.1, decay = 0.1;
static const double pi = 3.14159265358979323846;

/* Part of the base rate behind the warm-up. */
static double shape(const qs_job *job, double step, double warmup, double all) {
    switch (job->rate.schedule) {
    case QS_RATE_STEP:
        return step >= 0.75 * all ? decay * decay : step >= 0.5 * all ? decay : 1;
    case QS_RATE_COSINE:
        return step >= all ? 0 : 0.5 * (1 + cos(pi * (step - warmup) / (all - warmup)));
    case QS_RATE_LINEAR:
        return step >= all ? 0 : (all - step) / (all - warmup);
    default:
        return 1;
    }
}

double qs_learning_rate(const qs_job *job, int64_t step, int64_t steps_per_epoch) {
    const double at = (double)step, all = (double)job->epochs * (double)steps_per_epoch;
    const double epochs = job->rate.warmup_epochs * (double)steps_per_epoch, steps = (double)job->rate.warmup_steps;
    const double wanted = steps > 0 ? steps : epochs, warmup = wanted < all ? wanted : all;
    if (at < warmup) return job->rate.base * (warmup_start + (1 - warmup_start) * at / warmup);
    return job->rate.base * shape(job, at, warmup, all);
}

/* ---- Loss scaling: powers of two only as factors, so that scaling itself never rounds -------------------------------------- */

static const double scale_least = 1, scale_most = 16777216;

qs_loss_scale qs_loss_scale_start(const qs_job *job) {
    return (qs_loss_scale){.value = job->loss_scale, .dynamic = job->dynamic_loss_scaling};
}

void qs_loss_scale_update(qs_loss_scale *scale, bool finite) {
    if (!scale->dynamic) return;
    scale->good_steps = finite ? scale->good_steps + 1 : 0;
    scale->skipped = finite ? 0 : scale->skipped + 1;
    if (!finite) {
        scale->value = fmax(scale->value / 2, scale_least);
    } else if (scale->good_steps == scale->growth_steps) {
        scale->value = fmax(scale->value, fmin(scale->value * 2, scale_most));
        scale->good_steps = 0;
    }
}
