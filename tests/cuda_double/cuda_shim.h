// SPDX-License-Identifier: Apache-2.0
/* CUDA C++ for a host compiler, as far as our own kernels go: a kernel is a function that is found by its name, and a block of threads runs
 * on one thread of the host. A test double.
 *
 * Threads of a block run one after the other until they end or meet a barrier or an exchange with their warp; then each is a fiber that
 * goes on when all have come (shim.cpp). What a GPU leaves undefined ends the process with a message: threads that end, or wait elsewhere,
 * while others wait for them; exchanges that do not name the whole warp. */
#ifndef QSYNC_TESTS_CUDA_SHIM_H
#define QSYNC_TESTS_CUDA_SHIM_H

#include <cmath>
#include <cstdint>
#include <cstring>

/* float4, uint4 and the like as the toolkit has them; its words for functions and places mean nothing here. */
#include <vector_functions.h>
#include <vector_types.h>
#undef __shared__
#undef __constant__
#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __shared__ static /* one block runs at a time */
#define __constant__ static
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

/* ---- Kernels, found by name --------------------------------------------------------------------------------------------------- */

struct qs_shim_kernel {
    const char *name;
    size_t job_bytes;
    void (*entry)(const void *job);
    qs_shim_kernel *next;
};
void qs_shim_register(qs_shim_kernel *kernel);
struct qs_shim_registration {
    explicit qs_shim_registration(qs_shim_kernel *kernel) {
        qs_shim_register(kernel);
    }
};

#define QS_CUDA_GLOBAL(name, job_type)                                                     \
    static void name([[maybe_unused]] const job_type &job);                                \
    static void name##_enter(const void *job) {                                            \
        name(*static_cast<const job_type *>(job));                                         \
    }                                                                                      \
    static qs_shim_kernel name##_known = {#name, sizeof(job_type), name##_enter, nullptr}; \
    static const qs_shim_registration name##_registration(&name##_known);                  \
    static void name([[maybe_unused]] const job_type &job)

/* ---- Threads ------------------------------------------------------------------------------------------------------------------- */

struct qs_shim_index {
    unsigned x, y, z;
};
extern qs_shim_index qs_shim_thread, qs_shim_block;
extern qs_shim_index qs_shim_block_extent, qs_shim_grid_extent;
#define threadIdx (*const_cast<const qs_shim_index *>(&qs_shim_thread))
#define blockIdx (*const_cast<const qs_shim_index *>(&qs_shim_block))
#define blockDim (*const_cast<const qs_shim_index *>(&qs_shim_block_extent))
#define gridDim (*const_cast<const qs_shim_index *>(&qs_shim_grid_extent))
static const int warpSize = 32;

void *qs_shim_dynamic_shared();
#define QS_CUDA_SHARED(type, name) type *const name = static_cast<type *>(qs_shim_dynamic_shared())

/* Until all threads of the block have come; how many brought something else than 0. */
int qs_shim_block_meet(int brought, const char *file, int line);
#define __syncthreads() ((void)qs_shim_block_meet(0, __FILE__, __LINE__))
#define __syncthreads_count(predicate) qs_shim_block_meet((predicate) ? 1 : 0, __FILE__, __LINE__)
#define __syncthreads_or(predicate) (qs_shim_block_meet((predicate) ? 1 : 0, __FILE__, __LINE__) != 0)
#define __syncthreads_and(predicate) (qs_shim_block_meet((predicate) ? 0 : 1, __FILE__, __LINE__) == 0)

/* Until all of the warp have come, each with a value; what every lane brought (0 of lanes that the block does not have). */
struct qs_shim_lanes {
    const uint64_t *value; /* (32) */
    unsigned there;        /* bits of lanes that the block has */
    int lane;              /* who asks */
};
qs_shim_lanes qs_shim_warp_meet(const char *what, unsigned mask, uint64_t value);

template <typename T>
T qs_shim_from(const char *what, unsigned mask, T value, int width, int (*whose)(int lane, int by, int width), int by) {
    static_assert(sizeof(T) <= 8, "a warp exchanges values of up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const qs_shim_lanes all = qs_shim_warp_meet(what, mask, bits);
    const int from = whose(all.lane, by, width);
    if (from < 0 || !(all.there >> from & 1)) return value; /* beyond the part of the warp, or the block: its own */
    memcpy(&value, &all.value[from], sizeof value);
    return value;
}
static inline int qs_shim_whose(int lane, int by, int width) {
    return (lane & ~(width - 1)) + (by & (width - 1));
}
static inline int qs_shim_whose_up(int lane, int by, int width) {
    return (lane & (width - 1)) < by ? -1 : lane - by;
}
static inline int qs_shim_whose_down(int lane, int by, int width) {
    return (lane & (width - 1)) + by >= width ? -1 : lane + by;
}
static inline int qs_shim_whose_xor(int lane, int by, int width) {
    const int from = lane ^ by;
    return (from & ~(width - 1)) > (lane & ~(width - 1)) ? -1 : from;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return qs_shim_from("__shfl_sync", mask, value, width, qs_shim_whose, lane);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    return qs_shim_from("__shfl_up_sync", mask, value, width, qs_shim_whose_up, (int)by);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    return qs_shim_from("__shfl_down_sync", mask, value, width, qs_shim_whose_down, (int)by);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
    return qs_shim_from("__shfl_xor_sync", mask, value, width, qs_shim_whose_xor, by);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    (void)qs_shim_warp_meet("__syncwarp", mask, 0);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const qs_shim_lanes all = qs_shim_warp_meet("__ballot_sync", mask, predicate ? 1 : 0);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++)
        bits |= (unsigned)all.value[lane] << lane;
    return bits;
}
static inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, !predicate) == 0;
}
template <typename T, typename F> T qs_shim_reduce(const char *what, unsigned mask, T value, F join) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const qs_shim_lanes all = qs_shim_warp_meet(what, mask, bits);
    for (int lane = 0; lane < 32; lane++) {
        T other;
        memcpy(&other, &all.value[lane], sizeof other);
        if (lane != all.lane && (all.there >> lane & 1)) value = join(value, other);
    }
    return value;
}
template <typename T> T __reduce_add_sync(unsigned mask, T value) {
    return qs_shim_reduce("__reduce_add_sync", mask, value, [](T a, T b) { return a + b; });
}
template <typename T> T __reduce_max_sync(unsigned mask, T value) {
    return qs_shim_reduce("__reduce_max_sync", mask, value, [](T a, T b) { return a > b ? a : b; });
}
template <typename T> T __reduce_min_sync(unsigned mask, T value) {
    return qs_shim_reduce("__reduce_min_sync", mask, value, [](T a, T b) { return a < b ? a : b; });
}

/* ---- Atomics: one thread runs at a time ------------------------------------------------------------------------------------------ */

/* The pointer says of what type the value is. */
template <typename T> struct qs_shim_plain { typedef T type; };
template <typename T> T atomicAdd(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    *at = old + value;
    return old;
}
template <typename T> T atomicMax(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    if (value > old) *at = value;
    return old;
}
template <typename T> T atomicMin(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    if (value < old) *at = value;
    return old;
}
template <typename T> T atomicOr(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    *at = old | value;
    return old;
}
template <typename T> T atomicAnd(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    *at = old & value;
    return old;
}
template <typename T> T atomicExch(T *at, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    *at = value;
    return old;
}
template <typename T> T atomicCAS(T *at, typename qs_shim_plain<T>::type expected, typename qs_shim_plain<T>::type value) {
    const T old = *at;
    if (old == expected) *at = value;
    return old;
}
static inline void __threadfence() {
}
static inline void __threadfence_block() {
}
static inline void __threadfence_system() {
}

/* ---- Arithmetic ------------------------------------------------------------------------------------------------------------------ */

template <typename To, typename From> static inline To qs_shim_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x) {
    return qs_shim_bits<unsigned>(x);
}
static inline int __float_as_int(float x) {
    return qs_shim_bits<int>(x);
}
static inline float __uint_as_float(unsigned x) {
    return qs_shim_bits<float>(x);
}
static inline float __int_as_float(int x) {
    return qs_shim_bits<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return qs_shim_bits<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return qs_shim_bits<double>(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)a * b >> 64);
}
static inline int __float2int_rn(float x) {
    return (int)rintf(x);
}
static inline int __float2int_rz(float x) {
    return (int)x;
}
static inline unsigned __float2uint_rn(float x) {
    return (unsigned)rintf(x);
}
static inline unsigned __float2uint_rz(float x) {
    return (unsigned)x;
}
static inline float __int2float_rn(int x) {
    return (float)x;
}
static inline float __uint2float_rn(unsigned x) {
    return (float)x;
}
static inline float __double2float_rn(double x) {
    return (float)x;
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
template <typename T> static inline T __ldg(const T *at) {
    return *at;
}
template <typename T> static inline T __ldcs(const T *at) {
    return *at;
}
template <typename T> static inline void __stcs(T *at, T value) {
    *at = value;
}
static inline void __nanosleep(unsigned) {
}
[[noreturn]] void qs_shim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] static inline void __trap() {
    qs_shim_fail("a kernel trapped");
}

#define QS_SHIM_EXTREMES(type)               \
    static inline type min(type a, type b) { \
        return b < a ? b : a;                \
    }                                        \
    static inline type max(type a, type b) { \
        return a < b ? b : a;                \
    }
QS_SHIM_EXTREMES(int)
QS_SHIM_EXTREMES(unsigned)
QS_SHIM_EXTREMES(long)
QS_SHIM_EXTREMES(unsigned long)
QS_SHIM_EXTREMES(long long)
QS_SHIM_EXTREMES(unsigned long long)
#undef QS_SHIM_EXTREMES
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline double min(double a, double b) {
    return fmin(a, b);
}
static inline double max(double a, double b) {
    return fmax(a, b);
}

#endif
