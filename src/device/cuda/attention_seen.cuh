// SPDX-License-Identifier: Apache-2.0
/* Which keys a query sees, in jobs that hold what qs_attention says. */
#ifndef QSYNC_DEVICE_CUDA_ATTENTION_SEEN_CUH
#define QSYNC_DEVICE_CUDA_ATTENTION_SEEN_CUH

#include "cuda/values.cuh"

QS_CUDA_DEVICE int64_t among(int64_t key, int64_t keys) {
    return key < 0 ? 0 : least(key, keys);
}

/* As far as `causal` and `window` go: qs_attention_unseen, qs_attention_seen. */
template <typename Job> QS_CUDA_DEVICE int64_t seen_from(const Job &job, int64_t query) {
    return job.window ? among(query + job.keys - job.queries - job.window + 1, job.keys) : 0;
}

template <typename Job> QS_CUDA_DEVICE int64_t seen_to(const Job &job, int64_t query) {
    const int64_t place = query + job.keys - job.queries;
    if (job.causal) return among(place + 1, job.keys);
    return job.window ? among(place + job.window, job.keys) : job.keys;
}

/* Of one query; `keep` is its own line, NULL where all count. */
struct seen_keys {
    int64_t begin, end;
    const int32_t *keep;
    QS_CUDA_DEVICE_MEMBER bool has(int64_t key) const {
        return key >= begin && key < end && (!keep || keep[key] != 0);
    }
};

template <typename Job> QS_CUDA_DEVICE seen_keys seen_of(const Job &job, int64_t sample, int64_t query) {
    seen_keys out = {seen_from(job, query), seen_to(job, query), pointer<const int32_t>(job.keep)};
    if (out.keep) out.keep += (job.masked ? sample * job.queries + query : sample) * job.keys;
    return out;
}

#endif
