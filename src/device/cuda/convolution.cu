// SPDX-License-Identifier: Apache-2.0
/* Around convolutions of cuDNN: factors in a wider format, and results from what the library wrote. */
#include "values.cuh"
#include "cuda/convolution_jobs.h"

/* Sums of integers are scaled in double, which holds them. */
QS_CUDA_GLOBAL(convolution_values, qs__cuda_convolution_job) {
    const float *bias = pointer<const float>(job.bias), *right_step = pointer<const float>(job.right_step);
    const double left_step = job.left_step ? (double)*pointer<const float>(job.left_step) : 1.0;
    for (int64_t i = 8 * thread_number(); i < job.to.count; i += 8 * thread_count()) {
        float x[8];
        if (job.sums) {
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j++) {
                const int64_t at = least(i + j, job.to.count - 1), c = at % job.columns;
                const double step = right_step ? (double)right_step[job.right_steps > 1 ? c : 0] : 1.0;
                x[j] = (float)((double)pointer<const int32_t>(job.from.at)[at] * (left_step * step) + (bias ? (double)bias[c] : 0.0));
            }
        } else {
            value_load8(job.from, i, x);
            if (bias) {
                QS_CUDA_UNROLL
                for (int j = 0; j < 8; j++)
                    x[j] += bias[(i + j) % job.columns];
            }
        }
        value_store8(job.to, i, x);
    }
}
