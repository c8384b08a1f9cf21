// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms, a block in the registers of a thread. */
#ifndef QSYNC_DEVICE_CUDA_HADAMARD_CUH
#define QSYNC_DEVICE_CUDA_HADAMARD_CUH

#include "cuda/absmax_jobs.h"
#include "cuda/values.cuh"

/* Where value 0 of block b lies; value j is j · run elements behind it. */
QS_CUDA_DEVICE int64_t block_start(const qs__cuda_hadamard &transform, int64_t b) {
    return transform.run == 1 ? b * transform.block : b / transform.run * transform.run * transform.block + b % transform.run;
}

/* Loads block b and transforms it, with the sums and products of qs_hadamard_array in their order. */
template <int block>
QS_CUDA_DEVICE void block_load(const qs__cuda_values &v, const qs__cuda_hadamard &transform, int64_t b, float x[block]) {
    const int64_t start = block_start(transform, b);
    with_kind(v.format.kind, [&](auto kind) {
        QS_CUDA_UNROLL
        for (int j = 0; j < block; j++)
            x[j] = value_of_kind<decltype(kind)::value>(v.format, code_load_kind<decltype(kind)::value>(v, start + j * transform.run));
    });
    QS_CUDA_UNROLL
    for (int distance = 1; distance < block; distance *= 2) {
        QS_CUDA_UNROLL
        for (int j = 0; j < block; j++) {
            if (j & distance) continue;
            const float a = x[j], other = x[j + distance];
            x[j] = a + other;
            x[j + distance] = a - other;
        }
    }
    QS_CUDA_UNROLL
    for (int j = 0; j < block; j++)
        x[j] *= transform.scale;
}

/* With the extent of blocks. */
template <typename Use> QS_CUDA_DEVICE void with_block(int block, Use use) {
    switch (block) {
    case 2:
        return use(constant<2>());
    case 4:
        return use(constant<4>());
    case 8:
        return use(constant<8>());
    case 16:
        return use(constant<16>());
    case 32:
        return use(constant<32>());
    default:
        return use(constant<64>());
    }
}

#endif
