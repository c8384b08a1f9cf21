// SPDX-License-Identifier: Apache-2.0
/* Which of the three variants our own kernels run in. */
#include "vector.h"

#include <string.h>

#include "qsync/number.h"

int qs__vector_level(void) {
    const char *name = qs_number_isa();
    return !strcmp(name, "avx512") ? QS__AVX512 : !strcmp(name, "avx2") ? QS__AVX2 : QS__PORTABLE;
}
