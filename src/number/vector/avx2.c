// SPDX-License-Identifier: Apache-2.0
/* The array kernels for avx2. Compiled with the options that room.cmake gives this file. */
#include <stdbool.h>

#include "vector/lanes_avx2.h"

#include "vector/kernels.inc"
