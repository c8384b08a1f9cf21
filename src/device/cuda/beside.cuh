// SPDX-License-Identifier: Apache-2.0
/* The largest magnitude of what a kernel stores, beside it; the relu behind results; and functions of two values. */
#ifndef QSYNC_DEVICE_CUDA_BESIDE_CUH
#define QSYNC_DEVICE_CUDA_BESIDE_CUH

#include "cuda/values.cuh"

/* What a thread stores next, where somebody wants to know. Magnitudes are compared as bits: those of a NaN are above all others. */
QS_CUDA_DEVICE void absmax_see8(uint64_t at, uint32_t &seen, const float x[8]) {
    if (at == 0) return; /* for all */
    QS_CUDA_UNROLL
    for (int k = 0; k < 8; k++)
        seen = largest(seen, bits_of(x[k]) & MAGNITUDE_BITS);
}

/* Raises the fp32 at `at` (0: nothing to do) to the largest of what the block's threads saw, as `format` stores it: rounding keeps the order
 * of magnitudes, so one value is rounded and not all. Every thread of the block calls it, in blocks of whole warps. */
QS_CUDA_DEVICE void absmax_deliver(uint64_t at, const qs__cuda_format &format, uint32_t seen) {
    if (at == 0) return; /* for all */
    seen = block_max(seen);
    if (threadIdx.x != 0) return;
    seen = bits_of(value_of(format, code_of(format, float_of(seen)))) & MAGNITUDE_BITS;
    unsigned *const result = pointer<unsigned>(at);
    if (*(volatile unsigned *)result < seen) atomicMax(result, seen); /* few are above what others brought */
}

/* What a relu caps: no number, which nothing reaches, without a ceiling. */
QS_CUDA_DEVICE float relu_limit(float ceiling) {
    return ceiling > 0 ? ceiling : float_of(QUIET_NAN_BITS);
}

/* The relu behind eight results that are rounded to their format, as values and as codes: what is not above 0 becomes 0, what reaches the
 * limit becomes the cap, which is its code. A bit each says which stay, a NaN does: where backward lets a gradient pass. */
QS_CUDA_DEVICE uint32_t relu_behind8(float limit, uint32_t cap, float value[8], uint32_t code[8]) {
    uint32_t stays = 0;
    QS_CUDA_UNROLL
    for (int k = 0; k < 8; k++) {
        const bool none = value[k] <= 0, capped = value[k] >= limit;
        value[k] = none ? 0 : capped ? limit : value[k];
        code[k] = none ? 0 : capped ? cap : code[k];
        stays |= (uint32_t)(!none && !capped) << k;
    }
    return stays;
}

/* dst = two(x, y), eight elements at a time: x of src, y as `load` brings it, and the absmax at `absmax` (0: none). Behind the last element
 * zeros are read, and are to stay zeros. */
template <typename Load, typename Two>
QS_CUDA_DEVICE void join_eights(const qs__cuda_values &src, Load load, const qs__cuda_values &dst, uint64_t absmax, Two two) {
    uint32_t seen = 0;
    for (int64_t i = 8 * thread_number(); i < src.count; i += 8 * thread_count()) {
        float x[8], y[8];
        value_load8(src, i, x);
        load(i, y);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = i + k < src.count ? two(x[k], y[k]) : 0;
        absmax_see8(absmax, seen, x);
        value_store8(dst, i, x);
    }
    absmax_deliver(absmax, dst.format, seen);
}

#endif
