// SPDX-License-Identifier: Apache-2.0
/* Around convolutions of cuDNN: factors in a wider format, and results from what the library wrote. */
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
