// SPDX-License-Identifier: Apache-2.0
/* The three products of conv2d and linear in a narrow accumulator: each output element is one qs_narrow_dot of a row (a window of an image,
 * or one weight's pixels) and a column (a filter, or an output channel's gradients), gathered in the order that op.h states. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct narrow_product {
    const qs_case *one;
    const qs_run *run;
    const qs__geometry *g;
    const float *left, *right;                            /* operands of the pass, the result aside */
    int64_t taps, inputs, outputs, length, rows, columns; /* inputs, outputs: channels of a group */
    /* Fills x[length] for a row of a group, and y[length] for a column of it. */
    void (*row)(const struct narrow_product *p, int64_t row, int64_t group, float *x);
    void (*column)(const struct narrow_product *p, int64_t row, int64_t column, float *y);
    int64_t column_group; /* columns of a group */
    double *sum;          /* [rows][columns], weight gradients [columns][rows] */
    bool transposed, failed;
} narrow_product;

/* Channels of a pixel of an image, NULL outside. */
static const float *pixel(const float *image, int64_t n, int64_t h, int64_t w, int64_t height, int64_t width, int64_t channels) {
    return h < 0 || h >= height || w < 0 || w >= width ? NULL : image + ((n * height + h) * width + w) * channels;
}

static void put_channels(const float *from, int64_t count, float *x) {
    if (from) {
        memcpy(x, from, (size_t)count * sizeof *x);
    } else {
        memset(x, 0, (size_t)count * sizeof *x);
    }
}

/* ---- Forward ---- */

static void forward_row(const narrow_product *p, int64_t row, int64_t group, float *x) {
    const qs__geometry *g = p->g;
    const int64_t n = row / (g->out_height * g->out_width), oh = row / g->out_width % g->out_height, ow = row % g->out_width;
    for (int64_t t = 0; t < p->taps; t++) {
        const int64_t h = qs__tap_place(g, 0, oh, t / g->kernel[1]), w = qs__tap_place(g, 1, ow, t % g->kernel[1]);
        const float *from = pixel(p->left, n, h, w, g->height, g->width, g->channels);
        put_channels(from ? from + group * p->inputs : NULL, p->inputs, x + t * p->inputs);
    }
}

static void forward_column(const narrow_product *p, int64_t row, int64_t column, float *y) {
    (void)row;
    put_channels(p->right + column * p->length, p->length, y);
}

/* ---- Input gradient ---- */

/* Where a kernel position meets a pixel: `whole` unless the stride leaves no result there. */
typedef struct meeting {
    int64_t n, oh, ow;
    bool whole;
} meeting;

static meeting meeting_of(const qs__geometry *g, int64_t row, int64_t tap) {
    const int64_t h = row / g->width % g->height, w = row % g->width;
    const int64_t down = h + g->padding[0] - tap / g->kernel[1] * g->dilation[0];
    const int64_t right = w + g->padding[1] - tap % g->kernel[1] * g->dilation[1];
    return (meeting){.n = row / (g->height * g->width),
                     .oh = down / g->stride[0],
                     .ow = right / g->stride[1],
                     .whole = down % g->stride[0] == 0 && right % g->stride[1] == 0};
}

static void input_gradient_row(const narrow_product *p, int64_t row, int64_t group, float *x) {
    const qs__geometry *g = p->g;
    for (int64_t t = 0; t < p->taps; t++) {
        const meeting at = meeting_of(g, row, t);
        const float *from = at.whole ? pixel(p->right, at.n, at.oh, at.ow, g->out_height, g->out_width, g->outputs) : NULL;
        put_channels(from ? from + group * p->outputs : NULL, p->outputs, x + t * p->outputs);
    }
}

/* Holes that a stride leaves are zeros on both sides: such products change no sum. */
static void input_gradient_column(const narrow_product *p, int64_t row, int64_t column, float *y) {
    const int64_t group = column / p->inputs, i = column % p->inputs;
    for (int64_t t = 0; t < p->taps; t++) {
        const bool whole = meeting_of(p->g, row, t).whole;
        for (int64_t o = 0; o < p->outputs; o++)
            y[t * p->outputs + o] = whole ? p->left[((group * p->outputs + o) * p->taps + t) * p->inputs + i] : 0;
    }
}

/* ---- Weight gradient ---- */

/* Row (kh · kernel[1] + kw) · inputs + i: what weight i of a tap meets at every result. */
static void weight_gradient_row(const narrow_product *p, int64_t row, int64_t group, float *x) {
    const qs__geometry *g = p->g;
    const int64_t tap = row / p->inputs, channel = group * p->inputs + row % p->inputs;
    for (int64_t k = 0; k < p->length; k++) {
        const int64_t n = k / (g->out_height * g->out_width), oh = k / g->out_width % g->out_height, ow = k % g->out_width;
        const int64_t h = qs__tap_place(g, 0, oh, tap / g->kernel[1]), w = qs__tap_place(g, 1, ow, tap % g->kernel[1]);
        const float *from = pixel(p->left, n, h, w, g->height, g->width, g->channels);
        x[k] = from ? from[channel] : 0;
    }
}

static void weight_gradient_column(const narrow_product *p, int64_t row, int64_t column, float *y) {
    (void)row;
    for (int64_t k = 0; k < p->length; k++)
        y[k] = p->right[k * p->columns + column];
}

/* ---- All three ---- */

static void row_sums(const narrow_product *p, int64_t row, float *x, float *y) {
    for (int64_t c = 0; c < p->columns; c++) {
        const int64_t group = c / p->column_group;
        qs_narrow_draws draws = qs_op_narrow_draws(p->one, p->run, row);
        draws.first += (uint64_t)c;
        if (c % p->column_group == 0) p->row(p, row, group, x);
        p->column(p, row, c, y);
        p->sum[p->transposed ? c * p->rows + row : row * p->columns + c] =
            qs_narrow_dot(&p->one->attributes.accumulator, p->length, x, 1, y, 1, &draws);
    }
}

static void rows_run(void *context, int64_t begin, int64_t end) {
    narrow_product *p = context;
    float *x = NULL, *y = NULL;
    if (qs_allocate((size_t)p->length, sizeof *x, &x) == QS_OK && qs_allocate((size_t)p->length, sizeof *y, &y) == QS_OK) {
        for (int64_t row = begin; row < end; row++)
            row_sums(p, row, x, y);
    } else {
        p->failed = true;
    }
    free(x);
    free(y);
}

static void choose_pass(narrow_product *p) {
    const qs__geometry *g = p->g;
    const char *pass = p->one->pass->name;
    if (strcmp(pass, "forward") == 0) {
        p->rows = g->batch * g->out_height * g->out_width, p->columns = g->outputs, p->length = p->taps * p->inputs;
        p->row = forward_row, p->column = forward_column, p->column_group = p->outputs;
    } else if (strcmp(pass, "input_gradient") == 0) {
        p->rows = g->batch * g->height * g->width, p->columns = g->channels, p->length = p->taps * p->outputs;
        p->row = input_gradient_row, p->column = input_gradient_column, p->column_group = p->inputs;
    } else {
        p->rows = p->taps * p->inputs, p->columns = g->outputs, p->length = g->batch * g->out_height * g->out_width;
        p->row = weight_gradient_row, p->column = weight_gradient_column, p->column_group = p->outputs;
        p->transposed = true;
    }
}

static narrow_product product_of(const qs_case *one, const qs__geometry *g) {
    narrow_product p = {.one = one, .g = g, .taps = g->kernel[0] * g->kernel[1], .inputs = g->channels / g->groups};
    p.outputs = g->outputs / g->groups;
    choose_pass(&p);
    return p;
}

qs_status qs__narrow_product(const qs_case *one, const qs_run *run, const qs__geometry *g, const float *left, const float *right,
                             double *sum) {
    narrow_product p = product_of(one, g);
    p.run = run, p.left = left, p.right = right, p.sum = sum;
    qs_parallel(p.rows, 1, rows_run, &p);
    return p.failed ? qs_fail(QS_OUT_OF_MEMORY, "two sums of %lld products for each thread", (long long)p.length) : QS_OK;
}

/* Rows have their own 32 bits of counters: draws of a row must fit in. */
qs_status qs__check_accumulator(const qs_case *one, const qs__geometry *g) {
    const qs_narrow *narrow = &one->attributes.accumulator;
    if (!narrow->adder) return QS_OK;
    QS_TRY(qs_fail_within(qs_narrow_check(narrow), "%s/%s", one->op->name, one->pass->name));
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].format && one->operand[i].format->kind == QS_KIND_INTEGER)
            return qs__refuse(one, "%s is %s: narrow accumulators add products of floats", qs_role_name(one->operand[i].role),
                              one->operand[i].format->name);
    const narrow_product p = product_of(one, g);
    const int64_t additions = qs_narrow_second_stage(p.length) + (narrow->chunk ? p.length / narrow->chunk + 1 : 0);
    if (p.rows > UINT32_MAX || additions / 2 + 1 > UINT32_MAX / p.columns)
        return qs__refuse(one, "%lld rows of %lld sums of %lld products: stochastic rounding numbers 2^32 rows, with 2^33 additions each",
                          (long long)p.rows, (long long)p.columns, (long long)p.length);
    return QS_OK;
}

/* Passes of one operator and step draw apart. */
qs_narrow_draws qs_op_narrow_draws(const qs_case *one, const qs_run *run, int64_t row) {
    const int weights = qs_case_position(one, QS_DIFF_WEIGHTS);
    int written = weights >= 0 ? qs_case_position(one, QS_DIFF_DST) : 0;
    while (weights < 0 && !qs_pass_writes(one->pass, written))
        written++;
    const qs_shape *columns = &one->operand[written].shape;
    const int64_t pixels = qs_shape_count(columns) / columns->dim[0] / columns->dim[1];
    const uint64_t pass = (uint64_t)(one->pass - one->op->pass) + 1;
    if (weights < 0) row += run->first_sample * pixels;
    return (qs_narrow_draws){.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream + (pass << 32)),
                             .first = (uint64_t)row << 32,
                             .stride = (uint64_t)columns->dim[1]};
}
