// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Cases in general: the registry, texts and back, refusals of texts and of impossible cases, each with its rule. */
#include "kit/cases.h"

TEST(registry) {
    size_t count = 0;
    for (; qs_op_at(count); count++) {
        const qs_op *op = qs_op_at(count);
        const qs_op *found;
        assert_ok(qs_op_find(op->name, &found));
        assert_ptr_equal(found, op);
        assert_true(op->cases[0] != NULL || op->passes == 0);
        for (int i = 0; i < op->passes; i++) {
            assert_ptr_equal(qs_op_pass(op, op->pass[i].name), &op->pass[i]);
            assert_true(op->pass[i].operands <= QS_MAX_OPERANDS && op->pass[i].operands > 1 && op->pass[i].reference && op->pass[i].check);
        }
    }
    assert_true(count >= 29);
    const qs_op *none;
    assert_refused(qs_op_find("conv3d", &none), QS_USAGE, "conv2d, linear");
    assert_string_equal(qs_role_name(QS_SRC), "src");
    assert_string_equal(qs_role_name(QS_STATISTICS), "statistics");
}

/* Every pass that runs has a case, and no case stands twice. */
TEST(case_lists_cover_passes) {
    for (size_t at = 0; qs_op_at(at); at++) {
        const qs_op *op = qs_op_at(at);
        for (int i = 0; i < op->passes; i++) {
            char head[64];
            int length = snprintf(head, sizeof head, "%s/%s ", op->name, op->pass[i].name), covered = 0;
            for (const char *const *text = op->cases; *text; text++)
                covered += strncmp(*text, head, (size_t)length) == 0;
            if (covered < 3) fail_msg("%s has %d cases, at least 3 are wanted", head, covered);
        }
        for (const char *const *a = op->cases; *a; a++) {
            for (const char *const *b = a + 1; *b; b++) {
                if (strcmp(*a, *b) == 0) fail_msg("twice: %s", *a);
            }
        }
    }
}

TEST(made_cases_print) {
    qs_attributes with = {.kernel = {3, 3}, .padding = {1, 1}};
    qs_case one = qs_case_make("conv2d", "forward", &with), again;
    qs_case_bind(&one, QS_SRC, qs_shape_of(4, 128, 16, 32, 32), qs_format_of("bf16"));
    qs_case_bind(&one, QS_DST, qs_shape_of(4, 128, 8, 32, 32), qs_format_of("bf16"));
    qs_case_bind(&one, QS_WEIGHTS, qs_shape_of(4, 8, 16, 3, 3), qs_format_of("bf16"));
    char text[QS_CASE_TEXT];
    assert_string_equal(qs_case_text(&one, text), "conv2d/forward src=bf16[128,16,32,32] weights=bf16[8,16,3,3] dst=bf16[128,8,32,32] "
                                                  "kernel=3x3 padding=1x1");
    assert_ok(qs_case_check(&one));
    assert_ok(qs_case_parse(text, &again));
    assert_true(again.attributes.stride[0] == 1 && again.attributes.groups == 1 && again.operands == 7);
    assert_int_equal(qs_case_position(&again, QS_DST), 6);
    assert_int_equal(qs_case_position(&again, QS_LABELS), -1);
    assert_null(again.operand[5].format);
}

TEST(accumulators_tell_cases_apart) {
    static const char *const plain = "linear/forward src=fp32[2,3] weights=fp32[4,3] dst=fp32[2,4]";
    static const char *const ends[] = {"",
                                       " accumulator=fp(6,9)/align-truncate",
                                       " accumulator=fp(6,9)/chunk64/align-truncate",
                                       " accumulator=fp(6,9)/product(5)/align-truncate",
                                       " accumulator=fp(6,9)/nearest-even",
                                       " accumulator=fp(6,8)/nearest-even",
                                       " accumulator=fp(5,9)/nearest-even"};
    enum { ENDS = COUNT_OF(ends) };
    qs_case one[ENDS];
    for (int i = 0; i < ENDS; i++) {
        char text[QS_CASE_TEXT], again[QS_CASE_TEXT];
        snprintf(text, sizeof text, "%s%s", plain, ends[i]);
        assert_ok(qs_case_parse(text, &one[i]));
        assert_ok(qs_case_check(&one[i]));
        assert_string_equal(qs_case_text(&one[i], again), text);
        for (int j = 0; j < i; j++)
            assert_true(!qs_case_equal(&one[i], &one[j]) && qs_case_hash(&one[i]) != qs_case_hash(&one[j]));
    }
}

TEST(numbers_survive) {
    const double values[] = {0.1, 1e-5, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        qs_case one = qs_case_make("sgd", "forward", &(qs_attributes){.momentum = values[i], .weight_decay = 0.3}), again;
        char text[QS_CASE_TEXT];
        assert_ok(qs_case_parse(qs_case_text(&one, text), &again));
        assert_true(again.attributes.momentum == values[i] && again.attributes.weight_decay == 0.3);
    }
}

/* Text, and what the message must name. */
static const char *const unreadable[][2] = {
    {"", "empty"},
    {"conv2d", "operator/pass"},
    {"conv4d/forward", "conv4d"},
    {"conv2d/backward", "no pass \"backward\""},
    {"relu/forward src=fp32[2,2] kernel=3", "3x3"},
    {"relu/forward src=fp32[2,2] sauce=fp32[2]", "sauce"},
    {"relu/forward src=fp99[2,2]", "fp99"},
    {"relu/forward src=fp32", "[8,16]"},
    {"relu/forward src=fp32[2,2", "[8,16]"},
    {"relu/forward src=fp32[2,]", "number"},
    {"relu/forward src=fp32[1,2,3,4,5]", "axes"},
    {"relu/forward src=fp32[2,-2]", "number"},
    {"relu/forward src=fp32[2,0]", "at least 1"},
    {"relu/forward src=fp32[2,2]x", "nothing may follow"},
    {"relu/forward src=fp32[1099511627776,2]", "2^40"},
    {"relu/forward src=fp32[99999999999999999999]", "too large"},
    {"relu/forward bached", "bached"},
    {"relu/forward ceiling=nan", "finite"},
    {"relu/forward ceiling=1x", "finite"},
    {"relu/forward value=6", "ceiling, rounding"},
    {"relu/forward momentum=0.5", "neither an operand of the pass nor one of"},
    {"sgd/forward momentum=x", "finite"},
    {"sgd/forward momentum=fp99[3]", "fp99"},
    {"relu/forward groups=two", "number"},
    {"cast/forward rounding=up", "up"},
    {"conv2d/forward accumulator=fp(6,9)", "fp(e,m)[/chunkN]"},
};

TEST(unreadable_texts) {
    for (size_t i = 0; i < COUNT_OF(unreadable); i++) {
        qs_case one;
        if (qs_case_parse(unreadable[i][0], &one) == QS_OK) fail_msg("accepted: %s", unreadable[i][0]);
        assert_message(unreadable[i][1]);
    }
    char large[2 * QS_CASE_TEXT];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    qs_case one;
    assert_int_equal(qs_case_parse(large, &one), QS_USAGE);
}

#define CONV "conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] "
static const char *const impossible[][2] = {
    {"relu/forward src=fp32[2,2]", "dst is missing"},
    {"relu/forward src=fp32[2,2] dst=fp32[2,3]", "dst is [2,3], the other operands need [2,2]"},
    {"relu/forward src=fp32[3,3] mask=int8[1] dst=fp32[3,3]", "mask is [1]"},
    {"relu/forward src=fp32[3,3] mask=fp32[2] dst=fp32[3,3]", "must be int8"},
    {"relu/forward src=int8[3,3] dst=fp32[3,3]", "float"},
    {CONV "dst=fp32[2,16,8,8] kernel=3x3", "[2,16,6,6]"},
    {CONV "dst=fp32[2,16,8,8] kernel=5x5 padding=2x2", "weights is [16,16,3,3]"},
    {CONV "dst=fp32[2,16,8,8] kernel=3x3 padding=1x1 groups=2", "[16,8,3,3]"},
    {CONV "dst=fp32[2,16,8,8] kernel=3x3 padding=1x1 groups=3", "3 groups"},
    {CONV "dst=fp32[2,16,8,8] padding=1x1", "kernel"},
    {CONV "dst=fp32[2,16,8,8] kernel=3x3 padding=1x1 dilation=2x2", "need [2,16,6,6]"},
    {CONV "dst=fp32[2,16,8,8] kernel=3x3 padding=1x1 padding_more=0x-1", "need [2,16,8,7]"},
    {CONV "bias=bf16[16] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "bias is bf16"},
    {CONV "bias=fp32[8] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "bias is [8]"},
    {CONV "dst=int8[2,16,8,8] kernel=3x3 padding=1x1", "dst is int8"},
    {"conv2d/forward src=fp32[2,16,8,8] src_step=fp32[1] weights=fp32[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1",
     "comes with an integer"},
    {"conv2d/forward src=int8[2,16,8,8] src_step=fp32[1] weights=fp32[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "both"},
    {"conv2d/forward src=int8[2,16,8,8] weights=int8[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", "src_step"},
    {"linear/forward src=int8[2,3] src_step=fp32[1] weights=int8[4,3] weights_step=fp32[3] dst=fp32[2,4]", "weights_step is [3]"},
    {"linear/forward src=int8[2,3] src_step=fp32[2] weights=int8[4,3] weights_step=fp32[4] dst=fp32[2,4]", "src_step is [2]"},
    {"conv2d/input_gradient weights=int8[8,8,1,1] diff_dst=fp32[1,8,4,4] diff_src=fp32[1,8,4,4] kernel=1x1", "both be integer"},
    {"conv2d/weight_gradient src=int8[1,8,4,4] diff_dst=fp32[1,8,4,4] diff_weights=fp32[8,8,1,1] kernel=1x1", "both be integer"},
    {"conv2d/weight_gradient src=bf16[1,8,4,4] diff_dst=bf16[1,8,4,4] diff_weights=bf16[8,8,1,1] kernel=1x1", "diff_weights is bf16"},
    {"linear/forward src=fp32[2,3,1,1] weights=fp32[4,3] dst=fp32[2,4]", "input [2,3,1,1] needs the axes N,C"},
    {"linear/forward src=fp32[2,3] weights=fp32[4,3] dst=fp32[2,4] kernel=3x3", "no meaning"},
    {"add/forward src=fp32[2,3] src2=fp32[2,4] dst=fp32[2,3]", "src2"},
    {"max_pool/backward mask=int8[1,3,2,2] diff_dst=fp32[1,3,2,2] diff_src=fp32[1,3,5,5] kernel=2x2", "diff_dst is [1,3,2,2]"},
    {"softmax_cross_entropy/forward src=fp32[8,10] labels=fp32[7] loss=fp32[2]", "labels is [7]"},
    {"softmax_cross_entropy/forward src=fp32[8,10] labels=fp32[8] loss=fp32[1]", "loss is [1]"},
    {"quantize/forward src=fp32[4,4] absmax=fp32[1] dst=bf16[4,4] dst_step=fp32[1]", "integer"},
    {"quantize/forward src=fp32[4,4] absmax=fp32[1] dst=int8[4,4] dst_step=fp32[4]", "dst_step is [4]"},
    {"quantize/forward src=fp32[4,4] absmax=fp32[4] dst=int8[4,4] dst_step=fp32[4] per_channel", "leave absmax out"},
    {"quantize/forward src=fp32[4,4] dst=int8[4,4] dst_step=fp32[1]", "absmax must be given"},
    {"quantize/forward src=fp32[4,4] dst=int8[4,4] dst_step=fp32[1] per_channel", "dst_step is [1]"},
    {"quantize/forward src=fp32[4,4] dst=int8[4,4] dst_step=fp32[4] column_absmax=fp32[3] per_channel", "column_absmax is [3]"},
    {"quantize/forward src=fp32[4,4] absmax=fp32[1] dst=int8[4,4] dst_step=fp32[1] column_absmax=fp32[4]", "by-product of quantizing rows"},
    {"quantize/forward src=fp32[4,4] dst=int8[4,4] dst_step=fp32[4] batched per_channel", "exclude"},
    {"absmax/forward src=fp32[4,4] absmax=fp32[4] per_channel", "where they are quantized"},
    {"dequantize/forward src=bf16[4,4] src_step=fp32[1] dst=fp32[4,4]", "integer"},
    {"cast/forward src=int8[4,4] dst=fp32[4,4]", "float"},
    {"statistics/forward src=fp32[4,4] statistics=fp32[18]", "statistics is [18]"},
    {"statistics/forward src=fp32[4] statistics=fp32[26]", "axes"},
    {"sgd/forward src=bf16[8] weights=fp32[8] momentum=fp32[8]", "fp32"},
    {"sgd/forward src=fp32[8] weights=fp32[8] momentum=fp32[9]", "momentum is [9]"},
    {"relu/forward src=fp32[2,2] dst=fp32[2,2] accumulator=fp(6,9)/nearest-even", "conv2d and linear only"},
    {"linear/forward src=int8[2,3] src_step=fp32[1] weights=int8[4,3] weights_step=fp32[4] dst=fp32[2,4] accumulator=fp(6,9)/nearest-even",
     "products of floats"},
    {"linear/weight_gradient src=fp32[17179869184,1] diff_dst=fp32[17179869184,2] diff_weights=fp32[2,1] accumulator=fp(6,9)/nearest-even",
     "additions each"},
    {"relu/forward src=fp32[2,2] dst=fp32[2,2] stride=0x1", "stride"},
};

TEST(impossible_cases) {
    for (size_t i = 0; i < COUNT_OF(impossible); i++) {
        qs_case one;
        assert_ok(qs_case_parse(impossible[i][0], &one));
        if (i + 1 == COUNT_OF(impossible)) one.attributes.stride[0] = -1; /* a text cannot say it: 0 means 1 */
        if (qs_case_check(&one) != QS_USAGE) fail_msg("accepted: %s", impossible[i][0]);
        assert_message(impossible[i][1]);
    }
}

TEST_MAIN(registry, case_lists_cover_passes, made_cases_print, numbers_survive, accumulators_tell_cases_apart, unreadable_texts,
          impossible_cases)
