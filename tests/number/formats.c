// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: fp32 tf32 bf16 fp16 e5m2 e4m3fn fp int uint log
/* Descriptors: facts of every named format against its standard, the families' formulas, interning, order, storage, messages. */
#include "number_test.h"

/* A name that is missing here stops the configuration (src/number/room.cmake). */
static const struct {
    const char *name;
    qs_format_kind kind;
    int bits, mantissa_bits;
    double max, min_normal, min_subnormal;
} facts[] = {
    {"fp32", QS_KIND_FLOAT, 32, 23, 0x1.fffffep127, 0x1p-126, 0x1p-149},
    {"tf32", QS_KIND_FLOAT, 32, 10, 0x1.ffcp127, 0x1p-126, 0x1p-136},
    {"bf16", QS_KIND_FLOAT, 16, 7, 0x1.fep127, 0x1p-126, 0x1p-133},
    {"fp16", QS_KIND_FLOAT, 16, 10, 65504.0, 0x1p-14, 0x1p-24},
    {"e5m2", QS_KIND_FLOAT, 8, 2, 57344.0, 0x1p-14, 0x1p-16},
    {"e4m3fn", QS_KIND_FLOAT, 8, 3, 448.0, 0x1p-6, 0x1p-9},
    {"int8", QS_KIND_INTEGER, 8, 0, 127.0, 0.0, 0.0},
    {"int4", QS_KIND_INTEGER, 4, 0, 7.0, 0.0, 0.0},
    {"int2", QS_KIND_INTEGER, 2, 0, 1.0, 0.0, 0.0},
    {"uint7", QS_KIND_INTEGER, 7, 0, 127.0, 0.0, 0.0},
    {"uint4", QS_KIND_INTEGER, 4, 0, 15.0, 0.0, 0.0},
    {"log4", QS_KIND_INTEGER, 4, 0, 64.0, 0.0, 0.0}, /* 3 bits of exponent: 0 and seven powers of two */
    {"log3", QS_KIND_INTEGER, 3, 0, 4.0, 0.0, 0.0},
    {"log2", QS_KIND_INTEGER, 2, 0, 1.0, 0.0, 0.0},
    {"fp(6,9,0)", QS_KIND_FLOAT, 16, 9, 0x1.ff8p32, 0x1p-30, 0x1p-39},
    {"fp(4,3,4)", QS_KIND_FLOAT, 8, 3, 30.0, 0x1p-10, 0x1p-13},
    {"fp(5,2,0)", QS_KIND_FLOAT, 8, 2, 114688.0, 0x1p-14, 0x1p-16},
    /* 2^128 and above cannot be carried in fp32. */
    {"fp(8,7,0)", QS_KIND_FLOAT, 16, 7, 0x1.fep127, 0x1p-126, 0x1p-133},
};

TEST(facts_hold) {
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        const qs_format *format = format_named(facts[i].name);
        assert_string_equal(format->name, facts[i].name);
        assert_int_equal(format->kind, facts[i].kind);
        assert_int_equal(format->bits, facts[i].bits);
        assert_int_equal(format->mantissa_bits, facts[i].mantissa_bits);
        assert_true(format->max == facts[i].max);
        assert_true(format->min_normal == facts[i].min_normal);
        assert_true(format->min_subnormal == facts[i].min_subnormal);
        assert_true(format->epsilon == (facts[i].kind == QS_KIND_FLOAT ? ldexp(1.0, -facts[i].mantissa_bits) : 0.0));
    }
}

TEST(equal_formats_are_one_pointer) {
    assert_ptr_equal(format_named("fp(6,9)"), format_named("fp(6,9,0)"));
    assert_ptr_equal(format_named("int(8)"), format_named("int8"));
    assert_ptr_equal(format_named("uint(4)"), format_named("uint4"));
    assert_ptr_equal(format_named("log(4)"), format_named("log4"));
    assert_ptr_not_equal(format_named("uint4"), format_named("int4"));
    assert_ptr_equal(format_named("bf16"), qs_format_of("bf16"));
    assert_ptr_not_equal(format_named("fp(5,2)"), format_named("e5m2"));
    assert_ptr_not_equal(format_named("fp(4,3,4)"), format_named("fp(4,3,-4)"));
    assert_string_equal(format_named("fp(4,3,-4)")->name, "fp(4,3,-4)");
}

TEST(every_listed_name_is_found) {
    size_t count = 0;
    for (; qs_format_name_at(count); count++) {
        assert_string_equal(format_named(qs_format_name_at(count))->name, qs_format_name_at(count));
    }
    assert_true(count >= 12);
    assert_null(qs_format_name_at(count + 5));
    assert_string_equal(qs_format_family_syntax_at(0), "fp(e,m,bias)");
    assert_null(qs_format_family_syntax_at(4));
}

/* The lowest and highest bias of every width, and one beyond each: normal values stay inside fp32's exponents -126 ... 127, but for one
 * binade above. (Few names, since descriptors are never freed.) */
TEST(every_float_that_fp32_carries_exists) {
    for (int e = 1; e <= 8; e++) {
        int standard = (1 << (e - 1)) - 1;
        int highest = 127 - standard;               /* 1 - standard - bias = -126 */
        int lowest = (1 << e) - 1 - standard - 128; /* 2^e - 1 - standard - bias = 128 */
        if (e == 1) lowest++;                       /* the one binade that there is must not be the one above */
        for (int m = 0; m <= 23; m += m == 0 || m == 22 ? 1 : 7) {
            for (int beyond = 0; beyond <= 1; beyond++) {
                char low[32], high[32];
                snprintf(low, sizeof low, "fp(%d,%d,%d)", e, m, lowest - beyond);
                snprintf(high, sizeof high, "fp(%d,%d,%d)", e, m, highest + beyond);
                const qs_format *format = NULL;
                assert_int_equal(qs_format_find(low, &format), beyond ? QS_USAGE : QS_OK);
                assert_int_equal(qs_format_find(high, &format), beyond ? QS_USAGE : QS_OK);
            }
        }
    }
}

TEST(unknown_names_list_what_exists) {
    const qs_format *format = NULL;
    assert_int_equal(qs_format_find("float17", &format), QS_USAGE);
    assert_null(format);
    for (size_t i = 0; qs_format_name_at(i); i++) {
        assert_message(qs_format_name_at(i));
    }
    assert_message("float17");
    assert_message("fp(e,m,bias)");
    qs_rounding rounding = QS_FLOOR;
    assert_int_equal(qs_rounding_find("up", &rounding), QS_USAGE);
    for (int i = 0; i < QS_ROUNDING_COUNT; i++) {
        assert_message(qs_rounding_name((qs_rounding)i));
        assert_ok(qs_rounding_find(qs_rounding_name((qs_rounding)i), &rounding));
        assert_int_equal(rounding, i);
    }
    assert_int_equal(qs_number_isa_set("sse9"), QS_USAGE);
    for (size_t i = 0; qs_number_isa_name_at(i); i++) {
        assert_message(qs_number_isa_name_at(i));
    }
}

TEST(bad_parameters_are_refused) {
    static const char *const names[] = {
        "",           "fp(",         "fp()",      "fp(4)",      "fp(4,3",      "fp(4,3,)",  "fp(4,3,4",
        "fp(4,3,4))", "fp(4,3,4,5)", "fp(4, 3)",  "fp(+4,3)",   "fp(0,3)",     "fp(9,3)",   "fp(4,24)",
        "fp(4,-1)",   "fp(4,3,x)",   "fp(8,7,1)", "fp(8,7,-1)", "fp(4,3,999)", "fp(4,3,-)", "fp(99999999999999999999,3)",
        "int",        "int1",        "int9",      "int16",      "int(8",       "int(8))",   "int8 ",
        "int()",      "INT8",        "FP32",      "fp(4.0,3)",  "uint8",       "uint1",     "uint",
        "log5",       "log1",        "log",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const qs_format *format = NULL;
        if (qs_format_find(names[i], &format) != QS_USAGE) fail_msg("'%s' was taken", names[i]);
        assert_null(format);
        if (!strstr(qs_message(), names[i])) fail_msg("'%s' is not in: %s", names[i], qs_message());
    }
}

TEST(precision_is_ordered) {
    static const char *const order[] = {"fp32", "fp16", "fp(6,9,0)", "bf16", "e4m3fn", "e5m2", "int8", "int4"};
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        for (size_t j = 0; j < COUNT_OF(order); j++) {
            assert_int_equal(qs_format_at_least(format_named(order[i]), format_named(order[j])), i <= j);
        }
    }
}

TEST(storage_is_counted_in_whole_bytes) {
    assert_int_equal(qs_format_bytes(format_named("fp32"), 5), 20);
    assert_int_equal(qs_format_bytes(format_named("bf16"), 5), 10);
    assert_int_equal(qs_format_bytes(format_named("int8"), 5), 5);
    assert_int_equal(qs_format_bytes(format_named("int4"), 5), 5);
    assert_int_equal(qs_format_bytes(format_named("fp(3,2)"), 5), 4); /* 30 bits */
    assert_int_equal(qs_format_bytes(format_named("fp(3,2)"), 8), 6);
    assert_int_equal(qs_format_bytes(format_named("fp(3,2)"), 0), 0);
    assert_true(qs_format_bytes(format_named("fp(8,23)"), INT64_C(1) << 60) == (size_t)1 << 62);
}

TEST_MAIN(facts_hold, equal_formats_are_one_pointer, every_listed_name_is_found, every_float_that_fp32_carries_exists,
          unknown_names_list_what_exists, bad_parameters_are_refused, precision_is_ordered, storage_is_counted_in_whole_bytes)
