// SPDX-License-Identifier: Apache-2.0
/* relu, add, multiply, dropout: the reference's results bit for bit. A thread takes eight elements, which are whole bytes in every format
 * and one byte of a mask. */
#include "cuda/elementwise_jobs.h"

#include "cuda/beside.cuh"
#include "cuda/values.cuh"

/* A thread's eights of elements. */
#define EACH_EIGHT(i, total) for (int64_t i = 8 * thread_number(); i < (total); i += 8 * thread_count())

QS_CUDA_GLOBAL(qs__relu, qs__elementwise_job) {
    const float ceiling = job.ceiling > 0 ? job.ceiling : float_of(INFINITY_BITS);
    uint32_t seen = 0;
    EACH_EIGHT(i, job.src.count) {
        float x[8];
        uint32_t inside = 0;
        value_load8(job.src, i, x);
        for (int k = 0; k < 8; k++) { /* a NaN is neither below nor above, and infinity is what no ceiling leaves */
            const bool below = x[k] <= 0, above = x[k] >= ceiling && job.ceiling > 0;
            x[k] = below ? 0 : above ? ceiling : x[k];
            inside |= (uint32_t)(!below && !above && i + k < job.src.count) << k;
            absmax_see(seen, x[k]);
        }
        value_store8(job.dst, i, x);
        if (job.mask) ((uint8_t *)job.mask)[i / 8] = (uint8_t)inside;
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__relu_gradient, qs__elementwise_job) {
    uint32_t seen = 0;
    EACH_EIGHT(i, job.diff.count) {
        float x[8];
        const uint32_t inside = ((const uint8_t *)job.mask)[i / 8];
        value_load8(job.diff, i, x);
        for (int k = 0; k < 8; k++) {
            if (!(inside >> k & 1)) x[k] = 0;
            absmax_see(seen, x[k]);
        }
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__add, qs__elementwise_job) {
    uint32_t seen = 0;
    EACH_EIGHT(i, job.src.count) {
        float x[8], y[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        for (int k = 0; k < 8; k++) {
            x[k] += y[k];
            absmax_see(seen, x[k]);
        }
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__multiply, qs__elementwise_job) {
    uint32_t seen = 0;
    EACH_EIGHT(i, job.src.count) {
        float x[8], y[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        for (int k = 0; k < 8; k++) {
            x[k] *= y[k];
            absmax_see(seen, x[k]);
        }
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__multiply_gradient, qs__elementwise_job) {
    EACH_EIGHT(i, job.src.count) {
        float x[8], y[8], diff[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        value_load8(job.diff, i, diff);
        for (int k = 0; k < 8; k++) {
            x[k] *= diff[k];
            y[k] *= diff[k];
        }
        value_store8(job.dst, i, y);
        value_store8(job.dst2, i, x);
    }
}

/* A scale that fp32 holds needs no double: the product of two floats is exact there and rounded once either way. */
QS_CUDA_DEVICE float scaled(float x, double scale) {
    const float single = (float)scale;
    return (double)single == scale ? x * single : (float)((double)x * scale);
}

QS_CUDA_GLOBAL(qs__dropout, qs__dropout_job) {
    EACH_EIGHT(i, job.src.count) {
        const uint64_t counter = job.first + (uint64_t)i, key = random_key_for(job.key, counter);
        const bool one_key = (uint32_t)counter <= UINT32_MAX - 7;
        float x[8];
        value_load8(job.src, i, x);
        for (int k = 0; k < 8; k++) {
            const uint64_t mine = one_key ? key : random_key_for(job.key, counter + (uint64_t)k);
            const uint32_t draw = random_hash((uint32_t)mine, (uint32_t)(mine >> 32), (uint32_t)counter + (uint32_t)k);
            x[k] = (float)(draw >> 8) * 0x1p-24f >= job.threshold ? scaled(x[k], job.scale) : 0;
        }
        value_store8(job.dst, i, x);
    }
}
