// SPDX-License-Identifier: Apache-2.0
/* Quantizers by name: "format:granularity:rounding:overflow", where what is missing has a default. */
#include "number_room.h"

#include <stdio.h>

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
    {"hadamard#", QS_HADAMARD, true, false},
};
enum { GRANULARITIES = sizeof granularities / sizeof granularities[0], PARTS = GRANULARITIES + QS_ROUNDING_COUNT + 2 };

static const char form[] = "the form is format:granularity:rounding:overflow";
static const char overflow_mark[] = "overflow=";

static const char *part_name(size_t index) {
    static const char *const policies[] = {"overflow=saturate", "overflow=inf"};
    if (index < GRANULARITIES) return granularities[index].text;
    if (index < GRANULARITIES + QS_ROUNDING_COUNT) return qs_rounding_name((qs_rounding)(index - GRANULARITIES));
    return policies[index - GRANULARITIES - QS_ROUNDING_COUNT];
}

/* Digits at *text as a number, up to a hundred or so; 0 where there are none. None begins with a 0. */
static int take_number(const char **text) {
    int number = 0;
    if (**text == '0') return 0;
    for (; **text >= '0' && **text <= '9' && number < 100; ++*text)
        number = 10 * number + (**text - '0');
    return number;
}

/* *number: what stands for #, 0 where nothing does; -1 where the name has none. */
static bool matches(const char *text, const char *name, int *number) {
    *number = -1;
    for (; *name; name++) {
        if (*name == '#') {
            *number = take_number(&text);
        } else if (*name != *text++) {
            return false;
        }
    }
    return !*text;
}

static const granularity_name *find_granularity(const char *text, int *number) {
    for (size_t i = 0; i < GRANULARITIES; i++) {
        if (matches(text, granularities[i].text, number)) return &granularities[i];
    }
    return NULL;
}

static qs_status take_groups(const char *part, int groups, qs_quantizer *quantizer) {
    if (groups < 1 || groups > QS_MOST_SHIFT_GROUPS)
        return qs_fail(QS_USAGE, "'%s' asks for %d groups; there are 1 to %d", part, groups, QS_MOST_SHIFT_GROUPS);
    quantizer->shift_groups = groups;
    return QS_OK;
}

static qs_status take_block(const char *part, int block, qs_quantizer *quantizer) {
    if (block == 0) block = USUAL_BLOCK;
    if (block < 2 || block > QS_MOST_HADAMARD || (block & (block - 1)))
        return qs_fail(QS_USAGE, "'%s': blocks are of 2, 4, 8 ... %d", part, QS_MOST_HADAMARD);
    quantizer->hadamard = block;
    return QS_OK;
}

static qs_status take_granularity(const char *part, const granularity_name *named, int number, qs_quantizer *quantizer) {
    if (number >= 0 && quantizer->format->kind != QS_KIND_INTEGER)
        return qs_fail(QS_USAGE, "'%s' needs an integer format (int2 ... int8): %s has no steps", part, quantizer->format->name);
    if (named->granularity == QS_SHIFT_GROUPS) QS_TRY(take_groups(part, number, quantizer));
    if (named->granularity == QS_HADAMARD) QS_TRY(take_block(part, number, quantizer));
    quantizer->granularity = named->granularity;
    quantizer->channel_is_input = named->input;
    quantizer->over_samples = named->samples;
    return QS_OK;
}

static qs_rounding default_rounding(const qs_format *format) {
    return format->kind == QS_KIND_INTEGER ? QS_STOCHASTIC : QS_NEAREST_EVEN;
}

/* Takes the text up to the next colon off *rest, which becomes NULL behind the last part. */
static char *next_part(char **rest) {
    char *part = *rest;
    char *colon = strchr(part, ':');
    if (colon) *colon = '\0';
    *rest = colon ? colon + 1 : NULL;
    return part;
}

static qs_status take_overflow(const char *part, qs_quantizer *quantizer) {
    if (quantizer->format->kind == QS_KIND_INTEGER) {
        return qs_fail(QS_USAGE, "'%s' needs a float format: %s always saturates", part, quantizer->format->name);
    }
    return qs_overflow_find(part + sizeof overflow_mark - 1, &quantizer->overflow);
}

/* The kinds of parts behind the format, told apart by their words. */
typedef enum part_kind { PART_GRANULARITY, PART_ROUNDING, PART_OVERFLOW, PART_KINDS } part_kind;

/* had: the kinds that were there before. */
static qs_status parse_part(const char *part, bool had[PART_KINDS], qs_quantizer *quantizer) {
    int number;
    qs_rounding rounding = quantizer->rounding;
    const granularity_name *granularity = find_granularity(part, &number);
    part_kind kind = PART_GRANULARITY;
    if (!granularity) {
        kind = strncmp(part, overflow_mark, sizeof overflow_mark - 1) == 0 ? PART_OVERFLOW : PART_ROUNDING;
        if (kind == PART_ROUNDING && qs_rounding_find(part, &rounding) != QS_OK) {
            return qs_fail(QS_USAGE, "'%s' is no granularity, no rounding and no overflow; there are %s", part,
                           qs_names_join(PARTS, part_name));
        }
    }
    if (had[kind]) return qs_fail(QS_USAGE, "'%s' is one part too many; %s", part, form);
    had[kind] = true;
    if (kind == PART_GRANULARITY) return take_granularity(part, granularity, number, quantizer);
    if (kind == PART_OVERFLOW) return take_overflow(part, quantizer);
    quantizer->rounding = rounding;
    return QS_OK;
}

/* Formats without infinities saturate anyway; those with them go there anyway, but for roundings toward zero. */
static qs_overflow canonical_overflow(const qs_quantizer *quantizer) {
    bool infinite = quantizer->format->specials == QS_SPECIALS_IEEE;
    bool inward = quantizer->rounding == QS_TOWARD_ZERO || quantizer->rounding == QS_FLOOR;
    if (quantizer->overflow == QS_OVERFLOW_SATURATE && !infinite) return QS_OVERFLOW_DEFAULT;
    if (quantizer->overflow == QS_OVERFLOW_INFINITY && infinite && !inward) return QS_OVERFLOW_DEFAULT;
    return quantizer->overflow;
}

static qs_status parse_quantizer(char *text, qs_quantizer *out) {
    char *rest = text;
    qs_quantizer quantizer = {.granularity = QS_PER_TENSOR};
    QS_TRY(qs_format_find(next_part(&rest), &quantizer.format));
    quantizer.rounding = default_rounding(quantizer.format);
    bool had[PART_KINDS] = {false};
    while (rest) {
        QS_TRY(parse_part(next_part(&rest), had, &quantizer));
    }
    quantizer.overflow = canonical_overflow(&quantizer);
    *out = quantizer;
    return QS_OK;
}

qs_status qs_quantizer_find(const char *text, qs_quantizer *out) {
    char copy[TEXT_LIMIT];
    if (strlen(text) >= sizeof copy) {
        return qs_fail(QS_USAGE, "quantizer '%.32s...' is longer than %d characters; %s", text, TEXT_LIMIT - 1, form);
    }
    strcpy(copy, text);
    return qs_fail_within(parse_quantizer(copy, out), "quantizer '%s'", text);
}

static bool is_named(const granularity_name *named, const qs_quantizer *quantizer) {
    return named->granularity == quantizer->granularity &&
           (quantizer->granularity == QS_PER_TENSOR ||
            (named->input == quantizer->channel_is_input && named->samples == quantizer->over_samples));
}

static void granularity_text(const qs_quantizer *quantizer, char *buffer, size_t size) {
    const granularity_name *named = granularities;
    while (!is_named(named, quantizer))
        named++;
    const char *number = strchr(named->text, '#');
    if (number) {
        snprintf(buffer, size, "%.*s%d%s", (int)(number - named->text), named->text,
                 quantizer->granularity == QS_HADAMARD ? quantizer->hadamard : quantizer->shift_groups, number + 1);
    } else {
        snprintf(buffer, size, "%s", named->text);
    }
}

/* Defaults are left out where nothing else is said, so that "bf16" stays "bf16". */
const char *qs_quantizer_text(const qs_quantizer *quantizer, char *buffer) {
    char granularity[32];
    granularity_text(quantizer, granularity, sizeof granularity);
    const char *name = quantizer->format->name;
    bool plain = quantizer->granularity == QS_PER_TENSOR && quantizer->rounding == default_rounding(quantizer->format);
    bool policy = quantizer->overflow != QS_OVERFLOW_DEFAULT;
    int length = plain && quantizer->format->kind == QS_KIND_FLOAT
                     ? snprintf(buffer, TEXT_LIMIT, "%s", name)
                     : snprintf(buffer, TEXT_LIMIT, "%s:%s:%s", name, granularity, qs_rounding_name(quantizer->rounding));
    if (policy) snprintf(buffer + length, (size_t)(TEXT_LIMIT - length), ":%s%s", overflow_mark, qs_overflow_name(quantizer->overflow));
    return buffer;
}
