// SPDX-License-Identifier: Apache-2.0
/* How rows are given to warps and to blocks. */
#include "cuda/rows.h"

#include <string.h>

enum { WARP = 32, EIGHT = 8, MOST_VECTORS = 4 };

bool qs__rows_fit(const qs_case *one, int64_t channels, qs_role first, qs_role second, qs_role third) {
    static const char *const formats[] = {"fp32", "bf16", "fp16"};
    const qs_role role[] = {second, third};
    const qs_format *format = qs__case_format(one, first);
    bool fits = false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        fits |= strcmp(format->name, formats[i]) == 0;
    for (size_t i = 0; i < sizeof role / sizeof role[0]; i++)
        fits &= role[i] == QS_ROLE_COUNT || qs__case_format(one, role[i]) == format;
    return fits && channels % EIGHT == 0 && channels <= (int64_t)EIGHT * WARP * MOST_VECTORS;
}

int qs__row_lanes(int64_t channels) {
    int lanes = 1;
    while (lanes < WARP && (int64_t)lanes * EIGHT < channels)
        lanes *= 2;
    return lanes;
}

int qs__row_vectors(int64_t channels) {
    const int64_t width = (int64_t)qs__row_lanes(channels) * EIGHT;
    return (int)((channels + width - 1) / width);
}

int64_t qs__row_blocks_most(int64_t rows, int64_t channels) {
    const int64_t together = QS__ROW_THREADS / qs__row_lanes(channels);
    return (rows + together - 1) / together;
}

/* Each thread with a vector of eight or two, as long as that is no more than half of what a block may have. */
int qs__row_block_threads(int64_t channels) {
    enum { MOST = 512 };
    const int64_t threads = (channels / EIGHT + WARP - 1) / WARP * WARP;
    return (int)(threads < WARP ? WARP : threads > MOST ? MOST : threads);
}

qs_status qs__rows_launch(const qs__cuda_kernel *kernel, int index, int64_t rows, int64_t channels, const void *job) {
    const int threads = qs__row_block_threads(channels);
    return qs__cuda_launch(kernel, index, qs__cuda_blocks(kernel->cuda, rows * threads, threads, 1), threads, 0, job);
}

qs_status qs__order_launch(const qs__cuda_kernel *kernel, int index, int64_t count, const void *job) {
    return qs__cuda_launch(kernel, index, qs__cuda_blocks(kernel->cuda, count, QS__ORDER_THREADS, EIGHT), QS__ORDER_THREADS, 0, job);
}
