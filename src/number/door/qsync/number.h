// SPDX-License-Identifier: Apache-2.0
/* number: formats of numbers, rounding, quantizers, packing and the statistics of arrays.
 *
 * A format is data: a name is parsed into a descriptor. Families live one per file (formats.def): `fp(e,m,bias)`, named IEEE-like
 * formats (fp32, tf32, bf16, fp16, e5m2), `fn` formats (e4m3fn), `int(b)` (int8 = int(8)), `uint(b)` and `log(b)` (powers of two).
 * Descriptors are interned: equal
 * formats are the same pointer, so `==` compares formats. Nobody outside this room switches over formats: ask the descriptor.
 *
 * fp(e,m,bias) takes e of 1 to 8, m of 0 to 23 and any bias that keeps normal values inside fp32's (fp(8,m): the last binade, above fp32,
 * decodes to infinity and is never produced).
 *
 * Values are carried as fp32 in memory; *storage* is packed (qs_encode / qs_decode). Array functions are vectorised and pick their
 * instruction set at run time under a ceiling (qs_number_isa_set); every variant gives the same bits. Arrays may be unaligned. */
#ifndef QSYNC_NUMBER_H
#define QSYNC_NUMBER_H

#include "qsync/base.h"

/* ---- Formats ------------------------------------------------------------------------------------------------------- */

typedef enum qs_format_kind { QS_KIND_FLOAT, QS_KIND_INTEGER } qs_format_kind;
/* What the top exponent codes mean: `none` all codes are numbers (saturates); `ieee` infinities and NaNs (nearest overflows to
 * infinity); `fn` no infinity and one NaN code (saturates). */
typedef enum qs_specials { QS_SPECIALS_NONE, QS_SPECIALS_IEEE, QS_SPECIALS_FN } qs_specials;

typedef struct qs_format {
    char name[24]; /* canonical: "fp32", "bf16", "fp(4,3,4)", "int8" */
    qs_format_kind kind;
    int bits;          /* storage bits of one value; tf32: 32, those of the value in fp32, of which the low 13 are 0 */
    int exponent_bits; /* floats; 0 for integers */
    int mantissa_bits; /* explicit; floats */
    int bias;          /* exponent bias beyond the IEEE one: a value is scaled by 2^-bias */
    qs_specials specials;
    bool is_unsigned;     /* integers of values that cannot be negative, from 0 to 2^b - 1 */
    bool is_logarithmic;  /* integers that are 0 or ± a power of two, of 2^(b-1) - 1 powers */
    double max;           /* largest finite magnitude that fp32 carries; integers: 2^(b-1) - 1, used symmetrically, unsigned 2^b - 1,
                             powers of two 2^(2^(b-1) - 2) */
    double min_normal;    /* floats */
    double min_subnormal; /* floats */
    double epsilon;       /* 2^-mantissa_bits: the indicator's ε; 0 for integers */
} qs_format;

/* Descriptor for a name; QS_USAGE with the list of known names and families when there is none. Never freed. */
QS_API qs_status qs_format_find(const char *name, const qs_format **out);
/* The same for names that are known to exist ("fp32"); asserts. */
QS_API const qs_format *qs_format_of(const char *name);
/* Bytes that `count` values occupy in storage: floats of any width are one string of bits, the first value in the lowest bits, rounded up
 * to whole bytes at its end; integers keep one byte each, as the quantization functions store them. */
QS_API size_t qs_format_bytes(const qs_format *format, int64_t count);
/* The lowest value: -max, or 0. */
QS_API double qs_format_lowest(const qs_format *format);
/* True when a and b can be ordered by precision and a is at least as wide: floats by mantissa then exponent; any float is wider than any
 * integer. */
QS_API bool qs_format_at_least(const qs_format *a, const qs_format *b);
/* Names of the plainly named formats, for lists; NULL past the end. */
QS_API const char *qs_format_name_at(size_t index);
/* How the names of the families are written ("fp(e,m,bias)"), for lists; NULL past the end. */
QS_API const char *qs_format_family_syntax_at(size_t index);
/* "none", "ieee", "fn". */
QS_API const char *qs_specials_name(qs_specials specials);

/* ---- Rounding one value --------------------------------------------------------------------------------------------- */

#define QS_ROUNDING_LIST(X)            \
    X(QS_NEAREST_EVEN, "nearest-even") \
    X(QS_NEAREST_AWAY, "nearest-away") \
    X(QS_STOCHASTIC, "stochastic")     \
    X(QS_FLOOR, "floor")               \
    X(QS_TOWARD_ZERO, "toward-zero")
#define QS_ROUNDING_ENUM(id, text) id,
typedef enum qs_rounding { QS_ROUNDING_LIST(QS_ROUNDING_ENUM) QS_ROUNDING_COUNT } qs_rounding;
#undef QS_ROUNDING_ENUM

QS_API qs_status qs_rounding_find(const char *name, qs_rounding *out);
QS_API const char *qs_rounding_name(qs_rounding rounding);

/* What becomes of values whose rounded magnitude, on a grid without upper end, exceeds max (docs/method.md §2.3: tensors of the
 * forward pass saturate, those of the backward pass become infinite so that the loss scaler sees it).
 *   default   what the format's specials say: `ieee` formats go to infinity unless the direction of the rounding forbids it, and keep
 *             infinities; the others saturate
 *   saturate  ±max in every format and rounding, infinities too
 *   inf       ±infinity in every float format and rounding; the value is carried in fp32, also where the format has no code for it
 * NaN stays NaN, quiet, with its sign; but in formats without NaN codes only under `inf`: else it becomes ±max. */
#define QS_OVERFLOW_LIST(X)             \
    X(QS_OVERFLOW_DEFAULT, "default")   \
    X(QS_OVERFLOW_SATURATE, "saturate") \
    X(QS_OVERFLOW_INFINITY, "inf")
#define QS_OVERFLOW_ENUM(id, text) id,
typedef enum qs_overflow { QS_OVERFLOW_LIST(QS_OVERFLOW_ENUM) QS_OVERFLOW_COUNT } qs_overflow;
#undef QS_OVERFLOW_ENUM

QS_API qs_status qs_overflow_find(const char *name, qs_overflow *out);
QS_API const char *qs_overflow_name(qs_overflow overflow);

/* Rounds x to a value of a float format (exact reference for every e <= 8, m <= 23). `random` (32 uniform bits) is used by
 * QS_STOCHASTIC only: the magnitude goes up with a probability equal to the first 31 bits of its fraction. *overflowed (may be NULL)
 * becomes true when the rounded magnitude exceeded max; infinities count, and NaN in formats without. For integer formats: rounds to an
 * integer in [lowest, max] whatever `overflow` says; NaN gives max; the stochastic draw is the upper 16 bits of `random`. */
QS_API float qs_round_value(const qs_format *format, qs_rounding rounding, qs_overflow overflow, float x, uint32_t random,
                            bool *overflowed);
/* Storage code of a value that the format holds exactly, and back. Codes of 32 bits at most, in the low bits. What has no code takes the
 * nearest to it: infinity that of NaN (`fn`), infinity and NaN the largest code (`none`). */
QS_API uint32_t qs_encode_value(const qs_format *format, float value);
QS_API float qs_decode_value(const qs_format *format, uint32_t code);

/* ---- Arrays: rounding and conversion ---------------------------------------------------------------------------------- */

/* Keys the random stream of an array operation: draw i of the array uses counter first + i. */
typedef struct qs_random_stream {
    uint64_t key;
    uint64_t first;
} qs_random_stream;

/* What a rounding did: elements that overflowed (as in qs_round_value), and those that were not zero and became zero. */
typedef struct qs_rounding_counts {
    int64_t overflows, underflows;
} qs_rounding_counts;

/* dst[i] = src[i] rounded to a float format, kept as fp32; dst may be src. */
QS_API qs_rounding_counts qs_round_array(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random,
                                         int64_t count, const float *src, float *dst);
/* The same, and in the same pass the packed storage of the rounded values (qs_format_bytes), as qs_convert_from_fp32 writes it. `packed`
 * must not overlap the others. */
QS_API qs_rounding_counts qs_round_pack_array(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random,
                                              int64_t count, const float *src, float *dst, void *packed);
/* fp32 <-> packed storage of a float format. Fast paths: bf16, fp16 (nearest-even and stochastic), fp32 (copy). */
QS_API void qs_convert_from_fp32(const qs_format *format, qs_rounding rounding, qs_overflow overflow, qs_random_stream random,
                                 int64_t count, const float *src, void *dst);
QS_API void qs_convert_to_fp32(const qs_format *format, int64_t count, const void *src, float *dst);

/* ---- Arrays: fixed-point quantization ------------------------------------------------------------------------------------ */
/* Symmetric: q = step, code = clamp(round(x / q), ±(2^(b-1) - 1)), step = absmax / (2^(b-1) - 1) (docs/method.md eq. (2.3)); unsigned:
 * clamp(round(x / q), 0, 2^b - 1), step = absmax / (2^b - 1), what is negative becomes 0. A zero or non-finite absmax gives step 1 so that
 * zeros stay zeros, and 2^-100 is the smallest step. The division is a multiplication by 1/q computed once in fp32. Powers of two
 * (log4) are codes of the same kind, those between which a value lies being 2^k apart (docs/method.md §9.7). */

/* Step for an absolute maximum. */
QS_API float qs_step_of_absmax(const qs_format *format, float absmax);
/* codes (one int8 each, any b <= 8) of src with one step (2^-100 at least). Elements past the range and infinities clamp to its ends, NaN
 * to max. With QS_STOCHASTIC two 16-bit draws come from one hash: element i uses half (i & 1) of draw (random.first + i) / 2, that is
 * qs_round_value with random = half << 16; random.first must be even. */
QS_API void qs_quantize_array(const qs_format *format, qs_rounding rounding, qs_random_stream random, float step, int64_t count,
                              const float *src, int8_t *dst);
/* The same from bf16 storage. */
QS_API void qs_quantize_bf16_array(const qs_format *format, qs_rounding rounding, qs_random_stream random, float step, int64_t count,
                                   const uint16_t *src, int8_t *dst);
/* dst = code × step, to fp32 or bf16 (nearest-even). */
QS_API void qs_dequantize_array(float step, int64_t count, const int8_t *src, float *dst);
QS_API void qs_dequantize_bf16_array(float step, int64_t count, const int8_t *src, uint16_t *dst);

/* ---- Arrays: the range of least squared error ------------------------------------------------------------------------------- */
/* Codes that end at a ratio of the largest magnitude, 1 or less, are finer and clip what lies beyond: of QS_CLIPS ratios, four to an
 * octave, the one is chosen whose codes to nearest-even have the least sum of squared errors, the larger of two that have the same
 * (docs/method.md eq. (9.13)). Errors are added as whole numbers of 2^-31 of the squared range, exactly, so that a choice depends on values
 * alone. */
enum { QS_CLIPS = 12 };
#define QS_LEAST_CLIPPED 0x1p-80f /* of smaller ranges, and of those that are not finite, the ratio is 1 */
QS_API float qs_clip_ratio(int choice);
QS_API int qs_clip_choose(const uint64_t error[QS_CLIPS]);

typedef struct qs_clip_values {
    const qs_format *format; /* of the codes: int(b), uint(b) */
    bool bfloat;             /* src is bf16 storage, else fp32 */
    const void *src;
    int64_t count, stride; /* from one element to the next */
    const uint8_t *group;  /* (channels) of the element's channel, i mod channels: its range is 2^-group of the largest; NULL: 0 */
    int64_t channels;
} qs_clip_values;
/* range: the largest magnitude. */
QS_API float qs_clip_find(const qs_clip_values *values, float range);

/* ---- Quantizers by name -------------------------------------------------------------------------------------------------- */
/* "int8:channel(out):stochastic", "bf16", "fp(5,2,0):tensor:nearest-even:overflow=inf", "int4:shift4(in)": the format, behind it in any
 * order and each at most once granularity (default tensor), rounding (default: nearest-even for floats, stochastic for integers) and, for
 * floats, overflow (default: what the format's specials say). A policy that says what the default says anyway is the default, so that
 * equal quantizers have equal fields. shiftG(in) and shiftG(out), integers only: G groups of input or
 * output channels whose steps halve (ShiftQuant, below); "shiftG" is shiftG(in). hadamardB(in), hadamardB(out), hadamardB(samples),
 * integers only: one step, of values transformed before in blocks of at most B neighbouring channels or samples (qs_hadamard_array);
 * "hadamardB" is hadamardB(in), "hadamard" hadamard16. Options of integers: "mse", with nearest-even alone, which it makes the
 * default, and "draw2", with stochastic rounding alone. */
/* In place of the format a block format (qsync/blocks.h): "mxfp8", "mxfp4:along(samples):stochastic". Its values are kept, and multiplied,
 * in its container; blocks lie along(in), which is the default, along(out) or along(samples), as the sum of the product runs. */
typedef enum qs_granularity { QS_PER_TENSOR, QS_PER_CHANNEL, QS_SHIFT_GROUPS, QS_HADAMARD, QS_BLOCKS } qs_granularity;
enum { QS_MOST_SHIFT_GROUPS = 8, QS_MOST_HADAMARD = 64 };
typedef struct qs_quantizer {
    const qs_format *format;
    const struct qs_block_format *blocks; /* QS_BLOCKS: `format` is its container; else NULL */
    qs_granularity granularity;
    bool channel_is_input; /* QS_PER_CHANNEL, QS_SHIFT_GROUPS, QS_HADAMARD, QS_BLOCKS: (in) instead of (out) */
    bool over_samples;     /* QS_HADAMARD, QS_BLOCKS: (samples) */
    int shift_groups;      /* QS_SHIFT_GROUPS: 1 ... QS_MOST_SHIFT_GROUPS; else 0 */
    int hadamard;          /* QS_HADAMARD: the largest block, a power of two from 2 to QS_MOST_HADAMARD; else 0 */
    qs_rounding rounding;
    qs_overflow overflow;
    bool least_squares; /* "mse": the range that the largest magnitude gives is narrowed to the one of least squared error (eq. (9.13)) */
    bool second_draw;   /* "draw2": draws of its own, where another operand made of the same values would have the same ones */
} qs_quantizer;
QS_API qs_status qs_quantizer_find(const char *text, qs_quantizer *out);
/* Canonical text into a caller buffer of at least 64 bytes; returns it. */
QS_API const char *qs_quantizer_text(const qs_quantizer *quantizer, char *buffer);

/* ---- Arrays: channels in groups whose steps halve (ShiftQuant, docs/method.md §9.1) ---------------------------------------- */
/* r_j is the range of channel j, r_max the largest of them. Group g < G - 1 holds the channels with r_max 2^-(g+1) < r_j <= r_max 2^-g,
 * group G - 1 all narrower ones; the step of group g is s_g = s_0 2^-g, so that integer sums over channels of unlike groups need shifts
 * only (eqs. (9.1) and (9.2)). Two passes over the data: qs_channel_ranges, then qs_shift_quantize (qs_shift_groups between them sees the
 * ranges only). */

/* Where channels lie in memory: element i of channel c in block o is at (o × channels + c) × inner + i. Activations, and weights by input
 * channel, are channels-last: inner 1. Weights by output channel: outer 1. */
typedef struct qs_channel_layout {
    int64_t outer, channels, inner;
} qs_channel_layout;

/* With a zero point codes are counted from an offset of each channel, t = s_g × code + offset[c]: its least value where the format is
 * unsigned, the middle of its values where it is signed. A code 0 is then no longer the value 0, which convolutions with padding need.
 * Without one: r_j = max |t|, and s_0 = r_max / max of the format. With one: r_j = max t - min t, s_0 = r_max / (max - lowest), so the
 * range has 2^4 - 1 steps in uint4, and 254 in int8. */

/* First pass: range[c], and offset[c] for codes with a zero point (NULL: without). A NaN or an infinity makes its channel's range
 * non-finite. */
QS_API void qs_channel_ranges(const qs_format *format, qs_channel_layout layout, const float *src, float *range, float *offset);
QS_API void qs_channel_ranges_bf16(const qs_format *format, qs_channel_layout layout, const uint16_t *src, float *range, float *offset);
/* Group of each channel from the ranges; returns s_0. Where r_max is 0 or not finite, s_0 is 1 and all groups are 0; no group's step is
 * below 2^-100. groups: 1 ... QS_MOST_SHIFT_GROUPS. */
QS_API float qs_shift_groups(const qs_format *format, bool zero_point, int groups, int64_t channels, const float *range, uint8_t *group);

/* How a tensor is written in codes. */
typedef struct qs_shift_codes {
    const qs_format *format; /* int2 ... int8, uint2 ... uint7 */
    float step;              /* s_0 */
    const uint8_t *group;    /* [channels] */
    const float *offset;     /* [channels] with a zero point, else NULL */
    const uint8_t *lift;     /* [channels]: codes are stored shifted left by so many bits, as the operand of a product (they must fit an
                                int8); NULL: as they are */
} qs_shift_codes;
/* Second pass: codes, one int8 each, in the layout of src. Draws as in qs_quantize_array by element in memory order, which it equals in
 * one group without zero point. NaN becomes the largest code. */
QS_API void qs_shift_quantize(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                              const float *src, int8_t *dst);
QS_API void qs_shift_quantize_bf16(const qs_shift_codes *codes, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                                   const uint16_t *src, int8_t *dst);
/* And back: code × s_g (+ offset); codes must not be lifted. */
QS_API void qs_shift_dequantize(const qs_shift_codes *codes, qs_channel_layout layout, const int8_t *src, float *dst);

/* The same with any step[c] for each channel: weights by input channel, which are the fast axis, or groups that are no shifts. */
QS_API void qs_quantize_channels(const qs_format *format, qs_rounding rounding, qs_random_stream random, qs_channel_layout layout,
                                 const float *step, const float *src, int8_t *dst);

/* A step for each row, from the row's own absmax: weights by output channel, whose rows are far longer than the vector of steps. One
 * reading of memory finds and uses it. */
typedef struct qs_row_codes {
    const qs_format *format;
    qs_rounding rounding;
    qs_random_stream random; /* of the first row */
    uint64_t stride;         /* counters between the first draws of two rows */
    int64_t rows, per_row;
    bool least_squares; /* rows narrow their ranges (qs_clip_find) */
    int64_t columns;    /* rows are [per_row / columns][columns]; 0: column_absmax is not wanted */
} qs_row_codes;
/* Writes step[rows], the codes and, unless it is NULL, column_absmax[columns]: the largest magnitude in each column of all rows, what
 * qs_channel_ranges gives of layout {rows × per_row / columns, columns, 1}. Codes are those of qs_quantize_array row by row. */
QS_API void qs_quantize_rows(const qs_row_codes *codes, const float *src, float *step, float *column_absmax, int8_t *dst);

/* Exact variance of stochastic rounding with a step of its own for each channel: Σ q_c² f (1 - f), f the fractional part of
 * (x - offset_c)/q_c; offset NULL: zeros. Elements that saturate and those that are not finite add nothing. Any grouping can be judged
 * by it: steps y_g / limit of groups, of channels, of one for all. */
QS_API double qs_channel_variance(const qs_format *format, qs_channel_layout layout, const float *step, const float *offset,
                                  const float *src);
/* For comparison, docs/method.md eq. (9.7): the partition of the channels into at most `groups` groups of neighbouring ranges whose
 * thresholds y_g (the largest range of a group, decreasing; 0 for what is unused) are optimal, by dynamic programming. Objective:
 * Σ_g Σ_{j in g} y_g / r_j (the paper's; channels of range 0 count nothing) or Σ_g n_g y_g² (variance). Ranges must be finite. */
typedef enum qs_group_objective { QS_RATIO_OF_RANGES, QS_SQUARED_RANGES } qs_group_objective;
QS_API qs_status qs_optimal_groups(qs_group_objective objective, int groups, int64_t channels, const float *range, uint8_t *group,
                                   float *threshold);

/* ---- Arrays: Hadamard transform ------------------------------------------------------------------------------------------- */
/* Blocks of B neighbours are multiplied by H / sqrt(B): H[i][j] is -1 where i and j share an odd number of set bits, else 1 (Sylvester's
 * order). The matrix is symmetric and orthogonal, hence its own inverse, and a product whose two factors are transformed along its inner
 * dimension is the product as it was; but a value far from the others is spread over its block before one step is chosen for all of them
 * (Xi et al., Training Transformers with 4-bit Integers, 2023). All in fp32: sums and differences over distances 1, 2, 4 ..., then one
 * multiplication, each rounded. By the calling thread, in place. */

/* The largest power of two up to `most` that divides the extent: the block that an axis takes; 1: none. */
QS_API int qs_hadamard_block(int most, int64_t extent);
/* Along the fast axis: `count` values, a multiple of the block. */
QS_API void qs_hadamard_array(int block, int64_t count, float *values);
/* Along a slow one: `block` rows of `count` values each, one behind the other. */
QS_API void qs_hadamard_rows(int block, int64_t count, float *values);

/* ---- Arrays: statistics ------------------------------------------------------------------------------------------------ */

/* Two-stage min-max: vector reductions over pieces, then over pieces; any split gives the same answer. NaN or infinity anywhere gives a
 * non-finite result. count 0 gives 0. */
QS_API float qs_absmax_array(int64_t count, const float *src);
QS_API float qs_absmax_bf16_array(int64_t count, const uint16_t *src);
QS_API void qs_minmax_array(int64_t count, const float *src, float *minimum, float *maximum);
/* Sum of squares with fixed pieces of 4096 elements summed in double: independent of threads and instruction set. */
QS_API double qs_norm2_array(int64_t count, const float *src);
/* Exact variance of stochastic rounding: Σ q² f (1 - f), f the fractional part of x/q. For a float format (step ignored): q of element i is
 * max(2^e_i, min_normal) × epsilon. Elements that saturate and those that are not finite are no draws and add nothing. */
QS_API double qs_stochastic_variance_array(const qs_format *format, float step, int64_t count, const float *src);
/* What one pass over an array gives: the figures of the functions above, and how many elements lie in each binary exponent: exponents[i]
 * of those with floor(log2 |x|) = i + QS_LOWEST_EXPONENT, subnormal ones in the first; zeros and what is not finite in none. */
enum { QS_EXPONENTS = 255, QS_LOWEST_EXPONENT = -127 };
typedef struct qs_summary {
    float minimum, maximum;
    double norm2, variance_bf16, variance_fp16;
    int64_t exponents[QS_EXPONENTS];
} qs_summary;
QS_API void qs_summary_array(int64_t count, const float *src, qs_summary *out);
/* e_t = floor(log2(absmax)) (docs/method.md §2.1); absmax 0 gives 0, a non-finite one 128. */
QS_API int qs_effective_exponent(float absmax);

/* ---- Instruction sets --------------------------------------------------------------------------------------------------- */

/* Caps the vector variants: "all" (default), "avx512_core_amx", "avx512_core_bf16", "avx512_core_vnni", "avx512_core", "avx2_vnni", "avx2",
 * "portable".
 * QS_USAGE lists the names; asking for more than the CPU has is fine. Call before the first array function. */
QS_API qs_status qs_number_isa_set(const char *name);
/* The variant in use: "portable", "avx2", "avx512". */
QS_API const char *qs_number_isa(void);
/* Names that qs_number_isa_set takes; NULL past the end. */
QS_API const char *qs_number_isa_name_at(size_t index);

/* ---- Narrow accumulators -------------------------------------------------------------------------------------------------- */

/* An accumulator FP(e, m) as hardware has it: every addition is rounded, by an adder that is named. One of these is what a GEMM adds in;
 * the functions below are its exact meaning, slow and scalar, for kernels to be compared with. */
enum { QS_WIDEST_ADDER = 30, QS_MOST_EXPONENT_BITS = 10, QS_LARGEST_CHUNK = 1 << 30 };

/* align-truncate: the operand of smaller magnitude loses its bits below the last place that the larger one has in the accumulator, what is
 * left is added, and behind a carry the lowest bit is lost too: the swamping that the formula of variance retention models. nearest-even
 * and toward-zero round the exact sum, once. stochastic rounds it up or down by chance: up where the part of a last place at stake and a
 * draw u sum up to 1, u = (d + 1/2) / 2^16 of 16 uniform bits d; accumulators of at most QS_WIDEST_GUARDED mantissa bits keep
 * QS_GUARDED_PLACES of the sum first, those of fp32, to nearest-even. Listed in adders.def. */
typedef struct qs_adder qs_adder;
enum { QS_WIDEST_GUARDED = 11, QS_GUARDED_PLACES = 23 };
QS_API size_t qs_adder_count(void);
QS_API const qs_adder *qs_adder_at(size_t index);           /* NULL behind the last */
QS_API const char *qs_adder_name(const qs_adder *adder);    /* "align-truncate" */
QS_API const char *qs_adder_summary(const qs_adder *adder); /* half a line */
/* QS_USAGE lists what there is. */
QS_API qs_status qs_adder_find(const char *name, const qs_adder **out);

/* Exponents as in IEEE formats with e bits, the highest kept free: largest value (2 - 2^-m) 2^bias with bias = 2^(e-1) - 1, least normal
 * value 2^(1 - bias), subnormal values below it. What is too large becomes the largest value; but an infinity or a NaN among the operands
 * gives a NaN, so that an overflow that happened before stays visible. */
typedef struct qs_narrow {
    const qs_adder *adder; /* NULL: no narrow accumulator, what the device has ("fp32") */
    int exponent_bits;     /* e: 2 .. QS_MOST_EXPONENT_BITS; 8 holds all that fp32 does */
    int mantissa_bits;     /* m: 1 .. QS_WIDEST_ADDER, without the leading one */
    int product_bits;      /* products are rounded to so many mantissa bits first, nearest-even, any exponent; 0: they are exact */
    int64_t chunk; /* 0: one after the other; else sums of so many, the last one shorter, which are added in turn by the same adder */
} qs_narrow;
/* "fp(6,9)/chunk64/align-truncate", "fp(8,10)/product(5)/nearest-even", or "fp32": fp(e,m), then /chunkN and /product(p) where they are
 * not 0, then the adder. One accumulator has one text. QS_USAGE says what is wrong. */
QS_API qs_status qs_narrow_find(const char *text, qs_narrow *out);
/* The inverse; `text` holds QS_NARROW_TEXT bytes and is returned. */
#define QS_NARROW_TEXT 64
QS_API const char *qs_narrow_text(const qs_narrow *narrow, char *text);
QS_API bool qs_narrow_equal(const qs_narrow *a, const qs_narrow *b);
/* QS_USAGE names what is out of range; an adder is asked for. */
QS_API qs_status qs_narrow_check(const qs_narrow *narrow);
QS_API double qs_narrow_largest(const qs_narrow *narrow);

/* One addition. a and b need not be values of the accumulator, but are of at most 48 bits (a product of two floats). The upper 16 bits of
 * `random` are the draw of stochastic rounding. A checked `narrow` is assumed, here and below. */
QS_API double qs_narrow_add(const qs_narrow *narrow, double a, double b, uint32_t random);
/* To `bits` mantissa bits, nearest-even, any exponent; 0 bits: unchanged. */
QS_API double qs_product_round(double product, int bits);

/* Draws of a sum: addition j takes half j mod 2 (0: the lower 16 bits) of qs_random_bits(key, first + (j div 2) · stride). */
typedef struct qs_narrow_draws {
    uint64_t key, first, stride;
} qs_narrow_draws;
QS_API uint32_t qs_narrow_draw(const qs_narrow_draws *draws, int64_t addition); /* as qs_narrow_add takes it */
/* The number of the addition that puts the first chunk's sum into the total: `length` made even. */
QS_API int64_t qs_narrow_second_stage(int64_t length);
/* Σ x[i · x_step] y[i · y_step] over i = 0 .. length - 1, from 0, in this order and the chunks of `narrow`. Product i is put in by addition
 * i, the sum of chunk c by addition qs_narrow_second_stage(length) + c. A length of at most one chunk has no second stage. */
QS_API double qs_narrow_dot(const qs_narrow *narrow, int64_t length, const float *x, int64_t x_step, const float *y, int64_t y_step,
                            const qs_narrow_draws *draws);

/* QS_NARROW_LANES sums side by side, fast: sums[l] += addends[i][l] for i = 0 .. count - 1, addition i with the draw of
 * qs_random_hash(halves of keys[l], counter + i). Bits of qs_narrow_add with exponents that end nowhere: addends lie between 2^-66 and 2^6
 * in magnitude and are at most 2^31 in number. */
enum { QS_NARROW_LANES = 64 };
QS_API void qs_narrow_lanes(const qs_adder *adder, int mantissa_bits, int64_t count, const double *addends, double *sums,
                            const uint64_t *keys, uint32_t counter);

#endif
