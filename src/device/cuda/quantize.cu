// SPDX-License-Identifier: Apache-2.0
/* Fixed-point codes of floats, and back. */
#include "cuda/draws.cuh"
#include "cuda/hadamard.cuh"
#include "cuda/quantize_jobs.h"
#include "cuda/stream.cuh"

/* ---- Groups of channels --------------------------------------------------------------------------------------------------------------- */

constexpr float smallest_step = 0x1p-100f;

/* 2^exponent, -126 to 127. */
QS_CUDA_DEVICE float power_of_two(int exponent) {
    return float_of((uint32_t)(exponent + 127) << 23);
}

/* qs_shift_groups without a zero point: the group of a range, where the largest is finite and not 0. Scaling is exact, or infinite. */
QS_CUDA_DEVICE int group_of(float range, float widest, int groups) {
    int group = 0;
    while (group < groups - 1 && range * power_of_two(group + 1) <= widest)
        group++;
    return group;
}

/* ---- Ranges of least squared error ------------------------------------------------------------------------------------------------- */

/* The error of a share of the range, 0 to 1, in 2^-31 of its square: number's, bit for bit. */
QS_CUDA_DEVICE uint32_t clip_error(float share, float up, float down, float most) {
    const float y = share * up, code = (y < most ? y : most) + 0x1.8p23f - 0x1.8p23f;
    const float off = share - code * down;
    return (uint32_t)(int)(off * off * 0x1p31f);
}

QS_CUDA_GLOBAL(clip_errors, qs__cuda_clip_job) {
    __shared__ unsigned long long sum[QS_CLIPS];
    const float *absmax = pointer<const float>(job.absmax);
    const int64_t parts = gridDim.x / job.units, unit = blockIdx.x / parts, part = blockIdx.x % parts;
    const float lowest = job.format.is_unsigned ? 0.0f : -1.0f;
    uint32_t high = 0;
    for (int64_t c = threadIdx.x; job.shifts > 0 && c < job.channels; c += blockDim.x)
        high = largest(high, bits_of(absmax[c]) & MAGNITUDE_BITS);
    const float widest = float_of(job.shifts > 0 ? block_max(high) : bits_of(absmax[unit]) & MAGNITUDE_BITS);
    if (!finite(widest) || widest < QS_LEAST_CLIPPED) return; /* all threads of the block */
    if (threadIdx.x < QS_CLIPS) sum[threadIdx.x] = 0;
    __syncthreads();
    const float inverse = 1.0f / widest;
    unsigned long long error[QS_CLIPS] = {0};
    for (int64_t i = part * blockDim.x + threadIdx.x; i < job.extent; i += parts * blockDim.x) {
        const int group = job.shifts > 0 ? group_of(absmax[i % job.channels], widest, job.shifts) : 0;
        const float y = value_load(job.src, unit * job.next + i * job.stride) * (inverse * (float)(1 << group));
        const float held = y > lowest ? y < 1.0f ? y : 1.0f : lowest, share = held < 0.0f ? -held : held;
        QS_CUDA_UNROLL
        for (int k = 0; k < QS_CLIPS; k++)
            error[k] += clip_error(share, job.up[k], job.down[k], job.format.max) >> 2 * group;
    }
    QS_CUDA_UNROLL
    for (int k = 0; k < QS_CLIPS; k++)
        if (error[k]) atomicAdd(&sum[k], error[k]);
    __syncthreads();
    if (threadIdx.x < QS_CLIPS) atomicAdd(pointer<unsigned long long>(job.error) + unit * QS_CLIPS + threadIdx.x, sum[threadIdx.x]);
}

QS_CUDA_GLOBAL(clip_choose, qs__cuda_clip_job) {
    for (int64_t unit = thread_number(); unit < job.units; unit += thread_count()) {
        const unsigned long long *error = pointer<const unsigned long long>(job.error) + unit * QS_CLIPS;
        int best = 0;
        for (int k = 1; k < QS_CLIPS; k++)
            if (error[k] < error[best]) best = k;
        pointer<float>(job.ratio)[unit] = job.ratios[best];
    }
}

/* ---- Steps of columns ------------------------------------------------------------------------------------------------------------- */

QS_CUDA_DEVICE float clip_ratio(uint64_t ratio, int64_t unit) {
    return ratio ? pointer<const float>(ratio)[unit] : 1.0f;
}

QS_CUDA_GLOBAL(column_steps, qs__cuda_column_steps_job) {
    const float *absmax = pointer<const float>(job.absmax);
    uint32_t high = 0;
    for (int64_t c = threadIdx.x; c < job.columns; c += blockDim.x)
        high = largest(high, bits_of(absmax[c]) & MAGNITUDE_BITS);
    const float widest = float_of(block_max(high));
    const bool usable = finite(widest) && widest > 0.0f;
    const float least = smallest_step * power_of_two(job.shifts - 1);
    const float common = (usable ? largest(widest / job.format.max, least) : 1.0f) * clip_ratio(job.shifts > 0 ? job.ratio : 0, 0);
    for (int64_t c = threadIdx.x; c < job.columns; c += blockDim.x) {
        const int group = job.shifts > 0 && usable ? group_of(absmax[c], widest, job.shifts) : 0;
        const float step =
            job.shifts > 0 ? common * power_of_two(-group) : step_of_absmax(job.format, absmax[c]) * clip_ratio(job.ratio, c);
        pointer<float>(job.factor)[c] = job.unit / step;
        if (job.shifts > 0)
            pointer<uint8_t>(job.group)[c] = (uint8_t)group;
        else
            pointer<float>(job.step)[c] = step;
    }
    if (job.shifts > 0 && threadIdx.x == 0) *pointer<float>(job.step) = common;
}

/* ---- Codes -------------------------------------------------------------------------------------------------------------------------- */

/* 1/step · unit of a row; whoever has its first element writes the step. */
QS_CUDA_DEVICE float row_factor(const qs__cuda_quantize_job &job, int64_t row, bool first) {
    const float step = step_of_absmax(job.dst.format, pointer<const float>(job.absmax)[row]) * clip_ratio(job.ratio, row);
    if (first) pointer<float>(job.step)[row] = step;
    return 1.0f / step * (job.rounding == QS_STOCHASTIC ? 65536.0f : 1.0f);
}

/* 1/step · unit of the elements i to i + 7. */
QS_CUDA_DEVICE void factors_find(const qs__cuda_quantize_job &job, int64_t i, float factor[8]) {
    int64_t at = i % job.extent; /* in its row, or which column */
    if (job.steps == QS__CUDA_COLUMN_STEPS) {
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            factor[j] = pointer<const float>(job.factor)[at];
            at = at + 1 == job.extent ? 0 : at + 1;
        }
        return;
    }
    int64_t row = i / job.extent;
    float one = row_factor(job, row, at == 0);
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++) {
        factor[j] = one;
        if (++at < job.extent || j == 7 || i + j + 1 >= job.src.count) continue;
        at = 0;
        one = row_factor(job, ++row, true);
    }
}

/* What training quantizes all the time, values of 16 bits with one step, is a stream; of others two eights are on their way together. */
template <int rounding> QS_CUDA_DEVICE void quantize_all(const qs__cuda_quantize_job &job) {
    constexpr int AHEAD = 2;
    const fixed_range range = fixed_range_of(job.dst.format);
    const float shared = job.steps == QS__CUDA_ONE_STEP ? row_factor(job, 0, thread_number() == 0) : 0.0f;
    const int64_t stride = 8 * thread_count();
    int64_t taken = 0;
    if constexpr (rounding == QS_NEAREST_EVEN || rounding == QS_STOCHASTIC) {
        qs__cuda_draws draws = job.draws;
        draws.gap = 0;
        with_half_kind(job.steps == QS__CUDA_ONE_STEP && !job.draws.gap ? job.src.format.kind : QS__CUDA_FLOAT, [&](auto kind) {
            taken = stream<decltype(kind)::value, QS__CUDA_INTEGER>(job.src, job.dst, [&](int64_t i, const float *x, uint32_t *code) {
                uint32_t half[8] = {0};
                if (rounding == QS_STOCHASTIC) draw_halves(draws, i, half);
                QS_CUDA_UNROLL
                for (int j = 0; j < 8; j++)
                    code[j] = (uint32_t)quantize_scaled<rounding>(range, x[j] * shared, half[j]);
            });
        });
    }
    for (int64_t first = taken + 8 * thread_number(); first < job.src.count; first += AHEAD * stride) {
        float x[AHEAD][8];
        QS_CUDA_UNROLL
        for (int e = 0; e < AHEAD; e++)
            value_load8(job.src, first + e * stride, x[e]);
        QS_CUDA_UNROLL
        for (int e = 0; e < AHEAD; e++) {
            const int64_t i = first + e * stride;
            float factor[8] = {shared, shared, shared, shared, shared, shared, shared, shared};
            uint32_t half[8] = {0}, code[8];
            if (i >= job.src.count) break;
            if (rounding == QS_STOCHASTIC) draw_halves(job.draws, i, half);
            if (job.steps != QS__CUDA_ONE_STEP) factors_find(job, i, factor);
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j++)
                code[j] = (uint32_t)quantize_scaled<rounding>(range, x[e][j] * factor[j], half[j]);
            code_store8_kind<QS__CUDA_INTEGER>(job.dst, i, code);
        }
    }
}

QS_CUDA_RESIDENT(quantize, qs__cuda_quantize_job, STREAM_THREADS, STREAM_BLOCKS) {
    with_rounding(job.rounding, [&](auto rounding) { quantize_all<decltype(rounding)::value>(job); });
}

/* Codes of what a transform makes of them. */
QS_CUDA_GLOBAL(quantize_transformed, qs__cuda_quantize_job) {
    const fixed_range range = fixed_range_of(job.dst.format);
    const float factor = row_factor(job, 0, thread_number() == 0);
    const int64_t groups = transform_groups(job.transform, job.src.count);
    for (int64_t g = thread_number() / WARP; g < groups; g += thread_count() / WARP) {
        const transformed two = transform_load(job.src, job.transform, g);
        for (int half = 0; half < 2; half++) {
            const int64_t i = two.element[half];
            if (i < 0) continue;
            const float y = (half ? two.x[1] : two.x[0]) * factor;
            const uint32_t draw = job.rounding == QS_STOCHASTIC ? random_half(job.draws.key, draw_counter(job.draws, i)) : 0;
            with_rounding(job.rounding, [&](auto rounding) {
                pointer<int8_t>(job.dst.at)[i] = (int8_t)quantize_scaled<decltype(rounding)::value>(range, y, draw);
            });
        }
    }
}

/* ---- And back ----------------------------------------------------------------------------------------------------------------------------- */

/* Codes times their steps, of the elements i to i + 7, where there are several. */
QS_CUDA_DEVICE void values_find(const qs__cuda_dequantize_job &job, int64_t i, float shared, float x[8]) {
    const float *steps = pointer<const float>(job.step);
    int64_t at = i % job.extent, row = job.steps == QS__CUDA_ROW_STEPS ? i / job.extent : 0;
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++) {
        float step = shared;
        if (i + j >= job.src.count) break;
        if (job.steps == QS__CUDA_ROW_STEPS) step = steps[row];
        if (job.steps == QS__CUDA_COLUMN_STEPS) step *= power_of_two(-(int)pointer<const uint8_t>(job.group)[at]);
        x[j] *= step;
        if (++at < job.extent) continue;
        at = 0;
        row++;
    }
}

QS_CUDA_GLOBAL(dequantize, qs__cuda_dequantize_job) {
    const float shared = *pointer<const float>(job.step);
    int64_t taken = 0;
    const auto flow = [&](auto to) {
        constexpr int TO = decltype(to)::value, WIDTH = stream_width<TO>;
        taken = stream<QS__CUDA_INTEGER, TO>(job.src, job.dst, [&](int64_t, float *x, uint32_t *code) {
            QS_CUDA_UNROLL
            for (int j = 0; j < WIDTH; j++)
                x[j] *= shared;
            stream_codes<TO>(job.dst.format, x, code);
        });
    };
    if (job.steps == QS__CUDA_ONE_STEP) {
        if (job.dst.format.kind == QS__CUDA_FP32) flow(constant<QS__CUDA_FP32>());
        with_half_kind(job.dst.format.kind, flow);
    }
    for (int64_t i = taken + 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        value_load8_kind<QS__CUDA_INTEGER>(job.src, i, x);
        if (job.steps == QS__CUDA_ONE_STEP) {
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j++)
                x[j] *= shared;
        } else {
            values_find(job, i, shared, x);
        }
        value_store8(job.dst, i, x);
    }
}
