// SPDX-License-Identifier: Apache-2.0
/* Around convolutions of cuDNN: factors in a wider format or of more channels, and results from what the library wrote. */
#include "values.cuh"
#include "cuda/convolution_jobs.h"

QS_CUDA_GLOBAL(convolution_values, qs__cuda_convolution_job) {
    const float *bias = pointer<const float>(job.bias);
    for (int64_t i = 8 * thread_number(); i < job.to.count; i += 8 * thread_count()) {
        float x[8];
        value_load8(job.from, i, x);
        if (bias) {
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j++)
                x[j] += bias[(i + j) % job.columns];
        }
        value_store8(job.to, i, x);
    }
}

/* A word a thread. */
QS_CUDA_GLOBAL(convolution_pad, qs__cuda_pad_job) {
    const uint8_t *from = pointer<const uint8_t>(job.from);
    for (int64_t i = thread_number(); i < job.rows * job.words; i += thread_count()) {
        const int64_t row = job.words == 1 ? i : i / job.words, c0 = 4 * (i - row * job.words);
        uint32_t word = 0;
        QS_CUDA_UNROLL
        for (int j = 0; j < 4; j++)
            word |= c0 + j < job.channels ? (uint32_t)from[row * job.channels + c0 + j] << 8 * j : 0;
        pointer<uint32_t>(job.to)[i] = word;
    }
}
