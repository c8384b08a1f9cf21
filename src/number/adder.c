// SPDX-License-Identifier: Apache-2.0
/* Narrow accumulators: the adders by name, checks, texts and texts read back; and one addition at a time, the reference. All its steps are
 * exact in doubles but the one rounding that an adder is named for; where a sum of two operands does not fit, it is rounded to odd, which
 * no later rounding to QS_WIDEST_ADDER bits can tell from it (Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved
 * algorithms using rounding to odd, 2008). */
#include "number_room.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct qs_adder {
    const char *name, *summary;
    double (*add)(const qs_narrow *narrow, double a, double b, uint32_t random);
    qs__adder_lanes lanes;
};

#define QS_ADDER(name, text, summary) static double add_##name(const qs_narrow *narrow, double a, double b, uint32_t random);
#include "adders.def"
#undef QS_ADDER

static const qs_adder adders[] = {
#define QS_ADDER(name, text, summary) {text, summary, add_##name, qs__adder_lanes_##name},
#include "adders.def"
#undef QS_ADDER
};

size_t qs_adder_count(void) {
    return sizeof adders / sizeof *adders;
}

const qs_adder *qs_adder_at(size_t index) {
    return index < qs_adder_count() ? &adders[index] : NULL;
}

const char *qs_adder_name(const qs_adder *adder) {
    return adder->name;
}

const char *qs_adder_summary(const qs_adder *adder) {
    return adder->summary;
}

static const char *name_at(size_t index) {
    return adders[index].name;
}

qs_status qs_adder_find(const char *name, const qs_adder **out) {
    for (size_t i = 0; i < qs_adder_count(); i++)
        if (strcmp(adders[i].name, name) == 0) {
            *out = &adders[i];
            return QS_OK;
        }
    return qs_fail(QS_USAGE, "no adder \"%s\": there is %s", name, qs_names_join(qs_adder_count(), name_at));
}

/* ---- Accumulators as data ---- */

qs_status qs_narrow_check(const qs_narrow *narrow) {
    if (!narrow->adder) return qs_fail(QS_USAGE, "a narrow accumulator without an adder: qs_adder_find gives one");
    if (narrow->mantissa_bits < 1 || narrow->mantissa_bits > QS_WIDEST_ADDER)
        return qs_fail(QS_USAGE, "an accumulator of %d mantissa bits: adders have 1 to %d", narrow->mantissa_bits, QS_WIDEST_ADDER);
    if (narrow->exponent_bits < 2 || narrow->exponent_bits > QS_MOST_EXPONENT_BITS)
        return qs_fail(QS_USAGE, "an accumulator of %d exponent bits: adders have 2 to %d", narrow->exponent_bits, QS_MOST_EXPONENT_BITS);
    if (narrow->product_bits < 0 || narrow->product_bits > QS_WIDEST_ADDER)
        return qs_fail(QS_USAGE, "products of %d mantissa bits: 1 to %d, or 0 for exact ones", narrow->product_bits, QS_WIDEST_ADDER);
    if (narrow->chunk != 0 && (narrow->chunk < 2 || narrow->chunk > QS_LARGEST_CHUNK))
        return qs_fail(QS_USAGE, "chunks of %lld: 2 to 2^30, or 0 for a sum without chunks", (long long)narrow->chunk);
    return QS_OK;
}

bool qs_narrow_equal(const qs_narrow *a, const qs_narrow *b) {
    return a->adder == b->adder && a->exponent_bits == b->exponent_bits && a->mantissa_bits == b->mantissa_bits &&
           a->product_bits == b->product_bits && a->chunk == b->chunk;
}

const char *qs_narrow_text(const qs_narrow *narrow, char *text) {
    char chunk[32] = "", product[24] = "";
    if (!narrow->adder) {
        snprintf(text, QS_NARROW_TEXT, "fp32");
        return text;
    }
    if (narrow->chunk) snprintf(chunk, sizeof chunk, "/chunk%" PRId64, narrow->chunk);
    if (narrow->product_bits) snprintf(product, sizeof product, "/product(%d)", narrow->product_bits);
    snprintf(text, QS_NARROW_TEXT, "fp(%d,%d)%s%s/%s", narrow->exponent_bits, narrow->mantissa_bits, chunk, product,
             qs_adder_name(narrow->adder));
    return text;
}

#define QS_NARROW_SYNTAX "fp32, or fp(e,m)[/chunkN][/product(p)]/ADDER"

static bool take(const char **at, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0) return false;
    *at += length;
    return true;
}

/* A number of at most 12 digits. */
static bool take_number(const char **at, int64_t *out) {
    const char *first = *at;
    for (*out = 0; **at >= '0' && **at <= '9' && *at - first < 12; ++*at)
        *out = *out * 10 + (**at - '0');
    return *at > first;
}

static int bounded(int64_t number) {
    return number < INT32_MAX ? (int)number : INT32_MAX;
}

qs_status qs_narrow_find(const char *text, qs_narrow *out) {
    const char *at = text;
    char canonical[QS_NARROW_TEXT];
    int64_t exponent = 0, mantissa = 0, product = 0;
    qs_narrow narrow = {0};
    if (strcmp(text, "fp32") == 0) {
        *out = narrow;
        return QS_OK;
    }
    const bool spelt = take(&at, "fp(") && take_number(&at, &exponent) && take(&at, ",") && take_number(&at, &mantissa) && take(&at, ")") &&
                       (!take(&at, "/chunk") || (take_number(&at, &narrow.chunk) && narrow.chunk > 0)) &&
                       (!take(&at, "/product(") || (take_number(&at, &product) && product > 0 && take(&at, ")"))) && take(&at, "/");
    if (!spelt) return qs_fail(QS_USAGE, "accumulator '%.64s': the form is " QS_NARROW_SYNTAX, text);
    narrow.exponent_bits = bounded(exponent);
    narrow.mantissa_bits = bounded(mantissa);
    narrow.product_bits = bounded(product);
    qs_status status = qs_adder_find(at, &narrow.adder);
    if (status == QS_OK) status = qs_narrow_check(&narrow);
    if (status == QS_OK && strcmp(qs_narrow_text(&narrow, canonical), text) != 0) status = qs_fail(QS_USAGE, "write it %s", canonical);
    if (status != QS_OK) return qs_fail_within(status, "accumulator '%.64s'", text);
    *out = narrow;
    return QS_OK;
}

/* ---- The format ------------------------------------------------------------------------------------------------------------ */

static int bias_of(const qs_narrow *narrow) {
    return (1 << (narrow->exponent_bits - 1)) - 1;
}

double qs_narrow_largest(const qs_narrow *narrow) {
    return ldexp(2 - ldexp(1, -narrow->mantissa_bits), bias_of(narrow));
}

/* The last place of values as large as x, subnormal ones included. */
static double last_place(const qs_narrow *narrow, double x) {
    const int lowest = 1 - bias_of(narrow), exponent = x == 0 ? lowest : ilogb(x);
    return ldexp(1, (exponent > lowest ? exponent : lowest) - narrow->mantissa_bits);
}

/* A zero is a positive one. */
static double saturated(const qs_narrow *narrow, double magnitude, double sign) {
    return copysign(fmin(magnitude, qs_narrow_largest(narrow)), sign) + 0.0;
}

/* a + b; where it does not fit a double, the one of its two neighbours whose last bit is set. */
static double sum_to_odd(double a, double b) {
    const double sum = a + b, of_b = sum - a, rest = (a - (sum - of_b)) + (b - of_b);
    int64_t bits;
    if (rest == 0 || !isfinite(sum)) return sum;
    memcpy(&bits, &sum, sizeof bits);
    return bits & 1 ? sum : nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
}

/* ---- The adders --------------------------------------------------------------------------------------------------------------- */

/* Whether `part`, in [0, 1), of a last place above `whole` of them is rounded up. */
typedef bool (*rounding)(double whole, double part, uint32_t random);

static bool up_nearest(double whole, double part, uint32_t random) {
    (void)random;
    return part > 0.5 || (part == 0.5 && fmod(whole, 2) == 1);
}

static bool up_never(double whole, double part, uint32_t random) {
    (void)whole, (void)part, (void)random;
    return false;
}

static bool up_by_chance(double whole, double part, uint32_t random) {
    (void)whole;
    return part + ((double)(random >> 16) + 0.5) * 0x1p-16 >= 1;
}

static double rounded(const qs_narrow *narrow, double sum, rounding up, uint32_t random) {
    if (!isfinite(sum)) return NAN;
    const double place = last_place(narrow, sum), count = fabs(sum) / place, whole = floor(count);
    return saturated(narrow, (whole + up(whole, count - whole, random)) * place, sum);
}

static double add_nearest_even(const qs_narrow *narrow, double a, double b, uint32_t random) {
    return rounded(narrow, sum_to_odd(a, b), up_nearest, random);
}

static double add_toward_zero(const qs_narrow *narrow, double a, double b, uint32_t random) {
    return rounded(narrow, sum_to_odd(a, b), up_never, random);
}

/* To nearest, QS_GUARDED_PLACES behind the leading one. */
static double guarded(const qs_narrow *narrow, double sum) {
    if (!isfinite(sum) || narrow->mantissa_bits > QS_WIDEST_GUARDED) return sum;
    const double guard = ldexp(last_place(narrow, sum), narrow->mantissa_bits - QS_GUARDED_PLACES);
    return rint(sum / guard) * guard;
}

static double add_stochastic(const qs_narrow *narrow, double a, double b, uint32_t random) {
    return rounded(narrow, guarded(narrow, sum_to_odd(a, b)), up_by_chance, random);
}

/* The magnitude's low bits are dropped, of the smaller operand and, behind a carry, of the sum. */
static double add_align_truncate(const qs_narrow *narrow, double a, double b, uint32_t random) {
    if (!isfinite(a) || !isfinite(b)) return NAN;
    const double large = fabs(a) >= fabs(b) ? a : b, small = fabs(a) >= fabs(b) ? b : a, place = last_place(narrow, large);
    return rounded(narrow, large + trunc(small / place) * place, up_never, random);
}

double qs_narrow_add(const qs_narrow *narrow, double a, double b, uint32_t random) {
    return narrow->adder->add(narrow, a, b, random);
}

/* ---- Sums ---------------------------------------------------------------------------------------------------------------------- */

double qs_product_round(double product, int bits) {
    if (bits == 0 || product == 0 || !isfinite(product)) return product;
    const int exponent = ilogb(product) - bits;
    return ldexp(rint(ldexp(product, -exponent)), exponent);
}

uint32_t qs_narrow_draw(const qs_narrow_draws *draws, int64_t addition) {
    const uint32_t pair = qs_random_bits(draws->key, draws->first + (uint64_t)(addition / 2) * draws->stride);
    return addition % 2 ? pair : pair << 16;
}

int64_t qs_narrow_second_stage(int64_t length) {
    return (length + 1) / 2 * 2;
}

double qs_narrow_dot(const qs_narrow *narrow, int64_t length, const float *x, int64_t x_step, const float *y, int64_t y_step,
                     const qs_narrow_draws *draws) {
    const int64_t chunk = narrow->chunk && narrow->chunk < length ? narrow->chunk : length, second = qs_narrow_second_stage(length);
    double total = 0;
    for (int64_t first = 0; first < length; first += chunk) {
        const int64_t end = length - first > chunk ? first + chunk : length;
        double sum = 0;
        for (int64_t i = first; i < end; i++) {
            const double product = qs_product_round((double)x[i * x_step] * (double)y[i * y_step], narrow->product_bits);
            sum = qs_narrow_add(narrow, sum, product, qs_narrow_draw(draws, i));
        }
        total = chunk < length ? qs_narrow_add(narrow, total, sum, qs_narrow_draw(draws, second + first / chunk)) : sum;
    }
    return total;
}

void qs_narrow_lanes(const qs_adder *adder, int mantissa_bits, int64_t count, const double *addends, double *sums, const uint64_t *keys,
                     uint32_t counter) {
    adder->lanes(mantissa_bits, count, addends, sums, keys, counter);
}
