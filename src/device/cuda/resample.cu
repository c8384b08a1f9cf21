// SPDX-License-Identifier: Apache-2.0
/* pad and resize: what is written is gathered by tables of lines and of columns (resample.h), the same way in both passes. A thread has
 * neighbouring channels of a place. Sums are fp32, in the tables' order; a single place with the weight 1 keeps its bits. */
#include "cuda/resample_jobs.h"

#include "cuda/each.cuh"

/* Entries of a table that a place is the sum of. */
struct terms {
    int begin, end;
};

QS_CUDA_DEVICE terms terms_of(const qs__resample_axis &axis, int written) {
    const int32_t *const begin = pointer<const int32_t>(axis.begin) + written;
    const terms out = {begin[0], begin[1]};
    return out;
}

template <int each, int kind> QS_CUDA_DEVICE void gather(const qs__resample_job &job) {
    const qs__resample_axis &down = job.axis[0], &across = job.axis[1];
    for (int64_t at = each * thread_number(); at < job.to.count; at += each * thread_count()) {
        const int64_t position = at / job.channels, line = position / across.written, image = line / down.written;
        const terms lines = terms_of(down, (int)(line % down.written)), columns = terms_of(across, (int)(position % across.written));
        float sum[each], x[each];
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++)
            sum[k] = job.value;
        for (int i = lines.begin; i < lines.end; i++) {
            const int64_t row = (image * down.read + pointer<const int32_t>(down.place)[i]) * across.read;
            const float weight = pointer<const float>(down.weight)[i];
            for (int j = columns.begin; j < columns.end; j++) {
                const float own = weight * pointer<const float>(across.weight)[j];
                const bool first = i == lines.begin && j == columns.begin;
                load_kind<each, kind>(job.from, (row + pointer<const int32_t>(across.place)[j]) * job.channels + at % job.channels, x);
                QS_CUDA_UNROLL
                for (int k = 0; k < each; k++)
                    sum[k] = first ? (own == 1 ? x[k] : own * x[k]) : __fmaf_rn(own, x[k], sum[k]);
            }
        }
        store_each<each>(job.to, at, sum);
    }
}

QS_CUDA_GLOBAL(resample, qs__resample_job) {
    if (job.each == 1) return gather<1, ANY_KIND>(job);
    with_common_kind(job.from.format.kind, [&](auto kind) { gather<8, decltype(kind)::value>(job); });
}
