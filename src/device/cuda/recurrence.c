// SPDX-License-Identifier: Apache-2.0
/* recurrence: at each step a product of all samples' states with R by cuBLASLt, in fp32, and a kernel of ours for what gates do
 * (recurrence.cu). Both directions go side by side, as the two matrices of a batch. What backward needs of forward it forms anew, into
 * scratch, steps one behind the other; the gradient of R is then one product over samples and steps. States and their gradients are not
 * rounded on the way.
 *
 * Products of codes (the attributes `to` and `gradients`) are products of the values that the codes stand for, in fp32 as well: their sums
 * are those of the codes times the steps, to fp32's rounding. They are there for plans that mix devices, not for speed: a step takes a
 * kernel more. */
#include "qsync/recurrence.h"
#include "cuda/convert_jobs.h"
#include "cuda/own.h"
#include "cuda/product.h"
#include "cuda/recurrence_jobs.h"

#include <stdlib.h>
#include <string.h>

/* Products: R h', that of an early GRU's r * h', and backward the gradients of both and of R. */
enum { FROM_STATE, FROM_RESET, TO_STATE, TO_RESET, OF_STATE, OF_RESET, PRODUCTS };

/* Functions of ours. */
enum { FORWARD, FORWARD_RESET, BACKWARD, BACKWARD_RESET, CAST, CODES, COLUMNS, LARGEST, FUNCTIONS };

/* fp32 [direction][step][sample][width] in scratch, where steps need not be kept of a single one. */
typedef struct rows {
    qs__place at;
    int64_t width, steps;
} rows;

typedef struct recurrence {
    qs_recurrence of;
    bool backward;
    int64_t width;     /* gates · hidden */
    qs__place weights; /* fp32, as forward multiplies them; and as backward does */
    qs__place back;
    const qs_format *codes, *gradients; /* NULL: floats */
    const qs_run *run;
    rows gates;
    rows state; /* before each step, and behind the last */
    rows other; /* an LSTM's C, likewise; r * h' of an early GRU's steps; of a late one's pn, backward, then the gradient of n's sum */
    rows met, met_reset;                    /* what products meet of state, and of r * h' in `other`: those, or their codes' values */
    rows sent;                              /* backward, of one step: what goes back of the gates' gradients: those, or their codes' */
    size_t largest;                         /* of gradients, by direction */
    rows of_state, of_cell, product, reset; /* backward, of one step */
    qs__product multiply[PRODUCTS];
    qs__bias_sums bias, bias_of_new;
    int function[FUNCTIONS];
} recurrence;

static bool is_early(const recurrence *own) {
    return own->of.cell == QS_CELL_GRU;
}

/* ---- Where values lie ---- */

static rows rows_make(qs__cuda_kernel *kernel, const recurrence *own, int64_t steps, int64_t width) {
    const int64_t count = own->of.directions * steps * own->of.samples * width;
    return (rows){
        .at = {.operand = QS__SCRATCH, .offset = qs__cuda_scratch(kernel, (size_t)count * sizeof(float))}, .width = width, .steps = steps};
}

/* Bytes that a step lies behind the first. */
static int64_t moved(const recurrence *own, const rows *of, int64_t step) {
    return of->steps > 1 ? step * own->of.samples * of->width * (int64_t)sizeof(float) : 0;
}

static int64_t direction_of(const recurrence *own, const rows *of) {
    return of->steps * own->of.samples * of->width;
}

static qs__recurrence_rows rows_at(const qs__cuda_kernel *kernel, const rows *of, int64_t step) {
    const recurrence *own = kernel->own;
    if (of->width == 0) return (qs__recurrence_rows){0};
    return (qs__recurrence_rows){.at = qs__place_at(kernel, of->at) + (CUdeviceptr)moved(own, of, step),
                                 .direction = direction_of(own, of)};
}

static qs__place place_behind(qs__place place, int64_t elements) {
    if (place.operand != QS__NOWHERE) place.offset += (size_t)elements * sizeof(float);
    return place;
}

/* ---- Products ---- */

/* A factor or a result: its first element, and its matrices. */
typedef struct piece {
    qs__place place;
    qs_matrices lie;
    int64_t move; /* bytes from step to step */
} piece;

/* Rows of a step from a column on; or, over all steps, turned. */
static piece rows_piece(const recurrence *own, const rows *of, int64_t column, bool turned) {
    return (piece){.place = place_behind(of->at, column),
                   .lie = {.head = direction_of(own, of), .row = turned ? 1 : of->width, .column = turned ? of->width : 1, .shared = 1},
                   .move = moved(own, of, 1)};
}

/* Rows of R, or of its gradient, from one on. */
static piece weights_piece(const recurrence *own, qs__place place, int64_t row, bool turned) {
    const int64_t hidden = own->of.hidden;
    return (piece){.place = place_behind(place, row * hidden),
                   .lie = {.head = own->width * hidden, .row = turned ? 1 : hidden, .column = turned ? hidden : 1, .shared = 1}};
}

static qs_status product_build(qs__cuda_kernel *kernel, int which, int64_t row_count, int64_t inner, int64_t columns, const piece part[3]) {
    recurrence *own = kernel->own;
    const qs_matmul of = {.samples = 1,
                          .heads = own->of.directions,
                          .summed = 1,
                          .rows = row_count,
                          .inner = inner,
                          .columns = columns,
                          .left = part[QS__LEFT].lie,
                          .right = part[QS__RIGHT].lie,
                          .result = part[QS__RESULT].lie};
    qs__product_request request = qs__product_start(&of);
    for (int i = 0; i < 3; i++) {
        request.place[i] = part[i].place;
        request.format[i] = qs_format_of("fp32");
        request.moves[i] = part[i].move;
    }
    return qs__product_build(kernel, &request, 0, &own->multiply[which]);
}

/* An early GRU's new state, the last of its gates, is made of r * h', all else of h'. */
static qs_status forward_products(qs__cuda_kernel *kernel, recurrence *own) {
    const int64_t hidden = own->of.hidden, direct = is_early(own) ? 2 * hidden : own->width;
    QS_TRY(product_build(kernel, FROM_STATE, own->of.samples, hidden, direct,
                         (piece[]){rows_piece(own, &own->met, 0, false), weights_piece(own, own->weights, 0, true),
                                   rows_piece(own, &own->gates, 0, false)}));
    if (!is_early(own)) return QS_OK;
    return product_build(kernel, FROM_RESET, own->of.samples, hidden, hidden,
                         (piece[]){rows_piece(own, &own->met_reset, 0, false), weights_piece(own, own->weights, direct, true),
                                   rows_piece(own, &own->gates, direct, false)});
}

static qs_status backward_products(qs__cuda_kernel *kernel, recurrence *own) {
    const int64_t hidden = own->of.hidden, samples = own->of.samples, all = samples * own->of.positions;
    const int64_t direct = is_early(own) ? 2 * hidden : own->width;
    const qs__place diff = qs__operand_place(&kernel->one, QS_DIFF_WEIGHTS);
    QS_TRY(product_build(kernel, TO_STATE, samples, direct, hidden,
                         (piece[]){rows_piece(own, &own->sent, 0, false), weights_piece(own, own->back, 0, false),
                                   rows_piece(own, &own->product, 0, false)}));
    QS_TRY(product_build(
        kernel, OF_STATE, direct, all, hidden,
        (piece[]){rows_piece(own, &own->gates, 0, true), rows_piece(own, &own->met, 0, false), weights_piece(own, diff, 0, false)}));
    if (!is_early(own)) return QS_OK;
    QS_TRY(product_build(kernel, TO_RESET, samples, hidden, hidden,
                         (piece[]){rows_piece(own, &own->sent, direct, false), weights_piece(own, own->back, direct, false),
                                   rows_piece(own, &own->reset, 0, false)}));
    return product_build(kernel, OF_RESET, hidden, all, hidden,
                         (piece[]){rows_piece(own, &own->gates, direct, true), rows_piece(own, &own->met_reset, 0, false),
                                   weights_piece(own, diff, direct, false)});
}

/* One of the products of a step. */
static qs_status multiply(const qs__cuda_kernel *kernel, int which, int64_t step) {
    const recurrence *own = kernel->own;
    const qs__product *product = &own->multiply[which];
    int64_t by[3];
    for (int i = 0; i < 3; i++)
        by[i] = step * product->is.moves[i];
    return qs__product_part(kernel, product, 0, by);
}

/* ---- Steps ---- */

static qs__recurrence_job job_of(const qs__cuda_kernel *kernel, int64_t step) {
    const recurrence *own = kernel->own;
    const qs_recurrence *of = &own->of;
    const bool lstm = of->cell == QS_CELL_LSTM;
    qs__recurrence_job job = {.cell = (int)of->cell,
                              .first = step + 1 == of->positions,
                              .biases = of->biases,
                              .gates = (int)of->gates,
                              .keeps = own->backward,
                              .samples = of->samples,
                              .positions = of->positions,
                              .hidden = of->hidden,
                              .directions = of->directions,
                              .src = qs__cuda_values_of(kernel, QS_SRC),
                              .bias = qs__cuda_at(kernel, QS_BIAS),
                              .gates_of = rows_at(kernel, &own->gates, step),
                              .before = rows_at(kernel, &own->state, step),
                              .after = rows_at(kernel, &own->state, step + 1),
                              .other = rows_at(kernel, &own->other, step),
                              .of_state = rows_at(kernel, &own->of_state, step),
                              .of_cell = rows_at(kernel, &own->of_cell, step),
                              .product = rows_at(kernel, &own->product, step)};
    if (lstm) job.next = rows_at(kernel, &own->other, step + 1);
    memcpy(job.at, of->at, sizeof job.at);
    for (int d = 0; d < of->directions; d++)
        job.place[d] = of->reverse[d] ? of->positions - 1 - step : step;
    return job;
}

static qs_status launch(const qs__cuda_kernel *kernel, int which, const qs__recurrence_job *job) {
    const recurrence *own = kernel->own;
    const int64_t values = job->directions * job->samples * job->hidden;
    return qs__cuda_launch(kernel, own->function[which], qs__cuda_blocks(kernel->cuda, values, QS__RECURRENCE_THREADS, 1),
                           QS__RECURRENCE_THREADS, 0, job);
}

/* ---- Codes ---- */

static uint64_t counter_of(const recurrence *own, qs_recurrence_draw which, int64_t sample, int64_t position, int64_t direction) {
    return qs_recurrence_draws(&own->of, own->run, which, sample, position, direction).first;
}

/* Rows of one step, or (step -1) of all; columns from `first` on, so many. */
static qs_status codes_run(const qs__cuda_kernel *kernel, int function, qs_recurrence_draw which, const rows *from, const rows *to,
                           int64_t step, int64_t first, int64_t columns) {
    const recurrence *own = kernel->own;
    const bool all = step < 0;
    const int64_t last = own->of.positions - 1, begin = all ? 0 : step;
    qs__recurrence_codes_job job = {.from = rows_at(kernel, from, begin),
                                    .to = rows_at(kernel, to, begin),
                                    .row = from->width,
                                    .columns = columns,
                                    .directions = own->of.directions,
                                    .steps = all ? own->of.positions : 1,
                                    .samples = own->of.samples,
                                    .rounding = (int)kernel->one.attributes.rounding,
                                    .key = qs_recurrence_draws(&own->of, own->run, which, 0, 0, 0).key,
                                    .by_sample = (int64_t)(counter_of(own, which, 1, 0, 0) - counter_of(own, which, 0, 0, 0))};
    const bool states = which == QS_CODES_OF_STATES || which == QS_CODES_OF_RESET;
    const qs_format *format = states ? own->codes : own->gradients;
    job.format = qs__cuda_format_of(format);
    job.step = states ? qs_step_of_absmax(format, 1) : 0;
    if (all) job.largest = kernel->scratch + own->largest;
    for (int d = 0; d < own->of.directions; d++) {
        const int64_t on = (int64_t)(counter_of(own, which, 0, 1, d) - counter_of(own, which, 0, 0, d));
        job.first[d] = counter_of(own, which, 0, own->of.reverse[d] ? last - begin : begin, d) + (uint64_t)first;
        job.by_step[d] = own->of.reverse[d] ? -on : on;
    }
    job.from.at += (uint64_t)first * sizeof(float);
    job.to.at += (uint64_t)first * sizeof(float);
    return qs__cuda_launch(kernel, own->function[function], job.directions * job.steps * job.samples, QS__RECURRENCE_THREADS, 0, &job);
}

/* R with a step for each row, or for each column. */
static qs_status weights_codes(const qs__cuda_kernel *kernel, bool by_column) {
    const recurrence *own = kernel->own;
    const int64_t hidden = own->of.hidden, even = (hidden + 1) / 2 * 2;
    const qs_recurrence_draw which = by_column ? QS_CODES_OF_COLUMNS : QS_CODES_OF_ROWS;
    qs__recurrence_codes_job job = {.from = {qs__cuda_at(kernel, QS_WEIGHTS), own->width * hidden},
                                    .to = {qs__place_at(kernel, by_column ? own->back : own->weights), own->width * hidden},
                                    .row = hidden,
                                    .columns = hidden,
                                    .directions = own->of.directions,
                                    .steps = 1,
                                    .samples = own->width,
                                    .format = qs__cuda_format_of(by_column ? own->gradients : own->codes),
                                    .rounding = (int)kernel->one.attributes.rounding,
                                    .key = qs_recurrence_draws(&own->of, own->run, which, 0, 0, 0).key,
                                    .by_sample = by_column ? hidden : even};
    for (int d = 0; d < own->of.directions; d++)
        job.first[d] = counter_of(own, which, 0, 0, d);
    const int64_t blocks =
        by_column ? qs__cuda_blocks(kernel->cuda, job.directions * hidden, QS__RECURRENCE_THREADS, 1) : job.directions * job.samples;
    return qs__cuda_launch(kernel, own->function[by_column ? COLUMNS : CODES], blocks, QS__RECURRENCE_THREADS, 0, &job);
}

/* What goes back of the gates' gradients, of columns from `first` on. */
static qs_status send(const qs__cuda_kernel *kernel, int64_t step, int64_t first, int64_t columns) {
    const recurrence *own = kernel->own;
    if (!own->gradients) return QS_OK;
    return codes_run(kernel, CODES, QS_CODES_OF_STEPS, &own->gates, &own->sent, step, first, columns);
}

/* All gates' gradients become their codes' values, for the gradient of R. */
static qs_status gradients_code(const qs__cuda_kernel *kernel) {
    const recurrence *own = kernel->own;
    if (!own->gradients) return QS_OK;
    QS_TRY(qs__cuda_clear(kernel, kernel->scratch + own->largest, (size_t)own->of.directions * sizeof(float)));
    QS_TRY(codes_run(kernel, LARGEST, QS_CODES_OF_GRADIENTS, &own->gates, &own->gates, -1, 0, own->width));
    return codes_run(kernel, CODES, QS_CODES_OF_GRADIENTS, &own->gates, &own->gates, -1, 0, own->width);
}

/* Zeros before the first step, in every direction. */
static qs_status first_clear(const qs__cuda_kernel *kernel, const rows *of) {
    const recurrence *own = kernel->own;
    for (int d = 0; d < own->of.directions; d++)
        QS_TRY(qs__cuda_clear(kernel, qs__place_at(kernel, place_behind(of->at, d * direction_of(own, of))),
                              (size_t)(own->of.samples * of->width) * sizeof(float)));
    return QS_OK;
}

static qs_status steps_forward(const qs__cuda_kernel *kernel) {
    const recurrence *own = kernel->own;
    const qs__cuda_values given = qs__cuda_values_of(kernel, QS_WEIGHTS);
    if (own->codes) QS_TRY(weights_codes(kernel, false));
    if (own->gradients) QS_TRY(weights_codes(kernel, true));
    if (own->weights.operand == QS__SCRATCH && !own->codes) {
        const qs__cuda_cast_job job = {
            .src = given,
            .dst = {.at = qs__place_at(kernel, own->weights), .count = given.count, .format = qs__cuda_format_of(qs_format_of("fp32"))}};
        QS_TRY(qs__cuda_launch(kernel, own->function[CAST], qs__cuda_blocks(kernel->cuda, given.count, QS__CUDA_THREADS, 8),
                               QS__CUDA_THREADS, 0, &job));
    }
    QS_TRY(first_clear(kernel, &own->state));
    if (own->of.cell == QS_CELL_LSTM) QS_TRY(first_clear(kernel, &own->other));
    for (int64_t step = 0; step < own->of.positions; step++) {
        qs__recurrence_job job = job_of(kernel, step);
        if (!own->backward) job.dst = qs__cuda_values_of(kernel, QS_DST);
        if (own->codes) QS_TRY(codes_run(kernel, CODES, QS_CODES_OF_STATES, &own->state, &own->met, step, 0, own->of.hidden));
        QS_TRY(multiply(kernel, FROM_STATE, step));
        QS_TRY(launch(kernel, FORWARD, &job));
        if (!is_early(own)) continue;
        if (own->codes) QS_TRY(codes_run(kernel, CODES, QS_CODES_OF_RESET, &own->other, &own->met_reset, step, 0, own->of.hidden));
        QS_TRY(multiply(kernel, FROM_RESET, step));
        QS_TRY(launch(kernel, FORWARD_RESET, &job));
    }
    return QS_OK;
}

static qs_status steps_backward(const qs__cuda_kernel *kernel) {
    const recurrence *own = kernel->own;
    for (int64_t step = own->of.positions - 1; step >= 0; step--) {
        qs__recurrence_job job = job_of(kernel, step);
        job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
        job.diff = qs__cuda_values_of(kernel, QS_DIFF_DST);
        QS_TRY(launch(kernel, BACKWARD, &job));
        if (is_early(own)) {
            job.product = rows_at(kernel, &own->reset, step);
            QS_TRY(send(kernel, step, 2 * own->of.hidden, own->of.hidden));
            QS_TRY(multiply(kernel, TO_RESET, step));
            QS_TRY(launch(kernel, BACKWARD_RESET, &job));
        }
        if (step == 0) break; /* nothing wants the gradient of the first state */
        QS_TRY(send(kernel, step, 0, is_early(own) ? 2 * own->of.hidden : own->width));
        QS_TRY(multiply(kernel, TO_STATE, step));
    }
    return QS_OK;
}

/* ---- Gradients of biases ---- */

/* Sums over samples and steps of the gradients of R h' + c; a bias of the input has the same, but for a late GRU's new state. */
static qs_status bias_run(const qs__cuda_kernel *kernel) {
    const recurrence *own = kernel->own;
    const qs_recurrence *of = &own->of;
    const qs__place diff = qs__operand_place(&kernel->one, QS_DIFF_BIAS);
    for (int d = 0; d < of->directions; d++) {
        const qs__place input = place_behind(diff, d * of->biases * own->width);
        qs__bias_sums sums = own->bias, of_new = own->bias_of_new;
        sums.from = place_behind(own->gates.at, d * direction_of(own, &own->gates));
        sums.to = place_behind(input, (of->biases - 1) * own->width);
        QS_TRY(qs__bias_sums_run(kernel, &sums));
        if (of->biases == 1) continue;
        QS_TRY(qs__cuda_copy(kernel, qs__place_at(kernel, sums.to), qs__place_at(kernel, input), (size_t)own->width * sizeof(float)));
        if (of->cell != QS_CELL_GRU_LATE) continue;
        of_new.from = place_behind(own->other.at, d * direction_of(own, &own->other));
        of_new.to = place_behind(input, of->at[QS_GATE_N] * of->hidden);
        QS_TRY(qs__bias_sums_run(kernel, &of_new));
    }
    return QS_OK;
}

static qs_status bias_build(qs__cuda_kernel *kernel, recurrence *own) {
    const qs__place nowhere = {.operand = QS__NOWHERE};
    own->bias = (qs__bias_sums){.step = nowhere,
                                .group = nowhere,
                                .format = qs_format_of("fp32"),
                                .rows = own->of.samples * own->of.positions,
                                .columns = own->width,
                                .factor = 1};
    own->bias_of_new = own->bias;
    own->bias_of_new.columns = own->of.hidden;
    QS_TRY(qs__bias_sums_build(kernel, &own->bias));
    return own->of.cell == QS_CELL_GRU_LATE && own->of.biases == 2 ? qs__bias_sums_build(kernel, &own->bias_of_new) : QS_OK;
}

/* ---- The kernel ---- */

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    recurrence *own = kernel->own;
    own->run = step;
    QS_TRY(steps_forward(kernel));
    if (!own->backward) return QS_OK;
    QS_TRY(steps_backward(kernel));
    if (qs__case_has(&kernel->one, QS_DIFF_BIAS)) QS_TRY(bias_run(kernel));
    QS_TRY(gradients_code(kernel)); /* biases had them as they are */
    QS_TRY(qs__product_run(kernel, &own->multiply[OF_STATE]));
    return is_early(own) ? qs__product_run(kernel, &own->multiply[OF_RESET]) : QS_OK;
}

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
    kernel->own = NULL;
}

static size_t weights_scratch(qs__cuda_kernel *kernel, const recurrence *own) {
    return qs__cuda_scratch(kernel, (size_t)(own->of.directions * own->width * own->of.hidden) * sizeof(float));
}

/* Scratch and functions. */
static qs_status lay_out(qs__cuda_kernel *kernel, recurrence *own) {
    static const char *const names[] = {
        "recurrence_forward", "recurrence_forward_reset", "recurrence_backward", "recurrence_backward_reset",
        "cast_nearest",       "recurrence_codes",         "recurrence_columns",  "recurrence_largest"};
    const qs_recurrence *of = &own->of;
    const int64_t steps = own->backward ? of->positions : 1, more = own->backward ? of->positions + 1 : 1;
    const bool lstm = of->cell == QS_CELL_LSTM, plain = qs__case_format(&kernel->one, QS_WEIGHTS) == qs_format_of("fp32");
    const bool used[] = {true,   is_early(own),      own->backward,          own->backward && is_early(own),
                         !plain, own->codes != NULL, own->gradients != NULL, own->gradients != NULL};
    for (int i = 0; i < FUNCTIONS; i++)
        if (used[i]) QS_TRY(qs__cuda_function(kernel, names[i], &own->function[i]));
    own->weights = qs__operand_place(&kernel->one, QS_WEIGHTS);
    own->back = own->weights;
    if (!plain || own->codes) own->weights = (qs__place){QS__SCRATCH, weights_scratch(kernel, own)};
    if (!plain) own->back = own->weights;
    if (own->gradients) own->back = (qs__place){QS__SCRATCH, weights_scratch(kernel, own)};
    own->gates = rows_make(kernel, own, steps, own->width);
    own->state = rows_make(kernel, own, more, of->hidden);
    if (lstm) own->other = rows_make(kernel, own, more, of->hidden);
    if (is_early(own) || (own->backward && of->cell == QS_CELL_GRU_LATE)) own->other = rows_make(kernel, own, steps, of->hidden);
    own->met = own->state, own->met_reset = own->other;
    own->sent = own->gates;
    if (own->codes) own->met = rows_make(kernel, own, more, of->hidden);
    if (own->codes && is_early(own)) own->met_reset = rows_make(kernel, own, steps, of->hidden);
    if (own->gradients) own->sent = rows_make(kernel, own, 1, own->width);
    if (own->gradients) own->largest = qs__cuda_scratch(kernel, (size_t)of->directions * sizeof(float));
    if (!own->backward) return QS_OK;
    own->product = rows_make(kernel, own, 1, of->hidden);
    if (lstm) own->of_cell = rows_make(kernel, own, 1, of->hidden);
    if (of->gates == 3) own->of_state = rows_make(kernel, own, 1, of->hidden);
    if (is_early(own)) own->reset = rows_make(kernel, own, 1, of->hidden);
    return QS_OK;
}

qs_status qs__cuda_build_recurrence(qs__cuda_kernel *kernel) {
    recurrence *own;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    kernel->run = run;
    own->of = qs_case_recurrence(&kernel->one);
    own->backward = qs_case_position(&kernel->one, QS_DIFF_SRC) >= 0;
    own->width = own->of.gates * own->of.hidden;
    own->codes = kernel->one.attributes.to;
    own->gradients = own->backward ? kernel->one.attributes.gradients : NULL;
    QS_TRY(lay_out(kernel, own));
    QS_TRY(forward_products(kernel, own));
    if (own->backward) QS_TRY(backward_products(kernel, own));
    if (qs__case_has(&kernel->one, QS_DIFF_BIAS)) QS_TRY(bias_build(kernel, own));
    qs__products_workspace(kernel, PRODUCTS, own->multiply);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:%s", own->multiply[FROM_STATE].plan->algorithm[0].tag);
    return QS_OK;
}
