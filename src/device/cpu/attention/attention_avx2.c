// SPDX-License-Identifier: Apache-2.0
/* Attention for avx2. Compiled with the options that room.cmake gives this file. */
#define ATTENTION qs__attention_avx2
#define ATTENTION_NAME "avx2"
#include "cpu/attention/attention.inc"
