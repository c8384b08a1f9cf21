// SPDX-License-Identifier: Apache-2.0
/* Shapes by value: making, comparing, printing and the one size check that keeps every later product of extents free of overflow. */
#include "qsync/tensor.h"

#include <assert.h>
#include <inttypes.h>

/* 2^40 elements of 4 bytes are 4 TiB: far above any machine, far below int64 even after small products. */
static const int64_t most_elements = (int64_t)1 << 40;

qs_shape qs_shape_make(const int64_t axes_and_extents[QS_MAX_AXES + 1]) {
    assert(axes_and_extents[0] >= 0 && axes_and_extents[0] <= QS_MAX_AXES);
    qs_shape shape = {.axes = (int)axes_and_extents[0]};
    for (int i = 0; i < shape.axes; i++) {
        shape.dim[i] = axes_and_extents[1 + i];
    }
    return shape;
}

int64_t qs_shape_count(const qs_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->axes; i++) {
        count *= shape->dim[i];
    }
    return count;
}

bool qs_shape_equal(const qs_shape *a, const qs_shape *b) {
    if (a->axes != b->axes) return false;
    for (int i = 0; i < a->axes; i++) {
        if (a->dim[i] != b->dim[i]) return false;
    }
    return true;
}

const char *qs_shape_text(const qs_shape *shape, char *buffer) {
    char *at = buffer;
    *at++ = '[';
    for (int i = 0; i < shape->axes; i++) {
        at += sprintf(at, i ? ",%" PRId64 : "%" PRId64, shape->dim[i]);
    }
    *at++ = ']';
    *at = '\0';
    return buffer;
}

qs_status qs_shape_check(const qs_shape *shape, const char *what) {
    if (shape->axes < 0 || shape->axes > QS_MAX_AXES) {
        return qs_fail(QS_USAGE, "%s has %d axes: 0 to %d are possible", what, shape->axes, QS_MAX_AXES);
    }
    char text[96];
    int64_t count = 1;
    for (int i = 0; i < shape->axes; i++) {
        if (shape->dim[i] < 1) return qs_fail(QS_USAGE, "%s is %s: every extent must be at least 1", what, qs_shape_text(shape, text));
        if (shape->dim[i] > most_elements / count) {
            return qs_fail(QS_USAGE, "%s is %s: more than 2^40 elements", what, qs_shape_text(shape, text));
        }
        count *= shape->dim[i];
    }
    return QS_OK;
}

size_t qs_tensor_bytes(const qs_shape *shape, const qs_format *format) {
    return qs_format_bytes(format, qs_shape_count(shape));
}
