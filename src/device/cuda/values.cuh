// SPDX-License-Identifier: Apache-2.0
/* What kernels share: values in storage of any format, complaints about data, and reductions of a block.
 *
 * Which format an operand has is a field of its job, the same for all threads: branches on it cost no divergence. Values come one by one,
 * or in eights of memory order, whose accesses are of 16 bytes where the format allows:
 *     for (int64_t i = 8 * thread_number(); i < v.count; i += 8 * thread_count()) { float x[8]; value_load8(v, i, x); ... } */
#ifndef QSYNC_DEVICE_CUDA_VALUES_CUH
#define QSYNC_DEVICE_CUDA_VALUES_CUH

#include "cuda/arithmetic.cuh"

/* ---- Threads -------------------------------------------------------------------------------------------------------------------- */

/* This thread among all of the grid, and how many they are: of loops that stride over elements. */
QS_CUDA_DEVICE int64_t thread_number() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

QS_CUDA_DEVICE int64_t thread_count() {
    return (int64_t)gridDim.x * blockDim.x;
}

#if defined(__CUDACC__)
/* Dynamic shared memory, as many bytes as the launch asks for. */
#define QS_CUDA_SHARED(type, name)                                  \
    extern __shared__ __align__(16) unsigned char qs_cuda_shared[]; \
    type *const name = (type *)qs_cuda_shared
#endif

/* ---- Memory ---------------------------------------------------------------------------------------------------------------------- */

template <typename T> QS_CUDA_DEVICE T *pointer(uint64_t at) {
    return (T *)(uintptr_t)at;
}

/* Words at an address that is a multiple of their bytes. */
template <int words> struct alignas(4 * words) packet { uint32_t word[words]; };

template <int words> QS_CUDA_DEVICE packet<words> packet_load(const void *at) {
    packet<words> out;
#if defined(__CUDACC__)
    if (words == 4) {
        const uint4 x = *(const uint4 *)at;
        memcpy(&out, &x, sizeof out);
    } else {
        const uint2 x = *(const uint2 *)at;
        memcpy(&out, &x, sizeof out);
    }
#else
    memcpy(&out, at, sizeof out);
#endif
    return out;
}

template <int words> QS_CUDA_DEVICE void packet_store(void *at, const packet<words> &x) {
#if defined(__CUDACC__)
    if (words == 4)
        *(uint4 *)at = make_uint4(x.word[0], x.word[1], x.word[words - 2], x.word[words - 1]);
    else
        *(uint2 *)at = make_uint2(x.word[0], x.word[1]);
#else
    memcpy(at, &x, sizeof x);
#endif
}

/* ---- Strings of bits: formats whose codes are no whole bytes ------------------------------------------------------------------------ */

/* Code i of a string of `count` codes; no byte beyond the string is read. */
QS_CUDA_DEVICE uint32_t string_load(const uint8_t *at, int bits, int64_t i) {
    if (bits == 32) return ((const uint32_t *)at)[i];
    const uint64_t first = (uint64_t)i * (uint64_t)bits;
    const int skipped = (int)(first & 7);
    uint64_t word = 0;
    for (int b = 0; 8 * b < skipped + bits; b++)
        word |= (uint64_t)at[(first >> 3) + (uint64_t)b] << (8 * b);
    return (uint32_t)(word >> skipped) & (bits == 32 ? UINT32_MAX : (1u << bits) - 1);
}

/* Writes code i; others write their own into the same bytes meanwhile. */
QS_CUDA_DEVICE void string_store(uint8_t *at, int bits, int64_t i, uint32_t code) {
    if (bits == 32) {
        ((uint32_t *)at)[i] = code;
        return;
    }
    const uint64_t first = (uint64_t)i * (uint64_t)bits + ((uint64_t)(uintptr_t)at & 3) * 8;
    unsigned *word = (unsigned *)((uintptr_t)at & ~(uintptr_t)3) + (first >> 5);
    const uint64_t mask = (bits == 32 ? UINT32_MAX : (1ull << bits) - 1) << (first & 31), placed = (uint64_t)code << (first & 31);
    for (int half = 0; half < 2; half++) {
        const unsigned taken = (unsigned)(mask >> (32 * half)), value = (unsigned)(placed >> (32 * half));
        if (!taken) break;
        unsigned old = word[half], before;
        do {
            before = old;
            old = atomicCAS(word + half, before, (before & ~taken) | value);
        } while (old != before);
    }
}

/* ---- Values -------------------------------------------------------------------------------------------------------------------------- */

template <typename Use> QS_CUDA_DEVICE auto with_kind(int kind, Use use) {
    switch (kind) {
    case QS__CUDA_FP32:
        return use(constant<QS__CUDA_FP32>());
    case QS__CUDA_BF16:
        return use(constant<QS__CUDA_BF16>());
    case QS__CUDA_FP16:
        return use(constant<QS__CUDA_FP16>());
    case QS__CUDA_E4M3:
        return use(constant<QS__CUDA_E4M3>());
    case QS__CUDA_E5M2:
        return use(constant<QS__CUDA_E5M2>());
    case QS__CUDA_INTEGER:
        return use(constant<QS__CUDA_INTEGER>());
    default:
        return use(constant<QS__CUDA_FLOAT>());
    }
}

/* Storage codes of floats, and bytes of integers (sign-extended). */
template <int kind> QS_CUDA_DEVICE uint32_t code_load_kind(const qs__cuda_values &v, int64_t i) {
    if (kind == QS__CUDA_FP32) return pointer<const uint32_t>(v.at)[i];
    if (kind == QS__CUDA_BF16 || kind == QS__CUDA_FP16) return pointer<const uint16_t>(v.at)[i];
    if (kind == QS__CUDA_E4M3 || kind == QS__CUDA_E5M2) return pointer<const uint8_t>(v.at)[i];
    if (kind == QS__CUDA_INTEGER) return (uint32_t)pointer<const int8_t>(v.at)[i];
    return string_load(pointer<const uint8_t>(v.at), v.format.bits, i);
}

template <int kind> QS_CUDA_DEVICE void code_store_kind(const qs__cuda_values &v, int64_t i, uint32_t code) {
    if (kind == QS__CUDA_FP32)
        pointer<uint32_t>(v.at)[i] = code;
    else if (kind == QS__CUDA_BF16 || kind == QS__CUDA_FP16)
        pointer<uint16_t>(v.at)[i] = (uint16_t)code;
    else if (kind == QS__CUDA_FLOAT)
        string_store(pointer<uint8_t>(v.at), v.format.bits, i, code);
    else
        pointer<uint8_t>(v.at)[i] = (uint8_t)code;
}

QS_CUDA_DEVICE uint32_t code_load(const qs__cuda_values &v, int64_t i) {
    return with_kind(v.format.kind, [&](auto kind) { return code_load_kind<decltype(kind)::value>(v, i); });
}

QS_CUDA_DEVICE void code_store(const qs__cuda_values &v, int64_t i, uint32_t code) {
    with_kind(v.format.kind, [&](auto kind) { code_store_kind<decltype(kind)::value>(v, i, code); });
}

/* The value of a code, as code_load gives it. */
template <int kind> QS_CUDA_DEVICE float value_of_kind(const qs__cuda_format &format, uint32_t code) {
    if (kind == QS__CUDA_FP32) return float_of(code);
    if (kind == QS__CUDA_BF16) return bf16_decode(code);
    if (kind == QS__CUDA_FP16) return fp16_decode(code);
    if (kind == QS__CUDA_E4M3) return e4m3_decode(code);
    if (kind == QS__CUDA_E5M2) return e5m2_decode(code);
    if (kind == QS__CUDA_INTEGER) return (float)(int)code;
    return decode(plan_of(format), code);
}

QS_CUDA_DEVICE float value_of(const qs__cuda_format &format, uint32_t code) {
    return with_kind(format.kind, [&](auto kind) { return value_of_kind<decltype(kind)::value>(format, code); });
}

/* And the code of the nearest value, as qs_convert_from_fp32 with QS_NEAREST_EVEN and QS_OVERFLOW_DEFAULT; integers: as qs_round_value. */
template <int kind> QS_CUDA_DEVICE uint32_t code_of_kind(const qs__cuda_format &format, float x) {
    if (kind == QS__CUDA_FP32) return bits_of(x);
    if (kind == QS__CUDA_BF16) return bf16_encode(x);
    if (kind == QS__CUDA_FP16) return fp16_encode(x);
    if (kind == QS__CUDA_E4M3) return e4m3_encode(x);
    if (kind == QS__CUDA_E5M2) return e5m2_encode(x);
    if (kind == QS__CUDA_INTEGER) return (uint32_t)quantize_scaled<QS_NEAREST_EVEN>(fixed_range_of(format), x, 0);
    return round_float(plan_of(format), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, x, 0).code;
}

QS_CUDA_DEVICE uint32_t code_of(const qs__cuda_format &format, float x) {
    return with_kind(format.kind, [&](auto kind) { return code_of_kind<decltype(kind)::value>(format, x); });
}

/* The same with any rounding and policy: qs_convert_from_fp32. fp32 is copied, NaNs as they are, unless it saturates. */
QS_CUDA_DEVICE uint32_t round_code(const qs__cuda_format &format, int rounding, int overflow, float x, uint32_t random) {
    if (format.kind == QS__CUDA_FP32 && overflow != QS_OVERFLOW_SATURATE) return bits_of(x);
    return round_float(plan_of(format), rounding, overflow, x, random).code;
}

/* qs_round_value, integers too. */
QS_CUDA_DEVICE float round_value(const qs__cuda_format &format, int rounding, int overflow, float x, uint32_t random, bool *overflowed) {
    if (format.kind == QS__CUDA_INTEGER) {
        const float code = (float)round_integer(fixed_range_of(format), rounding, x, random >> 16);
        const float wide = (float)round_integer({-0x1p10f, 0x1p10f, false}, rounding, x, random >> 16);
        const bool beyond = format.is_logarithmic ? !(x >= -format.max && x <= format.max) : wide != code;
        *overflowed = beyond || bits_of(x) << 1 > INFINITY_BITS << 1;
        return code;
    }
    const rounded out = round_float(plan_of(format), rounding, overflow, x, random);
    *overflowed = out.overflowed;
    return out.value;
}

QS_CUDA_DEVICE float value_load(const qs__cuda_values &v, int64_t i) {
    return with_kind(v.format.kind, [&](auto kind) {
        return value_of_kind<decltype(kind)::value>(v.format, code_load_kind<decltype(kind)::value>(v, i));
    });
}

QS_CUDA_DEVICE void value_store(const qs__cuda_values &v, int64_t i, float x) {
    with_kind(v.format.kind,
              [&](auto kind) { code_store_kind<decltype(kind)::value>(v, i, code_of_kind<decltype(kind)::value>(v.format, x)); });
}

/* ---- Eights: i is a multiple of 8; what lies behind v.count is read as 0 and not written ------------------------------------------------- */

/* Codes of a whole eight. */
template <int kind> QS_CUDA_DEVICE void whole_load8(const qs__cuda_values &v, int64_t i, uint32_t code[8]) {
    if (kind == QS__CUDA_FP32) {
        QS_CUDA_UNROLL
        for (int h = 0; h < 2; h++) {
            const packet<4> in = packet_load<4>(pointer<const uint32_t>(v.at) + i + 4 * h);
            QS_CUDA_UNROLL
            for (int j = 0; j < 4; j++)
                code[4 * h + j] = in.word[j];
        }
    } else if (kind == QS__CUDA_BF16 || kind == QS__CUDA_FP16) {
        const packet<4> in = packet_load<4>(pointer<const uint16_t>(v.at) + i);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            code[j] = in.word[j / 2] >> (j % 2 * 16) & 0xFFFFu;
    } else if (kind == QS__CUDA_FLOAT) {
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            code[j] = string_load(pointer<const uint8_t>(v.at), v.format.bits, i + j);
    } else {
        const packet<2> in = packet_load<2>(pointer<const uint8_t>(v.at) + i);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            const uint32_t byte = in.word[j / 4] >> (j % 4 * 8) & 0xFFu;
            code[j] = kind == QS__CUDA_INTEGER ? (uint32_t)(int8_t)byte : byte;
        }
    }
}

/* Eight codes of a string fill `bits` whole bytes, which are this thread's alone; the last ones of a string less. */
QS_CUDA_DEVICE void string_store8(const qs__cuda_values &v, int64_t i, const uint32_t code[8]) {
    const int bits = v.format.bits;
    uint8_t *at = pointer<uint8_t>(v.at) + i / 8 * bits;
    uint64_t waiting = 0;
    int filled = 0;
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++) {
        if (i + j >= v.count) break;
        waiting |= (uint64_t)code[j] << filled;
        for (filled += bits; filled >= 8; filled -= 8) {
            *at++ = (uint8_t)waiting;
            waiting >>= 8;
        }
    }
    if (filled) *at = (uint8_t)waiting;
}

template <int kind> QS_CUDA_DEVICE void whole_store8(const qs__cuda_values &v, int64_t i, const uint32_t code[8]) {
    if (kind == QS__CUDA_FP32) {
        QS_CUDA_UNROLL
        for (int h = 0; h < 2; h++) {
            const packet<4> out = {{code[4 * h], code[4 * h + 1], code[4 * h + 2], code[4 * h + 3]}};
            packet_store(pointer<uint32_t>(v.at) + i + 4 * h, out);
        }
    } else if (kind == QS__CUDA_BF16 || kind == QS__CUDA_FP16) {
        packet<4> out;
        QS_CUDA_UNROLL
        for (int j = 0; j < 4; j++)
            out.word[j] = (code[2 * j] & 0xFFFFu) | code[2 * j + 1] << 16;
        packet_store(pointer<uint16_t>(v.at) + i, out);
    } else if (kind == QS__CUDA_FLOAT) {
        string_store8(v, i, code);
    } else {
        packet<2> out;
        QS_CUDA_UNROLL
        for (int j = 0; j < 2; j++)
            out.word[j] = (code[4 * j] & 0xFFu) | (code[4 * j + 1] & 0xFFu) << 8 | (code[4 * j + 2] & 0xFFu) << 16 | code[4 * j + 3] << 24;
        packet_store(pointer<uint8_t>(v.at) + i, out);
    }
}

/* Floats of whole bytes are stored as the ones with paths of their own are: calls `use` with constant<a kind of so many bytes>. */
template <int kind, typename Use> QS_CUDA_DEVICE void with_width(int bits, Use use) {
    if (kind == QS__CUDA_FLOAT && bits == 8) return use(constant<QS__CUDA_E4M3>());
    if (kind == QS__CUDA_FLOAT && bits == 16) return use(constant<QS__CUDA_BF16>());
    if (kind == QS__CUDA_FLOAT && bits == 32) return use(constant<QS__CUDA_FP32>());
    use(constant<kind>());
}

template <int kind> QS_CUDA_DEVICE void code_load8_kind(const qs__cuda_values &v, int64_t i, uint32_t code[8]) {
    if (i + 8 <= v.count) {
        with_width<kind>(v.format.bits, [&](auto as) { whole_load8<decltype(as)::value>(v, i, code); });
        return;
    }
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        code[j] = i + j < v.count ? code_load_kind<kind>(v, i + j) : 0;
}

template <int kind> QS_CUDA_DEVICE void code_store8_kind(const qs__cuda_values &v, int64_t i, const uint32_t code[8]) {
    if (i + 8 <= v.count) {
        with_width<kind>(v.format.bits, [&](auto as) { whole_store8<decltype(as)::value>(v, i, code); });
    } else if (kind == QS__CUDA_FLOAT) {
        string_store8(v, i, code);
    } else {
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            if (i + j < v.count) code_store_kind<kind>(v, i + j, code[j]);
    }
}

/* Values of eight codes, and codes of eight values: by the GPU's own conversions, two at a time where it has those, unless one is a NaN,
 * whose bits they do not keep. */
template <int kind> QS_CUDA_DEVICE void values_of8_kind(const qs__cuda_format &format, const uint32_t code[8], float x[8]) {
#if defined(__CUDA_ARCH__)
    if (kind == QS__CUDA_FP16) {
        bool odd = false;
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            asm("cvt.f32.f16 %0, %1;" : "=f"(x[j]) : "h"((uint16_t)code[j]));
            odd |= x[j] != x[j];
        }
        if (!odd) return;
    }
#endif
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        x[j] = value_of_kind<kind>(format, code[j]);
}

template <int kind> QS_CUDA_DEVICE void codes_of8_kind(const qs__cuda_format &format, const float x[8], uint32_t code[8]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (kind == QS__CUDA_BF16 || kind == QS__CUDA_FP16) {
        bool odd = false;
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            odd |= x[j] != x[j];
        if (!odd) {
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j += 2) {
                uint32_t pair;
                if (kind == QS__CUDA_BF16)
                    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[j + 1]), "f"(x[j]));
                else
                    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[j + 1]), "f"(x[j]));
                code[j] = pair & 0xFFFFu;
                code[j + 1] = pair >> 16;
            }
            return;
        }
    }
#endif
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        code[j] = code_of_kind<kind>(format, x[j]);
}

template <int kind> QS_CUDA_DEVICE void value_load8_kind(const qs__cuda_values &v, int64_t i, float x[8]) {
    uint32_t code[8];
    code_load8_kind<kind>(v, i, code);
    values_of8_kind<kind>(v.format, code, x);
}

template <int kind> QS_CUDA_DEVICE void value_store8_kind(const qs__cuda_values &v, int64_t i, const float x[8]) {
    uint32_t code[8];
    codes_of8_kind<kind>(v.format, x, code);
    code_store8_kind<kind>(v, i, code);
}

QS_CUDA_DEVICE void values_of8(const qs__cuda_format &format, const uint32_t code[8], float x[8]) {
    with_kind(format.kind, [&](auto kind) { values_of8_kind<decltype(kind)::value>(format, code, x); });
}

QS_CUDA_DEVICE void codes_of8(const qs__cuda_format &format, const float x[8], uint32_t code[8]) {
    with_kind(format.kind, [&](auto kind) { codes_of8_kind<decltype(kind)::value>(format, x, code); });
}

QS_CUDA_DEVICE void code_load8(const qs__cuda_values &v, int64_t i, uint32_t code[8]) {
    with_kind(v.format.kind, [&](auto kind) { code_load8_kind<decltype(kind)::value>(v, i, code); });
}

QS_CUDA_DEVICE void code_store8(const qs__cuda_values &v, int64_t i, const uint32_t code[8]) {
    with_kind(v.format.kind, [&](auto kind) { code_store8_kind<decltype(kind)::value>(v, i, code); });
}

QS_CUDA_DEVICE void value_load8(const qs__cuda_values &v, int64_t i, float x[8]) {
    with_kind(v.format.kind, [&](auto kind) { value_load8_kind<decltype(kind)::value>(v, i, x); });
}

QS_CUDA_DEVICE void value_store8(const qs__cuda_values &v, int64_t i, const float x[8]) {
    with_kind(v.format.kind, [&](auto kind) { value_store8_kind<decltype(kind)::value>(v, i, x); });
}

/* Eight values from anywhere; x[k] stays as it is where at[k] is below 0. */
QS_CUDA_DEVICE void value_gather8(const qs__cuda_values &v, const int64_t at[8], float x[8]) {
    with_kind(v.format.kind, [&](auto kind) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            if (at[k] >= 0) x[k] = value_of_kind<decltype(kind)::value>(v.format, code_load_kind<decltype(kind)::value>(v, at[k]));
    });
}

/* ---- Complaints ---------------------------------------------------------------------------------------------------------------------- */

/* What is wrong with the data, unless something was before: `at` and `number` are of the job. */
QS_CUDA_DEVICE void complain(uint64_t at, int number, int value, int64_t index) {
    qs__cuda_complaint *complaint = pointer<qs__cuda_complaint>(at);
    if (atomicCAS(&complaint->number, 0, number) != 0) return;
    complaint->value = value;
    complaint->index = index;
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------------------------ */

/* All threads of a block (a multiple of 32) take part, and all have the result. The order is fixed: a tree over the lanes of a warp, then
 * warp by warp. */
constexpr int WARP = 32, MOST_WARPS = 32;
constexpr unsigned WHOLE_WARP = 0xFFFFFFFFu;

struct sum_of {
    template <typename T> QS_CUDA_DEVICE_MEMBER T operator()(T a, T b) const {
        return a + b;
    }
};

struct largest_of {
    template <typename T> QS_CUDA_DEVICE_MEMBER T operator()(T a, T b) const {
        return largest(a, b);
    }
};

struct least_of {
    template <typename T> QS_CUDA_DEVICE_MEMBER T operator()(T a, T b) const {
        return least(a, b);
    }
};

template <typename T, typename Two> QS_CUDA_DEVICE T warp_reduce(T x, Two two) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = two(x, __shfl_xor_sync(WHOLE_WARP, x, distance));
    return x;
}

template <typename T, typename Two> QS_CUDA_DEVICE T block_reduce(T x, Two two) {
    __shared__ T part[MOST_WARPS];
    const int warps = (int)blockDim.x / WARP;
    x = warp_reduce(x, two);
    if (warps == 1) return x;
    __syncthreads(); /* what an earlier reduction left was read */
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
    __syncthreads();
    x = part[0];
    for (int w = 1; w < warps; w++)
        x = two(x, part[w]);
    return x;
}

template <typename T> QS_CUDA_DEVICE T warp_sum(T x) {
    return warp_reduce(x, sum_of());
}

template <typename T> QS_CUDA_DEVICE T block_sum(T x) {
    return block_reduce(x, sum_of());
}

/* Of floats that are not NaN, and of integers: magnitudes as bits, whose order has NaN on top. */
template <typename T> QS_CUDA_DEVICE T block_max(T x) {
    return block_reduce(x, largest_of());
}

template <typename T> QS_CUDA_DEVICE T block_min(T x) {
    return block_reduce(x, least_of());
}

#endif
