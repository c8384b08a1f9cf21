// SPDX-License-Identifier: Apache-2.0
/* What the tests of number share: formats that stand for the families, and floats of every magnitude. */
#ifndef NUMBER_TEST_H
#define NUMBER_TEST_H

#include "kit/kit.h"
#include "qsync/number.h"

static const char *const float_formats[] = {
    "fp32",      "tf32",      "bf16",      "fp16",       "e5m2",      "e4m3fn",      "fp(6,9,0)",
    "fp(4,3,4)", "fp(5,2,0)", "fp(3,2,0)", "fp(2,1,0)",  "fp(1,2,0)", "fp(5,0,0)",   "fp(5,10,0)",
    "fp(8,7,0)", "fp(8,0,0)", "fp(7,8,9)", "fp(4,3,-9)", "fp(8,23)",  "fp(2,22,99)", "fp(6,1,95)",
};

static const char *const isa_names[] = {"portable", "avx2", "all"};

/* Values of all exponents: any bits but NaN and infinity. */
static inline float any_float(uint64_t key, uint64_t i) {
    float x = float_of(qs_random_bits(key, i));
    return isfinite(x) ? x : 0.0f;
}

/* Values around the range of a format: from far below its smallest to a little above its largest, with ties and exact values among them. */
static inline float near_format(const qs_format *format, uint64_t key, uint64_t i) {
    uint32_t draw = qs_random_bits(key, 2 * i);
    double low = log2(format->min_subnormal) - 3.0;
    double high = log2(format->max) + 2.0;
    double x = exp2(low + (high - low) * qs_random_uniform(key, 2 * i + 1));
    if (draw % 4 == 0) x = (double)qs_round_value(format, QS_TOWARD_ZERO, QS_OVERFLOW_DEFAULT, (float)x, 0, NULL);
    if (draw % 4 == 1) {
        double q = ldexp(format->epsilon, ilogb(fmax(x, format->min_normal)));
        x = (floor(x / q) + 0.5) * q;
    }
    if (x > 0x1.fffffep127) x = 0x1.fffffep127;
    return (float)(draw & 64 ? -x : x);
}

static inline const qs_format *format_named(const char *name) {
    const qs_format *format = NULL;
    assert_ok(qs_format_find(name, &format));
    return format;
}

#endif
