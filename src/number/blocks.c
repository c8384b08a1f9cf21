// SPDX-License-Identifier: Apache-2.0
/* Formats whose values share scales: names, scales of blocks, rounding of arrays. */
#include "number_room.h"

#include "qsync/blocks.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_BLOCK = 8, SCALE_BITS = 8, LEAST_EXPONENT = -127, MOST_EXPONENT = 127, PIECE = 4096 };

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- Names ---- */

static const struct {
    const char *name, *stands_for;
} usual[] = {{"mxfp8", "mx(e4m3,32)"},
             {"mxfp8-e5m2", "mx(e5m2,32)"},
             {"mxfp6", "mx(e2m3,32)"},
             {"mxfp6-e3m2", "mx(e3m2,32)"},
             {"mxfp4", "mx(e2m1,32)"},
             {"mxint8", "mx(int8,32)"},
             {"nvfp4", "mx(e2m1,16,e4m3,tensor)"}};

static const struct {
    const char *name, *format;
} elements[] = {{"e4m3", "e4m3fn"}, {"e2m3", "fp(2,3,0)"}, {"e3m2", "fp(3,2,0)"}, {"e2m1", "fp(2,1,0)"}};

static const char *const scale_roundings[] = {"floor", "up", "nearest"};
static const char form[] =
    "the form is mx(ELEMENT,BLOCK), mx(ELEMENT,BLOCK,e8m0,floor|up|nearest) or mx(ELEMENT,BLOCK,SCALE[,tensor]), SCALE a float format";

const char *qs_block_format_name_at(size_t index) {
    return index < COUNT_OF(usual) ? usual[index].name : NULL;
}

bool qs_block_format_claims(const char *name) {
    for (size_t i = 0; i < COUNT_OF(usual); i++)
        if (strcmp(name, usual[i].name) == 0) return true;
    return strncmp(name, "mx(", 3) == 0;
}

static qs_status format_find(const char *name, const qs_format **out) {
    for (size_t i = 0; i < COUNT_OF(elements); i++)
        if (strcmp(name, elements[i].name) == 0) name = elements[i].format;
    return qs_format_find(name, out);
}

static qs_status float_find(const char *name, const qs_format **out) {
    QS_TRY(format_find(name, out));
    return (*out)->kind == QS_KIND_FLOAT ? QS_OK : qs_fail(QS_USAGE, "'%s' is no float format", name);
}

/* Integers are floats with one bit of exponent, whose values below the least normal one and above it are equally far apart. */
static qs_status element_find(const char *name, const qs_format **out) {
    const qs_format *found = NULL;
    char same[24];
    QS_TRY(format_find(name, &found));
    if (found->bits > 8 || found->is_unsigned || found->is_logarithmic)
        return qs_fail(QS_USAGE, "'%s' is no element: floats of at most 8 bits and int2 ... int8 are", name);
    if (found->kind == QS_KIND_FLOAT) {
        *out = found;
        return QS_OK;
    }
    snprintf(same, sizeof same, "fp(1,%d,1)", found->bits - 2);
    return qs_format_find(same, out);
}

/* The next of the parts between commas; a comma within parentheses is none. NULL behind the last. */
static char *part_take(char **rest) {
    char *part = *rest;
    int depth = 0;
    if (!part) return NULL;
    for (char *at = part; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (*at != ',' || depth > 0) continue;
        *at = '\0';
        *rest = at + 1;
        return part;
    }
    *rest = NULL;
    return part;
}

/* Every value has so few bits that a bf16 holds it, element times scale. */
static bool fits_bf16(const qs_block_format *format) {
    const int scale = format->scale ? format->scale->mantissa_bits + 1 : 0;
    return !format->of_tensor && format->element->mantissa_bits + 1 + scale <= 8 && (!format->scale || format->scale->bits <= 8);
}

static qs_status parts_read(char *parts, qs_block_format *out) {
    char *rest = parts, *end = NULL;
    const char *element = part_take(&rest), *block = part_take(&rest), *scale = part_take(&rest), *how = part_take(&rest);
    if (!block || rest) return qs_fail(QS_USAGE, "%s", form);
    QS_TRY(element_find(element, &out->element));
    const long size = strtol(block, &end, 10);
    if (end == block || *end || size < LEAST_BLOCK || size > QS_MOST_BLOCK || (size & (size - 1)))
        return qs_fail(QS_USAGE, "block '%s': blocks are of 8, 16, 32 ... %d values", block, QS_MOST_BLOCK);
    out->block = (int)size;
    const bool powers = !scale || strcmp(scale, "e8m0") == 0;
    if (!powers) QS_TRY(float_find(scale, &out->scale));
    out->of_tensor = !powers && how && strcmp(how, "tensor") == 0;
    bool known = !how || out->of_tensor;
    for (int r = 0; powers && how && r < (int)COUNT_OF(scale_roundings); r++) {
        if (strcmp(how, scale_roundings[r]) != 0) continue;
        out->rounding = (qs_scale_rounding)r;
        known = true;
    }
    return known ? QS_OK : qs_fail(QS_USAGE, "'%s': %s", how, form);
}

/* The name that a format has whatever it was asked for by. */
static void name_write(const char *element, qs_block_format *out) {
    char scale[40] = "";
    if (out->scale)
        snprintf(scale, sizeof scale, ",%s%s", out->scale == qs_format_of("e4m3fn") ? "e4m3" : out->scale->name,
                 out->of_tensor ? ",tensor" : "");
    else if (out->rounding != QS_SCALE_FLOOR)
        snprintf(scale, sizeof scale, ",e8m0,%s", scale_roundings[out->rounding]);
    snprintf(out->name, sizeof out->name, "mx(%s,%d%s)", element, out->block, scale);
    for (size_t i = 0; i < COUNT_OF(usual); i++)
        if (strcmp(out->name, usual[i].stands_for) == 0) snprintf(out->name, sizeof out->name, "%s", usual[i].name);
}

static qs_status format_parse(const char *name, qs_block_format *out) {
    const char *text = name;
    char copy[64], element[24];
    for (size_t i = 0; i < COUNT_OF(usual); i++)
        if (strcmp(name, usual[i].name) == 0) text = usual[i].stands_for;
    const size_t length = strlen(text);
    if (strncmp(text, "mx(", 3) != 0 || length >= sizeof copy || text[length - 1] != ')') return qs_fail(QS_USAGE, "%s", form);
    snprintf(copy, sizeof copy, "%.*s", (int)length - 4, text + 3);
    QS_TRY(parts_read(copy, out)); /* parts end with 0 now */
    snprintf(element, sizeof element, "%s", out->element->name);
    for (size_t i = 0; i < COUNT_OF(elements); i++)
        if (qs_format_of(elements[i].format) == out->element) snprintf(element, sizeof element, "%s", elements[i].name);
    if (out->element->exponent_bits == 1 && out->element->bias == 1)
        snprintf(element, sizeof element, "int%d", out->element->mantissa_bits + 2);
    name_write(element, out);
    out->container = qs_format_of(fits_bf16(out) ? "bf16" : "fp32");
    out->bits = out->element->bits + (double)(out->scale ? out->scale->bits : SCALE_BITS) / out->block;
    return QS_OK;
}

typedef struct interned {
    qs_block_format format;
    struct interned *next;
} interned;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static interned *registry;

static const qs_block_format *find_interned(const char *name) {
    for (const interned *entry = registry; entry; entry = entry->next)
        if (strcmp(entry->format.name, name) == 0) return &entry->format;
    return NULL;
}

qs_status qs_block_format_find(const char *name, const qs_block_format **out) {
    qs_block_format parsed = {.block = 0};
    interned *entry = NULL;
    QS_TRY(qs_fail_within(format_parse(name, &parsed), "block format '%.48s'", name));
    qs_status status = QS_OK;
    pthread_mutex_lock(&registry_lock);
    *out = find_interned(parsed.name);
    if (!*out) status = qs_allocate(1, sizeof *entry, &entry);
    if (entry) {
        entry->format = parsed;
        entry->next = registry;
        registry = entry;
        *out = &entry->format;
    }
    pthread_mutex_unlock(&registry_lock);
    return status;
}

size_t qs_block_format_bytes(const qs_block_format *format, int64_t rows, int64_t length) {
    const int64_t blocks = rows * ((length + format->block - 1) / format->block);
    const size_t scales = format->scale ? qs_format_bytes(format->scale, blocks) : (size_t)blocks;
    return qs_format_bytes(format->element, rows * length) + scales + (format->of_tensor ? sizeof(float) : 0);
}

/* ---- Scales ---- */

float qs_tensor_scale(const qs_block_format *format, float absmax) {
    const float whole = (float)(format->element->max * (format->scale ? format->scale->max : 1));
    return format->of_tensor && absmax > 0 && isfinite(absmax) ? fmaxf(absmax / whole, 0x1p-126f) : 1;
}

static float power_scale(const qs_block_format *format, float absmax) {
    const qs_format *element = format->element;
    int exponent = LEAST_EXPONENT;
    if (absmax > 0) {
        const double rounded = format->rounding == QS_SCALE_NEAREST
                                   ? ldexp(nearbyint(ldexp((double)absmax, element->mantissa_bits - ilogb((double)absmax))),
                                           ilogb((double)absmax) - element->mantissa_bits)
                                   : (double)absmax;
        exponent = ilogb(rounded) - ilogb(element->max);
        if (format->rounding == QS_SCALE_UP && ldexp(element->max, exponent) < (double)absmax) exponent++;
    }
    return ldexpf(1, exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent > MOST_EXPONENT ? MOST_EXPONENT : exponent);
}

float qs_block_scale(const qs_block_format *format, float absmax, float tensor) {
    if (!isfinite(absmax)) return NAN;
    if (!format->scale) return power_scale(format, absmax);
    const float wanted = absmax / (float)format->element->max / tensor;
    const float scale = qs_round_value(format->scale, QS_NEAREST_EVEN, QS_OVERFLOW_SATURATE, wanted, 0, NULL);
    return fmaxf(scale, fmaxf((float)format->scale->min_subnormal, 0x1p-126f)) * tensor;
}

/* ---- Arrays ---- */

static void piece_load(const qs_block_rounding *job, int64_t place, int64_t count, float *values) {
    if (!job->bfloat[0]) {
        memcpy(values, (const float *)job->src + place, (size_t)count * sizeof *values);
        return;
    }
    const uint16_t *src = (const uint16_t *)job->src + place;
    for (int64_t i = 0; i < count; i++)
        values[i] = qs__float_of((uint32_t)src[i] << 16);
}

/* Where the draws of the element at a place begin. */
static qs_random_stream stream_at(const qs_block_rounding *job, int64_t place) {
    const qs_block_layout *layout = &job->layout;
    const int64_t sample = layout->sample > 0 ? place / layout->sample : 0;
    return (qs_random_stream){job->random.key,
                              job->random.first + (uint64_t)sample * layout->stride + (uint64_t)(place - sample * layout->sample)};
}

/* Values side by side whose scales are known: in their scale, rounded sample by sample, and back. */
static void piece_round(const qs_block_rounding *job, int64_t place, int64_t count, const float *scale, float *values) {
    const int64_t sample = job->layout.sample > 0 ? job->layout.sample : INT64_MAX;
    for (int64_t i = 0; i < count; i++)
        values[i] /= scale[i];
    for (int64_t at = 0, some; at < count; at += some) {
        const int64_t left = sample - (place + at) % sample;
        some = count - at < left ? count - at : left;
        qs_round_array(job->format->element, job->rounding, QS_OVERFLOW_SATURATE, stream_at(job, place + at), some, values + at,
                       values + at);
    }
    for (int64_t i = 0; i < count; i++)
        values[i] *= scale[i];
    if (job->bfloat[1])
        qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values,
                             (uint16_t *)job->dst + place);
    else
        memcpy((float *)job->dst + place, values, (size_t)count * sizeof *values);
}

/* As an integer a magnitude orders like the number, and what is not finite above all numbers. */
static int32_t magnitude(float value) {
    return (int32_t)(qs__bits_of(value) & 0x7FFFFFFF);
}

static float scale_of(const qs_block_rounding *job, int32_t largest) {
    return qs_block_scale(job->format, qs__float_of((uint32_t)largest), job->tensor);
}

/* Scales of the blocks of a line, or of a piece of one that begins with a block. */
static void line_scale(const qs_block_rounding *job, int64_t count, const float *values, float *scale) {
    const int block = job->format->block;
    for (int64_t first = 0; first < count; first += block) {
        const int64_t end = first + block < count ? first + block : count;
        int32_t largest = 0;
        for (int64_t i = first; i < end; i++)
            largest = magnitude(values[i]) > largest ? magnitude(values[i]) : largest;
        const float one = scale_of(job, largest);
        for (int64_t i = first; i < end; i++)
            scale[i] = one;
    }
}

/* Lines whose values lie side by side, one behind the other: several short ones, or a long one, in pieces of whole blocks. */
static void lines_round(const qs_block_rounding *job, int64_t begin, int64_t end) {
    const int64_t length = job->layout.length, piece = length < PIECE ? length : PIECE, together = PIECE / piece;
    float values[PIECE], scale[PIECE];
    for (int64_t line = begin; line < end; line += together) {
        const int64_t lines = end - line < together ? end - line : together;
        for (int64_t at = 0; at < length; at += piece) {
            const int64_t count = length - at < piece ? length - at : piece, place = line * length + at;
            piece_load(job, place, lines * count, values);
            for (int64_t i = 0; i < lines; i++)
                line_scale(job, count, values + i * count, scale + i * count);
            piece_round(job, place, lines * count, scale, values);
        }
    }
}

/* A block of each of `count` lines that lie side by side, its first values from `from` on: row by row, or all at once where nothing lies
 * between the rows. */
static void block_round(const qs_block_rounding *job, int64_t from, int64_t rows, int64_t count) {
    const int64_t inner = job->layout.inner, together = count == inner && rows * count <= PIECE ? rows : 1;
    float values[PIECE], scale[PIECE];
    int32_t largest[PIECE] = {0};
    for (int64_t row = 0; row < rows; row++) {
        piece_load(job, from + row * inner, count, values);
        for (int64_t i = 0; i < count; i++)
            largest[i] = magnitude(values[i]) > largest[i] ? magnitude(values[i]) : largest[i];
    }
    for (int64_t i = 0; i < count; i++)
        scale[i] = scale_of(job, largest[i]);
    for (int64_t row = 1; row < together; row++)
        memcpy(scale + row * count, scale, (size_t)count * sizeof *scale);
    for (int64_t row = 0; row < rows; row += together) {
        piece_load(job, from + row * inner, together * count, values);
        piece_round(job, from + row * inner, together * count, scale, values);
    }
}

static int64_t blocks_of_line(const qs_block_rounding *job) {
    return (job->layout.length + job->format->block - 1) / job->format->block;
}

int64_t qs_block_units(const qs_block_rounding *job) {
    return job->layout.inner == 1 ? job->layout.outer : job->layout.outer * blocks_of_line(job);
}

void qs_block_round(const qs_block_rounding *job, int64_t begin, int64_t end) {
    const qs_block_layout *layout = &job->layout;
    if (layout->length == 0) return;
    if (layout->inner == 1) {
        lines_round(job, begin, end);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t blocks = blocks_of_line(job), first = unit % blocks * job->format->block, left = layout->length - first;
        const int64_t from = (unit / blocks * layout->length + first) * layout->inner;
        for (int64_t at = 0; at < layout->inner; at += PIECE)
            block_round(job, from + at, left < job->format->block ? left : job->format->block,
                        layout->inner - at < PIECE ? layout->inner - at : PIECE);
    }
}
