// SPDX-License-Identifier: Apache-2.0
/* Products of recurrences (recurrence.c) in codes: of states, or r * h', with R, of gradients of gates with R, and the gradient of R.
 * What each is, and what rounding draws: op/recurrence.c and qs_recurrence_draws. Sums are exact. */
#ifndef QSYNC_DEVICE_CPU_RECURRENCE_CODES_H
#define QSYNC_DEVICE_CPU_RECURRENCE_CODES_H

#include "cpu/cpu.h"
#include "cpu/integer/products.h"
#include "qsync/recurrence.h"

/* Values of a sample at a step, fp32; where steps need not be kept, `step` is 0. */
typedef struct qs__recurrence_rows {
    float *at;
    int64_t sample, step;
} qs__recurrence_rows;

static inline float *qs__recurrence_row(const qs__recurrence_rows *of, int64_t sample, int64_t step) {
    return of->at + sample * of->sample + step * of->step;
}

/* A right factor [inner][columns], packed. A result is its sum × the column's factor × the row's. */
typedef struct qs__codes_right {
    int64_t inner, columns;
    int8_t *packed;      /* panels of QS__TILE_COLUMNS columns */
    int32_t *correction; /* [columns], whole panels; the same of */
    float *factor;
} qs__codes_right;

/* Sums over `rows` rows of two factors, [rows][left_row] and [rows][right_row], however many rows there are: the result is [columns of the
 * left][columns]. */
typedef struct qs__codes_sums {
    int64_t rows, columns; /* columns: of the right */
    const int8_t *left, *right;
    int64_t left_row, right_row;
    int8_t *packed; /* the right */
    int32_t *correction;
} qs__codes_sums;

/* Rows of R and what they meet, states or r * h', in codes: of all steps where the gradient of R wants them. */
typedef struct qs__codes_met {
    int64_t first, count; /* rows of R; none: there is no such product */
    int8_t *at;
    int64_t sample, step;     /* bytes from one to the next; 0: steps are not kept */
    float *values;            /* values of the codes, [samples · positions][width], where the gradient of R is a product of floats */
    qs__codes_right from, to; /* R transposed; and, for gradients in codes, R, */
    qs__codes_sums sums;      /* and the gradient of R */
} qs__codes_met;

typedef struct qs__recurrence_codes {
    const qs_format *of, *gradients; /* of states and R, NULL: floats; of gradients, NULL: floats */
    qs_rounding rounding;
    qs_recurrence is;
    int direction;           /* at work */
    int64_t channels, width; /* gates · hidden; hidden in whole tiles of floats */
    const qs_run *run;
    const qs__products *products;
    float step;                 /* of states */
    qs__codes_met state, reset; /* reset: of an early GRU */
    int8_t *weights;            /* [channels][hidden] */
    float *row_step, *column;   /* of R: [channels]; [hidden], largest magnitudes, then steps */
    char *room;                 /* of each share */
    int64_t room_bytes;
    int8_t *sent; /* [samples][channels]: gradients at the step at hand, with */
    float *sent_step;
    int8_t *all;      /* [samples · positions][channels]: gradients for that of R */
    float all_factor; /* of their sums with states */
} qs__recurrence_codes;

/* Its pieces of scratch; `of` NULL and no piece where the case has no codes. */
qs__recurrence_codes qs__codes_make(const qs_case *one, int64_t shares, qs__pieces *pieces);
/* R of all directions, fp32: the one at work is rounded and packed. */
void qs__codes_read(const qs__recurrence_codes *codes, const float *weights);
/* Samples first ... end - 1, of a share, at a step: `from` (states or r * h') is rounded and multiplied, into its columns of `gates`. */
void qs__codes_forward(const qs__recurrence_codes *codes, int64_t first, int64_t end, int64_t share, bool reset, int64_t step,
                       const qs__recurrence_rows *from, const qs__recurrence_rows *gates);
/* The other way: the gates' gradients are rounded and multiplied, into `product`. */
void qs__codes_backward(const qs__recurrence_codes *codes, int64_t first, int64_t end, int64_t share, bool reset, int64_t step,
                        const qs__recurrence_rows *gates, const qs__recurrence_rows *product);
/* Behind all steps: rounds the gradients of all gates with one step, in parallel; then rows first ... first + count - 1 of R's gradient
 * (QS__TILE_ROWS at most, of one gate). */
void qs__codes_gradients(qs__recurrence_codes *codes, const qs__recurrence_rows *gates);
void qs__codes_weights(const qs__recurrence_codes *codes, int64_t share, int64_t first, int count, float *dst);

#endif
