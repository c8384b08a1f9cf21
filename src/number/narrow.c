// SPDX-License-Identifier: Apache-2.0
/* Narrow accumulators as data: checks, texts, and texts read back. */
#include "number_room.h"

#include <inttypes.h>
#include <stdio.h>

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

/* ---- Reading ---- */

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
