// SPDX-License-Identifier: Apache-2.0
/* Operands that have one element for several of a value: how they lie against it, sums over what they stand for, and the parameters of
 * gain, offset and prelu. */
#include "broadcast.h"

#include <math.h>
#include <stdlib.h>

/* Axis N, H, W or C of a shape; beyond its last axis 1. */
static int64_t extent_of(const qs_shape *shape, int place) {
    static const int axis[4] = {0, 2, 3, 1};
    return axis[place] < shape->axes ? shape->dim[axis[place]] : 1;
}

static qs_broadcast broadcast_of(const qs_shape *whole, const qs_shape *part) {
    qs_broadcast map;
    int64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        map.extent[i] = extent_of(whole, i);
        map.step[i] = extent_of(part, i) == 1 ? 0 : step;
        step *= extent_of(part, i);
    }
    return map;
}

qs_status qs__need_broadcast(const char *name, const qs_shape *whole, const qs_shape *part) {
    char wide[96], narrow[96];
    bool fits = whole->axes >= 2 && part->axes >= 2 && part->axes <= whole->axes;
    for (int i = 0; i < 4 && fits; i++)
        fits = extent_of(part, i) == 1 || extent_of(part, i) == extent_of(whole, i);
    if (fits) return QS_OK;
    return qs_fail(QS_USAGE, "%s: %s does not broadcast to %s: its extents must be the same or 1", name, qs_shape_text(part, narrow),
                   qs_shape_text(whole, wide));
}

/* ---- gain, offset, prelu ---- */

/* The parameter as a value that broadcasts to one of shape `src`. */
static qs_shape over_part(const qs_attributes *with, const qs_shape *src) {
    qs_shape part = *src;
    const int over = (int)with->over;
    for (int axis = 0; axis < part.axes; axis++)
        if (axis == 0 || (axis == 1 && over >= 2) || (axis >= 2 && (over == 0 || over == 2))) part.dim[axis] = 1;
    return part;
}

qs_status qs__over_shape(const char *name, const qs_attributes *with, const qs_shape *src, qs_shape *out) {
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "%s: input %s needs the axes N,C, N,C,L or N,C,H,W", name, qs_shape_text(src, text));
    if (with->over != 0 && with->over != 1 && with->over != 2 && with->over != 3)
        return qs_fail(QS_USAGE, "%s: over is %g, must be 0 (channels), 1 (positions and channels), 2 (nothing) or 3 (positions)", name,
                       with->over);
    const int64_t positions = qs_shape_count(src) / src->dim[0] / src->dim[1];
    *out = with->over == 1 ? qs_shape_of(2, positions, src->dim[1])
                           : qs_shape_of(1, with->over == 0   ? src->dim[1]
                                            : with->over == 2 ? (int64_t)1
                                                              : positions);
    return QS_OK;
}

bool qs__over_takes_all(const qs_attributes *with) {
    return with->over == 1 || with->over == 3;
}

qs_status qs__over_check(const qs_case *one) {
    const qs_shape *src = &one->operand[0].shape;
    qs_shape parameter;
    QS_TRY(qs__over_shape(one->op->name, &one->attributes, src, &parameter));
    for (int i = 1; i < one->operands; i++) {
        const qs_role role = one->operand[i].role;
        const bool learned = role == QS_SCALE || role == QS_SHIFT || role == QS_DIFF_SCALE || role == QS_DIFF_SHIFT;
        if (role != QS_ABSMAX) QS_TRY(qs__need_shape(one, role, learned ? parameter : *src));
    }
    return qs_case_position(one, QS_ABSMAX) < 0 ? QS_OK : qs__check_absmax(one);
}

/* ---- Of a case ---- */

/* Of a role and its gradient the one that the case has; NULL: it has neither. */
static const qs_shape *shape_of(const qs_case *one, qs_role value, qs_role gradient) {
    const int at = qs_case_position(one, value), other = qs_case_position(one, gradient);
    return at >= 0 ? &one->operand[at].shape : other >= 0 ? &one->operand[other].shape : NULL;
}

qs_broadcast qs_case_broadcast(const qs_case *one) {
    const qs_shape *src = shape_of(one, QS_SRC, QS_DIFF_SRC), *dst = shape_of(one, QS_DST, QS_DIFF_DST),
                   *second = shape_of(one, QS_SRC2, QS_DIFF_SRC2);
    if (!src) src = dst;
    const bool wider = qs_shape_count(dst) > qs_shape_count(src);
    const qs_shape *whole = wider ? dst : src, *other = wider ? src : dst;
    const bool learns = shape_of(one, QS_SCALE, QS_DIFF_SCALE) || shape_of(one, QS_SHIFT, QS_DIFF_SHIFT);
    const qs_shape part = learns ? over_part(&one->attributes, whole) : second ? *second : *other;
    return broadcast_of(whole, &part);
}

/* ---- Reference ---- */

int64_t qs__broadcast_place(const qs_broadcast *map, int64_t i) {
    int64_t place = 0;
    for (int axis = 3; axis >= 0; axis--) {
        place += i % map->extent[axis] * map->step[axis];
        i /= map->extent[axis];
    }
    return place;
}

static int64_t count_of(const qs_broadcast *map) {
    return map->extent[0] * map->extent[1] * map->extent[2] * map->extent[3];
}

double qs__broadcast_product(double a, double b) {
    return a * b;
}

double qs__broadcast_first(double a, double b) {
    (void)b;
    return a;
}

double qs__broadcast_second(double a, double b) {
    (void)a;
    return b;
}

qs_status qs__broadcast_apply(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role part, qs_role to, qs__pair function) {
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = count_of(&map);
    float *values = NULL, *each = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, part), &each));
    if (from == QS_ROLE_COUNT)
        QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values)); /* zeros */
    else
        QS_GOTO(qs__read(qs__operand(one, operands, from), &values));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)function((double)values[i], (double)each[qs__broadcast_place(&map, i)]);
    qs__write(qs__operand(one, operands, to), values);
done:
    free(values);
    free(each);
    return status;
}

qs_status qs__broadcast_sum(const qs_case *one, const qs_tensor *operands, qs_role a, qs_role b, qs_role to, qs__pair function) {
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = count_of(&map);
    float *left = NULL, *right = NULL;
    double *sum = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, a), &left));
    if (b != QS_ROLE_COUNT) QS_GOTO(qs__read(qs__operand(one, operands, b), &right));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, to)), sizeof *sum, &sum)); /* zeros */
    for (int64_t i = 0; i < count; i++)
        sum[qs__broadcast_place(&map, i)] += function((double)left[i], right ? (double)right[i] : 0);
    status = qs__write_double(qs__operand(one, operands, to), sum);
done:
    free(left);
    free(right);
    free(sum);
    return status;
}
