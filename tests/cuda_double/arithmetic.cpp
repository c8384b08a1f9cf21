// SPDX-License-Identifier: Apache-2.0
/* The arithmetic that CUDA kernels do on one element (src/device/cuda/arithmetic.cuh), compiled for this CPU, against the room `number`, bit
 * for bit: every code of narrow formats, every mode and policy over a set of values that has what rounding can trip over. Conversions that
 * a GPU has instructions for are tested on one. */
#include "cuda/arithmetic.cuh"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
extern "C" {
#include <cmocka.h>
}

static const char *const formats[] = {"fp32",      "bf16",      "fp16",       "e5m2",       "e4m3fn",     "fp(4,3,4)",   "fp(6,9,0)",
                                      "fp(5,2,0)", "fp(4,3,0)", "fp(8,7,0)",  "fp(8,0,0)",  "tf32",       "fp(1,0,0)",   "fp(1,2,0)",
                                      "fp(2,1,0)", "fp(3,0,0)", "fp(5,10,3)", "fp(4,2,1)",  "fp(3,4,-9)", "fp(5,10,99)", "fp(4,3,113)",
                                      "fp(2,5,9)", "fp(8,23)",  "fp(5,23,0)", "fp(7,16,0)", "fp(6,17)",   "fp(4,0,100)", "fp(3,2,-110)"};
static const char *const integers[] = {"int2", "int4", "int7", "int8", "uint2", "uint4", "uint7"};
enum { FORMATS = sizeof formats / sizeof formats[0], INTEGERS = sizeof integers / sizeof integers[0] };

/* As cuda.c makes it; the kind alone is the device's. */
static qs__cuda_format job_format(const qs_format *format) {
    qs__cuda_format out = {};
    out.kind = format->kind == QS_KIND_INTEGER ? QS__CUDA_INTEGER : QS__CUDA_FLOAT;
    out.bits = format->bits;
    out.exponent_bits = format->exponent_bits;
    out.mantissa_bits = format->mantissa_bits;
    out.bias = format->bias;
    out.specials = (int)format->specials;
    out.is_unsigned = format->is_unsigned;
    out.max = (float)format->max;
    out.min_normal = (float)format->min_normal;
    out.min_subnormal = (float)format->min_subnormal;
    return out;
}

#define assert_bits(got, wanted, ...)                                                    \
    do {                                                                                 \
        const uint32_t got_bits = (got), wanted_bits = (wanted);                         \
        if (got_bits != wanted_bits) {                                                   \
            fprintf(stderr, __VA_ARGS__);                                                \
            fail_msg(": %08x, must be %08x", (unsigned)got_bits, (unsigned)wanted_bits); \
        }                                                                                \
    } while (0)

/* ---- Values and draws ------------------------------------------------------------------------------------------------------------ */

/* For each exponent field of fp32 and both signs: mantissas with one bit, with all bits from one on or up to one, each with its neighbours:
 * ties, what lies beside them, and powers of two, whichever place is the last. */
typedef struct inputs {
    float *value;
    int count;
} inputs;

static inputs inputs_make(void) {
    const int most = 2 * 256 * 24 * 3 * 4 + 4096;
    inputs in = {(float *)malloc((size_t)most * sizeof(float)), 0};
    assert_non_null(in.value);
    for (uint32_t field = 0; field < 256; field++)
        for (int place = 0; place < 24; place++)
            for (int kind = 0; kind < 3; kind++)
                for (int beside = -1; beside <= 1; beside++) {
                    const uint32_t one = 1u << place, all = 0x7FFFFFu;
                    const uint32_t mantissa = kind == 0 ? one : kind == 1 ? all & ~(one - 1) : one - 1;
                    const uint32_t magnitude = ((field << 23 | (mantissa & all)) + (uint32_t)beside) & MAGNITUDE_BITS;
                    in.value[in.count++] = float_of(magnitude);
                    in.value[in.count++] = float_of(magnitude | SIGN_BIT);
                }
    for (uint32_t i = 0; i < 4096; i++)
        in.value[in.count++] = float_of(qs_random_bits(7, i));
    assert_true(in.count <= most);
    return in;
}

/* Draws that end rounding up and those that begin it, for any place of the cut, and some of no such kind. */
static uint32_t draw_of(int i) {
    static const uint32_t edge[] = {0, 1, UINT32_MAX, 0x7FFFFFFFu, SIGN_BIT, 0x0000FFFFu, 0xFFFF0000u, 0x00010000u};
    return i < 8 ? edge[i] : qs_random_bits(11, (uint64_t)i);
}
enum { DRAWS = 12 };

/* ---- Floats ------------------------------------------------------------------------------------------------------------------------ */

static void every_code_decodes_and_is_found_again(void **state) {
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        const qs_format *format = qs_format_of(formats[f]);
        const float_plan plan = plan_of(job_format(format));
        const uint32_t codes = format->bits > 16 ? 1u << 20 : 1u << format->bits,
                       odd = format->bits > 16 ? 4093u << (format->bits - 20) : 1;
        for (uint32_t i = 0; i < codes; i++) {
            const uint32_t code = (i * odd) & (format->bits == 32 ? UINT32_MAX : (1u << format->bits) - 1);
            const float value = qs_decode_value(format, code);
            assert_bits(bits_of(decode(plan, code)), bits_of(value), "%s code %x", format->name, (unsigned)code);
            if (!finite(value) || plan.padded) continue; /* the latter: of values that it does not have, too */
            assert_bits(round_float(plan, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, value, 0).code, code, "%s value %g", format->name,
                        (double)value);
        }
    }
}

static void one_rounding_is_numbers(const qs_format *format, int rounding, int overflow, float x, uint32_t random) {
    bool overflowed = false;
    const rounded out = round_float(plan_of(job_format(format)), rounding, overflow, x, random);
    const float value = qs_round_value(format, (qs_rounding)rounding, (qs_overflow)overflow, x, random, &overflowed);
    const char *name = qs_rounding_name((qs_rounding)rounding), *policy = qs_overflow_name((qs_overflow)overflow);
    assert_bits(bits_of(out.value), bits_of(value), "%s %s %s of %a, draw %08x", format->name, name, policy, (double)x, (unsigned)random);
    assert_bits(out.code, qs_encode_value(format, value), "%s %s %s code of %a, draw %08x", format->name, name, policy, (double)x,
                (unsigned)random);
    assert_bits(out.overflowed, overflowed, "%s %s %s overflow of %a, draw %08x", format->name, name, policy, (double)x, (unsigned)random);
}

static void every_rounding_is_numbers(void **state) {
    const inputs *in = (const inputs *)*state;
    for (int f = 0; f < FORMATS; f++) {
        const qs_format *format = qs_format_of(formats[f]);
        for (int rounding = 0; rounding < QS_ROUNDING_COUNT; rounding++)
            for (int i = 0; i < in->count; i++)
                for (int draw = 0; draw < (rounding == QS_STOCHASTIC ? 2 : 1); draw++)
                    for (int overflow = 0; overflow < QS_OVERFLOW_COUNT; overflow++)
                        one_rounding_is_numbers(format, rounding, overflow, in->value[i], draw_of((i + 5 * draw) % DRAWS));
    }
}

/* Formats with arithmetic of their own: the codes that arrays get. */
typedef uint32_t (*encoder)(float x);
typedef uint32_t (*drawer)(float x, uint32_t random);
typedef float (*decoder)(uint32_t code);

static void one_path_is_numbers(const inputs *in, const char *name, encoder encode_one, drawer draw_one, decoder decode_one) {
    const qs_format *format = qs_format_of(name);
    uint32_t code;
    for (int i = 0; i < in->count; i++) {
        code = 0;
        qs_convert_from_fp32(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, qs_random_stream{0, 0}, 1, &in->value[i], &code);
        assert_bits(encode_one(in->value[i]), code, "%s of %a", name, (double)in->value[i]);
        for (int draw = 0; draw < DRAWS; draw++) {
            const uint32_t random = draw_of(draw);
            const float value = qs_round_value(format, QS_STOCHASTIC, QS_OVERFLOW_DEFAULT, in->value[i], random, NULL);
            assert_bits(draw_one(in->value[i], random), qs_encode_value(format, value), "%s of %a, draw %08x", name, (double)in->value[i],
                        (unsigned)random);
        }
    }
    for (code = 0; code < 1u << format->bits; code++) {
        float value;
        qs_convert_to_fp32(format, 1, &code, &value);
        assert_bits(bits_of(decode_one(code)), bits_of(value), "%s code %x", name, (unsigned)code);
    }
}

static void paths_of_their_own_are_numbers(void **state) {
    const inputs *in = (const inputs *)*state;
    one_path_is_numbers(in, "bf16", bf16_encode, bf16_stochastic, bf16_decode);
    one_path_is_numbers(in, "fp16", fp16_encode, fp16_stochastic, fp16_decode);
    one_path_is_numbers(in, "e4m3fn", e4m3_encode, e4m3_stochastic, e4m3_decode);
    one_path_is_numbers(in, "e5m2", e5m2_encode, e5m2_stochastic, e5m2_decode);
}

/* ---- Integers ------------------------------------------------------------------------------------------------------------------------- */

static int one_code(fixed_range range, qs_rounding rounding, float step, float x, uint32_t half) {
    return with_rounding(rounding, [&](auto mode) {
        constexpr int known = decltype(mode)::value;
        return quantize_scaled<known>(range, x * (1.0f / step * (known == QS_STOCHASTIC ? 65536.0f : 1.0f)), half);
    });
}

static void one_quantizing_is_numbers(const inputs *in, const qs_format *format, qs_rounding rounding, float step) {
    const qs__cuda_format as_job = job_format(format);
    const qs_random_stream stream = {0x1234567890ABCDEFu, 0xFFFFFF00u};
    int8_t *code = (int8_t *)malloc((size_t)in->count);
    assert_non_null(code);
    qs_quantize_array(format, rounding, stream, step, in->count, in->value, code);
    for (int i = 0; i < in->count; i++) {
        const uint32_t half = random_half(stream.key, stream.first + (uint64_t)i);
        const int got = one_code(fixed_range_of(as_job), rounding, step, in->value[i], half);
        assert_bits((uint32_t)got, (uint32_t)code[i], "%s %s of %a by %a", format->name, qs_rounding_name(rounding), (double)in->value[i],
                    (double)step);
    }
    free(code);
}

static void quantizing_is_numbers(void **state) {
    static const float steps[] = {1.0f, 0.1f, 0x1.3p-3f, 0x1p-100f, 0x1.9p+60f, 0x1.9p+126f};
    const inputs *in = (const inputs *)*state;
    for (int f = 0; f < INTEGERS; f++) {
        const qs_format *format = qs_format_of(integers[f]);
        for (int rounding = 0; rounding < QS_ROUNDING_COUNT; rounding++)
            for (int s = 0; s < 6; s++)
                one_quantizing_is_numbers(in, format, (qs_rounding)rounding, steps[s]);
        for (int i = 0; i < in->count; i++)
            assert_bits(bits_of(step_of_absmax(job_format(format), float_of(bits_of(in->value[i]) & MAGNITUDE_BITS))),
                        bits_of(qs_step_of_absmax(format, fabsf(in->value[i]))), "%s step of %a", format->name, (double)in->value[i]);
    }
}

/* ---- Draws ------------------------------------------------------------------------------------------------------------------------------- */

static void draws_are_bases(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t key = qs_random_key(i, 1, 2, 3), counter = i % 2 ? i : i * 0x9E3779B97F4A7C15u;
        assert_bits(random_bits(key, counter), qs_random_bits(key, counter), "counter %llx", (unsigned long long)counter);
        assert_bits(bits_of(random_uniform(key, counter)), bits_of(qs_random_uniform(key, counter)), "counter %llx",
                    (unsigned long long)counter);
        assert_true(random_key_for(key, counter) == qs_random_key_for(key, counter));
    }
}

int main(void) {
    inputs in = inputs_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes_and_is_found_again),
        cmocka_unit_test_prestate(every_rounding_is_numbers, &in),
        cmocka_unit_test_prestate(paths_of_their_own_are_numbers, &in),
        cmocka_unit_test_prestate(quantizing_is_numbers, &in),
        cmocka_unit_test(draws_are_bases),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(in.value);
    return failed;
}
