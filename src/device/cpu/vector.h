// SPDX-License-Identifier: Apache-2.0
/* Our own vector kernels in three instruction sets from one body: QS__VARIANTS(name, (parameters), (arguments)) makes name##_variants[level]
 * from an inline function name##_body. Bodies hold plain loops; no contraction and no reassociation, so every variant gives the same bits. */
#ifndef QSYNC_DEVICE_CPU_VECTOR_H
#define QSYNC_DEVICE_CPU_VECTOR_H

enum { QS__PORTABLE, QS__AVX2, QS__AVX512, QS__LEVELS };

/* The level that the ceiling of number allows: qs_number_isa_set decides for both rooms. */
int qs__vector_level(void);

#define QS__INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define QS__TARGET_AVX2 __attribute__((target("avx2")))
#define QS__TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define QS__TARGET_AVX2
#define QS__TARGET_AVX512
#endif

#define QS__VARIANTS(name, parameters, arguments)                                                                       \
    static void name##_portable parameters { name##_body arguments; }                                                   \
    QS__TARGET_AVX2 static void name##_avx2 parameters { name##_body arguments; }                                       \
    QS__TARGET_AVX512 static void name##_avx512 parameters { name##_body arguments; }                                   \
    static void(*const name##_variants[QS__LEVELS]) parameters = {name##_portable, name##_avx2, name##_avx512};

#endif
