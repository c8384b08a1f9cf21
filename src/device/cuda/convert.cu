// SPDX-License-Identifier: Apache-2.0
/* Casts, and rounding that is simulated. What is cast all the time has loops of its own: nearest-even and stochastic rounding with the
 * overflow of the format. */
#include "cuda/convert_jobs.h"
#include "cuda/draws.cuh"
#include "cuda/values.cuh"

QS_CUDA_GLOBAL(cast_nearest, qs__cuda_cast_job) {
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, i, x);
        value_store8(job.dst, i, x);
    }
}

template <int kind> QS_CUDA_DEVICE uint32_t stochastic_code(const qs__cuda_format &format, float x, uint32_t random) {
    if (kind == QS__CUDA_BF16) return bf16_stochastic(x, random);
    if (kind == QS__CUDA_FP16) return fp16_stochastic(x, random);
    if (kind == QS__CUDA_E4M3) return e4m3_stochastic(x, random);
    if (kind == QS__CUDA_E5M2) return e5m2_stochastic(x, random);
    return round_code(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, x, random);
}

template <int kind> QS_CUDA_DEVICE void stochastic_store8(const qs__cuda_values &v, int64_t i, const float x[8], const uint32_t random[8]) {
    uint32_t code[8];
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        code[j] = stochastic_code<kind>(v.format, x[j], random[j]);
    code_store8_kind<kind>(v, i, code);
}

QS_CUDA_GLOBAL(cast_stochastic, qs__cuda_cast_job) {
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        uint32_t random[8];
        value_load8(job.src, i, x);
        draw_words(job.draws, i, random);
        with_kind(job.dst.format.kind, [&](auto kind) { stochastic_store8<decltype(kind)::value>(job.dst, i, x, random); });
    }
}

QS_CUDA_GLOBAL(cast_any, qs__cuda_cast_job) {
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        uint32_t random[8] = {0}, code[8];
        value_load8(job.src, i, x);
        if (job.rounding == QS_STOCHASTIC) draw_words(job.draws, i, random);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            code[j] = round_code(job.dst.format, job.rounding, job.overflow, x[j], random[j]);
        code_store8(job.dst, i, code);
    }
}

/* One loop for each mode. */
template <int rounding> QS_CUDA_DEVICE void round_all(const qs__cuda_round_job &job) {
    const float_plan plan = plan_of(job.to);
    unsigned long long overflows = 0, underflows = 0;
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        uint32_t random[8] = {0}, code[8];
        value_load8_kind<QS__CUDA_FP32>(job.src, i, x);
        if (rounding == QS_STOCHASTIC) draw_words(job.draws, i, random);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            const rounded out = round_float(plan, rounding, job.overflow, x[j], random[j]);
            overflows += out.overflowed;
            underflows += out.value == 0.0f && x[j] != 0.0f;
            x[j] = out.value;
            code[j] = out.code;
        }
        value_store8_kind<QS__CUDA_FP32>(job.dst, i, x);
        if (job.packed.at) code_store8(job.packed, i, code);
    }
    if (!job.counts) return;
    overflows = block_sum(overflows);
    underflows = block_sum(underflows);
    if (threadIdx.x == 0 && overflows) atomicAdd(pointer<unsigned long long>(job.counts), overflows);
    if (threadIdx.x == 0 && underflows) atomicAdd(pointer<unsigned long long>(job.counts) + 1, underflows);
}

QS_CUDA_GLOBAL(round_values, qs__cuda_round_job) {
    with_rounding(job.rounding, [&](auto rounding) { round_all<decltype(rounding)::value>(job); });
}
