// SPDX-License-Identifier: Apache-2.0
/* Casts, and rounding that is simulated. What is cast all the time has loops of its own: nearest-even and stochastic rounding with the
 * overflow of the format. */
#include "cuda/convert_jobs.h"
#include "cuda/draws.cuh"
#include "cuda/stream.cuh"

/* What grows is a stream: eights of fp32 would be written by half sectors. */
QS_CUDA_GLOBAL(cast_nearest, qs__cuda_cast_job) {
    int64_t taken = 0;
    with_half_kind(job.dst.format.kind == QS__CUDA_FP32 ? job.src.format.kind : QS__CUDA_FLOAT, [&](auto kind) {
        taken = stream<decltype(kind)::value, QS__CUDA_FP32>(
            job.src, job.dst, [&](int64_t, const float *x, uint32_t *code) { stream_codes<QS__CUDA_FP32>(job.dst.format, x, code); });
    });
    for (int64_t i = taken + 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
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

/* Codes of no NaNs, without signs: what is done for every element counts here, a GPU has no more than 25 steps for each. */
template <int kind> QS_CUDA_DEVICE uint32_t stochastic_number(float x, uint32_t random) {
    const uint32_t magnitude = bits_of(x) & MAGNITUDE_BITS;
    if (kind == QS__CUDA_FP16) return least(stochastic_magnitude<10, 113>(magnitude, random), 0x7C00u);
    if (kind == QS__CUDA_E4M3) return least(stochastic_magnitude<3, 121>(magnitude, random), 0x7Eu);
    return least(stochastic_magnitude<2, 113>(magnitude, random), 0x7Cu);
}

/* Four of the bytes of two words, 0 to 3 of a and 4 to 7 of b: which ones stands in the digits of `which`, the lowest first. */
QS_CUDA_DEVICE uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t which) {
#if defined(__CUDA_ARCH__)
    return __byte_perm(a, b, which);
#else
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int j = 0; j < 4; j++)
        out |= (uint32_t)(both >> (8 * (which >> (4 * j) & 7)) & 0xFFu) << (8 * j);
    return out;
#endif
}

/* A whole eight of no NaNs: signs are put in where codes are one word already. */
template <int kind>
QS_CUDA_DEVICE void stochastic_numbers8(const qs__cuda_values &v, int64_t i, const float x[8], const uint32_t random[8]) {
    constexpr int each = kind == QS__CUDA_FP16 ? 2 : 4, words = 8 / each;
    packet<words> out;
    QS_CUDA_UNROLL
    for (int w = 0; w < words; w++) {
        uint32_t codes[each], signs[each];
        QS_CUDA_UNROLL
        for (int j = 0; j < each; j++) {
            codes[j] = stochastic_number<kind>(x[each * w + j], random[each * w + j]);
            signs[j] = bits_of(x[each * w + j]);
        }
        if (each == 2) {
            out.word[w] = bytes_of(codes[0], codes[1], 0x5410) | (bytes_of(signs[0], signs[1], 0x7632) & 0x80008000u);
            continue;
        }
        const uint32_t low = bytes_of(codes[0], codes[1], 0x0040), high = bytes_of(codes[2 % each], codes[3 % each], 0x0040);
        const uint32_t low_sign = bytes_of(signs[0], signs[1], 0x0073), high_sign = bytes_of(signs[2 % each], signs[3 % each], 0x0073);
        out.word[w] = bytes_of(low, high, 0x5410) | (bytes_of(low_sign, high_sign, 0x5410) & 0x80808080u);
    }
    packet_store(pointer<uint8_t>(v.at) + i * (4 / each), out);
}

template <int kind> QS_CUDA_DEVICE void stochastic_store8(const qs__cuda_values &v, int64_t i, const float x[8], const uint32_t random[8]) {
    if (kind == QS__CUDA_FP16 || kind == QS__CUDA_E4M3 || kind == QS__CUDA_E5M2) {
        bool odd = i + 8 > v.count;
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            odd |= x[j] != x[j];
        if (!odd) return stochastic_numbers8<kind>(v, i, x, random);
    }
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
