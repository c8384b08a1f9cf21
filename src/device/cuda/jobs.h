// SPDX-License-Identifier: Apache-2.0
/* What our own kernels take, as C that fills it and CUDA C++ that reads it see it alike: values of any format at an address, and one job, a
 * struct, for each kernel. */
#ifndef QSYNC_DEVICE_CUDA_JOBS_H
#define QSYNC_DEVICE_CUDA_JOBS_H

#include <stdint.h>

#if defined(__CUDACC__)
/* qs__cuda_kernel_of(name, job type): head of a kernel of ours; its job is `job`. */
#define QS_CUDA_GLOBAL(name, job_type) extern "C" __global__ void name(const __grid_constant__ job_type job)
#define QS_CUDA_INLINE __host__ __device__ __forceinline__
#elif defined(__cplusplus)
#include "cuda_shim.h" /* of the tests: blocks and threads as loops */
#define QS_CUDA_INLINE inline
#else
#define QS_CUDA_INLINE static inline
#endif

/* ---- Formats and values --------------------------------------------------------------------------------------------------------- */

/* How storage is read and written: the first ones have paths of their own. FLOAT is any other float format of a whole number of bytes or
 * not, one string of bits (qs_format_bytes). INTEGER: one byte a code, whatever its bits. */
typedef enum qs__cuda_kind {
    QS__CUDA_FP32,
    QS__CUDA_BF16,
    QS__CUDA_FP16,
    QS__CUDA_E4M3,
    QS__CUDA_E5M2,
    QS__CUDA_INTEGER,
    QS__CUDA_FLOAT
} qs__cuda_kind;

/* The fields of qs_format that arithmetic needs. */
typedef struct qs__cuda_format {
    int kind; /* qs__cuda_kind */
    int bits, exponent_bits, mantissa_bits, bias;
    int specials; /* qs_specials */
    int is_unsigned, is_logarithmic;
    float max, min_normal, min_subnormal;
} qs__cuda_format;

/* An operand. */
typedef struct qs__cuda_values {
    uint64_t at; /* address; 0: absent */
    int64_t count;
    qs__cuda_format format;
} qs__cuda_values;

/* ---- Complaints ------------------------------------------------------------------------------------------------------------------ */

/* The first thing that kernels found wrong with their data since the last wait: a label or an id out of range. */
typedef struct qs__cuda_complaint {
    int number;    /* of the kernel; 0: nothing */
    int value;     /* what was found */
    int64_t index; /* and where */
} qs__cuda_complaint;

/* ---- Jobs ------------------------------------------------------------------------------------------------------------------------- */

/* Rests of a device that is to be slower than it is (rest.cu): the clock at the start of a kernel, and waiting behind it. */
typedef struct qs__cuda_rest_job {
    uint64_t clock; /* address of 8 bytes */
    double factor;  /* 1/speed - 1 */
} qs__cuda_rest_job;

/* Reading, or adding 1 to, every line of a region (rest.cu). */
typedef struct qs__cuda_touch_job {
    uint64_t at;
    int64_t bytes;
    int change;
} qs__cuda_touch_job;

#endif
