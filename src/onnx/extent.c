// SPDX-License-Identifier: Apache-2.0
/* Integers that depend on the batch and a length: polynomials in N and L of the powers that shapes have. */
#include <inttypes.h>
#include <string.h>

#include "onnx_internal.h"

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
    const qs_onnx_extent batch = {.term = {{0}, {1}}};
    return qs_onnx_extent_equal(extent, &batch);
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
