// SPDX-License-Identifier: Apache-2.0
/* What kernels of normalisations share: inverses of spreads, and vectors in 8 bits, which op/norm_rules.c defines. */
#ifndef QSYNC_DEVICE_CUDA_NORM_CUH
#define QSYNC_DEVICE_CUDA_NORM_CUH

#include "cuda/columns.cuh"
#include "cuda/norm_jobs.h"
#include "cuda/stream.cuh"

#include <math.h>

/* qs_norm_inverse. */
QS_CUDA_DEVICE double inverse_of(const qs__norm_rule &rule, double spread) {
    return rule.variance ? 1 / sqrt(spread + rule.epsilon) : 1 / (spread + rule.epsilon);
}

QS_CUDA_DEVICE double step_of(const qs__norm_rule &rule) {
    return rule.step ? (double)*pointer<const float>(rule.step) : 1;
}

/* The mean that forward stored, in units of src: a whole number of 2^-8 where that is quantized, which storing it in fp32 hides. */
QS_CUDA_DEVICE float centre_of(const qs__norm_rule &rule, double step, float mean) {
    return rule.quantized ? (float)(rint((double)mean / step * 256) / 256) : mean;
}

QS_CUDA_DEVICE float direction_of(bool absolute, float distance) {
    return absolute ? (float)((distance > 0) - (distance < 0)) : distance;
}

/* dy where the relu behind let x pass. */
QS_CUDA_DEVICE float through_mask(uint64_t mask, int64_t at, float dy) {
    return !mask || (pointer<const uint8_t>(mask)[at >> 3] >> (at & 7) & 1) ? dy : 0.0f;
}

/* Writes what a forward pass makes, and what a backward pass does. */
template <int KIND, bool RELU>
QS_CUDA_DEVICE result_writer<KIND, RELU> writer_of(const qs__cuda_values &dst, const qs__norm_behind &behind) {
    return result_writer<KIND, RELU>(dst, behind.ceiling, behind.mask, behind.absmax);
}

template <int KIND> QS_CUDA_DEVICE result_writer<KIND, false> gradient_writer(const qs__cuda_values &dst, uint64_t absmax) {
    return result_writer<KIND, false>(dst, 0, 0, absmax);
}

/* ---- Vectors in 8 bits ---- */

/* The step of qs_norm_round_vector, of the largest magnitude. */
QS_CUDA_DEVICE float vector_step(double absmax) {
    const float most = (float)absmax;
    if (!finite(most) || most <= 0.0f) return 1.0f;
    return largest(most / 127.0f, 0x1p-100f);
}

QS_CUDA_DEVICE double vector_rounded(float step, double value) {
    const fixed_range range = {-127.0f, 127.0f, false};
    return (double)step * (double)quantize_scaled<QS_NEAREST_EVEN>(range, (float)(value / (double)step), 0);
}

/* A vector as it is, or as it is rounded: its step, which all threads of the block find together. */
QS_CUDA_DEVICE float vector_step_of(const qs__norm_rule &rule, uint64_t vector, int64_t channels) {
    double most = 0;
    if (!rule.quantized) return 0;
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x)
        most = largest(most, fabs((double)pointer<const float>(vector)[c]));
    return vector_step(block_max(most));
}

QS_CUDA_DEVICE double vector_at(const qs__norm_rule &rule, uint64_t vector, int64_t c, float step) {
    const double value = (double)pointer<const float>(vector)[c];
    return rule.quantized ? vector_rounded(step, value) : value;
}

/* The shift of qs_norm_round_means, and a mean with it. */
QS_CUDA_DEVICE int means_shift(double absmax) {
    int shift = 8;
    while (shift > -8 && rint(ldexp(absmax, shift)) > 127)
        shift--;
    return shift;
}

QS_CUDA_DEVICE double mean_rounded(int shift, double mean) {
    const double code = rint(ldexp(mean, shift)), low = code < -127 ? -127 : code;
    return isnan(mean) ? mean : ldexp(low > 127 ? 127 : low, -shift);
}

/* qs_norm_round_each: seven significant bits, below a quarter whole numbers of 2^-8. */
QS_CUDA_DEVICE float each_rounded(float value) {
    const uint32_t bits = bits_of(value);
    if (fabsf(value) < 0.25f) return (value + 49152.0f) - 49152.0f;
    return float_of((bits + 0xFFFFu + (bits >> 17 & 1)) & ~0x1FFFFu);
}

QS_CUDA_DEVICE float deviation_rounded(float value) {
    const float rounded = each_rounded(value);
    return rounded < 0.25f ? 0.25f : rounded;
}

#endif
