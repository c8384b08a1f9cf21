// SPDX-License-Identifier: Apache-2.0
/* Attention for avx512. Compiled with the options that room.cmake gives this file. */
#define ATTENTION qs__attention_avx512
#define ATTENTION_NAME "avx512"
#include "cpu/attention/attention.inc"
