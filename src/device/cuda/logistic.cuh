// SPDX-License-Identifier: Apache-2.0
/* The logistic function, by one exponential and one reciprocal. */
#ifndef QSYNC_DEVICE_CUDA_LOGISTIC_CUH
#define QSYNC_DEVICE_CUDA_LOGISTIC_CUH

#include "cuda/values.cuh"

#include <math.h>

/* e^x, x <= 0, within 2 + 1.2 |x| last places. */
QS_CUDA_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
    return __expf(x);
#else
    return expf(x);
#endif
}

/* Of x >= 1, to its last place. */
QS_CUDA_DEVICE float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0f, x);
#else
    return 1.0f / x;
#endif
}

/* 1 / (1 + e^-x) and 1 less that: neither is found as a difference. */
struct sigmoid_pair {
    float rising, falling;
};

QS_CUDA_DEVICE sigmoid_pair sigmoid(float x) {
    const float e = exponential(-fabsf(x)), larger = reciprocal(1.0f + e), smaller = e * larger;
    const sigmoid_pair pair = {x < 0 ? smaller : larger, x < 0 ? larger : smaller};
    return pair;
}

#endif
