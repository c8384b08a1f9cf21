// SPDX-License-Identifier: Apache-2.0
/* The roof of products: multiply-adds of a multiprocessor a clock, as NVIDIA's documents on the architectures give them (dense factors;
 * sums in fp32 or int32). */
#include "cuda/cuda.h"

#include <string.h>

static const struct rate {
    int capability; /* from this one on */
    int fp32, half, bf16, int8, fp8;
} rates[] = {
    {100, 128, 4096, 4096, 8192, 8192}, {90, 128, 2048, 2048, 4096, 4096}, {89, 128, 512, 512, 1024, 1024},
    {86, 128, 512, 512, 1024, 0},       {80, 64, 1024, 1024, 2048, 0},     {75, 64, 512, 0, 1024, 0},
};

double qs__cuda_peak(void *state, const qs_format *format) {
    const qs__cuda *cuda = state;
    const struct rate *rate = rates;
    while (rate->capability > cuda->capability && rate->capability > 75)
        rate++;
    const double clocks = (double)cuda->multiprocessors * (double)cuda->clock_khz * 1e3;
    const char *name = format->name;
    if (format->kind == QS_KIND_INTEGER) return rate->int8 * clocks;
    if (!strcmp(name, "fp32")) return rate->fp32 * clocks;
    if (!strcmp(name, "fp16")) return rate->half * clocks;
    if (!strcmp(name, "bf16")) return rate->bf16 * clocks;
    return !strcmp(name, "e4m3fn") || !strcmp(name, "e5m2") ? rate->fp8 * clocks : 0;
}
