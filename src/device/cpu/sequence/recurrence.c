// SPDX-License-Identifier: Apache-2.0
/* Our own kernels of recurrences. Samples are independent of each other but in the gradients of parameters: each thread takes a share of
 * them through all positions, one product of its samples' states with R a position. What backward needs of forward it forms anew, into
 * scratch; the gradient of R is then one product over samples and positions, whose rows threads share. All sums are fp32, an element one
 * chain in the order of what it sums, or, of codes (the attributes `to` and `gradients`), exact: bits depend on no threads and no
 * instruction set. */
#include "cpu/sequence/recurrence_codes.h"
#include "cpu/staging.h"
#include "qsync/recurrence.h"

#include <string.h>

enum { ROWS = 24 }; /* of R's gradient that a thread takes at once */

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs_recurrence of;
    qs__recurrence_codes codes;    /* of NULL: products of floats */
    int direction;                 /* at work: one behind the other, in the same scratch */
    int64_t channels, wide, width; /* gates · hidden; that and hidden in whole tiles */
    int64_t shares;
    qs__in src, weights, diff;
    qs__out dst;       /* states, or the gradient of src */
    float *input_bias; /* [channels], zeros where the case has none; the same of the product */
    float *product_bias;
    float *from_state;          /* [hidden][wide]: R transposed, what makes gates of states */
    float *to_state;            /* backward, [channels][width]: R */
    qs__recurrence_rows gates;  /* [channels]: of each step; backward turns them into the gradients of R h' + c */
    qs__recurrence_rows before; /* [width]: the state before each step */
    qs__recurrence_rows
        other; /* [width]: an LSTM's C before each step; r * h' of an early GRU's; of a late one's pn, then the gradient of n's sum */
    qs__recurrence_rows of_state, of_cell; /* backward, [width]: gradients behind the step at hand */
    qs__recurrence_rows product;           /* backward, [width] */
    float *room;    /* of each share: `wide` for a row of src or its gradient, `width` for a result, for curves and as a last state */
    float *columns; /* of each share, backward: [samples · positions][ROWS] */
    float *diff_weights;
} job;

enum { RESULT, CURVE, LAST, PIECES };

static float *room_of(const job *j, int64_t share, int piece) {
    return j->room + share * (j->wide + PIECES * j->width) + (piece < 0 ? 0 : j->wide + piece * j->width);
}

/* The first value of a gate among those of a step. */
static int64_t gate_at(const job *j, int gate) {
    return j->of.at[gate] * j->of.hidden;
}

static int64_t position_of(const job *j, int64_t step) {
    return j->of.reverse[j->direction] ? j->of.positions - 1 - step : step;
}

/* Where the direction's part of a step's position begins in src, or, with units, in dst. */
static int64_t place_of(const job *j, int64_t sample, int64_t step, bool units) {
    const int64_t position = sample * j->of.positions + position_of(j, step);
    return units ? position * j->of.units + j->direction * j->of.hidden : position * j->of.channels + j->direction * j->channels;
}

static int64_t first_of(const job *j, int64_t share) {
    return j->of.samples * share / j->shares;
}

static void curve(const job *j, qs__activation which, int64_t count, const float *from, float *to) {
    j->kernels->activation((qs__curve_of){.which = which}, count, (qs__in){QS__FP32, from}, (qs__out){QS__FP32, to}, NULL);
}

/* Rows of all samples of a share at a step, times a matrix whose rows are `pitch` long. */
static void multiply(const job *j, int64_t share, int64_t inner, const qs__recurrence_rows *left, int64_t offset, int64_t step,
                     const float *right, int64_t pitch, const qs__recurrence_rows *to, int64_t to_offset, int64_t columns) {
    const int64_t first = first_of(j, share);
    qs__matmul_block block = {.rows = first_of(j, share + 1) - first, .inner = inner, .columns = columns, .width = pitch};
    block.left = qs__recurrence_row(left, first, step) + offset, block.left_row = left->sample, block.left_column = 1;
    block.right = right;
    block.dst = (qs__out){QS__FP32, qs__recurrence_row(to, first, step) + to_offset}, block.dst_row = to->sample;
    j->kernels->matmul_rows(&block);
}

/* ---- Products with R ---- */

/* Of the states before a step, or (`reset`) r * h', of all samples of a share, into the gates. */
static void gates_multiply(const job *j, int64_t share, bool reset, int64_t step) {
    const int64_t hidden = j->of.hidden, row = reset ? 2 * hidden : 0;
    const qs__recurrence_rows *from = reset ? &j->other : &j->before;
    if (j->codes.of)
        qs__codes_forward(&j->codes, first_of(j, share), first_of(j, share + 1), share, reset, step, from, &j->gates);
    else
        multiply(j, share, hidden, from, 0, step, j->from_state + row, j->wide, &j->gates, row,
                 reset                       ? hidden
                 : j->of.cell == QS_CELL_GRU ? 2 * hidden
                                             : j->channels);
}

/* Of gradients of gates, back, into `product`. */
static void gates_send(const job *j, int64_t share, bool reset, int64_t step) {
    const int64_t hidden = j->of.hidden, row = reset ? 2 * hidden : 0;
    if (j->codes.gradients)
        qs__codes_backward(&j->codes, first_of(j, share), first_of(j, share + 1), share, reset, step, &j->gates, &j->product);
    else
        multiply(j, share,
                 reset                       ? hidden
                 : j->of.cell == QS_CELL_GRU ? 2 * hidden
                                             : j->channels,
                 &j->gates, row, step, j->to_state + row * j->width, j->width, &j->product, 0, hidden);
}

/* ---- Forward ---- */

/* Sums of a gate become what it is. */
static void gate_close(const job *j, int gate, const float *x, float *g) {
    const int64_t first = gate_at(j, gate), end = first + j->of.hidden;
    const bool squashed = j->of.cell == QS_CELL_TANH || gate == (j->of.cell == QS_CELL_LSTM ? QS_GATE_C : QS_GATE_N);
    for (int64_t k = first; k < end; k++)
        g[k] += x[k] + (j->input_bias[k] + j->product_bias[k]);
    if (j->of.cell == QS_CELL_RELU)
        j->kernels->relu(j->of.hidden, (qs__in){QS__FP32, g + first}, 0, NULL, (qs__out){QS__FP32, g + first}, NULL);
    else
        curve(j, squashed ? QS__TANH : QS__SIGMOID, j->of.hidden, g + first, g + first);
}

/* The first part of a step, behind the product with the state before: all but the new state of an early GRU. */
static void step_open(const job *j, int64_t share, int64_t sample, int64_t step) {
    const int64_t hidden = j->of.hidden;
    const float *x = qs__staged_row(j->kernels, qs__in_at(j->src, place_of(j, sample, step, false)), j->channels, room_of(j, share, -1));
    const float *before = qs__recurrence_row(&j->before, sample, step);
    float *g = qs__recurrence_row(&j->gates, sample, step), *other = qs__recurrence_row(&j->other, sample, step);
    const bool gru = j->of.gates == 3;
    for (int gate = 0; gate < (gru ? QS_GATE_N : (int)j->of.gates); gate++)
        gate_close(j, gate, x, g);
    if (!gru) return;
    const float *r = g + gate_at(j, QS_GATE_R);
    const int64_t at = gate_at(j, QS_GATE_N);
    for (int64_t k = 0; k < hidden; k++)
        other[k] = j->of.cell == QS_CELL_GRU ? r[k] * before[k] : g[at + k] + j->product_bias[at + k];
    if (j->of.cell == QS_CELL_GRU) return;
    for (int64_t k = 0; k < hidden; k++)
        g[at + k] = x[at + k] + j->input_bias[at + k] + r[k] * other[k];
    curve(j, QS__TANH, hidden, g + at, g + at);
}

/* The state behind a step, into `after`, which may be the one before it. */
static void step_end(const job *j, int64_t share, int64_t sample, int64_t step, float *after) {
    const int64_t hidden = j->of.hidden;
    const float *g = qs__recurrence_row(&j->gates, sample, step), *before = qs__recurrence_row(&j->before, sample, step);
    if (j->of.cell == QS_CELL_LSTM) {
        const float *i = g + gate_at(j, QS_GATE_I), *o = g + gate_at(j, QS_GATE_O), *f = g + gate_at(j, QS_GATE_F),
                    *c = g + gate_at(j, QS_GATE_C);
        float *cell = qs__recurrence_row(&j->other, sample, step), *next = cell + j->other.step, *squashed = room_of(j, share, CURVE);
        for (int64_t k = 0; k < hidden; k++)
            next[k] = f[k] * cell[k] + i[k] * c[k];
        curve(j, QS__TANH, hidden, next, squashed);
        for (int64_t k = 0; k < hidden; k++)
            after[k] = o[k] * squashed[k];
    } else if (j->of.gates == 3) {
        const float *z = g + gate_at(j, QS_GATE_Z), *n = g + gate_at(j, QS_GATE_N);
        for (int64_t k = 0; k < hidden; k++)
            after[k] = n[k] + z[k] * (before[k] - n[k]);
    } else
        memcpy(after, g, (size_t)hidden * sizeof *after);
}

/* All steps of a share; forward writes the states, backward keeps what it needs. */
static void share_forward(const job *j, int64_t share, bool writes) {
    const int64_t hidden = j->of.hidden, first = first_of(j, share), end = first_of(j, share + 1);
    for (int64_t n = first; n < end; n++) {
        memset(qs__recurrence_row(&j->before, n, 0), 0, (size_t)j->width * sizeof(float));
        memset(qs__recurrence_row(&j->other, n, 0), 0, (size_t)j->width * sizeof(float));
    }
    for (int64_t s = 0; s < j->of.positions; s++) {
        gates_multiply(j, share, false, s);
        for (int64_t n = first; n < end; n++)
            step_open(j, share, n, s);
        if (j->of.cell == QS_CELL_GRU) gates_multiply(j, share, true, s);
        for (int64_t n = first; n < end; n++) {
            if (j->of.cell == QS_CELL_GRU)
                gate_close(j, QS_GATE_N,
                           qs__staged_row(j->kernels, qs__in_at(j->src, place_of(j, n, s, false)), j->channels, room_of(j, share, -1)),
                           qs__recurrence_row(&j->gates, n, s));
            float *after =
                s + 1 < j->of.positions || writes ? qs__recurrence_row(&j->before, n, s) + j->before.step : room_of(j, share, LAST);
            step_end(j, share, n, s, after);
            if (writes) qs__staged_row_write(hidden, after, qs__out_at(j->dst, place_of(j, n, s, true)));
        }
    }
}

static void forward_shares(void *context, int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; share++)
        share_forward(context, share, true);
}

/* ---- Backward ---- */

static void lstm_back(const job *j, float *g, const float *cell, const float *squashed, float *dh, float *dc) {
    float *i = g + gate_at(j, QS_GATE_I), *o = g + gate_at(j, QS_GATE_O), *f = g + gate_at(j, QS_GATE_F), *c = g + gate_at(j, QS_GATE_C);
    for (int64_t k = 0; k < j->of.hidden; k++) {
        const float t = squashed[k], of_cell = dc[k] + dh[k] * o[k] * (1 - t * t), of_new = of_cell * i[k] * (1 - c[k] * c[k]);
        i[k] = of_cell * c[k] * i[k] * (1 - i[k]);
        o[k] = dh[k] * t * o[k] * (1 - o[k]);
        dc[k] = of_cell * f[k];
        f[k] = of_cell * cell[k] * f[k] * (1 - f[k]);
        c[k] = of_new;
        dh[k] = 0;
    }
}

static void gru_back(const job *j, float *g, const float *before, float *dh) {
    float *z = g + gate_at(j, QS_GATE_Z), *n = g + gate_at(j, QS_GATE_N);
    for (int64_t k = 0; k < j->of.hidden; k++) {
        const float open = z[k];
        z[k] = dh[k] * (before[k] - n[k]) * open * (1 - open);
        n[k] = dh[k] * (1 - open) * (1 - n[k] * n[k]);
        dh[k] *= open;
    }
}

/* Gates become gradients of their sums; those of the states before the step that go no way through R stay in of_state and of_cell. The
 * reset gate of a GRU has to wait. */
static void step_back(const job *j, int64_t share, int64_t sample, int64_t step) {
    const int64_t hidden = j->of.hidden;
    float *g = qs__recurrence_row(&j->gates, sample, step), *dh = qs__recurrence_row(&j->of_state, sample, 0);
    const float *dy = qs__staged_row(j->kernels, qs__in_at(j->diff, place_of(j, sample, step, true)), hidden, room_of(j, share, RESULT));
    for (int64_t k = 0; k < hidden; k++)
        dh[k] += dy[k];
    if (j->of.cell == QS_CELL_LSTM) {
        const float *cell = qs__recurrence_row(&j->other, sample, step);
        curve(j, QS__TANH, hidden, cell + j->other.step, room_of(j, share, CURVE));
        lstm_back(j, g, cell, room_of(j, share, CURVE), dh, qs__recurrence_row(&j->of_cell, sample, 0));
    } else if (j->of.gates == 3)
        gru_back(j, g, qs__recurrence_row(&j->before, sample, step), dh);
    else
        for (int64_t k = 0; k < hidden; k++) {
            g[k] = dh[k] * (j->of.cell == QS_CELL_TANH ? 1 - g[k] * g[k] : g[k] > 0 ? 1 : 0);
            dh[k] = 0;
        }
}

/* The reset gate of a GRU, and, of a late one, what goes on behind it; then the gradient of src is written. */
static void step_back_end(const job *j, int64_t share, int64_t sample, int64_t step) {
    const int64_t hidden = j->of.hidden, at = gate_at(j, QS_GATE_R), new = gate_at(j, QS_GATE_N);
    float *g = qs__recurrence_row(&j->gates, sample, step), *other = qs__recurrence_row(&j->other, sample, step),
          *out = room_of(j, share, -1);
    float *dh = qs__recurrence_row(&j->of_state, sample, 0);
    const float *before = qs__recurrence_row(&j->before, sample, step), *reset = qs__recurrence_row(&j->product, sample, 0);
    const qs__out dst = qs__out_at(j->dst, place_of(j, sample, step, false));
    for (int64_t k = 0; k < hidden && j->of.cell == QS_CELL_GRU; k++) {
        dh[k] += reset[k] * g[at + k];
        g[at + k] = reset[k] * before[k] * g[at + k] * (1 - g[at + k]);
    }
    if (j->of.cell != QS_CELL_GRU_LATE) {
        qs__staged_row_write(j->channels, g, dst);
        return;
    }
    memcpy(out, g, (size_t)j->channels * sizeof *out);
    for (int64_t k = 0; k < hidden; k++) {
        const float open = g[at + k], of_new = g[new + k];
        g[at + k] = out[at + k] = of_new * other[k] * open * (1 - open);
        g[new + k] = of_new * open;
        other[k] = of_new;
    }
    qs__staged_row_write(j->channels, out, dst);
}

static void share_backward(const job *j, int64_t share) {
    const int64_t hidden = j->of.hidden, first = first_of(j, share), end = first_of(j, share + 1);
    share_forward(j, share, false);
    memset(qs__recurrence_row(&j->of_state, first, 0), 0, (size_t)((end - first) * j->width) * sizeof(float));
    memset(qs__recurrence_row(&j->of_cell, first, 0), 0, (size_t)((end - first) * j->width) * sizeof(float));
    for (int64_t s = j->of.positions - 1; s >= 0; s--) {
        for (int64_t n = first; n < end; n++)
            step_back(j, share, n, s);
        if (j->of.cell == QS_CELL_GRU) gates_send(j, share, true, s);
        for (int64_t n = first; n < end; n++)
            step_back_end(j, share, n, s);
        if (s == 0) break; /* nothing wants the gradient of the first state */
        gates_send(j, share, false, s);
        for (int64_t n = first; n < end; n++) {
            float *dh = qs__recurrence_row(&j->of_state, n, 0);
            const float *more = qs__recurrence_row(&j->product, n, 0);
            for (int64_t k = 0; k < hidden; k++)
                dh[k] += more[k];
        }
    }
}

static void backward_shares(void *context, int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; share++)
        share_backward(context, share);
}

/* Rows of R's gradient, blocks of ROWS that do not cross the gates of an early GRU: Σ over samples and steps of the gradient of a sum and
 * the state that R was multiplied with. */
static void weight_gradient(const job *j, int64_t slot, int64_t first, int64_t count) {
    const int64_t hidden = j->of.hidden, all = j->of.samples * j->of.positions;
    float *columns = j->columns + slot * all * ROWS;
    for (int64_t i = 0; i < all; i++)
        for (int64_t r = 0; r < count; r++)
            columns[i * ROWS + r] = j->gates.at[i * j->channels + first + r];
    const bool reset = j->of.cell == QS_CELL_GRU && first >= 2 * hidden;
    const float *right = j->codes.of ? (reset ? &j->codes.reset : &j->codes.state)->values : reset ? j->other.at : j->before.at;
    float *dst = j->diff_weights + (j->direction * j->channels + first) * hidden;
    j->kernels->matmul_rows(&(qs__matmul_block){.rows = count,
                                                .inner = all,
                                                .columns = hidden,
                                                .width = j->width,
                                                .left = columns,
                                                .left_row = 1,
                                                .left_column = ROWS,
                                                .right = right,
                                                .dst = {QS__FP32, dst},
                                                .dst_row = hidden});
}

static void gradient_slots(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t hidden = j->of.hidden, most = j->codes.gradients ? QS__TILE_ROWS : ROWS, each = (hidden + most - 1) / most,
                  blocks = j->of.gates * each;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t b = blocks * slot / j->shares; b < blocks * (slot + 1) / j->shares; b++) {
            const int64_t at = b % each * most, left = hidden - at;
            const int64_t first = b / each * hidden + at, count = left < most ? left : most;
            if (j->codes.gradients)
                qs__codes_weights(&j->codes, slot, first, (int)count, j->diff_weights + (j->direction * j->channels + first) * hidden);
            else
                weight_gradient(j, slot, first, count);
        }
}

/* ---- Building ---- */

static qs__recurrence_rows rows_make(qs__pieces *pieces, int64_t samples, int64_t steps, int64_t width, bool kept) {
    qs__recurrence_rows out = {.sample = (kept ? steps : 1) * width, .step = kept ? width : 0};
    out.at = qs__piece(pieces, samples * out.sample * (int64_t)sizeof(float));
    return out;
}

static job lay_out(const qs_case *one, char *base, size_t *bytes) {
    const bool backward = qs_case_position(one, QS_DIFF_SRC) >= 0;
    job j = {.of = qs_case_recurrence(one), .shares = qs_threads()};
    const int64_t samples = j.of.samples, steps = j.of.positions, hidden = j.of.hidden, tile = QS__MATMUL_COLUMNS, each = sizeof(float);
    qs__pieces pieces = {base, 0};
    j.codes = qs__codes_make(one, j.shares, &pieces);
    j.channels = j.of.gates * hidden;
    j.wide = (j.channels + tile - 1) / tile * tile;
    j.width = (hidden + tile - 1) / tile * tile;
    if (!j.codes.of) j.from_state = qs__piece(&pieces, (hidden * j.wide + tile) * each); /* a tile more: gates need not begin at one */
    j.gates = rows_make(&pieces, samples, steps, j.channels, backward);
    j.before = rows_make(&pieces, samples, steps, j.width, backward);
    j.other = rows_make(&pieces, samples, steps + (j.of.cell == QS_CELL_LSTM), j.width, backward && j.of.gates > 1);
    j.room = qs__piece(&pieces, j.shares * (j.wide + PIECES * j.width) * each);
    j.input_bias = qs__piece(&pieces, j.channels * each);
    j.product_bias = qs__piece(&pieces, j.channels * each);
    if (backward) {
        if (!j.codes.gradients) j.to_state = qs__piece(&pieces, j.channels * j.width * each);
        j.of_state = rows_make(&pieces, samples, 1, j.width, false);
        j.of_cell = rows_make(&pieces, samples, 1, j.width, false);
        j.product = rows_make(&pieces, samples, 1, j.width, false);
        if (!j.codes.gradients) j.columns = qs__piece(&pieces, j.shares * samples * steps * ROWS * each);
    }
    *bytes = pieces.used;
    return j;
}

/* The direction's parameters: R in the two forms that products take, and biases. */
static void parameters_read(const job *j, const float *bias) {
    const int64_t hidden = j->of.hidden;
    const size_t bytes = (size_t)j->channels * sizeof(float);
    float *line = room_of(j, 0, RESULT);
    if (j->codes.of) qs__codes_read(&j->codes, j->weights.at);
    if (j->from_state) memset(j->from_state, 0, (size_t)(hidden * j->wide + QS__MATMUL_COLUMNS) * sizeof(float));
    if (j->to_state) memset(j->to_state, 0, (size_t)(j->channels * j->width) * sizeof(float));
    for (int64_t i = 0; i < j->channels; i++) {
        const float *row = qs__staged_row(j->kernels, qs__in_at(j->weights, (j->direction * j->channels + i) * hidden), hidden, line);
        for (int64_t k = 0; k < hidden && j->from_state; k++)
            j->from_state[k * j->wide + i] = row[k];
        if (j->to_state) memcpy(j->to_state + i * j->width, row, (size_t)hidden * sizeof(float));
    }
    memset(j->input_bias, 0, bytes);
    memset(j->product_bias, 0, bytes);
    if (!bias) return;
    const float *own = bias + j->direction * j->of.biases * j->channels;
    if (j->of.biases == 2) memcpy(j->input_bias, own, bytes);
    memcpy(j->product_bias, own + (j->of.biases - 1) * j->channels, bytes);
}

static void bias_gradient(const job *j, float *diff_bias) {
    const int64_t all = j->of.samples * j->of.positions;
    const qs__in gates = {QS__FP32, j->gates.at}, other = {QS__FP32, j->other.at};
    float *own = diff_bias + j->direction * j->of.biases * j->channels, *of_product = own + (j->of.biases - 1) * j->channels;
    j->kernels->product_columns(QS__SUM_OF_VALUES, all, j->channels, j->channels, gates, gates, of_product);
    if (j->of.biases == 1) return;
    memcpy(own, of_product, (size_t)j->channels * sizeof *own);
    if (j->of.cell == QS_CELL_GRU_LATE)
        j->kernels->product_columns(QS__SUM_OF_VALUES, all, j->width, j->of.hidden, other, other, own + gate_at(j, QS_GATE_N));
}

static job start(const qs__chain *chain, const qs_run *run, qs_role written) {
    size_t bytes;
    job j = lay_out(&chain->one, chain->scratch + chain->offset[0], &bytes);
    j.kernels = chain->cpu->kernels;
    j.codes.run = run;
    j.codes.products = chain->cpu->products;
    j.src = qs__staged_in(chain, QS_SRC);
    j.weights = qs__staged_in(chain, QS_WEIGHTS);
    j.dst = qs__staged_out(chain, written);
    return j;
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    job j = start(chain, run, QS_DST);
    for (; j.direction < j.of.directions; j.direction++) {
        j.codes.direction = j.direction;
        parameters_read(&j, qs__cpu_data(chain, QS_BIAS));
        qs_parallel(j.shares, 1, forward_shares, &j);
    }
    return QS_OK;
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    job j = start(chain, run, QS_DIFF_SRC);
    float *diff_bias = qs__cpu_data(chain, QS_DIFF_BIAS);
    j.diff = qs__staged_in(chain, QS_DIFF_DST);
    j.diff_weights = qs__cpu_data(chain, QS_DIFF_WEIGHTS);
    for (; j.direction < j.of.directions; j.direction++) {
        j.codes.direction = j.direction;
        parameters_read(&j, qs__cpu_data(chain, QS_BIAS));
        qs_parallel(j.shares, 1, backward_shares, &j);
        if (j.codes.gradients) qs__codes_gradients(&j.codes, &j.gates);
        qs_parallel(j.shares, 1, gradient_slots, &j);
        if (diff_bias) bias_gradient(&j, diff_bias);
    }
    return QS_OK;
}

qs_status qs__build_recurrence(qs__chain *chain) {
    size_t bytes;
    lay_out(&chain->one, NULL, &bytes);
    chain->offset[0] = qs__chain_reserve(chain, bytes);
    return qs__staged_build(chain, "recurrence", qs_case_position(&chain->one, QS_DIFF_SRC) >= 0 ? run_backward : run_forward);
}
