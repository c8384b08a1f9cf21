// SPDX-License-Identifier: Apache-2.0
/* Narrow accumulators on the device cpu, operands that hurt: sums that cancel down to bits far behind fp32's, ties of its last place and of
 * the accumulator's, subnormal sums, products far below and above the accumulator's range, saturated sums, signed zeros. Bits must be those
 * of the scalar reference, for every adder, with chunks and rounded products and without, whatever the instruction set. */
// labels: short
#include "narrow_support.h"

enum { ROWS = 13, COLUMNS = 17, LENGTH = 20 };

static const char *const formats[] = {"fp(6,9)", "fp(8,7)",  "fp(5,10)", "fp(8,20)", "fp(7,11)",
                                      "fp(2,3)", "fp(3,20)", "fp(8,1)",  "fp(8,2)",  "fp(9,6)"};
static const char *const stages[] = {"", "/chunk8", "/product(5)", "/chunk4/product(20)"};
/* Products of 48, 16, 22, 24 and 6 places: fp32 lanes hold all but the first, and align those of up to 23. */
static const char *const operands[] = {"fp32", "bf16", "fp16", "fp(4,11,0)", "fp(5,2,0)"};
enum { FORMATS = COUNT_OF(formats), STAGES = COUNT_OF(stages), OPERANDS = COUNT_OF(operands) };

/* ---- Values; k counts along the products of a sum ---- */

typedef struct dice {
    uint64_t key, count;
} dice;

static int roll(dice *d, int sides) {
    return (int)(qs_random_bits(d->key, d->count++) % (uint32_t)sides);
}

static float with_sign(dice *d, float magnitude) {
    return roll(d, 2) ? magnitude : -magnitude;
}

static float full_mantissa(dice *d) {
    return 1 + (float)roll(d, 1 << 23) * 0x1p-23f;
}

/* As in training. */
static float ordinary(dice *d, int64_t k) {
    (void)k;
    return with_sign(d, ldexpf(full_mantissa(d), -roll(d, 12)));
}

/* Every second product is nearly the one before with the other sign: the factors differ in their last bits, and the first of them have few
 * bits, so that the sum in between is exact. */
static float cancelling(dice *d, int64_t k) {
    static float before;
    if (k % 2 == 0) return before = with_sign(d, (float)(1 + roll(d, 7)));
    return (roll(d, 2) ? 1.0f : -1.0f) * before * (1 + (float)(roll(d, 5) - 2) * 0x1p-23f);
}

/* Few bits, and one at or next to a place where halves of some accumulator or of fp32 are. */
static float tying(dice *d, int64_t k) {
    static const int places[] = {1, 3, 4, 6, 8, 10, 11, 12, 20, 21, 22, 23};
    (void)k;
    const float far = ldexpf(1, -places[roll(d, 12)]);
    return with_sign(d, ldexpf(1 + (float)roll(d, 2) * far + (float)(roll(d, 3) - 1) * (float)roll(d, 2) * 0x1p-23f, roll(d, 5) - 2));
}

/* Products around the least place of fp(6,9), 2^-39, and fp(5,10), 2^-24. */
static float small(dice *d, int64_t k) {
    (void)k;
    return with_sign(d, ldexpf(roll(d, 2) ? full_mantissa(d) : 1, -8 - roll(d, 16)));
}

/* Around the least normal value of those with 7 and 8 exponent bits. */
static float minute(dice *d, int64_t k) {
    (void)k;
    return with_sign(d, ldexpf(roll(d, 2) ? full_mantissa(d) : 1, -30 - roll(d, 50)));
}

/* Anything that fp32 has, mostly far apart; zeros. */
static float unlike(dice *d, int64_t k) {
    (void)k;
    if (roll(d, 8) == 0) return with_sign(d, 0);
    return with_sign(d, ldexpf(full_mantissa(d), roll(d, 276) - 149));
}

/* One huge operand among ordinary and tiny ones, which go below fp32 when they are scaled for it. */
static float mixed(dice *d, int64_t k) {
    if (roll(d, 16) == 0) return with_sign(d, 0x1p13f);
    if (roll(d, 4) == 0) return with_sign(d, ldexpf(full_mantissa(d), -100 - roll(d, 49)));
    return ordinary(d, k);
}

/* Sums that come to the largest value of most accumulators, and back. */
static float large(dice *d, int64_t k) {
    (void)k;
    return with_sign(d, ldexpf(full_mantissa(d), 6 + roll(d, 60)));
}

/* All of one sign, so that sums only grow: past the largest value of fp(2,3) and fp(3,20). */
static float growing(dice *d, int64_t k) {
    return ldexpf(full_mantissa(d), (int)(k % 8) - (roll(d, 3) == 0));
}

static const struct {
    const char *name;
    float (*value)(dice *d, int64_t k);
} kinds[] = {{"ordinary", ordinary}, {"cancelling", cancelling}, {"tying", tying}, {"small", small},    {"minute", minute},
             {"unlike", unlike},     {"mixed", mixed},           {"large", large}, {"growing", growing}};
enum { KINDS = COUNT_OF(kinds) };

/* ---- Cases ---- */

/* Products of a sum follow one another along the last axis of both operands. */
static void fill_rows(bound *b, size_t kind, uint64_t seed) {
    for (int i = 0; i < 2; i++) {
        qs_tensor *tensor = bound_tensor(b, i ? QS_WEIGHTS : QS_SRC);
        const int64_t count = qs_shape_count(&tensor->shape);
        dice d = {.key = seed * 2 + (uint64_t)i};
        float *values = tensor_values(tensor);
        for (int64_t k = 0; k < count; k++)
            values[k] = kinds[kind].value(&d, k % LENGTH);
        tensor_store(tensor, values);
        free(values);
    }
}

static void check_case(qs_device *device, const char *accumulator, const char *operand, size_t kind, uint64_t seed) {
    char text[QS_CASE_TEXT], told[QS_CASE_TEXT + 32];
    bound expected;
    snprintf(text, sizeof text, "linear/forward src=%s[%d,%d] weights=%s[%d,%d] dst=fp32[%d,%d] accumulator=%s", operand, ROWS, LENGTH,
             operand, COLUMNS, LENGTH, ROWS, COLUMNS, accumulator);
    snprintf(told, sizeof told, "%s (%s)", text, kinds[kind].name);
    bound_parse(&expected, text, 1);
    fill_rows(&expected, kind, seed);
    bound_run(&expected);
    check_bits(device, &expected, told);
    bound_release(&expected);
}

static void check_adder(const char *adder) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t f = 0; f < FORMATS; f++)
        for (size_t s = 0; s < STAGES; s++)
            for (size_t kind = 0; kind < KINDS; kind++)
                for (size_t o = 0; o < OPERANDS; o++) {
                    char accumulator[QS_NARROW_TEXT];
                    snprintf(accumulator, sizeof accumulator, "%s%s/%s", formats[f], stages[s], adder);
                    check_case(device, accumulator, operands[o], kind, o * 1000 + f * 100 + s * 10 + kind);
                }
    qs_device_close(device);
}

TEST(test_align_truncate) {
    check_adder("align-truncate");
}

TEST(test_nearest_even) {
    check_adder("nearest-even");
}

TEST(test_toward_zero) {
    check_adder("toward-zero");
}

TEST(test_stochastic) {
    check_adder("stochastic");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_align_truncate),
        cmocka_unit_test(test_nearest_even),
        cmocka_unit_test(test_toward_zero),
        cmocka_unit_test(test_stochastic),
    };
    if (!backend_exists("cpu")) return 77;
    static const char *const vectors[] = {"all", "avx2", "portable"};
    return run_under(vectors, COUNT_OF(vectors), tests, COUNT_OF(tests));
}
