// SPDX-License-Identifier: Apache-2.0
/* Which conversions a class is fitted for: every kind that a schedule of the model was seen to place, and every kind that the class's
 * formats allow (docs/method.md §4.4), so that a recipe written by hand finds its costs too. What the device has no kernel for is left out:
 * lowering asks the device for each step, so no schedule can place it. */
#include "timing/kinds.h"

#include "qsync/costmodel.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FLOATS = 2 * QS_MAX_FORMATS, SHIFTS = 4, BLOCK = 16 };

static bool same_kind(const qs_case *a, const qs_case *b) {
    const qs_format *first = a->operand[qs_case_position(a, QS_SRC)].format, *second = b->operand[qs_case_position(b, QS_SRC)].format;
    return a->op == b->op && qs_conversion_formats_alike(first, second) &&
           qs_conversion_formats_alike(qs_conversion_target(a), qs_conversion_target(b)) &&
           qs_conversion_steps_of(a) == qs_conversion_steps_of(b) && a->attributes.rounding == b->attributes.rounding &&
           a->attributes.least_squares == b->attributes.least_squares && qs_conversion_of_weights(a) == qs_conversion_of_weights(b);
}

static qs_status kind_add(qs__kinds *kinds, const qs_case *one) {
    int k = 0;
    while (k < kinds->count && !same_kind(&kinds->kind[k], one))
        k++;
    if (k < kinds->count) return QS_OK;
    QS_TRY(qs_grow(&kinds->kind, &kinds->capacity, (size_t)kinds->count + 1, sizeof *kinds->kind));
    kinds->kind[kinds->count++] = *one;
    return QS_OK;
}

/* Adds the kind of a case unless it is there; nothing where the device has no kernel for it, or one that wants more scratch than steps and
 * maxima take: that would be as large as its operands, and more than what is fitted here. */
static qs_status kind_wish(qs_device *device, const qs_case *one, qs__kinds *kinds) {
    qs_kernel_fact fact;
    const qs_status status = qs_device_fact(device, one, &fact);
    if (status == QS_OK && fact.scratch_bytes > QS__CONVERSION_SCRATCH) return QS_OK;
    return status == QS_OK ? kind_add(kinds, one) : status == QS_UNSUPPORTED || status == QS_USAGE ? QS_OK : status;
}

/* ---- What the formats allow -------------------------------------------------------------------------------------------------------- */

typedef struct formats {
    const qs_format *real[MOST_FLOATS], *integer[MOST_FLOATS];
    int reals, integers;
} formats;

static void format_add(formats *all, const qs_format *one) {
    const bool real = one->kind == QS_KIND_FLOAT;
    const qs_format **list = real ? all->real : all->integer;
    int *count = real ? &all->reals : &all->integers;
    for (int i = 0; i < *count; i++)
        if (list[i] == one) return;
    list[(*count)++] = one;
}

static formats formats_of(const qs_class *one) {
    formats all = {0};
    for (int i = 0; i < one->formats; i++)
        format_add(&all, one->format[i]);
    for (int i = 0; i < one->storages; i++)
        format_add(&all, one->storage[i]);
    return all;
}

typedef struct wish {
    const char *op;
    const qs_format *from, *to; /* to NULL: none */
    qs_conversion_steps steps;
    bool weights;
    qs_rounding rounding;
} wish;

/* What a kind's steps say of its cases. */
static qs_attributes attributes_of(const wish *wanted) {
    const bool shifts = wanted->steps == QS_STEPS_SHIFT, mixed = wanted->steps == QS_STEPS_HADAMARD;
    const bool blocks = mixed || wanted->steps == QS_STEPS_HADAMARD_ROWS;
    const bool draws = qs_op_of(wanted->op)->converts;
    return (qs_attributes){.rounding = wanted->rounding,
                           .axis = shifts || mixed || wanted->steps == QS_STEPS_COLUMN,
                           .shifts = shifts ? SHIFTS : 0,
                           .hadamard = blocks ? BLOCK : 0,
                           .per_channel = wanted->steps != QS_STEPS_TENSOR && !blocks,
                           .batched = draws && wanted->steps != QS_STEPS_CHANNEL && !wanted->weights};
}

/* Shapes are set when a size is timed; here they only have to be possible. Channels along axis 1 are those of images. */
static qs_case case_make(const wish *wanted) {
    const qs_attributes attributes = attributes_of(wanted);
    const bool shifts = attributes.shifts > 0, rows = attributes.per_channel && attributes.axis == 0;
    const qs_shape shape = attributes.axis == 1 ? qs_shape_of(4, (int64_t)BLOCK, (int64_t)64, (int64_t)1, (int64_t)1)
                                                : qs_shape_of(2, (int64_t)BLOCK, (int64_t)64),
                   single = qs_shape_of(1, (int64_t)1);
    const qs_shape steps = attributes.per_channel ? qs_shape_of(1, shape.dim[attributes.axis]) : single;
    qs_case one = qs_case_make(wanted->op, "forward", &attributes);
    for (int i = 0; i < one.operands; i++) {
        const qs_role role = one.pass->operand[i].role;
        const bool whole = role == QS_SRC || role == QS_SRC2 || role == QS_DST, group = role == QS_DST_GROUP || role == QS_SRC_GROUP;
        const qs_format *format = role == QS_DST ? wanted->to : whole ? wanted->from : qs_format_of(group ? "int8" : "fp32");
        if (group && !shifts) continue;
        if (one.pass->operand[i].source == QS_TO_BACKWARD) continue; /* of a sum with a relu behind, which is none */
        if (role == QS_ABSMAX && rows && one.pass->operand[i].optional) continue;
        if (role == QS_COLUMN_ABSMAX && wanted->steps != QS_STEPS_CHANNEL_AND_COLUMN) continue;
        qs_case_bind(&one, role,
                     whole                           ? shape
                     : role == QS_DST_STEP && shifts ? single
                     : role == QS_COLUMN_ABSMAX      ? qs_shape_of(1, shape.dim[1])
                                                     : steps,
                     format);
    }
    return one;
}

static qs_status wish_add(qs_device *device, wish wanted, qs__kinds *kinds) {
    const qs_case one = case_make(&wanted);
    return kind_wish(device, &one, kinds);
}

/* Weights are kept in fp32. */
static qs_status cast_add(qs_device *device, const qs_format *from, const qs_format *to, qs__kinds *kinds) {
    QS_TRY(wish_add(device, (wish){"cast", from, to, QS_STEPS_TENSOR, false, QS_NEAREST_EVEN}, kinds));
    return from == qs_format_of("fp32") ? wish_add(device, (wish){"cast", from, to, QS_STEPS_TENSOR, true, QS_NEAREST_EVEN}, kinds) : QS_OK;
}

/* Weights are kept in fp32. */
static qs_status transforms_add(qs_device *device, const qs_format *real, const qs_format *integer, qs__kinds *kinds) {
    for (qs_conversion_steps steps = QS_STEPS_HADAMARD; steps <= QS_STEPS_HADAMARD_ROWS; steps++) {
        QS_TRY(wish_add(device, (wish){"absmax", real, NULL, steps, false, QS_NEAREST_EVEN}, kinds));
        QS_TRY(wish_add(device, (wish){"quantize", real, integer, steps, false, QS_STOCHASTIC}, kinds));
        if (real == qs_format_of("fp32")) QS_TRY(wish_add(device, (wish){"quantize", real, integer, steps, true, QS_STOCHASTIC}, kinds));
    }
    return QS_OK;
}

/* int8 stands for a forward product in it, narrower ones for all three (qs_class_recipes): shift groups, weights by input channel and
 * Hadamard transforms. */
static qs_status fixed_point_add(qs_device *device, const qs_format *real, const qs_format *integer, qs__kinds *kinds) {
    for (qs_conversion_steps steps = QS_STEPS_TENSOR; steps <= QS_STEPS_CHANNEL; steps++) {
        QS_TRY(wish_add(device, (wish){"quantize", real, integer, steps, steps, QS_NEAREST_EVEN}, kinds));
        QS_TRY(wish_add(device, (wish){"quantize", real, integer, steps, steps, QS_STOCHASTIC}, kinds));
        QS_TRY(wish_add(device, (wish){"dequantize", integer, real, steps, false, QS_NEAREST_EVEN}, kinds));
    }
    if (integer->bits == 8) return QS_OK;
    QS_TRY(wish_add(device, (wish){"absmax", real, NULL, QS_STEPS_COLUMN, false, QS_NEAREST_EVEN}, kinds));
    QS_TRY(wish_add(device, (wish){"quantize", real, integer, QS_STEPS_CHANNEL_AND_COLUMN, true, QS_STOCHASTIC}, kinds));
    QS_TRY(wish_add(device, (wish){"quantize", real, integer, QS_STEPS_COLUMN, true, QS_STOCHASTIC}, kinds));
    QS_TRY(wish_add(device, (wish){"quantize", real, integer, QS_STEPS_SHIFT, false, QS_STOCHASTIC}, kinds));
    return transforms_add(device, real, integer, kinds);
}

/* Formats that a class stores but does not compute in: tensors may be assigned to them, which is emulated in fp32. What rounding to them
 * and packing costs is fitted like conversions; the kernels are the same at any size, so one case of each stands for all. */
static bool is_small(const qs_format *format) {
    return format->kind == QS_KIND_FLOAT && format != qs_format_of("fp32");
}

/* Draws follow samples. packed NULL: to any format, without packing. */
static qs_case rounding_case(const qs_format *packed, qs_rounding rounding) {
    const qs_format *fp32 = qs_format_of("fp32");
    const qs_shape shape = qs_shape_of(2, (int64_t)8, (int64_t)64);
    const qs_attributes attributes = {
        .rounding = rounding, .batched = rounding == QS_STOCHASTIC, .to = packed ? packed : qs_format_of("bf16")};
    qs_case one = qs_case_make("round", packed ? "pack" : "forward", &attributes);
    qs_case_bind(&one, QS_SRC, shape, fp32);
    qs_case_bind(&one, QS_DST, shape, fp32);
    if (packed) qs_case_bind(&one, QS_PACKED, shape, packed);
    return one;
}

static qs_status rounding_add(qs_device *device, const qs_format *packed, qs__kinds *kinds) {
    const qs_case nearest = rounding_case(packed, QS_NEAREST_EVEN), stochastic = rounding_case(packed, QS_STOCHASTIC);
    QS_TRY(kind_wish(device, &nearest, kinds));
    return kind_wish(device, &stochastic, kinds);
}

static qs_status emulated_add(qs_device *device, const qs_class *one, qs__kinds *kinds) {
    if (!qs__class_emulates(one)) return QS_OK;
    QS_TRY(rounding_add(device, NULL, kinds));
    for (int i = 0; i < one->storages; i++)
        if (is_small(one->storage[i])) QS_TRY(rounding_add(device, one->storage[i], kinds));
    return QS_OK;
}

static qs_status allowed_add(qs_device *device, const qs_class *class_, qs__kinds *kinds) {
    const formats all = formats_of(class_);
    QS_TRY(emulated_add(device, class_, kinds));
    for (int from = 0; from < all.reals; from++)
        for (int to = 0; to < all.reals; to++)
            if (from != to) QS_TRY(cast_add(device, all.real[from], all.real[to], kinds));
    for (int real = 0; real < all.reals; real++) {
        QS_TRY(wish_add(device, (wish){"add", all.real[real], all.real[real], QS_STEPS_TENSOR, false, QS_NEAREST_EVEN}, kinds));
        if (all.integers > 0)
            QS_TRY(wish_add(device, (wish){"absmax", all.real[real], NULL, QS_STEPS_TENSOR, false, QS_NEAREST_EVEN}, kinds));
        for (int integer = 0; integer < all.integers; integer++)
            QS_TRY(fixed_point_add(device, all.real[real], all.integer[integer], kinds));
    }
    return QS_OK;
}

qs_status qs__kinds_list(const qs_class *class_, const qs__cases *cases, qs__kinds *out) {
    qs__kinds kinds = {0};
    qs_status status = QS_OK;
    for (int i = 0; i < cases->count && status == QS_OK; i++)
        if (cases->entry[i].as_conversion) status = kind_add(&kinds, &cases->entry[i].case_);
    if (status == QS_OK) status = allowed_add(cases->device, class_, &kinds);
    if (status != QS_OK) {
        free(kinds.kind);
        return status;
    }
    *out = kinds;
    return QS_OK;
}

/* ---- Cases of any size ---- */

static qs_status any_size_add(qs__cases *cases, const qs_case *one) {
    qs_case like;
    qs_kernel_row row;
    char text[QS_CASE_TEXT];
    qs_case_of_any_size(one, &like);
    QS_TRY(qs__cases_lookup(cases, &like, qs_case_text(&like, text), &row));
    if (row.scratch_bytes > 0) return qs_fail(QS_UNSUPPORTED, "%s wants scratch memory; kernels of any size have none", text);
    cases->entry[qs__cases_find(cases, text)].as_conversion = true;
    return QS_OK;
}

static qs_status any_cast_add(qs__cases *cases, const qs_format *from, const qs_format *to) {
    qs_case one = qs_case_make("cast", "forward", NULL);
    qs_case_bind(&one, QS_SRC, qs_shape_of(1, (int64_t)64), from);
    qs_case_bind(&one, QS_DST, qs_shape_of(1, (int64_t)64), to);
    return any_size_add(cases, &one);
}

static qs_status emulated_cases_add(qs__cases *cases, const qs_format *format) {
    const qs_format *fp32 = qs_format_of("fp32");
    const qs_case pack = rounding_case(format, QS_NEAREST_EVEN);
    qs_case round = rounding_case(NULL, QS_NEAREST_EVEN);
    round.attributes.to = format;
    QS_TRY(any_size_add(cases, &round));
    QS_TRY(any_size_add(cases, &pack));
    QS_TRY(any_cast_add(cases, fp32, format));
    return any_cast_add(cases, format, fp32);
}

qs_status qs__any_size_cases(const qs_class *class_, qs__cases *cases) {
    for (int i = 0; qs__class_emulates(class_) && i < class_->storages; i++)
        if (is_small(class_->storage[i])) QS_TRY(emulated_cases_add(cases, class_->storage[i]));
    return QS_OK;
}
