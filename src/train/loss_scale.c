// SPDX-License-Identifier: Apache-2.0
/* Loss scaling for formats of short range. Powers of two only as factors, so that scaling itself never rounds. */
#include "train_internal.h"

#include <math.h>

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
