// SPDX-License-Identifier: Apache-2.0
/* The rules a case is checked by: presence, extents and formats of every operand by role here, relations between operands in the check
 * function of each pass, built from the helpers below. */
#include "internal.h"

#include "qsync/blocks.h"

#include "qsync/attention.h"

#include <assert.h>
#include <math.h>

static const qs_operand *operand_of(const qs_case *one, qs_role role) {
    int position = qs_case_position(one, role);
    assert(position >= 0);
    return &one->operand[position];
}

const qs_shape *qs__shape(const qs_case *one, qs_role role) {
    return &operand_of(one, role)->shape;
}

bool qs__present(const qs_case *one, qs_role role) {
    return operand_of(one, role)->format != NULL;
}

bool qs__is_integer(const qs_case *one, qs_role role) {
    return operand_of(one, role)->format->kind == QS_KIND_INTEGER;
}

qs_status qs__refuse(const qs_case *one, const char *format, ...) {
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return qs_fail(QS_USAGE, "%s/%s: %s", one->op->name, one->pass->name, text);
}

qs_status qs__need_shape(const qs_case *one, qs_role role, qs_shape expected) {
    const qs_operand *operand = operand_of(one, role);
    char is[96], should[96];
    if (!operand->format || qs_shape_equal(&operand->shape, &expected)) return QS_OK;
    return qs__refuse(one, "%s is %s, the other operands need %s", qs_role_name(role), qs_shape_text(&operand->shape, is),
                      qs_shape_text(&expected, should));
}

qs_status qs__need_axes(const qs_case *one, qs_role role, int least, int most) {
    const qs_shape *shape = qs__shape(one, role);
    char is[96];
    if (shape->axes >= least && shape->axes <= most) return QS_OK;
    if (least == most) return qs__refuse(one, "%s is %s, it needs %d axes", qs_role_name(role), qs_shape_text(shape, is), least);
    return qs__refuse(one, "%s is %s, it needs %d to %d axes", qs_role_name(role), qs_shape_text(shape, is), least, most);
}

qs_status qs__need_same(const qs_case *one, qs_role role, qs_role as) {
    return qs__need_shape(one, role, *qs__shape(one, as));
}

qs_status qs__need_sequences(const qs_attributes *with, const qs_shape *src, const char *name) {
    char text[96];
    if (with->sequences >= 0 && with->sequences == floor(with->sequences) && src->dim[2] % qs__sequences(with) == 0) return QS_OK;
    return qs_fail(QS_USAGE, "%s: %g sequences do not divide the positions of %s", name, with->sequences, qs_shape_text(src, text));
}

qs_status qs__infer_alike(const char *name, const qs_shape *src, qs_shape *dst) {
    char first[96], second[96];
    if (!qs_shape_equal(&src[0], &src[1])) {
        return qs_fail(QS_USAGE, "%s: inputs %s and %s must have one shape", name, qs_shape_text(&src[0], first),
                       qs_shape_text(&src[1], second));
    }
    *dst = src[0];
    return QS_OK;
}

qs_status qs__need_one_format(const qs_case *one) {
    for (int i = 1; i < one->operands; i++) {
        if (one->operand[i].format == one->operand[0].format) continue;
        return qs__refuse(one, "%s is %s and %s is %s: values are moved as they are, so the formats must agree; cast before",
                          qs_role_name(one->operand[0].role), one->operand[0].format->name, qs_role_name(one->operand[i].role),
                          one->operand[i].format->name);
    }
    return QS_OK;
}

qs_status qs__need_inferred(const qs_case *one, qs_role src, int64_t outputs, qs_role dst) {
    qs_shape inferred;
    QS_TRY(one->op->infer(&one->attributes, qs__shape(one, src), outputs, &inferred));
    return qs__need_shape(one, dst, inferred);
}

qs_status qs__moving_forward_check(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_SRC, 0, QS_DST));
    return qs__need_one_format(one);
}

qs_status qs__moving_backward_check(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_DIFF_SRC, 0, QS_DIFF_DST));
    return qs__need_one_format(one);
}

qs_status qs__need_steps(const qs_case *one, qs_role steps, qs_role values) {
    const qs_shape *shape = qs__shape(one, values);
    bool many = one->attributes.per_channel;
    int axis = one->attributes.axis;
    if (many) QS_TRY(qs__need_axes(one, values, axis + 1, QS_MAX_AXES));
    return qs__need_shape(one, steps, qs_shape_of(1, many ? shape->dim[axis] : 1));
}

qs_status qs__check_absmax(const qs_case *one) {
    return qs__need_shape(one, QS_ABSMAX, qs_shape_of(1, (int64_t)1));
}

qs_status qs__window(const qs_attributes *with, int axis, int64_t extent, int64_t *out) {
    const char *name = axis ? "width" : "height";
    const int kernel = with->kernel[axis], stride = with->stride[axis], padding = with->padding[axis], dilation = with->dilation[axis];
    const int64_t behind = (int64_t)padding + with->padding_more[axis], reach = (int64_t)(kernel - 1) * (dilation ? dilation : 1) + 1;
    if (kernel < 1 || stride < 0 || padding < 0 || dilation < 0) {
        return qs_fail(QS_USAGE,
                       "kernel %d, stride %d, padding %d, dilation %d along %s: kernel, stride and dilation must be positive, "
                       "padding not negative",
                       kernel, stride, padding, dilation, name);
    }
    const int64_t room = extent + padding + behind - reach;
    if (room < 0) {
        return qs_fail(
            QS_USAGE,
            "a kernel of %d that reaches over %lld does not fit the %s of %lld with padding %d and %lld: use a larger image or a "
            "smaller kernel",
            kernel, (long long)reach, name, (long long)extent, padding, (long long)behind);
    }
    *out = room / (stride ? stride : 1) + 1;
    return QS_OK;
}

void qs__window_take(const qs_attributes *with, qs__geometry *out) {
    for (int i = 0; i < 2; i++) {
        out->kernel[i] = with->kernel[i] ? with->kernel[i] : 1;
        out->stride[i] = with->stride[i] ? with->stride[i] : 1;
        out->dilation[i] = with->dilation[i] ? with->dilation[i] : 1;
        out->padding[i] = with->padding[i];
    }
}

/* ---- The general part ---- */

const qs_format *qs_role_format(qs_role role) {
    switch (role) {
    case QS_MASK: /* bytes that are no numbers */
    case QS_SRC_GROUP:
    case QS_DIFF_DST_GROUP:
    case QS_DST_GROUP:
        return qs_format_of("int8");
    case QS_SRC:
    case QS_SRC2:
    case QS_SRC3:
    case QS_WEIGHTS:
    case QS_DST:
    case QS_DIFF_DST:
    case QS_DIFF_DST2:
    case QS_DIFF_SRC:
    case QS_DIFF_SRC2:
    case QS_DIFF_SRC3:
    case QS_PACKED:
        return NULL;
    default:
        return qs_format_of("fp32");
    }
}

bool qs_role_is_integers(qs_role role) {
    return role == QS_LABELS || role == QS_IDS || role == QS_KEEP || role == QS_PLACE;
}

qs_status qs__check_place(const qs_case *one) {
    return qs__present(one, QS_PLACE) ? qs__need_shape(one, QS_PLACE, qs_shape_of(2, (int64_t)1, (int64_t)1)) : QS_OK;
}

qs_status qs_place_check(const qs_case *one, int32_t place, int64_t positions, int64_t rows) {
    if (place >= 0 && place <= rows - positions) return QS_OK;
    return qs_fail(QS_USAGE, "%s: %lld positions from place %d on, there are places 0 to %lld", one->op->name, (long long)positions, place,
                   (long long)rows - 1);
}

static qs_status check_operands(const qs_case *one) {
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        const char *role = qs_role_name(operand->role);
        const qs_format *needed = qs_role_format(operand->role);
        if (!operand->format) {
            if (one->pass->operand[i].optional) continue;
            return qs__refuse(one, "operand %s is missing", role);
        }
        QS_TRY(qs_fail_within(qs_shape_check(&operand->shape, role), "%s/%s", one->op->name, one->pass->name));
        if (needed && operand->format != needed)
            return qs__refuse(one, "%s is %s, it must be %s", role, operand->format->name, needed->name);
        if (!needed && operand->format->kind == QS_KIND_INTEGER && !one->pass->operand[i].integer)
            return qs__refuse(one, "%s is %s, it must be a float format", role, operand->format->name);
    }
    return QS_OK;
}

/* Attributes that belong to windows, channels and random draws. */
static qs_status check_attributes(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    for (int i = 0; i < 2; i++) {
        if (with->kernel[i] < 0 || with->stride[i] < 1 || with->dilation[i] < 1 || with->padding[i] < 0) {
            return qs__refuse(one,
                              "kernel %d, stride %d, dilation %d, padding %d: stride and dilation must be positive, kernel and padding not "
                              "negative",
                              with->kernel[i], with->stride[i], with->dilation[i], with->padding[i]);
        }
    }
    if (with->groups < 1) return qs__refuse(one, "%d groups: at least 1", with->groups);
    if (with->offset < 0) return qs__refuse(one, "offset %d: it must not be negative", with->offset);
    if ((unsigned)with->rounding >= QS_ROUNDING_COUNT) return qs__refuse(one, "unknown rounding %d", (int)with->rounding);
    if ((unsigned)with->overflow >= QS_OVERFLOW_COUNT) return qs__refuse(one, "unknown overflow %d", (int)with->overflow);
    if (with->axis < 0 || with->axis > 1) return qs__refuse(one, "axis %d: channels lie along axis 0 or 1", with->axis);
    if (with->shifts < 0 || with->shifts > QS_MOST_SHIFT_GROUPS) {
        return qs__refuse(one, "%d shift groups: 1 to %d, or 0 for none", with->shifts, QS_MOST_SHIFT_GROUPS);
    }
    if (with->accumulator.adder && !qs_op_multiplies(one->op)) return qs__refuse(one, "an accumulator is for conv2d and linear only");
    if (with->gradients && !one->op->inner)
        return qs__refuse(one, "gradients=%s: only a recurrence multiplies codes inside", with->gradients->name);
    if (with->blocks && qs_op_of("block_round") != one->op) return qs__refuse(one, "blocks=%s: block_round knows them", with->blocks->name);
    if (with->batched && with->per_channel && with->axis == 0) return qs__refuse(one, "batched and per_channel exclude each other");
    const int block = with->hadamard;
    if (block == 0) return QS_OK;
    if (block < 2 || block > QS_MOST_HADAMARD || (block & (block - 1)))
        return qs__refuse(one, "hadamard=%d: blocks are of 2, 4, 8 ... %d", block, QS_MOST_HADAMARD);
    const bool quantizes = one->op->kind == QS_AUXILIARY && qs_case_position(one, QS_ABSMAX) >= 0;
    if (quantizes || qs_case_position(one, QS_DIFF_WEIGHTS) >= 0) return QS_OK;
    return qs__refuse(one, "hadamard=%d: absmax, quantize and weight gradients know transforms", block);
}

/* What the operator declares; and a ceiling, which is a number that fp32 holds and has a meaning in a relu, or behind `relu`, only. */
static qs_status check_settings(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    for (int i = 0; i < qs_op_settings(one->op); i++) {
        const qs_setting *setting = &one->op->setting[i];
        const double value = qs_op_value(one->op, with, i);
        if (!(isfinite(value) && value >= setting->least && value <= setting->most))
            return qs__refuse(one, "%s is %g: it must lie in %g .. %.9g", setting->name, value, setting->least, setting->most);
    }
    if (with->accumulate && (!one->op->shares || one->pass != qs_op_pass(one->op, "backward")))
        return qs__refuse(one, "accumulate: only backward passes of operators that share their weights add to a gradient");
    if (with->relu && !one->op->norm && !one->op->does_relu)
        return qs__refuse(one, "relu: only normalisations and add do a relu behind them");
    if (with->ceiling == 0) return QS_OK;
    if (!with->relu && qs_op_setting(one->op, "ceiling") < 0)
        return qs__refuse(one, "ceiling %g: it needs the attribute relu", with->ceiling);
    if (with->ceiling > 0 && (double)(float)with->ceiling == with->ceiling) return QS_OK;
    return qs__refuse(one, "ceiling is %g: it must be 0 (none) or a positive fp32 number", with->ceiling);
}

qs_status qs_case_check(const qs_case *one) {
    QS_TRY(check_attributes(one));
    QS_TRY(check_settings(one));
    QS_TRY(check_operands(one));
    return one->pass->check(one);
}
