// SPDX-License-Identifier: Apache-2.0
/* Integers that depend on the batch and a length: polynomials in N and L of the powers that shapes have. */
#include <inttypes.h>
#include <string.h>

#include "onnx_internal.h"

const qs_onnx_extent qs__extent_unknown = {.term = {{0}, {0, 0, INT64_MIN}}}, qs__extent_batch = {.term = {{0}, {1}}},
                     qs__extent_length = {.term = {{0, 1}, {0}}};

bool qs_onnx_extent_is_known(const qs_onnx_extent *extent) {
    return extent->term[1][2] != INT64_MIN;
}

qs_onnx_extent qs_onnx_extent_of(int64_t value) {
    return (qs_onnx_extent){.term = {{value}}};
}

bool qs_onnx_extent_equal(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

bool qs_onnx_extent_is_fixed(const qs_onnx_extent *extent, int64_t *value) {
    const qs_onnx_extent fixed = qs_onnx_extent_of(extent->term[0][0]);
    if (!qs_onnx_extent_equal(extent, &fixed)) return false;
    if (value) *value = extent->term[0][0];
    return true;
}

bool qs_onnx_extent_is_batch(const qs_onnx_extent *extent) {
    return qs_onnx_extent_equal(extent, &qs__extent_batch);
}

bool qs_onnx_extent_has_batch(const qs_onnx_extent *extent) {
    return qs_onnx_extent_is_known(extent) && (extent->term[1][0] != 0 || extent->term[1][1] != 0 || extent->term[1][2] != 0);
}

int64_t qs_onnx_extent_at(const qs_onnx_extent *extent, int64_t batch, int64_t length) {
    uint64_t sum = 0; /* wraps, like the arithmetic of ONNX */
    for (int n = 1; n >= 0; n--) {
        uint64_t row = 0;
        for (int l = 2; l >= 0; l--)
            row = row * (uint64_t)length + (uint64_t)extent->term[n][l];
        sum = sum * (uint64_t)batch + row;
    }
    return (int64_t)sum;
}

const char *qs_onnx_extent_text(const qs_onnx_extent *extent, char text[QS_ONNX_EXTENT_TEXT]) {
    static const char *const powers[2][3] = {{"", "L", "L^2"}, {"N", "N L", "N L^2"}};
    size_t used = 0;
    if (!qs_onnx_extent_is_known(extent)) {
        snprintf(text, QS_ONNX_EXTENT_TEXT, "?");
        return text;
    }
    text[0] = '\0';
    for (int n = 1; n >= 0; n--)
        for (int l = 2; l >= 0; l--) {
            const int64_t factor = extent->term[n][l];
            if (factor == 0 || used >= QS_ONNX_EXTENT_TEXT) continue;
            const char *plus = used ? " + " : "", *blank = *powers[n][l] ? " " : "";
            const int put = factor == 1 && *blank
                                ? snprintf(text + used, QS_ONNX_EXTENT_TEXT - used, "%s%s", plus, powers[n][l])
                                : snprintf(text + used, QS_ONNX_EXTENT_TEXT - used, "%s%" PRId64 "%s%s", plus, factor, blank, powers[n][l]);
            used += (size_t)put;
        }
    if (used == 0) snprintf(text, QS_ONNX_EXTENT_TEXT, "0");
    return text;
}

/* a + factor × b, term by term. */
static qs_onnx_extent combine(const qs_onnx_extent *a, const qs_onnx_extent *b, int64_t factor) {
    qs_onnx_extent sum = *a;
    if (!qs_onnx_extent_is_known(a) || !qs_onnx_extent_is_known(b)) return qs__extent_unknown;
    for (int n = 0; n < 2; n++)
        for (int l = 0; l < 3; l++) {
            int64_t scaled;
            if (__builtin_mul_overflow(b->term[n][l], factor, &scaled) || __builtin_add_overflow(sum.term[n][l], scaled, &sum.term[n][l]))
                return qs__extent_unknown;
        }
    return sum;
}

qs_onnx_extent qs__extent_add(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    return combine(a, b, 1);
}

qs_onnx_extent qs__extent_subtract(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    return combine(a, b, -1);
}

qs_onnx_extent qs__extent_multiply(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    qs_onnx_extent product = {.term = {{0}, {0}}};
    if (!qs_onnx_extent_is_known(a) || !qs_onnx_extent_is_known(b)) return qs__extent_unknown;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            const int n = i / 3 + k / 3, l = i % 3 + k % 3;
            int64_t term;
            if (a->term[i / 3][i % 3] == 0 || b->term[k / 3][k % 3] == 0) continue;
            if (n > 1 || l > 2 || __builtin_mul_overflow(a->term[i / 3][i % 3], b->term[k / 3][k % 3], &term) ||
                __builtin_add_overflow(product.term[n][l], term, &product.term[n][l]))
                return qs__extent_unknown;
        }
    return qs_onnx_extent_is_known(&product) ? product : qs__extent_unknown;
}

/* The quotient is found from its highest power down, as with numbers on paper. */
qs_onnx_extent qs__extent_divide(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    qs_onnx_extent rest = *a, quotient = {.term = {{0}, {0}}};
    if (!qs_onnx_extent_is_known(a) || !qs_onnx_extent_is_known(b)) return qs__extent_unknown;
    int lead = 5;
    while (lead >= 0 && b->term[lead / 3][lead % 3] == 0)
        lead--;
    if (lead < 0) return qs__extent_unknown;
    const int64_t divisor = b->term[lead / 3][lead % 3];
    for (int i = 5; i >= 0; i--) {
        const int n = i / 3 - lead / 3, l = i % 3 - lead % 3;
        const int64_t term = rest.term[i / 3][i % 3];
        if (term == 0) continue;
        if (n < 0 || l < 0 || (divisor == -1 && term == INT64_MIN) || term % divisor != 0) return qs__extent_unknown;
        qs_onnx_extent part = {.term = {{0}, {0}}};
        part.term[n][l] = term / divisor;
        const qs_onnx_extent taken = qs__extent_multiply(&part, b);
        rest = qs__extent_subtract(&rest, &taken);
        quotient = qs__extent_add(&quotient, &part);
        if (!qs_onnx_extent_is_known(&rest) || rest.term[i / 3][i % 3] != 0) return qs__extent_unknown;
    }
    return quotient;
}

qs_onnx_extent qs__extent_of_one_sample(const qs_onnx_extent *extent) {
    qs_onnx_extent samples = {.term = {{0}, {0}}}, rest = *extent; /* what N is a factor of, and what not */
    if (!qs_onnx_extent_is_known(extent)) return *extent;
    for (int l = 0; l < 3; l++) {
        samples.term[0][l] = extent->term[1][l];
        rest.term[1][l] = 0;
    }
    return qs__extent_add(&samples, &rest);
}

bool qs__extent_compare(const qs_onnx_extent *a, const qs_onnx_extent *b, int *order) {
    const qs_onnx_extent difference = qs__extent_subtract(a, b);
    int64_t at_one = 0;
    bool rises = true, falls = true;
    if (!qs_onnx_extent_is_known(&difference)) return false;
    for (int i = 0; i < 6; i++) {
        const int64_t term = difference.term[i / 3][i % 3];
        rises = rises && (i == 0 || term >= 0);
        falls = falls && (i == 0 || term <= 0);
        if (__builtin_add_overflow(at_one, term, &at_one)) return false;
    }
    *order = (at_one > 0) - (at_one < 0);
    /* The difference is at_one where N and L are 1, and from there on goes one way: its sign stays unless that is toward zero. */
    return (rises && falls) || (rises && at_one > 0) || (falls && at_one < 0);
}
