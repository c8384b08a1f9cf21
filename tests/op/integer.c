// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Integer factors of conv2d and linear: every integer case of their lists, in all passes, equals the same pass in fp32 on the dequantized
 * factors, bit for bit; and what the cases refuse. */
#include "kit/integer_cases.h"
#include "kit/cases.h"

static const struct {
    qs_role factor, step, group;
} factors[] = {
    {QS_SRC, QS_SRC_STEP, QS_SRC_GROUP}, {QS_WEIGHTS, QS_WEIGHTS_STEP, QS_ROLE_COUNT}, {QS_DIFF_DST, QS_DIFF_DST_STEP, QS_DIFF_DST_GROUP}};
enum { FACTORS = 3 };

/* Steps that are powers of two: dequantized values and the sums of their products are then exact in double, in both ways. */
static void steps_set(bound *b) {
    for (int f = 0; f < FACTORS; f++) {
        if (!bound_tensor(b, factors[f].step)) continue;
        float *step = bound_fp32(b, factors[f].step);
        for (int64_t i = 0; i < bound_count(b, factors[f].step); i++)
            step[i] = ldexpf(1, -(int)(i % 5) - f);
    }
}

static qs_case real_case(const qs_case *integer) {
    const qs_format *fp32 = qs_format_of("fp32");
    qs_case real;
    qs_case_start(&real, integer->op, integer->pass, &integer->attributes);
    real.attributes.shifts = 0;
    for (int i = 0; i < integer->operands; i++) {
        const qs_operand *from = &integer->operand[i];
        if (!from->format || from->role == QS_SRC_STEP || from->role == QS_WEIGHTS_STEP || from->role == QS_DIFF_DST_STEP) continue;
        if (from->role == QS_SRC_GROUP || from->role == QS_DIFF_DST_GROUP) continue;
        qs_case_bind(&real, from->role, from->shape, from->format->kind == QS_KIND_INTEGER ? fp32 : from->format);
    }
    return real;
}

/* Weights have a step for each output channel forward (rows of memory), for each input channel in the gradient (the fast axis). */
static void dequantize(bound *integer, bound *real, int f) {
    if (!bound_tensor(integer, factors[f].factor)) return;
    float *values = factor_values(integer, factors[f].factor, factors[f].group);
    const int64_t count = bound_count(integer, factors[f].factor), steps = bound_count(integer, factors[f].step);
    const bool forward = bound_tensor(integer, QS_DST) != NULL;
    for (int64_t i = 0; i < count; i++)
        values[i] *= bound_fp32(integer, factors[f].step)[forward ? i / (count / steps) : i % steps];
    memcpy(bound_fp32(real, factors[f].factor), values, (size_t)count * sizeof *values);
    free(values);
}

TEST(passes_equal_real_ones) {
    int seen = 0;
    for (const char *const *text = integer_cases; *text; text++) {
        bound integer, real;
        bound_parse(&integer, *text, 31);
        const qs_case twin = real_case(&integer.one);
        bound_make(&real, &twin, 31);
        steps_set(&integer);
        for (int f = 0; f < FACTORS; f++)
            dequantize(&integer, &real, f);
        if (bound_tensor(&integer, QS_BIAS))
            memcpy(bound_fp32(&real, QS_BIAS), bound_fp32(&integer, QS_BIAS), 4 * (size_t)bound_count(&real, QS_BIAS));
        bound_run(&integer);
        bound_run(&real);
        for (int i = 0; i < integer.one.operands; i++) {
            if (!integer.one.operand[i].format || !qs_pass_writes(integer.one.pass, i)) continue;
            const qs_tensor *got = &integer.operands[i];
            if (memcmp(got->data, bound_tensor(&real, integer.one.operand[i].role)->data, tensor_bytes(got)))
                fail_msg("%s: %s differs from the fp32 pass", *text, qs_role_name(integer.one.operand[i].role));
        }
        bound_release(&integer);
        bound_release(&real);
        seen++;
    }
    assert_true(seen >= 40);
}

TEST(unfit_cases_are_refused) {
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] weights=fp32[12,20] dst=fp32[4,12]", "both be integer or both be float");
    expect_refused("linear/forward src=int4[4,20] weights=int4[12,20] weights_step=fp32[1] dst=fp32[4,12]", "src_step comes with");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] weights=int4[12,20] weights_step=fp32[20] dst=fp32[4,12]",
                   "weights_step");
    expect_refused("linear/input_gradient weights=int4[12,20] weights_step=fp32[12] diff_dst=int4[4,12] diff_dst_step=fp32[1] "
                   "diff_src=fp32[4,20]",
                   "weights_step");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] src_group=int8[20] weights=int4[12,20] weights_step=fp32[1] "
                   "dst=fp32[4,12]",
                   "shifts=0");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] weights=int4[12,20] weights_step=fp32[1] dst=fp32[4,12] shifts=4",
                   "shifts=4");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] src_group=int8[12] weights=int4[12,20] weights_step=fp32[1] "
                   "dst=fp32[4,12] shifts=4",
                   "src_group");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] src_group=int8[20] weights=int4[12,20] weights_step=fp32[1] "
                   "dst=fp32[4,12] shifts=9",
                   "9 shift groups");
    expect_refused("linear/forward src=int4[4,20] src_step=fp32[1] weights=int4[12,20] weights_step=fp32[1] dst=int4[4,12]",
                   "must be a float format");
    expect_refused("linear/weight_gradient src=fp32[4,20] src_group=int8[20] diff_dst=fp32[4,12] diff_weights=fp32[12,20]",
                   "src_group is for an integer");
    expect_refused("quantize/forward src=fp32[4,20] absmax=fp32[20] dst=int4[4,20] dst_step=fp32[1] axis=1 shifts=4 per_channel",
                   "dst_group");
    expect_refused("quantize/forward src=fp32[4,20] absmax=fp32[1] dst=int4[4,20] dst_step=fp32[1] dst_group=int8[20] shifts=4", "axis=1");
    expect_refused("quantize/forward src=fp32[4,20] absmax=fp32[4] dst=int4[4,20] dst_step=fp32[4] axis=1 per_channel", "absmax");
    expect_refused("absmax/forward src=fp32[4,20] absmax=fp32[20] axis=2 per_channel", "axis 2");
    expect_refused("dequantize/forward src=int4[4,20] src_step=fp32[4] src_group=int8[20] dst=fp32[4,20] per_channel",
                   "exclude each other");
}

TEST_MAIN(passes_equal_real_ones, unfit_cases_are_refused)
