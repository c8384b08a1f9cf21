// SPDX-License-Identifier: Apache-2.0
/* Learning rates: pure functions of job and step. */
#include "train_internal.h"

#include <math.h>

static const double warmup_start = 0.1, decay = 0.1;
static const double pi = 3.14159265358979323846;

static double warmup_steps(const qs_job *job, int64_t steps_per_epoch) {
    double all = (double)job->epochs * (double)steps_per_epoch, wanted = job->rate.warmup_epochs * (double)steps_per_epoch;
    return wanted < all ? wanted : all;
}

/* Part of the base rate behind the warm-up. */
static double shape(const qs_job *job, double step, double warmup, double all) {
    switch (job->rate.schedule) {
    case QS_RATE_STEP:
        return step >= 0.75 * all ? decay * decay : step >= 0.5 * all ? decay : 1;
    case QS_RATE_COSINE:
        return step >= all ? 0 : 0.5 * (1 + cos(pi * (step - warmup) / (all - warmup)));
    default:
        return 1;
    }
}

double qs_learning_rate(const qs_job *job, int64_t step, int64_t steps_per_epoch) {
    double at = (double)step, warmup = warmup_steps(job, steps_per_epoch), all = (double)job->epochs * (double)steps_per_epoch;
    if (at < warmup) return job->rate.base * (warmup_start + (1 - warmup_start) * at / warmup);
    return job->rate.base * shape(job, at, warmup, all);
}
