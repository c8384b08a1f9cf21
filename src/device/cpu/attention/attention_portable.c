// SPDX-License-Identifier: Apache-2.0
/* Attention for portable. Compiled with the options that room.cmake gives this file. */
#define ATTENTION qs__attention_portable
#define ATTENTION_NAME "portable"
#include "cpu/attention/attention.inc"
