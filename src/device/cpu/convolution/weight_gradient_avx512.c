// SPDX-License-Identifier: Apache-2.0
/* Tiles of weight gradients on AVX-512: 8 × 3 registers of sums. Kernels of bf16 and of codes are run only where the processor has their
 * instructions. */
#include <immintrin.h>
#include <string.h>

#include "cpu/convolution/weight_gradient.h"
#include "cpu/vector/sums_avx512.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    OUTPUTS = QS__WEIGHT_GRADIENT_OUTPUTS,
    VECTORS = QS__WEIGHT_GRADIENT_VECTORS,
    LANES = QS__WEIGHT_GRADIENT_LANES,
    BYTES = QS__WEIGHT_GRADIENT_BYTES
};

/* ---- Packing ---- */

/* Lanes of a block that are inside the row: `at` is the first one's element. */
INLINE __mmask16 lanes_inside(const qs__weight_gradient_line *line, int64_t at, int64_t lanes) {
    const int64_t left = line->elements - at;
    int64_t end = lanes < LANES ? lanes : LANES;
    if (left < end) end = left;
    if (end <= 0) return 0;
    const uint32_t below = at < 0 ? (at > -LANES ? (1U << -at) - 1 : 0xFFFF) : 0;
    return (__mmask16)(((1U << end) - 1) & ~below);
}

/* Sixteen lanes of all images from an element on; without a mask where all of them are inside. */
typedef __m512i (*joined)(const qs__weight_gradient_line *line, int64_t at, bool whole, __mmask16 inside);

INLINE __mmask16 mask_of(const qs__weight_gradient_line *line, int image, __mmask16 inside) {
    return line->row[image] ? inside : 0;
}

/* Where element `at` of an image's row lies, or would: masked loads may begin before a row, and a row may be NULL. */
INLINE const void *element(const qs__weight_gradient_line *line, int image, int64_t at, int bytes) {
    return (const void *)((uintptr_t)line->row[image] + (uintptr_t)(at * bytes));
}

INLINE __m512i join_fp32(const qs__weight_gradient_line *line, int64_t at, bool whole, __mmask16 inside) {
    const void *from = element(line, 0, at, 4);
    return whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(mask_of(line, 0, inside), from);
}

INLINE __m256i half_bf16(const qs__weight_gradient_line *line, int image, int64_t at, bool whole, __mmask16 inside) {
    const void *from = element(line, image, at, 2);
    return whole ? _mm256_loadu_si256(from) : _mm256_maskz_loadu_epi16(mask_of(line, image, inside), from);
}

INLINE __m512i join_bf16(const qs__weight_gradient_line *line, int64_t at, bool whole, __mmask16 inside) {
    const __m512i low = _mm512_cvtepu16_epi32(half_bf16(line, 0, at, whole, inside));
    const __m512i high = _mm512_cvtepu16_epi32(half_bf16(line, 1, at, whole, inside));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

INLINE __m128i quarter_int8(const qs__weight_gradient_line *line, int image, int64_t at, bool whole, __mmask16 inside) {
    const void *from = element(line, image, at, 1);
    return whole ? _mm_loadu_si128(from) : _mm_maskz_loadu_epi8(mask_of(line, image, inside), from);
}

/* Four images side by side are quarters of a register, whose dwords and then bytes change places. */
INLINE __m512i join_int8(const qs__weight_gradient_line *line, int64_t at, bool whole, __mmask16 inside) {
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i signs = _mm512_set1_epi8(line->flip ? (char)0x80 : 0);
    __m512i all = _mm512_castsi128_si512(quarter_int8(line, 0, at, whole, inside));
    all = _mm512_inserti32x4(all, quarter_int8(line, 1, at, whole, inside), 1);
    all = _mm512_inserti32x4(all, quarter_int8(line, 2, at, whole, inside), 2);
    all = _mm512_inserti32x4(all, quarter_int8(line, 3, at, whole, inside), 3);
    return _mm512_xor_si512(_mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, all), bytes), signs);
}

INLINE void pack_places(const qs__weight_gradient_line *line, int64_t begin, int64_t end, bool whole, joined join) {
    for (int64_t c = begin; c < end; c++) {
        char *dst = (char *)line->dst + c * BYTES;
        int64_t at = line->first + c * line->pitch;
        for (int64_t lane = 0; lane < line->lanes; lane += LANES, at += LANES, dst += line->block)
            _mm512_storeu_si512(dst, join(line, at, whole, whole ? 0 : lanes_inside(line, at, line->lanes - lane)));
    }
}

/* Places whose lanes are all inside stand together. */
INLINE void pack(const qs__weight_gradient_line *given, int images, joined join) {
    const qs__weight_gradient_line line = *given; /* what is stored cannot change it */
    bool whole = line.lanes % LANES == 0;
    for (int i = 0; i < images; i++)
        whole = whole && line.row[i];
    int64_t begin = line.first < 0 ? (-line.first + line.pitch - 1) / line.pitch : 0;
    int64_t end = (line.elements - line.lanes - line.first + line.pitch) / line.pitch;
    if (end > line.places) end = line.places;
    if (!whole || begin >= end) begin = end = 0;
    pack_places(&line, 0, begin, false, join);
    pack_places(&line, begin, end, true, join);
    pack_places(&line, end, line.places, false, join);
}

static void pack_fp32(const qs__weight_gradient_line *line) {
    pack(line, 1, join_fp32);
}

static void pack_bf16(const qs__weight_gradient_line *line) {
    pack(line, 2, join_bf16);
}

static void pack_int8(const qs__weight_gradient_line *line) {
    pack(line, 4, join_int8);
}

/* ---- Tiles ---- */

/* Registers are kept as bits: each kind of number reads them in its own way. */
typedef __m512i (*product)(__m512i sum, __m512i vector, __m512i factor);

INLINE __m512i product_fp32(__m512i sum, __m512i vector, __m512i factor) {
    return _mm512_castps_si512(_mm512_fmadd_ps(_mm512_castsi512_ps(vector), _mm512_castsi512_ps(factor), _mm512_castsi512_ps(sum)));
}

QS__NEEDS("avx512bf16") INLINE __m512i product_bf16(__m512i sum, __m512i vector, __m512i factor) {
    return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)vector, (__m512bh)factor));
}

QS__NEEDS("avx512vnni") INLINE __m512i product_int8(__m512i sum, __m512i vector, __m512i factor) {
    return _mm512_dpbusd_epi32(sum, vector, factor);
}

typedef __m512i sums[OUTPUTS][VECTORS];

INLINE __m512i added(product times, __m512i sum, __m512i vector, __m512i factor) {
    sum = times(sum, vector, factor);
    QS__PINNED(sum);
    return sum;
}

/* One place of one image. */
INLINE void add_place(const qs__weight_gradient_tile *tile, const char *window, const char *diff, int vectors, product times, sums sum) {
    __m512i vector[VECTORS];
    QS__EACH(v, vectors) {
        vector[v] = _mm512_loadu_si512(window + tile->vector[v]);
    }
    QS__EACH(o, OUTPUTS) {
        int32_t bits;
        memcpy(&bits, diff + 4 * o, sizeof bits);
        const __m512i factor = _mm512_set1_epi32(bits);
        QS__EACH(v, vectors) {
            sum[o][v] = added(times, sum[o][v], vector[v], factor);
        }
    }
}

INLINE void multiply(const qs__weight_gradient_tile *tile, int vectors, product times, sums sum) {
    QS__EACH(o, OUTPUTS) {
        QS__EACH(v, vectors) {
            sum[o][v] = _mm512_setzero_si512();
        }
    }
    for (int64_t image = 0; image < tile->images; image++) {
        const char *src = tile->src + image * tile->src_image, *diff = tile->diff + image * tile->diff_image;
        for (int64_t p = 0; p < tile->places; p++, diff += BYTES)
            add_place(tile, src + tile->place[p], diff, vectors, times, sum);
    }
}

/* 32-bit sums of one output as fp32. */
INLINE __m512i settled(__m512i sum, int32_t excess, __m512 factor, float scale) {
    const __m512 value = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(excess)));
    return _mm512_castps_si512(_mm512_mul_ps(_mm512_mul_ps(value, factor), _mm512_set1_ps(scale)));
}

INLINE void put(float *result, __mmask16 mask, bool add, bool integers, __m512i sum) {
    const __m512i before = add ? _mm512_maskz_loadu_epi32(mask, result) : _mm512_setzero_si512();
    if (add && integers) sum = _mm512_add_epi32(before, sum);
    if (add && !integers) sum = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(before), _mm512_castsi512_ps(sum)));
    _mm512_mask_storeu_epi32(result, mask, sum);
}

INLINE void run_tile(const qs__weight_gradient_tile *tile, int vectors, product times, bool integers) {
    sums sum;
    for (int o = 0; o < tile->outputs; o++)
        for (int v = 0; v < vectors; v++)
            _mm_prefetch((const char *)(tile->result + o * tile->row + tile->column[v]), _MM_HINT_T0);
    multiply(tile, vectors, times, sum);
    QS__EACH(o, OUTPUTS) {
        if (o >= tile->outputs) return;
        QS__EACH(v, vectors) {
            const __mmask16 inside = (__mmask16)((1U << tile->width[v]) - 1);
            if (integers && tile->scale)
                sum[o][v] =
                    settled(sum[o][v], tile->excess[o], _mm512_maskz_loadu_ps(inside, tile->factor + tile->column[v]), tile->scale[o]);
            put(tile->result + o * tile->row + tile->column[v], inside, tile->add, integers, sum[o][v]);
        }
    }
}

INLINE void run_any(const qs__weight_gradient_tile *tile, product times, bool integers) {
    if (tile->vectors == 3) run_tile(tile, 3, times, integers);
    if (tile->vectors == 2) run_tile(tile, 2, times, integers);
    if (tile->vectors == 1) run_tile(tile, 1, times, integers);
}

static void tile_fp32(const qs__weight_gradient_tile *tile) {
    run_any(tile, product_fp32, false);
}

QS__NEEDS("avx512bf16") static void tile_bf16(const qs__weight_gradient_tile *tile) {
    run_any(tile, product_bf16, false);
}

QS__NEEDS("avx512vnni") static void tile_int8(const qs__weight_gradient_tile *tile) {
    run_any(tile, product_int8, true);
}

/* ---- Codes ---- */

QS__NEEDS("avx512vnni") static void excess(int64_t places, const void *diff, int32_t *sum) {
    const __m512i many = _mm512_set1_epi8((char)0x80);
    __m512i total = _mm512_loadu_si512(sum);
    for (int64_t p = 0; p < places; p++)
        total = _mm512_dpbusd_epi32(total, many, _mm512_loadu_si512((const char *)diff + p * BYTES));
    _mm512_storeu_si512(sum, total);
}

static void settle(int64_t count, int32_t too_much, const float *factor, float scale, float *sum) {
    for (int64_t i = 0; i < count; i += LANES) {
        const __mmask16 mask = (__mmask16)(count - i < LANES ? (1U << (count - i)) - 1 : 0xFFFF);
        const __m512i value = settled(_mm512_maskz_loadu_epi32(mask, sum + i), too_much, _mm512_maskz_loadu_ps(mask, factor + i), scale);
        _mm512_mask_storeu_epi32(sum + i, mask, value);
    }
}

const qs__weight_gradient_kernels qs__weight_gradient_avx512 = {
    .name = "avx512",
    .pack = {pack_fp32, pack_bf16, pack_int8},
    .tile = {tile_fp32, tile_bf16, tile_int8},
    .excess = excess,
    .settle = settle,
};
