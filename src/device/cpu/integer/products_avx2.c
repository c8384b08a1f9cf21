// SPDX-License-Identifier: Apache-2.0
/* Integer products for avx2. */
#define VNNI 0
#define TABLE qs__products_avx2
#define TABLE_NAME "avx2"
#include "cpu/integer/products_avx2.inc"
