// SPDX-License-Identifier: Apache-2.0
/* Array functions that map elements: rounding, conversion, quantization. Large arrays are split over the pool in pieces whose borders do
 * not show in the result, since the draw of an element depends on its index alone. */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

enum {
    SERIAL_LIMIT = 65536, /* fewer elements than this cost less than waking the pool */
    GRAIN = 4 * QS_NUMBER_PIECE,
    BLOCK = 1024 /* codes of odd widths pass through a buffer of this many; a multiple of 8 keeps strings of bits on byte borders */
};

/* Its inverse stays finite with the 16 fractional bits that stochastic rounding adds. */
static const float smallest_step = 0x1p-100f;

/* One call; which fields are set depends on the body. */
typedef struct array_call {
    const qs__kernels *kernels;
    qs__float_rounding how; /* of floats */
    qs_rounding rounding;   /* of integers */
    qs_random_stream random;
    int bits;                     /* of one code */
    const qs_format *logarithmic; /* of codes that are powers of two; else NULL */
    float step;
    qs__fixed_range range;
    const void *src;
    void *dst;
    void *packed; /* codes of floats */
    bool values;  /* packed ones are the values themselves, in fp32 */
    _Atomic int64_t overflows, underflows;
} array_call;

static void run(array_call *call, int64_t count, qs_parallel_body body) {
    assert(count >= 0);
    call->kernels = qs__kernels_get();
    if (count < SERIAL_LIMIT) {
        if (count > 0) body(call, 0, count);
    } else {
        qs_parallel(count, GRAIN, body, call);
    }
}

static int whole_bytes(int bits) {
    return bits == 8 || bits == 16 || bits == 32 ? bits / 8 : 0;
}

/* ---- Rounding ---- */

/* Elements begin ... end - 1; codes: those of this piece, of `width` bytes, or NULL. */
static void round_piece(const array_call *call, int64_t begin, int64_t end, int width, void *codes, qs_rounding_counts *counts) {
    for (int64_t at = begin; at < end;) {
        uint64_t counter = call->random.first + (uint64_t)at;
        int64_t count = qs__draws_run(counter, end - at);
        float *dst = call->dst ? (float *)call->dst + at : NULL;
        void *to = codes ? (char *)codes + (at - begin) * width : NULL;
        qs_rounding_counts more =
            call->kernels->round(&call->how, qs__draws_at(call->random, counter), count, (const float *)call->src + at, dst, width, to);
        counts->overflows += more.overflows;
        counts->underflows += more.underflows;
        at += count;
    }
}

/* Odd widths go through a block of whole codes. */
static void round_odd(const array_call *call, int64_t begin, int64_t end, qs_rounding_counts *counts) {
    uint32_t codes[BLOCK];
    for (int64_t start = begin; start < end; start += BLOCK) {
        int64_t size = end - start < BLOCK ? end - start : BLOCK;
        round_piece(call, start, start + size, sizeof codes[0], codes, counts);
        qs__codes_pack(call->bits, size, codes, (uint8_t *)call->packed + start / 8 * call->bits);
    }
}

static void round_body(void *context, int64_t begin, int64_t end) {
    array_call *call = context;
    qs_rounding_counts counts = {0};
    int width = whole_bytes(call->bits);
    if (!call->packed) {
        round_piece(call, begin, end, 0, NULL, &counts);
    } else if (call->values) {
        round_piece(call, begin, end, 0, NULL, &counts);
        memcpy((float *)call->packed + begin, (float *)call->dst + begin, (size_t)(end - begin) * sizeof(float));
    } else if (width) {
        round_piece(call, begin, end, width, (char *)call->packed + begin * width, &counts);
    } else {
        round_odd(call, begin, end, &counts);
    }
    atomic_fetch_add_explicit(&call->overflows, counts.overflows, memory_order_relaxed);
    atomic_fetch_add_explicit(&call->underflows, counts.underflows, memory_order_relaxed);
}

qs_rounding_counts qs_round_pack_array(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random,
                                       int64_t count, const float *src, float *dst, void *packed) {
    array_call call = {.how = qs__float_rounding_of(format, rounding, overflow),
                       .random = random,
                       .bits = format->bits,
                       .values = qs__format_is_padded(format),
                       .src = src,
                       .dst = dst,
                       .packed = packed};
    run(&call, count, round_body);
    return (qs_rounding_counts){call.overflows, call.underflows};
}

qs_rounding_counts qs_round_array(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random,
                                  int64_t count, const float *src, float *dst) {
    return qs_round_pack_array(format, rounding, overflow, random, count, src, dst, NULL);
}

/* ---- Conversion ---- */

static bool is_single(const qs_format *format) {
    return format->specials == QS_SPECIALS_IEEE && format->mantissa_bits == 23;
}

static void copy_body(void *context, int64_t begin, int64_t end) {
    const array_call *call = context;
    memmove((float *)call->dst + begin, (const float *)call->src + begin, (size_t)(end - begin) * sizeof(float));
}

void qs_convert_from_fp32(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random, int64_t count,
                          const float *src, void *dst) {
    array_call call = {.how = qs__float_rounding_of(format, rounding, overflow), .random = random, .bits = format->bits, .src = src};
    if (is_single(format) && overflow != QS_OVERFLOW_SATURATE) {
        call.dst = dst;
        run(&call, count, copy_body);
        return;
    }
    *(qs__format_is_padded(format) ? &call.dst : &call.packed) = dst;
    call.how.fast = overflow == QS_OVERFLOW_DEFAULT;
    run(&call, count, round_body);
}

static void widen_body(void *context, int64_t begin, int64_t end) {
    const array_call *call = context;
    int width = whole_bytes(call->bits);
    float *dst = call->dst;
    if (width) {
        call->kernels->widen(&call->how.plan, width, end - begin, (const char *)call->src + begin * width, dst + begin);
        return;
    }
    uint32_t codes[BLOCK];
    for (int64_t start = begin; start < end; start += BLOCK) {
        int64_t size = end - start < BLOCK ? end - start : BLOCK;
        qs__codes_unpack(call->bits, size, (const uint8_t *)call->src + start / 8 * call->bits, codes);
        call->kernels->widen(&call->how.plan, 4, size, codes, dst + start);
    }
}

void qs_convert_to_fp32(const qs_format *format, int64_t count, const void *src, float *dst) {
    array_call call = {.how.plan = qs__float_plan_of(format), .bits = format->bits, .src = src, .dst = dst};
    run(&call, count, is_single(format) || qs__format_is_padded(format) ? copy_body : widen_body);
}

/* ---- Fixed point ---- */

float qs_step_of_absmax(const qs_format *format, float absmax) {
    assert(format->kind == QS_KIND_INTEGER);
    if (!isfinite(absmax) || absmax <= 0.0f) return 1.0f;
    return fmaxf(absmax / (float)format->max, smallest_step);
}

static void powers_quantize(const array_call *call, int64_t begin, int64_t end) {
    const float factor = call->range.inverse * (call->rounding == QS_STOCHASTIC ? 0x1p16f : 1.0f);
    const qs_random_stream random = {call->random.key, call->random.first + (uint64_t)begin};
    qs__logarithmic_quantize(call->logarithmic, call->rounding, random, (qs__factors){&factor, 0, 1}, end - begin, call->bits == 16,
                             (const char *)call->src + begin * call->bits / 8, (int8_t *)call->dst + begin);
}

static void quantize_body(void *context, int64_t begin, int64_t end) {
    const array_call *call = context;
    if (call->logarithmic) {
        powers_quantize(call, begin, end);
        return;
    }
    while (begin < end) {
        uint64_t counter = (call->random.first + (uint64_t)begin) / 2;
        int64_t pairs = qs__draws_run(counter, (end - begin + 1) / 2);
        int64_t count = 2 * pairs < end - begin ? 2 * pairs : end - begin;
        qs__draws draws = qs__draws_at(call->random, counter);
        if (call->bits == 16) {
            call->kernels->quantize_bf16(call->rounding, draws, call->range, count, (const uint16_t *)call->src + begin,
                                         (int8_t *)call->dst + begin);
        } else {
            call->kernels->quantize(call->rounding, draws, call->range, count, (const float *)call->src + begin,
                                    (int8_t *)call->dst + begin);
        }
        begin += count;
    }
}

static void quantize(const qs_format *format, qs_rounding rounding, qs_random_stream random, float step, int bits, int64_t count,
                     const void *src, int8_t *dst) {
    assert(format->kind == QS_KIND_INTEGER && isfinite(step) && step >= smallest_step);
    assert(rounding != QS_STOCHASTIC || random.first % 2 == 0);
    array_call call = {.rounding = rounding, .random = random, .bits = bits, .src = src, .dst = dst};
    call.range = (qs__fixed_range){1.0f / step, (float)qs_format_lowest(format), (float)format->max};
    call.logarithmic = format->is_logarithmic ? format : NULL;
    run(&call, count, quantize_body);
}

void qs_quantize_array(const qs_format *format, qs_rounding rounding, qs_random_stream random, float step, int64_t count, const float *src,
                       int8_t *dst) {
    quantize(format, rounding, random, step, 32, count, src, dst);
}

void qs_quantize_bf16_array(const qs_format *format, qs_rounding rounding, qs_random_stream random, float step, int64_t count,
                            const uint16_t *src, int8_t *dst) {
    quantize(format, rounding, random, step, 16, count, src, dst);
}

static void dequantize_body(void *context, int64_t begin, int64_t end) {
    const array_call *call = context;
    call->kernels->dequantize(call->step, end - begin, (const int8_t *)call->src + begin, (float *)call->dst + begin);
}

static void dequantize_bf16_body(void *context, int64_t begin, int64_t end) {
    const array_call *call = context;
    call->kernels->dequantize_bf16(call->step, end - begin, (const int8_t *)call->src + begin, (uint16_t *)call->dst + begin);
}

void qs_dequantize_array(float step, int64_t count, const int8_t *src, float *dst) {
    array_call call = {.step = step, .src = src, .dst = dst};
    run(&call, count, dequantize_body);
}

void qs_dequantize_bf16_array(float step, int64_t count, const int8_t *src, uint16_t *dst) {
    array_call call = {.step = step, .src = src, .dst = dst};
    run(&call, count, dequantize_bf16_body);
}
