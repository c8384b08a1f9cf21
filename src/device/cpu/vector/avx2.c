// SPDX-License-Identifier: Apache-2.0
/* Our own kernels for avx2. Compiled with the options that room.cmake gives this file. */
#define TABLE qs__cpu_kernels_avx2
#define TABLE_NAME "avx2"
#include "cpu/vector/kernels.inc"
