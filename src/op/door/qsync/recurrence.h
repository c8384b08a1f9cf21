// SPDX-License-Identifier: Apache-2.0
/* recurrence: what its cases say, for those who write its kernels, or its parameters. */
#ifndef QSYNC_RECURRENCE_H
#define QSYNC_RECURRENCE_H

#include "qsync/op.h"

/* What a position does with the state of the one before it (op/recurrence.c); the setting `cell`. */
typedef enum qs_cell {
    QS_CELL_TANH,
    QS_CELL_RELU,
    QS_CELL_LSTM,     /* Hochreiter and Schmidhuber, 1997, with forget gates */
    QS_CELL_GRU,      /* Cho et al., 2014 */
    QS_CELL_GRU_LATE, /* the same with its reset gate behind the product, as in PyTorch */
    QS_CELLS
} qs_cell;

/* Gates by what they do: those of an LSTM (input, output, forget, cell), of a GRU (update, reset, new state), the only one of others. */
enum { QS_GATE_I, QS_GATE_O, QS_GATE_F, QS_GATE_C, QS_GATE_Z = 0, QS_GATE_R, QS_GATE_N, QS_MOST_GATES = 4 };

/* src lies in memory as [sample][position][direction][gate][hidden], dst as [sample][position][direction][hidden]; weights as
 * [direction][gate][hidden][hidden], bias as [direction][biases][gate][hidden]. */
typedef struct qs_recurrence {
    qs_cell cell;
    int directions;  /* 1 or 2, then on and back */
    bool reverse[2]; /* of each: it begins at the last position */
    int biases;      /* of a gate: 1: of the product; 2: that of the input, and of the product */
    int64_t samples, positions, hidden;
    int64_t gates;           /* of a cell: 1, LSTM 4, GRU 3 */
    int at[QS_MOST_GATES];   /* place of each gate */
    int64_t channels, units; /* of a position of src and dst, all directions together */
} qs_recurrence;
/* By settings and the shape of src; QS_USAGE where they are none. */
QS_API qs_status qs_recurrence_of(const qs_attributes *with, const qs_shape *src, qs_recurrence *out);
QS_API qs_recurrence qs_case_recurrence(const qs_case *one);

/* Codes of a case with the attributes `to` and `gradients` (op/recurrence.c), by what is rounded, row by row. */
typedef enum qs_recurrence_draw {
    QS_CODES_OF_STATES,   /* before a position, [hidden] */
    QS_CODES_OF_RESET,    /* of an early GRU: r * h', [hidden] */
    QS_CODES_OF_ROWS,     /* R of a direction with a step for each row, as qs_quantize_rows, rows an even stride apart */
    QS_CODES_OF_COLUMNS,  /* the same with a step for each column, as qs_quantize_channels */
    QS_CODES_OF_STEPS,    /* gradients of p at a position, [gates][hidden], for that of the state before it */
    QS_CODES_OF_GRADIENTS /* the same for that of R */
} qs_recurrence_draw;
/* What a row draws: of a sample of the local batch, a position of the sequence, and a direction, which is all that rows of R have. An
 * early GRU rounds the last gate of QS_CODES_OF_STEPS by itself, by the draws of its place in the row. */
QS_API qs_random_stream qs_recurrence_draws(const qs_recurrence *of, const qs_run *run, qs_recurrence_draw which, int64_t sample,
                                            int64_t position, int64_t direction);

#endif
