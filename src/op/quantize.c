// SPDX-License-Identifier: Apache-2.0
/* quantize: float storage to integer codes from given absolute maxima: with one step, one for each index of an axis, or one and groups of
 * channels whose steps halve (ShiftQuant). */
#include "internal.h"
#include "qsync/quantizing.h"

#include <assert.h>
#include <stdlib.h>

static bool is_by_row(const qs_case *one) {
    return one->attributes.per_channel && one->attributes.axis == 0;
}

/* Rows are long, so what finds their maxima is what quantizes them; columns' maxima are a by-product. */
static qs_status check_absmax(const qs_case *one) {
    const bool by_row = is_by_row(one), columns = qs__present(one, QS_COLUMN_ABSMAX);
    if (by_row == qs__present(one, QS_ABSMAX))
        return qs__refuse(one, by_row ? "rows find their own maxima: leave absmax out" : "absmax must be given");
    if (!by_row && columns) return qs__refuse(one, "column_absmax is a by-product of quantizing rows: it needs per_channel axis=0");
    if (!by_row) return qs__need_steps(one, QS_ABSMAX, QS_SRC);
    QS_TRY(qs__need_steps(one, QS_DST_STEP, QS_SRC));
    if (!columns) return QS_OK;
    QS_TRY(qs__need_axes(one, QS_SRC, 2, QS_MAX_AXES));
    return qs__need_shape(one, QS_COLUMN_ABSMAX, qs_shape_of(1, qs__shape(one, QS_SRC)->dim[1]));
}

static qs_status check_shifts(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    if (qs__present(one, QS_DST_GROUP) != (with->shifts > 0)) return qs__refuse(one, "dst_group comes with shifts, and only with them");
    if (with->shifts == 0) return is_by_row(one) ? QS_OK : qs__need_same(one, QS_DST_STEP, QS_ABSMAX);
    if (!with->per_channel || with->axis != 1) return qs__refuse(one, "shift groups are of channels along axis 1: per_channel axis=1");
    QS_TRY(qs__need_same(one, QS_DST_GROUP, QS_ABSMAX));
    return qs__need_shape(one, QS_DST_STEP, qs_shape_of(1, (int64_t)1));
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    QS_TRY(check_absmax(one));
    QS_TRY(check_shifts(one));
    QS_TRY(qs__check_transform(one, QS_SRC));
    if (one->attributes.batched) QS_TRY(qs__need_axes(one, QS_SRC, 1, QS_MAX_AXES));
    if (one->attributes.least_squares && (one->attributes.rounding != QS_NEAREST_EVEN || one->attributes.hadamard > 0 ||
                                          one->operand[qs_case_position(one, QS_DST)].format->is_logarithmic))
        return qs__refuse(one, "mse: of uniform codes to nearest-even, without a transform");
    if (!qs__is_integer(one, QS_DST)) return qs__refuse(one, "dst must have an integer format: a float one is a cast");
    if (one->attributes.hadamard > 0 && one->operand[qs_case_position(one, QS_DST)].format->is_unsigned)
        return qs__refuse(one, "transformed values have both signs: dst cannot be unsigned");
    return QS_OK;
}

/* The ratios by which steps become smaller, once they are known of the largest magnitudes: one for all, or one for each column. */
static void steps_clip(const qs_case *one, const float *absmax, bool bfloat, const void *src, float *steps, const uint8_t *group) {
    const int64_t channels = qs__shape(one, QS_SRC)->dim[1], maxima = qs_shape_count(qs__shape(one, QS_ABSMAX));
    const int64_t columns = one->attributes.per_channel && !group ? maxima : 1, count = qs_shape_count(qs__shape(one, QS_SRC)) / columns;
    for (int64_t c = 0; c < columns; c++) {
        const qs_clip_values values = {.format = one->operand[qs_case_position(one, QS_DST)].format,
                                       .bfloat = bfloat,
                                       .src = (const char *)src + (bfloat ? sizeof(uint16_t) : sizeof(float)) * (size_t)c,
                                       .count = count,
                                       .stride = columns,
                                       .group = group,
                                       .channels = channels};
        steps[c] *= qs_clip_find(&values, group ? qs_absmax_array(maxima, absmax) : absmax[c]);
    }
}

void qs_quantizing_start(const qs_case *one, const float *absmax, bool bfloat, const void *src, float *steps, uint8_t *group,
                         qs_quantizing *out) {
    const qs_attributes *with = &one->attributes;
    const qs_format *format = one->operand[qs_case_position(one, QS_DST)].format;
    const int64_t count = absmax ? qs_shape_count(qs__shape(one, QS_ABSMAX)) : 0;
    *out = (qs_quantizing){.rounding = with->rounding, .channels = with->per_channel && with->axis == 1 ? count : 1};
    out->codes = (qs_shift_codes){.format = format, .group = group};
    if (with->shifts > 0) {
        steps[0] = qs_shift_groups(format, false, with->shifts, count, absmax, group);
        if (with->least_squares) steps_clip(one, absmax, bfloat, src, steps, group);
        out->codes.step = steps[0];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        steps[i] = qs_step_of_absmax(format, absmax[i]);
    }
    if (with->least_squares && absmax) steps_clip(one, absmax, bfloat, src, steps, NULL);
    out->least_squares = with->least_squares;
    out->steps = steps;
    out->found = absmax ? NULL : steps;
    out->by_row = is_by_row(one);
    out->by_column = with->per_channel && with->axis == 1;
}

static float row_step(const qs_quantizing *job, int64_t row) {
    return job->steps[job->by_row ? row : 0];
}

static void row_find(const qs_quantizing *job, int64_t row, float absmax, int64_t count, bool bfloat, const void *src) {
    const qs_clip_values values = {.format = job->codes.format, .bfloat = bfloat, .src = src, .count = count, .stride = 1};
    job->found[row] = qs_step_of_absmax(job->codes.format, absmax);
    if (job->least_squares) job->found[row] *= qs_clip_find(&values, absmax);
}

void qs_quantizing_row(const qs_quantizing *job, qs_random_stream stream, int64_t row, int64_t count, const float *src, int8_t *dst) {
    const qs_channel_layout layout = {count / job->channels, job->channels, 1};
    if (job->found) row_find(job, row, qs_absmax_array(count, src), count, false, src);
    if (job->codes.group) {
        qs_shift_quantize(&job->codes, job->rounding, stream, layout, src, dst);
    } else if (job->by_column) {
        qs_quantize_channels(job->codes.format, job->rounding, stream, layout, job->steps, src, dst);
    } else {
        qs_quantize_array(job->codes.format, job->rounding, stream, row_step(job, row), count, src, dst);
    }
}

void qs_quantizing_row_bf16(const qs_quantizing *job, qs_random_stream stream, int64_t row, int64_t count, const uint16_t *src,
                            int8_t *dst) {
    assert(!job->by_column);
    if (job->found) row_find(job, row, qs_absmax_bf16_array(count, src), count, true, src);
    if (job->codes.group) {
        qs_shift_quantize_bf16(&job->codes, job->rounding, stream, (qs_channel_layout){count / job->channels, job->channels, 1}, src, dst);
    } else {
        qs_quantize_bf16_array(job->codes.format, job->rounding, stream, row_step(job, row), count, src, dst);
    }
}

/* Channels along axis 1 are the fast axis. */
static void columns_find(const qs_case *one, const float *values, float *absmax) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t columns = shape->dim[1], count = qs_shape_count(shape);
    for (int64_t c = 0; c < columns; c++)
        absmax[c] = 0;
    for (int64_t i = 0; i < count; i++) {
        const float pair[] = {absmax[i % columns], values[i]};
        absmax[i % columns] = qs_absmax_array(2, pair);
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    int8_t *dst = qs__operand(one, operands, QS_DST)->data;
    const qs_random_rows rows = qs_op_random_rows(one, run);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    qs__transform(one, QS_SRC, values);
    qs_quantizing job;
    qs_quantizing_start(one, qs__fp32(one, operands, QS_ABSMAX), false, values, qs__fp32(one, operands, QS_DST_STEP),
                        qs__operand(one, operands, QS_DST_GROUP)->data, &job);
    for (int64_t row = 0; row < rows.rows; row++) {
        qs_random_stream stream = {rows.key, rows.first + (uint64_t)row * rows.stride};
        qs_quantizing_row(&job, stream, row, rows.per_row, values + row * rows.per_row, dst + row * rows.per_row);
    }
    if (qs__present(one, QS_COLUMN_ABSMAX)) columns_find(one, values, qs__fp32(one, operands, QS_COLUMN_ABSMAX));
    free(values);
    return QS_OK;
}

static double flops(const qs_case *one) {
    return 3 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* scale, round, clamp */
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_ABSMAX, .source = QS_GIVEN, .optional = true},
                 {.role = QS_DST, .source = QS_MADE, .integer = true}, {.role = QS_DST_STEP, .source = QS_MADE},
                 {.role = QS_DST_GROUP, .source = QS_MADE, .optional = true},
                 {.role = QS_COLUMN_ABSMAX, .source = QS_MADE, .optional = true}),
     .reference = forward,
     .flops = flops,
     .check = check}};

#define TENSOR(F, S, A) "quantize/forward src=" F S " absmax=fp32[1] dst=int8" S " dst_step=fp32[1]" A
#define TENSOR_OF(F, I, S, A) "quantize/forward src=" F S " absmax=fp32[1] dst=" I S " dst_step=fp32[1]" A
#define COLUMN(F, I, S, C, A) "quantize/forward src=" F S " absmax=fp32[" C "] dst=" I S " dst_step=fp32[" C "] axis=1" A " per_channel"
#define SHIFT(F, I, S, C, A)                                                                                    \
    "quantize/forward src=" F S " absmax=fp32[" C "] dst=" I S " dst_step=fp32[1] dst_group=int8[" C "] axis=1" \
    " shifts=" A " per_channel"
#define HADAMARD(F, I, S, A) "quantize/forward src=" F S " absmax=fp32[1] dst=" I S " dst_step=fp32[1]" A
#define CHANNEL(F, S, C, A) "quantize/forward src=" F S " dst=int8" S " dst_step=fp32[" C "]" A " per_channel"

static const char *const cases[] = {TENSOR("fp32", "[4,16,8,8]", " rounding=stochastic batched"),
                                    TENSOR("bf16", "[4,16,8,8]", " rounding=stochastic batched"),
                                    TENSOR("fp32", "[3,5,3,3]", " rounding=stochastic batched"),
                                    TENSOR("bf16", "[3,5,3,3]", " rounding=stochastic batched"),
                                    TENSOR("fp32", "[16,5,3,3]", " rounding=stochastic"),
                                    TENSOR("fp32", "[1,37]", ""),
                                    TENSOR("bf16", "[4,16,8,8]", ""),
                                    TENSOR("fp32", "[2,8,4,4]", " rounding=floor"),
                                    TENSOR("fp16", "[2,8,4,4]", " rounding=stochastic batched"),
                                    CHANNEL("fp32", "[16,5,3,3]", "16", " rounding=stochastic"),
                                    CHANNEL("fp32", "[10,64]", "10", " rounding=stochastic"),
                                    CHANNEL("fp32", "[7,33]", "7", ""),
                                    CHANNEL("bf16", "[10,64]", "10", " rounding=stochastic"),
                                    CHANNEL("fp32", "[16,5,3,3]", "16", " column_absmax=fp32[5] rounding=stochastic"),
                                    CHANNEL("fp32", "[12,2100]", "12", " column_absmax=fp32[2100]"),
                                    "quantize/forward src=fp32[16,48,3,3] dst=int4[16,48,3,3] dst_step=fp32[16] column_absmax=fp32[48] "
                                    "rounding=stochastic per_channel",
                                    COLUMN("fp32", "int4", "[16,5,3,3]", "5", " rounding=stochastic"),
                                    COLUMN("fp32", "int8", "[10,64]", "64", ""),
                                    SHIFT("fp32", "int4", "[4,16,8,8]", "16", "4 rounding=stochastic batched"),
                                    SHIFT("bf16", "int4", "[4,16,8,8]", "16", "4 rounding=stochastic batched"),
                                    SHIFT("fp32", "uint4", "[3,5,3,3]", "5", "4 rounding=stochastic batched"),
                                    SHIFT("bf16", "uint6", "[3,37]", "37", "4 rounding=stochastic batched"),
                                    SHIFT("fp32", "int8", "[2,24,5,5]", "24", "2"),
                                    SHIFT("fp32", "int6", "[3,21]", "21", "1 rounding=stochastic batched"),
                                    "quantize/forward src=fp32[16,48,3,3] dst=int4[16,48,3,3] dst_step=fp32[16] column_absmax=fp32[48] "
                                    "mse per_channel",
                                    "quantize/forward src=bf16[7,300] dst=int4[7,300] dst_step=fp32[7] mse per_channel",
                                    "quantize/forward src=fp32[4,16,8,8] absmax=fp32[1] dst=uint4[4,16,8,8] dst_step=fp32[1] batched mse",
                                    "quantize/forward src=bf16[3,5,37,3] absmax=fp32[1] dst=int4[3,5,37,3] dst_step=fp32[1] batched mse",
                                    COLUMN("fp32", "int4", "[16,5,3,3]", "5", " mse"),
                                    SHIFT("fp32", "int4", "[4,16,8,8]", "16", "4 batched mse"),
                                    SHIFT("bf16", "uint4", "[9,5,31,3]", "5", "4 batched mse"),
                                    TENSOR_OF("fp32", "log4", "[4,16,8,8]", " rounding=stochastic batched"),
                                    TENSOR_OF("bf16", "log4", "[3,5,3,3]", " rounding=stochastic batched"),
                                    TENSOR_OF("fp32", "log3", "[3,37]", ""),
                                    "quantize/forward src=fp32[16,48,3,3] dst=log4[16,48,3,3] dst_step=fp32[16] column_absmax=fp32[48] "
                                    "rounding=stochastic per_channel",
                                    "quantize/forward src=bf16[7,33] dst=log4[7,33] dst_step=fp32[7] rounding=stochastic per_channel",
                                    COLUMN("fp32", "log4", "[16,5,3,3]", "5", " rounding=stochastic"),
                                    COLUMN("fp32", "log3", "[10,64]", "64", ""),
                                    SHIFT("bf16", "log4", "[4,16,8,8]", "16", "4 rounding=stochastic batched"),
                                    SHIFT("fp32", "log4", "[3,21]", "21", "3 rounding=stochastic batched"),
                                    HADAMARD("fp32", "int4", "[4,16,8,8]", " axis=1 hadamard=16 rounding=stochastic batched"),
                                    HADAMARD("bf16", "int4", "[3,24,5,3]", " axis=1 hadamard=8 rounding=stochastic batched"),
                                    HADAMARD("fp32", "int6", "[7,32,3,3]", " axis=1 hadamard=32 rounding=stochastic"),
                                    HADAMARD("bf16", "int8", "[32,5,7,3]", " hadamard=16 rounding=stochastic batched"),
                                    HADAMARD("fp32", "int4", "[6,5,3,3]", " hadamard=2 rounding=stochastic"),
                                    HADAMARD("fp32", "int4", "[64,130]", " hadamard=64"),
                                    NULL};

const qs_op qs__op_quantize = {.name = "quantize", .kind = QS_AUXILIARY, .converts = true, .passes = 1, .pass = passes, .cases = cases};
