// SPDX-License-Identifier: Apache-2.0
/* Our own permute. Axes that stay beside each other are one; what is left is copied in rows where the fastest axis stays the fastest, and
 * else transposed in blocks, of small squares that registers hold. A block is read in whole lines and put together beside, in a place that
 * the first cache holds, before its rows are written: lines of either side that lie a power of two apart would push each other out. Codes
 * are moved as they are, whatever their format, as long as they are of 1, 2 or 4 bytes. */
#include "views.h"

#include "cpu/staging.h"

#include <string.h>

enum { BLOCK = 64 }; /* edge of a block of codes */

typedef struct job {
    const char *from;
    char *to;
    int64_t width;       /* bytes of a code */
    qs__permuted of;     /* steps in codes */
    int64_t rows, bands; /* blocks along the two fastest axes: of the input, of the result */
} job;

/* ---- Squares ---- */

typedef uint16_t halves __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(16)));

/* The lower or the upper halves of two vectors, one lane of each by turns; on all pairs of rows that lie half the rows apart, as often as
 * rows can be halved, that transposes (written out: the rows then stay in registers). */
static inline halves low_halves(halves a, halves b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline halves high_halves(halves a, halves b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

static inline words low_words(words a, words b) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}

static inline words high_words(words a, words b) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

#define TURN(low, high, n, s, r, i) s[2 * (i)] = low(r[i], r[(i) + (n) / 2]), s[2 * (i) + 1] = high(r[i], r[(i) + (n) / 2])

static inline void square_uint16_t(uint16_t *to, int64_t to_step, const uint16_t *from, int64_t from_step) {
    halves r[8], s[8];
    for (int i = 0; i < 8; i++)
        memcpy(&r[i], from + i * from_step, sizeof *r);
#define ROUND(s, r)                                                                                                                  \
    TURN(low_halves, high_halves, 8, s, r, 0), TURN(low_halves, high_halves, 8, s, r, 1), TURN(low_halves, high_halves, 8, s, r, 2), \
        TURN(low_halves, high_halves, 8, s, r, 3)
    ROUND(s, r);
    ROUND(r, s);
    ROUND(s, r);
#undef ROUND
    for (int i = 0; i < 8; i++)
        memcpy(to + i * to_step, &s[i], sizeof *s);
}

static inline void square_uint32_t(uint32_t *to, int64_t to_step, const uint32_t *from, int64_t from_step) {
    words r[4], s[4];
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], from + i * from_step, sizeof *r);
    TURN(low_words, high_words, 4, s, r, 0), TURN(low_words, high_words, 4, s, r, 1);
    TURN(low_words, high_words, 4, r, s, 0), TURN(low_words, high_words, 4, r, s, 1);
    for (int i = 0; i < 4; i++)
        memcpy(to + i * to_step, &r[i], sizeof *r);
}
#undef TURN

static inline void square_uint8_t(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step) {
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 8; k++)
            to[i * to_step + k] = from[k * from_step + i];
}

/* to[r · BLOCK + c] = from[c · from_step + r] of a block. */
#define BLOCK_OF(type, edge)                                                                                 \
    static void block_##type(type *to, const type *from, int64_t from_step, int64_t rows, int64_t columns) { \
        for (int64_t c = 0; c < columns; c += (edge))                                                        \
            for (int64_t r = 0; r < rows; r += (edge)) {                                                     \
                if (r + (edge) <= rows && c + (edge) <= columns) {                                           \
                    square_##type(to + r * BLOCK + c, BLOCK, from + c * from_step + r, from_step);           \
                    continue;                                                                                \
                }                                                                                            \
                for (int64_t k = c; k < columns && k < c + (edge); k++)                                      \
                    for (int64_t i = r; i < rows && i < r + (edge); i++)                                     \
                        to[i * BLOCK + k] = from[k * from_step + i];                                         \
            }                                                                                                \
    }
BLOCK_OF(uint8_t, 8)
BLOCK_OF(uint16_t, 8)
BLOCK_OF(uint32_t, 4)
#undef BLOCK_OF

/* ---- Ranges ---- */

/* A place among all of the axes below `axes` but the one left out: its index along each, and where it lies in the input and the result. */
typedef struct place {
    const job *job;
    int axes, left_out;
    int64_t index[QS__PERMUTE_AXES], from, to;
} place;

static place place_of(const job *j, int64_t number, int axes, int left_out) {
    place at = {.job = j, .axes = axes, .left_out = left_out};
    for (int a = axes - 1; a >= 0; a--) {
        if (a == left_out) continue;
        at.index[a] = number % j->of.extent[a];
        at.from += at.index[a] * j->of.from_step[a];
        at.to += at.index[a] * j->of.to_step[a];
        number /= j->of.extent[a];
    }
    return at;
}

/* The next one, as an odometer turns. */
static void place_next(place *at) {
    const job *j = at->job;
    for (int a = at->axes - 1; a >= 0; a--) {
        if (a == at->left_out) continue;
        at->from += j->of.from_step[a], at->to += j->of.to_step[a];
        if (++at->index[a] < j->of.extent[a]) return;
        at->from -= j->of.extent[a] * j->of.from_step[a], at->to -= j->of.extent[a] * j->of.to_step[a];
        at->index[a] = 0;
    }
}

static void copy_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int last = j->of.axes - 1;
    const size_t bytes = (size_t)(j->of.extent[last] * j->width);
    place at = place_of(j, begin, last, -1);
    for (int64_t row = begin; row < end; row++, place_next(&at))
        memcpy(j->to + at.to * j->width, j->from + at.from * j->width, bytes);
}

static void transpose_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int last = j->of.axes - 1;
    const int64_t from_step = j->of.from_step[last];
    _Alignas(64) char room[BLOCK * BLOCK * sizeof(uint32_t)];
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / j->bands % j->rows * BLOCK, column = i % j->bands * BLOCK;
        const int64_t rows = j->of.extent[j->of.fast] - row < BLOCK ? j->of.extent[j->of.fast] - row : BLOCK,
                      columns = j->of.extent[last] - column < BLOCK ? j->of.extent[last] - column : BLOCK;
        const place at = place_of(j, i / (j->rows * j->bands), last, j->of.fast);
        const char *src = j->from + (at.from + row + column * from_step) * j->width;
        char *dst = j->to + (at.to + row * j->of.to_step[j->of.fast] + column) * j->width;
        if (j->width == 4)
            block_uint32_t((uint32_t *)(void *)room, (const uint32_t *)(const void *)src, from_step, rows, columns);
        else if (j->width == 2)
            block_uint16_t((uint16_t *)(void *)room, (const uint16_t *)(const void *)src, from_step, rows, columns);
        else
            block_uint8_t((uint8_t *)room, (const uint8_t *)src, from_step, rows, columns);
        for (int64_t r = 0; r < rows; r++)
            memcpy(dst + r * j->of.to_step[j->of.fast] * j->width, room + r * BLOCK * j->width, (size_t)(columns * j->width));
    }
}

/* ---- The kernel ---- */

static qs_status run_permute(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = qs_case_position(&chain->one, QS_SRC) >= 0;
    job j = {.width = chain->one.operand[0].format->bits / 8, .of = qs__case_permuted(&chain->one)};
    const int64_t count = qs__case_count(&chain->one, forward ? QS_SRC : QS_DIFF_DST), last = j.of.extent[j.of.axes - 1];
    j.from = qs__cpu_data(chain, forward ? QS_SRC : QS_DIFF_DST);
    j.to = qs__cpu_data(chain, forward ? QS_DST : QS_DIFF_SRC);
    if (j.of.fast < 0) {
        qs_parallel(count / last, 1 + QS__GRAIN / (last * j.width), copy_range, &j);
        return QS_OK;
    }
    j.rows = (j.of.extent[j.of.fast] + BLOCK - 1) / BLOCK;
    j.bands = (last + BLOCK - 1) / BLOCK;
    qs_parallel(count / (last * j.of.extent[j.of.fast]) * j.rows * j.bands, 1 + QS__GRAIN / (BLOCK * BLOCK), transpose_range, &j);
    return QS_OK;
}

qs_status qs__build_permute(qs__chain *chain) {
    return qs__moving_build(chain, run_permute);
}
