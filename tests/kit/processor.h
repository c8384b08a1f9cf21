// SPDX-License-Identifier: Apache-2.0
/* What the processor reports, so that a test need not believe what was chosen for it. */
#ifndef QSYNC_TESTS_KIT_PROCESSOR
#define QSYNC_TESTS_KIT_PROCESSOR

#include "kit/kit.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef struct processor {
    bool wide;        /* AVX-512 as our tiles of fp32 need it */
    bool codes, bf16; /* its products of bytes, and of bf16 as well */
    bool tiles;       /* AMX: both in tile registers, where the kernel library takes them too and the system permits it */
} processor;

static inline processor processor_here(void) {
    processor here = {0};
#if defined(__x86_64__)
    __builtin_cpu_init();
    here.wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
    here.codes = here.wide && __builtin_cpu_supports("avx512vnni");
    here.bf16 = here.codes && __builtin_cpu_supports("avx512bf16");
#if defined(__linux__)
    unsigned a, b, c, d;
    here.tiles = here.bf16 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) && (d >> 25 & 1) &&
                 syscall(SYS_arch_prctl, 0x1023, 18) == 0; /* ARCH_REQ_XCOMP_PERM for the tiles' data */
#endif
#endif
    return here;
}

#endif
