// SPDX-License-Identifier: Apache-2.0
/* Cases: making, binding and comparing them, their cost in operations and bytes, their random counters, running the reference, and their
 * texts. */
#include "internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/blocks.h"

void qs_case_start(qs_case *one, const qs_op *op, const qs_pass *pass, const qs_attributes *attributes) {
    memset(one, 0, sizeof *one);
    one->op = op;
    one->pass = pass;
    if (attributes) one->attributes = *attributes;
    qs_attributes_complete(op, &one->attributes);
    one->operands = pass->operands;
    for (int i = 0; i < pass->operands; i++)
        one->operand[i].role = pass->operand[i].role;
}

qs_case qs_case_make(const char *op, const char *pass, const qs_attributes *attributes) {
    const qs_op *known = qs_op_of(op);
    const qs_pass *found = qs_op_pass(known, pass);
    assert(found && "unknown pass");
    qs_case one;
    qs_case_start(&one, known, found, attributes);
    return one;
}

bool qs_case_equal(const qs_case *a, const qs_case *b) {
    const qs_attributes *with = &a->attributes, *other = &b->attributes;
    if (a->op != b->op || a->pass != b->pass) return false;
    for (int i = 0; i < 2; i++)
        if (with->kernel[i] != other->kernel[i] || with->stride[i] != other->stride[i] || with->padding[i] != other->padding[i] ||
            with->dilation[i] != other->dilation[i] || with->padding_more[i] != other->padding_more[i])
            return false;
    if (with->groups != other->groups || with->offset != other->offset || with->axis != other->axis || with->shifts != other->shifts ||
        with->hadamard != other->hadamard || with->epsilon != other->epsilon || with->momentum != other->momentum ||
        with->probability != other->probability || with->ceiling != other->ceiling || with->beta1 != other->beta1 ||
        with->beta2 != other->beta2 || with->weight_decay != other->weight_decay || with->clip_norm != other->clip_norm ||
        with->vocabulary != other->vocabulary || with->heads != other->heads || with->key_heads != other->key_heads ||
        with->causal != other->causal || with->transposed != other->transposed || with->merged != other->merged ||
        with->scale != other->scale || with->base != other->base || with->position != other->position || with->window != other->window ||
        with->sequences != other->sequences || with->along != other->along || with->approximate != other->approximate ||
        with->context != other->context || with->size != other->size || with->alpha != other->alpha || with->beta != other->beta ||
        with->bias != other->bias || with->mode != other->mode || with->value != other->value || with->height != other->height ||
        with->width != other->width || with->scale_height != other->scale_height || with->scale_width != other->scale_width ||
        with->coordinates != other->coordinates || with->nearest != other->nearest || with->count_padding != other->count_padding ||
        with->order != other->order || with->over != other->over || with->constant[0] != other->constant[0] ||
        with->constant[1] != other->constant[1] || with->rounding != other->rounding || with->overflow != other->overflow ||
        with->to != other->to || with->blocks != other->blocks || with->gradients != other->gradients || with->batched != other->batched ||
        with->relu != other->relu || with->accumulate != other->accumulate || with->per_channel != other->per_channel ||
        with->least_squares != other->least_squares || !qs_narrow_equal(&with->accumulator, &other->accumulator))
        return false;
    for (int i = 0; i < 5; i++)
        if (with->extent[i] != other->extent[i]) return false;
    for (int i = 0; i < a->operands; i++) {
        const qs_operand *left = &a->operand[i], *right = &b->operand[i];
        if (left->format != right->format) return false;
        if (left->format && !qs_shape_equal(&left->shape, &right->shape)) return false;
    }
    return true;
}

/* One round of a multiplicative hash: the product spreads a word upwards, the shift brings it back down. */
static uint64_t fold(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

uint64_t qs_case_hash(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const qs_narrow *narrow = &with->accumulator;
    const int pair[][2] = {{with->kernel[0], with->kernel[1]},
                           {with->stride[0], with->stride[1]},
                           {with->padding[0], with->padding[1]},
                           {with->dilation[0], with->dilation[1]},
                           {with->padding_more[0], with->padding_more[1]},
                           {with->offset, (int)with->overflow},
                           {with->hadamard, with->shifts << 1 | with->axis},
                           {with->groups, (int)with->least_squares << 8 | (int)with->rounding << 5 | with->count_padding << 4 |
                                              with->accumulate << 3 | with->relu << 2 | with->batched << 1 | with->per_channel}};
    const double number[] = {with->epsilon,      with->momentum,    with->probability, with->ceiling, with->beta1,     with->beta2,
                             with->weight_decay, with->clip_norm,   with->vocabulary,  with->heads,   with->key_heads, with->causal,
                             with->transposed,   with->merged,      with->scale,       with->base,    with->position,  with->approximate,
                             with->window,       with->sequences,   with->along,       with->context, with->size,      with->alpha,
                             with->beta,         with->bias,        with->mode,        with->value,   with->height,    with->width,
                             with->scale_height, with->scale_width, with->coordinates, with->nearest, with->extent[0], with->extent[1],
                             with->extent[2],    with->extent[3],   with->extent[4],   with->order,   with->over,      with->constant[0],
                             with->constant[1]};
    uint64_t hash = fold((uint64_t)(uintptr_t)one->pass, (uint64_t)(uintptr_t)one->op);
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        hash = fold(hash, (uint64_t)(uint32_t)pair[i][0] << 32 | (uint32_t)pair[i][1]);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        uint64_t word;
        if (number[i] == 0) continue; /* nearly all: few operators have settings; negative zero is none either */
        memcpy(&word, &number[i], sizeof word);
        hash = fold(hash, word + i);
    }
    hash = fold(hash, (uint64_t)(uintptr_t)with->to);
    if (with->blocks) hash = fold(hash, (uint64_t)(uintptr_t)with->blocks);
    if (with->gradients) hash = fold(hash, (uint64_t)(uintptr_t)with->gradients);
    if (narrow->adder) {
        hash = fold(hash, (uint64_t)(uintptr_t)narrow->adder ^ (uint64_t)narrow->chunk);
        hash = fold(hash, (uint64_t)narrow->exponent_bits << 32 | (uint64_t)narrow->mantissa_bits << 16 | (uint64_t)narrow->product_bits);
    }
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format) continue;
        hash = fold(hash, (uint64_t)(uintptr_t)operand->format + (uint64_t)i);
        for (int axis = 0; axis < operand->shape.axes; axis++)
            hash = fold(hash, (uint64_t)operand->shape.dim[axis]);
    }
    return hash;
}

int qs_case_position(const qs_case *one, qs_role role) {
    for (int i = 0; i < one->operands; i++) {
        if (one->operand[i].role == role) return i;
    }
    return -1;
}

void qs_case_bind(qs_case *one, qs_role role, qs_shape shape, const qs_format *format) {
    int position = qs_case_position(one, role);
    assert(position >= 0 && "the pass has no such operand");
    one->operand[position].shape = shape;
    one->operand[position].format = format;
}

double qs_case_flops(const qs_case *one) {
    return one->pass->flops ? one->pass->flops(one) : (double)qs_shape_count(&one->operand[0].shape);
}

double qs_case_bytes(const qs_case *one) {
    double bytes = 0;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        const bool updated = (one->op->optimizer || one->op->updates) && qs_pass_writes(one->pass, i);
        if (operand->format) bytes += (updated ? 2 : 1) * (double)qs_tensor_bytes(&operand->shape, operand->format);
    }
    return bytes;
}

qs_random_rows qs_op_random_rows(const qs_case *one, const qs_run *run) {
    const qs_shape *shape = &one->operand[0].shape;
    qs_random_rows rows = {.rows = 1, .per_row = qs_shape_count(shape)};
    rows.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream);
    const bool by_row = (one->attributes.per_channel || one->attributes.hadamard > 0) && one->attributes.axis == 0;
    if (one->attributes.batched || by_row) {
        rows.rows = shape->dim[0];
        rows.per_row /= rows.rows;
    }
    const bool rounds = one->op->kind == QS_AUXILIARY; /* dropout does not */
    rows.stride = (uint64_t)rows.per_row + (rounds ? (uint64_t)rows.per_row & 1u : 0u);
    if (one->attributes.batched) rows.first = (uint64_t)run->first_sample * rows.stride;
    return rows;
}

qs_status qs_case_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    return one->pass->reference(one, operands, run);
}

/* ---- Text, written ----
 *
 * Words are separated by one space: "op/pass", then operands "role=format[extents]" in the pass's order, then the attributes that differ
 * from their default, in a fixed order: equal cases have equal texts. */

typedef struct writer {
    char *text;
    size_t used;
} writer;

static void put(writer *to, const char *format, ...) QS_PRINTF(2, 3);
static void put(writer *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int wrote = vsnprintf(to->text + to->used, QS_CASE_TEXT - to->used, format, list);
    va_end(list);
    assert(wrote >= 0 && to->used + (size_t)wrote < QS_CASE_TEXT); /* twelve operands of 2^40 elements fit */
    to->used += (size_t)wrote;
    if (to->used >= QS_CASE_TEXT) to->used = QS_CASE_TEXT - 1;
}

static void put_pair(writer *to, const char *name, const int pair[2], int standard) {
    if (pair[0] != standard || pair[1] != standard) put(to, " %s=%dx%d", name, pair[0], pair[1]);
}

/* The shortest decimal that reads back as the same double; whole numbers with all their digits. */
static void put_number(writer *to, const char *name, double number) {
    if (number == 0) return;
    char text[40];
    const bool whole = fabs(number) < 0x1p53 && number == floor(number);
    if (whole) snprintf(text, sizeof text, "%.0f", number);
    for (int digits = 1; digits <= 17 && !whole; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    put(to, " %s=%s", name, text);
}

const char *qs_case_text(const qs_case *one, char *text) {
    writer to = {.text = text};
    char shape[96];
    put(&to, "%s/%s", one->op->name, one->pass->name);
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format) continue;
        put(&to, " %s=%s%s", qs_role_name(operand->role), operand->format->name, qs_shape_text(&operand->shape, shape));
    }
    const qs_attributes *with = &one->attributes;
    put_pair(&to, "kernel", with->kernel, 0);
    put_pair(&to, "stride", with->stride, 1);
    put_pair(&to, "dilation", with->dilation, 1);
    put_pair(&to, "padding", with->padding, 0);
    put_pair(&to, "padding_more", with->padding_more, 0);
    if (with->groups != 1) put(&to, " groups=%d", with->groups);
    if (with->offset != 0) put(&to, " offset=%d", with->offset);
    if (with->axis != 0) put(&to, " axis=%d", with->axis);
    if (with->shifts != 0) put(&to, " shifts=%d", with->shifts);
    if (with->hadamard != 0) put(&to, " hadamard=%d", with->hadamard);
    for (int i = 0; i < qs_op_settings(one->op); i++)
        put_number(&to, one->op->setting[i].name, qs_op_value(one->op, with, i));
    if (with->relu) put_number(&to, "ceiling", with->ceiling);
    if (with->rounding != QS_NEAREST_EVEN) put(&to, " rounding=%s", qs_rounding_name(with->rounding));
    if (with->overflow != QS_OVERFLOW_DEFAULT) put(&to, " overflow=%s", qs_overflow_name(with->overflow));
    if (with->to) put(&to, " to=%s", with->to->name);
    if (with->blocks) put(&to, " blocks=%s", with->blocks->name);
    if (with->gradients) put(&to, " gradients=%s", with->gradients->name);
    char accumulator[QS_NARROW_TEXT];
    if (with->accumulator.adder) put(&to, " accumulator=%s", qs_narrow_text(&with->accumulator, accumulator));
    if (with->batched) put(&to, " batched");
    if (with->relu) put(&to, " relu");
    if (with->accumulate) put(&to, " accumulate");
    if (with->least_squares) put(&to, " mse");
    if (with->per_channel) put(&to, " per_channel");
    if (with->count_padding) put(&to, " count_padding");
    return text;
}

/* ---- Text, read ---- */

static qs_status read_integer(const char **at, int64_t *out) {
    if (**at < '0' || **at > '9') return qs_fail(QS_USAGE, "\"%s\": expected a number", *at);
    int64_t value = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        if (value > (INT64_MAX - 9) / 10) return qs_fail(QS_USAGE, "\"%s\": the number is too large", *at);
        value = value * 10 + (**at - '0');
    }
    *out = value;
    return QS_OK;
}

static qs_status read_shape(const char *text, qs_shape *out) {
    qs_shape shape = {.axes = 0};
    const char *at = text;
    if (*at++ != '[') return qs_fail(QS_USAGE, "\"%s\": expected a shape like [8,16]", text);
    while (*at != ']') {
        if (shape.axes == QS_MAX_AXES) return qs_fail(QS_USAGE, "\"%s\": more than %d axes", text, QS_MAX_AXES);
        if (shape.axes > 0 && *at++ != ',') return qs_fail(QS_USAGE, "\"%s\": expected a shape like [8,16]", text);
        QS_TRY(read_integer(&at, &shape.dim[shape.axes++]));
    }
    if (at[1] != '\0') return qs_fail(QS_USAGE, "\"%s\": nothing may follow the shape", text);
    QS_TRY(qs_shape_check(&shape, text));
    *out = shape;
    return QS_OK;
}

/* "int8[128,16]" */
static qs_status read_operand(const char *text, qs_operand *operand) {
    char name[sizeof operand->format->name];
    size_t length = strcspn(text, "[");
    if (length >= sizeof name) return qs_fail(QS_USAGE, "\"%s\": expected format[extents]", text);
    memcpy(name, text, length);
    name[length] = '\0';
    const qs_format *format;
    qs_shape shape;
    QS_TRY(qs_format_find(name, &format));
    QS_TRY(read_shape(text + length, &shape));
    operand->format = format;
    operand->shape = shape;
    return QS_OK;
}

static qs_status read_int(const char *text, int *out) {
    const char *at = text;
    int64_t value = 0;
    QS_TRY(read_integer(&at, &value));
    if (*at != '\0' || value > 1 << 30) return qs_fail(QS_USAGE, "\"%s\": expected a whole number up to 2^30", text);
    *out = (int)value;
    return QS_OK;
}

/* "3x3", or "-1x0" of what may be negative. */
static qs_status read_pair(const char *text, bool negative, int pair[2]) {
    const char *at = text;
    for (int i = 0; i < 2; i++) {
        int64_t value = 0;
        if (i == 1 && *at++ != 'x') return qs_fail(QS_USAGE, "\"%s\": expected a pair like 3x3", text);
        const bool minus = negative && *at == '-';
        if (minus) at++;
        QS_TRY(read_integer(&at, &value));
        if (value > 1 << 30) return qs_fail(QS_USAGE, "\"%s\": expected a pair like 3x3", text);
        pair[i] = minus ? (int)-value : (int)value;
    }
    return *at == '\0' ? QS_OK : qs_fail(QS_USAGE, "\"%s\": expected a pair like 3x3", text);
}

static qs_status read_number(const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) return qs_fail(QS_USAGE, "\"%s\": expected a finite number", text);
    *out = value;
    return QS_OK;
}

static qs_status read_attribute(const qs_op *op, const char *name, const char *text, qs_attributes *out) {
    for (int i = 0; i < qs_op_settings(op); i++)
        if (strcmp(name, op->setting[i].name) == 0) return read_number(text, (double *)(void *)((char *)out + op->setting[i].field));
    if (strcmp(name, "kernel") == 0) return read_pair(text, false, out->kernel);
    if (strcmp(name, "stride") == 0) return read_pair(text, false, out->stride);
    if (strcmp(name, "dilation") == 0) return read_pair(text, false, out->dilation);
    if (strcmp(name, "padding") == 0) return read_pair(text, false, out->padding);
    if (strcmp(name, "padding_more") == 0) return read_pair(text, true, out->padding_more);
    if (strcmp(name, "groups") == 0) return read_int(text, &out->groups);
    if (strcmp(name, "offset") == 0) return read_int(text, &out->offset);
    if (strcmp(name, "axis") == 0) return read_int(text, &out->axis);
    if (strcmp(name, "shifts") == 0) return read_int(text, &out->shifts);
    if (strcmp(name, "hadamard") == 0) return read_int(text, &out->hadamard);
    if (strcmp(name, "ceiling") == 0) return read_number(text, &out->ceiling);
    if (strcmp(name, "rounding") == 0) return qs_rounding_find(text, &out->rounding);
    if (strcmp(name, "overflow") == 0) return qs_overflow_find(text, &out->overflow);
    if (strcmp(name, "to") == 0) return qs_format_find(text, &out->to);
    if (strcmp(name, "blocks") == 0) return qs_block_format_find(text, &out->blocks);
    if (strcmp(name, "gradients") == 0) return qs_format_find(text, &out->gradients);
    if (strcmp(name, "accumulator") == 0) return qs_narrow_find(text, &out->accumulator);
    char settings[160] = "";
    for (int i = 0; i < qs_op_settings(op); i++)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), "%s, ", op->setting[i].name);
    return qs_fail(
        QS_USAGE,
        "\"%s\" is neither an operand of the pass nor one of kernel, stride, dilation, padding, padding_more, groups, offset, "
        "axis, shifts, hadamard, %sceiling, rounding, overflow, to, blocks, accumulator, batched, relu, accumulate, per_channel, "
        "mse, count_padding",
        name, settings);
}

static qs_status read_word(char *word, qs_case *one) {
    char *equals = strchr(word, '=');
    if (!equals) {
        if (strcmp(word, "batched") == 0) {
            one->attributes.batched = true;
        } else if (strcmp(word, "relu") == 0) {
            one->attributes.relu = true;
        } else if (strcmp(word, "accumulate") == 0) {
            one->attributes.accumulate = true;
        } else if (strcmp(word, "per_channel") == 0) {
            one->attributes.per_channel = true;
        } else if (strcmp(word, "mse") == 0) {
            one->attributes.least_squares = true;
        } else if (strcmp(word, "count_padding") == 0) {
            one->attributes.count_padding = true;
        } else {
            return qs_fail(QS_USAGE, "\"%s\": expected name=value, batched, relu, accumulate, per_channel, mse or count_padding", word);
        }
        return QS_OK;
    }
    *equals = '\0';
    /* A setting may be called as an operand is (momentum of sgd): only operands have extents. */
    const bool is_setting = qs_op_setting(one->op, word) >= 0 && !strchr(equals + 1, '[');
    for (int i = 0; i < one->operands && !is_setting; i++) {
        if (strcmp(word, qs_role_name(one->operand[i].role)) == 0) return read_operand(equals + 1, &one->operand[i]);
    }
    return read_attribute(one->op, word, equals + 1, &one->attributes);
}

/* "conv2d/forward" */
static qs_status read_head(char *word, qs_case *out) {
    const qs_op *op;
    char *slash = strchr(word, '/');
    if (!slash) return qs_fail(QS_USAGE, "\"%s\": expected operator/pass", word);
    *slash = '\0';
    QS_TRY(qs_op_find(word, &op));
    if (!qs_op_pass(op, slash + 1)) return qs_fail(QS_USAGE, "operator %s has no pass \"%s\"", op->name, slash + 1);
    *out = qs_case_make(op->name, slash + 1, NULL);
    return QS_OK;
}

qs_status qs_case_parse(const char *text, qs_case *out) {
    char copy[QS_CASE_TEXT], *rest = NULL;
    size_t length = strlen(text);
    if (length >= sizeof copy) return qs_fail(QS_USAGE, "the text of a case has at most %d characters", QS_CASE_TEXT - 1);
    memcpy(copy, text, length + 1);
    char *word = strtok_r(copy, " ", &rest);
    if (!word) return qs_fail(QS_USAGE, "the text of a case is empty");
    qs_case one;
    QS_TRY(read_head(word, &one));
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        QS_TRY(qs_fail_within(read_word(word, &one), "case \"%.40s...\"", text));
    }
    qs_attributes_complete(one.op, &one.attributes);
    *out = one;
    return QS_OK;
}
