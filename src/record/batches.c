// SPDX-License-Identifier: Apache-2.0
/* Local batches: for which of them the kernels of a profile have rows, and how a plan deals the global batch out. */
#include "profile_internal.h"

static qs_status read_batch(const qs__place *list, size_t index, qs_profile_batch *out) {
    const qs__place row = qs__element(list, index);
    QS_TRY(qs__expect_fields(&row, "samples measured", ""));
    QS_TRY(qs__get_integer(&row, "samples", 1, INT32_MAX, &out->samples));
    QS_TRY(qs__get_flag(&row, "measured", &out->measured));
    if (index == 0 || out[-1].samples < out->samples) return QS_OK;
    const qs__place field = qs__field(&row, "samples");
    return qs__refuse_field(&field, "%lld does not follow %lld: batches stand in ascending order", (long long)out->samples,
                            (long long)out[-1].samples);
}

qs_status qs__batches_read(const qs__place *root, qs_profile *out) {
    const qs__place list = qs__field(root, "batches");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 1, INT32_MAX));
    QS_TRY(qs__members_create(&list, sizeof *out->batch_row, &out->batch_row));
    for (size_t i = 0; i < json_array_size(list.value); i++)
        QS_TRY(read_batch(&list, i, &out->batch_row[i]));
    out->batches = (int)json_array_size(list.value);
    if (qs_profile_batch_find(out, out->batch)) return QS_OK;
    return qs__refuse_field(&list, "%lld, the profile's batch, is not among them", (long long)out->batch);
}

void qs__batches_write(qs__writer *writer, const qs_profile *profile) {
    if (profile->batches == 0) return;
    qs__open_array(writer, "batches", QS__LINES);
    for (int i = 0; i < profile->batches; i++) {
        qs__open_object(writer, NULL, QS__ONE_LINE);
        qs__put_integer(writer, "samples", profile->batch_row[i].samples);
        qs__put_flag(writer, "measured", profile->batch_row[i].measured);
        qs__close(writer);
    }
    qs__close(writer);
}

const qs_profile_batch *qs_profile_batch_find(const qs_profile *profile, int64_t samples) {
    for (int i = 0; i < profile->batches; i++)
        if (profile->batch_row[i].samples == samples) return &profile->batch_row[i];
    return NULL;
}

/* A plan deals the job's global batch out anew, never another one: what is learned must not depend on who computes. */
qs_status qs_plan_batches(const qs_plan *plan, const qs_cluster *cluster, int64_t job_batch, int64_t *batch) {
    int64_t sum = 0, ranks = 0;
    for (int c = 0; c < cluster->classes; c++) {
        const qs_class_plan *one = plan ? qs_plan_class(plan, cluster->class_[c].name) : NULL;
        batch[c] = one && one->batch > 0 ? one->batch : job_batch;
        ranks += cluster->class_[c].count;
        sum += batch[c] * cluster->class_[c].count;
    }
    if (sum == job_batch * ranks) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "the plan's batches sum to %lld samples over %lld ranks, the job's global batch is %lld (%lld x %lld): plan again for "
                   "this cluster, or write batches that sum to it",
                   (long long)sum, (long long)ranks, (long long)(job_batch * ranks), (long long)ranks, (long long)job_batch);
}
