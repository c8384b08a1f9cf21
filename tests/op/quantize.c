// SPDX-License-Identifier: Apache-2.0
// labels: short
/* quantize: steps, codes within one step of the value, clamping, draws that follow the global sample. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("quantize");
}

/* The step that a largest magnitude gives, or, in a range of least squared error, one of the ratios of it. */
static bool is_step(const bound *b, float step, const qs_format *format, float absmax) {
    const float whole = qs_step_of_absmax(format, absmax);
    bool found = step == whole;
    for (int k = 0; b->one.attributes.least_squares && k < QS_CLIPS; k++)
        found |= step == whole * qs_clip_ratio(k);
    return found;
}

/* The step of element i of values x: of all, of its row, of its column, or of its column's shift group. */
static double step_of(bound *b, const float *x, int64_t i) {
    const qs_attributes *with = &b->one.attributes;
    const float *steps = bound_fp32(b, QS_DST_STEP);
    const qs_format *format = bound_tensor(b, QS_DST)->format;
    const int64_t count = bound_count(b, QS_DST);
    if (with->per_channel && with->axis == 0) {
        const int64_t rows = bound_count(b, QS_DST_STEP), row = i / (count / rows);
        assert_true(is_step(b, steps[row], format, qs_absmax_array(count / rows, x + row * (count / rows))));
        return (double)steps[row];
    }
    const int64_t channels = bound_count(b, QS_ABSMAX);
    const float *absmax = bound_fp32(b, QS_ABSMAX);
    const int64_t at = channels > 1 && with->axis == 1 ? i % channels : i / (count / channels);
    if (with->shifts == 0) {
        assert_true(is_step(b, steps[at], format, absmax[at]));
        return (double)steps[at];
    }
    const int group = ((const int8_t *)bound_tensor(b, QS_DST_GROUP)->data)[at];
    assert_true(group >= 0 && group < with->shifts);
    assert_true(is_step(b, steps[0], format, qs_absmax_array(channels, absmax)));
    return ldexp((double)steps[0], -group);
}

/* |code × step - x| < step (of powers of two: the lower of the two around x) inside the range, its ends beyond it. x × (1/step) carries two
 * fp32 roundings of a number up to 127: 2^-16; x may be transformed before. */
TEST(codes) {
    int64_t clamped = 0;
    for (const char *const *text = qs_op_of("quantize")->cases; *text; text++) {
        bound b;
        bound_parse(&b, *text, 131);
        bound_run(&b);
        float *x = tensor_values(&b.operands[0]);
        const double off = transform_values(&b, QS_SRC, x);
        const int8_t *code = bound_tensor(&b, QS_DST)->data;
        const qs_format *format = bound_tensor(&b, QS_DST)->format;
        const double lowest = qs_format_lowest(format);
        int64_t count = bound_count(&b, QS_DST);
        bool nearest = b.one.attributes.rounding == QS_NEAREST_EVEN;
        for (int64_t i = 0; i < count; i++) {
            double scaled = (double)x[i] / step_of(&b, x, i);
            if (scaled > format->max || scaled < lowest) {
                assert_true(code[i] == (scaled > 0 ? format->max : lowest));
                clamped++;
            } else {
                const double spacing = format->is_logarithmic && fabs(scaled) > 1 ? exp2(floor(log2(fabs(scaled)))) : 1;
                assert_true(fabs(code[i] - scaled) <= (nearest ? 0.5 : 1) * spacing * (1 + 0x1p-16) + 0x1p-16 + off / step_of(&b, x, i));
            }
        }
        free(x);
        bound_release(&b);
    }
    assert_true(clamped > 0);
}

/* A maximum that is no number leaves codes without a range, wherever it stands: the step is 1, groups are the first. */
TEST(no_range_is_none) {
    for (int at = 0; at < 3; at++) {
        bound b;
        bound_parse(&b,
                    "quantize/forward src=fp32[64,3,2,2] absmax=fp32[3] dst=int4[64,3,2,2] dst_step=fp32[1] dst_group=int8[3] axis=1 "
                    "shifts=4 batched mse per_channel",
                    135);
        bound_run(&b);
        assert_true(*bound_fp32(&b, QS_DST_STEP) != 1);
        bound_fp32(&b, QS_ABSMAX)[at] = NAN;
        bound_run(&b);
        assert_true(*bound_fp32(&b, QS_DST_STEP) == 1);
        for (int c = 0; c < 3; c++)
            assert_int_equal(((const int8_t *)bound_tensor(&b, QS_DST_GROUP)->data)[c], 0);
        bound_release(&b);
    }
}

TEST(maxima_of_columns_fall_off) {
    int found = 0;
    for (const char *const *text = qs_op_of("quantize")->cases; *text; text++) {
        bound b;
        bound_parse(&b, *text, 134);
        bound_run(&b);
        if (b.one.operand[qs_case_position(&b.one, QS_COLUMN_ABSMAX)].format) {
            const int64_t columns = bound_count(&b, QS_COLUMN_ABSMAX), count = bound_count(&b, QS_SRC);
            float *x = tensor_values(&b.operands[0]);
            for (int64_t c = 0; c < columns; c++) {
                float expected = 0;
                for (int64_t i = c; i < count; i += columns)
                    expected = fmaxf(expected, fabsf(x[i]));
                assert_true(bound_fp32(&b, QS_COLUMN_ABSMAX)[c] == expected);
            }
            free(x);
            found++;
        }
        bound_release(&b);
    }
    assert_true(found > 0);
}

/* An odd number of elements a sample: each starts on a whole hash all the same. */
TEST(ranks_draw_alike) {
    bound whole, half;
    bound_parse(&whole, "quantize/forward src=fp32[4,27] absmax=fp32[1] dst=int8[4,27] dst_step=fp32[1] rounding=stochastic batched", 132);
    bound_parse(&half, "quantize/forward src=fp32[2,27] absmax=fp32[1] dst=int8[2,27] dst_step=fp32[1] rounding=stochastic batched", 132);
    memcpy(half.operands[0].data, bound_fp32(&whole, QS_SRC) + 54, 54 * 4);
    whole.run.first_sample = 8;
    half.run.first_sample = 10;
    bound_run(&whole);
    bound_run(&half);
    assert_memory_equal(half.operands[2].data, (char *)whole.operands[2].data + 54, 54);
    bound_release(&whole);
    bound_release(&half);
}

TEST(draws_differ) {
    bound b;
    int8_t first[108];
    bound_parse(&b, "quantize/forward src=fp32[4,27] absmax=fp32[1] dst=int8[4,27] dst_step=fp32[1] rounding=stochastic batched", 133);
    bound_run(&b);
    memcpy(first, b.operands[2].data, sizeof first);
    qs_run base = b.run;
    for (int i = 0; i < 4; i++) {
        b.run = base;
        if (i == 0) b.run.seed++;
        if (i == 1) b.run.step++;
        if (i == 2) b.run.operator_id++;
        if (i == 3) b.run.stream++;
        bound_run(&b);
        assert_memory_not_equal(first, b.operands[2].data, sizeof first);
    }
    bound_release(&b);
}

TEST(counters) {
    qs_case one;
    qs_run run = usual_run(4);
    run.first_sample = 3;
    assert_ok(qs_case_parse("quantize/forward src=fp32[4,27] absmax=fp32[1] dst=int8[4,27] dst_step=fp32[1] batched", &one));
    qs_random_rows rows = qs_op_random_rows(&one, &run);
    assert_true(rows.rows == 4 && rows.per_row == 27 && rows.stride == 28 && rows.first == 3 * 28);
    assert_ok(qs_case_parse("quantize/forward src=fp32[4,27] absmax=fp32[4] dst=int8[4,27] dst_step=fp32[4] per_channel", &one));
    rows = qs_op_random_rows(&one, &run);
    assert_true(rows.rows == 4 && rows.per_row == 27 && rows.stride == 28 && rows.first == 0);
    assert_ok(qs_case_parse("quantize/forward src=fp32[4,27] absmax=fp32[1] dst=int8[4,27] dst_step=fp32[1]", &one));
    rows = qs_op_random_rows(&one, &run);
    assert_true(rows.rows == 1 && rows.per_row == 108 && rows.first == 0);
    assert_ok(qs_case_parse("dropout/forward src=fp32[4,27] dst=fp32[4,27] batched", &one));
    rows = qs_op_random_rows(&one, &run);
    assert_true(rows.stride == 27 && rows.first == 81);
    assert_true(rows.key == qs_random_key(run.seed, run.step, run.operator_id, run.stream));
}

TEST_MAIN(cases, codes, no_range_is_none, maxima_of_columns_fall_off, ranks_draw_alike, draws_differ, counters)
