// SPDX-License-Identifier: Apache-2.0
/* recurrence: the part of recurrent layers that goes from position to position. What the input gives to each gate, W x, is a linear of all
 * positions before it.
 *
 * src [N, D·G·H, L], weights R [D·G·H, H], bias [D·B·G·H]: dst [N, D·H, L], the state h of every position. G gates of H values lie one
 * behind the other in the channels. With p = R h' + c, h' the state of the position before, c the bias, σ the logistic function, * by
 * element, and a letter for the part of a gate, the setting `cell` says
 *   0  tanh     h = tanh(x + p)
 *   1  relu     h = max(x + p, 0)
 *   2  LSTM     i = σ(xi + pi), o = σ(xo + po), f = σ(xf + pf), C = f * C' + i * tanh(xc + pc), h = o * tanh(C)
 *   3  GRU      z = σ(xz + pz), r = σ(xr + pr), n = tanh(xn + Rn (r * h') + cn), h = (1 - z) * n + z * h'
 *   4  the same with n = tanh(xn + r * pn)
 * Gates stand in the order i o f c and z r n of ONNX, or, with `order` 1, in that of PyTorch, i f c o and r z n, so that parameters are
 * those of either, row by row. With `biases` 2 there are two of each gate, all of the first before all of the second: the first is added to
 * x. Before the first position h' and C' are 0. `direction` 1 begins at the last position; 2 does both, D = 2, each with its own half of
 * channels and rows. Passes: forward src weights bias? dst; backward src weights bias? diff_dst diff_src diff_weights diff_bias?, which
 * runs forward once more to have the gates (they are several times the states: cheaper to form than to keep) and then back through the
 * positions (Werbos, 1990). States and their gradients are not rounded on the way, only what is written. */
#include "internal.h"

#include "qsync/recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    qs_recurrence of;
    QS_TRY(qs_recurrence_of(with, src, &of));
    *dst = qs_shape_of(3, of.samples, of.units, of.positions);
    return QS_OK;
}

/* Normal, with the variance 1/(3H) that PyTorch's uniform start has. */
static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)outputs;
    qs_recurrence of = {0};
    (void)qs_recurrence_of(with, src, &of); /* infer came first */
    const qs_shape weights = qs_shape_of(2, of.channels, of.hidden);
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, weights, 0, 6 * of.hidden};
    if (bias) out[1] = (qs_parameter_rule){"bias", QS_BIAS, QS_DIFF_BIAS, qs_shape_of(1, of.biases * of.channels), 0, 0};
    return bias ? 2 : 1;
}

qs_recurrence qs_case_recurrence(const qs_case *one) {
    qs_recurrence of = {0};
    (void)qs_recurrence_of(&one->attributes, qs__shape(one, QS_SRC), &of); /* the case was checked */
    return of;
}

static qs_status check(const qs_case *one, qs_role dst, qs_role weights, qs_role bias) {
    qs_recurrence of;
    QS_TRY(qs_recurrence_of(&one->attributes, qs__shape(one, QS_SRC), &of));
    QS_TRY(qs__need_shape(one, dst, qs_shape_of(3, of.samples, of.units, of.positions)));
    QS_TRY(qs__need_shape(one, weights, qs_shape_of(2, of.channels, of.hidden)));
    return qs__need_shape(one, bias, qs_shape_of(1, of.biases * of.channels));
}

static qs_status check_forward(const qs_case *one) {
    return check(one, QS_DST, QS_WEIGHTS, QS_BIAS);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(check(one, QS_DIFF_DST, QS_WEIGHTS, QS_BIAS));
    QS_TRY(check(one, QS_DIFF_DST, QS_DIFF_WEIGHTS, QS_DIFF_BIAS));
    return qs__need_same(one, QS_DIFF_SRC, QS_SRC);
}

/* ---- Reference ---- */

/* Decoded operands, and all positions of a direction of a sample by the step that they are taken in, states with that before the first
 * step. */
typedef struct unrolled {
    qs_recurrence of;
    int64_t sample, direction;
    float *src, *weights;
    float *bias;   /* zeros where there is none */
    double *gates; /* [L][G·H]: what the gates became */
    double *state; /* [L + 1][H]: h */
    double *other; /* [L + 1][H]: C of an LSTM; pn of a late GRU's step, r * h' of another's */
} unrolled;

static void unrolled_release(unrolled *u) {
    free(u->src);
    free(u->weights);
    free(u->bias);
    free(u->gates);
    free(u->state);
    free(u->other);
}

static qs_status unrolled_make(const qs_case *one, const qs_tensor *operands, unrolled *u) {
    *u = (unrolled){.of = qs_case_recurrence(one)};
    const size_t states = (size_t)((u->of.positions + 1) * u->of.hidden);
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &u->src));
    QS_TRY(qs__read(qs__operand(one, operands, QS_WEIGHTS), &u->weights));
    if (qs__present(one, QS_BIAS))
        QS_TRY(qs__read(qs__operand(one, operands, QS_BIAS), &u->bias));
    else
        QS_TRY(qs_allocate((size_t)(u->of.biases * u->of.channels), sizeof *u->bias, &u->bias)); /* zeros */
    QS_TRY(qs_allocate((size_t)u->of.gates * states, sizeof *u->gates, &u->gates));
    QS_TRY(qs_allocate(states, sizeof *u->state, &u->state)); /* zeros */
    return qs_allocate(states, sizeof *u->other, &u->other);  /* zeros */
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

static double product_of(const unrolled *u, int64_t i, const double *with) {
    const int64_t width = u->of.gates * u->of.hidden, row = u->direction * width + i;
    const float *weights = u->weights + row * u->of.hidden;
    double sum = (double)u->bias[u->of.biases < 2 ? row : row + (u->direction + 1) * width];
    for (int64_t k = 0; k < u->of.hidden; k++)
        sum += (double)weights[k] * with[k];
    return sum;
}

static void lstm_forward(const unrolled *u, int64_t s, const double *before, double *g, double *cell, double *after) {
    const int64_t hidden = u->of.hidden, i = gate_at(u, QS_GATE_I), o = gate_at(u, QS_GATE_O), f = gate_at(u, QS_GATE_F),
                  c = gate_at(u, QS_GATE_C);
    for (int64_t k = 0; k < 4 * hidden; k++) {
        const double sum = input_of(u, s, k) + product_of(u, k, before);
        g[k] = k >= c && k < c + hidden ? tanh(sum) : qs__sigmoid(sum);
    }
    for (int64_t k = 0; k < hidden; k++) {
        cell[hidden + k] = g[f + k] * cell[k] + g[i + k] * g[c + k];
        after[k] = g[o + k] * tanh(cell[hidden + k]);
    }
}

static void gru_forward(const unrolled *u, int64_t s, const double *before, double *g, double *other, double *after) {
    const int64_t hidden = u->of.hidden, z = gate_at(u, QS_GATE_Z), r = gate_at(u, QS_GATE_R), n = gate_at(u, QS_GATE_N);
    const bool late = u->of.cell == QS_CELL_GRU_LATE;
    for (int64_t k = 0; k < hidden; k++) {
        g[z + k] = qs__sigmoid(input_of(u, s, z + k) + product_of(u, z + k, before));
        g[r + k] = qs__sigmoid(input_of(u, s, r + k) + product_of(u, r + k, before));
        other[k] = late ? product_of(u, n + k, before) : g[r + k] * before[k];
    }
    for (int64_t k = 0; k < hidden; k++) {
        g[n + k] = tanh(input_of(u, s, n + k) + (late ? g[r + k] * other[k] : product_of(u, n + k, other)));
        after[k] = (1 - g[z + k]) * g[n + k] + g[z + k] * before[k];
    }
}

/* The gates of a step and the state behind it. */
static void step_forward(const unrolled *u, int64_t s) {
    const int64_t hidden = u->of.hidden;
    const double *before = u->state + s * hidden;
    double *g = u->gates + s * u->of.gates * hidden, *other = u->other + s * hidden, *after = u->state + (s + 1) * hidden;
    if (u->of.cell == QS_CELL_LSTM) lstm_forward(u, s, before, g, other, after);
    if (is_gru(&u->of)) gru_forward(u, s, before, g, other, after);
    for (int64_t k = 0; k < hidden && u->of.gates == 1; k++) {
        const double sum = input_of(u, s, k) + product_of(u, k, before);
        after[k] = g[k] = u->of.cell == QS_CELL_TANH ? tanh(sum) : sum > 0 ? sum : 0;
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    unrolled u;
    double *result = NULL;
    qs_status status;
    QS_GOTO(unrolled_make(one, operands, &u));
    const int64_t hidden = u.of.hidden;
    QS_GOTO(qs_allocate((size_t)(u.of.samples * u.of.positions * u.of.units), sizeof *result, &result));
    for (; u.sample < u.of.samples; u.sample++)
        for (u.direction = 0; u.direction < u.of.directions; u.direction++)
            for (int64_t s = 0; s < u.of.positions; s++) {
                step_forward(&u, s);
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
    double *x, *p;                /* [G·H] */
} sums;

/* What the gradient of p at a row gives to weights and bias, and to what they were multiplied with. */
static void product_back(const unrolled *u, int64_t i, const double *with, double *to, const sums *all) {
    const int64_t hidden = u->of.hidden, width = u->of.gates * hidden, row = u->direction * width + i;
    all->bias[u->of.biases < 2 ? row : row + (u->direction + 1) * width] += all->p[i];
    for (int64_t k = 0; k < hidden; k++) {
        all->weights[row * hidden + k] += all->p[i] * with[k];
        to[k] += all->p[i] * (double)u->weights[row * hidden + k];
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
static void gru_back(const unrolled *u, const double *g, const double *before, const double *other, const sums *all) {
    const int64_t hidden = u->of.hidden, z = gate_at(u, QS_GATE_Z), r = gate_at(u, QS_GATE_R), n = gate_at(u, QS_GATE_N);
    const bool late = u->of.cell == QS_CELL_GRU_LATE;
    for (int64_t k = 0; k < hidden; k++) {
        const double dh = all->state[k];
        all->x[z + k] = all->p[z + k] = dh * (before[k] - g[n + k]) * g[z + k] * (1 - g[z + k]);
        all->x[n + k] = dh * (1 - g[z + k]) * (1 - g[n + k] * g[n + k]);
        all->p[n + k] = late ? all->x[n + k] * g[r + k] : all->x[n + k];
        all->state[k] = dh * g[z + k];
        all->reset[k] = 0;
    }
    for (int64_t k = 0; k < hidden && !late; k++)
        product_back(u, n + k, other, all->reset, all);
    for (int64_t k = 0; k < hidden; k++) {
        const double dr = late ? all->x[n + k] * other[k] : all->reset[k] * before[k];
        all->x[r + k] = all->p[r + k] = dr * g[r + k] * (1 - g[r + k]);
        all->state[k] += all->reset[k] * g[r + k];
    }
}

/* With `state` and `cell` the gradients behind the step: those before it, and what the step adds to src and parameters. */
static void step_back(const unrolled *u, int64_t s, const sums *all) {
    const int64_t hidden = u->of.hidden, width = u->of.gates * hidden, first = u->direction * width;
    const double *before = u->state + s * hidden, *other = u->other + s * hidden, *g = u->gates + s * width;
    if (u->of.cell == QS_CELL_LSTM) lstm_back(u, g, other, all);
    if (is_gru(&u->of)) gru_back(u, g, before, other, all);
    for (int64_t k = 0; k < hidden && u->of.gates == 1; k++) {
        const double slope = u->of.cell == QS_CELL_TANH ? 1 - g[k] * g[k] : g[k] > 0;
        all->x[k] = all->p[k] = all->state[k] * slope;
        all->state[k] = 0;
    }
    for (int64_t i = 0; i < width; i++) {
        all->src[row_of(u, s) * u->of.channels + first + i] = all->x[i];
        if (u->of.biases == 2) all->bias[2 * first + i] += all->x[i];
        if (u->of.cell != QS_CELL_GRU || i / hidden != u->of.at[QS_GATE_N]) product_back(u, i, before, all->state, all);
    }
}

static qs_status sums_make(const qs_recurrence *of, sums *out) {
    const size_t hidden = (size_t)of->hidden, width = (size_t)of->gates * hidden, channels = (size_t)of->channels;
    QS_TRY(qs_allocate((size_t)(of->samples * of->positions) * channels, sizeof *out->src, &out->src));
    QS_TRY(qs_allocate(channels * hidden, sizeof *out->weights, &out->weights));       /* zeros */
    QS_TRY(qs_allocate((size_t)of->biases * channels, sizeof *out->bias, &out->bias)); /* zeros */
    QS_TRY(qs_allocate(hidden, sizeof *out->state, &out->state));
    QS_TRY(qs_allocate(hidden, sizeof *out->cell, &out->cell));
    QS_TRY(qs_allocate(hidden, sizeof *out->reset, &out->reset));
    QS_TRY(qs_allocate(width, sizeof *out->x, &out->x));
    return qs_allocate(width, sizeof *out->p, &out->p);
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
}

/* All steps of a direction of a sample, on and back. */
static void direction_back(const unrolled *u, const float *diff, const sums *all) {
    const int64_t hidden = u->of.hidden;
    for (int64_t s = 0; s < u->of.positions; s++)
        step_forward(u, s);
    memset(all->state, 0, (size_t)hidden * sizeof *all->state);
    memset(all->cell, 0, (size_t)hidden * sizeof *all->cell);
    for (int64_t s = u->of.positions - 1; s >= 0; s--) {
        for (int64_t k = 0; k < hidden; k++)
            all->state[k] += (double)diff[row_of(u, s) * u->of.units + u->direction * hidden + k];
        step_back(u, s, all);
    }
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    unrolled u;
    sums all = {0};
    float *diff = NULL;
    qs_status status;
    QS_GOTO(unrolled_make(one, operands, &u));
    QS_GOTO(sums_make(&u.of, &all));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    for (; u.sample < u.of.samples; u.sample++)
        for (u.direction = 0; u.direction < u.of.directions; u.direction++)
            direction_back(&u, diff, &all);
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_SRC), all.src));
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_WEIGHTS), all.weights));
    if (qs__present(one, QS_DIFF_BIAS)) status = qs__write_double(qs__operand(one, operands, QS_DIFF_BIAS), all.bias);
done:
    unrolled_release(&u);
    sums_release(&all);
    free(diff);
    return status;
}

/* The products with R, and the curves beside them; backward the same once more, and two products for each of these. */
static double flops_forward(const qs_case *one) {
    const qs_recurrence of = qs_case_recurrence(one);
    return (double)(of.samples * of.positions) * (double)of.channels * (2 * (double)of.hidden + 8);
}

static double flops_backward(const qs_case *one) {
    return 3 * flops_forward(one);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER},
                 {.role = QS_BIAS, .source = QS_FROM_PARAMETER, .optional = true}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER},
                 {.role = QS_BIAS, .source = QS_FROM_PARAMETER, .optional = true}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}, {.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT},
                 {.role = QS_DIFF_BIAS, .source = QS_TO_PARAMETER_GRADIENT, .optional = true}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

/* N samples of L positions; G, U: channels of src and dst; H: hidden values; B: biases, all of them; S: settings. */
#define FORWARD(F, N, L, G, U, H, B, S) \
    "recurrence/forward src=" F "[" N "," G "," L "] weights=fp32[" G "," H "] bias=fp32[" B "] dst=" F "[" N "," U "," L "]" S
#define EVERY(F, N, L, G, U, H, B, S)                                                                                               \
    FORWARD(F, N, L, G, U, H, B, S),                                                                                                \
        "recurrence/backward src=" F "[" N "," G "," L "] weights=fp32[" G "," H "] bias=fp32[" B "] diff_dst=" F "[" N "," U "," L \
        "] diff_src=" F "[" N "," G "," L "] diff_weights=fp32[" G "," H "] diff_bias=fp32[" B "]" S

static const char *const cases[] = {
    EVERY("fp32", "2", "3", "4", "4", "4", "4", ""),
    EVERY("bf16", "3", "5", "9", "9", "9", "9", " cell=1"),
    EVERY("fp32", "2", "4", "12", "3", "3", "12", " cell=2"),
    EVERY("fp32", "3", "2", "20", "5", "5", "20", " cell=2 direction=1 order=1"),
    EVERY("fp32", "2", "4", "9", "3", "3", "9", " cell=3"),
    EVERY("fp32", "2", "3", "15", "5", "5", "15", " cell=3 direction=1 order=1"),
    EVERY("fp32", "3", "4", "9", "3", "3", "9", " cell=4"),
    EVERY("fp32", "2", "3", "18", "6", "3", "36", " cell=4 direction=2 order=1 biases=2"),
    EVERY("fp32", "2", "3", "24", "6", "3", "48", " cell=2 direction=2 biases=2"),
    EVERY("fp32", "1", "1", "3", "1", "1", "3", " cell=4"),
    EVERY("bf16", "2", "9", "132", "33", "33", "132", " cell=2"),
    EVERY("bf16", "7", "6", "60", "20", "20", "60", " cell=3"),
    EVERY("bf16", "5", "4", "102", "34", "17", "204", " cell=4 direction=2 biases=2"),
    EVERY("fp16", "2", "5", "32", "8", "8", "32", " cell=2 order=1"),
    FORWARD("fp32", "9", "20", "128", "32", "32", "128", " cell=2"),
    "recurrence/forward src=bf16[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2",
    "recurrence/backward src=fp32[2,9,4] weights=fp32[9,3] diff_dst=fp32[2,3,4] diff_src=fp32[2,9,4] diff_weights=fp32[9,3] cell=3",
    NULL};

const qs_op qs__op_recurrence = {
    .name = "recurrence",
    .takes = QS_TAKES_BIAS,
    .kind = QS_DEPENDENT,
    .inputs = 1,
    .infer = infer,
    .parameters = parameters,
    .setting = {QS_SETTING_AS("cell", mode, 0, 0, QS_CELLS - 1, "0: tanh, 1: relu, 2: LSTM, 3: GRU, 4: GRU that resets behind the product"),
                QS_SETTING_AS("direction", along, 0, 0, 2, "0: from the first position on, 1: from the last one back, 2: both"),
                QS_SETTING(order, 0, 0, 1, "of the gates; 0: as ONNX has them, 1: as PyTorch has them"),
                QS_SETTING_AS("biases", size, 0, 0, 2, "of each gate; 0, 1: of the product, 2: of the input, too")},
    .passes = 2,
    .pass = passes,
    .cases = cases};
