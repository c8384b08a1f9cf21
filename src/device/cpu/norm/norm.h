// SPDX-License-Identifier: Apache-2.0
/* What batch norms (batch_norm.c) and layer norms (layer_norm.c) share: how rows are cut, and the relu behind. */
#ifndef QSYNC_DEVICE_CPU_NORM_H
#define QSYNC_DEVICE_CPU_NORM_H

#include "cpu/staging.h"
#include "qsync/norm.h"

/* Rows of a multiple of 8, so that mask bytes are whole, and few enough that they stay in the first cache from one pass to the next. */
int64_t qs__norm_cache_rows(int64_t channels);
/* A thread's share in rows: pieces are multiples of it, hence of 8 rows. */
int64_t qs__norm_grain(int64_t channels);
/* The relu behind, on `count` elements of dst from element `at` on; `dst` points at that one. A format that our kernels do not store is
 * rounded before relu looks at it. largest: as the vector kernels have it. */
void qs__norm_relu(const qs__chain *chain, int64_t at, int64_t count, qs__out dst, uint32_t *largest);

#endif
