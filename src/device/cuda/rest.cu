// SPDX-License-Identifier: Apache-2.0
/* Rests between kernels, and going through memory. */
#include "cuda/jobs.h"

#ifdef __CUDA_ARCH__
static __device__ __forceinline__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#elif defined(__CUDACC__)
static __host__ __device__ uint64_t nanoseconds() {
    return 0; /* the host's pass over this file runs nothing */
}
#else
#include <time.h>
static uint64_t nanoseconds() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

QS_CUDA_GLOBAL(rest_begin, qs__cuda_rest_job) {
    *(uint64_t *)job.clock = nanoseconds();
}

/* One thread waits as long again as the kernel took, times the factor. */
QS_CUDA_GLOBAL(rest_end, qs__cuda_rest_job) {
    const uint64_t begin = *(const uint64_t *)job.clock, end = nanoseconds();
    const uint64_t until = end + (uint64_t)((double)(end - begin) * job.factor);
    while (nanoseconds() < until) {
    }
}

/* Every thread takes a word of a line; what was read is written only where it is to change, or holds what memory never held as a whole. */
QS_CUDA_GLOBAL(touch, qs__cuda_touch_job) {
    enum { LINE = 32 };
    const int64_t lines = job.bytes / LINE, threads = (int64_t)gridDim.x * blockDim.x;
    uint32_t seen = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += threads) {
        volatile uint8_t *line = (volatile uint8_t *)(job.at + (uint64_t)(i * LINE));
        if (job.change)
            *line = (uint8_t)(*line + 1);
        else
            seen += *line;
    }
    (void)seen;
}
