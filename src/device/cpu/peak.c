// SPDX-License-Identifier: Apache-2.0
/* The roof of products: multiply-adds of registers by the widest instructions that the ceiling allows, on all threads at once. */
#include "cpu/cpu.h"

#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include "cpu/vector/tiles_amx.h"
#endif

enum { ROUNDS = 400000, TILE_ROUNDS = 8, TRIES = 100, MOST_THREADS = 1024 };

/* So many rounds of multiply-adds; returns how many these are. */
typedef double (*probe)(int64_t rounds);

#if defined(__x86_64__)

/* Sums that do not wait for each other: more than any unit's latency times the units, as far as there are registers. Each stays in its
 * register: compilers would copy it back and forth. The factors are not the same to them from round to round, and all sums are wanted. */
#define PROBE(NAME, ISA, SUMS, SUM, FACTOR, ZERO, STEP, EACH)                                         \
    __attribute__((target(ISA))) static double NAME(int64_t rounds) {                                 \
        SUM sum[SUMS];                                                                                \
        FACTOR a = (FACTOR)ZERO(), b = (FACTOR)ZERO();                                                \
        _Pragma("GCC unroll 16") for (int i = 0; i < (SUMS); i++) sum[i] = (SUM)ZERO();               \
        for (int64_t round = 0; round < rounds; round++) {                                            \
            _Pragma("GCC unroll 16") for (int i = 0; i < (SUMS); i++) {                               \
                sum[i] = STEP;                                                                        \
                __asm__("" : "+v"(sum[i]));                                                           \
            }                                                                                         \
            __asm__ volatile("" : "+v"(a), "+v"(b));                                                  \
        }                                                                                             \
        _Pragma("GCC unroll 16") for (int i = 0; i < (SUMS); i++) __asm__ volatile("" ::"v"(sum[i])); \
        return (double)rounds * (SUMS) * (EACH);                                                      \
    }

PROBE(fp32_avx2, "avx2,fma", 12, __m256, __m256, _mm256_setzero_si256, _mm256_fmadd_ps(a, b, sum[i]), 8)
PROBE(fp32_avx512, "avx512f", 16, __m512, __m512, _mm512_setzero_si512, _mm512_fmadd_ps(a, b, sum[i]), 16)
PROBE(bf16_avx512, "avx512f,avx512bf16", 16, __m512, __m512bh, _mm512_setzero_si512, _mm512_dpbf16_ps(sum[i], a, b), 32)
PROBE(int8_avx2, "avx2,avxvnni", 12, __m256i, __m256i, _mm256_setzero_si256, _mm256_dpbusd_avx_epi32(sum[i], a, b), 32)
PROBE(int8_avx512, "avx512f,avx512vnni", 16, __m512i, __m512i, _mm512_setzero_si512, _mm512_dpbusd_epi32(sum[i], a, b), 64)

/* The same in tile registers: four of 16 × 16 sums, each of 16 rows' products with 16 columns. */
static const qs__tile_registers tiles = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

#define TILE_PROBE(NAME, ISA, STEP, EACH)                                         \
    __attribute__((target("amx-tile," ISA))) static double NAME(int64_t rounds) { \
        const int64_t products = rounds / TILE_ROUNDS;                            \
        QS__TILES_CONFIGURE(&tiles); /* which clears them */                      \
        for (int64_t round = 0; round < products; round++) {                      \
            STEP(0, 4, 6);                                                        \
            STEP(1, 4, 7);                                                        \
            STEP(2, 5, 6);                                                        \
            STEP(3, 5, 7);                                                        \
        }                                                                         \
        _tile_release();                                                          \
        return (double)products * 4 * 16 * 16 * (EACH);                           \
    }

TILE_PROBE(bf16_tiles, "amx-bf16", _tile_dpbf16ps, 32)
TILE_PROBE(int8_tiles, "amx-int8", _tile_dpbusd, 64)

static probe fp32_probe(const qs__cpu *cpu) {
    if (cpu->kernels == &qs__cpu_kernels_avx512) return fp32_avx512;
    return cpu->kernels == &qs__cpu_kernels_avx2 && __builtin_cpu_supports("fma") ? fp32_avx2 : NULL;
}

static probe int8_probe(const qs__cpu *cpu) {
    if (cpu->tiles) return int8_tiles;
    if (cpu->products == &qs__products_avx512_vnni) return int8_avx512;
    return cpu->products == &qs__products_avx2_vnni ? int8_avx2 : NULL;
}

/* Narrower codes are multiplied as bytes. */
static probe probe_of(const qs__cpu *cpu, const qs_format *format) {
    if (format->kind == QS_KIND_INTEGER) return format->bits <= 8 ? int8_probe(cpu) : NULL;
    if (!strcmp(format->name, "bf16")) return cpu->tiles ? bf16_tiles : cpu->bf16 ? bf16_avx512 : NULL;
    return !strcmp(format->name, "fp32") ? fp32_probe(cpu) : NULL;
}

#else

static probe probe_of(const qs__cpu *cpu, const qs_format *format) {
    (void)cpu, (void)format;
    return NULL;
}

#endif

typedef struct trial {
    probe run;
    double rate[MOST_THREADS];
} trial;

/* Of this thread alone: on a busy machine the time that others are given does not count. */
static double processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void thread_run(void *context, int64_t begin, int64_t end) {
    trial *one = context;
    (void)end;
    const double start = processor_time(), work = one->run(ROUNDS);
    one->rate[begin] = work / (processor_time() - start);
}

double qs__peak(void *state, const qs_format *format) {
    trial one = {.run = probe_of(state, format)};
    double best = 0;
    for (int i = 0; one.run && i < TRIES; i++) {
        double sum = 0;
        qs_parallel(qs_threads(), 1, thread_run, &one);
        for (int t = 0; t < qs_threads(); t++)
            sum += one.rate[t];
        if (sum > best) best = sum;
    }
    return best;
}
