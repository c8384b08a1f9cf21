// SPDX-License-Identifier: Apache-2.0
/* See narrow_plan.h. */
#include "cpu/narrow/narrow_plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t ceiling(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------------------------- */

static void factor_formats(const qs_case *one, const qs_format *factor[2]) {
    for (int i = 0; i < 2; i++)
        factor[i] = qs__case_format(one, one->pass->product->factor[i]);
}

/* Places of a product, from its first bit to its last. */
static int product_places(const qs_case *one) {
    const qs_format *factor[2];
    const int rounded = one->attributes.accumulator.product_bits;
    factor_formats(one, factor);
    const int exact = factor[0]->mantissa_bits + factor[1]->mantissa_bits + 2;
    return rounded && rounded + 1 < exact ? rounded + 1 : exact;
}

static bool rounds_products(const qs_case *one) {
    const qs_format *factor[2];
    factor_formats(one, factor);
    return product_places(one) < factor[0]->mantissa_bits + factor[1]->mantissa_bits + 2;
}

/* Floats do where products fit their 24 bits (with align-truncate they are added to what the other operand keeps, a bit more), no sum has
 * bits below the least place (all are multiples of the least product), and what is added to find a place, up to 2^22 times a sum, is in
 * range. With one bit, 1 / place of a zero would be infinite. */
static bool fits_floats(const qs_case *one, int64_t length) {
    const qs_narrow *narrow = &one->attributes.accumulator;
    const qs_format *factor[2];
    factor_formats(one, factor);
    const bool stochastic = strcmp(qs_adder_name(narrow->adder), "stochastic") == 0;
    const int widest = strcmp(qs_adder_name(narrow->adder), "align-truncate") == 0 ? 23 : 24;
    const int bias = (1 << (narrow->exponent_bits - 1)) - 1;
    const double unit = factor[0]->min_subnormal * factor[1]->min_subnormal, product = factor[0]->max * factor[1]->max;
    const double sum = fmin(qs_narrow_largest(narrow), product * (double)length);
    return !rounds_products(one) && product_places(one) <= widest && narrow->mantissa_bits > 1 &&
           narrow->mantissa_bits <= (stochastic ? QS_WIDEST_GUARDED : 20) && unit >= ldexp(1, 1 - bias - narrow->mantissa_bits) &&
           unit >= 0x1p-100 && sum + product <= 0x1p100;
}

/* Whether rounding the lanes' own sum, of `fraction` places behind the first, to m places is as good as rounding the exact one. It is not
 * where the first rounding makes a tie of what was none: the exact sum is then an odd multiple of half a place and a rest below the lane's
 * places. Operands of `places` and of m + 1 bits can only give it if one of them reaches from there to there (places >= fraction - m, or
 * m + 1 >= fraction - m), or one is the tie and the other the rest, which takes places > m + 1. */
static bool rounds_well(int places, int mantissa_bits, int fraction) {
    return places <= mantissa_bits + 1 && places < fraction - mantissa_bits && mantissa_bits + 1 < fraction - mantissa_bits;
}

static qs__narrow_adder adder_of(const qs_case *one, qs__narrow_lanes lanes) {
    const qs_narrow *narrow = &one->attributes.accumulator;
    const char *name = qs_adder_name(narrow->adder);
    const int fraction = lanes == QS__NARROW_DOUBLES ? 52 : 23;
    if (strcmp(name, "align-truncate") == 0) return QS__NARROW_ALIGN_TRUNCATE;
    if (strcmp(name, "toward-zero") == 0) return QS__NARROW_TOWARD_ZERO;
    if (strcmp(name, "stochastic") == 0) return QS__NARROW_STOCHASTIC;
    return rounds_well(product_places(one), narrow->mantissa_bits, fraction) ? QS__NARROW_NEAREST : QS__NARROW_NEAREST_EXACT;
}

qs__narrow_rule qs__narrow_rule_of(const qs_case *one, qs__narrow_lanes lanes) {
    const qs_narrow *narrow = &one->attributes.accumulator;
    const bool rounds = rounds_products(one);
    return (qs__narrow_rule){.adder = adder_of(one, lanes),
                             .lanes = lanes,
                             .guarded = narrow->mantissa_bits <= QS_WIDEST_GUARDED,
                             .mantissa_bits = narrow->mantissa_bits,
                             .least_exponent = 2 - (1 << (narrow->exponent_bits - 1)),
                             .product_bits = rounds ? narrow->product_bits : 0,
                             .largest = fmin(qs_narrow_largest(narrow), lanes == QS__NARROW_DOUBLES ? INFINITY : FLT_MAX),
                             .variant = {.rounds = rounds},
                             .scale = {{1, 0}, {1, 0}},
                             .unit = 1,
                             .result = 1};
}

qs__narrow_lanes qs__narrow_lanes_of(const qs_case *one, int64_t length, const qs__cpu_kernels *kernels) {
    const bool fused = kernels->narrow_tile[QS__NARROW_FUSED] && qs__narrow_fuses(&one->attributes.accumulator, rounds_products(one));
    return fits_floats(one, length) ? QS__NARROW_FLOATS : fused ? QS__NARROW_FUSED : QS__NARROW_DOUBLES;
}

/* ---- Shapes -------------------------------------------------------------------------------------------------------------------------- */

/* The image that the pass reads, of which `lines` and `columns` are read, from top and left zeros on. */
static qs__narrow_image image_of(const qs__geometry *view, int64_t top, int64_t left, int64_t lines, int64_t columns) {
    qs__narrow_image out = {.channels = view->channels, .height = view->height, .width = view->width, .top = top, .left = left};
    out.padded_height = most(lines, top + view->height);
    out.padded_width = most(columns, left + view->width);
    out.elements = out.padded_height * out.padded_width * out.channels + QS__NARROW_COLUMNS;
    return out;
}

/* Places from the first tap of a window to its last. */
static int64_t reach_of(const qs__geometry *view, int axis) {
    return (view->kernel[axis] - 1) * view->dilation[axis];
}

static void set_windows(qs__narrow_plan *p) {
    const qs__geometry *v = &p->view;
    p->image = image_of(v, v->padding[0], v->padding[1], (v->out_height - 1) * v->stride[0] + reach_of(v, 0) + 1,
                        (v->out_width - 1) * v->stride[1] + reach_of(v, 1) + 1);
    p->line_step = v->stride[0] * p->image.padded_width * v->channels;
    p->pixel_step = v->stride[1] * v->channels;
}

static void set_forward(qs__narrow_plan *p) {
    p->length = p->taps * p->group_inputs;
    p->columns = p->view.outputs;
    p->group_products = p->group_inputs;
    p->grids = 1;
    p->grid_lines = p->view.out_height;
    p->read_step = p->view.stride[0], p->read_lines = reach_of(&p->view, 0) + 1;
    p->result_step[0] = p->result_step[1] = 1;
    set_windows(p);
}

/* Zeros in front of the results along an axis: result (0 + padding - reach) / stride is the first that is read. */
static int64_t zeros_before(const qs__narrow_plan *p, int axis) {
    return ceiling(most(0, reach_of(&p->view, axis) - p->view.padding[axis]), p->view.stride[axis]);
}

static void set_input_gradient(qs__narrow_plan *p) {
    const qs__geometry *v = &p->view;
    const int64_t top = zeros_before(p, 0), left = zeros_before(p, 1);
    p->length = p->taps * p->group_outputs;
    p->columns = v->outputs;
    p->group_products = p->group_outputs;
    p->grids = v->stride[0] * v->stride[1];
    p->grid_lines = ceiling(v->out_height, v->stride[0]);
    p->image = image_of(v, top, left, top + (v->out_height - 1 + v->padding[0]) / v->stride[0] + 1,
                        left + (v->out_width - 1 + v->padding[1]) / v->stride[1] + 1);
    p->line_step = p->image.padded_width * v->channels;
    p->pixel_step = v->channels;
    p->read_step = 1, p->read_lines = top + (v->stride[0] - 1 + v->padding[0]) / v->stride[0] + 1;
    p->result_step[0] = v->stride[0], p->result_step[1] = v->stride[1];
}

static void set_weight_gradient(qs__narrow_plan *p) {
    p->pixels = p->view.out_height * p->view.out_width;
    p->length = p->view.batch * p->pixels;
    p->columns = p->view.outputs;
    p->rows = p->taps * p->group_inputs;
    set_windows(p);
}

/* ---- Scratch ------------------------------------------------------------------------------------------------------------------------- */

static size_t reserve(qs__narrow_plan *p, size_t bytes) {
    const size_t at = p->scratch_bytes;
    p->scratch_bytes += (bytes + 63) / 64 * 64;
    return at;
}

/* Few samples are cut into bands, so that all threads have work. */
static void divide_images(int threads, qs__narrow_plan *p) {
    const bool whole = p->view.batch % threads == 0 || p->view.batch >= 4 * threads;
    p->bands = whole ? 1 : least(p->grid_lines, ceiling(4 * (int64_t)threads, p->view.batch));
    p->slots = least(threads, p->view.batch * p->bands);
    p->most_pieces = 2 * p->taps + (p->chunk ? p->length / p->chunk : 0);
    p->slot_bytes = ((size_t)p->image.elements * p->element + 63) / 64 * 64;
    p->pieces = reserve(p, (size_t)(p->grids * p->most_pieces) * sizeof(qs__narrow_piece));
    p->flat = reserve(p, (size_t)p->weights * p->element);
    p->packed = reserve(p, (size_t)(p->view.groups * p->blocks * p->length * QS__NARROW_COLUMNS) * p->element);
}

static void divide_weights(int threads, qs__narrow_plan *p) {
    p->units = p->view.groups * p->blocks * ceiling(p->rows, QS__NARROW_ROWS);
    p->slots = least(threads, p->units);
    p->most_pieces = p->pixels / p->view.out_width * 2 + (p->chunk ? p->pixels / p->chunk : 0);
    p->slot_bytes = ((size_t)(p->image.elements + p->pixels * p->columns + QS__NARROW_COLUMNS) * p->element + 63) / 64 * 64;
    p->pieces = reserve(p, (size_t)(p->slots * p->most_pieces) * sizeof(qs__narrow_piece));
    p->sums = reserve(p, (size_t)(p->units * 2 * QS__NARROW_ROWS * QS__NARROW_COLUMNS) * p->element);
    p->bias = reserve(p, (size_t)p->columns * sizeof(double));
}

qs__narrow_plan qs__narrow_plan_of(const qs_case *one, qs__narrow_lanes lanes, int threads) {
    qs__geometry forward = qs__case_geometry(one);
    qs__narrow_plan p = {.pass = qs__case_pass(one), .taps = forward.kernel[0] * forward.kernel[1]};
    if (one->operand[0].shape.axes < 4) {
        forward.height = forward.out_height = forward.batch;
        forward.batch = 1;
    }
    p.view = p.pass == QS__INPUT_GRADIENT ? qs__geometry_reversed(&forward) : forward;
    p.group_inputs = forward.channels / forward.groups, p.group_outputs = forward.outputs / forward.groups;
    p.weights = forward.outputs * p.taps * p.group_inputs;
    if (p.pass == QS__FORWARD) set_forward(&p);
    if (p.pass == QS__INPUT_GRADIENT) set_input_gradient(&p);
    if (p.pass == QS__WEIGHT_GRADIENT) set_weight_gradient(&p);
    p.group_columns = p.columns / p.view.groups;
    p.blocks = ceiling(p.group_columns, QS__NARROW_COLUMNS);
    p.rule = qs__narrow_rule_of(one, lanes);
    p.element = qs__narrow_element(lanes);
    p.chunk = one->attributes.accumulator.chunk < p.length ? one->attributes.accumulator.chunk : 0;
    if (p.pass == QS__WEIGHT_GRADIENT) {
        divide_weights(threads, &p);
    } else {
        divide_images(threads, &p);
    }
    p.images = reserve(&p, (size_t)p.slots * p.slot_bytes);
    return p;
}

/* ---- Pieces -------------------------------------------------------------------------------------------------------------------------- */

/* Pieces as they are written, or, with piece NULL, only counted. */
typedef struct writer {
    const qs__narrow_plan *plan;
    qs__narrow_piece *piece, last;
    int64_t count, a_step, b_step;
} writer;

static void put_last(writer *to) {
    if (to->piece && to->count) to->piece[to->count - 1] = to->last;
}

/* The sum of the last piece's chunk goes into the total. */
static void close_chunk(writer *to) {
    const qs__narrow_plan *p = to->plan;
    if (p->chunk && to->count) to->last.fold = qs_narrow_second_stage(p->length) + to->last.addition / p->chunk;
}

static bool continues(const writer *to, int64_t a, int64_t b, int64_t addition) {
    const qs__narrow_piece *last = &to->last;
    return to->count && last->fold < 0 && last->addition + last->count == addition && last->a + last->count * to->a_step == a &&
           last->b + last->count * to->b_step == b;
}

/* Products addition .. addition + count - 1; those that follow on the last piece lengthen it. */
static void put_run(writer *to, int64_t a, int64_t b, int64_t addition, int64_t count) {
    const int64_t chunk = to->plan->chunk;
    while (count > 0) {
        const int64_t part = chunk ? least(count, chunk - addition % chunk) : count;
        if (continues(to, a, b, addition)) {
            to->last.count += part;
        } else {
            if (chunk && to->count && to->last.addition / chunk != addition / chunk) close_chunk(to);
            put_last(to);
            to->last = (qs__narrow_piece){.a = a, .b = b, .count = part, .addition = addition, .fold = -1};
            to->count++;
        }
        addition += part, count -= part;
        a += part * to->a_step, b += part * to->b_step;
        if (chunk && (addition % chunk == 0 || addition == to->plan->length)) close_chunk(to);
    }
}

/* Kernel positions of an axis that pixels with this remainder of the stride have: kernel + step · n for n = 0, 1, ..., the first at result
 * `result` of the first pixel, each later one `back` results before. */
typedef struct positions {
    int64_t kernel, result, step, back;
} positions;

static positions positions_of(const qs__narrow_plan *p, int axis, int64_t remainder) {
    const int64_t stride = p->view.stride[axis], dilation = p->view.dilation[axis], place = remainder + p->view.padding[axis];
    positions out = {.step = 1};
    while (out.step * dilation % stride)
        out.step++;
    out.back = out.step * dilation / stride;
    while (out.kernel < out.step && (place - out.kernel * dilation) % stride)
        out.kernel++;
    if (out.kernel == out.step)
        out.kernel = p->view.kernel[axis]; /* none meets these pixels */
    else
        out.result = (place - out.kernel * dilation) / stride;
    return out;
}

static int64_t input_gradient_pieces(const qs__narrow_plan *p, int64_t g, qs__narrow_piece *piece) {
    writer to = {.plan = p, .piece = piece, .a_step = 1, .b_step = QS__NARROW_COLUMNS};
    const positions down = positions_of(p, 0, g / p->view.stride[1]), right = positions_of(p, 1, g % p->view.stride[1]);
    for (int64_t kh = down.kernel; kh < p->view.kernel[0]; kh += down.step)
        for (int64_t kw = right.kernel; kw < p->view.kernel[1]; kw += right.step) {
            const int64_t first = (kh * p->view.kernel[1] + kw) * p->group_outputs;
            const int64_t lines = (kh - down.kernel) / down.step * down.back, pixels = (kw - right.kernel) / right.step * right.back;
            const int64_t back = lines * p->line_step + pixels * p->pixel_step;
            put_run(&to, -back, first * QS__NARROW_COLUMNS, first, p->group_outputs);
        }
    close_chunk(&to);
    put_last(&to);
    return to.count;
}

static int64_t forward_pieces(const qs__narrow_plan *p, qs__narrow_piece *piece) {
    writer to = {.plan = p, .piece = piece, .a_step = 1, .b_step = QS__NARROW_COLUMNS};
    for (int64_t t = 0; t < p->taps; t++) {
        const int64_t line = t / p->view.kernel[1] * p->view.dilation[0], column = t % p->view.kernel[1] * p->view.dilation[1];
        const int64_t from = (line * p->image.padded_width + column) * p->image.channels;
        put_run(&to, from, t * p->group_inputs * QS__NARROW_COLUMNS, t * p->group_inputs, p->group_inputs);
    }
    put_last(&to);
    return to.count;
}

static int64_t pieces_of(const qs__narrow_plan *p, int64_t g, qs__narrow_piece *piece) {
    return p->pass == QS__FORWARD ? forward_pieces(p, piece) : input_gradient_pieces(p, g, piece);
}

qs__narrow_grid qs__narrow_grid_at(const qs__narrow_plan *p, int64_t g) {
    qs__narrow_grid out = {.piece = g * p->most_pieces, .pieces = pieces_of(p, g, NULL)};
    if (p->pass == QS__FORWARD) {
        out.height = p->view.out_height, out.width = p->view.out_width;
        return out;
    }
    out.origin[0] = g / p->view.stride[1], out.origin[1] = g % p->view.stride[1];
    out.height = ceiling(most(0, p->view.out_height - out.origin[0]), p->view.stride[0]);
    out.width = ceiling(most(0, p->view.out_width - out.origin[1]), p->view.stride[1]);
    out.base = (positions_of(p, 0, out.origin[0]).result + p->image.top) * p->line_step +
               (positions_of(p, 1, out.origin[1]).result + p->image.left) * p->pixel_step;
    return out;
}

void qs__narrow_grid_pieces(const qs__narrow_plan *p, qs__narrow_piece *piece) {
    for (int64_t g = 0; g < p->grids; g++)
        pieces_of(p, g, piece + g * p->most_pieces);
}

int64_t qs__narrow_sample_pieces(const qs__narrow_plan *p, int64_t sample, qs__narrow_piece *piece) {
    writer to = {.plan = p, .piece = piece, .a_step = p->pixel_step, .b_step = p->columns};
    for (int64_t first = 0; first < p->pixels; first += p->view.out_width)
        put_run(&to, first / p->view.out_width * p->line_step, first * p->columns, sample * p->pixels + first, p->view.out_width);
    put_last(&to);
    return to.count;
}
