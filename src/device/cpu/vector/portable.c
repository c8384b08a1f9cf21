// SPDX-License-Identifier: Apache-2.0
/* Our own kernels for portable. Compiled with the options that room.cmake gives this file. */
#define TABLE qs__cpu_kernels_portable
#define TABLE_NAME "portable"
#include "cpu/vector/kernels.inc"
