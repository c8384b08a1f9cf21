// SPDX-License-Identifier: Apache-2.0
/* Kernels at shorter lengths than the longest. The plans of the longest are lowered at each of them, covered and timed once more, with
 * samples of that length; every case that the longest has not gets a row. Cases without a length in their shapes (updates, conversions of
 * weights) keep the longest's. Conversions have their fits, which are of any size; what a process holds, overheads and the data of a sample
 * are the longest's. */
#include "timing/timing.h"

#include <stdlib.h>

/* The class at one more length: a measurement of its own. */
struct qs__length {
    qs__setting setting;
    qs__cases cases;
    qs__mixes mixes;
    qs__step_figures figures;
};

static qs_status length_open(const qs__setting *from, const qs__mixes *mixes, int index, qs__length *one) {
    one->cases.device = from->device;
    QS_TRY(qs__setting_at_length(from, index, &one->setting));
    return qs__mixes_repeat(&one->setting, mixes, &one->cases, &one->mixes);
}

qs_status qs__lengths_measure(const qs__setting *setting, const qs__mixes *mixes, qs__shorter *out) {
    const int count = setting->lengths.count - 1;
    QS_TRY(qs_comm_agree(setting->comm, qs_allocate((size_t)count, sizeof *out->at, &out->at)));
    for (; out->count < count;) {
        qs__length *one = &out->at[out->count];
        const long long length = (long long)setting->job->lengths.at[out->count];
        QS_TRY(qs_comm_agree(setting->comm, qs_fail_within(length_open(setting, mixes, out->count++, one), "length %lld", length)));
        QS_TRY(qs_fail_within(qs__steps_measure(&one->setting, &one->mixes, &one->cases, &one->figures), "length %lld", length));
        QS_TRY(qs__alone_measure(&one->setting, &one->cases));
    }
    return QS_OK;
}

void qs__lengths_release(qs__shorter *shorter) {
    for (int i = 0; i < shorter->count; i++) {
        qs__length *one = &shorter->at[i];
        qs__mixes_release(&one->mixes);
        qs__cases_release(&one->cases);
        qs__step_figures_release(&one->figures);
        free(one->setting.indices);
        free(one->setting.order);
    }
    free(shorter->at);
    *shorter = (qs__shorter){0};
}

/* Rows of one length that the class has not, moved to its others. */
static qs_status rows_move(qs_class_profile *rows, qs_class_profile *out) {
    const int had = out->kernels;
    size_t capacity = (size_t)had;
    for (int i = 0; i < rows->kernels; i++) {
        const qs_class_profile before = {.kernels = had, .kernel = out->kernel}; /* sorted; they stay in front */
        qs_kernel_cost *row = &rows->kernel[i];
        if (qs_class_profile_kernel(&before, row->case_text)) continue;
        QS_TRY(qs_grow(&out->kernel, &capacity, (size_t)out->kernels + 1, sizeof *out->kernel));
        out->kernel[out->kernels++] = *row;
        row->case_text = NULL;
    }
    return QS_OK;
}

static qs_status length_fill(qs__length *one, const qs__memory *memory, qs_class_profile *out) {
    qs_class_profile rows = *out;
    rows.kernels = 0;
    rows.kernel = NULL;
    qs_status status = qs__kernels_fill(&one->setting, memory, &one->cases, &rows);
    if (status == QS_OK) {
        qs__kernels_finish(&one->cases, &rows);
        status = qs__recordings_fill(&one->setting, &one->mixes, &one->cases, &one->figures, &rows);
    }
    if (status == QS_OK) status = rows_move(&rows, out);
    for (int i = 0; i < rows.kernels; i++)
        free(rows.kernel[i].case_text);
    free(rows.kernel);
    qs_class_profile_sort(out);
    return status;
}

qs_status qs__lengths_fill(const qs__setting *setting, const qs__memory *memory, qs__shorter *shorter, qs_class_profile *out,
                           qs_profile *all) {
    const qs_lengths *lengths = &setting->job->lengths;
    int64_t samples[QS_MOST_LENGTHS];
    if (lengths->count == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)lengths->count, sizeof *all->length_row, &all->length_row));
    qs_dataset_lengths(&setting->training, lengths, samples);
    for (; all->lengths < lengths->count; all->lengths++)
        all->length_row[all->lengths] = (qs_profile_length){lengths->at[all->lengths], samples[all->lengths]};
    for (int i = 0; i < shorter->count; i++)
        QS_TRY(length_fill(&shorter->at[i], memory, out));
    return QS_OK;
}
