// SPDX-License-Identifier: Apache-2.0
/* Quantizers by name: "format:granularity:rounding" and options of one kind of format, where what is missing has a default; and the names
 * of roundings and of what happens to values that pass the largest one. */
#include "number_room.h"

#include "qsync/blocks.h"

#include <stdio.h>

/* ---- Roundings and overflow policies ---- */

#define NAME_TEXT(id, text) [id] = (text),
static const char *const rounding_names[] = {QS_ROUNDING_LIST(NAME_TEXT)};
static const char *const overflow_names[] = {QS_OVERFLOW_LIST(NAME_TEXT)};

const char *qs_rounding_name(qs_rounding rounding) {
    return rounding_names[rounding];
}

static const char *rounding_name_at(size_t index) {
    return rounding_names[index];
}

const char *qs_overflow_name(qs_overflow overflow) {
    return overflow_names[overflow];
}

static const char *overflow_name_at(size_t index) {
    return overflow_names[index];
}

qs_status qs_overflow_find(const char *name, qs_overflow *out) {
    for (int i = 0; i < QS_OVERFLOW_COUNT; i++) {
        if (strcmp(name, overflow_names[i]) != 0) continue;
        *out = (qs_overflow)i;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "overflow '%s' does not exist; there are %s", name, qs_names_join(QS_OVERFLOW_COUNT, overflow_name_at));
}

qs_status qs_rounding_find(const char *name, qs_rounding *out) {
    for (int i = 0; i < QS_ROUNDING_COUNT; i++) {
        if (strcmp(name, rounding_names[i]) != 0) continue;
        *out = (qs_rounding)i;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "rounding '%s' does not exist; there are %s", name, qs_names_join(QS_ROUNDING_COUNT, rounding_name_at));
}

/* ---- Quantizers ---- */

enum { TEXT_LIMIT = 64, USUAL_BLOCK = 16 };

typedef struct granularity_name {
    const char *text;
    qs_granularity granularity;
    bool input, samples;
} granularity_name;

/* The first name of a granularity is the canonical one; # stands for a number: of groups, of the largest block. */
static const granularity_name granularities[] = {
    {"tensor", QS_PER_TENSOR, false, false},       {"channel(out)", QS_PER_CHANNEL, false, false},
    {"channel(in)", QS_PER_CHANNEL, true, false},  {"channel", QS_PER_CHANNEL, false, false},
    {"shift#(in)", QS_SHIFT_GROUPS, true, false},  {"shift#(out)", QS_SHIFT_GROUPS, false, false},
    {"shift#", QS_SHIFT_GROUPS, true, false},      {"hadamard#(in)", QS_HADAMARD, true, false},
    {"hadamard#(out)", QS_HADAMARD, false, false}, {"hadamard#(samples)", QS_HADAMARD, false, true},
    {"hadamard#", QS_HADAMARD, true, false},       {"along(in)", QS_BLOCKS, true, false},
    {"along(out)", QS_BLOCKS, false, false},       {"along(samples)", QS_BLOCKS, false, true},
};
static const char *const options[] = {"overflow=saturate", "overflow=inf", "mse", "draw2"};
enum { GRANULARITIES = sizeof granularities / sizeof granularities[0], OPTIONS = sizeof options / sizeof options[0] };
enum { PARTS = GRANULARITIES + QS_ROUNDING_COUNT + OPTIONS };

static const char form[] = "the form is format:granularity:rounding:overflow, or of integers format:granularity:rounding:mse:draw2";
static const char overflow_mark[] = "overflow=";

static const char *part_name(size_t index) {
    if (index < GRANULARITIES) return granularities[index].text;
    if (index < GRANULARITIES + QS_ROUNDING_COUNT) return qs_rounding_name((qs_rounding)(index - GRANULARITIES));
    return options[index - GRANULARITIES - QS_ROUNDING_COUNT];
}

/* *number: what stands for #, up to a hundred or so, and 0 where no digits do, of which the first is not 0; -1 where the name has no #. */
static bool matches(const char *text, const char *name, int *number) {
    *number = -1;
    for (; *name; name++) {
        if (*name != '#') {
            if (*name != *text++) return false;
            continue;
        }
        *number = 0;
        for (; *text >= '0' && *text <= '9' && *number < 100 && !(*number == 0 && *text == '0'); text++)
            *number = 10 * *number + (*text - '0');
    }
    return !*text;
}

static qs_status take_granularity(const char *part, const granularity_name *named, int number, qs_quantizer *quantizer) {
    if ((named->granularity == QS_BLOCKS) != (quantizer->blocks != NULL))
        return qs_fail(QS_USAGE, "'%s': along(in), along(out) and along(samples) are of block formats, and those take no other", part);
    if (number >= 0 && quantizer->format->kind != QS_KIND_INTEGER)
        return qs_fail(QS_USAGE, "'%s' needs an integer format (int2 ... int8): %s has no steps", part, quantizer->format->name);
    if (named->granularity == QS_SHIFT_GROUPS) {
        if (number < 1 || number > QS_MOST_SHIFT_GROUPS)
            return qs_fail(QS_USAGE, "'%s' asks for %d groups; there are 1 to %d", part, number, QS_MOST_SHIFT_GROUPS);
        quantizer->shift_groups = number;
    }
    if (named->granularity == QS_HADAMARD) {
        const int block = number > 0 ? number : USUAL_BLOCK;
        if (block < 2 || block > QS_MOST_HADAMARD || (block & (block - 1)))
            return qs_fail(QS_USAGE, "'%s': blocks are of 2, 4, 8 ... %d", part, QS_MOST_HADAMARD);
        quantizer->hadamard = block;
    }
    quantizer->granularity = named->granularity;
    quantizer->channel_is_input = named->input;
    quantizer->over_samples = named->samples;
    return QS_OK;
}

/* What a part is about. */
enum { GRANULARITY, ROUNDING, OVERFLOW, RANGE, DRAWS, KINDS };

/* A part behind the format; what it is about is told by its words. `had`: the kinds that were there before. */
static qs_status take_part(const char *part, bool had[KINDS], qs_quantizer *quantizer) {
    const bool integer = quantizer->format->kind == QS_KIND_INTEGER;
    int kind = GRANULARITY;
    const size_t mark = sizeof overflow_mark - 1;
    size_t named = 0;
    int number = -1;
    qs_rounding rounding = quantizer->rounding;
    while (named < GRANULARITIES && !matches(part, granularities[named].text, &number))
        named++;
    if (named == GRANULARITIES)
        kind = strncmp(part, overflow_mark, mark) == 0 ? OVERFLOW
               : strcmp(part, "mse") == 0              ? RANGE
               : strcmp(part, "draw2") == 0            ? DRAWS
                                                       : ROUNDING;
    if (kind == ROUNDING && qs_rounding_find(part, &rounding) != QS_OK)
        return qs_fail(QS_USAGE, "'%s' is no granularity, no rounding and no option; there are %s", part, qs_names_join(PARTS, part_name));
    if (had[kind]) return qs_fail(QS_USAGE, "'%s' is one part too many; %s", part, form);
    had[kind] = true;
    if (kind == GRANULARITY) return take_granularity(part, &granularities[named], number, quantizer);
    if (kind == OVERFLOW && integer)
        return qs_fail(QS_USAGE, "'%s' needs a float format: %s always saturates", part, quantizer->format->name);
    if (kind == OVERFLOW && quantizer->blocks)
        return qs_fail(QS_USAGE, "'%s': elements of %s always saturate", part, quantizer->blocks->name);
    if (kind == OVERFLOW) return qs_overflow_find(part + mark, &quantizer->overflow);
    if (kind > OVERFLOW && !integer)
        return qs_fail(QS_USAGE, "'%s' needs an integer format (int2 ... int8): %s has no steps", part, quantizer->format->name);
    quantizer->least_squares |= kind == RANGE;
    quantizer->second_draw |= kind == DRAWS;
    quantizer->rounding = rounding;
    return QS_OK;
}

/* What one part alone cannot tell: a clipped value is not what its codes are on average, whatever they draw, so clipping is for roundings
 * to nearest; and who draws nothing has no second draw. */
static qs_status options_check(const qs_quantizer *quantizer) {
    const bool clips =
        quantizer->rounding == QS_NEAREST_EVEN && quantizer->granularity != QS_HADAMARD && !quantizer->format->is_logarithmic;
    if (quantizer->least_squares && !clips)
        return qs_fail(QS_USAGE, "'mse' clips: int2 ... int8 and uint2 ... uint7, rounded nearest-even, without transform");
    if (quantizer->second_draw && quantizer->rounding != QS_STOCHASTIC)
        return qs_fail(QS_USAGE, "'draw2' is of stochastic rounding: %s draws nothing", qs_rounding_name(quantizer->rounding));
    return QS_OK;
}

static qs_rounding default_rounding(const qs_format *format) {
    return format->kind == QS_KIND_INTEGER ? QS_STOCHASTIC : QS_NEAREST_EVEN;
}

qs_status qs_quantizer_find(const char *text, qs_quantizer *out) {
    char copy[TEXT_LIMIT], *rest = copy;
    bool had[KINDS] = {false};
    qs_quantizer quantizer = {.granularity = QS_PER_TENSOR};
    if (strlen(text) >= sizeof copy)
        return qs_fail(QS_USAGE, "quantizer '%.32s...' is longer than %d characters; %s", text, TEXT_LIMIT - 1, form);
    strcpy(copy, text);
    const char *name = strsep(&rest, ":");
    const bool blocks = qs_block_format_claims(name);
    qs_status status = blocks ? qs_block_format_find(name, &quantizer.blocks) : qs_format_find(name, &quantizer.format);
    if (status == QS_OK && blocks) {
        quantizer.format = quantizer.blocks->container;
        quantizer.granularity = QS_BLOCKS;
        quantizer.channel_is_input = true;
    }
    if (status == QS_OK) quantizer.rounding = default_rounding(quantizer.format);
    while (status == QS_OK && rest)
        status = take_part(strsep(&rest, ":"), had, &quantizer);
    if (quantizer.least_squares && !had[ROUNDING]) quantizer.rounding = QS_NEAREST_EVEN;
    if (status == QS_OK) status = options_check(&quantizer);
    if (status != QS_OK) return qs_fail_within(status, "quantizer '%s'", text);
    /* A policy that is the format's own is none: formats without infinities saturate anyway, and those with them go there anyway, but for
     * roundings toward zero. */
    const bool infinite = quantizer.format->specials == QS_SPECIALS_IEEE;
    const bool inward = quantizer.rounding == QS_TOWARD_ZERO || quantizer.rounding == QS_FLOOR;
    if (quantizer.overflow == QS_OVERFLOW_SATURATE && !infinite) quantizer.overflow = QS_OVERFLOW_DEFAULT;
    if (quantizer.overflow == QS_OVERFLOW_INFINITY && infinite && !inward) quantizer.overflow = QS_OVERFLOW_DEFAULT;
    *out = quantizer;
    return QS_OK;
}

/* Defaults are left out where nothing else is said, so that "bf16" stays "bf16". */
const char *qs_quantizer_text(const qs_quantizer *quantizer, char *buffer) {
    const granularity_name *named = granularities;
    while (
        named->granularity != quantizer->granularity ||
        (named->granularity != QS_PER_TENSOR && (named->input != quantizer->channel_is_input || named->samples != quantizer->over_samples)))
        named++;
    int length = snprintf(buffer, TEXT_LIMIT, "%s", quantizer->blocks ? quantizer->blocks->name : quantizer->format->name);
    const bool usual = quantizer->granularity == QS_PER_TENSOR || (quantizer->blocks && quantizer->channel_is_input);
    const bool plain = usual && quantizer->rounding == default_rounding(quantizer->format);
    if (!plain || quantizer->format->kind != QS_KIND_FLOAT) {
        const char *number = strchr(named->text, '#'), *rounding = qs_rounding_name(quantizer->rounding);
        const int value = quantizer->granularity == QS_HADAMARD ? quantizer->hadamard : quantizer->shift_groups;
        char *at = buffer + length;
        const size_t room = (size_t)(TEXT_LIMIT - length);
        length += number ? snprintf(at, room, ":%.*s%d%s:%s", (int)(number - named->text), named->text, value, number + 1, rounding)
                         : snprintf(at, room, ":%s:%s", named->text, rounding);
    }
    if (quantizer->overflow != QS_OVERFLOW_DEFAULT)
        snprintf(buffer + length, (size_t)(TEXT_LIMIT - length), ":%s%s", overflow_mark, qs_overflow_name(quantizer->overflow));
    if (quantizer->least_squares || quantizer->second_draw) strcat(buffer, quantizer->least_squares ? ":mse" : ":draw2");
    return buffer;
}
