// SPDX-License-Identifier: Apache-2.0
/* What the processor reports, so that a test need not believe what was chosen for it. */
#ifndef QSYNC_TESTS_KIT_PROCESSOR
#define QSYNC_TESTS_KIT_PROCESSOR

#include <stdbool.h>

typedef struct processor {
    bool wide;        /* AVX-512 as our tiles of fp32 need it */
    bool codes, bf16; /* its products of bytes, and of bf16 as well */
} processor;

static inline processor processor_here(void) {
    processor here = {false, false, false};
#if defined(__x86_64__)
    __builtin_cpu_init();
    here.wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
    here.codes = here.wide && __builtin_cpu_supports("avx512vnni");
    here.bf16 = here.codes && __builtin_cpu_supports("avx512bf16");
#endif
    return here;
}

#endif
