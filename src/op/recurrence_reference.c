// SPDX-License-Identifier: Apache-2.0
/* What cases of recurrence (recurrence.c) say, and its reference kernels: all positions of a sample in double, on and back. Codes are the
 * values that they stand for. */
#include "recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What a case says ---- */

static const int gates_of[QS_CELLS] = {
    [QS_CELL_TANH] = 1, [QS_CELL_RELU] = 1, [QS_CELL_LSTM] = 4, [QS_CELL_GRU] = 3, [QS_CELL_GRU_LATE] = 3};

static bool is_gru(const qs_recurrence *of) {
    return of->cell == QS_CELL_GRU || of->cell == QS_CELL_GRU_LATE;
}

qs_status qs_recurrence_of(const qs_attributes *with, const qs_shape *src, qs_recurrence *out) {
    static const int of_torch[][QS_MOST_GATES] = {
        {QS_GATE_I, QS_GATE_F, QS_GATE_C, QS_GATE_O}, {QS_GATE_R, QS_GATE_Z, QS_GATE_N}, {QS_GATE_I}};
    const double whole[] = {with->mode, with->along, with->order, with->size};
    char text[96];
    for (int i = 0; i < 4; i++)
        if (whole[i] != floor(whole[i]))
            return qs_fail(QS_USAGE, "recurrence: cell %g, direction %g, order %g, biases %g: they are whole numbers", whole[0], whole[1],
                           whole[2], whole[3]);
    if (src->axes != 3) return qs_fail(QS_USAGE, "recurrence: input %s needs the axes N,C,L", qs_shape_text(src, text));
    if (!(with->mode >= 0 && with->mode < QS_CELLS)) return qs_fail(QS_USAGE, "recurrence: cell %g is 0 to %d", with->mode, QS_CELLS - 1);
    *out = (qs_recurrence){.cell = (qs_cell)with->mode,
                           .directions = with->along > 1 ? 2 : 1,
                           .reverse = {with->along > 0 && with->along < 2, true},
                           .biases = with->size > 1 ? 2 : 1,
                           .samples = src->dim[0],
                           .positions = src->dim[2],
                           .channels = src->dim[1]};
    out->gates = gates_of[out->cell];
    const int64_t parts = out->gates * out->directions;
    if (src->dim[1] % parts != 0)
        return qs_fail(QS_USAGE, "recurrence: %lld channels are not %lld gates of equally many", (long long)src->dim[1], (long long)parts);
    out->hidden = src->dim[1] / parts;
    out->units = out->directions * out->hidden;
    const int *gate = of_torch[out->cell == QS_CELL_LSTM ? 0 : is_gru(out) ? 1 : 2];
    for (int i = 0; i < (int)out->gates; i++)
        out->at[with->order > 0 ? gate[i] : i] = i;
    return QS_OK;
}

qs_recurrence qs_case_recurrence(const qs_case *one) {
    qs_recurrence of = {0};
    (void)qs_recurrence_of(&one->attributes, qs__shape(one, QS_SRC), &of); /* the case was checked */
    return of;
}

qs_random_stream qs_recurrence_draws(const qs_recurrence *of, const qs_run *run, qs_recurrence_draw which, int64_t sample, int64_t position,
                                     int64_t direction) {
    const bool weights = which == QS_CODES_OF_ROWS || which == QS_CODES_OF_COLUMNS;
    const bool gates = which == QS_CODES_OF_STEPS || which == QS_CODES_OF_GRADIENTS;
    const int64_t even = (of->hidden + 1) / 2 * 2, width = weights || gates ? of->gates * even : even;
    const int64_t row = weights ? direction : ((run->first_sample + sample) * of->positions + position) * of->directions + direction;
    return (qs_random_stream){.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream),
                              .first = (uint64_t)which << 56 | (uint64_t)row * (uint64_t)(weights ? width * even : width)};
}

/* ---- Reference ---- */

/* Decoded operands, and all positions of a direction of a sample by the step that they are taken in, states with that before the first
 * step. */
typedef struct unrolled {
    qs_recurrence of;
    const qs_attributes *with;
    const qs_run *run;
    int64_t sample, direction;
    float *src;
    double *weights, *back;  /* R as forward multiplies it, and as gradients are; the same where there are no codes */
    float *bias;             /* zeros where there is none */
    double *gates;           /* [L][G·H]: what the gates became */
    double *state;           /* [L + 1][H]: h */
    double *other;           /* [L + 1][H]: C of an LSTM; pn of a late GRU's step, r * h' of another's */
    double *met, *met_reset; /* [L][H]: h', and r * h', as they were multiplied */
} unrolled;

static void unrolled_release(unrolled *u) {
    free(u->src);
    free(u->weights);
    free(u->back);
    free(u->bias);
    free(u->gates);
    free(u->state);
    free(u->other);
    free(u->met);
    free(u->met_reset);
}

/* ---- Codes, as the values that they stand for ---- */

/* Of a row with one step: 0: that of its largest magnitude. */
static qs_status decoded_row(const qs_format *format, qs_rounding rounding, qs_random_stream draws, float step, int64_t count,
                             const double *from, double *to) {
    float *values = NULL;
    int8_t *codes = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    QS_GOTO(qs_allocate((size_t)count, 1, &codes));
    for (int64_t k = 0; k < count; k++)
        values[k] = (float)from[k];
    if (step == 0) step = qs_step_of_absmax(format, qs_absmax_array(count, values));
    qs_quantize_array(format, rounding, draws, step, count, values, codes);
    for (int64_t k = 0; k < count; k++)
        to[k] = (double)codes[k] * (double)step;
done:
    free(values);
    free(codes);
    return status;
}

/* R of all directions, with a step for each row, or for each column. */
static qs_status decoded_weights(const unrolled *u, const qs_format *format, bool by_column, const float *weights, double *to) {
    const int64_t hidden = u->of.hidden, rows = u->of.gates * hidden, even = (hidden + 1) / 2 * 2;
    const qs_channel_layout layout = {rows, hidden, 1};
    float *step = NULL;
    int8_t *codes = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)rows, sizeof *step, &step));
    QS_GOTO(qs_allocate((size_t)(rows * hidden), 1, &codes));
    for (int64_t d = 0; d < u->of.directions; d++) {
        const float *from = weights + d * rows * hidden;
        const qs_random_stream draws = qs_recurrence_draws(&u->of, u->run, by_column ? QS_CODES_OF_COLUMNS : QS_CODES_OF_ROWS, 0, 0, d);
        if (by_column) {
            qs_channel_ranges(format, layout, from, step, NULL);
            for (int64_t k = 0; k < hidden; k++)
                step[k] = qs_step_of_absmax(format, step[k]);
            qs_quantize_channels(format, u->with->rounding, draws, layout, step, from, codes);
        } else {
            const qs_row_codes all = {.format = format,
                                      .rounding = u->with->rounding,
                                      .random = draws,
                                      .stride = (uint64_t)even,
                                      .rows = rows,
                                      .per_row = hidden};
            qs_quantize_rows(&all, from, step, NULL, codes);
        }
        for (int64_t i = 0; i < rows * hidden; i++)
            to[d * rows * hidden + i] = (double)codes[i] * (double)step[by_column ? i % hidden : i / hidden];
    }
done:
    free(step);
    free(codes);
    return status;
}

static qs_status weights_make(const qs_case *one, const qs_tensor *operands, unrolled *u) {
    const size_t count = (size_t)(u->of.channels * u->of.hidden);
    float *weights = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_WEIGHTS), &weights));
    QS_GOTO(qs_allocate(count, sizeof *u->weights, &u->weights));
    QS_GOTO(qs_allocate(count, sizeof *u->back, &u->back));
    for (size_t i = 0; i < count; i++)
        u->weights[i] = u->back[i] = (double)weights[i];
    if (u->with->to) QS_GOTO(decoded_weights(u, u->with->to, false, weights, u->weights));
    if (u->with->gradients) status = decoded_weights(u, u->with->gradients, true, weights, u->back);
done:
    free(weights);
    return status;
}

static qs_status unrolled_make(const qs_case *one, const qs_tensor *operands, const qs_run *run, unrolled *u) {
    *u = (unrolled){.of = qs_case_recurrence(one), .with = &one->attributes, .run = run};
    const size_t states = (size_t)((u->of.positions + 1) * u->of.hidden);
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &u->src));
    QS_TRY(weights_make(one, operands, u));
    if (qs__present(one, QS_BIAS))
        QS_TRY(qs__read(qs__operand(one, operands, QS_BIAS), &u->bias));
    else
        QS_TRY(qs_allocate((size_t)(u->of.biases * u->of.channels), sizeof *u->bias, &u->bias)); /* zeros */
    QS_TRY(qs_allocate((size_t)u->of.gates * states, sizeof *u->gates, &u->gates));
    QS_TRY(qs_allocate(states, sizeof *u->state, &u->state)); /* zeros */
    QS_TRY(qs_allocate(states, sizeof *u->other, &u->other)); /* zeros */
    QS_TRY(qs_allocate(states, sizeof *u->met, &u->met));
    return qs_allocate(states, sizeof *u->met_reset, &u->met_reset);
}

/* Row of a step in the memory of src and dst. */
static int64_t row_of(const unrolled *u, int64_t step) {
    return u->sample * u->of.positions + (u->of.reverse[u->direction] ? u->of.positions - 1 - step : step);
}

/* The first value of a gate among those of a step. */
static int64_t gate_at(const unrolled *u, int gate) {
    return u->of.at[gate] * u->of.hidden;
}

/* x of a value of the gates: of src, and the bias of the input. */
static double input_of(const unrolled *u, int64_t step, int64_t i) {
    const int64_t width = u->of.gates * u->of.hidden, first = u->direction * width;
    const double x = (double)u->src[row_of(u, step) * u->of.channels + first + i];
    return u->of.biases < 2 ? x : x + (double)u->bias[2 * first + i];
}

/* A state, or r * h', as it is multiplied at a step. */
static qs_status meet(const unrolled *u, qs_recurrence_draw which, int64_t s, const double *from, double *to) {
    const qs_format *codes = u->with->to;
    const int64_t position = u->of.reverse[u->direction] ? u->of.positions - 1 - s : s;
    if (codes)
        return decoded_row(codes, u->with->rounding, qs_recurrence_draws(&u->of, u->run, which, u->sample, position, u->direction),
                           qs_step_of_absmax(codes, 1), u->of.hidden, from, to);
    memcpy(to, from, (size_t)u->of.hidden * sizeof *to);
    return QS_OK;
}

static double product_of(const unrolled *u, int64_t i, const double *with) {
    const int64_t width = u->of.gates * u->of.hidden, row = u->direction * width + i;
    const double *weights = u->weights + row * u->of.hidden;
    double sum = (double)u->bias[u->of.biases < 2 ? row : row + (u->direction + 1) * width];
    for (int64_t k = 0; k < u->of.hidden; k++)
        sum += weights[k] * with[k];
    return sum;
}

static void lstm_forward(const unrolled *u, int64_t s, const double *met, double *g, double *cell, double *after) {
    const int64_t hidden = u->of.hidden, i = gate_at(u, QS_GATE_I), o = gate_at(u, QS_GATE_O), f = gate_at(u, QS_GATE_F),
                  c = gate_at(u, QS_GATE_C);
    for (int64_t k = 0; k < 4 * hidden; k++) {
        const double sum = input_of(u, s, k) + product_of(u, k, met);
        g[k] = k >= c && k < c + hidden ? tanh(sum) : qs__sigmoid(sum);
    }
    for (int64_t k = 0; k < hidden; k++) {
        cell[hidden + k] = g[f + k] * cell[k] + g[i + k] * g[c + k];
        after[k] = g[o + k] * tanh(cell[hidden + k]);
    }
}

static qs_status gru_forward(const unrolled *u, int64_t s, const double *before, double *g, double *other, double *after) {
    const int64_t hidden = u->of.hidden, z = gate_at(u, QS_GATE_Z), r = gate_at(u, QS_GATE_R), n = gate_at(u, QS_GATE_N);
    const bool late = u->of.cell == QS_CELL_GRU_LATE;
    const double *met = u->met + s * hidden;
    double *met_reset = u->met_reset + s * hidden;
    for (int64_t k = 0; k < hidden; k++) {
        g[z + k] = qs__sigmoid(input_of(u, s, z + k) + product_of(u, z + k, met));
        g[r + k] = qs__sigmoid(input_of(u, s, r + k) + product_of(u, r + k, met));
        other[k] = late ? product_of(u, n + k, met) : g[r + k] * before[k];
    }
    if (!late) QS_TRY(meet(u, QS_CODES_OF_RESET, s, other, met_reset));
    for (int64_t k = 0; k < hidden; k++) {
        g[n + k] = tanh(input_of(u, s, n + k) + (late ? g[r + k] * other[k] : product_of(u, n + k, met_reset)));
        after[k] = (1 - g[z + k]) * g[n + k] + g[z + k] * before[k];
    }
    return QS_OK;
}

/* The gates of a step and the state behind it. */
static qs_status step_forward(const unrolled *u, int64_t s) {
    const int64_t hidden = u->of.hidden;
    const double *before = u->state + s * hidden;
    double *g = u->gates + s * u->of.gates * hidden, *other = u->other + s * hidden, *after = u->state + (s + 1) * hidden,
           *met = u->met + s * hidden;
    QS_TRY(meet(u, QS_CODES_OF_STATES, s, before, met));
    if (u->of.cell == QS_CELL_LSTM) lstm_forward(u, s, met, g, other, after);
    if (is_gru(&u->of)) QS_TRY(gru_forward(u, s, before, g, other, after));
    for (int64_t k = 0; k < hidden && u->of.gates == 1; k++) {
        const double sum = input_of(u, s, k) + product_of(u, k, met);
        after[k] = g[k] = u->of.cell == QS_CELL_TANH ? tanh(sum) : sum > 0 ? sum : 0;
    }
    return QS_OK;
}

qs_status qs__recurrence_forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    unrolled u;
    double *result = NULL;
    qs_status status;
    QS_GOTO(unrolled_make(one, operands, run, &u));
    const int64_t hidden = u.of.hidden;
    QS_GOTO(qs_allocate((size_t)(u.of.samples * u.of.positions * u.of.units), sizeof *result, &result));
    for (; u.sample < u.of.samples; u.sample++)
        for (u.direction = 0; u.direction < u.of.directions; u.direction++)
            for (int64_t s = 0; s < u.of.positions; s++) {
                QS_GOTO(step_forward(&u, s));
                memcpy(result + row_of(&u, s) * u.of.units + u.direction * hidden, u.state + (s + 1) * hidden,
                       (size_t)hidden * sizeof *result);
            }
    status = qs__write_double(qs__operand(one, operands, QS_DST), result);
done:
    unrolled_release(&u);
    free(result);
    return status;
}

/* Gradients: of all of src and of the parameters; and, at the step at hand, */
typedef struct sums {
    double *src, *weights, *bias;
    double *state, *cell, *reset; /* [H] of h, of C, of r * h' */
    double *x, *p, *sent;         /* [G·H]; sent: p as it is multiplied with R */
    /* With `gradients`, of all samples and positions by direction: p, and what R met, which in an early GRU's new gate is r * h'. */
    double *all, *met, *met_reset; /* [D][N·L][G·H], [D][N·L][H] */
} sums;

/* The gradients of p of gates first .. end - 1 as they are multiplied with R. */
static qs_status send(const unrolled *u, int64_t s, int64_t first, int64_t end, const sums *all) {
    const int64_t hidden = u->of.hidden, position = u->of.reverse[u->direction] ? u->of.positions - 1 - s : s;
    const double *from = all->p + first * hidden;
    double *to = all->sent + first * hidden;
    qs_random_stream draws = qs_recurrence_draws(&u->of, u->run, QS_CODES_OF_STEPS, u->sample, position, u->direction);
    draws.first += (uint64_t)((first * hidden + 1) / 2 * 2);
    if (u->with->gradients) return decoded_row(u->with->gradients, u->with->rounding, draws, 0, (end - first) * hidden, from, to);
    memcpy(to, from, (size_t)((end - first) * hidden) * sizeof *to);
    return QS_OK;
}

/* What the gradient of p at a row gives to weights and bias, and to what they were multiplied with. */
static void product_back(const unrolled *u, int64_t i, const double *met, double *to, const sums *all) {
    const int64_t hidden = u->of.hidden, width = u->of.gates * hidden, row = u->direction * width + i;
    all->bias[u->of.biases < 2 ? row : row + (u->direction + 1) * width] += all->p[i];
    for (int64_t k = 0; k < hidden; k++) {
        if (!u->with->gradients) all->weights[row * hidden + k] += all->p[i] * met[k];
        to[k] += all->sent[i] * u->back[row * hidden + k];
    }
}

/* Of an LSTM: the gradients of x from those of h and C behind the step; then of C before it. */
static void lstm_back(const unrolled *u, const double *g, const double *cell, const sums *all) {
    const int64_t hidden = u->of.hidden, i = gate_at(u, QS_GATE_I), o = gate_at(u, QS_GATE_O), f = gate_at(u, QS_GATE_F),
                  c = gate_at(u, QS_GATE_C);
    for (int64_t k = 0; k < hidden; k++) {
        const double dh = all->state[k], t = tanh(cell[hidden + k]), dc = all->cell[k] + dh * g[o + k] * (1 - t * t);
        all->x[i + k] = dc * g[c + k] * g[i + k] * (1 - g[i + k]);
        all->x[o + k] = dh * t * g[o + k] * (1 - g[o + k]);
        all->x[f + k] = dc * cell[k] * g[f + k] * (1 - g[f + k]);
        all->x[c + k] = dc * g[i + k] * (1 - g[c + k] * g[c + k]);
        all->cell[k] = dc * g[f + k];
        all->state[k] = 0;
    }
    memcpy(all->p, all->x, (size_t)(4 * hidden) * sizeof *all->p);
}

/* Of a GRU: the gradients of x and p from that of h behind the step; of h before it what comes on no way through z's and r's products. */
static qs_status gru_back(const unrolled *u, int64_t s, const sums *all) {
    const int64_t hidden = u->of.hidden, z = gate_at(u, QS_GATE_Z), r = gate_at(u, QS_GATE_R), n = gate_at(u, QS_GATE_N);
    const bool late = u->of.cell == QS_CELL_GRU_LATE;
    const double *before = u->state + s * hidden, *other = u->other + s * hidden, *g = u->gates + s * 3 * hidden;
    for (int64_t k = 0; k < hidden; k++) {
        const double dh = all->state[k];
        all->x[z + k] = all->p[z + k] = dh * (before[k] - g[n + k]) * g[z + k] * (1 - g[z + k]);
        all->x[n + k] = dh * (1 - g[z + k]) * (1 - g[n + k] * g[n + k]);
        all->p[n + k] = late ? all->x[n + k] * g[r + k] : all->x[n + k];
        all->state[k] = dh * g[z + k];
        all->reset[k] = 0;
    }
    if (!late) QS_TRY(send(u, s, n / hidden, n / hidden + 1, all));
    for (int64_t k = 0; k < hidden && !late; k++)
        product_back(u, n + k, u->met_reset + s * hidden, all->reset, all);
    for (int64_t k = 0; k < hidden; k++) {
        const double dr = late ? all->x[n + k] * other[k] : all->reset[k] * before[k];
        all->x[r + k] = all->p[r + k] = dr * g[r + k] * (1 - g[r + k]);
        all->state[k] += all->reset[k] * g[r + k];
    }
    return QS_OK;
}

/* With `state` and `cell` the gradients behind the step: those before it, and what the step adds to src and parameters. An early GRU's new
 * gate, the last one, has gone back through R by itself. */
static qs_status step_back(const unrolled *u, int64_t s, const sums *all) {
    const int64_t hidden = u->of.hidden, width = u->of.gates * hidden, first = u->direction * width;
    const int64_t through = u->of.cell == QS_CELL_GRU ? 2 : u->of.gates,
                  row = u->direction * u->of.samples * u->of.positions + row_of(u, s);
    const double *other = u->other + s * hidden, *g = u->gates + s * width, *met = u->met + s * hidden;
    if (u->of.cell == QS_CELL_LSTM) lstm_back(u, g, other, all);
    if (is_gru(&u->of)) QS_TRY(gru_back(u, s, all));
    for (int64_t k = 0; k < hidden && u->of.gates == 1; k++) {
        const double slope = u->of.cell == QS_CELL_TANH ? 1 - g[k] * g[k] : g[k] > 0;
        all->x[k] = all->p[k] = all->state[k] * slope;
        all->state[k] = 0;
    }
    QS_TRY(send(u, s, 0, through, all));
    for (int64_t i = 0; i < width; i++) {
        all->src[row_of(u, s) * u->of.channels + first + i] = all->x[i];
        if (u->of.biases == 2) all->bias[2 * first + i] += all->x[i];
        if (i < through * hidden) product_back(u, i, met, all->state, all);
    }
    if (!u->with->gradients) return QS_OK;
    memcpy(all->all + row * width, all->p, (size_t)width * sizeof *all->all);
    memcpy(all->met + row * hidden, met, (size_t)hidden * sizeof *all->met);
    memcpy(all->met_reset + row * hidden, u->met_reset + s * hidden, (size_t)hidden * sizeof *all->met_reset);
    return QS_OK;
}

/* The gradient of R from codes of all gradients of p, with one step in each direction. */
static qs_status weights_back(unrolled *u, const sums *all) {
    const int64_t hidden = u->of.hidden, width = u->of.gates * hidden, rows = u->of.samples * u->of.positions;
    for (u->direction = 0; u->direction < u->of.directions; u->direction++) {
        double *p = all->all + u->direction * rows * width, largest = 0;
        for (int64_t i = 0; i < rows * width; i++)
            largest = fabs(p[i]) <= largest || isnan(largest) ? largest : fabs(p[i]); /* what is not finite stays so */
        const float step = qs_step_of_absmax(u->with->gradients, (float)largest);
        for (int64_t row = 0; row < rows; row++) {
            const qs_random_stream draws =
                qs_recurrence_draws(&u->of, u->run, QS_CODES_OF_GRADIENTS, row / u->of.positions, row % u->of.positions, u->direction);
            QS_TRY(decoded_row(u->with->gradients, u->with->rounding, draws, step, width, p + row * width, p + row * width));
            for (int64_t i = 0; i < width; i++) {
                const bool reset = u->of.cell == QS_CELL_GRU && i >= 2 * hidden;
                const double *met = (reset ? all->met_reset : all->met) + (u->direction * rows + row) * hidden;
                for (int64_t k = 0; k < hidden; k++)
                    all->weights[(u->direction * width + i) * hidden + k] += p[row * width + i] * met[k];
            }
        }
    }
    return QS_OK;
}

static qs_status sums_make(const qs_recurrence *of, const qs_attributes *with, sums *out) {
    const size_t hidden = (size_t)of->hidden, width = (size_t)of->gates * hidden, channels = (size_t)of->channels;
    QS_TRY(qs_allocate((size_t)(of->samples * of->positions) * channels, sizeof *out->src, &out->src));
    QS_TRY(qs_allocate(channels * hidden, sizeof *out->weights, &out->weights));       /* zeros */
    QS_TRY(qs_allocate((size_t)of->biases * channels, sizeof *out->bias, &out->bias)); /* zeros */
    QS_TRY(qs_allocate(hidden, sizeof *out->state, &out->state));
    QS_TRY(qs_allocate(hidden, sizeof *out->cell, &out->cell));
    QS_TRY(qs_allocate(hidden, sizeof *out->reset, &out->reset));
    QS_TRY(qs_allocate(width, sizeof *out->x, &out->x));
    QS_TRY(qs_allocate(width, sizeof *out->sent, &out->sent));
    QS_TRY(qs_allocate(width, sizeof *out->p, &out->p));
    if (!with->gradients) return QS_OK;
    const size_t rows = (size_t)(of->samples * of->positions * of->directions);
    QS_TRY(qs_allocate(rows * width, sizeof *out->all, &out->all));
    QS_TRY(qs_allocate(rows * hidden, sizeof *out->met, &out->met));
    return qs_allocate(rows * hidden, sizeof *out->met_reset, &out->met_reset);
}

static void sums_release(sums *one) {
    free(one->src);
    free(one->weights);
    free(one->bias);
    free(one->state);
    free(one->cell);
    free(one->reset);
    free(one->x);
    free(one->p);
    free(one->sent);
    free(one->all);
    free(one->met);
    free(one->met_reset);
}

/* All steps of a direction of a sample, on and back. */
static qs_status direction_back(const unrolled *u, const float *diff, const sums *all) {
    const int64_t hidden = u->of.hidden;
    for (int64_t s = 0; s < u->of.positions; s++)
        QS_TRY(step_forward(u, s));
    memset(all->state, 0, (size_t)hidden * sizeof *all->state);
    memset(all->cell, 0, (size_t)hidden * sizeof *all->cell);
    for (int64_t s = u->of.positions - 1; s >= 0; s--) {
        for (int64_t k = 0; k < hidden; k++)
            all->state[k] += (double)diff[row_of(u, s) * u->of.units + u->direction * hidden + k];
        QS_TRY(step_back(u, s, all));
    }
    return QS_OK;
}

qs_status qs__recurrence_backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    unrolled u;
    sums all = {0};
    float *diff = NULL;
    qs_status status;
    QS_GOTO(unrolled_make(one, operands, run, &u));
    QS_GOTO(sums_make(&u.of, u.with, &all));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    for (; u.sample < u.of.samples; u.sample++)
        for (u.direction = 0; u.direction < u.of.directions; u.direction++)
            QS_GOTO(direction_back(&u, diff, &all));
    if (u.with->gradients) QS_GOTO(weights_back(&u, &all));
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_SRC), all.src));
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_WEIGHTS), all.weights));
    if (qs__present(one, QS_DIFF_BIAS)) status = qs__write_double(qs__operand(one, operands, QS_DIFF_BIAS), all.bias);
done:
    unrolled_release(&u);
    sums_release(&all);
    free(diff);
    return status;
}
