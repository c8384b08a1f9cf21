// SPDX-License-Identifier: Apache-2.0
/* Winograd's transforms and products on AVX-512. */
#include "cpu/convolution/winograd.h"

#include <immintrin.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/vector/sums_avx512.h"

#define INLINE static inline __attribute__((always_inline))
/* Whole, as only then all of an array are registers. */
#define EACH(i, count) _Pragma("GCC unroll 36") for (int i = 0; i < (count); i++)

enum { LANES = QS__WINOGRAD_LANES, SPAN = QS__WINOGRAD_SPAN, EDGE = QS__WINOGRAD_EDGE, POINTS = QS__WINOGRAD_POINTS };

INLINE __m512 of(float value) {
    return _mm512_set1_ps(value);
}

/* factor × x + more, and more - factor × x */
INLINE __m512 plus(float factor, __m512 x, __m512 more) {
    return _mm512_fmadd_ps(of(factor), x, more);
}

INLINE __m512 minus(float factor, __m512 x, __m512 more) {
    return _mm512_fnmadd_ps(of(factor), x, more);
}

INLINE __m512 load(qs__type type, const char *at, int64_t channel) {
    if (type == QS__FP32) return _mm512_loadu_ps(at + 4 * channel);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(at + 2 * channel))), 16));
}

INLINE void store(qs__type type, char *at, int64_t channel, __m512 value) {
    if (type == QS__FP32)
        _mm512_storeu_ps(at + 4 * channel, value);
    else
        _mm256_storeu_si256((void *)(at + 2 * channel), qs__bfloat_of(value));
}

/* ---- Source ---- */

/* Bᵀ × d; in and out by steps. */
INLINE void source_line(const __m512 *d, int step, __m512 *out) {
    const __m512 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const __m512 odd = d1 - d3, even = d2 - d4;
    out[0] = plus(2, d0 + d4, minus(4, d2, of(3) * odd));
    out[step] = plus(2, d1 - d4, plus(5, d2, d3));
    out[2 * step] = plus(2, d1 + d4, minus(5, d3, d2));
    out[3 * step] = minus(2, even, -odd);
    out[4 * step] = minus(2, odd, even);
    out[5 * step] = plus(2, d1 + d5, minus(4, d3, of(3) * even));
}

INLINE void source(qs__type type, const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 d[POINTS];
        EACH(column, SPAN) {
            __m512 line[SPAN];
            EACH(row, SPAN) {
                line[row] = load(type, pixel[SPAN * row + column], c);
            }
            source_line(line, 1, line);
            EACH(row, SPAN) {
                d[SPAN * row + column] = line[row];
            }
        }
        EACH(row, SPAN) {
            source_line(d + SPAN * row, 1, d + SPAN * row);
            EACH(column, SPAN) {
                _mm512_storeu_ps(dst + (SPAN * row + column) * point + c, d[SPAN * row + column]);
            }
        }
    }
}

static void source_fp32(const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    source(QS__FP32, pixel, channels, point, dst);
}

static void source_bf16(const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    source(QS__BF16, pixel, channels, point, dst);
}

/* ---- Weights ---- */

/* G × g; in and out by steps. */
INLINE void weights_line(const __m512 *g, int from, __m512 *out, int to) {
    const __m512 g0 = g[0], g1 = g[from], g2 = g[2 * from];
    const __m512 outer = of(1.0f / 6) * (g0 + g2), middle = of(1.0f / 6) * g1;
    out[0] = of(0.5f) * g0;
    out[to] = outer + middle;
    out[2 * to] = outer - middle;
    out[3 * to] = of(1.0f / 30) * plus(4, g2, plus(2, g1, g0));
    out[4 * to] = of(4.0f / 15) * plus(4, g0, minus(2, g1, g2));
    out[5 * to] = of(0.5f) * g2;
}

INLINE void weights(qs__type type, const char *const *tap, int64_t step, int64_t count, int64_t point, float *dst) {
    for (int64_t k = 0; k < count; k++) {
        __m512 g[9], rows[SPAN * 3], all[SPAN];
        EACH(t, QS__WINOGRAD_TAPS) {
            g[t] = load(type, tap[t], k * step);
        }
        EACH(column, 3) {
            weights_line(g + column, 3, rows + column, 3);
        }
        EACH(row, SPAN) {
            weights_line(rows + 3 * row, 1, all, 1);
            EACH(column, SPAN) {
                _mm512_storeu_ps(dst + (SPAN * row + column) * point + k * LANES, all[column]);
            }
        }
    }
}

static void weights_fp32(const char *const *tap, int64_t step, int64_t count, int64_t point, float *dst) {
    weights(QS__FP32, tap, step, count, point, dst);
}

static void weights_bf16(const char *const *tap, int64_t step, int64_t count, int64_t point, float *dst) {
    weights(QS__BF16, tap, step, count, point, dst);
}

/* ---- Products ---- */

enum { SUMS = 24 }; /* registers */

enum { GROUP = 6 };

/* Bytes from one row to the next one, three and five times that: with them addresses of six rows need one register. */
typedef struct strides {
    int64_t one, three, five;
} strides;

INLINE strides strides_of(int64_t bytes) {
    strides s = {bytes, 3 * bytes, 5 * bytes};
    __asm__("" : "+r"(s.one), "+r"(s.three), "+r"(s.five)); /* compilers would add them up anew */
    return s;
}

INLINE const float *row_of(const char *group, strides s, int row) {
    const int64_t at = row == 5 ? s.five : row == 3 ? s.three : row * s.one;
    return (const float *)(const void *)(group + at);
}

/* SUMS / vectors rows of the result. */
INLINE void multiply_rows(const qs__winograd_product *p, int64_t row, int64_t vector, int vectors) {
    const int rows = SUMS / vectors, groups = (rows + GROUP - 1) / GROUP;
    const strides of_source = strides_of(p->source_pitch * 4), of_weights = strides_of(p->depth * LANES * 4);
    const char *weights = (const char *)(p->weights + vector * p->depth * LANES), *source[SUMS / GROUP];
    __m512 sum[SUMS];
    EACH(i, SUMS) {
        sum[i] = _mm512_setzero_ps();
    }
    EACH(g, groups) {
        source[g] = (const char *)(p->source + (row + g * GROUP) * p->source_pitch);
    }
    for (int64_t k = 0; k < p->depth; k++, weights += 4 * LANES) {
        __m512 w[4];
        EACH(v, vectors) {
            w[v] = _mm512_loadu_ps(row_of(weights, of_weights, v));
        }
        EACH(r, rows) {
            const __m512 x = of(*row_of(source[r / GROUP], of_source, r % GROUP));
            EACH(v, vectors) {
                sum[r * vectors + v] = _mm512_fmadd_ps(x, w[v], sum[r * vectors + v]);
                QS__PINNED(sum[r * vectors + v]);
            }
        }
        EACH(g, groups) {
            source[g] += 4;
            __asm__("" : "+r"(source[g]));
        }
    }
    EACH(r, rows) {
        EACH(v, vectors) {
            _mm512_storeu_ps(p->result + (row + r) * p->pitch + (vector + v) * LANES, sum[r * vectors + v]);
        }
    }
}

INLINE void multiply_panel(const qs__winograd_product *p, int64_t vector, int vectors) {
    for (int64_t row = 0; row < p->rows; row += SUMS / vectors)
        multiply_rows(p, row, vector, vectors);
}

/* As few panels as there can be, as even as they can be. */
static void multiply(const qs__winograd_product *p) {
    const int64_t panels = (p->vectors + 3) / 4;
    for (int64_t i = 0; i < panels; i++) {
        const int64_t first = p->vectors * i / panels, vectors = p->vectors * (i + 1) / panels - first;
        if (vectors == 1) multiply_panel(p, first, 1);
        if (vectors == 2) multiply_panel(p, first, 2);
        if (vectors == 3) multiply_panel(p, first, 3);
        if (vectors == 4) multiply_panel(p, first, 4);
    }
}

/* `rows` rows, `vectors` vectors: sums over depth, added to what is there. */
INLINE void accumulate_rows(const qs__winograd_product *p, int64_t row, int rows, int64_t vector, int vectors) {
    const float *source = p->source + row, *weights = p->weights + vector * LANES;
    float *result = p->result + (row * p->vectors + vector) * LANES;
    __m512 sum[SUMS];
    EACH(i, rows * vectors) {
        sum[i] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < p->depth; k++, source += p->source_pitch, weights += p->pitch) {
        __m512 w[3];
        EACH(v, vectors) {
            w[v] = _mm512_loadu_ps(weights + v * LANES);
        }
        EACH(r, rows) {
            const __m512 x = of(source[r]);
            EACH(v, vectors) {
                sum[r * vectors + v] = _mm512_fmadd_ps(x, w[v], sum[r * vectors + v]);
                QS__PINNED(sum[r * vectors + v]);
            }
        }
    }
    EACH(r, rows) {
        EACH(v, vectors) {
            float *at = result + (r * p->vectors + v) * LANES;
            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sum[r * vectors + v]));
        }
    }
}

INLINE void accumulate_panel(const qs__winograd_product *p, int rows, int64_t vector, int vectors) {
    for (int64_t row = 0; row < p->rows; row += rows)
        accumulate_rows(p, row, rows, vector, vectors);
}

static void accumulate(const qs__winograd_product *p) {
    const int64_t panels = (p->vectors + 2) / 3;
    for (int64_t i = 0; i < panels; i++) {
        const int64_t first = p->vectors * i / panels, vectors = p->vectors * (i + 1) / panels - first;
        if (vectors == 1) accumulate_panel(p, 16, first, 1);
        if (vectors == 2) accumulate_panel(p, 8, first, 2);
        if (vectors == 3) accumulate_panel(p, 8, first, 3);
    }
}

/* ---- Results ---- */

/* Aᵀ × m; in by steps. */
INLINE void result_line(const __m512 *m, int step, __m512 *out) {
    const __m512 sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    const __m512 two = m[3 * step], half = m[4 * step];
    out[0] = (m[0] + sum) + (two + half);
    out[1] = plus(2, two, minus(0.5f, half, difference));
    out[2] = plus(4, two, plus(0.25f, half, sum));
    out[3] = plus(8, two, minus(0.125f, half, difference)) + m[5 * step];
}

INLINE void result(qs__type type, const float *src, int64_t channels, int64_t point, const float *bias, char *const *to) {
    for (int64_t c = 0; c < channels; c += LANES) {
        const __m512 shift = bias ? _mm512_loadu_ps(bias + c) : _mm512_setzero_ps();
        __m512 rows[EDGE * SPAN];
        EACH(column, SPAN) {
            __m512 line[SPAN], four[EDGE];
            EACH(row, SPAN) {
                line[row] = _mm512_loadu_ps(src + (SPAN * row + column) * point + c);
            }
            result_line(line, 1, four);
            EACH(row, EDGE) {
                rows[SPAN * row + column] = four[row];
            }
        }
        EACH(row, EDGE) {
            __m512 four[EDGE];
            result_line(rows + SPAN * row, 1, four);
            EACH(column, EDGE) {
                if (to[EDGE * row + column]) store(type, to[EDGE * row + column], c, four[column] + shift);
            }
        }
    }
}

static void result_fp32(const float *src, int64_t channels, int64_t point, const float *bias, char *const *to) {
    result(QS__FP32, src, channels, point, bias, to);
}

static void result_bf16(const float *src, int64_t channels, int64_t point, const float *bias, char *const *to) {
    result(QS__BF16, src, channels, point, bias, to);
}

/* ---- Weight gradients ---- */

/* G × d, for four; in by steps. */
INLINE void gradient_line(const __m512 *d, __m512 *out) {
    const __m512 even = d[0] + d[2], odd = d[1] + d[3];
    out[0] = of(0.5f) * d[0];
    out[1] = of(1.0f / 6) * (even + odd);
    out[2] = of(1.0f / 6) * (even - odd);
    out[3] = of(1.0f / 30) * plus(8, d[3], plus(4, d[2], plus(2, d[1], d[0])));
    out[4] = of(2.0f / 15) * plus(8, d[0], minus(4, d[1], plus(2, d[2], -d[3])));
    out[5] = of(0.5f) * d[3];
}

INLINE void gradient(qs__type type, const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 rows[SPAN * EDGE];
        EACH(column, EDGE) {
            __m512 four[EDGE], line[SPAN];
            EACH(row, EDGE) {
                four[row] = load(type, pixel[EDGE * row + column], c);
            }
            gradient_line(four, line);
            EACH(row, SPAN) {
                rows[EDGE * row + column] = line[row];
            }
        }
        EACH(row, SPAN) {
            __m512 line[SPAN];
            gradient_line(rows + EDGE * row, line);
            EACH(column, SPAN) {
                _mm512_storeu_ps(dst + (SPAN * row + column) * point + c, line[column]);
            }
        }
    }
}

static void gradient_fp32(const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    gradient(QS__FP32, pixel, channels, point, dst);
}

static void gradient_bf16(const char *const *pixel, int64_t channels, int64_t point, float *dst) {
    gradient(QS__BF16, pixel, channels, point, dst);
}

/* Aᵀ × m, for three. */
INLINE void taps_line(const __m512 *m, __m512 *out) {
    const __m512 sum = m[1] + m[2];
    out[0] = (m[0] + sum) + (m[3] + m[4]);
    out[1] = plus(2, m[3], minus(0.5f, m[4], m[1] - m[2]));
    out[2] = plus(4, m[3], plus(0.25f, m[4], sum)) + m[5];
}

static void taps(const float *src, int64_t channels, int64_t point, float *const *tap) {
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 rows[3 * SPAN];
        EACH(column, SPAN) {
            __m512 line[SPAN], three[3];
            EACH(row, SPAN) {
                line[row] = _mm512_loadu_ps(src + (SPAN * row + column) * point + c);
            }
            taps_line(line, three);
            EACH(row, 3) {
                rows[SPAN * row + column] = three[row];
            }
        }
        EACH(row, 3) {
            __m512 three[3];
            taps_line(rows + SPAN * row, three);
            EACH(column, 3) {
                _mm512_storeu_ps(tap[3 * row + column] + c, three[column]);
            }
        }
    }
}

const qs__winograd qs__winograd_avx512 = {
    .name = "avx512",
    .source = {source_fp32, source_bf16},
    .weights = {weights_fp32, weights_bf16},
    .multiply = multiply,
    .accumulate = accumulate,
    .result = {result_fp32, result_bf16},
    .gradient = {gradient_fp32, gradient_bf16},
    .taps = taps,
};
