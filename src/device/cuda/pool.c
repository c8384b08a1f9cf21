// SPDX-License-Identifier: Apache-2.0
/* The family of pools: max_pool, average_pool, global_average_pool (pool.cu). */
#include "cuda/pool_jobs.h"

#include "cuda/operands.h"
#include "geometry.h"

enum { EACH, GLOBAL }; /* of kernel->plan: channels that a thread takes; whether the pool is over whole images */

static qs_status run_pool(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const bool forward = qs__cuda_is_forward(kernel);
    const qs__geometry g = qs__case_geometry(&kernel->one);
    qs__pool_job job = {.from = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                        .to = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                        .mask = qs__cuda_at(kernel, QS_MASK),
                        .batch = g.batch,
                        .channels = g.channels,
                        .height = (int)g.height,
                        .width = (int)g.width,
                        .out_height = (int)g.out_height,
                        .out_width = (int)g.out_width,
                        .count_padding = g.count_padding,
                        .each = (int)kernel->plan[EACH],
                        .lanes = 1};
    for (int axis = 0; axis < 2; axis++) {
        job.kernel[axis] = (int)g.kernel[axis];
        job.stride[axis] = (int)g.stride[axis];
        job.dilation[axis] = (int)g.dilation[axis];
        job.padding[axis] = (int)g.padding[axis];
    }
    int64_t blocks = qs__cuda_blocks(kernel->cuda, job.to.count, QS__POOL_THREADS, job.each);
    if (forward && kernel->plan[GLOBAL]) { /* as many threads side by side as one image keeps busy, up to a warp */
        while (job.lanes < 32 && (int64_t)job.lanes * job.each < job.channels)
            job.lanes *= 2;
        blocks = qs__cuda_blocks(kernel->cuda, job.batch * ((job.channels - 1) / (job.lanes * job.each) + 1) * QS__POOL_THREADS,
                                 QS__POOL_THREADS, 1);
    }
    return qs__cuda_launch(kernel, 0, blocks, QS__POOL_THREADS, 0, &job);
}

qs_status qs__cuda_build_pool(qs__cuda_kernel *kernel) {
    char name[48];
    int each;
    QS_TRY(qs__cuda_each(kernel, kernel->one.operand[0].shape.dim[1], &each));
    const qs__geometry g = qs__case_geometry(&kernel->one);
    const int64_t places = g.height * g.width, results = g.out_height * g.out_width, most = places > results ? places : results;
    if (g.channels * most > INT32_MAX)
        return qs_fail(QS_UNSUPPORTED, "images of %lld values: places in one are counted in 32 bits", (long long)(g.channels * most));
    snprintf(name, sizeof name, "qs__%s%s", kernel->one.op->name, qs__cuda_is_forward(kernel) ? "" : "_gradient");
    kernel->plan[EACH] = each;
    kernel->plan[GLOBAL] = kernel->one.op == qs_op_of("global_average_pool");
    kernel->run = run_pool;
    return qs__cuda_own(kernel, name);
}
