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
 * positions (Werbos, 1990). States and their gradients are not rounded on the way, only what is written.
 *
 * With `to`, a signed format of codes, products with R are of codes, rounded as `rounding` says, and summed exactly. States are in [-1, 1],
 * and so is r * h': their step is 1 / (largest code), known before the sequence runs. A row of R has the step of its largest magnitude.
 * Nothing else changes: gates, and what a GRU keeps of h', are of states as they are. With `gradients`, too, backward multiplies codes.
 * For the gradient of a state, those of p at the position have one step, that of their largest magnitude (of an early GRU's z and r one, of
 * n another, as p of r is known behind n's product), and R has one for each column. For the gradient of R, those of p have one step over
 * all samples and positions of a direction, and states have the codes that forward multiplied; without `gradients` these codes' values
 * meet gradients as they are. Gradients of biases are sums of gradients as they are. Draws: qs_recurrence_draws. */
#include "recurrence.h"

#include "qsync/inner.h"

#include <math.h>

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

/* A relu's states have no bound that a step could follow from. */
static bool takes_codes(const qs_attributes *with) {
    return (qs_cell)with->mode != QS_CELL_RELU;
}

static qs_status check_codes(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const qs_format *const both[] = {with->to, with->gradients};
    for (int i = 0; i < 2; i++)
        if (both[i] && (both[i]->kind != QS_KIND_INTEGER || both[i]->is_unsigned))
            return qs__refuse(one, "products of %s: codes are signed integers", both[i]->name);
    if (with->gradients && !with->to) return qs__refuse(one, "gradients=%s: it needs codes of states, to=int8", with->gradients->name);
    if (!with->to) return QS_OK;
    if (one->operand[qs_case_position(one, QS_WEIGHTS)].format != qs_format_of("fp32"))
        return qs__refuse(one, "to=%s: codes are made of fp32 weights", with->to->name);
    if (takes_codes(with)) return QS_OK;
    return qs__refuse(one, "to=%s: the states of a relu have no bound, and so no step", with->to->name);
}

static qs_status check(const qs_case *one, qs_role dst, qs_role weights, qs_role bias) {
    qs_recurrence of;
    QS_TRY(qs_recurrence_of(&one->attributes, qs__shape(one, QS_SRC), &of));
    QS_TRY(check_codes(one));
    QS_TRY(qs__need_shape(one, dst, qs_shape_of(3, of.samples, of.units, of.positions)));
    QS_TRY(qs__need_shape(one, weights, qs_shape_of(2, of.channels, of.hidden)));
    return qs__need_shape(one, bias, qs_shape_of(1, of.biases * of.channels));
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(check(one, QS_DST, QS_WEIGHTS, QS_BIAS));
    return one->attributes.gradients ? qs__refuse(one, "gradients=%s: forward has none", one->attributes.gradients->name) : QS_OK;
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(check(one, QS_DIFF_DST, QS_WEIGHTS, QS_BIAS));
    QS_TRY(check(one, QS_DIFF_DST, QS_DIFF_WEIGHTS, QS_DIFF_BIAS));
    return qs__need_same(one, QS_DIFF_SRC, QS_SRC);
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
     .reference = qs__recurrence_forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER},
                 {.role = QS_BIAS, .source = QS_FROM_PARAMETER, .optional = true}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}, {.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT},
                 {.role = QS_DIFF_BIAS, .source = QS_TO_PARAMETER_GRADIENT, .optional = true}),
     .reference = qs__recurrence_backward,
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

/* The same with products of codes: C, and backward E. */
#define EVERY_CODES(F, N, L, G, U, H, B, C, E, S)                                                                                   \
    FORWARD(F, N, L, G, U, H, B, S " rounding=stochastic to=" C),                                                                   \
        "recurrence/backward src=" F "[" N "," G "," L "] weights=fp32[" G "," H "] bias=fp32[" B "] diff_dst=" F "[" N "," U "," L \
        "] diff_src=" F "[" N "," G "," L "] diff_weights=fp32[" G "," H "] diff_bias=fp32[" B "]" S " rounding=stochastic to=" C   \
        " gradients=" E

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
    EVERY_CODES("fp32", "3", "5", "9", "9", "9", "9", "int8", "int8", ""),
    EVERY_CODES("fp32", "2", "4", "12", "3", "3", "12", "int8", "int8", " cell=2"),
    EVERY_CODES("bf16", "5", "2", "132", "33", "33", "132", "int8", "int8", " cell=2 direction=1 order=1"),
    EVERY_CODES("fp32", "3", "4", "9", "3", "3", "9", "int8", "int8", " cell=3"),
    EVERY_CODES("fp32", "7", "6", "60", "20", "20", "60", "int8", "int8", " cell=3 order=1"),
    EVERY_CODES("fp32", "2", "3", "18", "6", "3", "36", "int8", "int8", " cell=4 direction=2 order=1 biases=2"),
    EVERY_CODES("fp32", "2", "5", "32", "8", "8", "32", "int4", "int6", " cell=2"),
    "recurrence/backward src=fp32[3,24,5] weights=fp32[24,8] diff_dst=fp32[3,8,5] diff_src=fp32[3,24,5] diff_weights=fp32[24,8] cell=3 "
    "rounding=stochastic to=int8",
    "recurrence/forward src=bf16[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2",
    "recurrence/backward src=fp32[2,9,4] weights=fp32[9,3] diff_dst=fp32[2,3,4] diff_src=fp32[2,9,4] diff_weights=fp32[9,3] cell=3",
    NULL};

const qs_op qs__op_recurrence = {
    .name = "recurrence",
    .takes = QS_TAKES_BIAS,
    .kind = QS_ADJUSTABLE,
    .inner = &(const qs_inner){{QS_DST, QS_WEIGHTS, QS_DIFF_SRC}, takes_codes},
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
