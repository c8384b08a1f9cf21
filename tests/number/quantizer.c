// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Quantizers by name: defaults, every combination there and back, and what is refused. */
#include "number_test.h"

static qs_quantizer quantizer_named(const char *text) {
    qs_quantizer quantizer = {.format = NULL};
    assert_ok(qs_quantizer_find(text, &quantizer));
    return quantizer;
}

TEST(defaults_follow_the_format) {
    qs_quantizer bf16 = quantizer_named("bf16");
    assert_ptr_equal(bf16.format, format_named("bf16"));
    assert_int_equal(bf16.granularity, QS_PER_TENSOR);
    assert_int_equal(bf16.rounding, QS_NEAREST_EVEN);
    qs_quantizer int8 = quantizer_named("int8:channel(out)");
    assert_int_equal(int8.granularity, QS_PER_CHANNEL);
    assert_false(int8.channel_is_input);
    assert_int_equal(int8.rounding, QS_STOCHASTIC);
    qs_quantizer low = quantizer_named("fp(4,3):channel(in):floor");
    assert_ptr_equal(low.format, format_named("fp(4,3,0)"));
    assert_true(low.channel_is_input);
    assert_int_equal(low.rounding, QS_FLOOR);
    assert_int_equal(quantizer_named("bf16:stochastic").rounding, QS_STOCHASTIC);
}

static void check_round_trip(const char *format, const char *granularity, qs_rounding rounding, qs_overflow overflow) {
    char text[64], again[64], canonical[64];
    bool integer = format_named(format)->kind == QS_KIND_INTEGER;
    snprintf(text, sizeof text, "%s:%s:%s%s%s", format, granularity, qs_rounding_name(rounding),
             integer ? "" : ":overflow=", integer ? "" : qs_overflow_name(overflow));
    qs_quantizer first = quantizer_named(text);
    qs_quantizer second = quantizer_named(qs_quantizer_text(&first, again));
    assert_ptr_equal(first.format, second.format);
    assert_int_equal(first.granularity, second.granularity);
    assert_int_equal(first.channel_is_input, second.channel_is_input);
    assert_int_equal(first.rounding, second.rounding);
    assert_int_equal(first.overflow, second.overflow);
    assert_string_equal(qs_quantizer_text(&second, canonical), again);
    /* A policy is left out where the format alone says the same of every value. */
    static const float values[] = {1.0f, INFINITY, -INFINITY, NAN, 3e38f, -3e38f};
    for (size_t i = 0; i < COUNT_OF(values) && !integer; i++) {
        float asked = qs_round_value(first.format, rounding, overflow, values[i], 0, NULL);
        float kept = qs_round_value(first.format, rounding, first.overflow, values[i], 0, NULL);
        assert_int_equal(bits_of(asked), bits_of(kept));
    }
}

TEST(texts_round_trip) {
    static const char *const formats[] = {"fp32", "fp16", "e4m3fn", "bf16", "fp(4,3,4)", "fp(8,23,0)", "fp(4,3,-9)", "int8", "int4"};
    static const char *const parts[] = {"tensor", "channel(out)", "channel(in)"};
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        for (size_t p = 0; p < COUNT_OF(parts); p++) {
            for (int r = 0; r < QS_ROUNDING_COUNT; r++) {
                for (int o = 0; o < QS_OVERFLOW_COUNT; o++) {
                    check_round_trip(formats[f], parts[p], (qs_rounding)r, (qs_overflow)o);
                }
            }
        }
    }
    char text[64];
    qs_quantizer quantizer = quantizer_named("int8:channel(out)");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "int8:channel(out):stochastic");
    quantizer = quantizer_named("bf16:tensor:nearest-even");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "bf16");
    quantizer = quantizer_named("fp(4,3,4):overflow=saturate");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "fp(4,3,4)");
    quantizer = quantizer_named("fp(5,2,0):overflow=inf:nearest-away:tensor"); /* in any order */
    assert_string_equal(qs_quantizer_text(&quantizer, text), "fp(5,2,0):tensor:nearest-away:overflow=inf");
    quantizer = quantizer_named("fp(5,2,0):overflow=inf");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "fp(5,2,0):overflow=inf");
}

TEST(shift_groups_round_trip) {
    for (int groups = 1; groups <= QS_MOST_SHIFT_GROUPS; groups++) {
        for (int input = 0; input < 2; input++) {
            char text[64], again[64];
            snprintf(text, sizeof text, "int%d:shift%d(%s):nearest-even", groups % 7 + 2, groups, input ? "in" : "out");
            qs_quantizer quantizer = quantizer_named(text);
            assert_int_equal(quantizer.granularity, QS_SHIFT_GROUPS);
            assert_int_equal(quantizer.shift_groups, groups);
            assert_int_equal(quantizer.channel_is_input, input);
            assert_string_equal(qs_quantizer_text(&quantizer, again), text);
        }
    }
    char text[64];
    qs_quantizer quantizer = quantizer_named("int4:shift4");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "int4:shift4(in):stochastic");
    assert_int_equal(quantizer_named("int4:tensor").shift_groups, 0);
}

/* Clipping rounds to nearest, also where nothing says so; a second draw needs a first. */
TEST(options_round_trip) {
    static const char *const texts[][2] = {{"int4:shift4(in):mse", "int4:shift4(in):nearest-even:mse"},
                                           {"uint4:mse", "uint4:tensor:nearest-even:mse"},
                                           {"int4:mse:channel(out):nearest-even", "int4:channel(out):nearest-even:mse"},
                                           {"int4:draw2:shift4(out)", "int4:shift4(out):stochastic:draw2"},
                                           {"log4:draw2", "log4:tensor:stochastic:draw2"}};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char text[64];
        qs_quantizer quantizer = quantizer_named(texts[i][0]);
        assert_string_equal(qs_quantizer_text(&quantizer, text), texts[i][1]);
        quantizer = quantizer_named(texts[i][1]);
        assert_string_equal(qs_quantizer_text(&quantizer, text), texts[i][1]);
        assert_int_equal(quantizer.least_squares, strstr(text, "mse") != NULL);
        assert_int_equal(quantizer.second_draw, strstr(text, "draw2") != NULL);
    }
    static const char *const refused[][2] = {{"int4:stochastic:mse", "'mse' clips"},
                                             {"int4:hadamard:mse", "'mse' clips"},
                                             {"log4:mse", "'mse' clips"},
                                             {"bf16:mse", "'mse' needs an integer format"},
                                             {"int4:nearest-even:draw2", "nearest-even draws nothing"},
                                             {"int4:mse:draw2", "nearest-even draws nothing"},
                                             {"int4:mse:mse", "one part too many"},
                                             {"int4:draw3", "no granularity, no rounding and no option"}};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        qs_quantizer quantizer;
        assert_refused(qs_quantizer_find(refused[i][0], &quantizer), QS_USAGE, refused[i][1]);
    }
}

TEST(transforms_round_trip) {
    static const char *const over[] = {"in", "out", "samples"};
    char text[64], again[64];
    for (int block = 2; block <= QS_MOST_HADAMARD; block *= 2) {
        for (int o = 0; o < 3; o++) {
            snprintf(text, sizeof text, "int%d:hadamard%d(%s):stochastic", block % 7 + 2, block, over[o]);
            const qs_quantizer quantizer = quantizer_named(text);
            assert_int_equal(quantizer.granularity, QS_HADAMARD);
            assert_int_equal(quantizer.hadamard, block);
            assert_int_equal(quantizer.shift_groups, 0);
            assert_int_equal(quantizer.channel_is_input, o == 0);
            assert_int_equal(quantizer.over_samples, o == 2);
            assert_string_equal(qs_quantizer_text(&quantizer, again), text);
        }
    }
    qs_quantizer quantizer = quantizer_named("int4:hadamard");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "int4:hadamard16(in):stochastic");
    quantizer = quantizer_named("int6:nearest-even:hadamard8");
    assert_string_equal(qs_quantizer_text(&quantizer, text), "int6:hadamard8(in):nearest-even");
    assert_int_equal(quantizer_named("int4:shift4").hadamard, 0);
}

/* A block format stands where the format does; the container is what its values are kept in. */
TEST(blocks_round_trip) {
    static const char *const texts[] = {"mxfp8", "mxfp8:along(out):nearest-even", "mxfp4:along(samples):stochastic",
                                        "mxint8:along(in):stochastic", "mx(e4m3,128,fp32):along(samples):nearest-even"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char text[64];
        const qs_quantizer quantizer = quantizer_named(texts[i]);
        assert_string_equal(qs_quantizer_text(&quantizer, text), texts[i]);
        assert_int_equal(quantizer.granularity, QS_BLOCKS);
        assert_non_null(quantizer.blocks);
        assert_int_equal(quantizer.channel_is_input, !strstr(texts[i], "(out)") && !strstr(texts[i], "(samples)"));
        assert_int_equal(quantizer.over_samples, strstr(texts[i], "(samples)") != NULL);
        assert_string_equal(quantizer.format->name, strstr(texts[i], "fp32") ? "fp32" : "bf16");
    }
    assert_null(quantizer_named("bf16").blocks);
}

TEST(bad_texts_are_refused) {
    static const char *const texts[] = {"",
                                        ":",
                                        "int8:",
                                        "int8::stochastic",
                                        "int9:tensor",
                                        "int8:rows",
                                        "int8:tensor:up",
                                        "int8:stochastic:tensor:tensor",
                                        "int8:overflow=saturate",
                                        "fp16:overflow",
                                        "fp16:overflow=",
                                        "fp16:overflow=up",
                                        "fp16:overflow=inf:overflow=inf",
                                        "fp16:saturate",
                                        "int8:tensor:channel(in)",
                                        "bf16:floor:floor",
                                        "int8:tensor:stochastic:stochastic",
                                        "bf16 :tensor",
                                        "int4:shift",
                                        "int4:shift0(in)",
                                        "int4:shift9(in)",
                                        "int4:shift12(in)",
                                        "int4:shift4(",
                                        "int4:shift4(in)(in)",
                                        "int4:shift#",
                                        "int4:shift4:tensor",
                                        "bf16:shift4",
                                        "int4:shift04(in)",
                                        "mxfp8:tensor",
                                        "mxfp8:overflow=inf",
                                        "mxfp8:mse",
                                        "bf16:along(in)",
                                        "int8:along(out)",
                                        "mx(e4m3,33)",
                                        "int4:hadamard0",
                                        "int4:hadamard016",
                                        "int4:hadamard1",
                                        "int4:hadamard24",
                                        "int4:hadamard128",
                                        "int4:hadamard16000000000000",
                                        "int4:hadamard(rows)",
                                        "int4:hadamard16(in",
                                        "int4:hadamard16:tensor",
                                        "fp(4,3,4):hadamard16",
                                        "bf16:tensor:nearest-even-and-a-tail-that-does-not-fit-any-sensible-buffer"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        qs_quantizer quantizer = {.format = NULL, .rounding = QS_FLOOR};
        if (qs_quantizer_find(texts[i], &quantizer) != QS_USAGE) fail_msg("'%s' was taken", texts[i]);
        assert_null(quantizer.format);
        assert_int_equal(quantizer.rounding, QS_FLOOR);
    }
    qs_quantizer quantizer;
    assert_refused(qs_quantizer_find("int8:rows", &quantizer), QS_USAGE, "int8:rows");
    assert_message("channel(out)");
    assert_message("toward-zero");
}

TEST_MAIN(defaults_follow_the_format, texts_round_trip, shift_groups_round_trip, options_round_trip, transforms_round_trip,
          blocks_round_trip, bad_texts_are_refused)
