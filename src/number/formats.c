// SPDX-License-Identifier: Apache-2.0
/* The registry of formats: names are looked up in the list of named float formats, then handed to the families; the descriptor found is
 * interned, so that equal formats are one pointer. Descriptors live as long as the process. */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

enum { FP32_BIAS = 127, FP32_TOP_EXPONENT = 127, FP32_MIN_EXPONENT = -126, CODE_BITS_LIMIT = 32 };

typedef struct named_format {
    const char *name;
    qs_specials specials;
    int exponent_bits, mantissa_bits, bits;
} named_format;

#define QS_FORMAT(name, specials, exponent_bits, mantissa_bits, bits) {#name, specials, exponent_bits, mantissa_bits, bits},
#define QS_FORMAT_FAMILY(name, syntax)
static const named_format named_formats[] = {
#include "formats.def"
};
#undef QS_FORMAT
#undef QS_FORMAT_FAMILY

#define QS_FORMAT(name, specials, exponent_bits, mantissa_bits, bits)
#define QS_FORMAT_FAMILY(name, syntax) &qs__format_family_##name,
static const qs__format_family *const families[] = {
#include "formats.def"
};
#undef QS_FORMAT_FAMILY
#define QS_FORMAT_FAMILY(name, syntax) syntax,
static const char *const family_syntaxes[] = {
#include "formats.def"
};
#undef QS_FORMAT
#undef QS_FORMAT_FAMILY

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

typedef struct interned {
    qs_format format;
    struct interned *next;
} interned;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static interned *registry;

/* Without the added bias: 2^(e-1) - 1 (docs/method.md eq. (2.1)). */
static int standard_bias(int exponent_bits) {
    return (1 << (exponent_bits - 1)) - 1;
}

qs_status qs__format_fill_float(qs_specials specials, int exponent_bits, int mantissa_bits, int bias, qs_format *out) {
    int whole_bias = standard_bias(exponent_bits) + bias;
    int smallest = 1 - whole_bias;
    int largest = (1 << exponent_bits) - (specials == QS_SPECIALS_IEEE ? 2 : 1) - whole_bias;
    /* One exponent above fp32 is let through so that fp(8,m) exists: its last binade cannot be carried and is never produced. */
    int above = largest - FP32_TOP_EXPONENT - (smallest < largest);
    if (smallest < FP32_MIN_EXPONENT || above > 0) {
        return qs_fail(QS_USAGE, "exponents %d to %d leave fp32's range (-126 to 127), in which values are carried; change the bias by %d",
                       smallest, largest, smallest < FP32_MIN_EXPONENT ? smallest - FP32_MIN_EXPONENT : above);
    }
    if (largest > FP32_TOP_EXPONENT) largest = FP32_TOP_EXPONENT;
    double epsilon = ldexp(1.0, -mantissa_bits);
    /* `fn` gives up the very last code for its NaN. */
    double top = specials == QS_SPECIALS_FN ? 2.0 - 2.0 * epsilon : 2.0 - epsilon;
    out->kind = QS_KIND_FLOAT;
    out->bits = 1 + exponent_bits + mantissa_bits;
    out->exponent_bits = exponent_bits;
    out->mantissa_bits = mantissa_bits;
    out->bias = bias;
    out->specials = specials;
    out->max = ldexp(top, largest);
    out->min_normal = ldexp(1.0, smallest);
    out->min_subnormal = ldexp(epsilon, smallest);
    out->epsilon = epsilon;
    return QS_OK;
}

int qs__format_min_field(const qs_format *format) {
    return 1 - standard_bias(format->exponent_bits) - format->bias + FP32_BIAS;
}

qs__float_plan qs__float_plan_of(const qs_format *format) {
    assert(format->kind == QS_KIND_FLOAT);
    int e = format->exponent_bits;
    int m = format->mantissa_bits;
    int field = qs__format_min_field(format);
    qs__float_plan plan = {
        .shift = 23 - m,
        .min_field = field,
        .min_bits = field << 23,
        .max_bits = (int32_t)qs__bits_of((float)format->max),
        .mantissa_bits = m,
        .magnitude_bits = e + m,
        .special_code = INT32_MAX,
        .step = (float)format->min_subnormal,
        .specials = format->specials,
    };
    if (format->specials == QS_SPECIALS_IEEE) plan.special_code = ((1 << e) - 1) << m;
    if (format->specials == QS_SPECIALS_FN) plan.special_code = (int32_t)((1u << (e + m)) - 1);
    /* The binade above fp32 (fp(8,m) only). */
    if (format->specials == QS_SPECIALS_NONE && (1 << e) - 1 + field - 1 >= 255) plan.special_code = (256 - field) << m;
    int32_t last_code = (int32_t)((1u << (e + m)) - 1);
    plan.infinity_code = plan.special_code < last_code ? plan.special_code : last_code;
    plan.nan_code = plan.infinity_code | (format->specials == QS_SPECIALS_IEEE ? 1 << m >> 1 : 0);
    bool ieee = format->specials == QS_SPECIALS_IEEE && format->bias == 0;
    plan.bfloat = ieee && e == 8 && m == 7;
    plan.half = ieee && e == 5 && m == 10;
    return plan;
}

static const char *listed_name(size_t index) {
    const char *name = qs_format_name_at(index);
    if (name) return name;
    size_t plain = 0;
    while (qs_format_name_at(plain)) {
        plain++;
    }
    return qs_format_family_syntax_at(index - plain);
}

static qs_status parse_format(const char *name, qs_format *out) {
    for (size_t i = 0; i < COUNT_OF(named_formats); i++) {
        const named_format *named = &named_formats[i];
        if (strcmp(name, named->name) != 0) continue;
        strcpy(out->name, named->name);
        QS_TRY(qs__format_fill_float(named->specials, named->exponent_bits, named->mantissa_bits, 0, out));
        out->bits = named->bits;
        return QS_OK;
    }
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        if (families[i]->claims(name)) return qs_fail_within(families[i]->parse(name, out), "format '%s'", name);
    }
    size_t count = 0;
    while (listed_name(count))
        count++;
    return qs_fail(QS_USAGE, "format '%s' does not exist; there are %s", name, qs_names_join(count, listed_name));
}

static const qs_format *find_interned(const char *name) {
    for (const interned *entry = registry; entry; entry = entry->next) {
        if (strcmp(entry->format.name, name) == 0) return &entry->format;
    }
    return NULL;
}

/* A format has one name of its own, but may be asked for by others: "fp(4,3)" is fp(4,3,0). */
qs_status qs_format_find(const char *name, const qs_format **out) {
    qs_status status = QS_OK;
    pthread_mutex_lock(&registry_lock);
    const qs_format *found = find_interned(name);
    if (!found) {
        qs_format parsed = {.bits = 0};
        QS_GOTO(parse_format(name, &parsed));
        found = find_interned(parsed.name);
        if (!found) {
            interned *entry = NULL;
            QS_GOTO(qs_allocate(1, sizeof *entry, &entry));
            entry->format = parsed;
            entry->next = registry;
            registry = entry;
            found = &entry->format;
        }
    }
    *out = found;
done:
    pthread_mutex_unlock(&registry_lock);
    return status;
}

const qs_format *qs_format_of(const char *name) {
    const qs_format *format = NULL;
    qs_status status = qs_format_find(name, &format);
    assert(status == QS_OK);
    (void)status;
    return format;
}

size_t qs_format_bytes(const qs_format *format, int64_t count) {
    assert(count >= 0);
    if (format->kind == QS_KIND_INTEGER) return (size_t)count;
    /* Whole bytes of eights first: count × bits may pass 2^63. */
    size_t rest = (size_t)(count % 8) * (size_t)format->bits;
    return (size_t)(count / 8) * (size_t)format->bits + (rest + 7) / 8;
}

double qs_format_lowest(const qs_format *format) {
    return format->is_unsigned ? 0 : -format->max;
}

bool qs_format_at_least(const qs_format *a, const qs_format *b) {
    if (a->kind != b->kind) return a->kind == QS_KIND_FLOAT;
    if (a->kind == QS_KIND_INTEGER) return a->bits >= b->bits;
    if (a->mantissa_bits != b->mantissa_bits) return a->mantissa_bits > b->mantissa_bits;
    return a->exponent_bits >= b->exponent_bits;
}

const char *qs_format_name_at(size_t index) {
    if (index < COUNT_OF(named_formats)) return named_formats[index].name;
    index -= COUNT_OF(named_formats);
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        size_t names = 0;
        while (families[i]->name(names)) {
            names++;
        }
        if (index < names) return families[i]->name(index);
        index -= names;
    }
    return NULL;
}

const char *qs_format_family_syntax_at(size_t index) {
    return index < COUNT_OF(family_syntaxes) ? family_syntaxes[index] : NULL;
}

const char *qs_specials_name(qs_specials specials) {
    static const char *const names[] = {[QS_SPECIALS_NONE] = "none", [QS_SPECIALS_IEEE] = "ieee", [QS_SPECIALS_FN] = "fn"};
    return names[specials];
}
