// SPDX-License-Identifier: Apache-2.0
/* The hash behind signatures and the comparison of weights between ranks: xxHash-64, equal on every CPU. */
#include "qsync/base.h"

#include <xxhash.h>

uint64_t qs_hash(const void *data, size_t bytes, uint64_t seed) {
    return XXH64(data, bytes, seed);
}
