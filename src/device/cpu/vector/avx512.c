// SPDX-License-Identifier: Apache-2.0
/* Our own kernels for avx512. Compiled with the options that room.cmake gives this file. */
#define TABLE qs__cpu_kernels_avx512
#define TABLE_NAME "avx512"
#include "cpu/vector/kernels.inc"
