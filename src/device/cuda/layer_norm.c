// SPDX-License-Identifier: Apache-2.0
/* Our own norms of positions (layer_norm.cu): layer norms of every kind, and RMS norms. Short rows of floats are held by lanes of a warp,
 * in one kernel; others take one kernel to find what belongs to a row, and one for every value. */
#include "cuda/norm.h"
#include "cuda/own.h"
#include "cuda/rows.h"

#include <stdlib.h>

enum { MOST_ROWS = 64, ROUND_THREADS = 256 };
enum { ROW_VECTORS = 5 }; /* what is kept of rows between two kernels */

/* Functions of a kernel: one for rows in registers; else statistics, every value, and rounded parameters. Backward the sums behind. */
enum { ROWS, STATISTICS = ROWS, VALUES, ROUND, SUMS, PARAMETERS, FUNCTIONS };

static bool is_backward(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_DST) >= 0;
}

static bool is_quantized(const qs_case *one) {
    return one->op->norm && one->op->norm->quantized;
}

static bool fits_registers(const qs_case *one) {
    const bool backward = is_backward(one);
    return !is_quantized(one) && qs__rows_fit(one, qs__cuda_channels(one, QS_SRC), QS_SRC, backward ? QS_DIFF_SRC : QS_DST,
                                              backward ? QS_DIFF_DST : QS_ROLE_COUNT);
}

/* How rows in registers are given to blocks. Forward a row is a warp's at most, whose lanes have several vectors; backward lanes have one,
 * since they keep sums of each channel, too. */
typedef struct rows_shape {
    int lanes, threads; /* of a row, and of a block */
    int64_t blocks;     /* backward as many as run at once, or twice as many, ..., so that no thread adds more than MOST_ROWS rows up */
} rows_shape;

static rows_shape rows_shape_of(const qs__cuda_kernel *kernel) {
    enum { WARP = 32, WIDE_THREADS = 256, FORWARD_TIMES = 24, NARROW_TIMES = 6, WIDE_TIMES = 3, WIDTH = 8 * WARP };
    const int64_t rows = qs__cuda_rows(&kernel->one, QS_SRC), channels = qs__cuda_channels(&kernel->one, QS_SRC);
    const bool backward = is_backward(&kernel->one), wide = backward && channels > WIDTH;
    rows_shape out = {.lanes = qs__row_lanes(channels), .threads = QS__ROW_THREADS};
    if (wide) {
        out.lanes = (int)((channels + WIDTH - 1) / WIDTH) * WARP;
        out.threads = WIDE_THREADS / out.lanes * out.lanes;
    }
    const int64_t together = out.threads / out.lanes, most = (rows + together - 1) / together;
    out.blocks = (int64_t)kernel->cuda->multiprocessors * (!backward ? FORWARD_TIMES : wide ? WIDE_TIMES : NARROW_TIMES);
    if (backward) out.blocks *= (most + out.blocks * MOST_ROWS - 1) / (out.blocks * MOST_ROWS);
    if (out.blocks > most) out.blocks = most;
    return out;
}

typedef struct plan {
    bool backward, in_registers;
    qs__layer_job forward;
    qs__layer_gradient_job gradient;
    qs__norm_round_job round[2]; /* scale and shift; nowhere to: nothing */
    rows_shape shape;            /* of rows in registers */
    uint64_t absmax;
} plan;

static qs__columns gradient_cut(const qs__cuda_kernel *kernel) {
    enum { BLOCKS = 2 }; /* of a multiprocessor */
    const int64_t rows = qs__cuda_rows(&kernel->one, QS_SRC), channels = qs__cuda_channels(&kernel->one, QS_SRC);
    if (!fits_registers(&kernel->one)) return qs__columns_cut_parts(kernel->cuda, 1, rows, channels, BLOCKS);
    return (qs__columns){.rows = rows, .channels = channels, .slabs = rows_shape_of(kernel).blocks};
}

/* The address of a parameter as kernels use it. */
static uint64_t parameter(const qs__cuda_kernel *kernel, plan *p, qs_role role, int place) {
    const uint64_t given = qs__cuda_at_optional(kernel, role);
    const int64_t channels = qs__cuda_channels(&kernel->one, QS_SRC);
    if (!given || !is_quantized(&kernel->one)) return given;
    const uint64_t rounded = kernel->scratch + (uint64_t)kernel->plan[1] + (uint64_t)(place * channels) * sizeof(float);
    p->round[place] = (qs__norm_round_job){.channels = channels, .from = given, .to = rounded};
    return rounded;
}

static void plan_forward(const qs__cuda_kernel *kernel, plan *p, const uint64_t *of_rows) {
    const qs_norm *norm = kernel->one.op->norm;
    p->forward = (qs__layer_job){.rule = qs__norm_rule_of(kernel),
                                 .rows = qs__cuda_rows(&kernel->one, QS_SRC),
                                 .channels = qs__cuda_channels(&kernel->one, QS_SRC),
                                 .src = qs__cuda_values_of(kernel, QS_SRC),
                                 .dst = qs__cuda_values_of(kernel, QS_DST),
                                 .scale = parameter(kernel, p, QS_SCALE, 0),
                                 .shift = parameter(kernel, p, QS_SHIFT, 1),
                                 .mean = qs__cuda_at_optional(kernel, QS_MEAN),
                                 .spread = norm ? qs__cuda_at_optional(kernel, norm->spread) : 0,
                                 .centre = of_rows[0],
                                 .inverse = of_rows[1],
                                 .behind = qs__norm_behind_of(kernel)};
    p->forward.lanes = p->shape.lanes;
}

static void plan_gradient(const qs__cuda_kernel *kernel, plan *p, const uint64_t *of_rows) {
    const qs_norm *norm = kernel->one.op->norm;
    p->gradient = (qs__layer_gradient_job){.cut = gradient_cut(kernel),
                                           .rule = qs__norm_rule_of(kernel),
                                           .src = qs__cuda_values_of(kernel, QS_SRC),
                                           .diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST),
                                           .diff_src = qs__cuda_values_of(kernel, QS_DIFF_SRC),
                                           .scale = parameter(kernel, p, QS_SCALE, 0),
                                           .mean = qs__cuda_at_optional(kernel, QS_MEAN),
                                           .spread = norm ? qs__cuda_at_optional(kernel, norm->spread) : 0,
                                           .mask = qs__cuda_at_optional(kernel, QS_MASK),
                                           .centre = of_rows[0],
                                           .inverse = of_rows[1],
                                           .gradients = of_rows[2],
                                           .products = of_rows[3],
                                           .signs = of_rows[4],
                                           .sums = kernel->scratch + (uint64_t)kernel->plan[2],
                                           .diff_scale = qs__cuda_at(kernel, QS_DIFF_SCALE),
                                           .diff_shift = qs__cuda_at_optional(kernel, QS_DIFF_SHIFT),
                                           .absmax = p->absmax,
                                           .lanes = p->shape.lanes,
                                           .warps = p->in_registers};
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    const int64_t rows = qs__cuda_rows(&kernel->one, QS_SRC);
    uint64_t of_rows[ROW_VECTORS];
    plan *p;
    QS_TRY(qs_allocate(1, sizeof *p, &p));
    kernel->own = p;
    for (int i = 0; i < ROW_VECTORS; i++)
        of_rows[i] = kernel->scratch + (uint64_t)kernel->plan[0] + (uint64_t)(i * rows) * sizeof(float);
    p->backward = is_backward(&kernel->one);
    p->in_registers = fits_registers(&kernel->one);
    p->absmax = qs__cuda_at_optional(kernel, QS_ABSMAX);
    if (p->in_registers) p->shape = rows_shape_of(kernel);
    if (p->backward)
        plan_gradient(kernel, p, of_rows);
    else
        plan_forward(kernel, p, of_rows);
    return QS_OK;
}

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
    kernel->own = NULL;
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    (void)step;
    const plan *p = kernel->own;
    const void *job = p->backward ? (const void *)&p->gradient : &p->forward;
    const int64_t rows = qs__cuda_rows(&kernel->one, QS_SRC), channels = qs__cuda_channels(&kernel->one, QS_SRC);
    if (p->in_registers && p->absmax) /* other kernels set it before they launch those that raise it */
        QS_TRY(qs__cuda_clear(kernel, p->absmax, sizeof(float)));
    for (int i = 0; i < 2; i++)
        QS_TRY(qs__cuda_launch(kernel, ROUND, p->round[i].to != 0, ROUND_THREADS, 0, &p->round[i]));
    if (p->in_registers) {
        QS_TRY(qs__cuda_launch(kernel, ROWS, p->shape.blocks, p->shape.threads, 0, job));
    } else {
        QS_TRY(qs__rows_launch(kernel, STATISTICS, rows, channels, job));
        QS_TRY(qs__order_launch(kernel, VALUES, rows * channels, job));
    }
    if (!p->backward) return QS_OK;
    if (!p->in_registers) QS_TRY(qs__cuda_launch(kernel, SUMS, qs__columns_blocks(&p->gradient.cut), QS__COLUMN_THREADS, 0, job));
    return qs__cuda_launch(kernel, PARAMETERS, qs__columns_total_blocks(&p->gradient.cut), QS__TOTAL_THREADS, 0, job);
}

qs_status qs__cuda_build_layer_norm(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const bool backward = is_backward(one), in_registers = fits_registers(one);
    const size_t channels = (size_t)qs__cuda_channels(one, QS_SRC), rows = (size_t)qs__cuda_rows(one, QS_SRC);
    char in_rows[40];
    if (backward)
        snprintf(in_rows, sizeof in_rows, "layer_norm_gradient_rows%s", one->op->norm && one->op->norm->absolute ? "_absolute" : "");
    else
        snprintf(in_rows, sizeof in_rows, "layer_norm_rows_%s%d", one->attributes.relu ? "relu_" : "", qs__row_vectors((int64_t)channels));
    const char *const functions[] = {[STATISTICS] = in_registers ? in_rows
                                                    : backward   ? "layer_norm_gradient_statistics"
                                                                 : "layer_norm_statistics",
                                     [VALUES] = backward ? "layer_norm_gradient" : "layer_norm_normalize",
                                     [ROUND] = "layer_norm_round",
                                     [SUMS] = "layer_norm_parameter_sums",
                                     [PARAMETERS] = "layer_norm_parameters"};
    for (int i = 0; i < FUNCTIONS; i++) {
        int index;
        QS_TRY(qs__cuda_function(kernel, functions[i], &index));
    }
    kernel->plan[0] = in_registers ? 0 : (int64_t)qs__cuda_scratch(kernel, ROW_VECTORS * rows * sizeof(float));
    kernel->plan[1] = is_quantized(one) ? (int64_t)qs__cuda_scratch(kernel, 2 * channels * sizeof(float)) : 0;
    if (backward) {
        const size_t sum = in_registers ? sizeof(float) : sizeof(double);
        kernel->plan[2] = (int64_t)qs__cuda_scratch(kernel, 2 * (size_t)gradient_cut(kernel).slabs * channels * sum);
    }
    kernel->prepare = prepare;
    kernel->run = run;
    kernel->release = release;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", one->op->name);
    return QS_OK;
}
