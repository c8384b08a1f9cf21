// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms by warps: each holds 64 values of whole blocks, two a lane, and the pairs of a distance meet by exchanges. */
#ifndef QSYNC_DEVICE_CUDA_HADAMARD_CUH
#define QSYNC_DEVICE_CUDA_HADAMARD_CUH

#include "cuda/absmax_jobs.h"
#include "cuda/values.cuh"

/* Values of one lane: which elements they are (-1: none), and what the transform makes of them. */
struct transformed {
    int64_t element[2];
    float x[2];
};

/* How many groups of 64 there are. */
QS_CUDA_DEVICE int64_t transform_groups(const qs__cuda_hadamard &transform, int64_t count) {
    const int together = 2 * WARP / transform.block;
    return (count / transform.block + together - 1) / together;
}

/* The element that is value number `slot` of a group, blocks one behind the other. */
QS_CUDA_DEVICE int64_t transform_element(const qs__cuda_hadamard &transform, int64_t count, int64_t group, int slot) {
    const int64_t b = group * (2 * WARP / transform.block) + slot / transform.block, j = slot % transform.block, run = transform.run;
    if (b >= count / transform.block) return -1;
    return run == 1 ? b * transform.block + j : b / run * run * transform.block + b % run + j * run;
}

/* Loads a group and transforms it, with the sums and products of qs_hadamard_array in their order. All lanes of a warp take part. */
QS_CUDA_DEVICE transformed transform_load(const qs__cuda_values &v, const qs__cuda_hadamard &transform, int64_t group) {
    const int lane = (int)(threadIdx.x % WARP);
    transformed out;
    QS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        out.element[half] = transform_element(transform, v.count, group, lane + half * WARP);
        out.x[half] = out.element[half] < 0 ? 0.0f : value_load(v, out.element[half]);
    }
    for (int distance = 1; distance < transform.block && distance < WARP; distance *= 2) {
        QS_CUDA_UNROLL
        for (int half = 0; half < 2; half++) {
            const float other = __shfl_xor_sync(WHOLE_WARP, out.x[half], distance);
            out.x[half] = lane & distance ? other - out.x[half] : out.x[half] + other;
        }
    }
    if (transform.block > WARP) {
        const float upper = out.x[0], lower = out.x[1];
        out.x[0] = upper + lower;
        out.x[1] = upper - lower;
    }
    out.x[0] *= transform.scale;
    out.x[1] *= transform.scale;
    return out;
}

#endif
