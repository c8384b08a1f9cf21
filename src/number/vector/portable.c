// SPDX-License-Identifier: Apache-2.0
/* The array kernels for any machine. Compiled with the options that room.cmake gives this file. */
#include <stdbool.h>

#include "vector/lanes_portable.h"

#include "vector/kernels.inc"
