// SPDX-License-Identifier: Apache-2.0
/* qsync format: facts of a number format; rounds values from arguments or standard input. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "qsync/blocks.h"

typedef struct rounder {
    const qs_format *format;
    qs_rounding rounding;
    qs_overflow overflow;
    uint64_t key, drawn;
    const char *rounding_name, *overflow_name;
    int64_t seed;
    bool json;
    json_t *rows;
} rounder;

static void facts_print(const qs_format *format) {
    static const char *const specials[] = {"none", "ieee", "fn"};
    printf("%s: %s, %d bits\n", format->name, format->kind == QS_KIND_FLOAT ? "float" : "integer", format->bits);
    if (format->kind == QS_KIND_FLOAT)
        printf("exponent bits %d, mantissa bits %d, bias %d, specials %s\nmax %.9g, min normal %.9g, min subnormal %.9g, epsilon %.9g\n",
               format->exponent_bits, format->mantissa_bits, format->bias, specials[format->specials], format->max, format->min_normal,
               format->min_subnormal, format->epsilon);
    else
        printf("max %.0f (%s)\n", format->max, format->is_unsigned ? "from 0" : "symmetric");
}

static json_t *facts_json(const qs_format *format) {
    static const char *const specials[] = {"none", "ieee", "fn"};
    if (format->kind == QS_KIND_INTEGER)
        return json_pack("{s:s,s:s,s:i,s:f}", "format", format->name, "kind", "integer", "bits", format->bits, "max", format->max);
    return json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:s,s:f,s:f,s:f,s:f}", "format", format->name, "kind", "float", "bits", format->bits,
                     "exponent_bits", format->exponent_bits, "mantissa_bits", format->mantissa_bits, "bias", format->bias, "specials",
                     specials[format->specials], "max", format->max, "min_normal", format->min_normal, "min_subnormal",
                     format->min_subnormal, "epsilon", format->epsilon);
}

/* JSON has no infinities: they are written as text. */
static json_t *number_json(double value) {
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

static qs_status value_round(rounder *one, const char *text) {
    char *end = NULL;
    const double exact = strtod(text, &end);
    bool overflowed = false;
    if (end == text || *end) return qs_fail(QS_USAGE, "%s: not a number", text);
    const float value = (float)exact;
    const float rounded =
        qs_round_value(one->format, one->rounding, one->overflow, value, qs_random_bits(one->key, one->drawn++), &overflowed);
    const bool underflowed = value != 0 && rounded == 0;
    const uint32_t code = qs_encode_value(one->format, rounded);
    if (!one->json) {
        printf("%.9g -> %.9g  code 0x%0*x%s\n", (double)value, (double)rounded, (one->format->bits + 3) / 4, code,
               overflowed    ? "  overflow"
               : underflowed ? "  underflow"
                             : "");
        return QS_OK;
    }
    json_array_append_new(one->rows,
                          json_pack("{s:o,s:o,s:I,s:b,s:b}", "x", number_json((double)value), "value", number_json((double)rounded), "code",
                                    (json_int_t)code, "overflow", overflowed, "underflow", underflowed));
    return QS_OK;
}

static qs_status stream_round(rounder *one, FILE *stream) {
    char word[128];
    while (fscanf(stream, "%127s", word) == 1) {
        if (strlen(word) == sizeof word - 1) return qs_fail(QS_USAGE, "standard input: %.20s...: too long for a number", word);
        QS_TRY(value_round(one, word));
    }
    return ferror(stream) ? qs_fail(QS_BAD_FILE, "standard input: %s", strerror(errno)) : QS_OK;
}

static qs_status names_print(bool json) {
    json_t *list = json_array();
    for (size_t i = 0; qs_format_name_at(i); i++) {
        if (json)
            json_array_append_new(list, facts_json(qs_format_of(qs_format_name_at(i))));
        else
            facts_print(qs_format_of(qs_format_name_at(i)));
    }
    if (json) return json_print(json_pack("{s:o}", "formats", list));
    json_decref(list);
    return QS_OK;
}

static qs_status values_round(rounder *one, int argc, char **argv, int first) {
    qs_status status = QS_OK;
    if (one->json) one->rows = json_array();
    if (argc - first == 1 && strcmp(argv[first], "-") == 0)
        QS_GOTO(stream_round(one, stdin));
    else
        for (int i = first; i < argc; i++)
            QS_GOTO(value_round(one, argv[i]));
    if (one->json) {
        json_t *facts = facts_json(one->format);
        json_object_set_new(facts, "rounding", json_string(qs_rounding_name(one->rounding)));
        json_object_set_new(facts, "overflow", json_string(qs_overflow_name(one->overflow)));
        json_object_set(facts, "values", one->rows);
        QS_GOTO(json_print(facts));
    } else if (first == argc) {
        facts_print(one->format);
    }
done:
    json_decref(one->rows);
    return status;
}

/* ---- Blocks ---- */

static void block_facts_print(const qs_block_format *format) {
    static const char *const roundings[] = {"rounded down", "rounded up", "of the rounded largest value"};
    printf("%s: blocks of %d values, %.4g bits each with their share of the scale\n", format->name, format->block, format->bits);
    printf("element %s (largest %.9g), scale ", format->element->name, format->element->max);
    if (format->scale)
        printf("%s%s\n", format->scale->name, format->of_tensor ? ", and one in fp32 for all values of a tensor" : "");
    else
        printf("a power of two, %s\n", roundings[format->rounding]);
    printf("kept, and multiplied, in %s\n", format->container->name);
}

static json_t *block_facts_json(const qs_block_format *format) {
    return json_pack("{s:s,s:s,s:s,s:i,s:s,s:b,s:f,s:s}", "format", format->name, "kind", "blocks", "element", format->element->name,
                     "block", format->block, "scale", format->scale ? format->scale->name : "power of two", "of_tensor", format->of_tensor,
                     "bits", format->bits, "container", format->container->name);
}

/* All values are one tensor, and lie in one line. */
static qs_status block_round(const rounder *one, const qs_block_format *format, int count, char **text) {
    float *values = NULL, *rounded = NULL;
    json_t *rows = json_array(), *facts;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    QS_GOTO(qs_allocate((size_t)count, sizeof *rounded, &rounded));
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        values[i] = (float)strtod(text[i], &end);
        if (end == text[i] || *end) QS_GOTO(qs_fail(QS_USAGE, "%s: not a number", text[i]));
    }
    const qs_block_rounding job = {.format = format,
                                   .rounding = one->rounding,
                                   .random = {one->key, 0},
                                   .tensor = qs_tensor_scale(format, qs_absmax_array(count, values)),
                                   .layout = {.outer = 1, .length = count, .inner = 1},
                                   .src = values,
                                   .dst = rounded};
    qs_block_round(&job, 0, qs_block_units(&job));
    for (int i = 0; i < count; i++) {
        const int first = i / format->block * format->block, left = count - first;
        const float scale =
            qs_block_scale(format, qs_absmax_array(left < format->block ? left : format->block, values + first), job.tensor);
        if (!one->json) printf("%.9g -> %.9g  scale %.9g\n", (double)values[i], (double)rounded[i], (double)scale);
        json_array_append_new(rows, json_pack("{s:o,s:o,s:o}", "x", number_json((double)values[i]), "value",
                                              number_json((double)rounded[i]), "scale", number_json((double)scale)));
    }
    if (one->json) {
        facts = block_facts_json(format);
        json_object_set_new(facts, "rounding", json_string(qs_rounding_name(one->rounding)));
        json_object_set(facts, "values", rows);
        QS_GOTO(json_print(facts));
    } else if (count == 0) {
        block_facts_print(format);
    }
done:
    json_decref(rows);
    free(values);
    free(rounded);
    return status;
}

static const option_row option_rows[] = {
    {OPTION(rounder, rounding_name, "rounding", "NAME", "nearest-even, nearest-away, stochastic, floor, toward-zero"),
     .standard = "nearest-even"},
    {OPTION(rounder, overflow_name, "overflow", "NAME", "of values past the largest: saturate, inf, default: what the format says"),
     .standard = "default"},
    {OPTION(rounder, seed, "seed", "N", "of stochastic rounding"), .standard = "1"},
    {OPTION_JSON(rounder)},
};

qs_status verb_format(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "format",
        .arguments = "[FORMAT [VALUE ... | -]]",
        .purpose =
            "Facts of a number format, and values rounded to it (from the arguments, or from standard input with -).\n"
            "Without a format: all named ones. Families: fp(e,m) and fp(e,m,bias), int2..int8, uint2..uint7.\n"
            "Blocks that share scales: mxfp8, mxfp6, mxfp4, mxint8, nvfp4, mx(e4m3,32) and the like; their values are one line of blocks.",
        .examples = "  qsync format bf16 3.14159\n  qsync format 'fp(4,3,4)' --rounding floor -- 1.1 -1.1\n  seq 10 | qsync format e4m3fn "
                    "- --json\n  qsync format mxfp4 1 2 3 100\n",
        .most = INT_MAX};
    bool done = false;
    int first = 0;
    rounder one = {0};
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(qs_rounding_find(one.rounding_name, &one.rounding));
    QS_TRY(qs_overflow_find(one.overflow_name, &one.overflow));
    one.key = qs_random_key((uint64_t)one.seed, 0, 0, 0);
    if (first == argc) return names_print(one.json);
    if (qs_block_format_claims(argv[first])) {
        const qs_block_format *format = NULL;
        QS_TRY(qs_block_format_find(argv[first], &format));
        if (one.overflow != QS_OVERFLOW_DEFAULT)
            return qs_fail(QS_USAGE, "--overflow %s: elements of %s always saturate; leave the option out", one.overflow_name,
                           format->name);
        return block_round(&one, format, argc - first - 1, argv + first + 1);
    }
    QS_TRY(qs_format_find(argv[first], &one.format));
    if (one.format->kind == QS_KIND_INTEGER && one.overflow != QS_OVERFLOW_DEFAULT)
        return qs_fail(QS_USAGE, "--overflow %s: %s is an integer and always saturates; leave the option out", one.overflow_name,
                       one.format->name);
    return values_round(&one, argc, argv, first + 1);
}
