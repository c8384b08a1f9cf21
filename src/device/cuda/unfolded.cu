// SPDX-License-Identifier: Apache-2.0
/* Windows of images as rows of a matrix. */
#include "values.cuh"
#include "cuda/unfolded_jobs.h"

/* Where a kernel position reads along one axis; -1: nowhere. */
QS_CUDA_DEVICE int place_of(const qs__cuda_unfold_job &job, int axis, int at, int k, int64_t extent) {
    const int stride = (int)job.stride[axis], padding = (int)job.padding[axis];
    const int tap = k * (int)job.dilation[axis];
    int place = job.spread ? at + padding - tap : at * stride - padding + tap;
    if (job.spread) {
        if (place < 0 || place % stride != 0) return -1;
        place /= stride;
    }
    return place >= 0 && place < extent ? place : -1;
}

/* N counts what is moved: divisions of 32 bits where that is enough. */
template <typename T, typename N> QS_CUDA_DEVICE void unfold_all(const qs__cuda_unfold_job &job, N count) {
    const N channels = (N)job.channels, taps = (N)(job.kernel[0] * job.kernel[1]), columns = (N)job.kernel[1], across = (N)job.across,
            down = (N)job.down, groups = (N)job.groups;
    const T *from = pointer<const T>(job.from);
    T *to = pointer<T>(job.to);
    for (N i = (N)thread_number(); i < count; i += (N)thread_count()) {
        const N c = job.turned ? i / taps % channels : i % channels, tap = job.turned ? i % taps : i / channels % taps,
                of = i / (channels * taps), g = of % groups, row = of / groups;
        const N line = row / across, image = line / down;
        const int y = place_of(job, 0, (int)(line % down), (int)(tap / columns), job.height),
                  x = place_of(job, 1, (int)(row % across), (int)(tap % columns), job.width);
        T value = {};
        if (y >= 0 && x >= 0) value = from[((((int64_t)image * job.height + y) * job.width + x) * job.groups + g) * job.channels + c];
        to[i] = value;
    }
}

template <typename T> QS_CUDA_DEVICE void unfold_counted(const qs__cuda_unfold_job &job) {
    const int64_t count = job.images * job.down * job.across * job.groups * job.kernel[0] * job.kernel[1] * job.channels;
    if (count + thread_count() <= UINT32_MAX)
        unfold_all<T, uint32_t>(job, (uint32_t)count);
    else
        unfold_all<T, int64_t>(job, count);
}

QS_CUDA_GLOBAL(unfold, qs__cuda_unfold_job) {
    switch (job.bytes) {
    case 16:
        return unfold_counted<packet<4>>(job);
    case 4:
        return unfold_counted<uint32_t>(job);
    case 2:
        return unfold_counted<uint16_t>(job);
    default:
        return unfold_counted<uint8_t>(job);
    }
}
