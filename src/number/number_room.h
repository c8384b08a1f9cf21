// SPDX-License-Identifier: Apache-2.0
/* number, inside: what the files of this room share. A float format becomes a plan of constants in terms of fp32 bits; the kernels of
 * one instruction set form a table; the public array functions split the work and call through the table in use. */
#ifndef QSYNC_NUMBER_ROOM_H
#define QSYNC_NUMBER_ROOM_H

#include "qsync/number.h"

#include <string.h>

/* ---- Formats ---- */

/* A family parses names of one shape. `claims` tells whether a name has that shape at all, so that the message of a bad parameter comes
 * from the family that it was meant for. `name` lists the plain names of the family (NULL past the end). */
typedef struct qs__format_family {
    bool (*claims)(const char *name);
    qs_status (*parse)(const char *name, qs_format *out);
    const char *(*name)(size_t index);
} qs__format_family;

/* Families of integers: is the name the prefix and a number or a bracket; the number of bits behind the prefix, 0 when there is no such. */
enum { QS_INTEGER_LEAST_BITS = 2 };
bool qs__family_claims(const char *name, const char *prefix);
int qs__family_bits(const char *text, int highest);

#define QS_FORMAT(name, specials, exponent_bits, mantissa_bits, bits)
#define QS_FORMAT_FAMILY(name, syntax) extern const qs__format_family qs__format_family_##name;
#include "formats.def"
#undef QS_FORMAT
#undef QS_FORMAT_FAMILY

/* Fills everything but the name; QS_USAGE when values would leave fp32's range. */
qs_status qs__format_fill_float(qs_specials specials, int exponent_bits, int mantissa_bits, int bias, qs_format *out);
/* Biased fp32 exponent field of min_normal: 1 ... 254. */
int qs__format_min_field(const qs_format *format);

/* Storage is wider than the value: its fp32, the low mantissa bits 0 (tf32). */
static inline bool qs__format_is_padded(const qs_format *format) {
    return format->kind == QS_KIND_FLOAT && format->bits > 1 + format->exponent_bits + format->mantissa_bits;
}

static inline uint32_t qs__bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float qs__float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- Packed storage of odd widths ---- */

/* Writes / reads `count` codes of `bits` bits each, the first in the lowest bits, as one little-endian string of bits. */
void qs__codes_pack(int bits, int64_t count, const uint32_t *codes, uint8_t *dst);
void qs__codes_unpack(int bits, int64_t count, const uint8_t *src, uint32_t *codes);

/* ---- Kernels of one instruction set ---- */

/* A float format in terms of fp32 bits. */
typedef struct qs__float_plan {
    int32_t shift;          /* 23 - mantissa bits: fp32 mantissa bits that are dropped */
    int32_t min_field;      /* fp32 exponent field of min_normal */
    int32_t min_bits;       /* bits of min_normal */
    int32_t max_bits;       /* bits of max */
    int32_t mantissa_bits;  /* m */
    int32_t magnitude_bits; /* e + m */
    int32_t special_code;   /* codes from here on are not numbers; INT32_MAX when all are */
    int32_t infinity_code;  /* what infinities are stored as, and NaNs */
    int32_t nan_code;
    float step; /* min_subnormal */
    qs_specials specials;
    bool bfloat, half; /* bf16 and fp16: kernels of their own */
} qs__float_plan;

qs__float_plan qs__float_plan_of(const qs_format *format);

/* Bits of the magnitudes that replace what passed max: finite values by their sign, infinities, NaNs. */
typedef struct qs__past_max {
    int32_t positive, negative, infinity, nan;
} qs__past_max;

/* A rounding of floats: how, and what the kernels need to know of it. */
typedef struct qs__float_rounding {
    qs__float_plan plan;
    qs_rounding rounding;
    int32_t dropped;          /* the mantissa bits of fp32 that fall away */
    int32_t half;             /* nearest-even: added to a magnitude, with the last bit that stays where that is in `odd` */
    int32_t odd;              /* 1, or 0 where the last bit is always set (no mantissa) or nothing falls away */
    int32_t small_bits;       /* magnitudes below are rounded as multiples of `step`; 0, and no step: the format ends where fp32 does */
    float step, inverse[2];   /* the product of the latter is 1/step, which alone may lie beyond fp32 */
    qs__past_max value, code; /* fp32 bits and storage codes, without sign */
    bool fast;                /* codes only, nothing is counted, no policy of its own: the kernels of bf16 and fp16 will do */
} qs__float_rounding;

qs__float_rounding qs__float_rounding_of(const qs_format *format, qs_rounding rounding, qs_overflow overflow);

/* Draw i of a run: hash of the key halves and counter + i. */
typedef struct qs__draws {
    uint32_t key_low, key_high, counter;
} qs__draws;

/* Codes are clamp(round(x · inverse), lowest, highest). */
typedef struct qs__fixed_range {
    float inverse, lowest, highest;
} qs__fixed_range;

enum { QS_NUMBER_PIECE = 4096 }; /* elements of one partial sum */
enum { QS__POWERS = 512 };       /* even */

static inline qs__draws qs__draws_at(qs_random_stream random, uint64_t counter) {
    const uint64_t key = qs_random_key_for(random.key, counter);
    return (qs__draws){.key_low = (uint32_t)key, .key_high = (uint32_t)(key >> 32), .counter = (uint32_t)counter};
}

/* How many of `count` draws from `counter` on share the high half of their counters, which is in the key of a kernel's run. */
static inline int64_t qs__draws_run(uint64_t counter, int64_t count) {
    const int64_t left = (int64_t)((UINT64_C(1) << 32) - (uint32_t)counter);
    return count < left ? count : left;
}

/* s_g of a channel. */
float qs__group_step(const qs_shift_codes *codes, int64_t channel);

/* Parameters of columns of a matrix that is read in memory order: element i has those at (i + start) mod period. Tables have
 * QS__COLUMNS_SLACK entries more, which go on as the period does. */
enum { QS__COLUMNS_SLACK = 32 };
typedef struct qs__columns {
    int64_t period;        /* QS__COLUMNS_SLACK at least */
    const float *factor;   /* 1/step of quantization, × 2^16 where it is stochastic; step of dequantization */
    const float *offset;   /* NULL: zeros */
    const uint8_t *lift;   /* NULL: zeros */
    float lowest, highest; /* codes, × 2^16 likewise */
} qs__columns;

/* `round` writes fp32 values to dst, codes of `width` bytes (1, 2 or 4) to codes, or both: one of them may be NULL, dst may be src.
 * Sums take at most QS_NUMBER_PIECE elements. Absolute maxima are returned as fp32 bits, minima and maxima as keys that order like the
 * values do (qs__key_value). */
typedef struct qs__kernels {
    const char *name;
    qs_rounding_counts (*round)(const qs__float_rounding *how, qs__draws draws, int64_t count, const float *src, float *dst, int width,
                                void *codes);
    void (*widen)(const qs__float_plan *plan, int width, int64_t count, const void *src, float *dst);
    void (*quantize)(qs_rounding rounding, qs__draws draws, qs__fixed_range range, int64_t count, const float *src, int8_t *dst);
    void (*quantize_bf16)(qs_rounding rounding, qs__draws draws, qs__fixed_range range, int64_t count, const uint16_t *src, int8_t *dst);
    void (*dequantize)(float step, int64_t count, const int8_t *src, float *dst);
    void (*dequantize_bf16)(float step, int64_t count, const int8_t *src, uint16_t *dst);
    int32_t (*absmax)(int64_t count, const float *src);
    int32_t (*absmax_bf16)(int64_t count, const uint16_t *src);
    void (*minmax)(int64_t count, const float *src, int32_t *minimum, int32_t *maximum);
    /* Columns: src is fp32, or bf16 storage. Codes: element 0 has parameters `start`, and the second half of its draw where `odd`. */
    void (*quantize_columns)(const qs__columns *columns, qs_rounding rounding, qs__draws draws, bool odd, int64_t start, int64_t count,
                             bool bfloat, const void *src, int8_t *dst);
    void (*dequantize_columns)(const qs__columns *columns, int64_t start, int64_t count, const int8_t *src, float *dst);
    /* Raises high[c], and lowers low[c] where it is not NULL, over rows `stride` elements apart: bits of magnitudes where low is NULL, else
     * keys. The tables have QS__COLUMNS_SLACK entries more, with any contents. */
    void (*column_extremes)(int64_t rows, int64_t stride, int64_t columns, bool bfloat, const void *src, int32_t *low, int32_t *high);
    /* Multiples of the block; `scale` behind the sums. A butterfly leaves the sum in `upper`, the difference in `lower`. */
    void (*hadamard)(int block, float scale, int64_t count, float *values);
    void (*butterfly)(float scale, int64_t count, float *upper, float *lower);
    double (*norm2)(int64_t count, const float *src);
    double (*variance_fixed)(float step, float limit, int64_t count, const float *src);
    double (*variance_float)(const qs__float_plan *plan, int64_t count, const float *src);
    /* Errors of codes that end at most · down, of shares of a range, each in whole numbers of its unit. */
    int64_t (*clip_errors)(int64_t count, const float *share, const float *unit, float up, float down, float most);
    /* At most QS__POWERS codes ±2^k of values in steps, × 2^16 where rounding is stochastic, as `most` is; element 0 takes the second half
     * of its draw where `odd`. */
    void (*quantize_powers)(qs_rounding rounding, qs__draws draws, bool odd, int64_t count, float most, const float *scaled, int8_t *dst);
} qs__kernels;

extern const qs__kernels qs__kernels_portable, qs__kernels_avx2, qs__kernels_avx512;

/* The table in use. */
const qs__kernels *qs__kernels_get(void);

/* ---- Powers of two (logarithmic.c) ---- */

/* Element i is multiplied by factor[(start + i) mod period]: 1/step, × 2^16 where rounding is stochastic. */
typedef struct qs__factors {
    const float *factor;
    int64_t start, period;
} qs__factors;
/* As quantize_columns without offsets and lifts: draws by position, two in one hash. */
void qs__logarithmic_quantize(const qs_format *format, qs_rounding rounding, qs_random_stream random, qs__factors factors, int64_t count,
                              bool bfloat, const void *src, int8_t *dst);

/* fp32 bits as a signed integer that orders like the values (negative NaN lowest, positive NaN highest), and back: its own inverse. */
static inline int32_t qs__key_value(int32_t bits) {
    return bits ^ ((bits >> 31) & INT32_MAX);
}

/* ---- Adders (adder.c, adder_lanes.c) ---- */

/* One loop of qs_narrow_lanes. */
typedef void (*qs__adder_lanes)(int bits, int64_t count, const double *addends, double *sums, const uint64_t *keys, uint32_t counter);
#define QS_ADDER(name, text, summary) \
    void qs__adder_lanes_##name(int bits, int64_t count, const double *addends, double *sums, const uint64_t *keys, uint32_t counter);
#include "adders.def"
#undef QS_ADDER

#endif
