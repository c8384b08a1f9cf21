// SPDX-License-Identifier: Apache-2.0
/* Casts, simulated formats, quantization, absolute maxima, finite check and statistics: the array functions of number, row by row. Their
 * bits are those of the reference, which calls the same functions. Rows below ROW_LIMIT elements are dealt to threads; longer ones are
 * split by number itself. */
#include "cpu/convert/hadamard.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROW_LIMIT = 65536 };

typedef struct job {
    const qs_case *one;
    qs_random_rows rows;
    qs__in src;
    void *dst;
    const float *steps;
    qs_quantizing quantizing;
    float *absmax;
} job;

static void for_rows(const qs_random_rows *rows, qs_parallel_body body, void *context) {
    if (rows->per_row >= ROW_LIMIT) {
        body(context, 0, rows->rows);
    } else {
        qs_parallel(rows->rows, ROW_LIMIT / rows->per_row / 4 + 1, body, context);
    }
}

static qs_random_stream stream_of(const qs_random_rows *rows, int64_t row) {
    return (qs_random_stream){rows->key, rows->first + (uint64_t)row * rows->stride};
}

static const void *row_of(const job *j, int64_t row) {
    return qs__in_at(j->src, row * j->rows.per_row).at;
}

/* ---- Casts ---- */

enum { PIECE = 1024 }; /* elements of fp32 between two other formats, at a time */

/* Through fp32, piece by piece: as short as a first-level cache likes it, and without memory from the arena. */
static void narrow_row(const job *j, int64_t row, char *dst) {
    const qs_format *from = qs__case_format(j->one, QS_SRC), *to = qs__case_format(j->one, QS_DST);
    const qs_attributes *with = &j->one->attributes;
    const int64_t per_row = j->rows.per_row;
    qs_random_stream stream = stream_of(&j->rows, row);
    float wide[PIECE];
    for (int64_t at = 0; at < per_row; at += PIECE, stream.first += PIECE) {
        const int64_t count = per_row - at < PIECE ? per_row - at : PIECE;
        qs_convert_to_fp32(from, count, (const char *)j->src.at + qs_format_bytes(from, row * per_row + at), wide);
        qs_convert_from_fp32(to, with->rounding, with->overflow, stream, count, wide, dst + qs_format_bytes(to, at));
    }
}

static void cast_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs_format *from = qs__case_format(j->one, QS_SRC), *to = qs__case_format(j->one, QS_DST);
    const qs_attributes *with = &j->one->attributes;
    for (int64_t row = begin; row < end; row++) {
        char *dst = (char *)j->dst + qs_format_bytes(to, row * j->rows.per_row);
        if (from == qs_format_of("fp32"))
            qs_convert_from_fp32(to, with->rounding, with->overflow, stream_of(&j->rows, row), j->rows.per_row, row_of(j, row), dst);
        else
            narrow_row(j, row, dst);
    }
}

/* Rows of samples begin within a byte where the source is packed more densely. */
static bool rows_are_bytes(const qs_case *one) {
    return !one->attributes.batched || qs__case_format(one, QS_SRC)->bits % 8 == 0;
}

static qs_status run_cast(const qs__chain *chain, const qs_run *run) {
    job j = {.one = &chain->one, .rows = qs_op_random_rows(&chain->one, run), .dst = qs__cpu_data(chain, QS_DST)};
    j.src = (qs__in){QS__FP32, qs__cpu_data(chain, QS_SRC)};
    if (qs__case_format(&chain->one, QS_DST) == qs_format_of("fp32")) /* exact */
        qs_convert_to_fp32(qs__case_format(&chain->one, QS_SRC), qs__case_count(&chain->one, QS_SRC), j.src.at, j.dst);
    else
        for_rows(&j.rows, cast_rows, &j);
    return QS_OK;
}

/* Own name: qs__staged_build would round the result a second time. */
qs_status qs__build_cast(qs__chain *chain) {
    if (!rows_are_bytes(&chain->one))
        return qs_fail(QS_UNSUPPORTED, "casts of samples from %s, whose samples begin within a byte",
                       qs__case_format(&chain->one, QS_SRC)->name);
    qs__chain_call(chain, run_cast);
    snprintf(chain->name, sizeof chain->name, "own:cast:%s", chain->cpu->kernels->name);
    return QS_OK;
}

/* ---- Blocks that share scales ---- */

static void blocks_round(void *context, int64_t begin, int64_t end) {
    qs_block_round(context, begin, end);
}

static qs_status run_block_round(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    const int64_t count = qs__case_count(one, QS_SRC);
    qs_block_rounding all = qs_block_rounding_of(one, run);
    all.src = qs__cpu_data(chain, QS_SRC);
    all.dst = qs__cpu_data(chain, QS_DST);
    all.bfloat[0] = qs__case_format(one, QS_SRC) == qs_format_of("bf16");
    all.bfloat[1] = qs__case_format(one, QS_DST) == qs_format_of("bf16");
    all.tensor = 1;
    if (all.format->of_tensor)
        all.tensor = qs_tensor_scale(all.format, all.bfloat[0] ? qs_absmax_bf16_array(count, all.src) : qs_absmax_array(count, all.src));
    const int64_t units = qs_block_units(&all);
    qs_parallel(units, ROW_LIMIT / (count / units + 1) / 4 + 1, blocks_round, &all);
    return QS_OK;
}

/* Own name: qs__staged_build would widen what lies there in bf16. */
qs_status qs__build_block_round(qs__chain *chain) {
    const qs_format *bf16 = qs_format_of("bf16"), *fp32 = qs_format_of("fp32");
    const qs_format *src = qs__case_format(&chain->one, QS_SRC), *dst = qs__case_format(&chain->one, QS_DST);
    if ((src != bf16 && src != fp32) || (dst != bf16 && dst != fp32))
        return qs_fail(QS_UNSUPPORTED, "blocks of %s and %s", src->name, dst->name);
    qs__chain_call(chain, run_block_round);
    snprintf(chain->name, sizeof chain->name, "own:block_round:%s", chain->cpu->kernels->name);
    return QS_OK;
}

/* ---- Simulated formats: rounded, packed and counted in one pass ---- */

typedef struct rounding {
    const qs_case *one;
    qs_random_rows rows;
    const float *src;
    float *dst;
    char *packed; /* NULL: not wanted */
    atomic_llong overflows, underflows;
} rounding;

static void rows_round(void *context, int64_t begin, int64_t end) {
    rounding *j = context;
    const qs_attributes *with = &j->one->attributes;
    const int64_t per_row = j->rows.per_row;
    for (int64_t row = begin; row < end; row++) {
        const qs_random_stream stream = stream_of(&j->rows, row);
        const float *src = j->src + row * per_row;
        float *dst = j->dst + row * per_row;
        const qs_rounding_counts counts = j->packed ? qs_round_pack_array(with->to, with->rounding, with->overflow, stream, per_row, src,
                                                                          dst, j->packed + qs_format_bytes(with->to, row * per_row))
                                                    : qs_round_array(with->to, with->rounding, with->overflow, stream, per_row, src, dst);
        atomic_fetch_add_explicit(&j->overflows, counts.overflows, memory_order_relaxed);
        atomic_fetch_add_explicit(&j->underflows, counts.underflows, memory_order_relaxed);
    }
}

static qs_status run_round(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    const bool packs = qs_case_position(one, QS_PACKED) >= 0;
    rounding j = {.one = one,
                  .rows = qs_op_random_rows(one, run),
                  .src = qs__cpu_data(chain, QS_SRC),
                  .dst = qs__cpu_data(chain, QS_DST),
                  .packed = packs ? qs__cpu_data(chain, QS_PACKED) : NULL};
    atomic_init(&j.overflows, 0);
    atomic_init(&j.underflows, 0);
    for_rows(&j.rows, rows_round, &j);
    const qs_rounding_counts counts = {atomic_load(&j.overflows), atomic_load(&j.underflows)};
    if (qs__case_has(one, QS_COUNTS)) memcpy(qs__cpu_data(chain, QS_COUNTS), &counts, sizeof counts);
    return QS_OK;
}

/* Own name: qs__staged_build would widen the packed operand. */
qs_status qs__build_round(qs__chain *chain) {
    qs__chain_call(chain, run_round);
    snprintf(chain->name, sizeof chain->name, "own:round:%s", chain->cpu->kernels->name);
    return QS_OK;
}

/* ---- Fixed point ---- */

static void quantize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t count = j->rows.per_row;
    for (int64_t row = begin; row < end; row++) {
        int8_t *dst = (int8_t *)j->dst + row * count;
        if (j->src.type == QS__BF16) {
            qs_quantizing_row_bf16(&j->quantizing, stream_of(&j->rows, row), row, count, row_of(j, row), dst);
        } else {
            qs_quantizing_row(&j->quantizing, stream_of(&j->rows, row), row, count, row_of(j, row), dst);
        }
    }
}

static qs_status run_quantize_by_row(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    const qs_random_rows rows = qs_op_random_rows(one, run);
    const bool columns = qs__case_has(one, QS_COLUMN_ABSMAX);
    const qs_row_codes codes = {.format = qs__case_format(one, QS_DST),
                                .rounding = one->attributes.rounding,
                                .random = {rows.key, rows.first},
                                .stride = rows.stride,
                                .rows = rows.rows,
                                .per_row = rows.per_row,
                                .least_squares = one->attributes.least_squares,
                                .columns = columns ? qs__case_count(one, QS_COLUMN_ABSMAX) : 0};
    qs_quantize_rows(&codes, qs__cpu_data(chain, QS_SRC), qs__cpu_data(chain, QS_DST_STEP),
                     columns ? qs__cpu_data(chain, QS_COLUMN_ABSMAX) : NULL, qs__cpu_data(chain, QS_DST));
    return QS_OK;
}

static qs_status run_quantize(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    job j = {.one = one, .rows = qs_op_random_rows(one, run), .src = qs__staged_in(chain, QS_SRC), .dst = qs__cpu_data(chain, QS_DST)};
    qs_quantizing_start(one, qs__cpu_data(chain, QS_ABSMAX), j.src.type == QS__BF16, j.src.at, qs__cpu_data(chain, QS_DST_STEP),
                        qs__cpu_data(chain, QS_DST_GROUP), &j.quantizing);
    for_rows(&j.rows, quantize_rows, &j);
    return QS_OK;
}

qs_status qs__build_quantize(qs__chain *chain) {
    const qs_attributes *with = &chain->one.attributes;
    if (with->hadamard > 0) return qs__staged_build(chain, "hadamard", qs__hadamard_quantize);
    const bool columns = (with->axis == 1 && with->shifts == 0) || qs__case_has(&chain->one, QS_COLUMN_ABSMAX);
    if (columns && qs__case_format(&chain->one, QS_SRC) == qs_format_of("bf16"))
        return qs_fail(QS_UNSUPPORTED, "steps and maxima of columns are for fp32 values");
    if (!qs__case_has(&chain->one, QS_ABSMAX) && qs__case_format(&chain->one, QS_SRC) == qs_format_of("fp32"))
        return qs__staged_build(chain, "quantize", run_quantize_by_row);
    return qs__staged_build(chain, "quantize", run_quantize);
}

static void dequantize_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    bool half = qs__case_format(j->one, QS_DST) == qs_format_of("bf16");
    for (int64_t row = begin; row < end; row++) {
        const int8_t *src = (const int8_t *)j->src.at + row * j->rows.per_row;
        if (half) {
            qs_dequantize_bf16_array(j->steps[row], j->rows.per_row, src, (uint16_t *)j->dst + row * j->rows.per_row);
        } else {
            qs_dequantize_array(j->steps[row], j->rows.per_row, src, (float *)j->dst + row * j->rows.per_row);
        }
    }
}

/* One row for each step. */
static qs_random_rows rows_of(const qs_case *one, qs_role steps) {
    int64_t rows = qs__case_count(one, steps);
    return (qs_random_rows){.rows = rows, .per_row = qs__case_count(one, QS_SRC) / rows};
}

/* bf16 results go through a buffer of fp32 ones. */
static void dequantize_groups(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t channels = j->quantizing.channels;
    const int8_t *src = j->src.at;
    if (qs__case_format(j->one, QS_DST) == qs_format_of("fp32")) {
        const qs_channel_layout layout = {end - begin, channels, 1};
        qs_shift_dequantize(&j->quantizing.codes, layout, src + begin * channels, (float *)j->dst + begin * channels);
        return;
    }
    float wide[PIECE];
    for (int64_t row = begin; row < end; row++) {
        for (int64_t first = 0; first < channels; first += PIECE) {
            const int64_t count = channels - first < PIECE ? channels - first : PIECE, at = row * channels + first;
            qs_shift_codes codes = j->quantizing.codes;
            codes.group += first;
            qs_shift_dequantize(&codes, (qs_channel_layout){1, count, 1}, src + at, wide);
            qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, wide,
                                 (uint16_t *)j->dst + at);
        }
    }
}

static void run_dequantize_groups(const qs__chain *chain) {
    const qs_operand *src = qs__case_operand(&chain->one, QS_SRC);
    const float *step = qs__cpu_data(chain, QS_SRC_STEP);
    job j = {.one = &chain->one, .src = qs__staged_in(chain, QS_SRC), .dst = qs__staged_out(chain, QS_DST).at};
    j.quantizing.channels = src->shape.dim[1];
    j.quantizing.codes = (qs_shift_codes){.format = src->format, .step = step[0], .group = qs__cpu_data(chain, QS_SRC_GROUP)};
    qs_parallel(qs_shape_count(&src->shape) / src->shape.dim[1], ROW_LIMIT / src->shape.dim[1] / 4 + 1, dequantize_groups, &j);
}

static qs_status run_dequantize(const qs__chain *chain, const qs_run *run) {
    (void)run;
    if (qs__case_has(&chain->one, QS_SRC_GROUP)) {
        run_dequantize_groups(chain);
        return QS_OK;
    }
    job j = {.one = &chain->one,
             .rows = rows_of(&chain->one, QS_SRC_STEP),
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, QS_DST).at,
             .steps = qs__cpu_data(chain, QS_SRC_STEP)};
    for_rows(&j.rows, dequantize_rows, &j);
    return QS_OK;
}

qs_status qs__build_dequantize(qs__chain *chain) {
    return qs__staged_build(chain, "dequantize", run_dequantize);
}

/* ---- Extremes ---- */

static void absmax_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        const void *src = row_of(j, row);
        j->absmax[row] = j->src.type == QS__BF16 ? qs_absmax_bf16_array(j->rows.per_row, src) : qs_absmax_array(j->rows.per_row, src);
    }
}

static void absmax_columns(const qs__chain *chain) {
    const int64_t channels = qs__case_count(&chain->one, QS_ABSMAX);
    const qs_channel_layout layout = {qs__case_count(&chain->one, QS_SRC) / channels, channels, 1};
    const qs__in src = qs__staged_in(chain, QS_SRC);
    const qs_format *symmetric = qs_format_of("int8");
    float *range = qs__cpu_data(chain, QS_ABSMAX);
    if (src.type == QS__BF16) {
        qs_channel_ranges_bf16(symmetric, layout, src.at, range, NULL);
    } else {
        qs_channel_ranges(symmetric, layout, src.at, range, NULL);
    }
}

static qs_status run_absmax(const qs__chain *chain, const qs_run *run) {
    (void)run;
    if (chain->one.attributes.per_channel) {
        absmax_columns(chain);
        return QS_OK;
    }
    job j = {.one = &chain->one,
             .rows = rows_of(&chain->one, QS_ABSMAX),
             .src = qs__staged_in(chain, QS_SRC),
             .absmax = qs__cpu_data(chain, QS_ABSMAX)};
    for_rows(&j.rows, absmax_rows, &j);
    return QS_OK;
}

qs_status qs__build_absmax(qs__chain *chain) {
    if (chain->one.attributes.hadamard > 0) return qs__staged_build(chain, "hadamard", qs__hadamard_absmax);
    return qs__staged_build(chain, "absmax", run_absmax);
}

static qs_status run_finite_check(const qs__chain *chain, const qs_run *run) {
    (void)run;
    float absmax, *flag = qs__cpu_data(chain, QS_FLAG);
    job j = {.one = &chain->one, .rows = rows_of(&chain->one, QS_FLAG), .src = qs__staged_in(chain, QS_SRC), .absmax = &absmax};
    for_rows(&j.rows, absmax_rows, &j);
    if (!isfinite(absmax)) *flag = 0;
    return QS_OK;
}

qs_status qs__build_finite_check(qs__chain *chain) {
    return qs__staged_build(chain, "finite_check", run_finite_check);
}

/* ---- Statistics ---- */

static qs_status run_statistics(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_operand *src = qs__case_operand(&chain->one, QS_SRC);
    const bool rows = chain->one.attributes.per_channel;
    int64_t count = qs_shape_count(&src->shape);
    const float *values = qs__cpu_data(chain, QS_SRC);
    if (src->format != qs_format_of("fp32")) {
        float *wide = (float *)(chain->scratch + chain->offset[0]);
        qs_convert_to_fp32(src->format, count, values, wide);
        values = wide;
    }
    qs_statistics_measure(count, src->shape.dim[rows ? 0 : 1], rows, values, qs__cpu_data(chain, QS_STATISTICS));
    return QS_OK;
}

qs_status qs__build_statistics(qs__chain *chain) {
    const qs_operand *src = qs__case_operand(&chain->one, QS_SRC);
    size_t count = (size_t)qs_shape_count(&src->shape);
    chain->offset[0] = qs__chain_reserve(chain, src->format == qs_format_of("fp32") ? 0 : count * sizeof(float));
    qs__chain_call(chain, run_statistics);
    snprintf(chain->name, sizeof chain->name, "own:statistics:%s", chain->cpu->kernels->name);
    return QS_OK;
}
