// SPDX-License-Identifier: Apache-2.0
/* Codes of single values, and strings of codes whose width is not a whole number of bytes.
 * A float code is sign, exponent field, mantissa; an integer code is two's complement in the low bits, that of a power of two a sign and a
 * field that is 0 for 0. */
#include "number_room.h"

#include <assert.h>
#include <math.h>

enum { INFINITY_BITS = 0x7F800000, QUIET_BIT = 0x00400000 };

static uint32_t mask_of(int bits) {
    return bits == 32 ? UINT32_MAX : (1u << bits) - 1;
}

static uint32_t encode_magnitude(const qs__float_plan *plan, uint32_t magnitude) {
    if (magnitude > INFINITY_BITS) return (uint32_t)plan->nan_code;
    if (magnitude == INFINITY_BITS) return (uint32_t)plan->infinity_code;
    if (magnitude < (uint32_t)plan->min_bits) return (uint32_t)(qs__float_of(magnitude) / (double)plan->step);
    return (magnitude >> plan->shift) - ((uint32_t)(plan->min_field - 1) << plan->mantissa_bits);
}

static uint32_t decode_magnitude(const qs__float_plan *plan, uint32_t code) {
    if (code >= (uint32_t)plan->special_code) {
        if (plan->specials == QS_SPECIALS_NONE) return INFINITY_BITS;
        if (plan->specials == QS_SPECIALS_FN) return INFINITY_BITS | QUIET_BIT;
        uint32_t fraction = (code & mask_of(plan->mantissa_bits)) << plan->shift;
        /* Formats with fp32's exponent decode by a shift alone; the others quiet their NaNs as the hardware does for fp16. */
        return INFINITY_BITS | fraction | (fraction && plan->min_field != 1 ? QUIET_BIT : 0);
    }
    if (code >> plan->mantissa_bits == 0) return qs__bits_of((float)(code * (double)plan->step));
    return (code << plan->shift) + ((uint32_t)(plan->min_field - 1) << 23);
}

uint32_t qs_encode_value(const qs_format *format, float value) {
    if (format->kind == QS_KIND_INTEGER) {
        assert((double)value <= format->max && (double)value >= qs_format_lowest(format));
        if (format->is_logarithmic) { /* sign, exponent + 1, which is 0 for 0 */
            const uint32_t sign = (uint32_t)(value < 0) << (format->bits - 1);
            return value == 0 ? 0 : sign | (uint32_t)(ilogbf(value) + 1);
        }
        return (uint32_t)(int32_t)value & mask_of(format->bits);
    }
    uint32_t bits = qs__bits_of(value);
    if (qs__format_is_padded(format)) return bits;
    qs__float_plan plan = qs__float_plan_of(format);
    return encode_magnitude(&plan, bits & INT32_MAX) | (bits >> 31) << plan.magnitude_bits;
}

float qs_decode_value(const qs_format *format, uint32_t code) {
    code &= mask_of(format->bits);
    if (format->is_logarithmic) {
        const uint32_t exponent = code & mask_of(format->bits - 1);
        const float magnitude = exponent ? ldexpf(1, (int)exponent - 1) : 0;
        return code >> (format->bits - 1) ? -magnitude : magnitude;
    }
    if (format->kind == QS_KIND_INTEGER) {
        int32_t sign = format->is_unsigned ? 0 : 1 << (format->bits - 1);
        return (float)(((int32_t)code ^ sign) - sign);
    }
    if (qs__format_is_padded(format)) return qs__float_of(code);
    qs__float_plan plan = qs__float_plan_of(format);
    uint32_t magnitude = decode_magnitude(&plan, code & mask_of(plan.magnitude_bits));
    return qs__float_of(magnitude | (code >> plan.magnitude_bits) << 31);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error strings of bits are read and written as little-endian words
#endif

/* Bytes of a string of `count` codes. */
static int64_t string_bytes(int bits, int64_t count) {
    return (count * bits + 7) / 8;
}

/* Eight codes of up to 16 bits, which fill `bits` bytes, as two words: the codes' bits in order, zeros behind them. */
static void pack_eight(int bits, const uint32_t *codes, uint64_t word[2]) {
    uint64_t half[2];
    for (int h = 0; h < 2; h++) {
        const uint32_t *four = codes + 4 * h;
        uint64_t low = four[0] | (uint64_t)four[1] << bits;
        uint64_t high = four[2] | (uint64_t)four[3] << bits;
        half[h] = low | high << 2 * bits;
    }
    int filled = 4 * bits; /* 64 at 16 bits only, which are never packed here */
    word[0] = half[0] | half[1] << filled;
    word[1] = half[1] >> (64 - filled);
}

/* Eights are written as whole words, whose zeros the next ones overwrite, as long as they stay inside the string. */
static int64_t pack_eights(int bits, int64_t count, const uint32_t *codes, uint8_t *dst) {
    int64_t bytes = string_bytes(bits, count);
    int64_t done = 0;
    for (; done + 8 <= count && done / 8 * bits + 16 <= bytes; done += 8) {
        uint64_t word[2];
        pack_eight(bits, codes + done, word);
        memcpy(dst + done / 8 * bits, word, sizeof word);
    }
    return done;
}

void qs__codes_pack(int bits, int64_t count, const uint32_t *codes, uint8_t *dst) {
    uint64_t waiting = 0;
    int filled = 0;
    int64_t start = bits < 16 ? pack_eights(bits, count, codes, dst) : 0;
    dst += start / 8 * bits;
    for (int64_t i = start; i < count; i++) {
        waiting |= (uint64_t)codes[i] << filled;
        for (filled += bits; filled >= 8; filled -= 8) {
            *dst++ = (uint8_t)waiting;
            waiting >>= 8;
        }
    }
    if (filled) *dst = (uint8_t)waiting;
}

/* A code lies within the eight bytes from that of its first bit on, of which a string's end may cut some off. */
void qs__codes_unpack(int bits, int64_t count, const uint8_t *src, uint32_t *codes) {
    const uint64_t width = (uint64_t)bits, bytes = (uint64_t)string_bytes(bits, count);
    const uint64_t whole = bytes < 8 ? 0 : (bytes - 8) * 8 / width; /* codes that surely have all eight */
    const uint32_t mask = mask_of(bits);
    for (uint64_t i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, src + (i * width >> 3), sizeof word);
        codes[i] = (uint32_t)(word >> (i * width & 7)) & mask;
    }
    for (uint64_t i = whole; i < (uint64_t)count; i++) {
        uint64_t word = 0, first = i * width >> 3;
        memcpy(&word, src + first, bytes - first < 8 ? bytes - first : 8);
        codes[i] = (uint32_t)(word >> (i * width & 7)) & mask;
    }
}
