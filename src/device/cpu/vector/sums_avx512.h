// SPDX-License-Identifier: Apache-2.0
/* Tiles of sums that stay in registers: compilers have to be told. */
#ifndef QSYNC_DEVICE_CPU_SUMS_AVX512_H
#define QSYNC_DEVICE_CPU_SUMS_AVX512_H

/* Loops over an array of sums: whole, as only then its elements are registers. */
#define QS__EACH(i, count) _Pragma("GCC unroll 12") for (int i = 0; i < (count); i++)

/* A sum that was just added to stays in its register: left to themselves, compilers copy it before every instruction that adds to it and
 * keep some in memory, which takes half of the speed. */
#define QS__PINNED(sum) __asm__("" : "+v"(sum))

/* Of a function that needs more of the processor than its file. */
#define QS__NEEDS(features) __attribute__((target(features)))

#endif
