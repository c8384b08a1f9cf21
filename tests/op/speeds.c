// SPDX-License-Identifier: Apache-2.0
// labels: short
/* At which part of its pace a device runs a case, where products have their own by format. */
#include "kit/kit.h"
#include "qsync/speeds.h"

static qs_speeds speeds_of(int formats, const char *const *name, const double *part) {
    qs_speeds out = {.formats = formats};
    for (int i = 0; i < formats; i++) {
        out.format[i] = qs_format_of(name[i]);
        out.part[i] = part[i];
    }
    return out;
}

TEST(formats_that_are_not_named) {
    static const char *const names[] = {"int8", "fp32", "bf16", "int4"};
    static const double parts[] = {0.5, 0.1, 0.3, 1};
    static const struct {
        const char *format;
        double part;
    } wanted[] = {{"fp32", 0.1}, {"bf16", 0.3}, {"fp16", 0.3}, {"e4m3fn", 0.3}, {"tf32", 0.1}, {"int8", 0.5},
                  {"int7", 0.5}, {"int5", 0.5}, {"int4", 1},   {"int3", 1},     {"log4", 1},   {"uint7", 0.5}};
    const qs_speeds all = speeds_of(4, names, parts), floats = speeds_of(1, names + 1, parts + 1), none = {0};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        const qs_format *format = qs_format_of(wanted[i].format);
        if (qs_format_speed(format, 1, &all) != wanted[i].part)
            fail_msg("%s: %g, wanted %g", wanted[i].format, qs_format_speed(format, 1, &all), wanted[i].part);
        assert_true(qs_format_speed(format, 1, &floats) == 0.1);
        assert_true(qs_format_speed(format, 0.7, &none) == 0.7);
    }
}

TEST(cases) {
    static const char *const names[] = {"fp32", "int8"};
    static const double parts[] = {0.2, 0.9};
    static const struct {
        const char *text;
        double part;
    } wanted[] = {
        {"linear/forward src=fp32[2,8] weights=fp32[4,8] dst=fp32[2,4]", 0.2},
        {"linear/forward src=int8[2,8] src_step=fp32[1] weights=int8[4,8] weights_step=fp32[4] dst=fp32[2,4]", 0.9},
        {"linear/input_gradient weights=fp32[4,8] diff_dst=fp32[2,4] diff_src=fp32[2,8]", 0.2},
        {"conv2d/weight_gradient src=fp32[1,2,4,4] diff_dst=fp32[1,2,4,4] diff_weights=fp32[2,2,3,3] kernel=3x3 padding=1x1", 0.2},
        {"relu/forward src=fp32[2,8] dst=fp32[2,8]", 0.9},
    };
    const qs_speeds products = speeds_of(2, names, parts), none = {0};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        qs_case one;
        assert_ok(qs_case_parse(wanted[i].text, &one));
        if (qs_case_speed(&one, 0.9, &products) != wanted[i].part) fail_msg("%s: %g", wanted[i].text, qs_case_speed(&one, 0.9, &products));
        assert_true(qs_case_speed(&one, 0.4, &none) == 0.4);
    }
}

TEST(texts) {
    static const char *const names[] = {"fp32", "int4"};
    static const double parts[] = {0.2, 1};
    char text[QS_SPEEDS_TEXT];
    const qs_speeds products = speeds_of(2, names, parts), none = {0};
    assert_string_equal(qs_speeds_text(0.8, &none, text), "0.8");
    assert_string_equal(qs_speeds_text(1, &products, text), "fp32 0.2, int4 1");
}

TEST_MAIN(formats_that_are_not_named, cases, texts)
