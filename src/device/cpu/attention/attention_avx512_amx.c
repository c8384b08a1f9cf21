// SPDX-License-Identifier: Apache-2.0
/* Attention for avx512 with products of pairs in tile registers. Compiled with the options that room.cmake gives this file. */
#define ATTENTION qs__attention_avx512_amx
#define ATTENTION_NAME "avx512_amx"
#include "cpu/attention/attention.inc"
