// SPDX-License-Identifier: Apache-2.0
/* Steps timed at other local batches: for each of them the plans of the job's batch are lowered, covered and timed once more. */
#include "batches.h"

#include <stdlib.h>
#include <string.h>

/* The batches that a profile knows lie so close: the job's over this. */
enum { GRID = 16 };

qs_status qs__batches_check(const qs_profile_options *options) {
    if (options->batches < 0 || options->batches > QS_PROFILE_BATCHES)
        return qs_fail(QS_USAGE, "%d other batches: at most %d can be measured", options->batches, QS_PROFILE_BATCHES);
    for (int i = 0; i < options->batches; i++) {
        if (options->batch[i] < 1) return qs_fail(QS_USAGE, "batch %lld: must be at least 1", (long long)options->batch[i]);
        for (int k = 0; k < i; k++)
            if (options->batch[k] == options->batch[i]) return qs_fail(QS_USAGE, "batch %lld stands twice", (long long)options->batch[i]);
        if (options->batch[i] == options->job->batch)
            return qs_fail(QS_USAGE, "batch %lld is the job's own: it is measured anyway", (long long)options->batch[i]);
    }
    return QS_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------------------------------------------- */

static int by_batch(const void *left, const void *right) {
    const qs__batch *a = left, *b = right;
    return (a->job.batch > b->job.batch) - (a->job.batch < b->job.batch);
}

/* Owns what is measured; the rest belongs to `from`. */
static qs_status batch_open(const qs__profiler *from, int index, qs__batch *one) {
    one->options = *from->options;
    one->options.checks = 0; /* they are of the job's batch */
    one->profiler = *from;
    one->profiler.options = &one->options;
    one->profiler.job = &one->job;
    one->profiler.indices = NULL;
    one->profiler.measured = NULL;
    one->profiler.cases = (qs__cases){.device = from->device};
    one->profiler.mixes = (qs__mixes){0};
    one->profiler.arena = (qs_arena){0};
    one->profiler.whole_us = one->profiler.overhead_us = one->profiler.data_us = one->profiler.jitter = (qs__samples){0};
    one->profiler.checked = (qs__samples){0};
    qs__progress_divide(&one->profiler, from, index);
    QS_TRY(qs_allocate((size_t)one->job.batch, sizeof *one->profiler.indices, &one->profiler.indices));
    return qs_fail_within(qs__mixes_repeat(&one->profiler, &from->mixes), "batch %lld", (long long)one->job.batch);
}

static qs_status batch_measure(qs__profiler *profiler, int index, qs__batch *one) {
    QS_TRY(qs_comm_agree(profiler->comm, batch_open(profiler, index, one)));
    QS_TRY(qs_fail_within(qs__plans_measure(&one->profiler), "batch %lld", (long long)one->job.batch));
    return qs__alone_measure(&one->profiler);
}

qs_status qs__batches_measure(qs__profiler *profiler, qs__batches *out) {
    const qs_profile_options *options = profiler->options;
    QS_TRY(qs_comm_agree(profiler->comm, qs_allocate((size_t)options->batches, sizeof *out->at, &out->at)));
    for (; out->count < options->batches; out->count++) {
        out->at[out->count].job = *profiler->job;
        out->at[out->count].job.batch = options->batch[out->count];
    }
    qsort(out->at, (size_t)out->count, sizeof *out->at, by_batch);
    for (int i = 0; i < out->count; i++)
        QS_TRY(batch_measure(profiler, i, &out->at[i]));
    return QS_OK;
}

static void batch_release(qs__batch *one) {
    for (int i = 0; i < one->rows.kernels; i++)
        free(one->rows.kernel[i].case_text);
    free(one->rows.kernel);
    qs__mixes_release(&one->profiler.mixes);
    qs__cases_release(&one->profiler.cases);
    free(one->profiler.indices);
    free(one->profiler.measured);
    free(one->profiler.whole_us.value);
    free(one->profiler.overhead_us.value);
    free(one->profiler.data_us.value);
    free(one->profiler.jitter.value);
    free(one->profiler.checked.value);
}

void qs__batches_release(qs__batches *batches) {
    for (int i = 0; i < batches->count; i++)
        batch_release(&batches->at[i]);
    free(batches->at);
    *batches = (qs__batches){0};
}

/* ---- Filling ----------------------------------------------------------------------------------------------------------------------- */

static bool is_measured(const qs__batches *batches, int64_t own, int64_t samples) {
    for (int i = 0; i < batches->count; i++)
        if (batches->at[i].job.batch == samples) return true;
    return samples == own;
}

/* Every batch of the grid and every measured one, from the least to the greatest measured one. */
static qs_status list_fill(const qs__batches *batches, int64_t own, qs_profile *all) {
    const int64_t step = own / GRID > 0 ? own / GRID : 1;
    int64_t least = batches->at[0].job.batch, most = batches->at[batches->count - 1].job.batch;
    if (least > own) least = own;
    if (most < own) most = own;
    size_t capacity = 0;
    for (int64_t samples = least; samples <= most; samples++) {
        const bool measured = is_measured(batches, own, samples);
        if (!measured && (samples - own) % step != 0) continue;
        QS_TRY(qs_grow(&all->batch_row, &capacity, (size_t)all->batches + 1, sizeof *all->batch_row));
        all->batch_row[all->batches++] = (qs_profile_batch){samples, measured};
    }
    return QS_OK;
}

static qs_status rows_fill(const qs_class_profile *of, qs__batch *one) {
    one->rows = *of;
    one->rows.kernels = 0;
    one->rows.kernel = NULL;
    QS_TRY(qs__kernels_fill(&one->profiler, &one->rows));
    qs__kernels_finish(&one->profiler, &one->rows);
    return QS_OK;
}

qs_status qs__batches_fill(qs__profiler *profiler, qs__batches *batches, qs_class_profile *out, qs_profile *all) {
    if (batches->count == 0) return QS_OK;
    QS_TRY(list_fill(batches, profiler->job->batch, all));
    for (int i = 0; i < batches->count; i++)
        QS_TRY(rows_fill(out, &batches->at[i]));
    return qs__grid_fill(profiler, batches, all, out);
}
