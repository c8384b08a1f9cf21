// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* Reference values of formats.json: facts, every rounding, and the overflow of the nearest-even one. By value: the sign of zero is free. */
#include "number_test.h"

#include <jansson.h>

static double real_of(const json_t *text) {
    const char *string = json_string_value(text);
    assert_non_null(string);
    return strtod(string, NULL);
}

static void check_facts(const qs_format *format, const json_t *entry) {
    assert_int_equal(format->exponent_bits, json_integer_value(json_object_get(entry, "exponent_bits")));
    assert_int_equal(format->mantissa_bits, json_integer_value(json_object_get(entry, "mantissa_bits")));
    assert_int_equal(format->bias, json_integer_value(json_object_get(entry, "bias")));
    assert_string_equal(qs_specials_name(format->specials), json_string_value(json_object_get(entry, "specials")));
    assert_true(format->max == real_of(json_object_get(entry, "max")));
    assert_true(format->min_normal == real_of(json_object_get(entry, "min_normal")));
    assert_true(format->min_subnormal == real_of(json_object_get(entry, "min_subnormal")));
}

static void check_case(const qs_format *format, const json_t *entry) {
    static const struct {
        const char *name;
        qs_rounding rounding;
    } roundings[] = {{"nearest-even", QS_NEAREST_EVEN}, {"nearest-away", QS_NEAREST_AWAY}, {"floor", QS_FLOOR}, {"zero", QS_TOWARD_ZERO}};
    double x = real_of(json_object_get(entry, "x"));
    float source = (float)x;
    assert_true((double)source == x);
    for (size_t i = 0; i < COUNT_OF(roundings); i++) {
        const json_t *text = json_object_get(entry, roundings[i].name);
        if (!text) continue;
        bool overflow = false;
        double value = (double)qs_round_value(format, roundings[i].rounding, QS_OVERFLOW_DEFAULT, source, 0, &overflow);
        if (value != real_of(text)) {
            fail_msg("%s %s of %a gives %a, not %s", format->name, roundings[i].name, x, value, json_string_value(text));
        }
        const json_t *expected = json_object_get(entry, "overflow");
        if (roundings[i].rounding == QS_NEAREST_EVEN && expected && overflow != json_is_true(expected)) {
            fail_msg("%s: overflow of %a is %d", format->name, x, overflow);
        }
        float array = 0.0f;
        qs_rounding_counts counts =
            qs_round_array(format, roundings[i].rounding, QS_OVERFLOW_DEFAULT, (qs_random_stream){0, 0}, 1, &source, &array);
        assert_int_equal(counts.overflows, overflow);
        assert_true((double)array == value);
    }
}

TEST(reference_values) {
    const char *folder = getenv("QSYNC_VECTORS");
    const char *shared = getenv("QS_TEST_SHARED");
    char path[4096];
    if (!folder && !shared) skip();
    snprintf(path, sizeof path, folder ? "%s/formats.json" : "%s/vectors/formats.json", folder ? folder : shared);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root && !folder) skip();
    assert_non_null(root);
    size_t index, cases = 0;
    json_t *entry;
    json_array_foreach(json_object_get(root, "formats"), index, entry) {
        const qs_format *format = NULL;
        assert_ok(qs_format_find(json_string_value(json_object_get(entry, "format")), &format));
        check_facts(format, entry);
        size_t number;
        json_t *one;
        json_array_foreach(json_object_get(entry, "cases"), number, one) {
            check_case(format, one);
            cases++;
        }
    }
    print_message("%zu cases\n", cases);
    assert_true(cases > 0);
    json_decref(root);
}

TEST_MAIN(reference_values)
