// SPDX-License-Identifier: Apache-2.0
/* A profile at another pace than it was measured at: what a class computes, what it moves, and all-reduces, each by a factor; or what its
 * steps take beside busy ranks alone, eq. (4.16) of docs/method.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/costmodel.h"

static void fits_slow(int pieces, qs_fit_piece *piece, double pace) {
    for (int p = 0; p < pieces; p++) {
        piece[p].us_per_element /= pace;
        piece[p].us /= pace;
    }
}

static qs_status kernel_slow(const qs_pace *pace, qs_kernel_cost *row) {
    qs_case one;
    QS_TRY(qs_case_parse(row->case_text, &one));
    const double by = one.op->kind == QS_ADJUSTABLE ? pace->compute : pace->memory;
    double *us[] = {&row->us, &row->us_low, &row->us_high, &row->us_per_cold_byte, &row->us_alone, &row->us_recorded};
    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        *us[i] /= by;
    return QS_OK;
}

static qs_status rows_copy(const qs_class_profile *from, qs_class_profile *to) {
    QS_TRY(qs_allocate((size_t)from->kernels, sizeof *to->kernel, &to->kernel));
    QS_TRY(qs_allocate((size_t)from->conversions, sizeof *to->conversion, &to->conversion));
    memcpy(to->kernel, from->kernel, (size_t)from->kernels * sizeof *to->kernel);
    memcpy(to->conversion, from->conversion, (size_t)from->conversions * sizeof *to->conversion);
    return QS_OK;
}

/* With rows of its own, to be scaled in place. Release with qs_profile_at_pace_release. */
static qs_status profile_copy(const qs_profile *profile, qs_profile *out) {
    qs_status status = QS_OK;
    *out = *profile;
    out->class_ = NULL;
    out->collective = NULL;
    QS_GOTO(qs_allocate((size_t)profile->classes, sizeof *out->class_, &out->class_));
    for (int i = 0; i < profile->classes; i++) {
        out->class_[i] = profile->class_[i];
        out->class_[i].kernel = NULL;
        out->class_[i].conversion = NULL;
    }
    for (int i = 0; i < profile->classes; i++)
        QS_GOTO(rows_copy(&profile->class_[i], &out->class_[i]));
    QS_GOTO(qs_allocate((size_t)profile->collectives, sizeof *out->collective, &out->collective));
    memcpy(out->collective, profile->collective, (size_t)profile->collectives * sizeof *out->collective);
done:
    if (status != QS_OK) qs_profile_at_pace_release(out);
    return status;
}

static qs_status class_slow(const qs_pace *pace, qs_class_profile *to) {
    for (int i = 0; i < to->kernels; i++)
        QS_TRY(kernel_slow(pace, &to->kernel[i]));
    for (int i = 0; i < to->conversions; i++)
        fits_slow(to->conversion[i].pieces, to->conversion[i].piece, pace->memory);
    return QS_OK;
}

static void collective_slow(double pace, qs_collective_cost *row) {
    row->alpha_us /= pace;
    row->us_per_byte /= pace;
    for (int p = 0; p < row->pieces; p++) {
        row->piece[p].us_per_byte /= pace;
        row->piece[p].us /= pace;
    }
}

qs_status qs_profile_at_pace(const qs_profile *profile, const qs_cluster *cluster, const qs_pace *pace, qs_profile *out) {
    double slowest = pace[0].all_reduce;
    qs_status status = QS_OK;
    QS_TRY(profile_copy(profile, out));
    for (int i = 0; i < profile->classes; i++) {
        qs_pace own = {1, 1, 1};
        for (int c = 0; c < cluster->classes; c++)
            if (strcmp(cluster->class_[c].name, profile->class_[i].class_name) == 0) own = pace[c];
        QS_GOTO(class_slow(&own, &out->class_[i]));
    }
    for (int c = 1; c < cluster->classes; c++)
        if (pace[c].all_reduce < slowest) slowest = pace[c].all_reduce;
    for (int i = 0; i < out->collectives; i++)
        collective_slow(slowest, &out->collective[i]);
done:
    if (status != QS_OK) qs_profile_at_pace_release(out);
    return status;
}

/* ---- Beside busy ranks ---- */

/* Company never makes a step faster. */
static void class_beside(double factor, qs_class_profile *one) {
    for (int i = 0; i < one->kernels; i++) {
        qs_kernel_cost *row = &one->kernel[i];
        double *us[] = {&row->us, &row->us_low, &row->us_high, &row->us_per_cold_byte, &row->us_recorded};
        for (size_t k = 0; k < sizeof us / sizeof *us; k++)
            *us[k] *= factor;
        row->us_alone = fmin(row->us_alone, row->us);
    }
    for (int i = 0; i < one->conversions; i++) {
        qs_conversion_cost *row = &one->conversion[i];
        fits_slow(row->pieces, row->piece, 1 / factor);
        if (row->alone > 0) row->alone = fmin(row->alone / factor, 1);
    }
    one->beside = (one->beside > 0 ? one->beside : 1) * factor;
}

/* Neighbours are known of a class that has times without them. */
static bool knows_alone(const qs_class_profile *one) {
    for (int i = 0; i < one->kernels; i++)
        if (one->kernel[i].us_alone > 0) return true;
    return false;
}

qs_status qs_profile_beside(const qs_profile *profile, double factor, qs_profile *out) {
    QS_TRY(profile_copy(profile, out));
    for (int i = 0; i < out->classes; i++)
        if (knows_alone(&out->class_[i])) class_beside(factor, &out->class_[i]);
    return QS_OK;
}

void qs_profile_at_pace_release(qs_profile *profile) {
    for (int i = 0; profile->class_ && i < profile->classes; i++) {
        free(profile->class_[i].kernel);
        free(profile->class_[i].conversion);
    }
    free(profile->class_);
    free(profile->collective);
    *profile = (qs_profile){0};
}
