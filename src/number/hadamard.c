// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms of blocks. Distances ascend along both axes, so that a block has the same bits however it lies in memory. */
#include "number_room.h"

#include <assert.h>
#include <math.h>

int qs_hadamard_block(int most, int64_t extent) {
    int block = 1;
    while (2 * block <= most && extent % (2 * block) == 0)
        block *= 2;
    return block;
}

static float scale_of(int block) {
    assert(block >= 2 && block <= QS_MOST_HADAMARD && (block & (block - 1)) == 0);
    return (float)(1 / sqrt(block));
}

void qs_hadamard_array(int block, int64_t count, float *values) {
    assert(count % block == 0);
    qs__kernels_get()->hadamard(block, scale_of(block), count, values);
}

void qs_hadamard_rows(int block, int64_t count, float *values) {
    const qs__kernels *kernels = qs__kernels_get();
    const float scale = scale_of(block);
    for (int distance = 1; distance < block; distance *= 2)
        for (int row = 0; row < block; row++)
            if (!(row & distance))
                kernels->butterfly(2 * distance == block ? scale : 1.0f, count, values + row * count, values + (row + distance) * count);
}
