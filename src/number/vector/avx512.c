// SPDX-License-Identifier: Apache-2.0
/* The array kernels for avx512. Compiled with the options that room.cmake gives this file. */
#include <stdbool.h>

#include "vector/lanes_avx512.h"

#include "vector/kernels.inc"
