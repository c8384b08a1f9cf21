// SPDX-License-Identifier: Apache-2.0
/* Integer products for avx2_vnni. */
#define VNNI 1
#define TABLE qs__products_avx2_vnni
#define TABLE_NAME "avx2_vnni"
#include "cpu/integer/products_avx2.inc"
