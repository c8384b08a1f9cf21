// SPDX-License-Identifier: Apache-2.0
/* Shared by the optimisers, a file each: what their passes have in common, and their kernels, one rule compiled once per instruction set.
 *
 * A rule is a loop over elements, INLINE, with the arguments of a qs_update_kernel. Every operation is fp32 and rounded, nothing is
 * contracted, so every instruction set gives the same bits. room.cmake has loops of whoever includes this file made vector code. */
#ifndef QSYNC_OP_UPDATE_H
#define QSYNC_OP_UPDATE_H

#include "internal.h"

#define INLINE static inline __attribute__((always_inline))

/* The pass's check and reference kernel. */
qs_status qs__update_check(const qs_case *one);
qs_status qs__update_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run);

#define QS__UPDATE_KERNEL(rule, isa, target)                                                                                        \
    target static void rule##_##isa(int64_t count, const float *term, const float *gradient, float *weights, float *const *state) { \
        rule(count, term, gradient, weights, state);                                                                                \
    }
#if defined(__x86_64__)
#define QS__UPDATE_KERNELS(rule)                                   \
    QS__UPDATE_KERNEL(rule, portable, )                            \
    QS__UPDATE_KERNEL(rule, avx2, __attribute__((target("avx2")))) \
    QS__UPDATE_KERNEL(rule, avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#define QS__UPDATE_TABLE(rule)                                  \
    {                                                           \
        {"portable", rule##_portable}, {"avx2", rule##_avx2}, { \
            "avx512", rule##_avx512                             \
        }                                                       \
    }
#else
#define QS__UPDATE_KERNELS(rule) QS__UPDATE_KERNEL(rule, portable, )
#define QS__UPDATE_TABLE(rule)          \
    {                                   \
        { "portable", rule##_portable } \
    }
#endif

#endif
