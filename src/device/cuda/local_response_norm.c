// SPDX-License-Identifier: Apache-2.0
/* Our own local response norms (local_response_norm.cu): rows of channels in shared memory. */
#include "cuda/columns.h"
#include "cuda/norm_jobs.h"
#include "cuda/operands.h"

enum { TOGETHER, SHARED }; /* of kernel->plan: rows of a block, and bytes that they take */

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    (void)step;
    const qs_attributes *with = &kernel->one.attributes;
    const bool forward = qs__cuda_is_forward(kernel);
    qs__response_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                            .dst = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                            .rows = qs__cuda_rows(&kernel->one, QS_SRC),
                            .channels = (int)qs__cuda_channels(&kernel->one, QS_SRC),
                            .together = (int)kernel->plan[TOGETHER],
                            .before = (int)((with->size - 1) / 2),
                            .behind = (int)(with->size / 2),
                            .share = (float)(with->alpha / with->size),
                            .beta = (float)with->beta,
                            .bias = (float)with->bias};
    if (!forward) job.diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST);
    const int64_t tiles = (job.rows + job.together - 1) / job.together;
    const int64_t blocks = qs__cuda_blocks(kernel->cuda, tiles * QS__RESPONSE_THREADS, QS__RESPONSE_THREADS, 1);
    return qs__cuda_launch(kernel, 0, blocks, QS__RESPONSE_THREADS, (int)kernel->plan[SHARED], &job);
}

/* Rows of a block: some values for each of its threads, or one row. */
qs_status qs__cuda_build_local_response_norm(qs__cuda_kernel *kernel) {
    enum { VALUES = 8 * QS__RESPONSE_THREADS };
    const int64_t channels = qs__cuda_channels(&kernel->one, QS_SRC), rows = channels < VALUES ? VALUES / channels : 1;
    const bool forward = qs__cuda_is_forward(kernel);
    const int64_t shared = (forward ? 2 : 3) * rows * channels * (int64_t)sizeof(float);
    if (shared > kernel->cuda->shared_bytes)
        return qs_fail(QS_UNSUPPORTED, "local_response_norm of %lld channels needs %lld bytes of shared memory, this GPU has %d",
                       (long long)channels, (long long)shared, kernel->cuda->shared_bytes);
    kernel->plan[TOGETHER] = rows;
    kernel->plan[SHARED] = shared;
    kernel->run = run;
    return qs__cuda_own(kernel, forward ? "local_response_norm" : "local_response_norm_gradient");
}
